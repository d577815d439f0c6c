"""A fitted model as an ONNX graph: columns to codes, codes to leaves, leaves to an answer.

In: a fitted estimator. Out: a graph whose arithmetic is that of ``Domain.encode`` and ``predict``.
What leaves contribute is ``Released.votes``. Reading the sum over trees repeats ``targets`` in ONNX.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.guarantee import SEEDED
from lumberjack.inputs import read_table
from lumberjack.kinds import CELLS, Categorical, Cuts, Known, Number
from lumberjack.old_votes import refuse_old
from lumberjack.released import Fitted, Released, released_by
from lumberjack.targets import Numbers
from lumberjack.tree import LEAF, Tree
from lumberjack.units import several
from lumberjack.values import Column, columns_of

__all__ = ["columns_in_order", "onnx_inputs", "to_onnx"]

_EXACT = 2**53  # integers below are exact as floats
_INNER = "lumberjack/"  # names of tensors inside a graph


def to_onnx(model: Fitted, *, allow_seeded: bool = False) -> Any:
    """Turn a fitted estimator into an ONNX model with the same predictions.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
    allow_seeded : bool
        Whether to export a model with seeded noise, as in ``save``.

    Returns
    -------
    onnx.ModelProto
        One input for each column, named like it, of shape (n_rows, 1): text for categories that are
        text, otherwise numbers of 64 bits; dates are seconds since 1970 (UTC). A missing number is NaN.
        ``onnx_inputs`` makes them. Outputs are ``label`` and ``probabilities``, or ``prediction``. The
        guarantee is in the metadata, as JSON, under ``lumberjack.guarantee``.

    Notes
    -----
    All arithmetic is that of ``Domain.encode`` and ``predict``: rows reach the same leaves, and sums
    over trees are the same to the last bit. Fitted leaves are one ordinary tree ensemble, whose 32-bit
    sums are exact, as weights are multiples of 2^-16 and scores stay below 256; after it, and for pruned
    trees throughout, numbers have 64 bits. Needs the extra ``onnx``.

    Examples
    --------
    >>> import onnxruntime
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.export import onnx_inputs, to_onnx
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    >>> label, probabilities = session.run(None, onnx_inputs(model, X))
    >>> bool((label == model.predict(X)).all())
    True
    """
    released = released_by(model)
    refuse_old(released.target)
    helper, kinds = _import_onnx()
    if SEEDED in released.guarantee.caveats and not allow_seeded:
        raise ValueError(
            "this model has seeded noise (random_state) and is not safe to publish; fit it with "
            "random_state=None, or say allow_seeded=True"
        )
    graph = _Graph(helper, kinds)
    inputs, codes = [], []
    for name, kind in zip(released.domain, released.domain.known, strict=True):
        _check_onnx_column(name, kind)
        type_ = kinds.STRING if _is_text(kind) else kinds.DOUBLE
        inputs.append(
            helper.make_tensor_value_info(name, type_, ["rows", 1], doc_string=_onnx_says(kind))
        )
        codes.append(_encode(graph, name, kind))
    add_up = _add_weights if released.guarantee.fits_leaves else _pool
    pooled = add_up(graph, graph("Concat", *codes, axis=1), released)
    outputs = _conclude(graph, pooled, released, getattr(model, "class_weight", None))
    made = helper.make_model(
        helper.make_graph(graph.nodes, "lumberjack", inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 4)],
        ir_version=8,
        producer_name="lumberjack",
    )
    helper.set_model_props(made, {"lumberjack.guarantee": released.guarantee.to_json()})
    return made


def onnx_inputs(model: Fitted, X: Any) -> dict[str, NDArray[Any]]:
    """Turn a table, shape (n_rows, n_columns), into the inputs of the ONNX model.

    Text is passed as it is. A missing value of a text column becomes the empty text (or ``<missing>``
    where the domain has the empty text as a category); an empty text in the table, and a value that is
    no text, become an unknown one.

    Examples
    --------
    >>> import numpy as np
    >>> from lumberjack import LumberjackRegressor
    >>> from lumberjack.export import onnx_inputs
    >>> X = np.random.default_rng(0).uniform(0, 1, (2000, 1))
    >>> model = LumberjackRegressor(domain={"a": (0, 1)}, y_bounds=(0, 1)).fit(X, X[:, 0])
    >>> {name: (column.dtype.str, column.shape) for name, column in onnx_inputs(model, X).items()}
    {'a': ('<f8', (2000, 1))}
    """
    released, out = released_by(model), {}
    for (name, column), kind in zip(columns_in_order(released, X), released.domain.known, strict=True):
        if isinstance(kind, Number):
            values: Any = kind.read(name, column)
        else:
            values = _category_inputs(kind, column)
        out[name] = values.reshape(-1, 1)
    return out


def _category_inputs(kind: Categorical, column: Column) -> NDArray[Any]:
    text, unknown = _is_text(kind), _unknown(kind)
    absent: Any = _missing_text(kind) if text else math.nan
    allowed = str if text else (int, float, np.number)

    def one(value: Any) -> Any:
        if value is None or value != value:
            return absent
        # A table may hold the very text that stands for missing values: then it is an unknown one.
        return value if isinstance(value, allowed) and value != absent else unknown

    values = [one(value) for value in column.items()]
    return np.array(values, dtype=object if text else np.float64)


def _import_onnx() -> tuple[Any, Any]:
    try:
        import onnx
    except ImportError:
        raise ImportError("exporting to ONNX needs onnx: install the extra 'onnx'") from None
    return onnx.helper, onnx.TensorProto


class _Graph:
    """Nodes and constants of a graph under construction; calling it adds a node and names its output."""

    def __init__(self, helper: Any, kinds: Any) -> None:
        self.helper, self.kinds = helper, kinds
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, op: str, *inputs: str, domain: str = "", out: str = "", **options: Any) -> str:
        out = out or f"{_INNER}{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(op, inputs, [out], domain=domain, **options))
        return out

    def constant(self, value: Any, kind: str = "DOUBLE") -> str:
        array = np.asarray(value)
        name = f"{_INNER}constant {len(self.constants)}"
        self.constants.append(self.tensor(array, kind, name))
        return name

    def tensor(self, array: NDArray[Any], kind: str, name: str = "tensor") -> Any:
        flat = [v.encode() if kind == "STRING" else v for v in array.ravel().tolist()]
        return self.helper.make_tensor(name, getattr(self.kinds, kind), array.shape, flat)


def _is_text(kind: Known) -> bool:
    return isinstance(kind, Categorical) and any(isinstance(c, str) for c in kind.categories)


def _missing_text(kind: Categorical) -> str:
    return next(t for t in _texts() if t not in kind.categories)


def _texts() -> Iterator[str]:
    yield ""
    text = "<missing>"
    while True:
        yield text
        text = f"<{text}>"


def _unknown(kind: Categorical) -> Any:
    """A value that is neither a category nor missing."""
    if _is_text(kind):
        taken = {*kind.categories, _missing_text(kind)}
        return next(t for t in _texts() if t not in taken)
    numbers = (math.inf, -math.inf, *range(len(kind.categories) + 1))
    return next(v for v in numbers if v not in kind.categories)


def _onnx_says(kind: Known) -> str:
    """The documentation of an input, in one line."""
    if isinstance(kind, Number):
        unit = "seconds since 1970 (UTC)" if kind.temporal else "a number"
        grid = kind.grid if isinstance(kind, Cuts) else kind
        low, high = several((grid.low, grid.high), grid.temporal)
        return f"{unit}{f' from {low} to {high}' if grid.is_bounded else ''}, NaN if missing"
    absent = repr(_missing_text(kind)) if _is_text(kind) else "NaN"
    return f"one of {len(kind.categories)} categories, {absent} if missing"


def _check_onnx_column(name: str, kind: Known) -> None:
    if name in ("", "label", "probabilities", "prediction") or name.startswith(_INNER):
        raise ValueError(f"column {name!r} has a name that ONNX or an output needs; rename it")
    if isinstance(kind, Number):
        return
    text = [isinstance(c, str) for c in kind.categories]
    if any(text) != all(text):
        raise ValueError(f"column {name!r} has text and numbers as categories; ONNX has one type")
    if not any(text) and any(float(c) != c or abs(c) >= _EXACT for c in kind.categories):
        raise ValueError(f"column {name!r} has categories that are not exact as 64-bit floats")


def _encode(graph: _Graph, name: str, kind: Known) -> str:
    if isinstance(kind, Number):
        return _encode_numbers(graph, name, kind)
    return _encode_categories(graph, name, kind)


def _encode_numbers(graph: _Graph, name: str, kind: Number) -> str:
    """The code of each number, as ``encode`` finds it; NaN where missing."""
    if isinstance(kind, Cuts):
        return _count_cuts(graph, name, kind)
    low, high, top = (graph.constant(v) for v in (kind.low, kind.high, CELLS - 1.0))
    width = graph.constant(kind.high - kind.low if kind.high > kind.low else 1.0)
    clipped = graph("Min", graph("Max", name, low), high)
    share = graph("Div", graph("Sub", clipped, low), width)
    cell = graph("Floor", graph("Min", graph("Mul", share, graph.constant(float(CELLS))), top))
    return graph("Where", graph("IsNaN", name), graph.constant(math.nan), cell)


def _count_cuts(graph: _Graph, name: str, kind: Cuts) -> str:
    """How many cuts are below each number; NaN where missing."""
    if kind.grid.is_bounded:
        place, edges = _encode_numbers(graph, name, kind.grid), [float(p) for p in kind.places]
    else:  # to 32 bits and back: the grid is that of all such numbers
        single = graph("Cast", name, to=graph.kinds.FLOAT)
        place, edges = graph("Cast", single, to=graph.kinds.DOUBLE), list(kind.edges)
    below = graph("GreaterOrEqual", place, graph.constant(np.array([edges]).reshape(1, -1)))
    counts = graph("Cast", below, to=graph.kinds.DOUBLE)
    code = graph("ReduceSum", counts, graph.constant([1], "INT64"), keepdims=1)
    return graph("Where", graph("IsNaN", name), graph.constant(math.nan), code)


def _encode_categories(graph: _Graph, name: str, kind: Categorical) -> str:
    """The number of each category, as ``Categorical.encode`` gives it; -1 for anything else."""
    text = _is_text(kind)
    absent = float(len(kind.categories)) if kind.missing else -1.0
    keys: list[Any] = [c if text else float(c) for c in kind.categories]
    codes = [float(code) for code in range(len(keys))]
    if text and kind.missing:
        keys.append(_missing_text(kind))
        codes.append(absent)
    if not keys:  # nothing but missing values
        keys, codes = [0.0], [-1.0]
    found = graph(
        "LabelEncoder",
        name,
        domain="ai.onnx.ml",
        keys_tensor=graph.tensor(np.array(keys), "STRING" if text else "DOUBLE"),
        values_tensor=graph.tensor(np.array(codes), "DOUBLE"),
        default_tensor=graph.tensor(np.array([-1.0]), "DOUBLE"),
    )
    if text:
        return found
    return graph("Where", graph("IsNaN", name), graph.constant(absent), found)


def _add_weights(graph: _Graph, codes: str, released: Released) -> str:
    """The weights of the leaves of each row, added up over trees, shape (n_rows, n_outputs)."""
    forest, (base, weights) = released.forest, released.votes
    # Trees of a single leaf are base values; an ensemble needs a tree, though.
    alone = [tree.n_leaves == 1 for tree in forest.trees]
    alone[0] &= not all(alone)
    base = base.copy()
    trees: list[_Tree] = []
    for tree, weight, single in zip(forest.trees, weights, alone, strict=True):
        if single:
            base += weight[0]
        else:  # one for each output: ONNX Runtime merges leaves whose first weights are the same
            trees += [_Tree(tree, w, output) for output, w in enumerate(weight.T)]
    start = graph.tensor(base, "DOUBLE")
    scores = _ensemble(graph, codes, trees, forest.categorical, base_values_as_tensor=start)
    return graph("Cast", scores, to=graph.kinds.DOUBLE)


def _pool(graph: _Graph, codes: str, released: Released) -> str:
    """What the leaves of each row say, added up tree by tree, shape (n_rows, n_values)."""
    # One output for each tree, its leaf's number: exact, as these are far below 2^24.
    trees = [_Tree(t, np.arange(t.n_leaves), i) for i, t in enumerate(released.forest.trees)]
    reached = _ensemble(graph, codes, trees, released.forest.categorical)
    leaves = graph("Cast", reached, to=graph.kinds.INT64)
    said = [
        graph(
            "Gather",
            graph.constant(says),
            graph("Gather", leaves, graph.constant(number, "INT64"), axis=1),
        )
        for number, says in enumerate(released.votes.leaves)
    ]
    total = said[0]
    for more in [*said[1:], graph.constant(released.votes.base)]:
        total = graph("Add", total, more)
    return total


class _Tree(NamedTuple):
    """A tree of an ensemble: its leaves add ``values``, shape (n_leaves,), to one output."""

    tree: Tree
    values: NDArray[Any]
    output: int


def _ensemble(
    graph: _Graph, codes: str, trees: Sequence[_Tree], categorical: NDArray[np.bool_], **options: Any
) -> str:
    """Sums over the leaves of each row, shape (n_rows, n_outputs)."""
    feature = np.concatenate([t.tree.feature for t in trees])
    leaf = feature == LEAF
    column = np.where(leaf, 0, feature)
    modes = np.where(leaf, "LEAF", np.where(categorical[column], "BRANCH_EQ", "BRANCH_LEQ"))
    tree_of = np.repeat(np.arange(len(trees)), [len(t.tree.feature) for t in trees])
    node = np.concatenate([np.arange(len(t.tree.feature)) for t in trees])
    left = np.concatenate([t.tree.left for t in trees]).astype(np.int64)
    numeric = ~leaf & ~categorical[column]
    values = np.concatenate([t.values[t.tree.left[t.tree.feature == LEAF]] for t in trees])
    outputs = np.array([t.output for t in trees])
    return graph(
        "TreeEnsembleRegressor",
        codes,
        domain="ai.onnx.ml",
        n_targets=int(outputs.max()) + 1,
        nodes_treeids=tree_of.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_featureids=column.tolist(),
        nodes_modes=modes.tolist(),
        nodes_values_as_tensor=graph.tensor(
            np.where(leaf, 0.0, np.concatenate([t.tree.cut for t in trees]).astype(float)), "DOUBLE"
        ),
        nodes_truenodeids=np.where(leaf, 0, left).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, left + 1).tolist(),
        nodes_missing_value_tracks_true=(
            numeric & np.concatenate([t.tree.missing_left for t in trees])
        ).astype(int).tolist(),
        target_treeids=tree_of[leaf].tolist(),
        target_nodeids=node[leaf].tolist(),
        target_ids=outputs[tree_of[leaf]].tolist(),
        target_weights_as_tensor=graph.tensor(values.astype(float), "DOUBLE"),
        **options,
    )  # fmt: skip


def _conclude(graph: _Graph, pooled: str, released: Released, class_weight: Any) -> list[Any]:
    """From the sum over trees to the outputs, as ``predict`` and ``predict_proba`` read it."""
    info = graph.helper.make_tensor_value_info
    if isinstance(released.target, Numbers):
        _decode(graph, pooled, released.target)
        return [info("prediction", graph.kinds.DOUBLE, ["rows"])]
    labels = released.classes.labels
    fits = released.guarantee.fits_leaves
    chances = _read_scores(graph, pooled, len(labels)) if fits else pooled
    weighted = graph("Mul", chances, graph.constant(released.class_weights(class_weight)))
    _normalise(graph, weighted, out="probabilities")
    first = graph("ArgMax", "probabilities", axis=1, keepdims=0)
    kind = {"U": "STRING", "i": "INT64", "u": "INT64", "b": "BOOL", "f": "DOUBLE"}
    type_ = kind[labels.dtype.kind if labels.dtype.kind != "O" else "U"]
    graph("Gather", graph.constant(labels, type_), first, out="label")
    return [
        info("label", getattr(graph.kinds, type_), ["rows"]),
        info("probabilities", graph.kinds.DOUBLE, ["rows", len(labels)]),
    ]


def _normalise(graph: _Graph, values: str, out: str = "") -> str:
    whole = graph("ReduceSum", values, graph.constant([1], "INT64"), keepdims=1)
    return graph("Div", values, whole, out=out)


def _read_scores(graph: _Graph, scores: str, n_classes: int) -> str:
    """Probabilities as ``Classes.read`` finds them from added weights, shape (n_rows, n_classes)."""
    if n_classes > 2:
        return graph("Softmax", scores, axis=1)
    if n_classes == 1:
        return graph("Exp", graph("Mul", scores, graph.constant(0.0)))
    return graph("Concat", _expit(graph, graph("Neg", scores)), _expit(graph, scores), axis=1)


def _expit(graph: _Graph, x: str) -> str:
    one = graph.constant(1.0)
    return graph("Div", one, graph("Add", one, graph("Exp", graph("Neg", x))))


def _decode(graph: _Graph, pooled: str, target: Numbers) -> None:
    """Targets as ``Numbers.read`` finds them, shape (n_rows,)."""
    constant = graph.constant
    places = graph("Gather", pooled, constant(0, "INT64"), axis=1)
    offset = graph("Mul", places, constant(target.half_width))
    value = graph("Add", offset, constant(target.centre))
    for low, high in [(target.low, target.high), *([target.limits] if target.limits else [])]:
        value = graph("Min", graph("Max", value, constant(low)), constant(high))
    graph("Identity", value, out="prediction")


def columns_in_order(released: Released, X: Any) -> list[tuple[str, Column]]:
    """Columns of a table in the order of the domain, as ``predict`` matches them."""
    names, columns = columns_of(read_table(X))
    if names is None:
        names = list(released.names)
    by_name = dict(zip(names, columns, strict=True))
    missing = sorted(set(released.domain.names) - set(by_name))
    if missing:
        raise ValueError(f"X lacks columns of the domain: {', '.join(missing)}")
    return [(name, by_name[name]) for name in released.domain.names]
