"""Exports, read by the programs they are for: ONNX Runtime, SHAP, Graphviz's language."""

import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from every_kind import DOMAIN, classifier, labels, table, undeclared

from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import make_toy
from lumberjack.export import (
    shap_by_column,
    shap_inputs,
    to_graphviz,
    to_shap,
    to_text,
)


@pytest.fixture(scope="module")
def fitted():
    frame, score = table()
    return classifier().fit(frame, labels(score)), frame


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


@pytest.fixture(scope="module")
def learned():
    frame, score = undeclared()
    return LumberjackClassifier(8.0, n_estimators=7).fit(frame, labels(score)), frame


def test_explanations_of_learned_columns_add_up(learned):
    """Numbers are in their own units, infinite and missing ones included."""
    model, frame = learned
    frame = frame.head(80)
    explained, base = explain(model, frame, "counts")
    counts = sum(v[k] for v, k in zip(model.forest_.values, model.apply(frame).T, strict=True))
    np.testing.assert_allclose(base + explained.sum(axis=1), counts, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["fitted", "learned"])
def test_shap_reads_the_units_of_the_column(kind, request):
    """Each row follows the thresholds to the leaf of ``apply``: a walk in plain Python."""
    model, frame = request.getfixturevalue(kind)
    frame = frame.head(300)
    inputs, described = shap_inputs(model, frame), to_shap(model)["trees"]
    ages = np.clip(frame["age"], 0, 100) if kind == "fitted" else frame["age"]
    np.testing.assert_allclose(inputs[:, 0], ages, rtol=1e-6, atol=1e-6)
    leaves = model.apply(frame)
    for t, tree in enumerate(model.forest_.trees):
        of = described[t]
        for row, leaf in zip(inputs, leaves[:, t], strict=True):
            node = 0
            while of["children_left"][node] >= 0:
                value = row[of["features"][node]]
                way = "left" if value <= of["thresholds"][node] else "right"
                node = of[f"children_{'default' if np.isnan(value) else way}"][node]
            assert tree.left[node] == leaf


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
        read = pd.Timestamp if isinstance(seen, pd.Timestamp) else float
        if sign in ("=", "!="):
            true = (seen == value) == (sign == "=")
        elif seen is None or seen != seen:
            true = missing
        else:
            true = (seen < read(value)) == (sign == "<")
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


def test_a_reader_of_learned_cuts_reaches_the_same_leaf():
    """Dates are dates, and large whole numbers are there in full."""
    rng, n = np.random.default_rng(0), 4000
    frame = pd.DataFrame(
        {
            "since": pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(0, 7e8, n), "s"),
            "number": 8_000_000 + rng.integers(0, 999_999, n),
            "share": rng.random(n),
            "kind": rng.choice(["u", "v", "w"], n),
        }
    )
    y = (frame["number"] > 8_500_000) ^ (frame["since"] > pd.Timestamp("2010-01-01"))
    model = LumberjackClassifier(8.0, n_estimators=1).fit(frame, y)
    leaves = model.apply(frame.head(200))[:, 0]
    for (_, row), leaf in zip(frame.head(200).iterrows(), leaves, strict=True):
        no, yes = model.forest_.values[0][leaf]
        assert follow(model, row) == f"False: {no:.0f}, True: {yes:.0f}"
    text = to_text(model) + to_graphviz(model)
    assert re.search(r"number < 8\d{6}\b", text)
    assert re.search(r"since >= 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", text)
    assert "e+0" not in text


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
