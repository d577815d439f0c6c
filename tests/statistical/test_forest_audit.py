"""An attack on whole fits: neighbouring tables, one record apart, and what the released forest shows.

Many one-tree forests are grown on each table with the noise of one; trees are independent, so one call
grows them all. The adversary looks at whether the root was split and at the noisy count in the record's
own leaf. Event chosen on one half, counted on the other; 5 standard errors: false alarms below 1e-6.
"""

import dataclasses
import math

import numpy as np
import pytest

from lumberjack import Domain, LumberjackClassifier, plan
from lumberjack.leaves import noisy_counts
from lumberjack.noise import Bits, RoundedGaussian
from lumberjack.structure import Features

EPSILON, DELTA, RUNS = 1.0, 0.1, 8_000
DOMAIN = Domain({"flag": [False, True], "x": (0, 1)})
CANARY = (True, 0.7)


def outputs(n_rows, promise, leaf_noise, seed):
    """(split, noisy count of the canary's cell) of each run on a table of ``n_rows`` canaries."""
    table = np.array([CANARY] * n_rows, dtype=object)
    codes = DOMAIN.encode(table)
    features = Features.of(DOMAIN)
    noise = RoundedGaussian(leaf_noise)
    bits = Bits(seed)

    def release(leaves):
        counts = np.column_stack([np.zeros_like(leaves.count), leaves.count])
        return noisy_counts(counts, noise, bits, leaves.keys)

    many = dataclasses.replace(promise, n_estimators=RUNS)
    forest = LumberjackClassifier(n_jobs=2)._grow(codes, features, many, bits, release)
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


def worst(leaf_noise_factor=1.0, threshold_shift=0.0):
    promise = plan(EPSILON, DELTA, 1, 1)
    promise = dataclasses.replace(promise, threshold=promise.threshold - threshold_shift)
    found = []
    for n in (1, round(promise.threshold)):
        one = outputs(n, promise, promise.leaf_noise * leaf_noise_factor, seed=n)
        two = outputs(n + 1, promise, promise.leaf_noise * leaf_noise_factor, seed=100 + n)
        found += [divergence(one, two), divergence(two, one)]
    return max(estimate - 5 * error for estimate, error in found), max(e for e, _ in found)


def test_a_fitted_forest_keeps_its_promise():
    low, estimate = worst()
    assert low <= DELTA
    assert estimate > DELTA / 10  # the attack sees something


@pytest.mark.parametrize("leak", [{"leaf_noise_factor": 1e-3}, {"leaf_noise_factor": 0.3}])
def test_a_planted_leak_is_caught(leak):
    low, _ = worst(**leak)
    assert low > DELTA
