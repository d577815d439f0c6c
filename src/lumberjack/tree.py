"""The released forest: flat arrays that hold nothing but public splits and noisy leaf values.

In: encoded rows. Out: the leaf of each row in each tree. All trees share one set of arrays.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import Codes
from lumberjack.kernels import kernel
from lumberjack.structure import interval

__all__ = ["Forest", "Tree"]

LEAF = -1
_ROWS = 1 << 14  # rows that one thread takes at a time
_BATCH = 256  # rows that walk together

Floats = NDArray[np.float64]
Leaf = NDArray[np.int32]
Paths = tuple[NDArray[np.uint32], NDArray[np.int32]]


@dataclass(frozen=True)
class Tree:
    """One tree: its split nodes and how many leaves it has.

    Attributes
    ----------
    feature, cut : ndarray of shape (n_nodes,)
        The split: at most ``cut`` (numbers) or equal to it (categories) goes left. Feature -1: a leaf.
    missing_left : ndarray of bool, shape (n_nodes,)
        Which way missing numbers go.
    left, right : ndarray of shape (n_nodes,)
        Children; a leaf has its own number in ``left``.
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.uint32]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]

    @property
    def n_leaves(self) -> int:
        """Number of leaves, empty ones included."""
        return int(np.sum(self.feature == LEAF))

    def apply(self, codes: Codes, categorical: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Leaf number of each row."""
        out = np.empty(len(codes), dtype=np.int32)
        _walk(codes, *self._paths(categorical), out)
        return out

    def _paths(self, categorical: NDArray[np.bool_]) -> Paths:
        """The tree as ``_walk`` reads it: the codes that go left, and where both sides lead."""
        split = np.empty((len(self.feature), 3), dtype=np.uint32)
        _intervals(self.feature, self.cut, self.missing_left, categorical, split)
        # A leaf is led to as -1 - its number: one look tells whether a row has arrived.
        name = np.where(self.feature == LEAF, -1 - self.left, np.arange(len(self.left)))
        children = np.empty((len(self.feature), 2), dtype=np.int32)
        inner = self.feature != LEAF
        children[inner, 0], children[inner, 1] = name[self.left[inner]], name[self.right[inner]]
        children[~inner] = name[~inner, None]
        return split, children.reshape(-1)


@dataclass(frozen=True)
class Forest:
    """Trees with a row of released values for each leaf.

    Attributes
    ----------
    trees : tuple of Tree
    values : tuple of ndarray, each of shape (n_leaves, n_values)
        Noisy class counts, one-hot labels, or noisy (count, sum) of each leaf.
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
        """Add up what the leaves of each row say, shape (n_rows, n_values).

        ``values``, each of shape (n_leaves, n_values), is what the leaves of each tree say.
        """
        total = np.zeros((len(codes), values[0].shape[1]))
        self._each(codes, n_threads, lambda rows, tree, leaf: _add(values[tree], leaf, total[rows]))
        return total

    def _each(self, codes: Codes, n_threads: int, use: Callable[[slice, int, Leaf], None]) -> None:
        """Call ``use`` with the leaves of each block of rows in each tree; blocks run in threads."""
        paths = [tree._paths(self.categorical) for tree in self.trees]

        def one(start: int) -> None:
            rows = slice(start, start + _ROWS)
            leaf = np.empty(len(codes[rows]), dtype=np.int32)
            for tree, path in enumerate(paths):
                _walk(codes[rows], *path, leaf)
                use(rows, tree, leaf)

        with ThreadPoolExecutor(n_threads) as threads:
            list(threads.map(one, range(0, len(codes), _ROWS)))


@kernel
def _intervals(feature: Any, cut: Any, missing_left: Any, categorical: Any, out: Any) -> None:
    for node in range(len(feature)):
        f = feature[node]
        if f != LEAF:
            out[node, 0] = f
            out[node, 1], out[node, 2] = interval(cut[node], categorical[f], missing_left[node])


@kernel
def _walk(codes: Any, split: Any, children: Any, out: Any) -> None:
    """Walk rows down a tree, a batch at a time: steps of different rows do not wait for another."""
    n_features = codes.shape[1]
    batch = np.empty(_BATCH * n_features, dtype=np.uint32)
    here, on_the_way = np.empty(_BATCH, dtype=np.uint32), np.empty(_BATCH, dtype=np.uint32)
    for start in range(0, len(codes), _BATCH):
        n = min(_BATCH, len(codes) - start)
        for i in range(n):
            here[i], on_the_way[i] = 0, i
            for f in range(n_features):
                batch[i * n_features + f] = codes[start + i, f]
        if children[0] < 0 and children[1] == children[0]:  # the root is the one leaf, or both are it
            out[start : start + n] = -1 - children[0]
            continue
        while n > 0:
            left_over = 0
            for j in range(n):
                i = on_the_way[j]
                node = here[i]
                code = batch[np.uint64(i * n_features) + split[node, np.uint64(0)]]
                right = np.uint32(code - split[node, np.uint64(1)]) > split[node, np.uint64(2)]
                next_one = children[np.uint64(2) * node + np.uint64(right)]
                if next_one < 0:
                    out[start + i] = -1 - next_one
                else:
                    here[i] = next_one
                    on_the_way[left_over] = i
                    left_over += 1
            n = left_over


@kernel
def _add(values: Any, leaf: Any, total: Any) -> None:
    for i in range(len(leaf)):
        for c in range(values.shape[1]):
            total[i, c] += values[leaf[i], c]
