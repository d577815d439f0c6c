"""Exports, read by the programs they are for: ONNX Runtime, SHAP, Graphviz's language."""

import datetime as dt
import json
import math
import shutil
import subprocess

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor, PrivacyLeakWarning
from lumberjack.datasets import make_toy
from lumberjack.export import (
    onnx_inputs,
    shap_by_column,
    shap_inputs,
    to_graphviz,
    to_onnx,
    to_shap,
    to_text,
)

DOMAIN = Domain(
    {
        "age": (0, 100),
        "income": (-1e6, 1e6),
        "constant": (3, 3),
        "city": Domain.categorical([f"city {i}" for i in range(80)] + ["Köln"], missing=True),
        "ward": ["A", "B", "C", ""],
        "code": Domain.categorical([3, 7, 11, 2.5, -1, 2**40], missing=True),
        "digit": list(range(10)),
        "member": [False, True],
        "seen": (dt.date(2020, 1, 1), dt.date(2026, 1, 1)),
    }
)


def table(n=6000, seed=0):
    """Every kind of column, with missing, unknown and out-of-range values, and values on the grid."""
    rng = np.random.default_rng(seed)
    age = rng.integers(-10, 120, n) + rng.choice([0, 0.5, 1e-13, -1e-13], n)
    days = rng.integers(-100, 2400, n)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "income": rng.choice([math.inf, -math.inf, 0.0, np.nan, 5e5, -3.25], n),
            "constant": rng.normal(3, 1, n),
            "city": rng.choice(np.array([*DOMAIN["city"].categories, "Atlantis", "", None], object), n),
            "ward": rng.choice(np.array(["A", "B", "C", "", "?", None, 5], object), n),
            "code": rng.choice([3, 7, 11, 2.5, -1, 2**40, 4, 0, np.nan, math.inf], n),
            "digit": rng.integers(-2, 14, n),
            "member": rng.choice(np.array([True, False, None], object), n),
            "seen": [None if d % 17 == 0 else dt.date(2020, 1, 1) + dt.timedelta(int(d)) for d in days],
        }
    )
    score = np.nan_to_num(frame["age"]) / 50 + (frame["ward"] == "A") + (frame["digit"] > 4)
    return frame, score.to_numpy() + rng.normal(0, 0.3, n)


def classifier(**kw):
    given = {"n_estimators": 7, "classes": ["x", "y", "z"], "domain": DOMAIN, **kw}
    return LumberjackClassifier(epsilon=8.0, **given)


def labels(score):
    return np.array(["x", "y", "z"])[np.digitize(score, [1.0, 2.0])]


@pytest.fixture(scope="module")
def fitted():
    frame, score = table()
    return classifier().fit(frame, labels(score)), frame


def run(model, X, made=None):
    ort = pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
    onnx = pytest.importorskip("onnx")
    made = to_onnx(model) if made is None else made
    onnx.checker.check_model(made, full_check=True)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, onnx_inputs(model, X))


def assert_same_in_onnx(model, X):
    said, probabilities = run(model, X)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-12)
    assert said.tolist() == model.predict(X).tolist()


# ONNX


@pytest.mark.parametrize(
    "kw",
    [
        {},
        {"leaf": "majority"},
        {"leaf": "majority", "class_weight": {"x": 3.0, "z": 0.0}},
        {"class_weight": "balanced", "n_estimators": 1},
        {"splits": "random", "class_weight": {"y": 2.0}},
        {"epsilon": 0.01},  # roots that are leaves
    ],
    ids=str,
)
def test_onnx_runtime_gives_the_same_class_for_every_row(kw):
    frame, score = table()
    model = clone(classifier()).set_params(**kw).fit(frame, labels(score))
    assert_same_in_onnx(model, frame)


def test_onnx_runtime_agrees_on_the_papers_forests():
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    X, y, domain = make_toy(3000)
    with pytest.warns(PrivacyLeakWarning, match="seeded"):
        model = LumberjackClassifier.paper(
            2.0, domain=domain, classes=[0, 1, 2], random_state=0, n_estimators=5
        ).fit(X, y)
    with pytest.raises(ValueError, match="allow_seeded"):
        to_onnx(model)
    said, _ = run(model, X, to_onnx(model, allow_seeded=True))
    assert said.tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("classes", [[True, False], [10, -3], [0.5, 1.5], ["ja", "nein ß"]], ids=str)
