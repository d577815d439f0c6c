"""Where a cut or a target lies, before any row is seen: public weights of places.

In: a grid of places, and the cuts that were released so far. Out: ``PlacePrior``. No data comes here.
The exponential mechanism multiplies such weights by its own, which costs nothing. A node with few rows
can tell few places apart; there the prior keeps its cut near cuts that were released.

*Between two cuts* places in the middle are the likeliest, by the numbers that they stand for. *Beyond
the outermost cut* the likeliest places are as far from it as the next cut is; other distances are less
likely the more octaves they differ. *Without cuts* numbers are mostly neither tiny nor huge. Every place
of the grid keeps a part of the weight, as numbers may lie anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.kinds import CELLS, Numeric, places_of, values_at

__all__ = ["LARGEST", "PlacePrior", "prior_of_centre", "prior_of_cut", "prior_within"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST = float(np.finfo(np.float32).max)
_TOTAL = 2**46  # of all weights, at most; a grid has at most 2^32 places
_EVERYWHERE, _RARELY = 3, 6  # powers of 1/2: parts of the total that are the same for all places
_PARTS = 16  # of what lies between two cuts
_STEPS = np.arange(-60, 61)
_FINE = 2**20  # weight of the likeliest octave
_TYPICAL, _SPREAD = 64.0, 10  # of numbers about which nothing is known
_ZERO = _FINE // 2  # weight of 0 among them, nearly half of all
_FIRST_SPREAD, _SPREAD_BEYOND = 8, 1  # of distances beyond the first cut, and beyond later ones
_NEAR = 16  # before a second cut is known: distances are about this part of the number itself


@dataclass(frozen=True)
class PlacePrior:
    """Public weights of the places of a grid, whole numbers, the same for all places of a segment.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_segments + 1,)
        The first place of each segment, and one past the last place.
    weights : ndarray of int64, shape (n_segments,)
        Of a single place: at least 1. All places together weigh less than 2^47.

    Formal guarantees
    -----------------
    A function of the grid and of released values alone.
    """

    edges: Integers
    weights: Integers

    @classmethod
    def even(cls, first: int, last: int) -> "PlacePrior":
        """The same weight for all places from first to last."""
        return cls(np.array([first, last + 1], dtype=np.int64), np.ones(1, dtype=np.int64))

    @classmethod
    def shaped(
        cls, first: int, last: int, edges: Integers, masses: Integers, everywhere: int = _EVERYWHERE
    ) -> "PlacePrior":
        """Segments weighted by their masses, with a share 2^-everywhere spread evenly over all places.

        ``edges``, one more than ``masses``, increase; what is outside first to last is cut off, and a
        segment without places has no weight.
        """
        outer = np.clip(np.concatenate([[first], edges, [last + 1]]), first, last + 1)
        sizes = np.diff(outer)
        inside = sizes > 0
        share = _TOTAL // int(masses.sum()) * np.concatenate([[0], masses, [0]])
        weights = share[inside] // sizes[inside] + (_TOTAL >> everywhere) // (last + 1 - first)
        return cls(np.append(outer[:-1][inside], last + 1), weights)

    @property
    def first(self) -> int:
        """The first place."""
        return int(self.edges[0])

    @property
    def last(self) -> int:
        """The last place."""
        return int(self.edges[-1]) - 1

    @cached_property
    def _below(self) -> Integers:
        return np.append(0, np.cumsum(self.weights * np.diff(self.edges)))

    def below(self, places: Any) -> Integers:
        """Total weight below each of ``places``, which lie between first and last + 1."""
        segment = np.searchsorted(self.edges[1:-1], places, side="right")
        return np.asarray(self._below[segment] + (places - self.edges[segment]) * self.weights[segment])

    def place(self, weight: int) -> int:
        """The first place whose cumulative weight, its own included, exceeds ``weight``."""
        segment = int(np.searchsorted(self._below[1:-1], weight, side="right"))
        return int(self.edges[segment] + (weight - self._below[segment]) // self.weights[segment])


def _octaves(start: float, unit: float, side: int, spread: int) -> tuple[Floats, Integers]:
    """Positions at powers of two times ``unit`` from a start, in increasing order, and masses between.

    The masses fall with the square of the distance from ``unit`` in octaves, from ``spread`` on.
    """
    masses = _FINE // (spread**2 + _STEPS**2)
    steps = np.append(_STEPS, _STEPS[-1] + 1)
    positions = start + side * np.ldexp(unit, steps)
    return (positions, masses) if side > 0 else (positions[::-1], masses[::-1])


def _between(low: float, high: float) -> tuple[Floats, Integers]:
    """Positions of equal parts, and masses that fall from the middle to both ends."""
    parts = np.arange(_PARTS)
    positions = low + (high - low) * (np.arange(_PARTS + 1) / _PARTS)
    return positions, np.minimum(2 * parts + 1, 2 * (_PARTS - parts) - 1)


def _position(grid: Numeric, place: int) -> float:
    """What distances are measured in: cells of a range, or numbers."""
    return float(place) if grid.is_bounded else min(max(float(values_at(place)), -LARGEST), LARGEST)


def _places(grid: Numeric, positions: Floats) -> Integers:
    if grid.is_bounded:
        return np.floor(np.clip(positions, 0, CELLS)).astype(np.int64)
    return places_of(np.clip(positions, -LARGEST, LARGEST)).astype(np.int64)


def prior_of_centre(limits: tuple[float, float] | None) -> PlacePrior:
    """Where the median of a target may lie: among all finite numbers, or between public bounds."""
    if limits is None:
        return _prior_of_number(*_places(Numeric(), np.array([-LARGEST, LARGEST])).tolist())
    edges, masses = _between(*limits)
    first, last = _places(Numeric(), np.array(limits)).tolist()
    return PlacePrior.shaped(first, last, _places(Numeric(), edges), masses)


def prior_within(grid: tuple[int, int], low: int, high: int) -> PlacePrior:
    """Equal weights from ``low`` to ``high``, and small ones for all other places of a grid."""
    return PlacePrior.shaped(*grid, np.array([low, high + 1]), np.ones(1, dtype=np.int64), _RARELY)


def _prior_of_number(first: int, last: int) -> PlacePrior:
    """Where any number may lie, among the places of all numbers from first to last."""
    (low, below), (high, above) = (_octaves(0.0, _TYPICAL, side, _SPREAD) for side in (-1, 1))
    zero = int(places_of(np.zeros(1))[0])
    edges = np.concatenate([_places(Numeric(), low), [zero, zero + 1], _places(Numeric(), high)])
    masses = np.concatenate([below, [0, _ZERO, 0], above])
    return PlacePrior.shaped(first, last, edges, masses, everywhere=_RARELY)


def prior_of_cut(grid: Numeric, cuts: Sequence[int], node: int) -> PlacePrior | None:
    """Where the next cut of a column may lie; None if a node has no place for one.

    Parameters
    ----------
    grid : Numeric
    cuts : sequence of int
        Places of the cuts so far, in increasing order.
    node : int
        Number of cuts below the node.
    """
    first, last = grid.grid
    ends = [first, *cuts, last + 1]
    low, high = ends[node] + 1, ends[node + 1] - 1
    if low > high:
        return None
    if not cuts:
        return PlacePrior.even(low, high) if grid.is_bounded else _prior_of_number(low, high)
    at = [_position(grid, cut) for cut in cuts]
    if 0 < node < len(cuts):
        positions, masses = _between(at[node - 1], at[node])
    else:
        side = 1 if node else -1
        positions, masses = _beyond(grid, at[::side], side)
    return PlacePrior.shaped(low, high, _places(grid, positions), masses)


def _beyond(grid: Numeric, at: Sequence[float], side: int) -> tuple[Floats, Integers]:
    """Positions beyond the outermost cut, the last (first) of those at ``at``, and masses."""
    start = at[-1]
    if len(at) > 1 and at[-2] != start:
        return _octaves(start, abs(start - at[-2]), side, _SPREAD_BEYOND)
    room = (CELLS - start if side > 0 else start) if grid.is_bounded else abs(start)
    return _octaves(start, room / _NEAR or 1.0, side, _FIRST_SPREAD)
