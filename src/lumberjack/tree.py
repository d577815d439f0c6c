"""The released forest: flat arrays that hold nothing but public splits and noisy leaf values.

In: encoded rows. Out: the leaf of each row in each tree. All trees share one set of arrays.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import Codes
from lumberjack.kernels import kernel
from lumberjack.structure import goes_left

__all__ = ["Forest", "Tree"]

LEAF = -1


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
        _apply(codes, categorical, self.feature, self.cut, self.missing_left, self.left, self.right, out)
        return out


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

    def apply(self, codes: Codes) -> NDArray[np.int32]:
        """Leaf number of each row in each tree, shape (n_rows, n_trees)."""
        return np.column_stack([tree.apply(codes, self.categorical) for tree in self.trees])


@kernel
def _apply(
    codes: Any,
    categorical: Any,
    feature: Any,
    cut: Any,
    missing_left: Any,
    left: Any,
    right: Any,
    out: Any,
) -> Any:
    for i in range(len(codes)):
        node = 0
        while feature[node] != LEAF:
            f = feature[node]
            if goes_left(codes[i, f], cut[node], categorical[f], missing_left[node]):
                node = left[node]
            else:
                node = right[node]
        out[i] = left[node]
