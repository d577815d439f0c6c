"""Linear models of one-hot cells by noisy gradients: what a good engineer would build first.

In: all rows, in every step. Out: a weight for each cell, and for each class if there are more than two.
"""

import itertools
import math

import numpy as np
from scipy.special import expit, softmax

from benchmarks.baselines.base import DELTA, Baseline, digest, values_of
from benchmarks.baselines.cells import (
    OneHot,
    coarse,
    coarse_codings,
    histograms,
    nested_codings,
    public_codings,
)
from lumberjack.accounting import gaussian_mu


class LRBin(Baseline):
    """Logistic regression on binned one-hot columns by noisy gradients, full batch, with Adam.

    Claim: (epsilon, delta)-DP under adding or removing a row. A row's vector has norm 1 and its residual
    is clipped to norm C, so it changes a sum of gradients by at most C. Each of T steps releases the sum
    with Gaussian noise sqrt(T) C / mu, whatever the steps before said: mu-GDP in all, for the largest
    mu whose Gaussian curve is below (epsilon, delta). The number of rows is not used. Floating-point
    noise is not hardened.
    """

    name = "lr-bin"
    claim = "proved"
    reason = "noisy gradients, tight Gaussian curve; floating-point noise"
    settings = "32 uniform bins (64 for wide ranges), 50 steps of Adam, clip 0.5"
    CLIP = 0.5  # of the residual of one class; that of several has a norm of sqrt(2) times as much

    def __init__(self, steps=50, rate=0.3):
        self.steps, self.rate = steps, rate

    def identity(self, epsilon) -> str:
        """Its version, and what the library's accounting gives it."""
        return f"{self.version}-{digest(gaussian_mu(epsilon, DELTA))}"

    def _encode(self, values, mu, rng):
        """The one-hot columns, and what is left of mu for the steps."""
        groups = [(), *((coding,) for coding in public_codings(self.domain))]
        return OneHot(groups, np.ones(len(groups))), mu

    def _fit(self, X, target, epsilon, rng, validation):
        n_classes = len(self.classes)
        n_outputs = 1 if n_classes == 2 else n_classes
        wanted = np.eye(n_classes)[:, -n_outputs:]
        clip = self.CLIP * math.sqrt(min(n_outputs, 2))

        def residual(scores, rows):
            return clipped(probabilities(scores)[:, -n_outputs:] - wanted[target[rows]], clip)

        self._descend(values_of(X, self.domain), residual, (n_outputs, clip), epsilon, rng)

    def _descend(self, values, residual, shape, epsilon, rng):
        """Weights from noisy gradients; ``shape``: number of outputs, and largest norm of a residual."""
        n_outputs, clip = shape
        self.one_hot, mu = self._encode(values, gaussian_mu(epsilon, DELTA), rng)
        cells = self.one_hot.cells(values)
        noise = math.sqrt(self.steps) * clip / mu

        def gradient(w):
            exact = self.one_hot.gradient(cells, w, residual)
            return exact + rng.normal(scale=noise, size=w.shape)

        start = np.zeros((len(self.one_hot.weight), n_outputs))
        self.w = adam(gradient, start, self.steps, self.rate)

    def _linear(self, X):
        return self.one_hot.scores(self.one_hot.cells(values_of(X, self.domain)), self.w)

    def _scores(self, X):
        return probabilities(self._linear(X))


class LRPairs(LRBin):
    """The same with all pairs of columns, in coarser groups that noisy histograms cut.

    Claim: as ``LRBin``; a tenth of mu^2 is for the histograms, the rest for the steps.
    """

    name = "lr-pairs"
    reason = "noisy histograms and gradients, tight Gaussian curve; floating-point noise"
    settings = "as lr-bin, all pairs of columns with weight 0.2, 200 steps"
    SHARE = 0.1  # of mu^2, for the histograms
    WEIGHT = 0.2  # of a pair; a column has 1

    def __init__(self, steps=200, rate=0.1):
        super().__init__(steps, rate)

    def _encode(self, values, mu, rng):
        coarse = coarse_codings(values, self.domain, math.sqrt(self.SHARE) * mu, rng)
        pairs = list(itertools.combinations(coarse, 2))
        groups = [(), *((coding,) for coding in public_codings(self.domain))]
        weights = [1.0] * len(groups) + [self.WEIGHT] * len(pairs)
        return OneHot(groups + pairs, weights), math.sqrt(1 - self.SHARE) * mu


class LRNested(LRPairs):
    """The same with each number cut on five scales, from noisy halves to 32 noisy quantile groups.

    A weight of a coarse group is shared by all groups within it, and learned from all of their rows, so
    that neighbours are alike unless their own rows say otherwise: what a smooth prior does.

    Claim: as ``LRPairs``; the same histograms give all scales.
    """

    name = "lr-nested"
    settings = "as lr-pairs, numbers in 2, 4, 8, 16 and 32 noisy quantile groups at once"

    def _encode(self, values, mu, rng):
        found = list(histograms(values, self.domain, math.sqrt(self.SHARE) * mu, rng))
        columns = [(coding,) for each in found for coding in nested_codings(*each)]
        pairs = list(itertools.combinations([coarse(*each) for each in found], 2))
        weights = [1.0] * (1 + len(columns)) + [self.WEIGHT] * len(pairs)
        return OneHot([(), *columns, *pairs], weights), math.sqrt(1 - self.SHARE) * mu


class LRBinRegressor(LRBin):
    """Least squares on the same columns; that steps are short and few does what a ridge's penalty does.

    Claim: as ``LRBin``; residuals are shares of the target's public range, clipped to C.
    """

    settings = "as lr-bin, 200 steps, clip 0.1 of the target's range"
    CLIP = 0.1

    def __init__(self, steps=200, rate=0.03):
        super().__init__(steps, rate)

    def fit(self, X, y, domain, bounds, epsilon, rng):
        """Train; ``bounds`` are the lowest and the highest target, known without the data."""
        self.domain, self.bounds = domain, bounds
        low, high = bounds
        share = (np.clip(np.asarray(y, dtype=float), low, high) - low) / (high - low) - 0.5

        def residual(scores, rows):
            return clipped(scores - share[rows, None], self.CLIP)

        self._descend(values_of(X, domain), residual, (1, self.CLIP), epsilon, rng)
        return self

    def predict(self, X):
        """Targets, in their public range."""
        low, high = self.bounds
        return low + (high - low) * np.clip(self._linear(X)[:, 0] + 0.5, 0, 1)


def probabilities(scores):
    """Shares of the classes; one score alone is the log odds of the second of two classes."""
    if scores.shape[1] > 1:
        return softmax(scores, axis=1)
    share = expit(scores)
    return np.hstack([1 - share, share])


def clipped(residuals, bound):
    """Residuals of rows, their norm at most ``bound``."""
    norm = np.linalg.norm(residuals, axis=1, keepdims=True)
    return residuals * (bound / np.maximum(norm, bound))


def adam(gradient, w, steps, rate):
    """Adam (Kingma and Ba 2015) with its usual constants, averaged over the second half of the steps."""
    first, second, total = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for t in range(1, steps + 1):
        g = gradient(w)
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g**2
        w = w - rate * first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        if 2 * t > steps:
            total += w
    return total / (steps - steps // 2)
