"""What a column holds, and the integer codes of its values.

In: columns of values. Out: 32-bit codes. A number becomes a place on a public grid, or the number of
learned cuts below it; a category becomes its position in a list. MISSING and OTHER have codes of their
own.

Tables whose columns have few codes each are kept in 8 or 16 bits (``compact``), shifted so that MISSING
and OTHER fit; kernels subtract the shift as they read (``shift_of``).
"""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from lumberjack.kernels import kernel
from lumberjack.quoting import quote
from lumberjack.values import Column, check_date_format, fresh_copy

__all__ = [
    "CELLS",
    "MISSING",
    "OTHER",
    "Categorical",
    "Category",
    "Codes",
    "Cuts",
    "Kind",
    "Known",
    "Number",
    "Numeric",
    "Open",
    "code_type",
    "compact",
    "expand",
    "list_values",
    "places_of",
    "shift_of",
    "values_at",
]

CELLS = 2**31  # a bounded range has this many cells
MISSING = 2**32 - 1
OTHER = 2**32 - 2

_LOOKUP = 2**16  # entries of a table from values to codes
_SIGN = np.uint32(0x80000000)
_LEAST, _MOST = 0x007FFFFF, 0xFF800000  # places of minus and plus infinity
_UNUSABLE = "\ud800"  # stands for values that no file could hold
_NO_CATEGORIES = "column {} holds values that cannot be categories; make them numbers or text"
_SHIFT = 2  # of compact codes: MISSING is 1, and OTHER 0

Floats = NDArray[np.float64]
Codes = NDArray[Any]  # unsigned integers of 8, 16 or 32 bits
Places = NDArray[np.uint32]
Category = str | int | float | bool


