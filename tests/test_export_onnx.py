"""Models as ONNX graphs, run by ONNX Runtime."""

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


@pytest.fixture(scope="module")
def learned():
    frame, score = undeclared()
    model = LumberjackClassifier(8.0, n_estimators=7, domain=PARTLY).fit(frame, labels(score))
    kinds = [type(kind).__name__ for kind in model.domain_.kinds]
    assert (kinds.count("Cuts"), kinds.count("Categorical")) == (6, 3)
    return model, frame


def test_learned_columns_and_classes_in_onnx(learned):
    """Cuts inside and without a range, dates, booleans, learned categories, gaps and infinities."""
    assert_same_in_onnx(*learned)
    frame, score = undeclared()
    model = LumberjackRegressor(8.0, n_estimators=5, max_depth=40).fit(frame, score)
    (said,) = run(model, frame)
    np.testing.assert_allclose(said, model.predict(frame), rtol=1e-12)


def test_values_that_a_fit_never_saw_in_onnx(learned):
    model, frame = learned
    rare = frame.head(6).assign(
        city=["Rom", "", None, "Köln", "köln", "city 1"],
        income=[np.nan, np.inf, -np.inf, 3.4028236e38, -1e39, 0.0],
        member=[None, True, False, None, True, False],
        huge=[np.nan, 1e-46, -1e-46, 1.0, 2.0**24, 2.0**24 + 1],
    )
    assert_same_in_onnx(model, rare)


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
    model = classifier(splits="random").fit(frame, labels(score))
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


@pytest.mark.parametrize("which", ["fitted", "learned"])
def test_any_library_and_order_of_columns(which, request):
    model, frame = request.getfixturevalue(which)
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
