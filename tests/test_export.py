"""Exports, read by the programs they are for: ONNX Runtime, SHAP, Graphviz's language."""

import copy
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
from lumberjack.kinds import Cuts, Numeric


@pytest.fixture(scope="module")
def pruned():
    frame, score = table()
    return classifier(leaf="counts").fit(frame, labels(score)), frame


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
def test_explanations_add_up_to_the_pooled_counts(pruned, leaf):
    model, frame = pruned
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
def test_explanations_add_up_to_what_pruned_trees_predict(pruned, kind):
    """Probabilities, or numbers in the target's units."""
    model, frame = pruned
    if kind == "regressor":
        model = LumberjackRegressor(8.0, domain=DOMAIN, y_bounds=(-1, 5), splits="random")
        model.fit(*table())
    frame = frame.head(60)
    explained, base = explain(model, frame)
    expected = model.predict(frame) if kind == "regressor" else model.predict_proba(frame)
    said = (base + explained.sum(axis=1)).reshape(expected.shape)
    np.testing.assert_allclose(said, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_explanations_add_up_to_log_odds_and_log_chances(n_classes):
    """Declared and learned columns, with gaps, unknown and infinite values: read off predict_proba."""
    declared, score = table()
    for frame, domain in ((declared, DOMAIN), (undeclared()[0], None)):
        y = np.minimum(np.digitize(score, [1.0, 2.0]), n_classes - 1)
        model = LumberjackClassifier(8.0, n_estimators=5, domain=domain).fit(frame, y)
        few = frame.head(80)
        explained, base = explain(model, few)
        log_chances = np.log(model.predict_proba(few))
        if n_classes == 2:
            expected = log_chances[:, 1] - log_chances[:, 0]
            np.testing.assert_allclose(base + explained.sum(axis=1), expected, rtol=1e-5, atol=1e-5)
        else:
            scores = base + explained.sum(axis=1)
            scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
            np.testing.assert_allclose(scores, log_chances, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(shap_by_column(model, explained), explained)


@pytest.mark.parametrize("y_bounds", [None, (0.5, 2.5)])
def test_explanations_of_a_regressor_add_up_to_its_predictions(y_bounds):
    """In units of the target, and before predictions are clipped."""
    frame, score = undeclared()
    model = LumberjackRegressor(8.0, n_estimators=5, y_bounds=y_bounds).fit(frame, 100 + score)
    explained, base = explain(model, frame.head(300))
    said, expected = base + explained.sum(axis=1), model.predict(frame.head(300))
    np.testing.assert_allclose(np.clip(said, *(y_bounds or (-np.inf, np.inf))), expected, rtol=1e-6)


def test_each_column_of_an_additive_model_explains_itself():
    """Without pairs, the explanation is the column's weight minus its mean over released sizes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=4000), "c": rng.choice(list("uvwx"), 4000)})
    y = (frame["a"] > 0) ^ (rng.random(4000) < 0.2)
    model = LumberjackClassifier(8.0, n_estimators=1).fit(frame, y)
    base, *columns = model.forest_.values
    assert len(columns) == 2
    explained, expected = explain(model, frame.head(100))
    leaves, total = model.apply(frame.head(100)), base[0, 1]
    for j, values in enumerate(columns):
        mean = np.average(values[:, 1], weights=values[:, 0])
        np.testing.assert_allclose(explained[:, j], values[leaves[:, j + 1], 1] - mean, atol=1e-6)
        total += mean
    np.testing.assert_allclose(expected, total, atol=1e-6)


def test_fitted_leaves_have_no_counts(fitted):
    with pytest.raises(ValueError, match=r'pruned trees \(leaf="counts"\)'):
        to_shap(fitted[0], "counts")


def test_ranks_need_one_order_of_categories(fitted):
    model = copy.deepcopy(fitted[0])
    tree = model.forest_.trees[1 + DOMAIN.names.index("ward")]
    tree.cut[:] = tree.cut[0]
    with pytest.raises(ValueError, match="different orders"):
        to_shap(model)


@pytest.fixture(scope="module")
def learned():
    frame, score = undeclared()
    return LumberjackClassifier(8.0, n_estimators=7, leaf="counts").fit(frame, labels(score)), frame


def test_explanations_of_learned_columns_add_up(learned):
    """Numbers are in their own units, infinite and missing ones included."""
    model, frame = learned
    frame = frame.head(80)
    explained, base = explain(model, frame, "counts")
    counts = sum(v[k] for v, k in zip(model.forest_.values, model.apply(frame).T, strict=True))
    np.testing.assert_allclose(base + explained.sum(axis=1), counts, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["fitted", "pruned", "learned"])
def test_shap_reads_the_units_of_the_column(kind, request):
    """Each row follows the thresholds to the leaf of ``apply``: a walk in plain Python."""
    model, frame = request.getfixturevalue(kind)
    frame = frame.head(300)
    inputs, described = shap_inputs(model, frame), to_shap(model)["trees"]
    ages = frame["age"] if kind == "learned" else np.clip(frame["age"], 0, 100)
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


def test_weights_of_nodes_come_from_released_counts(pruned):
    """The base value is the mean over rows as far as released counts tell: by hand, leaf by leaf."""
    model, frame = pruned
    _, base = explain(model, frame.head(1), "counts")
    by_hand = 0
    for values in model.forest_.values:
        rows = np.maximum(values.sum(axis=1), 1)
        by_hand = by_hand + (values * rows[:, None]).sum(axis=0) / rows.sum()
    np.testing.assert_allclose(base, by_hand, rtol=1e-9)


# Text and Graphviz


def follow(model, row, tree=0):
    """The leaf that a reader of the text reaches, with nothing but the text."""
    lines, depth, i = to_text(model, tree).splitlines(), 0, 0
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
    model = LumberjackClassifier(8.0, n_estimators=1, domain=domain, leaf="counts").fit(frame, y)
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
    model = LumberjackClassifier(8.0, n_estimators=1, leaf="counts").fit(frame, y)
    leaves = model.apply(frame.head(200))[:, 0]
    for (_, row), leaf in zip(frame.head(200).iterrows(), leaves, strict=True):
        no, yes = model.forest_.values[0][leaf]
        assert follow(model, row) == f"False: {no:.0f}, True: {yes:.0f}"
    text = to_text(model) + to_graphviz(model)
    assert re.search(r"number < 8\d{6}\b", text)
    assert re.search(r"since >= 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", text)
    assert "e+0" not in text


@pytest.mark.parametrize("target", ["classes", "numbers"])
def test_a_reader_of_fitted_trees_reaches_the_same_leaf(target):
    """Base, columns and the pair: weights, in units of the target, and expected sizes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 1, 4000), "b": rng.choice(["u", "v", "w"], 4000)})
    frame.loc[::5, "a"] = np.nan
    y = (frame["a"] > 0.5) | (frame["b"] == "v")
    if target == "classes":
        model, unit, digits = LumberjackClassifier(8.0).fit(frame, y), 1.0, ".2f"
    else:
        model = LumberjackRegressor(8.0).fit(frame, 1000 * y + rng.normal(size=4000))
        unit, digits = (model.targets_.high - model.targets_.low) / 2, ".6g"
    few = frame.head(100)
    leaves = model.apply(few)
    assert leaves.shape[1] == 4
    for tree, values in enumerate(model.forest_.values):
        for (_, row), leaf in zip(few.iterrows(), leaves[:, tree], strict=True):
            size, weight = values[leaf]
            assert follow(model, row, tree) == f"{unit * weight:+{digits}} for about {size:.0f} rows"
            assert f"{unit * weight:+{digits}} for about" in to_graphviz(model, tree)


