"""Random forest with reliable signal-to-noise ratios (Fletcher and Islam 2015), told afresh.

In: rows with all attributes categorical (numbers in five public bins). Out: a forest of multiway trees
whose leaves have noisy class counts, pruned where noise drowns the signal.
"""

import math

import numpy as np

from benchmarks.baselines.base import Baseline, bounds_of, is_categorical, values_of

BINS = 5


class SNR(Baseline):
    """Signal-to-noise forest: as many trees and levels as the noise can bear.

    Claim: epsilon-DP under adding or removing a row *if the number of rows that the trees' number and
    depth are computed from is a public constant*; here it is the true one, which is private. A row is in
    one leaf of each tree, Laplace noise of scale 1/epsilon_tree, empty leaves too: epsilon_tree for each
    tree, epsilon in all. Floating-point Laplace noise is not hardened.
    """

    name = "snr"
    claim = "reserve"
    reason = "holds if the number of rows that it plans with is a public constant"
    settings = "δ = 0; 5 public bins, all else computed"

    def _fit(self, X, target, epsilon, rng, validation):
        table, sizes = categories_of(X, self.domain)
        self.trees = []
        n_trees, roots = plan_trees(len(table), sizes, len(self.classes), epsilon)
        tree_epsilon = epsilon / n_trees
        support = len(self.classes) * math.sqrt(2) / tree_epsilon
        roots = rng.permutation(roots)
        for i in range(n_trees):
            tree = grow(table, sizes, roots[i % len(roots)], support, rng)
            counts = np.zeros((tree.size, len(self.classes)))
            np.add.at(counts, (tree.leaf_of(table), target), 1)
            noise = rng.laplace(scale=1 / tree_epsilon, size=counts.shape)
            counts = np.where(tree.is_leaf[:, None], np.maximum(counts + noise, 0.0), 0.0)
            self.trees.append(tree.finish(counts, support))

    def _scores(self, X):
        table, _ = categories_of(X, self.domain)
        said = [tree.distribution(table) for tree in self.trees]
        # The single largest fraction decides, the mean breaks ties.
        return np.max(said, axis=0) + 1e-9 * np.mean(said, axis=0)


def categories_of(X, domain):
    """Rows as category numbers, shape (n_rows, n_attributes), and the domain sizes."""
    values = values_of(X, domain)
    low, high = bounds_of(domain)
    categorical = is_categorical(domain)
    width = np.where(high > low, high - low, 1.0)
    binned = np.minimum((values - low) / width * BINS, BINS - 1).astype(np.int64)
    table = np.where(categorical, values.astype(np.int64), binned)
    return table, np.where(categorical, high + 1, BINS).astype(np.int64)


def plan_trees(n, sizes, n_classes, epsilon):
    """How many trees, and which attributes may be a root."""
    d, mean = len(sizes), float(np.mean(sizes))

    def support(trees):
        return n_classes * math.sqrt(2) * trees / epsilon

    trees, roots = d, list(range(d))
    while n / mean ** (d / 2) > support(trees):
        trees += 1
    while trees > 1 and support(trees) > n / mean**2:
        trees -= 1
        if len(roots) > 1:
            roots.remove(max(roots, key=lambda a: sizes[a]))
    return trees, roots


def grow(table, sizes, root, support, rng):
    """A multiway tree: random unused attributes until the expected support falls to ``support``."""
    n = len(table)
    tree = _Tree()
    attribute = np.array([root])
    product, unused = np.ones(1), np.ones((1, len(sizes)), dtype=bool)
    parent = np.array([-1])
    while True:
        splits = attribute >= 0
        begin = tree.size
        tree.add(attribute, np.where(splits, sizes[attribute], 0), parent)
        if not splits.any():
            return tree
        unused[np.flatnonzero(splits), attribute[splits]] = False
        fan = sizes[attribute[splits]]
        parent = np.repeat(begin + np.flatnonzero(splits), fan)
        product = np.repeat(product[splits] * fan, fan)
        unused = np.repeat(unused[splits], fan, axis=0)
        choice = np.where(unused, rng.random(unused.shape), -1.0).argmax(axis=1)
        attribute = np.where((n / product > support) & unused.any(axis=1), choice, -1)


class _Tree:
    """Nodes level by level; the children of a node follow one another in the order of values."""

    def __init__(self):
        self.attribute = np.zeros(0, dtype=np.int64)
        self.parent = np.zeros(0, dtype=np.int64)
        self.first = np.zeros(0, dtype=np.int64)
        self.levels = []

    @property
    def size(self):
        return len(self.attribute)

    @property
    def is_leaf(self):
        return self.attribute < 0

    def add(self, attribute, fan, parent):
        """Append a level."""
        begin, after = self.size, self.size + len(attribute)
        self.levels.append(slice(begin, after))
        first = after + np.cumsum(fan) - fan
        self.first = np.concatenate([self.first, np.where(attribute >= 0, first, -1)])
        self.attribute = np.concatenate([self.attribute, attribute])
        self.parent = np.concatenate([self.parent, parent])

    def leaf_of(self, table):
        """Node at which each row ends."""
        node = np.zeros(len(table), dtype=np.int64)
        for _ in self.levels[1:]:
            moving = np.flatnonzero(self.attribute[node] >= 0)
            at = node[moving]
            node[moving] = self.first[at] + table[moving, self.attribute[at]]
        return node

    def finish(self, counts, support):
        """The released tree: sums in inner nodes, prune, and for each node the surest of its path."""
        for level in reversed(self.levels[1:]):
            np.add.at(counts, self.parent[level], counts[level])
        total = counts.sum(axis=1)
        share = counts / np.where(total > 0, total, 1.0)[:, None]
        sure = share.max(axis=1)
        kept, best = np.ones(self.size, dtype=bool), np.zeros(self.size, dtype=np.int64)
        for depth, level in enumerate(self.levels[1:], start=1):
            nodes, above = np.arange(level.start, level.stop), self.parent[level]
            # Signal-to-noise = total / support; the root's children stay whatever theirs is.
            kept[level] = kept[above] & ((total[level] > support) | (depth == 1))
            better = kept[level] & (sure[level] > sure[best[above]])
            best[level] = np.where(better, nodes, best[above])
        return _Released(self, kept, share[best])


class _Released:
    """Kept nodes only: a table of children for each, and what the surest node of its path says."""

    def __init__(self, tree, kept, share):
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        nodes = np.flatnonzero(kept)
        self.attribute, self.share = tree.attribute[nodes], share[nodes]
        fan = np.bincount(tree.parent[1:], minlength=tree.size)[nodes]
        self.first = np.cumsum(fan) - fan
        inner = np.flatnonzero(fan)
        slots = np.repeat(tree.first[nodes[inner]] - self.first[inner], fan[inner])
        self.child = number[slots + np.arange(len(slots))] if len(slots) else np.zeros(0, np.int64)

    def distribution(self, table):
        """Class shares for each row, shape (n_rows, n_classes)."""
        node = np.zeros(len(table), dtype=np.int64)
        moving = np.arange(len(table)) if self.attribute[0] >= 0 else np.zeros(0, dtype=np.int64)
        while len(moving):
            at = node[moving]
            below = self.child[self.first[at] + table[moving, self.attribute[at]]]
            moving, below = moving[below >= 0], below[below >= 0]
            node[moving] = below
            moving = moving[self.attribute[below] >= 0]
        return self.share[node]