def test_labels_keep_their_type_in_onnx(classes):
    X, y, domain = make_toy(2000)
    y = np.array(classes, dtype=object)[(y > 0).astype(int)]
    assert_same_in_onnx(LumberjackClassifier(4.0, domain=domain, classes=classes).fit(X, y.tolist()), X)


def test_onnx_runtime_gives_the_same_regression():
    frame, score = table()
    for epsilon in (8.0, 0.01):
        model = LumberjackRegressor(epsilon=epsilon, domain=DOMAIN, y_bounds=(-1, 5)).fit(frame, score)
        (said,) = run(model, frame)
        np.testing.assert_allclose(said, model.predict(frame), rtol=1e-12)


def test_cells_are_the_same_around_every_cut(fitted):
    """Values right at a cut and next to it, where one rounding more would send a row elsewhere."""
    model, frame = fitted
    low, high = -1e6, 1e6
    rows = []
    for tree in model.forest_.trees:
        cuts = tree.cut[tree.feature == DOMAIN.names.index("income")].astype(float)
        edge = low + (cuts + 1) / 2**31 * (high - low)
        rows += [edge, np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf), edge + 1e-9]
    income = np.concatenate(rows)
    assert len(income) > 100
    near = frame.sample(len(income), replace=True, random_state=0).assign(income=income)
    assert_same_in_onnx(model, near)


def test_any_library_and_order_of_columns(fitted):
    model, frame = fitted
    expected = model.predict(frame).tolist()
    simple = frame.drop(columns=["ward"]).assign(ward=[w if w != 5 else "?" for w in frame["ward"]])
    assert run(model, pl.DataFrame(simple))[0].tolist() == expected
    assert run(model, frame.to_numpy(dtype=object))[0].tolist() == expected


def test_the_guarantee_travels_with_the_graph(fitted):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    model, _ = fitted
    properties = {p.key: p.value for p in to_onnx(model).metadata_props}
    assert json.loads(properties["lumberjack.guarantee"]) == json.loads(model.guarantee_.to_json())


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ({"label": (0, 1)}, "column 'label' has a name that"),
        ({"c": ["a", 1]}, "column 'c' has text and numbers"),
        ({"c": [1, 2**60, 3]}, "column 'c' has categories that are not exact"),
    ],
)
def test_what_onnx_cannot_hold_is_refused(domain, message):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    X = np.ones((50, 1))
    model = LumberjackClassifier(domain=domain, classes=[0, 1]).fit(X, [0, 1] * 25)
    with pytest.raises(ValueError, match=message):
        to_onnx(model)


# SHAP


def explain(model, X, values="votes"):
    shap = pytest.importorskip("shap", reason="needs the extra 'explain'")
    explainer = shap.TreeExplainer(to_shap(model, values))
    inputs = shap_inputs(model, X)
    return np.asarray(explainer.shap_values(inputs)), np.asarray(explainer.expected_value)


