"""Naive Bayes from noisy counts: everything is released once, so it stands for very small budgets.

In: all rows, once. Out: for each column a table of log odds of its cells, and the shares of classes.
"""

import math

import numpy as np
from scipy.special import softmax

from benchmarks.baselines.base import DELTA, Baseline, digest, values_of
from benchmarks.baselines.cells import public_codings
from lumberjack.accounting import gaussian_mu


class NaiveBayes(Baseline):
    """Classes given each column by itself, from one noisy table of counts a column.

    A share of a class in a cell is drawn towards its share among all rows, as if the cell held a few
    more rows of that kind: as many as twice the noise of a count.

    Claim: (epsilon, delta)-DP under adding or removing a row. A row changes one count by 1 in each
    table, and one count of classes, so Gaussian noise sqrt(tables + 1) / mu makes all of them together
    mu-GDP, for the largest mu whose Gaussian curve is below (epsilon, delta). Floating-point noise is
    not hardened.
    """

    name = "naive-bayes"
    claim = "proved"
    reason = "noisy counts, tight Gaussian curve; floating-point noise"
    settings = "32 uniform bins (64 for wide ranges), counts released once"
    PULL = 2.0  # rows that each cell is drawn to all rows with, in deviations of the noise

    def identity(self, epsilon) -> str:
        """Its version, and what the library's accounting gives it."""
        return f"{self.version}-{digest(gaussian_mu(epsilon, DELTA))}"

    def _fit(self, X, target, epsilon, rng, validation):
        values, n_classes = values_of(X, self.domain), len(self.classes)
        self.codings = public_codings(self.domain)
        noise = math.sqrt(len(self.codings) + 1) / gaussian_mu(epsilon, DELTA)

        def counts(code, size):
            exact = np.bincount(code * n_classes + target, minlength=size * n_classes)
            noisy = exact + rng.normal(scale=noise, size=exact.shape)
            return np.maximum(noisy, 0).reshape(size, n_classes)

        whole = counts(np.zeros_like(target), 1)[0] + 1
        overall = whole / whole.sum()
        self.base, self.tables = np.log(overall), []
        for coding in self.codings:
            pulled = counts(coding.codes(values), coding.size) + self.PULL * noise * overall
            shares = pulled / pulled.sum(axis=1, keepdims=True)
            self.tables.append(np.log(shares) - self.base)

    def _scores(self, X):
        values = values_of(X, self.domain)
        parts = zip(self.codings, self.tables, strict=True)
        return softmax(self.base + sum(table[c.codes(values)] for c, table in parts), axis=1)
