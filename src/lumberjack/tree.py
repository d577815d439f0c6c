"""The released forest: flat arrays that hold nothing but public splits and noisy leaf values.

In: encoded rows. Out: the leaf of each row in each tree. Each tree has arrays of its own.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.kernels import kernel
from lumberjack.kinds import MISSING, Codes, shift_of
from lumberjack.structure import interval

__all__ = ["LEAF", "Forest", "Tree", "end_path", "in_threads", "lay_path", "walk"]

LEAF = -1
_ROWS = 1 << 14  # rows that one thread takes at a time
_BATCH = 256  # rows that walk together
_STRIDE = 8  # levels between two checks for rows that have arrived
_BEFORE_ALL = np.int64(MISSING).astype(np.uint32)  # the code of missing numbers: one before cell 0
_ALL = np.uint32(0xFFFFFFFF)

Floats = NDArray[np.float64]
Leaf = NDArray[np.int32]
Paths = NDArray[np.uint32]


@dataclass(frozen=True)
class Tree:
    """One tree: its split nodes and how many leaves it has.

    Attributes
    ----------
    feature, cut : ndarray of shape (n_nodes,)
        The split: at most ``cut`` (numbers) or equal to it (categories) goes left. Feature -1: a leaf.
    missing_left : ndarray of bool, shape (n_nodes,)
        Which way missing numbers go.
    left : ndarray of shape (n_nodes,)
        The left child; the right one comes next. For a leaf: its leaf number.
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.uint32]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]

    @property
    def right(self) -> NDArray[np.int32]:
        """The right child of each node; -1 for leaves."""
        return np.where(self.feature == LEAF, -1, self.left + 1).astype(np.int32)

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns it splits on, in their order."""
        return tuple(np.unique(self.feature[self.feature != LEAF]).tolist())

    @property
    def n_leaves(self) -> int:
        """Number of leaves, empty ones included."""
        return int(np.count_nonzero(self.feature == LEAF))

    def apply(self, codes: Codes, categorical: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Leaf number of each row."""
        where = np.empty(len(codes), dtype=np.int32)
        walk(codes, np.arange(len(codes), dtype=np.int32), self._paths(categorical), where)
        return self.left[where]

    def _paths(self, categorical: NDArray[np.bool_]) -> Paths:
        """The tree as ``walk`` reads it: ``lay_path`` and ``end_path`` for all nodes at once."""
        node, ends = np.arange(len(self.feature)), self.feature == LEAF
        feature = np.where(ends, 0, self.feature)
        equal = categorical[feature]
        paths = np.empty((len(node), 4), dtype=np.uint32)
        paths[:, 0] = feature
        paths[:, 1] = np.where(equal, self.cut, np.where(self.missing_left, _BEFORE_ALL, 0))
        paths[:, 2] = np.where(equal, 0, self.cut + self.missing_left)
        paths[:, 3] = np.where(ends, node, self.left)
        paths[ends, 1], paths[ends, 2] = 0, _ALL
        return paths


