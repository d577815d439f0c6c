"""Leaf weights fitted together, by steps along noisy gradients.

In: noisy sums of residuals over the leaves of each tree, and how large their noise is. Out: weights. No
data comes here, and all of this is post-processing: whatever is done with what was released costs
nothing.

A row's score is the sum of the weights of its leaves. In each step every leaf releases the noisy sum of
its rows' residuals, the gradient of a loss. With H a leaf's curvature (a public constant times its
expected size), w its weight and g the sum, b = Hw - g is what a Newton step solves for: b = Hw* +
noise, if the other trees are right. Before anything is known, w* is N(0, tau^2 K), K from
``Term.alike``, so the posterior mean is

    P b,    P = tau^2 K H (H tau^2 K H + R)^-1,    R = H + covariance of the noise,

and a step moves the weights towards it: w += eta (P (Hw - m) - w), m being the momentum of g. The mean
of b over all steps is N(0, H tau^2 K H + R). Its density chooses the most likely K, and weighs tau^2
together with a prior around typical values (empirical Bayes). Weights are averaged over later steps.

The trace of PH is the number of weights that a tree can tell apart. Trees share a step's noise in
proportion to its square root: that makes the sum of squared errors smallest.

References: global refinement of forests, Ren et al. (CVPR 2015); Newton boosting with differential
privacy, Maddock et al. (CCS 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, eigh

from lumberjack.strategy import Strategy, unit_covariance
from lumberjack.terms import Term

__all__ = ["SCALE", "Fit", "Prior", "as_integers"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SCALE = 2**16  # weights are whole multiples of 1/SCALE
_LARGEST = 30.0  # largest weight
_MOMENTUM, _STEP, _REACH = 0.5, 0.1, 3.0
_BASE_STEP = 0.5
_BURN = 0.2  # share of a term's steps that is not averaged
_LOOKS = (5, 15, 40)  # steps of a stage after which tau is estimated again
_ROUNDS = 12  # of power iteration
_AVERAGED = 0.7  # of the budget of all steps: what the noise of an average corresponds to
_PAIR_WEIGHT = 0.5  # of a pair's share, where a column of as many distinct weights has 1
_ROOT = 0.5  # power of the number of distinct weights with which shares grow
_FEWEST = 0.1  # distinct weights that every tree is taken to have
_TAUS = np.array([0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0, 1.5, 2.2])
_TYPICAL = (1.5, 0.3, 0.05)  # tau of the base, of columns and of pairs


@dataclass(frozen=True)
class Prior:
    """What is known about a target before the first step.

    Attributes
    ----------
    curvature : float
        Second derivative of one row's loss, about.
    n_outputs : int
        Weights of a leaf.
    """

    curvature: float
    n_outputs: int


def as_integers(weights: Floats) -> Integers:
    """Weights in fixed point; what is no number is 0.

    Formal guarantees
    -----------------
    Bounded whatever the weights are, so that scores cannot overflow: residuals rely on that.
    """
    return np.rint(np.clip(np.nan_to_num(weights), -_LARGEST, _LARGEST) * SCALE).astype(np.int64)


class Fit:
    """Weights of the leaves of all terms, step by step.

    Parameters
    ----------
    prior : Prior
    precisions : ndarray of shape (n_steps,)
        Of each step: 1 / variance of its noise if it released a single sum, in units of residuals.

    Attributes
    ----------
    terms : list of Term
    weights : ndarray of shape (n_leaves, n_outputs)
        Of all terms, one after the other.
    strategy : Strategy
        Which sums the next steps release.
    """

    strategy: Strategy

    def __init__(self, prior: Prior, precisions: Floats) -> None:
        self.terms: list[Term] = []
        self._prior, self._steps, self._taken = prior, precisions, 0
        self.weights = np.zeros((0, prior.n_outputs))
        self._momentum, self._newton, self._sum = (self.weights.copy() for _ in range(3))
        self._covariance: list[Floats] = []  # of the noise of each term, in a single sum's place
        self._tau: list[float] = []
        self._alike: list[Floats] = []
        # Of each term: the precision of its steps so far, the step it joined at, and averaged steps.
        self._precision, self._born, self._averaged = np.zeros((3, 0))

    def join(self, terms: Sequence[Term]) -> None:
        """More terms, with weights of 0."""
        self.terms += terms
        more = np.zeros((sum(len(term.sizes) for term in terms), self._prior.n_outputs))
        each = self.weights, self._momentum, self._newton, self._sum
        self.weights, self._momentum, self._newton, self._sum = (np.vstack([x, more]) for x in each)
        self._covariance += map(unit_covariance, terms)
        self._tau += [_TYPICAL[len(term.columns)] for term in terms]
        self._alike += [term.alike[0] for term in terms]
        self._precision = np.append(self._precision, np.zeros(len(terms)))
        self._born = np.append(self._born, np.full(len(terms), self._taken))
        self._averaged = np.append(self._averaged, np.zeros(len(terms)))
        self._starts = np.cumsum([0, *(len(term.sizes) for term in self.terms)])
        self._sizes = np.concatenate([term.sizes for term in self.terms])
        self._curves = np.maximum(self._sizes, 1e-6) * self._prior.curvature

    def rescale(self, factor: float) -> None:
        """Go on in other units: weights, and what residuals add up to, times ``factor``."""
        for values in (self.weights, self._momentum, self._sum):
            values *= factor
        self._newton /= factor  # a sum weighted by precisions, which fall with the square
        self._precision /= factor**2

    def begin(self) -> None:
        """Begin a stage: divide the price of a step over all terms anew."""
        self._stage = self._taken
        self._share()
        self._look()

    def take(self, noisy: Floats) -> None:
        """Move along noisy sums of residuals, shape (n_sums, n_outputs)."""
        g = self.strategy.estimates @ noisy
        rate = self._by_leaf(np.where(self._precision > 0, 1 - _MOMENTUM, 1.0))
        self._momentum += rate[:, None] * (g - self._momentum)
        precision = self._steps[self._taken] * self.strategy.of_term
        h = self._curves[:, None]
        self._newton += self._by_leaf(precision)[:, None] * (h * self.weights - g)
        self._precision += precision
        self._taken += 1
        if self._taken - self._stage in _LOOKS:
            self._learn()
            self._look()
        away = self._solve @ (h * self.weights - self._momentum) - self.weights
        self.weights += self._rate[:, None] * away
        self.weights -= self._centre()
        np.clip(self.weights, -_LARGEST, _LARGEST, out=self.weights)
        later = self._taken - self._born > _BURN * (len(self._steps) - self._born)
        weight = np.where(later, self._steps[self._taken - 1], 0.0)
        self._averaged += weight
        self._sum += self._by_leaf(weight)[:, None] * self.weights

    def average(self) -> list[Floats]:
        """Weights of each term, averaged over later steps, shape (n_leaves, n_outputs) each."""
        share = self._by_leaf(np.where(self._averaged > 0, self._averaged, 1.0))
        return self._split(self._sum / share[:, None])

    def current(self) -> list[Floats]:
        """Weights of each term now."""
        return self._split(self.weights)

    def _split(self, values: Floats) -> list[Floats]:
        return np.split(values, self._starts[1:-1])

    def _by_leaf(self, values: Floats) -> Floats:
        return np.repeat(values, np.diff(self._starts))

    def _centre(self) -> Floats:
        """Mean weight over rows of each term whose prior is not centred; 0 for others."""
        total = np.add.reduceat(self._sizes, self._starts[:-1])
        means = np.add.reduceat(self._sizes[:, None] * self.weights, self._starts[:-1]) / total[:, None]
        free = [bool(t.columns) and k.ndim == 1 for t, k in zip(self.terms, self._alike, strict=True)]
        return np.repeat(means * np.array(free)[:, None], np.diff(self._starts), axis=0)

    def _spread(self, term: int, precision: float) -> Floats:
        """R: a matrix, or its diagonal if the noise of all leaves is independent."""
        h, noise = self._split(self._curves)[term], self._covariance[term] / precision
        return h + noise if noise.ndim == 1 else np.diag(h) + noise

    def _share(self) -> None:
        """Divide the price of a step over terms."""
        weights = np.array([(1.0, 1.0, _PAIR_WEIGHT)[len(term.columns)] for term in self.terms])
        of_term = Strategy.of(self.terms, weights).of_term
        for v, (term, solve) in enumerate(zip(self.terms, self._posteriors(of_term), strict=True)):
            if term.columns:
                h = self._split(self._curves)[v]
                distinct = float((solve * h).sum() if solve.ndim == 1 else (solve.diagonal() * h).sum())
                # Powers of 2, as each share needs a table of noise.
                weights[v] *= 2.0 ** round(np.log2(max(distinct, _FEWEST)) * _ROOT)
        self.strategy = Strategy.of(self.terms, weights)

    def _posteriors(self, of_term: Floats) -> list[Floats]:
        """P of each term at the end of all steps, if it has such a share of those to come."""
        total = _AVERAGED * (self._precision + self._steps[self._taken :].sum() * of_term)
        return [
            _posterior(h, tau**2 * alike, self._spread(v, total[v]))
            for v, (h, tau, alike) in enumerate(
                zip(self._split(self._curves), self._tau, self._alike, strict=True)
            )
        ]

    def _learn(self) -> None:
        """Choose tau and the correlation of each term by what the steps said so far."""
        h, newton = self._split(self._curves), self._split(self._newton)
        for v, term in enumerate(self.terms):
            if not term.columns:
                continue
            b, spread = newton[v] / self._precision[v], self._spread(v, self._precision[v])
            found = [_evidence(b, h[v], spread, alike) for alike in term.alike]
            typical = _TYPICAL[len(term.columns)]
            scores = np.array(found) - np.log(_TAUS / typical) ** 2 / 2
            best = int(scores.max(axis=1).argmax())
            chance = np.exp(scores[best] - scores[best].max())
            self._alike[v] = term.alike[best]
            self._tau[v] = float(np.sqrt(chance @ _TAUS**2 / chance.sum()))

    def _look(self) -> None:
        """Recompute the posterior means, and the longest step that stays stable."""
        solves, h = self._posteriors(self.strategy.of_term), self._split(self._curves)
        shared = np.array([not term.columns for term in self.terms])
        gains = sum(_largest(s, c) for s, c, base in zip(solves, h, shared, strict=True) if not base)
        rate = min(_STEP, _REACH / max(gains, 1e-9))
        self._rate = self._by_leaf(np.where(shared, _BASE_STEP, rate))
        blocks = [s if s.ndim == 2 else sparse.diags_array(s) for s in solves]
        self._solve = sparse.block_diag(blocks, format="csr")


def _posterior(h: Floats, prior: Floats, spread: Floats) -> Floats:
    """P: a matrix, or its diagonal if prior and noise are independent."""
    if prior.ndim == 1:
        return np.asarray(prior * h / (prior * h * h + spread))
    inner = h[:, None] * prior * h[None, :] + (np.diag(spread) if spread.ndim == 1 else spread)
    return np.asarray(cho_solve(cho_factor(inner), h[:, None] * prior).T)


def _largest(solve: Floats, h: Floats) -> float:
    """The largest eigenvalue of P H, by power iteration: how far a step corrects an error."""
    if solve.ndim == 1:
        return float((solve * h).max())
    x = np.cos(np.arange(len(h)))
    size = 1.0
    for _ in range(_ROUNDS):
        x = solve @ (h * x)
        size = float(np.linalg.norm(x))
        if size == 0.0:
            return 0.0
        x /= size
    return size


def _evidence(b: Floats, h: Floats, spread: Floats, alike: Floats) -> Floats:
    """Log density of b under N(0, tau^2 H K H + R) for each tau, up to a constant."""
    if alike.ndim == 1:
        values, squares = h**2 * alike / spread, b**2 / spread[:, None]
    else:
        signal = h[:, None] * alike * h[None, :]
        values, vectors = eigh(signal, np.diag(spread) if spread.ndim == 1 else spread)
        values, squares = np.maximum(values, 0.0), (vectors.T @ b) ** 2
    added = 1 + _TAUS[:, None] ** 2 * values[None, :]
    logs = b.shape[1] * np.log(added).sum(axis=1) + (squares.sum(axis=1)[None, :] / added).sum(axis=1)
    return np.asarray(-0.5 * logs)
