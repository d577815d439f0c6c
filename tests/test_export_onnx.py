"""Models as ONNX graphs, run by ONNX Runtime."""

import copy
import dataclasses
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from every_kind import DOMAIN, PARTLY, classifier, labels, table, undeclared
from sklearn.base import clone

from lumberjack import LumberjackClassifier, LumberjackRegressor, PrivacyLeakWarning
from lumberjack.datasets import make_toy
from lumberjack.export import onnx_inputs, to_onnx
from lumberjack.kinds import Cuts, Numeric


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


@pytest.mark.parametrize(
    "kw",
    [
        {},
        {"class_weight": {"x": 3.0, "z": 0.0}, "n_estimators": 1},
        {"epsilon": 0.01},
        {"leaf": "counts"},
        {"leaf": "majority"},
        {"leaf": "majority", "class_weight": {"x": 3.0, "z": 0.0}},
        {"leaf": "counts", "class_weight": "balanced", "n_estimators": 1},
        {"leaf": "counts", "splits": "random", "class_weight": {"y": 2.0}},
        {"leaf": "counts", "epsilon": 0.01},  # roots that are leaves
    ],
    ids=str,
)
def test_onnx_runtime_gives_the_same_class_for_every_row(kw):
    frame, score = table()
    model = clone(classifier()).set_params(**kw).fit(frame, labels(score))
    assert_same_in_onnx(model, frame)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("leaf", ["fitted", "counts"])
def test_two_and_four_learned_classes_in_onnx(n_classes, leaf):
    """Numbers, text, booleans and dates, of which nothing is declared; then values never seen."""
    frame, score = undeclared()
    y = np.array(["p", "q", "r", "s"])[np.digitize(score, [1.0, 1.5, 2.0][: n_classes - 1])]
    model = LumberjackClassifier(8.0, n_estimators=5, leaf=leaf).fit(frame, y)
    assert len(model.classes_) == n_classes
    rows = pd.concat([frame, unseen(frame)])
    assert len(set(model.predict(rows))) == n_classes
    assert_same_in_onnx(model, rows)


def test_a_single_class_in_onnx():
    frame, _ = undeclared()
    model = LumberjackClassifier(8.0, n_estimators=2).fit(frame, ["alone"] * len(frame))
    assert_same_in_onnx(model, frame)


@pytest.mark.parametrize(("classes", "n_outputs"), [([0, 1], 1), ([0, 1, 2, 3], 4)])
def test_fitted_leaves_are_one_ordinary_ensemble(classes, n_outputs):
    """Its scores, read by hand: expit or softmax gives the probabilities of the model."""
    onnx = pytest.importorskip("onnx")
    frame, score = undeclared()
    y = np.digitize(score, [1.0, 1.5, 2.0][: len(classes) - 1])
    model = LumberjackClassifier(8.0, n_estimators=3, classes=classes).fit(frame, y)
    made = to_onnx(model)
    (trees,) = (node for node in made.graph.node if node.op_type == "TreeEnsembleRegressor")
    options = {a.name: onnx.helper.get_attribute_value(a) for a in trees.attribute}
    assert options["n_targets"] == n_outputs
    base = onnx.numpy_helper.to_array(options["base_values_as_tensor"])
    assert base.tolist() == model.forest_.values[0][0, 1:].tolist()  # of the tree that all rows share
    assert len(set(options["nodes_treeids"])) == n_outputs * (len(model.forest_.trees) - 1)
    scores = onnx.helper.make_tensor_value_info(
        trees.output[0], onnx.TensorProto.FLOAT, ["rows", n_outputs]
    )
    made.graph.output.append(scores)
    *_, scores = run(model, frame, made)
    if n_outputs == 1:
        chances = 1 / (1 + np.exp(-scores.astype(float) @ [[-1.0, 1.0]]))
    else:
        chances = np.exp(scores.astype(float))
        chances /= chances.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chances, model.predict_proba(frame), rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [["x", "y"], ["x", "y", "z"]])
def test_a_base_alone_in_onnx(classes):
    frame, score = table(500)
    model = copy.copy(classifier(classes=classes).fit(frame, [classes[int(s > 1)] for s in score]))
    trees, values = model.forest_.trees[:1], model.forest_.values[:1]
    forest = dataclasses.replace(model.forest_, trees=trees, values=values)
    model.released_ = dataclasses.replace(model.released_, forest=forest)
    assert_same_in_onnx(model, frame)


