"""Residuals of rows and their sums over leaves: what each step of a fit adds up.

In: trees, weights in fixed point, codes of rows and encoded targets. Out: integers, which add up over
blocks of rows. A residual is a function of its own row: of an integer score, by tables and integer
arithmetic (``Softmax`` divides and rounds in floating point). So the sums are the same for any order
and number of blocks and threads.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lumberjack.columns import CodeCounts, coarse_places
from lumberjack.fitting import SCALE
from lumberjack.grove import Grove
from lumberjack.guarantee import SUM_BOUND
from lumberjack.kernels import kernel

__all__ = ["FARTHEST", "FINE", "Distance", "Distances", "Loss", "Odds", "Residuals", "Softmax"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_BATCH = 4096  # rows whose scores and residuals stay in the cache
_WORTH_THREADS = 2**14  # rows: fewer are done before threads have started
_CELL = 2**9  # weights in one cell of a table of scores
_CELLS = 2**11  # cells on each side of 0: scores from -16 to 16
_STEPS = SCALE // SUM_BOUND  # weights in one step of a target
_MOST = 2**22  # of exp(score) in a table of Softmax, for a score of 0
FINE = 2**12  # steps of the grid of residuals
FARTHEST = 2 * SUM_BOUND  # distances beyond it are as far


class Loss(Protocol):
    """What a row's residual is.

    Residuals are whole numbers of at most ``reach * step``. Sums of them may be divided by ``step`` and
    rounded: then a row moves them by at most ``reach``, if it moved them by a multiple of ``step`` or
    less.
    """

    @property
    def reach(self) -> int:
        """How far a row moves a released sum."""

    @property
    def step(self) -> int:
        """What sums are divided by before noise is added."""

    @property
    def n_outputs(self) -> int:
        """Weights of a leaf."""

    @property
    def curvature(self) -> float:
        """Second derivative of one row's loss, about, for weights in ``unit``."""

    @property
    def unit(self) -> float:
        """The scale of weights: residuals saturate one unit from the truth."""

    def residuals(self, scores: Integers, target: NDArray[np.int32]) -> Integers:
        """Residuals of rows, shape (n_rows, n_outputs), as scores are."""


