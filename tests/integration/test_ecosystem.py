"""A model inside other libraries: pipelines, skops, mlflow."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
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


def test_skops_keeps_a_model_and_its_guarantee(patients):
    sio = pytest.importorskip("skops.io", reason="needs skops")
    frame, back = patients
    X, y, domain = make_toy(2000)
    regressor = LumberjackRegressor(4.0, domain=domain, y_bounds=(0, 2)).fit(X, y)
    for model, table in [(classifier().fit(frame, back), frame), (regressor, X)]:
        stored = sio.dumps(model)
        foreign = sio.get_untrusted_types(data=stored)
        assert all(name.startswith("lumberjack.") for name in foreign)
        again = sio.loads(stored, trusted=foreign)
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        assert again.guarantee_ == model.guarantee_
        assert again.guarantee_.verify() <= model.guarantee_.delta


@pytest.mark.parametrize("kind", ["skops", "cloudpickle"])
def test_mlflow_keeps_a_model_and_its_guarantee(patients, tmp_path, kind):
    mlflow = pytest.importorskip("mlflow.sklearn", reason="needs mlflow, which no extra installs")
    frame, back = patients
    model = classifier().fit(frame, back)
    trusted = [
        "lumberjack.domain.Categorical",
        "lumberjack.domain.Domain",
        "lumberjack.domain.Numeric",
        "lumberjack.forest.LumberjackClassifier",
        "lumberjack.guarantee.Guarantee",
        "lumberjack.tree.Forest",
        "lumberjack.tree.Tree",
    ]
    more = {"skops_trusted_types": trusted} if kind == "skops" else {}
    mlflow.save_model(model, tmp_path / "model", serialization_format=kind, **more)
    again = mlflow.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.guarantee_ == model.guarantee_
