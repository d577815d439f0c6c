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
from scipy.special import ndtr
from trees import prune

from lumberjack import Domain
from lumberjack.leaves import noisy_counts
from lumberjack.noise import Bits, RoundedGaussian, ThresholdCoin
from lumberjack.structure import Features, root_keys
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


def shapes(grow, runs=RUNS):
    """How often each pruned tree comes out, by its leaves: only noise differs."""
    return Counter(tuple(sorted(grow(seed))) for seed in range(runs))


def noisy_threshold(sigma, threshold, cut, seed):
    """The paper's Algorithm 2: a count above the cut passes if it is above the threshold with noise."""
    rng = np.random.default_rng(seed)
    return lambda n: (n > cut) & (rng.random(len(n)) < ndtr((n - threshold) / sigma))


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

    way = naive.walk(codes, features, root, height)

    def lazy(seed):
        _, leaves, _ = prune(codes, features, root, height, coin, Bits(seed), thinning=thinning)
        return leaves.keys.tolist()

    def plain(seed):
        return naive.prune(way, noisy_threshold(sigma, threshold, cut, seed)).leaves

    one, two = shapes(lazy), shapes(plain)
    assert len(two) > 3
    assert same_distribution(one, two) > 1e-6


def test_a_wrong_candidate_probability_is_caught():
    """The test above can fail: slots with half the chance they need."""
    domain = Domain({"a": (0, 1), "b": list("xyz")})
    codes, features = table(domain, 40, seed=1), Features.of(domain)
    coin = ThresholdCoin(6.0, 12.0, cut=0, largest=40)
    thinning = Thinning(coin, 3)
    thinning.small = len(thinning.chances)
    thinning.chances = thinning.chances / 2
    (root,) = root_keys(1, 1)

    way = naive.walk(codes, features, root, 3)

    def lazy(seed):
        _, leaves, _ = prune(codes, features, root, 3, coin, Bits(seed), thinning=thinning)
        return leaves.keys.tolist()

    def plain(seed):
        return naive.prune(way, noisy_threshold(6.0, 12.0, 0, seed)).leaves

    assert same_distribution(shapes(lazy), shapes(plain)) < 1e-6


def depth_of(tree):
    depth = np.zeros(len(tree.feature), dtype=int)
    for node in range(len(tree.feature)):  # parents come first
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
                keys, counts, depth = leaves.keys, leaves.count, depth_of(tree)
            else:
                way = naive.walk(codes, features, root, height)
                slow = naive.prune(way, noisy_threshold(15.0, 80.0, 0, offset + i))
                rows, depth = Counter(slow.reached.tolist()), np.array([*slow.leaves.values()])
                keys = np.array([*slow.leaves], dtype=np.uint64)
                counts = np.array([rows[key] for key in slow.leaves])
            released = noisy_counts(counts[:, None], noise, bits, keys)
            seen[engine].append(
                (len(depth), depth.max(), depth.mean(), released.max(), np.median(released))
            )
    for one, two in zip(zip(*seen["lazy"], strict=True), zip(*seen["naive"], strict=True), strict=True):
        assert stats.ks_2samp(one, two).pvalue > 1e-6
