"""The shape of released trees, and what their columns contribute: post-processing, free of charge.

In: a released ``Forest`` and the noise of its leaves. Out: depths, leaf sizes and importances. Nothing
here sees data; everything is a function of what was published already.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lumberjack.kernels import kernel
from lumberjack.kinds import MISSING, OTHER
from lumberjack.noise import mix_keys
from lumberjack.tree import LEAF, Forest, Tree

__all__ = [
    "NOTHING",
    "check_tree",
    "depths",
    "importances",
    "independent_rows",
    "leaf_sizes",
    "learned_nothing",
    "node_sums",
]

Floats = NDArray[np.float64]
Values = Literal["counts", "labels", "sums", "weights"]
NOTHING = "This model learned nothing: every tree is a single leaf, so all rows get the same prediction."
_ROWS = 2**14  # drawn to average over: enough for shares of one percent
_CLEAR = 2.0  # sizes below this many standard deviations of noise count as 0


def check_tree(tree: Tree, n_features: int) -> None:
    """Refuse arrays that are not one tree, in which every walk from the root ends at a leaf.

    Children are numbered after their parent and every node but the root has one parent, so each walk
    goes down and reaches every node; the leaves are numbered 0, 1, ... in some order.
    """
    n = len(tree.feature)
    node = np.arange(n)
    split = tree.feature != LEAF
    children = np.concatenate([tree.left[split], tree.right[split]])
    ends = tree.left[~split]
    if n == 0 or (tree.feature < LEAF).any() or (tree.feature >= n_features).any():
        raise ValueError("a tree splits on a column that does not exist")
    if (children <= np.tile(node[split], 2)).any() or (children >= n).any():
        raise ValueError("a tree has a child that is not a later node")
    if len(children) != n - 1 or len(np.unique(children)) != n - 1:
        raise ValueError("a tree has nodes with no parent or several")
    if (np.sort(ends) != np.arange(len(ends))).any():
        raise ValueError("a tree has leaves that are not numbered consecutively")


def _parents(tree: Tree) -> NDArray[np.int64]:
    """Parent of each node; the root is its own."""
    split = np.flatnonzero(tree.feature != LEAF)
    parent = np.zeros(len(tree.feature), dtype=np.int64)
    parent[tree.left[split]] = split
    parent[tree.right[split]] = split
    return parent


def depths(tree: Tree) -> NDArray[np.int64]:
    """Levels above each node, shape (n_nodes,); 0 for the root."""
    above = _parents(tree)
    depth = (np.arange(len(above)) > 0).astype(np.int64)
    while above.any():  # doubles the distance to each node's ancestor, until all are the root
        depth += depth[above]
        above = above[above]
    return depth


def learned_nothing(forest: Forest, kind: Values = "counts") -> bool:
    """Whether all rows get the same prediction: every tree is a single leaf, or has no weights but 0."""
    each = zip(forest.trees, forest.values, strict=True)
    return all(t.n_leaves == 1 or (kind == "weights" and not v[:, 1:].any()) for t, v in each)


def leaf_sizes(forest: Forest, kind: Values) -> Floats | None:
    """Noisy rows of each leaf, over all trees, shape (n_leaves_in_all,); None for labels.

    Of fitted leaves only those of single columns: others have no counts of their own.
    """
    if kind == "labels":
        return None
    if kind == "weights":
        each = zip(forest.trees, forest.values, strict=True)
        return np.concatenate([v[:, 0] for t, v in each if len(t.columns) == 1] or [np.zeros(0)])
    sizes = [v.sum(axis=1) if kind == "counts" else v[:, 0] for v in forest.values]
    return np.concatenate(sizes)


def importances(forest: Forest, kind: Values, noise: tuple[float, float] = (0.0, 0.0)) -> Floats:
    """Share of each column in what the splits explain, shape (n_features,); sums to 1, or is all 0.

    Parameters
    ----------
    forest : Forest
    kind : {"counts", "labels", "sums", "weights"}
        What a leaf holds: class counts, one vote, (count, sum of targets), or (expected size, weights).
    noise : (float, float)
        Standard deviation of a count and of a sum.

    Notes
    -----
    The decrease of the count-weighted Gini impurity, or of the squared error, as in scikit-learn. A
    split of n rows into two sets whose class shares (or mean targets) are p and q decreases it by
    |p - q|^2 n_left n_right / n. The size of a node is the sum of the noisy sizes of the leaves below.
    The average that noise adds to |p - q|^2 is subtracted, and a split counts as 0 if noise alone could
    have made one of its sides. On three real tables this is three to five times closer to the
    exact decrease than scores of single nodes, whose noise does not cancel.

    For weights: how much a column's tree moves scores, as the variance of its weights over rows; columns
    share the variance of a tree that splits on several. Nothing is subtracted, as weights are shrunk to
    what noise cannot explain.
    """
    total = np.zeros(len(forest.categorical))
    if kind == "weights":
        for tree, values in zip(forest.trees, forest.values, strict=True):
            if tree.columns:
                total[list(tree.columns)] += _spread(values) / len(tree.columns)
        return np.asarray(total / (total.sum() or 1.0))
    for tree, values in zip(forest.trees, forest.values, strict=True):
        sums, leaves = node_sums(tree, values), node_sums(tree, np.ones((len(values), 1)))[:, 0]
        size = sums[:, 0] if kind == "sums" else sums.sum(axis=1)
        n_values = 1 if kind == "sums" else sums.shape[1]
        clear = size > _CLEAR * noise[0] * np.sqrt(leaves * n_values)
        n = np.where(clear, size, 1.0)
        said = (sums[:, 1:] if kind == "sums" else sums) / n[:, None]
        squares = np.sum(said**2, axis=1)
        if kind == "sums":  # variance of a noisy mean, to first order
            variance = leaves * (noise[1] ** 2 + squares * noise[0] ** 2) / n**2
        else:  # of noisy shares, which depend on their own total
            variance = leaves * noise[0] ** 2 * (n_values * (1 + squares) - 2) / n**2
        split = np.flatnonzero(tree.feature != LEAF)
        left, right = tree.left[split], tree.right[split]
        apart = np.sum((said[left] - said[right]) ** 2, axis=1) - variance[left] - variance[right]
        gain = apart * n[left] * n[right] / (n[left] + n[right])
        np.add.at(total, tree.feature[split], np.where(clear[left] & clear[right], gain, 0.0))
    total = np.maximum(total, 0.0)
    return np.asarray(total / (total.sum() or 1.0))


def independent_rows(forest: Forest) -> NDArray[np.uint32]:
    """Codes of synthetic rows with independent columns and the released cell sizes.

    The rows of each column are in a fixed pseudo-random order of its own, so averages over these rows
    are functions of what was released.
    """
    codes = np.zeros((_ROWS, len(forest.categorical)), dtype=np.uint32)
    for tree, values in zip(forest.trees, forest.values, strict=True):
        if len(tree.columns) == 1:
            (column,) = tree.columns
            rows = np.arange(_ROWS, dtype=np.uint64)
            rank = np.argsort(mix_keys(np.full(_ROWS, column, dtype=np.uint64), rows))
            ends = np.cumsum(values[:, 0])
            cell = np.searchsorted(ends[:-1], (rank + 0.5) / _ROWS * ends[-1], side="right")
            rest = OTHER if forest.categorical[column] else MISSING
            codes[:, column] = np.where(cell == len(ends) - 1, rest, cell)
    return codes


def _spread(values: Floats) -> float:
    """Variance over rows of the weights of one tree, summed over outputs."""
    share = values[:, 0] / (values[:, 0].sum() or 1.0)
    return float((share @ (values[:, 1:] - share @ values[:, 1:]) ** 2).sum())


def node_sums(tree: Tree, values: Floats) -> Floats:
    """Sum of the values of all leaves below each node, shape (n_nodes, n_values)."""
    return _add_up(tree.feature, tree.left, np.ascontiguousarray(values, dtype=np.float64))


@kernel
def _add_up(feature: NDArray[np.int32], left: NDArray[np.int32], values: Floats) -> Floats:
    out = np.zeros((len(feature), values.shape[1]))
    for node in range(len(feature) - 1, -1, -1):  # children come after their parents
        if feature[node] == LEAF:
            out[node] = values[left[node]]
        else:
            out[node] = out[left[node]] + out[left[node] + 1]
    return out
