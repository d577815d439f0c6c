"""Column trees: what a fit learns about each column before it grows a forest.

In: how often each code occurs in a column. Out: cuts of numbers, frequent values of categories, and the
place and scale of a numeric target. All of it is chosen with noise that the guarantee prices; the
frequencies themselves are private, and never leave ``learning`` and ``training``.

*Numbers.* A tree of noisy medians: the exponential mechanism chooses a cut among all places of the
column's grid, and both halves go on (Kaplan, Schnapp, Stemmer 2022). The grid is public and holds all
numbers, so no range is needed; public weights of its places say where a cut is likely (``priors``).

*Categories.* One threshold query for each value that occurs. A value that does not occur never passes.

Proofs: docs/guarantee.md, "Learned columns".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.kinds import MISSING, OTHER, Category, Numeric, places_of, values_at
from lumberjack.noise import Bits, ExponentialChoice, Purpose, ThresholdCoin, Words, below, mix_keys
from lumberjack.paths import hash_label
from lumberjack.priors import LARGEST, PlacePrior, prior_of_cut

__all__ = [
    "DISTANCES",
    "MEDIAN",
    "NINETIETH",
    "CodeCounts",
    "Frequencies",
    "Quantile",
    "choose_cut",
    "choose_cuts",
    "choose_place",
    "coarse_places",
    "coarse_value",
    "frequent_values",
    "name_key",
    "prior_of_scale",
]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class CodeCounts:
    """How often codes occur; the counts of several blocks of rows add up.

    Attributes
    ----------
    codes : ndarray of uint32, shape (n_distinct,)
        In increasing order, without MISSING and OTHER.
    counts : ndarray of int64, shape (n_distinct,)
    """

    codes: NDArray[np.uint32]
    counts: Integers

    def __add__(self, other: "CodeCounts") -> "CodeCounts":
        codes = np.concatenate([self.codes, other.codes])
        distinct, place = np.unique(codes, return_inverse=True)
        counts = np.concatenate([self.counts, other.counts])
        return CodeCounts(distinct, np.bincount(place, counts, len(distinct)).astype(np.int64))

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())

    def between(self, first: int, last: int) -> "CodeCounts":
        """The counts of codes from ``first`` to ``last``."""
        begin, end = np.searchsorted(self.codes, np.array([first, last + 1], dtype=np.uint32))
        return CodeCounts(self.codes[begin:end], self.counts[begin:end])


@dataclass(frozen=True)
class Frequencies:
    """A counting object: how often each code occurs in a column, or in the target.

    Attributes
    ----------
    column : int or None
        None: the target.
    distance_from : float or None
        If given, count the distances of the target from this number, as places.
    """

    column: int | None = None
    distance_from: float | None = None

    def __call__(self, block: Any) -> list[Any]:
        """One element: the counts."""
        codes = block.target.view(np.uint32) if self.column is None else block.codes[:, self.column]
        found, counts = np.unique(codes, return_counts=True)
        real = found < OTHER
        counted = CodeCounts(found[real], counts[real])
        if self.distance_from is None:
            return [counted]
        far = np.abs(values_at(counted.codes) - self.distance_from)
        distances = coarse_places(np.minimum(far, LARGEST))
        order = np.argsort(distances, kind="stable")
        none = CodeCounts(counted.codes[:0], counted.counts[:0])
        return [none + CodeCounts(distances[order], counted.counts[order])]


@dataclass(frozen=True)
class Quantile:
    """Scores the places of a grid: the best divides the codes in the ratio ``below`` to ``above``.

    So (1, 1) is a median, and (9, 1) a 90 % quantile. With ``left``, ``at`` and ``right`` codes below,
    at and above a place, the score is 0 if the codes at it can be divided to fit, and otherwise lower:
    -max(0, above * left - below * (at + right), below * right - above * (left + at)) / (below + above).

    Formal guarantees
    -----------------
    Adding a record moves the second and third term by ``above`` at places above its code, in opposite
    directions; by ``below`` at those below it; and lowers both by one of these at its own place. So the
    scores of all places move within an interval of width ``range``, whatever the other records are.
    """

    below: int
    above: int

    @property
    def range(self) -> float:
        """Width of the interval: 1 for a median, 1.8 for the 90 % quantile."""
        return 2 * max(self.below, self.above) / (self.below + self.above)

    def scores(self, left: Integers, at: Integers, right: Integers) -> Integers:
        """Scores times (below + above), integers, from the codes below, at and above each place."""
        too_high = self.above * left - self.below * (at + right)
        too_low = self.below * right - self.above * (left + at)
        return np.minimum(-np.maximum(too_high, too_low), 0)

    def choice(self, exponent: float) -> ExponentialChoice:
        """The exponential mechanism for what ``scores`` returns; its exponent is rounded down."""
        return ExponentialChoice(math.nextafter(exponent / (self.below + self.above), 0))


MEDIAN = Quantile(1, 1)
NINETIETH = Quantile(9, 1)
_zero, _highest = places_of(np.array([0.0, LARGEST])).tolist()
_COARSE = 20  # low bits dropped from the places of a scale: eight remain per octave
_OCTAVES, _SPREAD, _FINE, _RARELY = 40, 3, 2**40, 24  # of a scale's prior, in octaves
DISTANCES = (_zero >> _COARSE, _highest >> _COARSE)  # the grid of distances


def coarse_places(distances: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Places of distances on a coarse grid: among many places a high quantile is easily missed.

    Formal guarantees
    -----------------
    A function of each distance alone.
    """
    return places_of(distances) >> np.uint32(_COARSE)


