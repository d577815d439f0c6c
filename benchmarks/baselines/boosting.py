"""Boosted trees of one column each with noisy Newton steps (Maddock et al., CCS 2022), told afresh.

In: all rows, for each tree. Out: a table a column, of scores for each bin and class: an additive model.
"""

import math

import numpy as np

from benchmarks.baselines.base import DELTA, Baseline, digest, values_of
from benchmarks.baselines.cells import even_bins
from benchmarks.baselines.linear import probabilities
from lumberjack.accounting import gaussian_mu
from lumberjack.kinds import Categorical


class EBMNewton(Baseline):
    """One random tree of one column after another; a leaf's step is its gradient over its curvature.

    Trees are drawn without data: random cuts of 32 uniform bins, or of the categories in random order.
    Columns take turns. A leaf releases its sums of gradients p - y and of curvatures p (1 - p), each
    with Gaussian noise sigma, and moves scores by - rate * gradient / (max(curvature, 0) + 4 sigma).

    Claim: (epsilon, delta)-DP under adding or removing a row. A row is in one leaf of a tree and adds
    (p - y, p (1 - p)) to its sums. With two classes the norm of that is at most S = 1, since
    p^2 (1 + (1 - p)^2) <= p. With more it is at most S = sqrt(2): the same inequality bounds the squares
    of the wrong classes by 1 - p_y together, and that of the right one (with 1 - p_y in place of p) too.
    So T trees are sqrt(T) S / sigma-GDP. Floating-point noise is not hardened.
    """

    name = "ebm-newton"
    claim = "proved"
    reason = "noisy sums, tight Gaussian curve; floating-point noise"
    settings = "200 trees, depth 4, 32 uniform bins, rate 0.5"

    def __init__(self, n_trees=200, depth=4, rate=0.5):
        self.n_trees, self.depth, self.rate = n_trees, depth, rate

    def identity(self, epsilon) -> str:
        """Its version, and what the library's accounting gives it."""
        return f"{self.version}-{digest(gaussian_mu(epsilon, DELTA))}"

    def _fit(self, X, target, epsilon, rng, validation):
        values, n_classes = values_of(X, self.domain), len(self.classes)
        n_outputs = 1 if n_classes == 2 else n_classes
        noise = math.sqrt(self.n_trees * min(n_outputs, 2)) / gaussian_mu(epsilon, DELTA)
        wanted = np.eye(n_classes)[target, -n_outputs:]
        self.codings = [even_bins(j, kind) for j, kind in enumerate(self.domain.kinds)]
        bins = [coding.codes(values) for coding in self.codings]
        self.tables = [np.zeros((coding.size, n_outputs)) for coding in self.codings]
        scores = np.zeros((len(values), n_outputs))
        turns = rng.permutation(len(self.codings))
        for tree in range(self.n_trees):
            j = turns[tree % len(turns)]
            leaf = random_leaves(self.codings[j].size, self.depth, rng)
            if isinstance(self.domain.kinds[j], Categorical):
                rng.shuffle(leaf)
            p = probabilities(scores)[:, -n_outputs:]
            both = np.hstack([p - wanted, p * (1 - p)])
            sums = sum_by(leaf[bins[j]], both, leaf.max() + 1)
            sums += rng.normal(scale=noise, size=sums.shape)
            gradient, curvature = np.hsplit(sums, 2)
            step = (-self.rate * gradient / (np.maximum(curvature, 0) + 4 * noise))[leaf]
            self.tables[j] += step
            scores += step[bins[j]]

    def _scores(self, X):
        values = values_of(X, self.domain)
        parts = zip(self.codings, self.tables, strict=True)
        return probabilities(sum(table[coding.codes(values)] for coding, table in parts))


def random_leaves(n_bins, depth, rng):
    """Leaf of each bin in a tree of random cuts, each uniform among those that its node has left."""
    parts = [range(n_bins)]
    for _ in range(depth):
        cuts = [int(rng.integers(1, len(part))) if len(part) > 1 else 1 for part in parts]
        halves = [
            half for part, cut in zip(parts, cuts, strict=True) for half in (part[:cut], part[cut:])
        ]
        parts = [half for half in halves if half]
    return np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def sum_by(group, values, n_groups):
    """Sums of the columns of ``values`` over the rows of each group."""
    return np.stack([np.bincount(group, column, n_groups) for column in values.T], axis=1)
