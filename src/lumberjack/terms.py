"""The trees of a fitted forest: one for each column, and one for each pair of columns that joins.

In: learned columns, and noisy sizes of their cells. Out: ``Term``: a tree, the expected size of each
of its leaves, and which leaves are alike. Everything here is post-processing of released values.

*Columns.* A number has a leaf for each interval between its cuts, and one for missing values; a category
has a leaf for each value, and one for all others.

*Pairs.* The same for two columns at once, in coarser groups: at most six intervals of about equal
size, or the seven largest categories and the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from lumberjack.kinds import Categorical, Known
from lumberjack.tree import LEAF, Tree

__all__ = [
    "Column",
    "Term",
    "base_term",
    "column_term",
    "column_tree",
    "expected_sizes",
    "n_cells",
    "pair_sizes",
    "pair_term",
]

Floats = NDArray[np.float64]
_GROUPS, _CATEGORIES = 6, 8  # of a column in a pair: intervals of a number, or categories with the rest
_LENGTHS = (0.5, 1.0)  # of the correlation between cells of a number, in widths of the column
_PAIR_LENGTHS = (0.3, 1.0)
_NEARLY_ALL, _FEW = 0.9, 64  # rows in two of at most so many categories: a matter of yes or no
_ROOM = 1e-9  # a share of nothing, so that no group is empty


@dataclass(frozen=True)
class Term:
    """A tree whose leaves have weights.

    Attributes
    ----------
    columns : tuple of int
        What it splits on: none, one or two columns.
    tree : Tree
    sizes : ndarray of shape (n_leaves,)
        Expected rows of each leaf, from released counts.
    alike : tuple of ndarray, each of shape (n_leaves, n_leaves) or (n_leaves,)
        Possible covariances of the weights before anything is known about them, all centred: a pair
        says nothing that its columns could say. Variances alone: weights are independent, and ``Fit``
        centres them.
    contrasts : tuple of ndarray of int64, each of shape (n_sums, n_leaves)
        Sums of several leaves that are worth a noise of their own: see ``strategy``. Entries are 1, 0
        or -1; a leaf is in at most one sum of each array.
    """

    columns: tuple[int, ...]
    tree: Tree
    sizes: Floats
    alike: tuple[Floats, ...]
    contrasts: tuple[NDArray[np.int64], ...] = ()


@dataclass(frozen=True)
class Column:
    """A learned column.

    Attributes
    ----------
    number : int
        Its position in the table.
    kind : Cuts or Categorical
    sizes : ndarray of shape (n_cells,)
        Expected rows of each cell: intervals from low to high and then missing values, or categories and
        then all other values.
    """

    number: int
    kind: Known
    sizes: Floats

    @property
    def is_number(self) -> bool:
        """Whether its cells have an order."""
        return not isinstance(self.kind, Categorical)


def n_cells(kind: Known) -> int:
    """Cells of a column: one for each code, and one for missing or other values."""
    return kind.size + 1


def expected_sizes(noisy: Floats, noise: float, total: float) -> Floats:
    """Posterior means of cell sizes under an exponential prior, scaled to add up to ``total``.

    With c noisy and s the noise, the prior's mean m = total / cells moves c to u = c - s^2/m, and the
    truncated Gaussian has the mean u + s phi(u/s) / Phi(u/s): never 0, and near c where c is clear.
    """
    mean = total / len(noisy)
    z = np.maximum(noisy / noise - noise / mean, -30.0)
    sizes = noise * (z + np.exp(norm.logpdf(z) - norm.logcdf(z)))
    return np.asarray(sizes * (total / sizes.sum()))


def base_term(total: float) -> Term:
    """The term that all rows share: a single leaf."""
    return Term((), _flat(0), np.array([total]), (np.eye(1),))


def column_term(column: Column) -> Term:
    """The term of one column."""
    n, tree = len(column.sizes), column_tree(column)
    if column.is_number:
        alike = tuple(_centred(_near(n - 1, length, 1), column.sizes) for length in _LENGTHS)
        return Term((column.number,), tree, column.sizes, alike, _neighbours(n - 1))
    contrasts = _two_largest(column.sizes)
    # A matrix would be large where there are thousands of categories.
    alike = (_centred(np.eye(n), column.sizes),) if contrasts else (np.ones(n),)
    return Term((column.number,), tree, column.sizes, alike, contrasts)


def _neighbours(n: int) -> tuple[NDArray[np.int64], ...]:
    """n intervals in halves, whose difference is what counts, and in 4, 8, ... groups."""
    if n < 3:
        return ()
    sizes = [2**i for i in range(2, (n - 1).bit_length())]
    groups = [np.arange(n) * size // n == np.arange(size)[:, None] for size in sizes]
    halves = np.where(np.arange(n) * 2 < n, 1, -1)[None]
    # Missing values, the last cell, are in no group.
    return tuple(np.pad(way.astype(np.int64), ((0, 0), (0, 1))) for way in (halves, *groups))


def _two_largest(sizes: Floats) -> tuple[NDArray[np.int64], ...]:
    """The difference of two categories that hold nearly all rows."""
    first, second = np.argsort(-sizes, kind="stable")[:2]
    if len(sizes) > _FEW or sizes[first] + sizes[second] < _NEARLY_ALL * sizes.sum():
        return ()
    difference = np.zeros((1, len(sizes)), dtype=np.int64)
    difference[0, [first, second]] = 1, -1
    return (difference,)


def column_tree(column: Column) -> Tree:
    """The tree of one column: a leaf for each cell, of the same number."""
    ends: list[Any] = list(range(len(column.sizes)))
    if column.is_number:
        return _flat(_between(column.number, list(range(len(ends) - 2)), ends[:-1], ends[-1]))
    order = np.argsort(-column.sizes[:-1], kind="stable").tolist()
    return _flat(_one_of(column.number, order, [ends[code] for code in order], ends[-1]))


def pair_term(first: Column, second: Column) -> Term | None:
    """The term of two columns; None if one of them has a single group."""
    (one, sizes), (other, others) = _groups(first), _groups(second)
    if min(len(sizes), len(others)) < 2:
        return None
    expected = np.outer(sizes, others).ravel() / sizes.sum()
    alike = []
    for length in _PAIR_LENGTHS if first.is_number or second.is_number else (1.0,):
        each = [
            _centred(_near(len(n), length, 0) if c.is_number else np.eye(len(n)), n)
            for c, n in ((first, sizes), (second, others))
        ]
        both = np.kron(*each)
        alike.append(both / both.trace() * len(both))
    tree = _crossed(one, len(sizes), other, len(others))
    return Term((first.number, second.number), tree, expected, tuple(alike))


def pair_sizes(tree: Tree, first: Column, second: Column) -> Floats | None:
    """Expected rows of each leaf of a pair; None if the tree is not one that ``pair_term`` could make.

    The cuts between groups of numbers are those of the tree, as sums of sizes are not the same to the
    last bit everywhere.
    """
    cuts = [np.unique(tree.cut[tree.feature == c.number]).tolist() for c in (first, second)]
    for column, found in zip((first, second), cuts, strict=True):
        inside = found and found[-1] < len(column.sizes) - 2
        if column.is_number and not (inside and len(found) < _GROUPS):
            return None
    (one, sizes), (other, others) = _groups(first, cuts[0]), _groups(second, cuts[1])
    made = _crossed(one, len(sizes), other, len(others))
    same = all(np.array_equal(getattr(tree, f.name), getattr(made, f.name)) for f in fields(Tree))
    return np.outer(sizes, others).ravel() / sizes.sum() if same else None


def _crossed(one: Any, n_one: int, other: Any, n_other: int) -> Tree:
    """The tree of all combinations of groups."""
    return _flat(one([other([i * n_other + j for j in range(n_other)]) for i in range(n_one)]))


def _groups(column: Column, cuts: Sequence[int] | None = None) -> tuple[Any, Floats]:
    """A column in few groups: what makes a node of what is below each, and their expected sizes.

    Numbers are divided at ``cuts``; None: into parts of about equal size.
    """
    if column.is_number:
        sizes = column.sizes[:-1].copy()
        sizes[0] += column.sizes[-1]  # missing numbers go with the lowest
        if cuts is None:
            middle = np.cumsum(sizes) - sizes / 2
            group = np.minimum((middle / sizes.sum() * _GROUPS).astype(int), _GROUPS - 1)
            cuts = np.flatnonzero(np.diff(group)).tolist()
        parts = np.add.reduceat(sizes, [0, *(cut + 1 for cut in cuts)])
        return lambda below: _between(column.number, cuts, below, None), parts
    largest = np.argsort(-column.sizes[:-1], kind="stable")[: _CATEGORIES - 1].tolist()
    parts = np.append(column.sizes[largest], np.delete(column.sizes, largest).sum())
    return lambda below: _one_of(column.number, largest, below[:-1], below[-1]), parts


def _near(n: int, length: float, others: int) -> Floats:
    """Correlations that fall with the distance of cells, and ``others`` cells by themselves."""
    at = np.arange(n)
    out = np.eye(n + others)
    out[:n, :n] = np.exp(-np.abs(at[:, None] - at) / (length * n))
    return out


def _centred(alike: Floats, sizes: Floats) -> Floats:
    """The covariance of weights minus their mean over rows."""
    share = sizes + _ROOM * sizes.sum()
    away = np.eye(len(sizes)) - (share / share.sum())[None, :]
    return np.asarray(away @ alike @ away.T)


# A node is the number of a leaf, or (feature, cut, missing_left, left, right).


def _between(feature: int, cuts: Sequence[int], below: Sequence[Any], missing: Any) -> Any:
    """A balanced tree over intervals; ``cuts`` are the last codes of all intervals but the last.

    Missing values have a node of their own, or, if that is None, go with the lowest interval.
    """
    if missing is not None:
        if not cuts:
            return (feature, 0, False, below[0], missing) if _has_room(below) else below[0]
        low = (feature, cuts[0], False, below[0], missing)
        return _between(feature, cuts, [low, *below[1:]], None)
    if not cuts:
        return below[0]
    middle = len(cuts) // 2
    left = _between(feature, cuts[:middle], below[: middle + 1], None)
    right = _between(feature, cuts[middle + 1 :], below[middle + 1 :], None)
    return feature, cuts[middle], True, left, right


def _has_room(below: Sequence[Any]) -> bool:
    return len(below) == 1


def _one_of(feature: int, codes: Sequence[int], below: Sequence[Any], rest: Any) -> Any:
    """A chain: one category after the other goes left, all others right."""
    node = rest
    for code, leaf in zip(reversed(codes), reversed(below), strict=True):
        node = (feature, code, False, leaf, node)
    return node


def _flat(root: Any) -> Tree:
    """A nested node as a tree, level by level."""
    feature, cut, missing_left, left = [], [], [], []
    waiting = [root]
    for node in waiting:
        if isinstance(node, tuple):
            feature.append(node[0])
            cut.append(node[1])
            missing_left.append(node[2])
            left.append(len(waiting))
            waiting += node[3:]
        else:
            feature.append(LEAF)
            cut.append(0)
            missing_left.append(False)
            left.append(node)
    return Tree(
        np.array(feature, dtype=np.int32),
        np.array(cut, dtype=np.uint32),
        np.array(missing_left, dtype=np.bool_),
        np.array(left, dtype=np.int32),
    )