def test_a_column_without_cuts_says_number_or_missing():
    frame = pd.DataFrame({"a": np.full(3000, 2.0)})
    frame.loc[::3, "a"] = np.nan
    model = LumberjackClassifier(8.0, domain={"a": Cuts(Numeric())}).fit(frame, frame["a"].isna())
    lines = to_text(model, 1).splitlines()
    assert [line.strip("|- ") for line in lines[::2]] == ["a is a number", "a is missing"]
    assert "a is a number" in to_graphviz(model, 1)
    below, above = (float(line.split("-- ")[1].split()[0]) for line in lines[1::2])
    assert below < 0 < above
    explained, base = explain(model, frame.head(3))
    first, second = np.log(model.predict_proba(frame.head(3))).T
    np.testing.assert_allclose(base + explained[:, 0], second - first)


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize(("leaf", "number"), [("counts", 0), ("fitted", 1), ("fitted", -1)])
def test_graphviz_can_be_read(leaf, number):
    X, y, domain = make_toy(2000)
    settings = {"domain": domain, "classes": [0, 1, 2], "leaf": leaf, "n_estimators": 2}
    model = LumberjackClassifier(4.0, **settings).fit(X, y)
    number %= len(model.forest_.trees)
    program, text = shutil.which("dot"), to_graphviz(model, number)
    n_nodes = len(model.forest_.trees[number].feature)
    if program:
        drawn = subprocess.run(
            [program, "-Tsvg"], input=text, capture_output=True, text=True, check=True
        )
        assert drawn.stdout.count('class="node"') == n_nodes
    pydot = pytest.importorskip("pydot", reason="needs pydot")
    (graph,) = pydot.graph_from_dot_data(text)
    assert len([n for n in graph.get_nodes() if n.get_name() != "node"]) == n_nodes
    assert len(graph.get_edges()) == n_nodes - 1


def test_names_neither_break_lines_nor_quotes():
    X = np.array([['"a"\n\x1b[31m'], ["b\\"]] * 500, dtype=object)
    domain = {'na"me\n': ['"a"\n\x1b[31m', "b\\"]}
    model = LumberjackClassifier(
        8.0, n_estimators=1, domain=domain, classes=["x\n", "y"], leaf="counts"
    ).fit(X, ["x\n", "y"] * 500)
    text = to_text(model)
    assert text.isascii()
    assert "\x1b" not in text
    tree = model.forest_.trees[0]
    assert len(text.splitlines()) == len(tree.feature) - 1 + tree.n_leaves
    pydot = pytest.importorskip("pydot", reason="needs pydot")
    (graph,) = pydot.graph_from_dot_data(to_graphviz(model))
    assert len(graph.get_edges()) == len(tree.feature) - 1


def test_numbers_of_missing_trees_are_refused(fitted):
    model, _ = fitted
    last = len(model.forest_.trees) - 1
    with pytest.raises(ValueError, match=f"tree must be between 0 and {last}, got {last + 1}"):
        to_text(model, last + 1)


def test_deeper_levels_are_left_out(pruned):
    model, _ = pruned
    assert to_text(model, 0, max_depth=0) == "|-- ..."
