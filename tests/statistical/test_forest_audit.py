"""An attack on whole fits: neighbouring tables, one record apart, and what the released forest shows.

Many one-tree forests are grown on each table with the noise of one; trees are independent, so one call
grows them all. The adversary looks at whether the root was split and at the noisy count in the record's
own leaf. Event chosen on one half, counted on the other; 5 standard errors: false alarms below 1e-6.
"""

import math

import numpy as np
import pytest
from promises import changed, plain
from trees import prune

from lumberjack import Domain
from lumberjack.engines.local import LocalRows
from lumberjack.guided import Gini, Guide
from lumberjack.kinds import CELLS, Cuts, Numeric
from lumberjack.learning import Task
from lumberjack.leaves import noisy_counts
from lumberjack.noise import Bits, RoundedGaussian, ThresholdCoin
from lumberjack.structure import Features, chance, root_keys
from lumberjack.targets import Classes
from lumberjack.training import train

pytestmark = pytest.mark.filterwarnings("ignore:delta = 0.1 is almost no protection")
EPSILON, DELTA, RUNS = 1.0, 0.1, 8_000
# Cuts that are given, so that trees alone depend on the data.
DOMAIN = Domain(
    {"flag": [False, True], "x": Cuts(Numeric(0, 1), tuple(i * CELLS // 8 for i in range(1, 8)))}
)
CANARY = (True, 0.7)


def outputs(n_rows, promise, leaf_noise, seed):
    """(split, noisy count of the canary's cell) of each run on a table of ``n_rows`` canaries."""
    table = np.array([CANARY] * n_rows, dtype=object)
    codes = DOMAIN.encode(table)
    rows = LocalRows(codes, np.ones(n_rows, dtype=np.int32))
    chosen = {"choices_per_record": RUNS * promise.guided_levels} if promise.guided_levels else {}
    many = changed(promise, n_estimators=RUNS, leaf_noise=leaf_noise, **chosen)
    assert many.guided_levels == promise.guided_levels
    task = Task(DOMAIN, Classes(np.array([0, 1])))
    forest = train(rows, task, many, Bits(seed), n_threads=2).forest
    canary = forest.apply(DOMAIN.encode(np.array([CANARY], dtype=object)))[0]
    values = np.array([v[leaf, 1] for v, leaf in zip(forest.values, canary, strict=True)])
    split = np.array([tree.n_leaves > 1 for tree in forest.trees])
    return split * 10_000 + np.clip(values, -1000, 1000)


def divergence(p, q):
    half = RUNS // 2
    values = np.unique(np.concatenate([p, q]))
    seen = [np.array([np.sum(x == v) for v in values]) for x in (p[:half], q[:half])]
    event = values[seen[0] > math.exp(EPSILON) * seen[1]]
    a, b = np.isin(p[half:], event).mean(), np.isin(q[half:], event).mean()
    error = math.sqrt((a * (1 - a) + math.exp(2 * EPSILON) * b * (1 - b)) / half)
    return a - math.exp(EPSILON) * b, error


def worst(splits, leaf_noise_factor=1.0, threshold_shift=0.0):
    promise = plain(EPSILON, DELTA, 1, 1, splits=splits, leaf="majority")
    promise = changed(promise, threshold=promise.threshold - threshold_shift)
    found = []
    for n in (1, round(promise.threshold)):
        one = outputs(n, promise, promise.leaf_noise * leaf_noise_factor, seed=n)
        two = outputs(n + 1, promise, promise.leaf_noise * leaf_noise_factor, seed=100 + n)
        found += [divergence(one, two), divergence(two, one)]
    return max(estimate - 5 * error for estimate, error in found), max(e for e, _ in found)


@pytest.mark.parametrize("splits", ["guided", "random"])
def test_a_fitted_forest_keeps_its_promise(splits):
    low, estimate = worst(splits)
    assert low <= DELTA
    assert estimate > DELTA / 20  # the attack sees something


@pytest.mark.parametrize(("splits", "factor"), [("random", 1e-3), ("random", 0.3), ("guided", 0.3)])
def test_a_planted_leak_is_caught(splits, factor):
    low, _ = worst(splits, leaf_noise_factor=factor)
    assert low > DELTA


# An attack on the choice of the split. Two columns tell the classes apart equally well; the canary makes
# one of them better by one row and the other worse by nearly as much, which is all that a record can do.
TWINS = Domain({"f": ["no", "yes"], "g": ["no", "yes"]})
FLIP = ("yes", "yes", 1)


def chosen(with_canary, promise, seed):
    """(column of the root's split, noisy count of the canary's cell) of each run.

    The adversary knows the key of the tree, and that it offers both columns.
    """
    rows = [("yes", "no", 1)] * 40 + [("no", "yes", 0)] * 40 + [FLIP] * with_canary
    codes = TWINS.encode(np.array([row[:2] for row in rows], dtype=object))
    target = np.array([row[2] for row in rows], dtype=np.int32)
    features, noise, bits = Features.of(TWINS), RoundedGaussian(promise.leaf_noise), Bits(None)
    coin = ThresholdCoin(promise.threshold_noise, promise.threshold, cut=0, largest=len(rows))
    guide = Guide(Gini(2), promise.choice_exponent, 1)
    keys = [k for k in root_keys(seed, 3 * RUNS) if chance(k, 0) < 0.7 and chance(k, 1) < 0.7]
    found = []
    for key in keys[:RUNS]:
        tree, leaves, _ = prune(codes, features, key, 1, coin, bits, guide=guide, target=target)
        leaf = tree.apply(TWINS.encode(np.array([FLIP[:2]], dtype=object)), features.categorical)[0]
        value = noisy_counts(leaves.counts[:, :2], noise, bits, leaves.keys)[leaf, 1]
        found.append(tree.feature[0] * 10_000 + np.clip(value, -1000, 1000))
    assert len(found) == RUNS
    return np.array(found)


def worst_choice(exponent_factor=1.0):
    promise = plain(EPSILON, DELTA, 1, 1, structure_share=0.9, leaf="majority")
    exponent = promise.choice_exponent * exponent_factor
    promise = changed(promise, choice_exponent=exponent)
    without, added = chosen(False, promise, 1), chosen(True, promise, 2)
    found = [divergence(without, added), divergence(added, without)]
    shift = np.mean(added >= 9000) - np.mean(without >= 9000)
    return max(estimate - 5 * error for estimate, error in found), shift


def test_a_canary_that_flips_the_best_split_does_not_show():
    low, shift = worst_choice()
    assert low <= DELTA
    # exp(0.44 (40 - 1 + 40)) against exp(0.44 (40 + 1 + 40)), where it was even odds.
    assert shift == pytest.approx(1 / (1 + math.exp(2 * 0.4449)) - 0.5, abs=0.04)


def test_a_choice_with_a_larger_exponent_is_caught():
    low, _ = worst_choice(exponent_factor=3.0)
    assert low > DELTA