def places_of(values: NDArray[np.float64]) -> Places:
    """Places of numbers on the grid of all floats of 32 bits, in order; MISSING for NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        bits = (values.astype(np.float32) + np.float32(0)).view(np.uint32)  # -0.0 becomes 0.0
    places = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    places[np.isnan(values)] = MISSING
    return np.asarray(places, dtype=np.uint32)


def values_at(places: Any) -> NDArray[np.float64]:
    """The numbers at such places; the inverse of ``places_of``."""
    places = np.asarray(places, dtype=np.uint32)
    bits = np.where(places & _SIGN, places ^ _SIGN, ~places).astype(np.uint32)
    return np.asarray(bits.view(np.float32), dtype=np.float64)


@dataclass(frozen=True)
class Numeric:
    """Numbers from ``low`` to ``high``; with ``temporal`` they are seconds since 1970 (UTC).

    Without bounds (the default) any number is allowed, infinite ones too. ``date_format`` says how text
    is read as dates (None: like 2026-01-31), ``inferred`` that the bounds were read off the data.
    """

    low: float = -math.inf
    high: float = math.inf
    temporal: bool = False
    date_format: str | None = field(default=None, repr=False)
    inferred: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.is_bounded and not (math.isfinite(self.high - self.low) and self.low <= self.high):
            raise ValueError(
                f"a range needs finite bounds, low <= high, got ({self.low:g}, {self.high:g})"
            )
        if self.date_format is not None:
            check_date_format(self.date_format)

    @property
    def is_bounded(self) -> bool:
        """Whether a range was declared."""
        return (self.low, self.high) != (-math.inf, math.inf)

    def read(self, name: str, values: Column) -> NDArray[np.float64]:
        """Numbers, or seconds since 1970; NaN where missing."""
        return values.timestamps(name, self.date_format) if self.temporal else values.numbers(name)

    def encode(self, name: str, values: Column, out: Places) -> None:
        """Place numbers on the grid, clipped to its range; a missing value is MISSING."""
        number = self.read(name, values)
        if self.is_bounded:
            _place_on_grid(number, self.low, self.high, out)
        else:
            out[:] = places_of(number)

    @property
    def grid(self) -> tuple[int, int]:
        """The first and the last place."""
        return (0, self.size - 1) if self.is_bounded else (_LEAST, _MOST)

    @property
    def size(self) -> int:
        """How many codes there are to split between."""
        if not self.is_bounded:
            return _MOST + 1
        return CELLS if self.high > self.low else 1

    def is_to_cut(self, guided: bool) -> bool:
        """Whether its cuts are learned: always for guided splits, else only without a range."""
        return self.size > 1 and (guided or not self.is_bounded)

    def values_at(self, places: Any) -> NDArray[np.float64]:
        """The number at each place; the smallest one where a place is a cell of a range."""
        if not self.is_bounded:
            return values_at(places)
        return np.asarray(self.low + np.asarray(places) / CELLS * (self.high - self.low))

    def threshold(self, cut: Any) -> NDArray[np.float64]:
        """The smallest number that goes right at a split, or at each of several."""
        return self.values_at(np.asarray(cut) + 1)


class _Derived:
    """Caches what is derived from the fields of a dataclass, but does not pickle it."""

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Cuts(_Derived):
    """Numbers binned by cuts: all numbers between two cuts have one code.

    Parameters
    ----------
    grid : Numeric
        Where the cuts are made.
    places : tuple of int
        The first place above each cut, in increasing order.
    learned : bool
        Whether the fit of this model chose and released them; otherwise they were given.
    """

    grid: Numeric
    places: tuple[int, ...] = ()
    learned: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        first, last = self.grid.grid
        if any(not isinstance(place, int) for place in self.places):
            raise ValueError("places of cuts must be integers")
        if not all(a < b for a, b in zip((first, *self.places), (*self.places, last + 1), strict=True)):
            raise ValueError("cuts must increase, inside their grid")

    @property
    def temporal(self) -> bool:
        """Whether the numbers are seconds since 1970."""
        return self.grid.temporal

    @property
    def inferred(self) -> bool:
        """Whether the bounds of the grid were read off the data; cuts never are."""
        return self.grid.inferred

    @property
    def size(self) -> int:
        """How many codes there are to split between."""
        return len(self.places) + 1

    def threshold(self, cut: Any) -> NDArray[np.float64]:
        """The smallest number that goes right at a split, or at each of several."""
        return self.grid.values_at(np.array(self.places, dtype=np.uint32)[cut])

    @property
    def edges(self) -> tuple[float, ...]:
        """The smallest number above each cut."""
        return tuple(self.grid.values_at(self.places).tolist())

    def read(self, name: str, values: Column) -> NDArray[np.float64]:
        """Numbers, or seconds since 1970; NaN where missing."""
        return self.grid.read(name, values)

    def encode(self, name: str, values: Column, out: Places) -> None:
        """How many cuts are below each number; a missing value is MISSING."""
        if self.grid.is_bounded:
            self.grid.encode(name, values, out)
            self.recode(out)
            return
        number = self.read(name, values)
        with np.errstate(over="ignore", invalid="ignore"):
            single = number.astype(np.float32)  # as ``places_of`` reads it
        out[:] = np.searchsorted(self._single_edges, single, side="right")
        out[np.isnan(number)] = MISSING

    @cached_property
    def _single_edges(self) -> NDArray[np.float32]:
        """The edges, in the precision of the grid without bounds, where they are exact."""
        return values_at(self.places).astype(np.float32)

    def recode(self, codes: Places) -> None:
        """Overwrite places on the grid with codes."""
        absent = codes == MISSING
        codes[:] = np.searchsorted(np.array(self.places, dtype=np.uint32), codes, side="right")
        codes[absent] = MISSING


@dataclass(frozen=True)
class Open:
    """Categories that are not known yet: the frequent ones are to be learned."""

    inferred = False

    @property
    def size(self) -> int:
        """Unknown until the categories are learned."""
        raise TypeError("categories must be declared or learned first")


@dataclass(frozen=True)
class Categorical(_Derived):
    """A fixed set of categories; with ``missing``, a missing value is a category of its own.

    ``inferred`` says that they were read off the data; ``learned``, that this fit learned them.
    """

    categories: tuple[Category, ...]
    missing: bool = False
    inferred: bool = field(default=False, compare=False, repr=False)
    learned: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.categories and not self.missing:
            raise ValueError("a categorical column needs at least one category")
        if not all(isinstance(c, str | numbers.Real) and c == c for c in self.categories):
            raise ValueError(
                "categories must be strings, numbers or booleans; missing=True is for missing values"
            )
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("categories must be distinct")

    def encode(self, name: str, values: Column, out: Places) -> None:
        """Number the categories; any other value is OTHER."""
        # A missing value is None or NaN, and neither can be a category.
        lookup = self._lookup if values.is_numeric else None
        if lookup is not None:
            _look_up(values.numbers(name), *lookup, self.absent, out)
            return
        if values.is_temporal:
            raise TypeError(f"column {quote(name)} holds dates, but its domain is a set of categories")
        absent = self.absent
        try:
            found, place = values.distinct()
            codes = [absent if v is None else self._codes.get(v, OTHER) for v in found]
        except (TypeError, ValueError, ArithmeticError):
            raise TypeError(_NO_CATEGORIES.format(quote(name))) from None
        out[:] = np.array(codes, dtype=np.uint32)[place]

    @property
    def absent(self) -> int:
        """The code of a missing value."""
        return len(self.categories) if self.missing else OTHER

    @cached_property
    def _codes(self) -> dict[Category, int]:
        """The code of each category."""
        return {category: code for code, category in enumerate(self.categories)}

    @cached_property
    def _lookup(self) -> tuple[int, Places] | None:
        """Codes by (value - least value), for integer categories that lie close together."""
        numbers_only = [c for c in self.categories if not isinstance(c, str)]
        if not all(abs(c) < 2**53 and float(c).is_integer() for c in numbers_only):
            return None  # beyond 2^53 a float may compare equal to another integer
        values = [int(c) for c in numbers_only]
        least = min(values, default=0)
        if max(values, default=0) - least >= _LOOKUP:
            return None
        table = np.full(max(values, default=0) - least + 1, OTHER, dtype=np.uint32)
        for code, category in enumerate(self.categories):
            if not isinstance(category, str):
                table[int(category) - least] = code
        return least, table

    @property
    def size(self) -> int:
        """How many codes there are to split between."""
        return len(self.categories) + self.missing


Number = Numeric | Cuts
Known = Number | Categorical
Kind = Known | Open


def list_values(name: str, values: Column, out: Places) -> tuple[Category, ...]:
    """The distinct values of an open column, sorted, with each row's position among them in ``out``.

    Each value has one spelling, whatever row it comes from: 1.0 is 1. Values that no file could hold
    (infinite numbers, broken text, numbers that are not floats) are OTHER. All are fresh objects,
    as objects of the caller would reveal the row they came from.
    """
    if values.is_temporal:
        raise TypeError(f"column {quote(name)} holds dates, but its domain is a set of categories")
    try:
        items, rows = values.distinct()
    except TypeError:  # unhashable
        raise TypeError(_NO_CATEGORIES.format(quote(name))) from None
    types = set(map(type, items)) - {type(None)}
    if not all(issubclass(t, str | numbers.Real | np.bool_) for t in types):
        raise TypeError(_NO_CATEGORIES.format(quote(name)))
    if len({issubclass(t, bool | np.bool_) for t in types}) > 1:  # True equals 1
        raise TypeError(f"column {quote(name)} mixes booleans with other values; make all of them text")
    spelt = [None if value is None else _spell(value) for value in items]
    labels = sorted({v for v in spelt if v not in (None, _UNUSABLE)}, key=lambda v: (_is_text(v), v))
    place = {label: code for code, label in enumerate(labels)}
    codes = [MISSING if v is None else place.get(v, OTHER) for v in spelt]
    out[:] = np.array(codes, dtype=np.uint32)[rows]
    return tuple(map(fresh_copy, labels))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _spell(value: Any) -> Any:
    """One spelling for equal values: text, a boolean, a whole number, or another number."""
    if isinstance(value, str):
        return (
            _UNUSABLE if any("\ud800" <= letter <= "\udfff" for letter in value) else str.__str__(value)
        )
    if isinstance(value, bool | np.bool_):
        return bool(value)
    try:
        number = float(value)
    except OverflowError:
        return _UNUSABLE
    if isinstance(value, numbers.Integral):
        return int(value)
    if not math.isfinite(number) or number != value:  # a fraction, for example
        return _UNUSABLE
    return int(number) if number.is_integer() else number


def code_type(kinds: Sequence[Known]) -> np.dtype[Any]:
    """The smallest type that holds the codes of all columns."""
    most = max(kind.size for kind in kinds) + _SHIFT
    return np.dtype(np.uint8 if most <= 2**8 else np.uint16 if most <= 2**16 else np.uint32)


def compact(codes: Places, kind: np.dtype[Any]) -> Codes:
    """Codes of one column in fewer bits."""
    return codes if kind.itemsize == 4 else (codes + np.uint32(_SHIFT)).astype(kind)


def expand(codes: Codes) -> Places:
    """Codes of 32 bits again."""
    return codes if codes.itemsize == 4 else codes.astype(np.uint32) - np.uint32(_SHIFT)


def shift_of(codes: Any) -> Any:
    """The offset of compact codes: a constant when kernels are compiled."""
    return np.uint32(0 if codes.itemsize == 4 else _SHIFT)


@overload(shift_of, inline="always", strict=False)  # type: ignore[untyped-decorator]
def _shift_in_kernels(codes: Any) -> Any:
    shift = 0 if codes.dtype.bitwidth == 32 else _SHIFT
    return lambda codes: np.uint32(shift)


@kernel
def _place_on_grid(number: Floats, low: float, high: float, out: NDArray[np.uint32]) -> None:
    width = high - low if high > low else 1.0
    for i in range(len(number)):
        x = number[i]
        if np.isnan(x):
            out[i] = MISSING
        else:
            out[i] = np.uint32(min((min(max(x, low), high) - low) / width * CELLS, CELLS - 1.0))


@kernel
def _look_up(
    number: Floats, least: int, table: NDArray[np.uint32], absent: int, out: NDArray[np.uint32]
) -> None:
    for i in range(len(number)):
        x = number[i]
        if np.isnan(x):
            out[i] = absent
        elif least <= x < least + len(table) and x == np.floor(x):
            out[i] = table[int(x) - least]
        else:
            out[i] = OTHER
