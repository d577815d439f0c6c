"""Random binary trees over the public domain, grown a level at a time, with any pruning on top.

In: rows as numbers and a way to ask about counts. Out: flat trees. This is a second, slower telling of
what the library's engine does, open to other heavy-hitter algorithms: the ablations need them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from benchmarks.baselines.base import DELTA, Baseline, bounds_of, digest, is_categorical, values_of
from lumberjack.accounting import NoisySums, ThresholdQueries, calibrate, queries_per_tree
from lumberjack.leaves import shares
from lumberjack.noise import Bits, RoundedGaussian, ThresholdCoin
from lumberjack.paths import make_level
from lumberjack.search import HEAVY, LIGHT, mark_heavy_hitters, search_order


@dataclass(frozen=True)
class Tree:
    """Flat, as the library's: feature (-1 at a leaf), cut, and the left child, with the right one next
    to it; a leaf's ``left`` is its number. Parents come before children."""

    feature: np.ndarray
    cut: np.ndarray
    left: np.ndarray
    categorical: np.ndarray

    @property
    def n_leaves(self):
        return int((self.feature < 0).sum())

    def apply(self, values):
        """Leaf number of each row."""
        node = np.zeros(len(values), dtype=np.int64)
        moving = np.flatnonzero(self.feature[node] >= 0)
        while len(moving):
            at = node[moving]
            left = _goes_left(values[moving], self.feature[at], self.cut[at], self.categorical)
            node[moving] = self.left[at] + ~left
            moving = moving[self.feature[node[moving]] >= 0]
        return self.left[node]


def _goes_left(values, feature, cut, categorical):
    found = values[np.arange(len(values)), feature]
    return np.where(categorical[feature], found == cut, found <= cut)


class _Splits:
    """What each node of a level may still split on, and its split: the paper's random choice."""

    def __init__(self, domain, rng):
        self.rng = rng
        self.low, self.high = bounds_of(domain)
        self.categorical = is_categorical(domain)
        sizes = np.where(self.categorical, self.high + 1, 0).astype(np.int64)
        self.owner = np.repeat(np.arange(len(sizes)), sizes)  # feature of each category of the domain
        self.first = np.cumsum(sizes) - sizes

    def root(self):
        """Ranges and unused categories of the root."""
        return self.low[None], self.high[None], np.ones((1, len(self.owner)), dtype=bool)

    def draw(self, low, high, unused):
        """Feature (-1: nothing left) and cut of each node."""
        n, d = low.shape
        room = high > low
        for f in np.flatnonzero(self.categorical):
            room[:, f] = unused[:, self.owner == f].any(axis=1)
        feature = np.where(room, self.rng.random((n, d)), -1.0).argmax(axis=1)
        every = np.arange(n)
        cut = self.rng.uniform(low[every, feature], high[every, feature])
        for f in np.flatnonzero(self.categorical):
            here = np.flatnonzero(feature == f)
            free = unused[here][:, self.owner == f]
            if free.size:
                cut[here] = np.where(free, self.rng.random(free.shape), -1.0).argmax(axis=1)
        return np.where(room.any(axis=1), feature, -1), cut

    def children(self, state, nodes, sides, feature, cut):
        """State of the children on those sides of those nodes."""
        low, high, unused = (part[nodes].copy() for part in state)
        for f in range(low.shape[1]):
            on = feature[nodes] == f
            left, right = np.flatnonzero(on & (sides == 0)), np.flatnonzero(on & (sides == 1))
            if self.categorical[f]:
                unused[np.ix_(left, np.flatnonzero(self.owner == f))] = False
                unused[right, self.first[f] + cut[nodes[right]].astype(np.int64)] = False
            else:
                high[left, f] = cut[nodes[left]]
                low[right, f] = cut[nodes[right]]
        return low, high, unused


