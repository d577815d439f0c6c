"""Greedy trees at their honest strength: splits and labels by the exponential mechanism.

In: all rows for each tree. Out: binary trees of fixed depth with one label a leaf. Suihkonen 2023 is the
paper's representative of this paradigm; the published variants leak (they stop on pure nodes, use
candidates or sensitivities that depend on the data), this one does not. It comes with two prices: basic
composition, as published, and zCDP, which makes use of the same delta as the others have.
"""

import math

import numpy as np

from benchmarks.baselines.base import (
    DELTA,
    Baseline,
    bounds_of,
    digest,
    gumbel_choice,
    is_categorical,
    values_of,
)
from lumberjack.accounting import zcdp_rho

THRESHOLDS = 10  # public random cut points for each numeric feature and node


class Greedy(Baseline):
    """Each node takes the split that the exponential mechanism likes best, by count-weighted Gini.

    Claim: epsilon-DP under adding or removing a row. Half of epsilon is for splits: epsilon / (2 k h)
    for each of h levels of k trees. A row is in one node of a level. The score sum n_jc^2 / n_j changes
    by at most 1, so weights exp(epsilon' score / 2) are epsilon'-DP; all candidates are public. The
    other half is for labels, epsilon / (2 k) a tree: counts only grow with a row, so weights
    exp(epsilon'' count) are epsilon''-DP. Every node splits, however few rows it has. Floating-point
    sampling is not hardened.
    """

    name = "greedy"
    claim = "proved"
    reason = "exponential mechanism, basic composition; floating-point sampling"
    settings = "δ = 0; 15 trees, depth 7, one-vs-all"

    def __init__(self, n_trees=15, depth=7):
        self.n_trees, self.depth = n_trees, depth

    def _fit(self, X, target, epsilon, rng, validation):
        values, n_classes = values_of(X, self.domain), len(self.classes)
        self.categorical = is_categorical(self.domain)
        split_epsilon, leaf_epsilon = self.shares(epsilon)
        self.trees = [
            self._grow(values, target, n_classes, split_epsilon, leaf_epsilon, rng)
            for _ in range(self.n_trees)
        ]

    def shares(self, epsilon):
        """What one choice of a split, and one of a label, may cost."""
        return epsilon / (2 * self.n_trees * self.depth), epsilon / (2 * self.n_trees)

    def _grow(self, values, target, n_classes, split_epsilon, leaf_epsilon, rng):
        """A complete tree in heap order: children of i are 2i + 1 and 2i + 2."""
        n_inner = 2**self.depth - 1
        feature, cut = np.full(n_inner, -1), np.zeros(n_inner)
        label = np.zeros(n_inner + 1, dtype=np.int64)
        low, high = bounds_of(self.domain)
        unused = [np.arange(h + 1) if c else None for h, c in zip(high, self.categorical, strict=True)]
        pending = [(0, np.arange(len(values)), low, high, unused)]
        while pending:
            node, rows, low, high, unused = pending.pop()
            if node >= n_inner:
                counts = np.bincount(target[rows], minlength=n_classes)
                label[node - n_inner] = gumbel_choice(leaf_epsilon * counts, rng)
                continue
            f, c = self._choose(values, target, rows, low, high, unused, n_classes, split_epsilon, rng)
            feature[node], cut[node] = f, c
            left = _goes_left(values[rows, f], c, self.categorical[f])
            lows, highs, free = [low, low], [high, high], [unused, unused]
            if self.categorical[f]:
                rest = unused[f][unused[f] != c]
                free = [[*unused[:f], u, *unused[f + 1 :]] for u in (np.zeros(0), rest)]
            else:
                highs[0], lows[1] = high.copy(), low.copy()
                highs[0][f] = lows[1][f] = c
            for side, part in enumerate((rows[left], rows[~left])):
                pending.append((2 * node + 1 + side, part, lows[side], highs[side], free[side]))
        return feature, cut, label

    def _choose(self, values, target, rows, low, high, unused, n_classes, split_epsilon, rng):
        features, cuts, scores = [], [], []
        labels = target[rows]
        total = np.bincount(labels, minlength=n_classes)
        for f, categorical in enumerate(self.categorical):
            found = values[rows, f]
            if categorical:
                options = unused[f]
                if not len(options):
                    continue
                cell = found.astype(np.int64) * n_classes + labels
                size = int(self.domain.kinds[f].size)
                table = np.bincount(cell, minlength=size * n_classes).reshape(size, n_classes)
                left = table[options.astype(np.int64)]
            else:
                if not high[f] > low[f]:
                    continue
                options = np.sort(rng.uniform(low[f], high[f], THRESHOLDS))
                cell = np.searchsorted(options, found, side="left") * n_classes + labels
                table = np.bincount(cell, minlength=(THRESHOLDS + 1) * n_classes)
                left = np.cumsum(table.reshape(-1, n_classes), axis=0)[:-1]
            features += [f] * len(options)
            cuts += list(options)
            scores.append(gini_score(left) + gini_score(total - left))
        if not scores:  # nothing public is left to split on: all rows go right
            return 0, np.nan
        chosen = gumbel_choice(split_epsilon / 2 * np.concatenate(scores), rng)
        return features[chosen], cuts[chosen]

    def _scores(self, X):
        values = values_of(X, self.domain)
        one_hot = np.eye(len(self.classes))
        total = np.zeros((len(values), len(self.classes)))
        for feature, cut, label in self.trees:
            node = np.zeros(len(values), dtype=np.int64)
            for _ in range(self.depth):
                f = feature[node]
                found = values[np.arange(len(values)), f]
                left = _goes_left(found, cut[node], self.categorical[f])
                node = 2 * node + 2 - left
            total += one_hot[label[node - len(feature)]]
        return total


class GreedyZCDP(Greedy):
    """The same trees, priced by zCDP instead of basic composition.

    Claim: (epsilon, delta)-DP under adding or removing a row. Choices with weights exp(epsilon' score /
    2) and exp(epsilon'' count) are epsilon'- and epsilon''-bounded-range, hence epsilon'^2/8- and
    epsilon''^2/8-zCDP. Half of rho is for the k h splits that a row takes part in, half for the k
    labels; rho is the largest that implies (epsilon, delta) by the lemma of the paper.
    """

    name = "greedy-zcdp"
    reason = "exponential mechanism, zCDP; floating-point sampling"
    settings = "as greedy, δ = 1e-6"

    def identity(self, epsilon) -> str:
        """Its version, and what the library's accounting gives it."""
        return f"{self.version}-{digest(self.shares(epsilon))}"

    def shares(self, epsilon):
        """See the class."""
        rho = zcdp_rho(epsilon, DELTA)
        return math.sqrt(4 * rho / (self.n_trees * self.depth)), math.sqrt(4 * rho / self.n_trees)


def gini_score(counts):
    """Sum over classes of n_c^2 / n for each row of counts; 0 where there are none."""
    n = counts.sum(axis=1)
    return (counts.astype(float) ** 2).sum(axis=1) / np.maximum(n, 1)


def _goes_left(found, cut, categorical):
    return np.where(categorical, found == cut, found <= cut)