def coarse_value(place: int) -> float:
    """The smallest number above those at a coarse place; 0 for the lowest."""
    if place == DISTANCES[0]:
        return 0.0
    return min(float(values_at(np.uint32((place + 1) << _COARSE))), LARGEST)


def prior_of_scale(centre: float) -> PlacePrior:
    """Where the 90 % quantile of the distances from a centre may lie, on the grid of distances.

    It is likely within some octaves of the centre itself. Places far above are unlikely, because scores
    hardly fall there: only a tenth of the rows says that a quantile is too high.

    Formal guarantees
    -----------------
    A function of ``centre`` alone, which was released.
    """
    octave = np.arange(-_OCTAVES, _OCTAVES)
    below = _SPREAD**2 * _FINE // (_SPREAD**2 + octave**2)
    masses = np.where(octave < 0, below, _FINE >> np.maximum(octave, 0))
    positions = np.ldexp(abs(centre) or 1.0, np.arange(-_OCTAVES, _OCTAVES + 1))
    edges = coarse_places(np.minimum(positions, LARGEST)).astype(np.int64)
    return PlacePrior.shaped(*DISTANCES, edges, masses, everywhere=_RARELY)


def name_key(name: Category | None) -> np.uint64:
    """The key of the noise about a column or a value, for seeded noise."""
    return np.uint64(hash_label(name))  # type: ignore[arg-type]


def choose_place(
    found: CodeCounts,
    grid: tuple[int, int],
    quantile: Quantile,
    exponent: float,
    bits: Bits,
    key: np.uint64,
    prior: PlacePrior | None = None,
) -> int:
    """Choose a place near a quantile of the codes, from first to last.

    ``found`` counts the codes in the grid, from first to last. ``prior`` has the weights of its places;
    None: all alike.

    Formal guarantees
    -----------------
    The chance of a place is proportional to its weight times exp(exponent * score), with an exponent
    rounded down, and weights that no record changes: the choice is (exponent *
    ``quantile.range``)-bounded-range.
    """
    codes, upto = found.codes.astype(np.int64), np.cumsum(found.counts)
    # Places between two codes have the same counts: they are one option, and each code is one.
    start, at = np.empty((2, 2 * len(codes) + 1), dtype=np.int64)
    start[0], start[1::2], start[2::2] = grid[0], codes, codes + 1
    at[::2], at[1::2] = 0, found.counts
    left = np.concatenate([[0], np.repeat(upto, 2)])
    left[1::2] -= found.counts
    scores = quantile.scores(left, at, found.total - left - at)
    prior = prior or PlacePrior.even(*grid)
    return _draw(start, prior, scores, quantile.choice(exponent), bits, key)