@pytest.mark.parametrize("leaf", ["counts", "majority"])
def test_explanations_add_up_to_the_pooled_counts(fitted, leaf):
    model, frame = fitted
    frame = frame.head(60)
    if leaf == "majority":
        whole, score = table()
        model = classifier(leaf="majority").fit(whole, labels(score))
    explained, base = explain(model, frame, "counts")
    counts = sum(v[k] for v, k in zip(model.forest_.values, model.apply(frame).T, strict=True))
    np.testing.assert_allclose(base + explained.sum(axis=1), counts, rtol=1e-6, atol=1e-6)
    by_column = shap_by_column(model, explained)
    assert by_column.shape == (60, len(DOMAIN), 3)
    np.testing.assert_allclose(base + by_column.sum(axis=1), counts, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_explanations_add_up_to_what_predictions_are_made_from(fitted, kind):
    model, frame = fitted
    if kind == "regressor":
        model = LumberjackRegressor(epsilon=8.0, domain=DOMAIN, y_bounds=(-1, 5)).fit(*table())
    frame = frame.head(60)
    explained, base = explain(model, frame)
    released = model.released_
    pooled = released.forest.pool(released.say(), released.encode(frame))
    np.testing.assert_allclose((base + explained.sum(axis=1)).reshape(pooled.shape), pooled, rtol=1e-6)


def test_weights_of_nodes_come_from_released_counts(fitted):
    """The base value is the mean over rows as far as released counts tell: by hand, leaf by leaf."""
    model, frame = fitted
    _, base = explain(model, frame.head(1), "counts")
    by_hand = 0
    for values in model.forest_.values:
        rows = np.maximum(values.sum(axis=1), 1)
        by_hand = by_hand + (values * rows[:, None]).sum(axis=0) / rows.sum()
    np.testing.assert_allclose(base, by_hand, rtol=1e-9)


# Text and Graphviz


def follow(model, row):
    """The leaf that a reader of the text reaches, with nothing but the text."""
    lines, depth, i = to_text(model).splitlines(), 0, 0
    while True:
        text = lines[i].replace("|   ", "").removeprefix("|-- ")
        if not any(sign in text for sign in (" < ", " >= ", " = ", " != ")):
            return text
        name, sign, value = text.split(" ", 2)
        missing = value.endswith(" or missing")
        value = value.removesuffix(" or missing")
        seen = row[name]
        if sign in ("=", "!="):
            true = (seen == value) == (sign == "=")
        elif seen is None or seen != seen:
            true = missing
        else:
            true = (seen < float(value)) == (sign == "<")
        if true:
            depth, i = depth + 1, i + 1
        else:
            i = next(j for j in range(i + 1, len(lines)) if lines[j].count("|   ") == depth)


def test_a_reader_of_the_text_reaches_the_same_leaf():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 1, 4000), "b": rng.choice(["u", "v", "w"], 4000)})
    frame.loc[::5, "a"] = np.nan
    y = (frame["a"] > 0.5) | (frame["b"] == "v")
    domain = {"a": (0, 1), "b": ["u", "v", "w"]}
    model = LumberjackClassifier(8.0, n_estimators=1, domain=domain, classes=[False, True]).fit(frame, y)
    leaves = model.apply(frame.head(200))[:, 0]
    for (_, row), leaf in zip(frame.head(200).iterrows(), leaves, strict=True):
        no, yes = model.forest_.values[0][leaf]
        assert follow(model, row) == f"False: {no:.0f}, True: {yes:.0f}"


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_graphviz_can_be_read():
    X, y, domain = make_toy(2000)
    model = LumberjackClassifier(4.0, n_estimators=1, domain=domain, classes=[0, 1, 2]).fit(X, y)
    program, text = shutil.which("dot"), to_graphviz(model)
    if program:
        drawn = subprocess.run(
            [program, "-Tsvg"], input=text, capture_output=True, text=True, check=True
        )
        assert drawn.stdout.count('class="node"') == len(model.forest_.trees[0].feature)
    pydot = pytest.importorskip("pydot", reason="needs pydot")
    (graph,) = pydot.graph_from_dot_data(text)
    n_nodes = len(model.forest_.trees[0].feature)
    assert len([n for n in graph.get_nodes() if n.get_name() != "node"]) == n_nodes
    assert len(graph.get_edges()) == n_nodes - 1


def test_names_neither_break_lines_nor_quotes():
    X = np.array([['"a"\n\x1b[31m'], ["b\\"]] * 500, dtype=object)
    domain = {'na"me\n': ['"a"\n\x1b[31m', "b\\"]}
    model = LumberjackClassifier(8.0, n_estimators=1, domain=domain, classes=["x\n", "y"]).fit(
        X, ["x\n", "y"] * 500
    )
    text = to_text(model)
    assert text.isascii()
    assert "\x1b" not in text
    tree = model.forest_.trees[0]
    assert len(text.splitlines()) == len(tree.feature) - 1 + tree.n_leaves
    pydot = pytest.importorskip("pydot", reason="needs pydot")
    (graph,) = pydot.graph_from_dot_data(to_graphviz(model))
    assert len(graph.get_edges()) == len(tree.feature) - 1


def test_only_trees_that_exist(fitted):
    model, _ = fitted
    with pytest.raises(ValueError, match="tree must be between 0 and 6, got 7"):
        to_text(model, 7)
    assert to_text(model, 0, max_depth=0) == "|-- ..."
