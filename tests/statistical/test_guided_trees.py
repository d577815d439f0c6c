"""Whole guided trees against a plain version of the algorithm: the same distribution, asleep or not.

The plain version makes every node down to the last level, empty ones too; each chooses its split from
probabilities worked out with fractions, and the search asks each node once. Chi-square over released
trees, alarm rate below 1e-6.
"""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import reference
from reference import same_distribution
from trees import prune

from lumberjack import Domain
from lumberjack.guided import Gini, Guide
from lumberjack.kinds import CELLS, Cuts, Numeric
from lumberjack.noise import Bits, ThresholdCoin
from lumberjack.structure import Features, chance, child_key, root_keys
from lumberjack.thinning import Thinning
from lumberjack.tree import LEAF

DOMAIN = Domain({"job": list("abcd"), "town": list("xyz"), "sex": list("mfd"), "club": list("pqr")})
HEIGHT, SIGMA, THRESHOLD, EXPONENT, RUNS = 3, 6.0, 14.0, 0.35, 3_000


def small_table(seed=3, n=60):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n) for size in (4, 3, 3, 3)]).astype(np.uint32)
    target = ((codes[:, 0] == 1) ^ (rng.random(n) < 0.2)).astype(np.int32)
    return codes, target


def score(left, target):
    total = 0
    for side in (left, ~left):
        n = int(side.sum())
        squares = sum(int((target[side] == c).sum()) ** 2 for c in (0, 1))
        total += math.floor(256 * Fraction(squares, n)) if n else 0
    return total / 256


def plain_tree(codes, target, key, rng):
    """(feature, cut) of each Heavy node by its path from the root."""
    splits, paths = {}, {}

    def make(rows, key, level, path, left_to_tell):
        node = reference.Node(own=0)
        paths[id(node)] = path
        if level == HEIGHT:
            node.own = len(rows)
            return node
        options = []
        for f, unused in enumerate(left_to_tell):
            if len(unused) >= 2 and chance(key, f) < 0.5:
                for c in unused:
                    weight = math.exp(EXPONENT * score(codes[rows, f] == c, target[rows]))
                    options.append((f, c, weight / len(unused)))
        if not options:
            return None
        weights = np.array([w for _, _, w in options])
        f, c, _ = options[rng.choice(len(options), p=weights / weights.sum())]
        splits[path] = (f, c)
        goes_left = codes[rows, f] == c
        for side, here in ((0, rows[goes_left]), (1, rows[~goes_left])):
            rest = [set(unused) for unused in left_to_tell]
            rest[f] = set() if side == 0 else rest[f] - {c}
            child = make(here, np.uint64(child_key(key, side)), level + 1, (*path, side), rest)
            if child is None:
                return None
            node.children.append(child)
        return node

    root = make(np.arange(len(codes)), key, 0, (), [set(range(size)) for size in (4, 3, 3, 3)])
    if root is None:
        return None

    def check(node):
        return node.count > 0 and node.count + rng.normal(0, SIGMA) > THRESHOLD

    reference.mark_heavy_hitters(root, HEIGHT, check)
    heavy = [paths[id(n)] for n in root.walk() if n.mark == "heavy" and n.children]
    return tuple(sorted((path, *splits[path]) for path in heavy))


def released(tree):
    found = []
    pending = [(0, ())]
    while pending:
        node, path = pending.pop()
        if tree.feature[node] != LEAF:
            found.append((path, int(tree.feature[node]), int(tree.cut[node])))
            pending += [(tree.left[node], (*path, 0)), (tree.right[node], (*path, 1))]
    return tuple(sorted(found))


def good_key():
    """A root below which no node runs out of candidates: random splits have tests of their own."""
    codes, target = small_table()
    for key in root_keys(11, 1000):
        rng = np.random.default_rng(0)
        if all(plain_tree(codes, target, key, rng) is not None for _ in range(40)):
            return key
    raise AssertionError("no such key")


@pytest.mark.parametrize("asleep", [False, True])
def test_guided_trees_have_the_distribution_of_the_plain_algorithm(asleep):
    codes, target = small_table()
    key, features = good_key(), Features.of(DOMAIN)
    coin = ThresholdCoin(SIGMA, THRESHOLD, cut=0, largest=len(codes))
    guide = Guide(Gini(2), EXPONENT, HEIGHT)
    thinning = None
    if asleep:  # all nodes below the threshold sleep, and wake for their candidates
        thinning = Thinning(coin, HEIGHT)
        thinning.small = len(thinning.chances)
    rng = np.random.default_rng(5)

    def grown(key, guide):
        options = {"guide": guide, "thinning": thinning, "target": target}
        return prune(codes, features, key, HEIGHT, coin, Bits(None), **options)[0]

    ours = [released(grown(key, guide)) for _ in range(RUNS)]
    plain = [plain_tree(codes, target, key, rng) for _ in range(RUNS)]
    assert None not in plain
    # Another exponent is another distribution, and this test sees it.
    other = Guide(Gini(2), 0.5 * EXPONENT, HEIGHT)
    wrong = [released(grown(key, other)) for _ in range(RUNS)]
    for view in (paths_of, top_of):
        expected = Counter(map(view, plain))
        assert len(expected) > 4
        assert same_distribution(Counter(map(view, ours)), expected) > 1e-6
    assert same_distribution(Counter(map(top_of, wrong)), Counter(map(top_of, plain))) < 1e-6


def paths_of(tree):
    """Which nodes are Heavy."""
    return tuple(path for path, _, _ in tree)


def top_of(tree):
    """The splits of the root and of its larger child."""
    return tuple(node for node in tree if node[0] in ((), (1,)))


def test_row_order_and_blocks_change_nothing():
    """Seeded: the same tree from any order of the rows, also where guided and random levels meet."""
    rng = np.random.default_rng(8)
    cut = Cuts(Numeric(0, 1), tuple(range(2**25, CELLS, 2**25)))
    domain = Domain({"a": cut, "b": list("vwxyz"), "c": cut})
    codes = np.column_stack([rng.integers(0, size, 5000) for size in (64, 5, 64)]).astype(np.uint32)
    target = rng.integers(0, 3, 5000).astype(np.int32)
    coin = ThresholdCoin(20.0, 100.0, cut=0, largest=5000)
    features, thinning = Features.of(domain), Thinning(coin, 40)
    order = rng.permutation(5000)
    for key in root_keys(9, 5):
        trees = []
        for rows in (np.arange(5000), order):
            options = {"guide": Guide(Gini(3), 0.05, 4), "thinning": thinning, "target": target[rows]}
            tree, leaves, _ = prune(codes[rows], features, key, 40, coin, Bits(3), **options)
            trees.append((released(tree), leaves.count.tolist()))
        assert trees[0] == trees[1]
        assert len(trees[0][0]) > 10
        assert max(len(path) for path, _, _ in trees[0][0]) > 4  # random levels too
