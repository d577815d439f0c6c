"""Leaf weights fitted together, by steps along noisy gradients.

In: noisy sums of residuals over the leaves of each tree, and how large their noise is. Out: weights. No
data comes here, and all of this is post-processing: whatever is done with what was released costs
nothing.

A row's score is the sum of the weights of its leaves. In each step every leaf releases the noisy sum of
its rows' residuals, the gradient of a loss. With H a leaf's curvature (a public constant times its
expected size), w its weight and g the sum, b = Hw - g is what a Newton step solves for: b = Hw* +
noise, if the other trees are right. Before anything is known, w* is N(0, tau^2 K), K from
``Term.alike``, so the posterior mean is

    P b,    P = tau^2 K H (H tau^2 K H + R)^-1,    R = H + variance of the noise,

and a step moves the weights towards it: w += eta (P (Hw - m) - w), m being the momentum of g. The mean
of b over all steps is N(0, H tau^2 K H + R). Its density chooses the most likely K, and weighs tau^2
together with a prior around typical values (empirical Bayes). Weights are averaged over later steps.

References: global refinement of forests, Ren et al. (CVPR 2015); Newton boosting with differential
privacy, Maddock et al. (CCS 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from lumberjack.terms import Term

__all__ = ["SCALE", "Fit", "Noise", "Prior", "as_integers", "shares"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SCALE = 2**16  # weights are whole multiples of 1/SCALE
_LARGEST = 30.0  # largest weight
_MOMENTUM, _STEP, _REACH = 0.5, 0.1, 3.0
_BASE_STEP = 0.5
_BURN = 0.3  # share of the steps that is not averaged
_LOOKS = (5, 10, 15, 25, 40, 60, 80)  # steps after which tau is estimated again
_ROUNDS = 12  # of power iteration
_AVERAGED = 0.7  # of the budget of all steps: what the noise of an average corresponds to
_PAIR_SHARE, _BASE_SHARE = 0.2, 1.0  # of a pair and of the base, where a column has 1
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


@dataclass(frozen=True)
class Noise:
    """The noise of all steps.

    Attributes
    ----------
    deviation : float
        Of a step whose sums are all in one tree, in units of residuals.
    steps : int
    """

    deviation: float
    steps: int


def shares(terms: Sequence[Term]) -> Floats:
    """Share of each tree in a step's price; they add up to 1.

    Formal guarantees
    -----------------
    A function of the columns of each term alone. Noise of variance sigma^2 / a_v in tree v, with
    shares a_v that add up to at most 1, costs as much as noise sigma in a single tree, as a row is in
    one leaf of each.
    """
    weights = np.array([(_BASE_SHARE, 1.0, _PAIR_SHARE)[len(term.columns)] for term in terms])
    # Rounded down: what is added up must not exceed 1.
    return np.asarray(weights / weights.sum() * (1 - 2.0**-40))


def as_integers(weights: Floats) -> Integers:
    """Weights in fixed point."""
    return np.rint(np.clip(weights, -_LARGEST, _LARGEST) * SCALE).astype(np.int64)


class Fit:
    """Weights of the leaves of all terms, step by step.

    Parameters
    ----------
    terms : sequence of Term
    prior : Prior
    noise : Noise
    start : sequence of ndarray or None
        First weights of the first terms; all others start at 0.
    """

    def __init__(
        self, terms: Sequence[Term], prior: Prior, noise: Noise, start: Sequence[Floats] = ()
    ) -> None:
        shape = [(len(term.sizes), prior.n_outputs) for term in terms]
        self.weights = [w.copy() for w in start] + [np.zeros(s) for s in shape[len(start) :]]
        self.terms, self.noise = terms, noise
        self._curves = [np.maximum(term.sizes, 1e-6) * prior.curvature for term in terms]
        self._variance = noise.deviation**2 / shares(terms)  # of one step, by term
        self._momentum: list[Floats] = []
        self._newton = [np.zeros(s) for s in shape]  # sum of b over steps
        self._sum = [np.zeros(s) for s in shape]
        self._taken, self._averaged = 0, 0
        self._solve: list[Floats] = []
        self._alike = [term.alike[0] for term in terms]
        self._tau = [_TYPICAL[len(term.columns)] for term in terms]
        self._look()

    def take(self, noisy: Sequence[Floats]) -> None:
        """Move along the noisy sums of residuals of each term, shape (n_leaves, n_outputs)."""
        if not self._momentum:
            self._momentum = [g.copy() for g in noisy]
        for v, g in enumerate(noisy):
            self._momentum[v] += (1 - _MOMENTUM) * (g - self._momentum[v])
            self._newton[v] += self._curves[v][:, None] * self.weights[v] - g
        self._taken += 1
        if self._taken in _LOOKS:
            self._learn()
            self._look()
        for v, term in enumerate(self.terms):
            w, m, h = self.weights[v], self._momentum[v], self._curves[v][:, None]
            rate = self._rate if term.columns else _BASE_STEP
            w += rate * (_times(self._solve[v], h * w - m) - w)
            if self._alike[v].ndim == 1:
                w -= term.sizes @ w / term.sizes.sum()
            np.clip(w, -_LARGEST, _LARGEST, out=w)
        if self._taken > _BURN * self.noise.steps:
            self._averaged += 1
            for total, w in zip(self._sum, self.weights, strict=True):
                total += w

    def average(self) -> list[Floats]:
        """Weights averaged over the later steps."""
        return [total / max(self._averaged, 1) for total in self._sum]

    def _learn(self) -> None:
        """Choose tau and the correlation of each term by what the steps said so far."""
        for v, term in enumerate(self.terms):
            if not term.columns:
                continue
            b = self._newton[v] / self._taken
            spread = self._curves[v] + self._variance[v] / self._taken
            found = [_evidence(b, self._curves[v], spread, alike) for alike in term.alike]
            typical = _TYPICAL[len(term.columns)]
            scores = np.array(found) - np.log(_TAUS / typical) ** 2 / 2
            best = int(scores.max(axis=1).argmax())
            chance = np.exp(scores[best] - scores[best].max())
            self._alike[v] = term.alike[best]
            self._tau[v] = float(np.sqrt(chance @ _TAUS**2 / chance.sum()))

    def _look(self) -> None:
        """Recompute the posterior means, and the longest step that stays stable."""
        gains, self._solve = 0.0, []
        for v, term in enumerate(self.terms):
            h, prior = self._curves[v], self._tau[v] ** 2 * self._alike[v]
            spread = h + self._variance[v] / (_AVERAGED * self.noise.steps)
            self._solve.append(_posterior(h, prior, spread))
            if term.columns:
                gains += _largest(self._solve[-1], h)
        self._rate = min(_STEP, _REACH / max(gains, 1e-9))


def _posterior(h: Floats, prior: Floats, spread: Floats) -> Floats:
    """P: a matrix, or its diagonal if the prior is one."""
    if prior.ndim == 1:
        return np.asarray(prior * h / (prior * h * h + spread))
    inner = h[:, None] * prior * h[None, :]
    inner[np.diag_indices_from(inner)] += spread
    return np.asarray(cho_solve(cho_factor(inner), h[:, None] * prior).T)


def _times(solve: Floats, b: Floats) -> Floats:
    """P b, shape (n_leaves, n_outputs)."""
    return np.asarray(solve[:, None] * b if solve.ndim == 1 else solve @ b)


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
    """Log density of b under N(0, tau^2 H K H + diag(spread)) for each tau, up to a constant."""
    scale, whitened = h / np.sqrt(spread), b / np.sqrt(spread)[:, None]
    if alike.ndim == 1:
        values, squares = scale**2 * alike, whitened**2
    else:
        values, vectors = eigh(scale[:, None] * alike * scale[None, :])
        values, squares = np.maximum(values, 0.0), (vectors.T @ whitened) ** 2
    added = 1 + _TAUS[:, None] ** 2 * values[None, :]
    logs = b.shape[1] * np.log(added).sum(axis=1) + (squares.sum(axis=1)[None, :] / added).sum(axis=1)
    return np.asarray(-0.5 * logs)
