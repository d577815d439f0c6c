"""A fitted model in the formats of other programs: ONNX, dictionaries for SHAP, text and Graphviz.

In: a fitted estimator. Out: the same forest for another program. Everything here is a function of what
was released, so an export is as private as the model. ONNX is built in ``export_onnx``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lumberjack.anatomy import node_sums
from lumberjack.export_onnx import columns_in_order, onnx_inputs, to_onnx
from lumberjack.kinds import MISSING, Categorical, Cuts, Known, Number, Numeric
from lumberjack.old_votes import refuse_old
from lumberjack.released import Fitted, Released, released_by
from lumberjack.targets import Numbers
from lumberjack.tree import LEAF, Tree
from lumberjack.units import one

__all__ = [
    "onnx_inputs",
    "shap_by_column",
    "shap_inputs",
    "to_graphviz",
    "to_onnx",
    "to_shap",
    "to_text",
]

Floats = NDArray[np.float64]


# SHAP


def to_shap(model: Fitted, values: Literal["votes", "counts"] = "votes") -> dict[str, Any]:
    """Describe a forest as the dictionary that ``shap.TreeExplainer`` reads.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
    values : {"votes", "counts"}
        The value of a leaf: "votes" is what it adds to the sum behind a prediction; "counts" (pruned
        trees only) is what it released: noisy class counts, one vote, or a noisy count and sum of
        targets. Votes of counted leaves from files up to version 5 are refused.

    Returns
    -------
    dict
        Its explanations add up to the sum over trees of those values. For fitted leaves that is the
        score: the log odds of the second of two classes (one output), the log chance of each of several
        classes up to a constant. For counted leaves it is the probability of each class, before class
        weights; for numbers, the number in the target's units before it is clipped. With "counts" it is
        the pooled noisy counts. Columns are those of ``shap_inputs``. Row counts of nodes are sums of
        released leaf sizes (at least one row for each leaf of a pruned tree; where leaves release labels
        only, one).

    Examples
    --------
    >>> import shap
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.export import shap_inputs, to_shap
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> explainer = shap.TreeExplainer(to_shap(model))
    >>> explainer.shap_values(shap_inputs(model, X[:5])).shape  # rows, columns, classes
    (5, 2, 3)
    """
    if values not in ("votes", "counts"):
        raise ValueError(f"values must be 'votes' or 'counts', got {values!r}")
    released = released_by(model)
    forest = released.forest
    worth = _worth(released, values)
    start, ranks = _shap_start(released), _ranks(released)
    trees = []
    for tree, said, counted in zip(forest.trees, worth, forest.values, strict=True):
        leaf = tree.feature == LEAF
        column = np.where(leaf, 0, tree.feature)
        indicator = ~leaf & forest.categorical[column] & (not released.guarantee.fits_leaves)
        left = np.where(leaf, -1, tree.left)
        size = released.target.leaves.sizes(counted)
        trees.append(
            {
                # An indicator is 1 where the category is the split's, and then the row goes left.
                "children_left": np.where(indicator, tree.right, left),
                "children_right": np.where(indicator, left, tree.right),
                "children_default": np.where(tree.missing_left & ~indicator, left, tree.right),
                "features": np.where(leaf, -2, start[column] + np.where(indicator, tree.cut, 0)),
                "thresholds": _shap_thresholds(tree, released.domain.known, ranks),
                "values": node_sums(tree, said),
                "node_sample_weight": node_sums(tree, size[:, None])[:, 0],
            }
        )
    return {
        "trees": trees,
        "internal_dtype": np.float64,
        "input_dtype": np.float64,
        "tree_output": "raw_value",
    }


def _worth(released: Released, values: str) -> list[Floats]:
    """The values of the leaves of each tree."""
    target, forest = released.target, released.forest
    if values == "counts":
        if released.guarantee.fits_leaves:
            raise ValueError(
                "fitted leaves hold weights, not counts: leave values out, or use pruned trees "
                '(leaf="counts")'
            )
        return list(forest.values)
    refuse_old(target)
    base, leaves = released.votes
    unit = target.half_width if isinstance(target, Numbers) else 1.0
    worth = [votes * unit for votes in leaves]
    worth[0] = worth[0] + base * unit + (target.centre if isinstance(target, Numbers) else 0.0)
    return worth


def shap_inputs(model: Fitted, X: Any) -> Floats:
    """Turn a table into what ``to_shap`` splits on, shape (n_rows, n_shap_columns).

    A number is one column, in its own units (dates: seconds since 1970, UTC), clipped to its range, NaN
    where missing. SHAP knows no splits of the form "= c". In a fitted forest a category is one column
    too, its rank: 0 for the largest category, and so on, last all other values. For pruned trees it is
    one indicator for each category; ``shap_by_column`` adds indicators up.

    Examples
    --------
    >>> import numpy as np
    >>> from lumberjack import LumberjackRegressor
    >>> from lumberjack.export import shap_inputs
    >>> X = np.random.default_rng(0).uniform(0, 1, (2000, 1))
    >>> model = LumberjackRegressor(domain={"a": (0, 1)}, y_bounds=(0, 1)).fit(X, X[:, 0])
    >>> shap_inputs(model, [[0.0], [0.5], [None]]).ravel()
    array([0. , 0.5, nan])
    """
    released, parts = released_by(model), []
    each = zip(columns_in_order(released, X), released.domain.known, _ranks(released), strict=True)
    for (name, column), kind, rank in each:
        codes = np.empty(len(column), dtype=np.uint32)
        grid = kind.grid if isinstance(kind, Cuts) else kind
        grid.encode(name, column, codes)
        if isinstance(grid, Numeric):
            parts.append(np.where(codes == MISSING, np.nan, grid.values_at(codes))[:, None])
        elif released.guarantee.fits_leaves:
            parts.append(rank[np.minimum(codes, kind.size)][:, None])
        else:
            parts.append((codes[:, None] == np.arange(kind.size)).astype(float))
    return np.concatenate(parts, axis=1)


def _shap_thresholds(tree: Tree, kinds: Sequence[Known], ranks: Sequence[Floats]) -> Floats:
    """The largest number that goes left at each node: 1/2 for indicators, or a rank + 1/2."""
    thresholds = np.full(len(tree.feature), 0.5)
    for j, (kind, rank) in enumerate(zip(kinds, ranks, strict=True)):
        here = tree.feature == j
        if not isinstance(kind, Number):
            thresholds[here] += rank[tree.cut[here]]
        elif kind.size == 1:  # all numbers go left
            thresholds[here] = np.inf
        else:
            thresholds[here] = np.nextafter(kind.threshold(tree.cut[here]), -np.inf)
    return thresholds


def _ranks(released: Released) -> list[Floats]:
    """Rank of each category of a column, and last that of other values: the split where it goes left.

    The trees of a fitted forest ask for the categories of a column in the same order, the largest first,
    so that "= c" is "rank <= that of c". All 0 for pruned trees and for numbers.
    """
    forest, kinds = released.forest, released.domain.known
    if not released.guarantee.fits_leaves:
        return [np.zeros(0 if isinstance(kind, Number) else kind.size + 1) for kind in kinds]
    orders: list[dict[int, int]] = [{} for _ in kinds]  # category asked for at each split
    for tree in forest.trees:
        above = np.zeros(len(tree.feature), dtype=np.int64)  # splits on a node's column, next above it
        for node in np.flatnonzero(tree.feature != LEAF).tolist():
            column, cut, right = int(tree.feature[node]), int(tree.cut[node]), int(tree.right[node])
            if forest.categorical[column]:
                if orders[column].setdefault(int(above[node]), cut) != cut:
                    raise ValueError("trees ask for the categories of a column in different orders")
                above[right] = above[node] + 1 if tree.feature[right] == column else 0
    out = []
    for kind, order in zip(kinds, orders, strict=True):
        rank = np.full(kind.size + 1 if isinstance(kind, Categorical) else 0, float(len(order)))
        rank[list(order.values())] = list(order)
        out.append(rank)
    return out


def shap_by_column(model: Fitted, explained: Floats) -> Floats:
    """Add up the explanations of indicators, so that there is one for each column of the domain.

    Parameters
    ----------
    explained : ndarray of shape (n_rows, n_shap_columns, ...)
        What ``shap_values`` gave.

    Returns
    -------
    ndarray of shape (n_rows, n_columns, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from lumberjack import LumberjackRegressor
    >>> from lumberjack.export import shap_by_column
    >>> X = np.array([["a"], ["b"]] * 1000)
    >>> model = LumberjackRegressor(domain={"c": ["a", "b"]}, y_bounds=(0, 1)).fit(X, X[:, 0] == "a")
    >>> shap_by_column(model, np.array([[0.5, 0.25]]))
    array([[0.75]])
    """
    return np.asarray(np.add.reduceat(np.asarray(explained), _shap_start(released_by(model)), axis=1))


def _shap_start(released: Released) -> NDArray[np.int64]:
    """Where the columns of each feature begin."""
    single = released.guarantee.fits_leaves
    kinds = released.domain.known
    widths = [1 if single or isinstance(kind, Number) else kind.size for kind in kinds]
    return np.concatenate([[0], np.cumsum(widths[:-1])]).astype(np.int64)


# Text and Graphviz


def to_text(model: Fitted, tree: int = 0, max_depth: int | None = None) -> str:
    """Write one tree as indented text; what leaves hold is noisy.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
    tree : int
        Which one. Fitted forests have first the base, then a tree for each column of the domain, then
        those of pairs; their leaves show weights (of numbers in the target's units) and expected sizes.
    max_depth : int or None
        Levels to show; deeper ones become "...".

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.export import to_text
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> print(to_text(model, 1, max_depth=1))  # doctest: +ELLIPSIS
    |-- ... < ...
    """
    lines: list[str] = []
    chosen, split, leaf = tree_labels(model, tree)
    todo = [(0, 0, "")]
    while todo:
        node, depth, before = todo.pop()
        margin = "|   " * depth
        if before:
            lines.append(f"{'|   ' * (depth - 1)}|-- {before}")
        if chosen.feature[node] == LEAF:
            lines.append(f"{margin}|-- {leaf(node)}")
        elif max_depth is not None and depth >= max_depth:
            lines.append(f"{margin}|-- ...")
        else:
            yes, no = split(node)
            todo.append((int(chosen.right[node]), depth + 1, no))
            todo.append((int(chosen.left[node]), depth + 1, yes))
    return "\n".join(lines)


def to_graphviz(model: Fitted, tree: int = 0, max_depth: int | None = None) -> str:
    """Write one tree in Graphviz's DOT language; parameters are those of ``to_text``.

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.export import to_graphviz
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> print(to_graphviz(model, 1, max_depth=1))  # doctest: +ELLIPSIS
    digraph tree {
    ...
    }
    """
    chosen, split, leaf = tree_labels(model, tree)
    lines = ["digraph tree {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    todo = [(0, 0)]
    while todo:
        node, depth = todo.pop()
        if chosen.feature[node] == LEAF:
            text = leaf(node)
        elif max_depth is not None and depth >= max_depth:
            text = "..."
        else:
            text = split(node)[0]
            for child, says in ((chosen.left[node], "yes"), (chosen.right[node], "no")):
                lines.append(f'  {node} -> {child} [label="{says}"];')
                todo.append((int(child), depth + 1))
        lines.append(f"  {node} [label={_quoted(text)}];")
    return "\n".join([*lines, "}"])


def tree_labels(
    model: Fitted, number: int
) -> tuple[Tree, Callable[[int], tuple[str, str]], Callable[[int], str]]:
    """A tree, what its splits ask (and the opposite), and what its leaves hold, in words."""
    released = released_by(model)
    forest, n_trees = released.forest, len(released.forest.trees)
    if not 0 <= number < n_trees:
        raise ValueError(f"tree must be between 0 and {n_trees - 1}, got {number}")
    tree, values = forest.trees[number], forest.values[number]
    names, kinds = released.domain.names, released.domain.known

    def split(node: int) -> tuple[str, str]:
        feature, cut = int(tree.feature[node]), int(tree.cut[node])
        name, kind = _plain(names[feature]), kinds[feature]
        if isinstance(kind, Number) and kind.size == 1:
            return f"{name} is a number", f"{name} is missing"
        if isinstance(kind, Number):
            shown = one(float(kind.threshold(cut)), kind.temporal)
            yes, no = ("", " or missing") if not tree.missing_left[node] else (" or missing", "")
            return f"{name} < {shown}{yes}", f"{name} >= {shown}{no}"
        known = cut < len(kind.categories)
        category = _plain(str(kind.categories[cut])) if known else "missing"
        return f"{name} = {category}", f"{name} != {category}"

    def leaf(node: int) -> str:
        return _plain(released.target.show(values[tree.left[node]]))

    return tree, split, leaf


def _plain(text: str) -> str:
    """Text without control characters or line breaks."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