def choose_cut(found: CodeCounts, prior: PlacePrior, exponent: float, bits: Bits, key: np.uint64) -> int:
    """Choose a place of the prior that divides the codes into halves.

    Codes at the place belong to the upper half, as they go right at a split. No code is more than one
    place below the prior's first.

    Formal guarantees
    -----------------
    That of ``choose_place`` for a median.
    """
    # Places above one code and up to the next have the same counts: they are one option.
    start = np.concatenate([[prior.first], found.codes.astype(np.int64) + 1])
    left = np.concatenate([[0], np.cumsum(found.counts)])
    scores = MEDIAN.scores(left, np.zeros_like(left), found.total - left)
    return _draw(start, prior, scores, MEDIAN.choice(exponent), bits, key)


def _draw(
    start: Integers,
    prior: PlacePrior,
    scores: Integers,
    choice: ExponentialChoice,
    bits: Bits,
    key: np.uint64,
) -> int:
    """Draw an option, weighted by all its places, and then one of these."""
    weight = prior.below(start)
    sizes, keys = np.diff(weight, append=prior.below(prior.last + 1)), np.array([key])
    option = choice.draw_one(scores, sizes, bits, keys, Purpose.CUT)
    return prior.place(int(weight[option]) + below(int(sizes[option]), bits, keys, Purpose.PLACE))


def choose_cuts(
    found: CodeCounts, grid: Numeric, levels: int, exponent: float, bits: Bits, key: np.uint64
) -> tuple[int, ...]:
    """The cuts of a number: a tree of noisy medians with ``levels`` levels.

    Formal guarantees
    -----------------
    A record is in one node of each level, so it takes part in one ``choose_cut`` of range 1 for each
    level. Every node chooses, whatever its number of rows. Where nodes lie, and the weights of their
    places, follow from the cuts of the levels above, which are released. So does whether a node has a
    place to choose.
    """
    cuts: list[int] = []
    keys = [key]  # one per node, from low to high: intervals between cuts, and beyond the outermost
    for _ in range(levels):
        ends, found_here, halves = (
            [grid.grid[0], *cuts, grid.grid[1] + 1],
            list[int](),
            list[np.uint64](),
        )
        for i, node in enumerate(keys):
            prior = prior_of_cut(grid, cuts, i)
            if prior is None:
                halves.append(node)
                continue
            inside = found.between(ends[i], ends[i + 1] - 1)
            found_here.append(choose_cut(inside, prior, exponent, bits, node))
            halves.extend(mix_keys(np.array([node, node]), np.arange(2, dtype=np.uint64)))
        cuts, keys = sorted([*cuts, *found_here]), halves
    return tuple(cuts)


def frequent_values(
    found: CodeCounts, labels: Sequence[Category], coin: ThresholdCoin, bits: Bits, key: np.uint64
) -> tuple[Category, ...]:
    """The values whose noisy count passes the threshold.

    Formal guarantees
    -----------------
    A record is in one of the counts, and each is asked about once. Values that do not occur are not
    asked about: a count of 0 never passes. The order of what is released is that
    of the values.
    """
    names: Words = np.array([name_key(labels[code]) for code in found.codes.tolist()], dtype=np.uint64)
    passes = coin.draw(found.counts, bits, mix_keys(np.full(len(names), key), names))
    return tuple(labels[code] for code in found.codes[passes].tolist())


assert MISSING > OTHER  # ``Frequencies`` counts neither