@dataclass(frozen=True)
class Forest:
    """Trees with a row of released values for each leaf.

    Attributes
    ----------
    trees : tuple of Tree
    values : tuple of ndarray, each of shape (n_leaves, n_values)
        Noisy class counts, one-hot labels, or noisy (count, sum) of each leaf; or its expected number of
        rows and its weights.
    categorical : ndarray of bool, shape (n_features,)
    """

    trees: tuple[Tree, ...]
    values: tuple[NDArray[np.float64], ...]
    categorical: NDArray[np.bool_]

    def apply(self, codes: Codes, n_threads: int = 1) -> NDArray[np.int32]:
        """Leaf number of each row in each tree, shape (n_rows, n_trees)."""
        out = np.empty((len(codes), len(self.trees)), dtype=np.int32)
        self._each(codes, n_threads, lambda rows, tree, leaf: np.copyto(out[rows, tree], leaf))
        return out

    def pool(self, values: Sequence[Floats], codes: Codes, n_threads: int = 1) -> Floats:
        """Add up over trees what the leaf of each row says, shape (n_rows, n_values).

        ``values``, each of shape (n_leaves, n_values), is what the leaves of each tree say.
        """
        total = np.zeros((len(codes), values[0].shape[1]))
        flat, said = self._flat, np.concatenate(values)
        in_threads(lambda rows: _pool(codes[rows], *flat, said, total[rows]), len(codes), n_threads)
        return total

    def _each(self, codes: Codes, n_threads: int, use: Callable[[slice, int, Leaf], None]) -> None:
        """Call ``use`` with the leaves of each block of rows in each tree; blocks run in threads."""
        paths, _, first = self._flat

        def one(rows: slice) -> None:
            which = np.arange(rows.start, rows.stop, dtype=np.int32)
            where = np.empty(len(which), dtype=np.int32)
            for number, tree in enumerate(self.trees):
                walk(codes, which, paths[first[number] : first[number + 1]], where)
                use(rows, number, tree.left[where])

        in_threads(one, len(codes), n_threads)

    @cached_property
    def _flat(self) -> tuple[Paths, Leaf, NDArray[np.int64]]:
        """All trees, one after the other: paths, leaves numbered consecutively, and first nodes."""
        paths = np.concatenate([tree._paths(self.categorical) for tree in self.trees])
        first = np.cumsum([0, *(len(tree.left) for tree in self.trees)], dtype=np.int64)
        before = np.cumsum([0, *(tree.n_leaves for tree in self.trees)], dtype=np.int32)
        each = zip(self.trees, before[:-1], strict=True)
        return paths, np.concatenate([tree.left + start for tree, start in each]), first

    def __getstate__(self) -> dict[str, Any]:
        """What was released, and nothing that follows from it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def in_threads(use: Callable[[slice], None], n_rows: int, n_threads: int) -> None:
    """Call ``use`` with each block of rows."""
    blocks = [slice(start, min(start + _ROWS, n_rows)) for start in range(0, n_rows, _ROWS)]
    if len(blocks) <= 1 or n_threads == 1:
        for rows in blocks:
            use(rows)
        return
    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(use, blocks))


@kernel
def lay_path(
    paths: Any, node: Any, feature: Any, cut: Any, categorical: Any, missing_left: Any, left: Any
) -> None:
    """Say where rows go at a split, for ``walk``."""
    low, width = interval(cut, categorical, missing_left)
    paths[node, 0], paths[node, 1], paths[node, 2], paths[node, 3] = feature, low, width, left


@kernel
def end_path(paths: Any, node: Any) -> None:
    """Say that rows end at a node, for ``walk``: all go left, and left is the node itself."""
    paths[node, 0], paths[node, 1], paths[node, 2], paths[node, 3] = 0, 0, 0xFFFFFFFF, node


@kernel
def walk(codes: Codes, rows: NDArray[np.int32], paths: Paths, out: NDArray[np.integer[Any]]) -> None:
    """Take rows from node 0 down to where they end.

    Parameters
    ----------
    rows : ndarray of int32, shape (n,)
        Rows of ``codes``.
    paths : ndarray of uint32, shape (n_nodes, 4)
        Feature, low, width and left child: a row goes left if its code - low <= width, and otherwise to
        the node after the left child. See ``lay_path`` and ``end_path``.
    out : ndarray of shape (n,)
        Receives the node in which each row ends.

    A batch of rows is copied, so that they are next to each other in the cache, and walks one level at
    a time: steps of different rows do not wait for each other. Every few levels, rows that have arrived
    drop out.
    """
    n_features, shift = np.uint32(codes.shape[1]), shift_of(codes)
    batch = np.empty(_BATCH * n_features, dtype=np.uint32)
    here, base = np.empty(_BATCH, dtype=np.uint32), np.empty(_BATCH, dtype=np.uint32)
    who = np.empty(_BATCH, dtype=np.uint64)
    for start in range(0, len(rows), _BATCH):
        n = min(_BATCH, len(rows) - start)
        for i in range(n):
            here[i], base[i], who[i] = 0, np.uint32(i) * n_features, start + i
            row = np.uint64(rows[start + i])
            for f in range(n_features):
                batch[base[i] + f] = np.uint32(codes[row, f]) - shift
        while n > 0:
            for _ in range(_STRIDE):
                for i in range(n):
                    node = np.uint64(here[i])
                    code = batch[base[i] + paths[node, np.uint64(0)]]
                    right = np.uint32(code - paths[node, np.uint64(1)]) > paths[node, np.uint64(2)]
                    here[i] = paths[node, np.uint64(3)] + np.uint32(right)
            under_way = 0
            for i in range(n):
                node = here[i]
                out[who[i]] = node
                here[under_way], base[under_way], who[under_way] = node, base[i], who[i]
                under_way += paths[node, np.uint64(3)] != node
            n = under_way


@kernel
def _pool(
    codes: Codes, paths: Paths, leaf: Leaf, first: NDArray[np.int64], said: Floats, total: Floats
) -> None:
    """Add up over trees, one after the other, what the leaf of each row says."""
    n_rows = len(codes)
    rows, where = np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.int32)
    for i in range(n_rows):
        rows[i] = i
    for tree in range(len(first) - 1):
        walk(codes, rows, paths[first[tree] : first[tree + 1]], where)
        for i in range(n_rows):
            found = leaf[first[tree] + where[i]]
            for k in range(said.shape[1]):
                total[i, k] += said[found, k]
