"""Models as ONNX graphs, run by ONNX Runtime."""

import json

import numpy as np
import polars as pl
import pytest
from every_kind import DOMAIN, classifier, labels, table
from sklearn.base import clone

from lumberjack import LumberjackClassifier, LumberjackRegressor, PrivacyLeakWarning
from lumberjack.datasets import make_toy
from lumberjack.export import onnx_inputs, to_onnx


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