@dataclass(frozen=True)
class Odds:
    """Two classes: the score is the log odds of the second.

    With odds e^z, a row of the first class has the residual min(e^z, 1), one of the second -min(e^-z,
    1), times ``reach * step`` and rounded. Its mean is 0 exactly if z is the log odds. Among such
    residuals in [-1, 1] this is the one whose mean reacts most to z, whatever z is: the residual p - y
    of logistic regression, divided by max(p, 1 - p).

    Formal guarantees
    -----------------
    A row changes one sum in each tree, by at most ``reach * step``.
    """

    reach: int
    n_outputs: ClassVar = 1
    curvature: ClassVar = 0.3
    unit: ClassVar = 1.0

    @property
    def step(self) -> int:
        """See ``Loss``."""
        return max(FINE // self.reach, 1)

    def residuals(self, scores: Integers, target: NDArray[np.int32]) -> Integers:
        """See ``Loss``."""
        out = np.empty_like(scores)
        _find_odds(scores.ravel(), target, _odds_table(self.reach * self.step), out.ravel())
        return out


@dataclass(frozen=True)
class Softmax:
    """Several classes: scores are log chances up to a constant.

    The residuals of a row are chance minus truth for each class, scaled down to a norm of at most 1,
    times ``reach`` and rounded towards 0. Dividing sums by a step would change each part of such a
    vector by up to 1, so the step is 1.

    Formal guarantees
    -----------------
    A row changes one vector of sums in each tree, by at most ``reach`` in Euclidean norm.
    """

    reach: int
    n_outputs: int
    step: ClassVar = 1
    curvature: ClassVar = 0.15
    unit: ClassVar = 1.0

    def residuals(self, scores: Integers, target: NDArray[np.int32]) -> Integers:
        """See ``Loss``."""
        out = np.empty_like(scores)
        _find_softmax(scores, target, _exp_table(), self.reach, out)
        return out


@dataclass(frozen=True)
class Distance:
    """A number: the residual is score minus target, clipped to ``clip``, times ``reach * step / clip``.

    Targets are whole numbers from -SUM_BOUND to SUM_BOUND, and a score of 1 is SUM_BOUND. So this is
    the gradient of Huber's loss.

    Formal guarantees
    -----------------
    A row changes one sum in each tree, by at most ``reach * step``.
    """

    reach: int
    clip: int
    n_outputs: ClassVar = 1
    curvature: ClassVar = 0.9

    @property
    def step(self) -> int:
        """See ``Loss``."""
        return max(FINE // self.reach, 1)

    @property
    def unit(self) -> float:
        """The clip."""
        return self.clip / SUM_BOUND

    def residuals(self, scores: Integers, target: NDArray[np.int32]) -> Integers:
        """See ``Loss``."""
        out = np.empty_like(scores)
        clip, reach = self.clip * _STEPS, self.reach * self.step
        _find_distances(scores.ravel(), target, clip, reach, out.ravel())
        return out


@cache
def _odds_table(reach: int) -> Integers:
    """Residual of a row by its score and class, shape (2 * _CELLS + 1, 2)."""
    score = np.arange(-_CELLS, _CELLS + 1) * (_CELL / SCALE)
    first, second = np.minimum(np.exp(score), 1.0), -np.minimum(np.exp(-score), 1.0)
    table: Integers = np.rint(np.column_stack([first, second]) * reach).astype(np.int64)
    return table


@cache
def _exp_table() -> Integers:
    """exp of scores from -32 to 0, in steps of _CELL weights, times _MOST."""
    table: Integers = np.rint(np.exp(-np.arange(4 * _CELLS) * (_CELL / SCALE)) * _MOST).astype(np.int64)
    return table


class Residuals(NamedTuple):
    """A counting object: sums of residuals over the leaves of all trees.

    Attributes
    ----------
    grove : Grove
    weights : ndarray of int64, shape (n_leaves, n_outputs)
        Of all leaves, in units of 1/SCALE.
    loss : Loss
    n_threads : int
    """

    grove: Grove
    weights: Integers
    loss: Any
    n_threads: int = 1

    def __call__(self, block: Any) -> list[Integers]:
        """One array, shape (n_leaves, n_outputs)."""
        grove, digits = self.grove, block.digits(self.grove, self.n_threads)
        weights = grove.spread(self.weights)

        def some(rows: slice) -> Integers:
            out = np.zeros_like(weights)
            for batch in _batches(rows):
                scores = grove.scores(digits, batch, weights)
                grove.add(digits, batch, self.loss.residuals(scores, block.target[batch]), out)
            return out

        return [grove.fold(_in_threads(some, len(block), self.n_threads))]


class Distances(NamedTuple):
    """A counting object: how often rows have which distance of their score from their target.

    Attributes
    ----------
    grove : Grove
    weights : ndarray of int64, shape (n_leaves, 1)
    n_threads : int
    """

    grove: Grove
    weights: Integers
    n_threads: int = 1

    def __call__(self, block: Any) -> list[CodeCounts]:
        """One element: coarse places of distances in steps of the target, from 1 to FARTHEST."""
        grove, digits = self.grove, block.digits(self.grove, self.n_threads)
        weights = grove.spread(self.weights)
        counts = np.zeros(FARTHEST + 1, dtype=np.int64)
        for batch in _batches(slice(0, len(block))):
            score = grove.scores(digits, batch, weights)[:, 0]
            away = np.abs(score - block.target[batch].astype(np.int64) * _STEPS) // _STEPS
            counts += np.bincount(np.clip(away, 1, FARTHEST), minlength=len(counts))
        far = np.flatnonzero(counts)
        codes, first = np.unique(coarse_places(far.astype(np.float64)), return_index=True)
        return [CodeCounts(codes, np.add.reduceat(counts[far], first))]


def _batches(rows: slice) -> Iterator[slice]:
    """Batches of rows whose scores and residuals stay in the cache."""
    for start in range(rows.start, rows.stop, _BATCH):
        yield slice(start, min(start + _BATCH, rows.stop))


def _in_threads(some: Callable[[slice], Integers], n_rows: int, n_threads: int) -> Integers:
    """Sum of what some rows give, over equal parts of all rows."""
    ends = [n_rows * i // n_threads for i in range(n_threads + 1)]
    parts = [slice(a, b) for a, b in itertools.pairwise(ends)]
    if n_threads == 1 or n_rows < _WORTH_THREADS:
        return some(slice(0, n_rows))
    with ThreadPoolExecutor(n_threads) as threads:
        found: Sequence[Integers] = list(threads.map(some, parts))
    return np.asarray(np.sum(found, axis=0))


@kernel
def _find_odds(score: Integers, target: NDArray[np.int32], table: Integers, out: Integers) -> None:
    for i in range(len(score)):
        cell: Any = (score[i] + _CELL // 2) // _CELL
        out[i] = table[min(max(cell, -_CELLS), _CELLS) + _CELLS, target[i]]


@kernel
def _find_distances(
    score: Integers, target: NDArray[np.int32], clip: int, reach: int, out: Integers
) -> None:
    for i in range(len(score)):
        away: Any = score[i] - np.int64(target[i]) * _STEPS
        scaled = min(abs(away), clip) * reach // clip  # rounded towards 0
        out[i] = scaled if away > 0 else -scaled


@kernel
def _find_softmax(
    score: Integers, target: NDArray[np.int32], table: Integers, reach: int, out: Integers
) -> None:
    n, n_outputs = score.shape
    share = np.empty(n_outputs)
    for i in range(n):
        most, total = score[i, 0], 0.0
        for k in range(1, n_outputs):
            most = max(most, score[i, k])
        for k in range(n_outputs):
            cell = (most - score[i, k]) // _CELL
            share[k] = table[cell] if cell < len(table) else 0
            total += share[k]
        norm = 0.0
        for k in range(n_outputs):
            share[k] = share[k] / total - (1.0 if k == target[i] else 0.0)
            norm += share[k] * share[k]
        # Rounded towards 0, and a little below reach, so that the norm cannot exceed it.
        scale = (reach - 0.01) / max(np.sqrt(norm), 1.0)
        for k in range(n_outputs):
            out[i, k] = np.int64(np.trunc(share[k] * scale))