def test_leaves_that_share_some_of_their_weights_stay_apart():
    """ONNX Runtime merges categories next to each other whose leaves start with the same weight."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": rng.choice(list("abcdef"), 3000)})
    model = classifier(domain={"c": list("abcdef")}).fit(frame, rng.choice(list("xyz"), 3000))
    (leaves,) = (v for v in model.forest_.values if len(v) > 1)
    leaves[:, 1] = 0.5
    leaves[:, 2:] = np.arange(len(leaves))[:, None] * [0.25, -0.5]
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


@pytest.mark.parametrize("epsilon", [8.0, 0.01])
@pytest.mark.parametrize(
    "kw",
    [{}, {"y_bounds": (-1, 5)}, {"y_bounds": (1, 2)}, {"y_bounds": (-1, 5), "splits": "random"}],
    ids=str,
)
def test_onnx_runtime_gives_the_same_regression(kw, epsilon):
    frame, score = table()
    model = LumberjackRegressor(epsilon=epsilon, domain=DOMAIN, n_estimators=5, **kw).fit(frame, score)
    (said,) = run(model, frame)
    np.testing.assert_allclose(said, model.predict(frame), rtol=1e-12)
    if kw.get("y_bounds") == (1, 2) and epsilon == 8:
        assert {1.0, 2.0} <= set(said.tolist())  # clipped on both sides


@pytest.fixture(scope="module", params=["fitted", "counts"])
def learned(request):
    frame, score = undeclared()
    model = LumberjackClassifier(8.0, n_estimators=7, domain=PARTLY, leaf=request.param)
    model.fit(frame, labels(score))
    kinds = [type(kind).__name__ for kind in model.domain_.kinds]
    assert (kinds.count("Cuts"), kinds.count("Categorical")) == (6, 3)
    return model, frame


def test_learned_columns_and_classes_in_onnx(learned):
    """Cuts inside and without a range, dates, booleans, learned categories, gaps and infinities."""
    assert_same_in_onnx(*learned)


@pytest.mark.parametrize("y_bounds", [None, (0, 3)])
@pytest.mark.parametrize("splits", ["guided", "random"])
def test_regression_on_learned_columns_in_onnx(y_bounds, splits):
    frame, score = undeclared()
    model = LumberjackRegressor(8.0, n_estimators=5, splits=splits, y_bounds=y_bounds).fit(frame, score)
    rows = pd.concat([frame, unseen(frame)])
    (said,) = run(model, rows)
    np.testing.assert_allclose(said, model.predict(rows), rtol=1e-12)


def test_values_that_a_fit_never_saw_in_onnx(learned):
    model, frame = learned
    assert_same_in_onnx(model, unseen(frame))


def unseen(frame):
    """Rows with unknown categories, and numbers at and beyond the ends of what floats hold."""
    return frame.head(6).assign(
        city=["Rom", "", None, "Köln", "köln", "city 1"],
        income=[np.nan, np.inf, -np.inf, 3.4028236e38, -1e39, 0.0],
        member=[None, True, False, None, True, False],
        huge=[np.nan, 1e-46, -1e-46, 1.0, 2.0**24, 2.0**24 + 1],
    )


@pytest.mark.parametrize("name", ["age", "income", "digit", "huge", "code"])
def test_codes_are_the_same_around_every_cut(learned, name):
    """Values right at a cut and next to it, where one rounding more would send a row elsewhere."""
    model, frame = learned
    edges = np.array(model.domain_[name].edges)
    assert len(edges) > 20
    with np.errstate(over="ignore"):
        single = edges.astype(np.float32)
        near = [edges, single, np.nextafter(single, -np.inf), np.nextafter(single, np.inf)]
        near += [np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), edges + 1e-9]
        near += [(a.astype(float) + edges) / 2 for a in near[2:4]]  # halfway: ties of the rounding
    values = np.concatenate([part.astype(float) for part in near])
    assert_same_in_onnx(model, rows_of(frame, len(values)).assign(**{name: values}))


def rows_of(frame, n):
    return frame.sample(n, replace=True, random_state=0).reset_index(drop=True)


def test_cells_are_the_same_around_every_cut():
    """Random splits of a declared range, which has no cuts."""
    frame, score = table()
    model = classifier(splits="random", leaf="counts").fit(frame, labels(score))
    low, high = -1e6, 1e6
    rows = []
    for tree in model.forest_.trees:
        cuts = tree.cut[tree.feature == DOMAIN.names.index("income")].astype(float)
        edge = low + (cuts + 1) / 2**31 * (high - low)
        rows += [edge, np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf), edge + 1e-9]
    income = np.concatenate(rows)
    assert len(income) > 100
    assert_same_in_onnx(model, rows_of(frame, len(income)).assign(income=income))


def test_a_column_without_cuts_in_onnx():
    kinds = {"a": Cuts(Numeric()), "b": Cuts(Numeric(), (2**31 + 7,)), "c": ["u", "v"]}
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(0, 1, 2000), "b": rng.normal(0, 1, 2000), "c": "u"})
    model = LumberjackClassifier(8.0, n_estimators=2, domain=kinds, classes=[0, 1])
    assert_same_in_onnx(model.fit(frame, (frame["b"] > 0).astype(int)), frame)


def test_any_library_and_order_of_columns_of_a_domain(fitted):
    assert_same_in_any_library(*fitted)


def test_any_library_and_order_of_learned_columns(learned):
    assert_same_in_any_library(*learned)


def assert_same_in_any_library(model, frame):
    expected = model.predict(frame).tolist()
    simple = frame.drop(columns=["ward"]).assign(ward=[w if w != 5 else "?" for w in frame["ward"]])
    assert run(model, pl.DataFrame(simple))[0].tolist() == expected
    assert run(model, pa.Table.from_pandas(simple))[0].tolist() == expected
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
