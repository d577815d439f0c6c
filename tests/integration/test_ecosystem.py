"""A model inside other libraries: pipelines, searches, joblib, skops, mlflow."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import make_toy

DOMAIN = {"age": (18, 95), "ward": ["A", "B", "C"]}


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 95, 4000), "ward": rng.choice(["A", "B", "C"], 4000)})
    return frame, ((frame["age"] > 70) ^ (frame["ward"] == "B")).to_numpy()


def classifier():
    return LumberjackClassifier(epsilon=4.0, domain=DOMAIN, classes=[False, True])


@pytest.fixture(scope="module")
def undeclared():
    """Numbers, text, booleans and dates, with gaps, of which nothing is declared."""
    rng, n = np.random.default_rng(1), 4000
    frame = pd.DataFrame(
        {
            "pay": np.where(rng.random(n) < 0.1, np.nan, np.exp(rng.normal(8, 2, n))),
            "ward": rng.choice(
                np.array(["north", "south", None, f"room {rng.integers(99)}"], object), n
            ),
            "member": rng.random(n) < 0.5,
            "since": pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
        }
    )
    known = np.where((frame["pay"] > 3000) ^ (frame["ward"] == "south"), "much", "little")
    return frame, known


def learner(**kw):
    return LumberjackClassifier(8.0, n_estimators=5, **kw)


def test_a_pipeline_whose_other_steps_learn_nothing(patients):
    frame, back = patients
    older = frame.assign(age=frame["age"] + 1000)
    steps = make_column_transformer(
        (FunctionTransformer(lambda f: f - 1000, feature_names_out="one-to-one"), ["age"]),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(steps, classifier()).fit(older, back)
    assert pipeline.score(older, back) > 0.85
    assert pipeline[-1].guarantee_.caveats == ()


def test_skops_keeps_a_model_and_its_guarantee(patients, undeclared):
    sio = pytest.importorskip("skops.io", reason="needs skops")
    frame, back = patients
    X, y, domain = make_toy(2000)
    regressor = LumberjackRegressor(4.0, domain=domain, y_bounds=(0, 2)).fit(X, y)
    learned = learner().fit(*undeclared)
    both = [(classifier().fit(frame, back), frame), (regressor, X), (learned, undeclared[0])]
    for model, table in both:
        stored = sio.dumps(model)
        foreign = sio.get_untrusted_types(data=stored)
        assert all(name.startswith("lumberjack.") for name in foreign)
        again = sio.loads(stored, trusted=foreign)
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        assert again.guarantee_ == model.guarantee_
        assert again.guarantee_.verify() <= model.guarantee_.delta


@pytest.mark.parametrize(
    ("leaf", "tried"),
    [("counts", {"splits": ["random", "guided"]}), ("fitted", {"n_estimators": [1, 3]})],
)
def test_a_search_over_a_pipeline_of_a_raw_frame(undeclared, leaf, tried):
    """Folds learn columns of their own; labels and columns are those of the frame, and nothing warns."""
    frame, known = undeclared
    steps = FunctionTransformer(lambda f: f.drop(columns="since")), learner(leaf=leaf)
    grid = {f"lumberjackclassifier__{name}": values for name, values in tried.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = GridSearchCV(make_pipeline(*steps), grid, cv=2).fit(frame, known)
    best = search.best_estimator_[-1]
    assert search.best_score_ > 0.8
    assert best.guarantee_.caveats == ()
    assert best.classes_.tolist() == ["little", "much"]
    assert best.feature_names_in_.tolist() == ["pay", "ward", "member"]
    assert clone(best).domain is None


def test_pickle_and_joblib_keep_what_was_learned(undeclared, tmp_path):
    frame, known = undeclared
    regressor = LumberjackRegressor(8.0, n_estimators=5).fit(frame.drop(columns="pay"), frame["pay"] > 0)
    for model in (learner().fit(frame, known), regressor):
        X = frame[model.feature_names_in_]
        joblib.dump(model, tmp_path / "model")
        for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model")):
            np.testing.assert_array_equal(again.predict(X), model.predict(X))
            assert again.domain_ == model.domain_
            assert again.guarantee_ == model.guarantee_


@pytest.mark.parametrize("kind", ["skops", "cloudpickle"])
def test_mlflow_keeps_a_model_and_its_guarantee(patients, tmp_path, kind):
    mlflow = pytest.importorskip("mlflow.sklearn", reason="needs mlflow, which no extra installs")
    frame, back = patients
    model = classifier().fit(frame, back)
    sio = pytest.importorskip("skops.io", reason="needs skops")
    trusted = sio.get_untrusted_types(data=sio.dumps(model))
    more = {"skops_trusted_types": trusted} if kind == "skops" else {}
    mlflow.save_model(model, tmp_path / "model", serialization_format=kind, **more)
    again = mlflow.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.guarantee_ == model.guarantee_