def grow(values, domain, height, ask, rng, *, top_down=False, floor=0):
    """One random tree whose Heavy nodes, by the given search, are split nodes.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n_features)
        From ``values_of``.
    height : int
        Levels of nodes that may split.
    ask : callable
        ``ask(counts)`` compares counts with the threshold.
    top_down : bool
        Ask on every level, and grow only below nodes that passed, instead of the library's search.
    floor : int
        Nodes with so few rows are Light without being asked. 0 is exact.
    """
    splits = _Splits(domain, rng)
    state = splits.root()
    drawn = [splits.draw(*state)]
    levels = [make_level(np.zeros(1, int), np.zeros(1, int), np.array([len(values)]), 1)]
    place = np.zeros(len(values), dtype=np.int64)  # of each row in the last level, -1: in none

    def deeper(parents):
        nonlocal state, place
        feature, cut = drawn[-1]
        grown = np.zeros(len(feature), dtype=bool)
        grown[parents] = feature[parents] >= 0
        rows = np.flatnonzero(place >= 0)
        rows = rows[grown[place[rows]]]
        at = place[rows]
        right = ~_goes_left(values[rows], feature[at], cut[at], splits.categorical)
        slot = 2 * at + right
        counts = np.bincount(slot, minlength=2 * len(feature))
        kept = np.flatnonzero(counts > floor)
        number = np.full(2 * len(feature), -1)
        number[kept] = np.arange(len(kept))
        place = np.full(len(values), -1)
        place[rows] = number[slot]
        state = splits.children(state, kept // 2, kept % 2, feature, cut)
        drawn.append(splits.draw(*state))
        return make_level(kept // 2, kept % 2, counts[kept], len(feature))

    marks = []
    while True:
        parents = np.arange(len(levels[-1].count))
        if top_down:
            passed = ask(levels[-1].count)
            marks.append(np.where(passed, HEAVY, LIGHT))
            parents = np.flatnonzero(passed)
        if len(levels) == height or not len(parents):
            break
        levels.append(deeper(parents))
    if not top_down:
        check = lambda level, nodes: ask(levels[level].count[nodes])  # noqa: E731
        marks = mark_heavy_hitters(levels, search_order(height), check)
    return _flatten(levels, drawn, marks, splits.categorical)


def _flatten(levels, drawn, marks, categorical):
    """Heavy nodes with their splits, and a leaf wherever a branch ends."""
    feature, cut, left = [], [], []

    def add(depth, node):
        f = drawn[depth][0][node] if node >= 0 and marks[depth][node] == HEAVY else -1
        feature.append(int(f))
        cut.append(float(drawn[depth][1][node]) if f >= 0 else 0.0)
        left.append(-1)
        return len(feature) - 1

    pending = [(0, 0, add(0, 0))]
    n_leaves = 0
    while pending:
        depth, node, here = pending.pop()
        if feature[here] < 0:
            left[here] = n_leaves
            n_leaves += 1
            continue
        below = {0: -1, 1: -1}
        if depth + 1 < len(levels):
            level = levels[depth + 1]
            for child in range(level.first_child[node], level.first_child[node + 1]):
                below[int(level.label[child])] = child
        left[here] = len(feature)
        for child in below.values():
            made = add(depth + 1, child) if child >= 0 else add(0, -1)
            pending.append((depth + 1, child, made))
    return Tree(np.array(feature), np.array(cut), np.array(left), categorical)


class RandomFull(Baseline):
    """Fully random trees of fixed depth with exact majorities: the top row of the paper's toy figure.

    Not private and not meant to be: it shows what random splits lose without pruning, at epsilon =
    infinity. A leaf that no training row reaches does not vote.
    """

    name = "random-full"
    claim = "none"
    reason = "not private (ε = ∞)"
    settings = "25 trees, depth 10"

    def __init__(self, n_trees=25, depth=10):
        self.n_trees, self.depth = n_trees, depth

    def _fit(self, X, target, epsilon, rng, validation):
        values = values_of(X, self.domain)
        self.trees = []
        for _ in range(self.n_trees):
            yes = lambda counts: np.ones(len(counts), dtype=bool)  # noqa: E731
            tree = grow(values, self.domain, self.depth, yes, rng, top_down=True)
            counts = _leaf_counts(tree, values, target, len(self.classes))
            vote = np.eye(len(self.classes))[counts.argmax(axis=1)]
            self.trees.append((tree, vote * (counts.sum(axis=1, keepdims=True) > 0)))

    def _scores(self, X):
        values = values_of(X, self.domain)
        return sum(vote[tree.apply(values)] for tree, vote in self.trees)


class HeavyHitterForest(Baseline):
    """Lumberjack with random splits and a choice of heavy-hitter algorithm, under the joint accounting.

    Everything but the search is what the library does with random splits: joint bound, half of mu^2 for
    the leaves, noisy counts, and its votes.

    Claim: (epsilon, delta)-DP by the joint bound, as ``heavy_hitters`` proves it for each method, with
    m = trees * queries a tree. One shortcut of this file is outside that proof: with "sparse" and
    "two-sided", nodes of so few rows that not one of them is expected to pass in a whole fit count as
    Light without a coin. It saves hours and moves no figure; the library has no such shortcut.
    """

    claim = "proved"

    def __init__(self, method="sparse", n_trees=20, depth=100):
        self.method, self.n_trees, self.depth = method, n_trees, depth

    def identity(self, epsilon) -> str:
        """Its version, and what it takes from the library: the noise and the votes."""
        found, leaves = self.noise(epsilon)
        noise = found.noise, found.threshold, leaves.noise
        said = shares(np.array([[30.0, 10.0], [500.0, 70.0], [-2.0, 90.0]]))
        return f"{self.version}-{digest(noise, said)}"

    def noise(self, epsilon):
        """Calibrated noise: the sparse search meets 1 + floor(log2 h) queries a tree, top-down h."""
        a_tree = self.depth if self.method == "top-down" else queries_per_tree(self.depth)
        queries = ThresholdQueries(self.n_trees * a_tree, 1.0, 0.0, 0.0)
        return calibrate(epsilon, DELTA, [((queries,), 0.5), ((NoisySums(self.n_trees, 1.0),), 0.5)])

    def floor(self, found, n_rows):
        """Most rows of a node for which no pass is expected among all such nodes that could be asked."""
        if self.method == "top-down":
            return 0
        asked = n_rows * self.n_trees * queries_per_tree(self.depth)
        sizes = np.arange(1, n_rows + 1)
        expected = asked / sizes * ndtr((sizes - found.threshold) / found.noise)
        return int(np.argmax(expected > 1.0))

    def _fit(self, X, target, epsilon, rng, validation):
        values, (found, leaves), bits = values_of(X, self.domain), self.noise(epsilon), Bits()
        sure = int(np.ceil(found.threshold + found.cutoff + 1)) if self.method == "two-sided" else None
        coin = ThresholdCoin(found.noise, found.threshold, cut=0, largest=len(values), sure=sure)
        leaf_noise = RoundedGaussian(leaves.noise)
        shape = {"top_down": self.method == "top-down", "floor": self.floor(found, len(values))}
        self.trees = []
        for _ in range(self.n_trees):
            tree = grow(values, self.domain, self.depth, lambda c: coin.draw(c, bits), rng, **shape)
            counts = _leaf_counts(tree, values, target, len(self.classes))
            noisy = counts + leaf_noise.draw(counts.size, bits).reshape(counts.shape)
            self.trees.append((tree, shares(noisy.astype(float))))

    def _scores(self, X):
        values = values_of(X, self.domain)
        return sum(said[tree.apply(values)] for tree, said in self.trees) / len(self.trees)


class TopDown(HeavyHitterForest):
    """Lumberjack with the naive heavy hitters: every level is asked, with noise sqrt(k h / (2 rho)).

    Claim: (epsilon, delta)-DP by the joint bound with m = k h queries a record. Exact, no shortcut.
    """

    name = "top-down"
    settings = "20 trees, depth 100, random splits, joint bound"
    reason = "joint bound with m = k·h"

    def __init__(self, n_trees=20, depth=100):
        super().__init__("top-down", n_trees, depth)


def _leaf_counts(tree, values, target, n_classes):
    cell = tree.apply(values) * n_classes + target
    return np.bincount(cell, minlength=tree.n_leaves * n_classes).reshape(-1, n_classes)
