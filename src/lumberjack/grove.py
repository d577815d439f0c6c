"""Trees of one or two columns, looked up many at a time.

In: trees, codes of rows, one weight or several for each leaf. Out: scores of rows, and sums of residuals
over leaves. All of it are integers, so that no order of adding up matters.

What a tree of two columns says of a row depends on few groups of codes of each. With six groups a
column, four columns have 1,296 combinations, and one of them decides the leaf of a row in all six pairs
of these columns. So groups of columns are combined twice: first into *digits*, which are kept for each
row in a byte, then two digits each into the *cells* of a table. Weights of leaves are added up to
weights of cells, rows are looked up in the tables, and sums over cells are added up to sums over leaves.
Ten columns, their 45 pairs included, need 15 look-ups a row, 20 columns 55.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lumberjack.kernels import kernel
from lumberjack.kinds import MISSING, OTHER, Codes, expand
from lumberjack.tree import LEAF, Tree, in_threads

__all__ = ["Grove"]

Integers = NDArray[np.int64]
Digits = NDArray[np.unsignedinteger[Any]]
Cells = NDArray[np.uint32]

_ROOM = 2**12  # cells of a table: it fits in the cache
_AT_ONCE = 4  # tables that are looked up together


class _Groups(NamedTuple):
    """Codes of a column in groups that no split of a tree divides.

    Attributes
    ----------
    column : int
    is_category : bool
        Then each of ``cuts`` is a group, and all other codes are the last one.
    cuts : tuple of int
        Increasing. Of a number: the last code of each group but the last.
    missing_apart : bool
        Whether missing numbers are one more group; otherwise they are in the first.
    """

    column: int
    is_category: bool
    cuts: tuple[int, ...]
    missing_apart: bool

    @classmethod
    def of(cls, tree: Tree, column: int, categorical: NDArray[np.bool_]) -> "_Groups":
        """The groups that a tree makes of a column."""
        here, is_category = tree.feature == column, bool(categorical[column])
        apart = not is_category and not bool(tree.missing_left[here].all())
        return cls(column, is_category, tuple(np.unique(tree.cut[here]).tolist()), apart)

    @property
    def codes(self) -> NDArray[np.uint32]:
        """One code of each group."""
        last = OTHER if self.is_category else self.cuts[-1] + 1
        return np.array([*self.cuts, last, *[MISSING] * self.missing_apart], dtype=np.uint32)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.cuts) + 1 + self.missing_apart

    def find(self, codes: NDArray[np.uint32]) -> Integers:
        """The group of each code."""
        cuts = np.array(self.cuts, dtype=np.uint32)
        found = np.searchsorted(cuts, codes)
        if self.is_category:
            known = cuts[np.minimum(found, len(cuts) - 1)] == codes
            return np.where(known, found, len(cuts))
        return np.where(codes == MISSING, len(cuts) + 1 if self.missing_apart else 0, found)


_Digit = tuple[_Groups, ...]  # all combinations of such groups, the last one changing fastest


class _Tables(NamedTuple):
    """Where the cell of a row is: start + left digit * its stride + right digit * its stride.

    All arrays have the shape (n_tables,), a multiple of ``_AT_ONCE``. The stride of the right digit is
    0 where a table has one digit only, and both are 0 where it only fills up.
    """

    left: Integers
    right: Integers
    left_stride: NDArray[np.uint32]
    right_stride: NDArray[np.uint32]
    start: NDArray[np.uint32]


class _Layout(NamedTuple):
    """Digits, their tables, and which leaves a cell is in: sparse, shape (n_cells, n_leaves)."""

    digits: Sequence[_Digit]
    tables: _Tables
    leaves: Any


@dataclass(frozen=True)
class Grove:
    """Trees whose leaves are numbered through.

    Attributes
    ----------
    trees : tuple of Tree
        Each splits on at most two columns.
    categorical : ndarray of bool, shape (n_features,)
    room : int
        Cells of a table at most, unless a single tree has more. It decides speed and nothing else.
    key : UUID
        Names the trees, so that a block of rows may keep its digits. No two groves share it, also in
        other processes: digits of other trees would count a row twice, or write out of bounds.
    """

    trees: tuple[Tree, ...]
    categorical: NDArray[np.bool_]
    room: int = _ROOM
    key: UUID = field(default_factory=uuid4)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, and nothing that follows from them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def starts(self) -> Integers:
        """Number of the first leaf of each tree, and last the number of all leaves."""
        return np.cumsum([0, *(tree.n_leaves for tree in self.trees)])

    @property
    def n_lookups(self) -> int:
        """Cells of a row, and so its gathers and its histogram updates in a step."""
        return len(self._layout.tables.start)

    def digits(self, codes: Codes, n_threads: int = 1) -> Digits:
        """What rows are looked up by, shape (n_digits, n_rows)."""
        digits = self._layout.digits
        most = max(map(_size, digits), default=1)
        kind = np.uint8 if most <= 2**8 else np.uint16 if most <= 2**16 else np.uint32
        # A table has at least one digit, whatever it is.
        out = np.zeros((max(len(digits), 1), len(codes)), dtype=kind)
        parts = [
            (d, groups, stride, _all_codes(groups, stride, codes.dtype, kind))
            for d, digit in enumerate(digits)
            for groups, stride in zip(digit, _strides(digit), strict=True)
        ]

        def some(rows: slice) -> None:
            for d, groups, stride, known in parts:
                column = codes[rows, groups.column]
                found = (groups.find(column) * stride).astype(kind) if known is None else known[column]
                out[d, rows] += found

        in_threads(some, len(codes), n_threads)
        return out

    def spread(self, weights: Integers) -> Integers:
        """Weights of cells from those of leaves, shape (n_cells, n_outputs)."""
        return np.asarray(self._layout.leaves @ weights)

    def fold(self, sums: Integers) -> Integers:
        """Sums over leaves from those over cells, shape (n_leaves, n_outputs)."""
        return np.asarray(self._layout.leaves.T @ sums)

    def scores(self, digits: Digits, rows: slice, weights: Integers) -> Integers:
        """Sum of the weights of each row's cells, shape (n_rows, n_outputs)."""
        out = np.zeros((rows.stop - rows.start, weights.shape[1]), dtype=np.int64)
        if weights.shape[1] == 1:
            _add_scores(digits, rows.start, self._layout.tables, weights.ravel(), out.ravel())
        else:
            _add_vectors(digits, rows.start, self._layout.tables, weights, out)
        return out

    def add(self, digits: Digits, rows: slice, values: Integers, out: Integers) -> None:
        """Add values of rows, shape (n_rows, n_outputs), to their cells, shape (n_cells, n_outputs)."""
        if values.shape[1] == 1:
            _add_to_cells(digits, rows.start, self._layout.tables, values.ravel(), out.ravel())
        else:
            _add_vectors_to_cells(digits, rows.start, self._layout.tables, values, out)

    @cached_property
    def _layout(self) -> _Layout:
        seen = [
            tuple(_Groups.of(tree, column, self.categorical) for column in tree.columns)
            for tree in self.trees
        ]
        if max(map(len, seen), default=0) > 2:
            raise ValueError("a tree splits on more than two columns")
        in_pairs = _distinct(groups for groups in seen if len(groups) == 2)
        alone = [groups for groups in _distinct(seen) if groups not in set(in_pairs)]
        most = math.isqrt(self.room)
        digits = [*_combine(in_pairs, most), *_combine(alone, most)]
        number = {groups: d for d, digit in enumerate(digits) for groups in digit}
        needs = [frozenset(number[groups] for groups in each) for each in seen]
        tables = _cover(needs, list(map(_size, digits)), self.room)
        inside: list[list[int]] = [[] for _ in tables]
        home = {frozenset(part): t for t, table in enumerate(tables) for part in _parts(table)}
        for v, need in enumerate(needs):
            inside[home[need]].append(v)
        found = []
        for table, some in zip(tables, inside, strict=True):
            groups = [g for d in table for g in digits[d]]
            found.append(np.column_stack([self._leaves(v, groups) + self.starts[v] for v in some]))
        return _Layout(digits, _number(tables, digits), _as_sparse(found, int(self.starts[-1])))

    def _leaves(self, tree: int, groups: Sequence[_Groups]) -> Integers:
        """Leaf of each combination of groups, shape (n_cells,)."""
        grown = self.trees[tree]
        columns = grown.columns or (0,)
        small = np.searchsorted(columns, grown.feature)
        grown = replace(grown, feature=np.where(grown.feature == LEAF, LEAF, small).astype(np.int32))
        codes = np.zeros((_size(groups), len(columns)), dtype=np.uint32)
        for each, stride in zip(groups, _strides(groups), strict=True):
            for j in np.flatnonzero(np.equal(columns, each.column)):
                if each == _Groups.of(self.trees[tree], each.column, self.categorical):
                    codes[:, j] = each.codes[np.arange(len(codes)) // stride % each.size]
        return grown.apply(codes, self.categorical[list(columns)]).astype(np.int64)


def _distinct(seen: Iterable[_Digit]) -> list[_Groups]:
    return list(dict.fromkeys(groups for each in seen for groups in each))


def _size(groups: Sequence[_Groups]) -> int:
    """Combinations of groups."""
    return math.prod(each.size for each in groups)


def _strides(groups: Sequence[_Groups]) -> list[int]:
    """How far apart neighbours of each are among all combinations."""
    return [_size(groups[i + 1 :]) for i in range(len(groups))]


def _all_codes(groups: _Groups, stride: int, codes: np.dtype[Any], kind: Any) -> Digits | None:
    """Part of the digit of every code, if codes have few bits."""
    if codes.itemsize == 4:
        return None
    every = np.arange(2 ** (8 * codes.itemsize), dtype=codes)
    return np.asarray((groups.find(expand(every)) * stride).astype(kind))


def _combine(groups: Sequence[_Groups], most: int) -> list[_Digit]:
    """Digits of at most so many combinations, unless a column has more."""
    waiting = deque(sorted(groups, key=lambda each: each.size))
    digits: list[_Digit] = []
    while waiting:
        digit: _Digit = (waiting.pop(),)  # the largest, and with it the smallest ones that fit
        while waiting and _size(digit) * waiting[0].size <= most:
            digit = (*digit, waiting.popleft())
        digits.append(digit)
    return digits


def _cover(needs: Sequence[frozenset[int]], sizes: Sequence[int], room: int) -> list[tuple[int, ...]]:
    """Tables of at most two digits each, so that every tree finds its digits in one of them."""
    tables = [tuple(sorted(need)) for need in dict.fromkeys(needs) if len(need) == 2]
    covered = {d for table in tables for d in table}
    waiting = sorted({d for need in needs for d in need} - covered, key=lambda d: sizes[d])
    while waiting:
        first, *waiting = waiting
        fits = bool(waiting) and sizes[first] * sizes[waiting[0]] <= room
        tables.append((first, waiting.pop(0)) if fits else (first,))
    return tables or [()]


def _parts(table: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """What a tree may need of a table: some of its digits."""
    return itertools.chain.from_iterable(itertools.combinations(table, n) for n in range(3))


def _number(tables: Sequence[tuple[int, ...]], digits: Sequence[_Digit]) -> _Tables:
    """Number the cells of all tables through."""
    rows, start = [], 0
    for table in tables:
        sizes = [_size(digits[d]) for d in table]
        left, right = (*table, 0, 0)[:2]
        strides = ((0, 0), (1, 0), (sizes[-1] if sizes else 0, 1))[len(table)]
        rows.append((left, right, *strides, start))
        start += math.prod(sizes)
    # What fills up has a cell of its own, in which no tree has a leaf.
    rows += [(0, 0, 0, 0, start)] * (-len(rows) % _AT_ONCE)
    types = np.int64, np.int64, np.uint32, np.uint32, np.uint32
    return _Tables(*(np.array(c, dtype=t) for c, t in zip(zip(*rows, strict=True), types, strict=True)))


def _as_sparse(found: Sequence[Integers], n_leaves: int) -> Any:
    """Leaves of each cell of all tables, of shapes (n_cells, n_trees), and a last cell without."""
    each = [*np.concatenate([np.full(len(f), f.shape[1]) for f in found]).tolist(), 0]
    leaves = np.concatenate([f.ravel() for f in found])
    values = np.ones(len(leaves), dtype=np.int64)
    return sparse.csr_array((values, leaves, np.cumsum([0, *each])), shape=(len(each), n_leaves))


@kernel
def _find_cells(digits: Digits, first_row: int, tables: _Tables, t: int, cell: Cells) -> None:
    """The cell of each row in one table."""
    # Slices: an index that is a sum of two could be negative, and a check for that costs half the speed.
    end = first_row + len(cell)
    left, right = digits[tables.left[t], first_row:end], digits[tables.right[t], first_row:end]
    by, and_by, start = tables.left_stride[t], tables.right_stride[t], tables.start[t]
    for i in range(len(cell)):
        cell[i] = start + np.uint32(left[i]) * by + np.uint32(right[i]) * and_by


@kernel
def _add_scores(
    digits: Digits, first_row: int, tables: _Tables, weight: Integers, score: Integers
) -> None:
    cell = np.empty((_AT_ONCE, len(score)), dtype=np.uint32)
    a, b, c, d = cell[0], cell[1], cell[2], cell[3]
    for t in range(0, len(tables.start), _AT_ONCE):
        for j in range(_AT_ONCE):
            _find_cells(digits, first_row, tables, t + j, cell[j])
        for i in range(len(score)):
            score[i] += weight[a[i]] + weight[b[i]] + weight[c[i]] + weight[d[i]]


@kernel
def _add_to_cells(
    digits: Digits, first_row: int, tables: _Tables, value: Integers, out: Integers
) -> None:
    cell = np.empty((_AT_ONCE, len(value)), dtype=np.uint32)
    a, b, c, d = cell[0], cell[1], cell[2], cell[3]
    for t in range(0, len(tables.start), _AT_ONCE):
        for j in range(_AT_ONCE):
            _find_cells(digits, first_row, tables, t + j, cell[j])
        for i in range(len(value)):
            # Sums of different tables: none waits for the one before.
            out[a[i]] += value[i]
            out[b[i]] += value[i]
            out[c[i]] += value[i]
            out[d[i]] += value[i]


@kernel
def _add_vectors(
    digits: Digits, first_row: int, tables: _Tables, weight: Integers, score: Integers
) -> None:
    cell = np.empty(len(score), dtype=np.uint32)
    for t in range(len(tables.start)):
        _find_cells(digits, first_row, tables, t, cell)
        for i in range(len(score)):
            for k in range(score.shape[1]):
                score[i, k] += weight[cell[i], k]


@kernel
def _add_vectors_to_cells(
    digits: Digits, first_row: int, tables: _Tables, value: Integers, out: Integers
) -> None:
    cell = np.empty(len(value), dtype=np.uint32)
    for t in range(len(tables.start)):
        _find_cells(digits, first_row, tables, t, cell)
        for i in range(len(value)):
            for k in range(value.shape[1]):
                out[cell[i], k] += value[i, k]
