"""Column trees: what a fit learns about each column before it grows a forest.

In: how often each code occurs in a column. Out: cuts of numbers, frequent values of categories, and the
place and scale of a numeric target. All of it is chosen with noise that the guarantee prices; the
frequencies themselves are private, and never leave ``learning`` and ``training``.

*Numbers.* A tree of noisy medians: the exponential mechanism chooses a cut among all places of the
column's grid, and both halves go on (Kaplan, Schnapp, Stemmer 2022). The grid is public and holds all
numbers, so no range is needed.

*Categories.* One threshold query for each value that occurs. A value that does not occur never passes.

Proofs: docs/guarantee.md, "Learned columns".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.kinds import MISSING, OTHER, Category, Numeric, places_of, values_at
from lumberjack.noise import Bits, ExponentialChoice, Purpose, ThresholdCoin, Words, below, mix_keys
from lumberjack.paths import hash_label

__all__ = [
    "DISTANCES",
    "FINITE",
    "MEDIAN",
    "NINETIETH",
    "CodeCounts",
    "Frequencies",
    "Quantile",
    "choose_cuts",
    "choose_place",
    "frequent_values",
    "name_key",
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
        distances = places_of(np.minimum(far, _LARGEST))
        order = np.argsort(distances, kind="stable")
        none = CodeCounts(counted.codes[:0], counted.counts[:0])
        return [none + CodeCounts(distances[order], counted.counts[order])]


@dataclass(frozen=True)
class Quantile:
    """Scores the places of a grid: the best has codes below and above it as ``below`` to ``above``.

    So (1, 1) is a median, and (9, 1) a 90 % quantile. With ``left`` codes below a place and ``right``
    codes from it on, the score is -|above * left - below * right| / (below + above).

    Formal guarantees
    -----------------
    Adding a record raises (above * left - below * right) by ``above`` at places above its code, and
    lowers it by ``below`` at the others. So the scores of all places move within an interval of width
    ``range``, whatever the other records are.
    """

    below: int
    above: int

    @property
    def range(self) -> float:
        """Width of the interval: 1 for a median, 1.8 for the 90 % quantile."""
        return 2 * max(self.below, self.above) / (self.below + self.above)

    def scores(self, left: Integers, total: int) -> Integers:
        """Scores times (below + above), integers, from the number of codes below each place."""
        return np.asarray(-np.abs(self.above * left - self.below * (total - left)))

    def choice(self, exponent: float) -> ExponentialChoice:
        """The exponential mechanism for what ``scores`` returns."""
        return ExponentialChoice(exponent / (self.below + self.above))


MEDIAN = Quantile(1, 1)
NINETIETH = Quantile(9, 1)
_LARGEST = float(np.finfo(np.float32).max)
_lowest, _zero, _highest = places_of(np.array([-_LARGEST, 0.0, _LARGEST])).tolist()
FINITE, DISTANCES = (_lowest, _highest), (_zero, _highest)  # grids of targets, and of distances


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
) -> int | None:
    """Choose a place near a quantile of the codes, from first + 1 to last; None if there is none.

    ``found`` counts the codes in the grid, from first to last.

    Formal guarantees
    -----------------
    The chance of a place is proportional to exp(exponent * score), exactly: the choice is
    (exponent * ``quantile.range``)-bounded-range. That there is no place follows from the grid alone.
    """
    first, last = grid
    if first >= last:
        return None
    edges = np.concatenate([[first], found.codes.astype(np.int64), [last]])
    left = np.concatenate([[0], np.cumsum(found.counts)])
    # Places above one code and up to the next have the same counts: they are one option.
    scores = quantile.scores(left, int(left[-1]))
    keys = np.array([key])
    option = quantile.choice(exponent).draw_one(scores, np.diff(edges), bits, keys, Purpose.CUT)
    size = int(edges[option + 1] - edges[option])
    return int(edges[option]) + 1 + below(size, bits, keys, Purpose.PLACE)


def choose_cuts(
    found: CodeCounts, grid: Numeric, levels: int, exponent: float, bits: Bits, key: np.uint64
) -> tuple[int, ...]:
    """The cuts of a number: a tree of noisy medians with so many levels.

    Formal guarantees
    -----------------
    A record is in one node of each level, so it takes part in one ``choose_place`` of range 1 for each
    level. Every node chooses, whatever its number of rows. One with a single place has nothing to
    choose; the cuts above it, which are released, tell that already.
    """
    nodes: list[tuple[int, int, np.uint64]] = [(*grid.grid, key)]
    cuts = []  # all different: a half begins at its cut, and chooses beyond its first place
    for _ in range(levels):
        halves = []
        for first, last, node in nodes:
            inside = found.between(first, last)
            cut = choose_place(inside, (first, last), MEDIAN, exponent, bits, node)
            if cut is not None:
                cuts.append(cut)
                left, right = mix_keys(np.array([node, node]), np.arange(2, dtype=np.uint64))
                halves += [(first, cut - 1, left), (cut, last, right)]
        nodes = halves
    return tuple(sorted(cuts))


def frequent_values(
    found: CodeCounts, labels: Sequence[Category], coin: ThresholdCoin, bits: Bits, key: np.uint64
) -> tuple[Category, ...]:
    """The values whose noisy count passes the threshold.

    Formal guarantees
    -----------------
    A record is in one of the counts, and each is asked about once. Values that do not occur are not
    asked about: their count is 0, at which the coin never passes. The order of what is released is that
    of the values.
    """
    names: Words = np.array([name_key(labels[code]) for code in found.codes.tolist()], dtype=np.uint64)
    passes = coin.draw(found.counts, bits, mix_keys(np.full(len(names), key), names))
    return tuple(labels[code] for code in found.codes[passes].tolist())


assert MISSING > OTHER  # ``Frequencies`` leaves out both
