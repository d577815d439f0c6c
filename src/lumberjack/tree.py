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
from lumberjack.kinds import Codes, shift_of
from lumberjack.structure import interval

__all__ = ["LEAF", "Forest", "Tree", "end_path", "lay_path", "walk"]

LEAF = -1
_ROWS = 1 << 14  # rows that one thread takes at a time
_BATCH = 256  # rows that walk together
_STRIDE = 8  # levels between two checks for rows that have arrived

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
        return int(np.sum(self.feature == LEAF))

    def apply(self, codes: Codes, categorical: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Leaf number of each row."""
        where = np.empty(len(codes), dtype=np.int32)
        walk(codes, np.arange(len(codes), dtype=np.int32), self._paths(categorical), where)
        return self.left[where]

    def _paths(self, categorical: NDArray[np.bool_]) -> Paths:
        """The tree as ``walk`` reads it."""
        paths = np.empty((len(self.feature), 4), dtype=np.uint32)
        _lay_paths(self.feature, self.cut, self.missing_left, self.left, categorical, paths)
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

    def __getstate__(self) -> dict[str, Any]:
        """The arrays, without what was computed from them since."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _paths(self) -> tuple[Paths, ...]:
        """The trees as ``walk`` reads them, found once for all calls."""
        return tuple(tree._paths(self.categorical) for tree in self.trees)

    def apply(self, codes: Codes, n_threads: int = 1) -> NDArray[np.int32]:
        """Leaf number of each row in each tree, shape (n_rows, n_trees)."""
        out = np.empty((len(codes), len(self.trees)), dtype=np.int32)
        self._each(codes, n_threads, lambda rows, tree, leaf: np.copyto(out[rows, tree], leaf))
        return out

    def number(
        self, codes: Codes, starts: NDArray[np.int64], kind: np.dtype[Any], n_threads: int = 1
    ) -> NDArray[Any]:
        """Leaf numbers plus the start of each tree, shape (n_rows, n_trees)."""
        out = np.empty((len(codes), len(self.trees)), dtype=kind)

        def put(rows: slice, tree: int, leaf: Leaf) -> None:
            out[rows, tree] = leaf + starts[tree]

        self._each(codes, n_threads, put)
        return out

    def pool(self, values: Sequence[Floats], codes: Codes, n_threads: int = 1) -> Floats:
        """Add up over trees what the leaf of each row says, shape (n_rows, n_values).

        ``values``, each of shape (n_leaves, n_values), is what the leaves of each tree say.
        """
        total = np.zeros((len(codes), values[0].shape[1]))
        self._each(codes, n_threads, lambda rows, tree, leaf: _add(values[tree], leaf, total[rows]))
        return total

    def _each(self, codes: Codes, n_threads: int, use: Callable[[slice, int, Leaf], None]) -> None:
        """Call ``use`` with the leaves of each block of rows in each tree; blocks run in threads."""

        def one(start: int) -> None:
            rows = slice(start, start + _ROWS)
            which = np.arange(start, min(start + _ROWS, len(codes)), dtype=np.int32)
            where = np.empty(len(which), dtype=np.int32)
            for number, (tree, path) in enumerate(zip(self.trees, self._paths, strict=True)):
                walk(codes, which, path, where)
                use(rows, number, tree.left[where])

        with ThreadPoolExecutor(n_threads) as threads:
            list(threads.map(one, range(0, len(codes), _ROWS)))


@kernel
def _lay_paths(
    feature: NDArray[np.int32],
    cut: NDArray[np.uint32],
    missing_left: NDArray[np.bool_],
    left: NDArray[np.int32],
    categorical: NDArray[np.bool_],
    paths: Paths,
) -> None:
    for node in range(len(feature)):
        f = feature[node]
        if f == LEAF:
            end_path(paths, node)
        else:
            lay_path(paths, node, f, cut[node], categorical[f], missing_left[node], left[node])


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
def _add(values: Floats, leaf: Leaf, total: Floats) -> None:
    for i in range(len(leaf)):
        for c in range(values.shape[1]):
            total[i, c] += values[leaf[i], c]
