"""Leaving small nodes asleep changes no distribution: the lazy engine against the naive one.

Chi-square over whole trees where trees are small, two-sample KS over what a fit shows where they are
large. Alarm rate of each test below 1e-6.
"""

from collections import Counter

import naive
import numpy as np
import pytest
from reference import same_distribution
from scipy import stats
from trees import prune

from lumberjack import Domain
from lumberjack.noise import Bits, RoundedGaussian, ThresholdCoin
from lumberjack.structure import Features, root_keys
from lumberjack.targets import noisy_counts
from lumberjack.thinning import Thinning
from lumberjack.tree import LEAF

RUNS = 2_500


def table(domain, n, seed):
    rng = np.random.default_rng(seed)
    columns = []
    for name in domain:
        size = getattr(domain[name], "categories", None)
        if size is None:
            columns.append(rng.beta(1, 3, n).astype(object))
        else:
            columns.append(rng.choice(np.array(size, dtype=object), n))
    return domain.encode(np.column_stack(columns))


def shape(tree, keys):
    return tuple(sorted(keys.tolist()))


def shapes(grow, runs=RUNS):
    """How often each pruned tree comes out. The structure is one and the same: only noise differs."""
    return Counter(shape(*grow(Bits(seed))) for seed in range(runs))


@pytest.mark.parametrize(
    ("height", "sigma", "threshold", "cut", "n"),
    [(3, 6.0, 12.0, 0, 40), (8, 4.0, 14.0, 2, 40), (20, 3.0, 12.0, 0, 25)],
)
def test_small_trees_have_the_same_distribution(height, sigma, threshold, cut, n):
    """Thresholds so close that many sleeping nodes wake: every node below the threshold may sleep."""
    domain = Domain({"a": (0, 1), "b": list("xyz")})
    codes, features = table(domain, n, seed=1), Features.of(domain)
    coin = ThresholdCoin(sigma, threshold, cut=cut, largest=n)
    thinning = Thinning(coin, height)
    thinning.small = len(thinning.chances)
    (root,) = root_keys(1, 1)

    def lazy(bits):
        tree, leaves, _ = prune(codes, features, root, height, coin, bits, thinning=thinning)
        return tree, leaves.keys

    def plain(bits):
        return naive.prune(codes, features, root, height, coin, bits)

    one, two = shapes(lazy), shapes(plain)
    assert len(two) > 3
    assert same_distribution(one, two) > 1e-6


def test_a_wrong_chance_is_seen():
    """The test above can fail: slots with half the chance they need."""
    domain = Domain({"a": (0, 1), "b": list("xyz")})
    codes, features = table(domain, 40, seed=1), Features.of(domain)
    coin = ThresholdCoin(6.0, 12.0, cut=0, largest=40)
    thinning = Thinning(coin, 3)
    thinning.small = len(thinning.chances)
    thinning.chances = thinning.chances / 2
    (root,) = root_keys(1, 1)

    def lazy(bits):
        tree, leaves, _ = prune(codes, features, root, 3, coin, bits, thinning=thinning)
        return tree, leaves.keys

    def plain(bits):
        return naive.prune(codes, features, root, 3, coin, bits)

    assert same_distribution(shapes(lazy), shapes(plain)) < 1e-6


def depth_of(tree):
    depth = np.zeros(len(tree.feature), dtype=int)
    for node in range(len(tree.feature)):  # parents come first in both engines
        if tree.feature[node] != LEAF:
            depth[tree.left[node]] = depth[tree.right[node]] = depth[node] + 1
    return depth[tree.feature == LEAF]


def test_full_fits_have_the_same_distribution():
    """Leaves, depths, and noisy counts of 200 trees of each engine, grown on 4,000 rows."""
    domain = Domain({"a": (0, 1), "b": list("vwxyz"), "c": (0, 1), "d": ["p", "q"]})
    codes, features, height = table(domain, 4000, seed=3), Features.of(domain), 60
    coin = ThresholdCoin(15.0, 80.0, cut=0, largest=4000)
    thinning = Thinning(coin, height)
    noise = RoundedGaussian(5.0)
    seen = {"lazy": [], "naive": []}
    for engine, offset in (("lazy", 0), ("naive", 1000)):
        for i, root in enumerate(root_keys(offset, 200)):
            bits = Bits(offset + i)
            if engine == "lazy":
                tree, leaves, _ = prune(codes, features, root, height, coin, bits, thinning=thinning)
                keys, counts = leaves.keys, leaves.count
            else:
                tree, keys = naive.prune(codes, features, root, height, coin, bits)
                where = tree.apply(codes, features.categorical)
                counts = np.bincount(where, minlength=tree.n_leaves)
            released = noisy_counts(counts[:, None], noise, bits, keys)
            depth = depth_of(tree)
            seen[engine].append(
                (tree.n_leaves, depth.max(), depth.mean(), released.max(), np.median(released))
            )
    for one, two in zip(zip(*seen["lazy"], strict=True), zip(*seen["naive"], strict=True), strict=True):
        assert stats.ks_2samp(one, two).pvalue > 1e-6
