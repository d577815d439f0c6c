"""Random forest with smooth sensitivity (Fletcher and Islam 2017), told afresh, its flaw included.

In: rows partitioned over the trees. Out: lazily grown multiway trees with one label a leaf.
"""

import numpy as np

from benchmarks.baselines.base import Baseline, bounds_of, is_categorical, values_of


class SmoothSensitivity(Baseline):
    """Rows are shared out to the trees, and each leaf's label is drawn almost surely as its majority.

    Claim: **broken**. The label is drawn with weight exp(epsilon u / (2 s)), u = 1 for the majority
    class, and s = exp(-gap epsilon) is the smooth sensitivity of that leaf. But s itself differs between
    neighbours: with two classes and epsilon = 1, gaps of 3 and 4 give the minority label log
    probabilities of about -10.0 and -27.3, a ratio of exp(17) where exp(1) is promised. (diffprivlib's
    variant replaces the mechanism.) Each tree uses all of epsilon, as rows are in one tree each, but the
    partition depends on the number of rows. Which nodes exist shows where rows are, too.
    """

    name = "smooth"
    claim = "broken"
    reason = "the exponential mechanism is used with a data-dependent sensitivity"
    settings = "δ = 0; 30 trees, depth from the number of features"

    def __init__(self, n_trees=30):
        self.n_trees = n_trees

    def _fit(self, X, target, epsilon, rng, validation):
        values = values_of(X, self.domain)
        depth = depth_for(self.domain)
        part = rng.permutation(len(values)) % self.n_trees
        self.trees = [
            _Tree(
                values[part == i], target[part == i], self.domain, len(self.classes), depth, epsilon, rng
            )
            for i in range(self.n_trees)
        ]

    def _scores(self, X):
        values = values_of(X, self.domain)
        one_hot = np.eye(len(self.classes))
        return sum(one_hot[tree.labels(values)] for tree in self.trees)


def depth_for(domain):
    """Half of the categorical attributes, and t levels for which m ((m - 1)/m)^t <= m/2; at most 15."""
    categorical = is_categorical(domain)
    m = int((~categorical).sum())
    t = 0
    while m and m * ((m - 1) / m) ** t > m / 2:
        t += 1
    return min(int(categorical.sum()) // 2 + t, 15)


def label_chances(counts, epsilon):
    """Chance of each class to be a leaf's label, shape (n_leaves, n_classes)."""
    ordered = np.sort(counts, axis=1)
    gap = ordered[:, -1] - ordered[:, -2]
    # exp(-x) of the exponent is 0 long before 700: capped so that it does not overflow.
    exponent = epsilon / 2 * np.exp(np.minimum(gap * epsilon, 30.0))
    others = np.exp(-np.minimum(exponent, 700.0))
    majority = np.zeros(counts.shape, dtype=bool)
    majority[np.arange(len(counts)), counts.argmax(axis=1)] = True
    weight = np.where(majority, 1.0, others[:, None])
    return weight / weight.sum(axis=1, keepdims=True)


class _Tree:
    """Only nodes that rows reach: each level is a sorted list of the (node, branch) pairs that exist."""

    def __init__(self, values, target, domain, n_classes, depth, epsilon, rng):
        self.categorical, self.n_classes = is_categorical(domain), n_classes
        low, high = bounds_of(domain)
        self.fan = int(max(2, (high[self.categorical] + 1).max(initial=2)))
        self.salt = int(rng.integers(2**63))
        self.levels = []
        node = np.zeros(len(values), dtype=np.int64)
        low, high = low[None], high[None]
        unused = np.ones((1, len(self.categorical)), dtype=bool)
        for _ in range(depth if len(values) else 0):
            room = np.where(self.categorical, unused, high > low)
            feature = np.where(room, rng.random(room.shape), -1.0).argmax(axis=1)
            feature = np.where(room.any(axis=1), feature, -1)
            every = np.arange(len(feature))
            cut = rng.uniform(low[every, feature], high[every, feature])
            keys, node = np.unique(self._keys(values, node, feature, cut), return_inverse=True)
            self.levels.append((feature, cut, keys))
            up, branch = keys // self.fan, keys % self.fan
            low, high, unused = low[up].copy(), high[up].copy(), unused[up].copy()
            f, here = feature[up], np.arange(len(up))
            number = (f >= 0) & ~self.categorical[f]
            left, right = here[number & (branch == 0)], here[number & (branch == 1)]
            high[left, f[left]], low[right, f[right]] = cut[up[left]], cut[up[right]]
            used = here[(f >= 0) & self.categorical[f]]
            unused[used, f[used]] = False
        counts = np.zeros((node.max(initial=0) + 1, n_classes))
        np.add.at(counts, (node, target), 1)
        below = np.cumsum(label_chances(counts, epsilon), axis=1)
        self.label = (rng.random((len(below), 1)) > below[:, :-1]).sum(axis=1)

    def _keys(self, values, node, feature, cut):
        f = feature[node]
        found = values[np.arange(len(values)), f]
        branch = np.where(self.categorical[f], found, found > cut[node]).astype(np.int64)
        return node * self.fan + np.where(f >= 0, branch, 0)

    def labels(self, values):
        """Label of each row's leaf; a leaf that no training row reached has a fixed random one."""
        node = np.zeros(len(values), dtype=np.int64)
        out = np.full(len(values), -1)
        rows = np.arange(len(values))
        for depth, (feature, cut, keys) in enumerate(self.levels):
            wanted = self._keys(values[rows], node, feature, cut)
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            there = keys[place] == wanted
            out[rows[~there]] = self._random(wanted[~there], depth)
            rows, node = rows[there], place[there]
        out[rows] = self.label[node]
        return out

    def _random(self, keys, depth):
        mixed = (keys.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= np.uint64(self.salt) + np.uint64(depth)
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
        return ((mixed >> np.uint64(33)) % np.uint64(self.n_classes)).astype(np.int64)
