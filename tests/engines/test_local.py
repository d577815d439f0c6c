"""The in-memory engine against what a tree must be, by recounting every node."""

import numpy as np
import pytest

from lumberjack import Domain
from lumberjack.engines.local import prune
from lumberjack.noise import Bits
from lumberjack.structure import Features, root_keys
from lumberjack.tree import LEAF

DOMAIN = Domain({"a": (0, 1), "b": list("vwxyz"), "c": (0, 1000)})


class Exact:
    """A threshold without noise, and a record of what it was asked."""

    def __init__(self, threshold):
        self.threshold = threshold
        self.asked = 0

    def draw(self, counts, bits, keys):
        self.asked += len(counts)
        return counts > self.threshold


def rows(n, seed):
    rng = np.random.default_rng(seed)
    values = np.empty((n, 3), dtype=object)
    values[:, 0] = np.where(rng.random(n) < 0.1, np.nan, rng.beta(0.5, 3, n))
    values[:, 1] = rng.choice(list("vwxyz?"), n, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    values[:, 2] = rng.exponential(50, n)
    return DOMAIN.encode(values)


def goes_left(code, cut, categorical, missing_left):
    if categorical:
        return code == cut
    return np.where(code == 2**32 - 1, missing_left, code <= cut)


@pytest.mark.parametrize("height", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("threshold", [0, 5, 300, 10**6])
def test_without_noise_the_splits_are_just_the_nodes_above_the_threshold(height, threshold):
    codes = rows(2000, height)
    features = Features.of(DOMAIN)
    coin = Exact(threshold)
    (key,) = root_keys(height, 1)
    tree, leaf_keys = prune(codes, features, key, height, coin, Bits())
    assert len(leaf_keys) == tree.n_leaves == len(set(leaf_keys.tolist()))
    assert sorted(tree.left[tree.feature == LEAF].tolist()) == list(range(tree.n_leaves))
    found = np.full(len(codes), -1)
    pending = [(0, np.arange(len(codes)), 0)]
    while pending:
        node, here, depth = pending.pop()
        f = tree.feature[node]
        if f == LEAF:
            found[here] = tree.left[node]
            assert len(here) <= threshold or depth == height
            continue
        assert len(here) > threshold
        assert depth < height
        left = goes_left(
            codes[here, f].astype(np.int64),
            tree.cut[node],
            features.categorical[f],
            tree.missing_left[node],
        )
        pending += [(tree.left[node], here[left], depth + 1), (tree.right[node], here[~left], depth + 1)]
    np.testing.assert_array_equal(tree.apply(codes, features.categorical), found)


def test_growth_stops_where_the_search_does():
    """Nothing is asked below a Light node: far fewer questions than there are nodes."""
    codes = rows(2000, 1)
    coin = Exact(10**6)
    prune(codes, Features.of(DOMAIN), root_keys(1, 1)[0], 64, coin, Bits())
    assert coin.asked <= 2000 * 7


def test_the_same_seed_gives_the_same_tree_whatever_the_order_of_rows():
    codes = rows(1500, 3)
    shuffled = codes[np.random.default_rng(0).permutation(1500)]
    trees = [
        prune(c, Features.of(DOMAIN), root_keys(5, 1)[0], 30, Exact(40), Bits())[0]
        for c in (codes, shuffled)
    ]
    for name in ("feature", "cut", "missing_left", "left", "right"):
        np.testing.assert_array_equal(getattr(trees[0], name), getattr(trees[1], name))
