"""scikit-learn's own checks, and the tools around estimators."""

import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import parametrize_with_checks

from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import make_toy

# The checks train on a few dozen rows and ask for good scores: with a budget at which privacy means
# anything, a forest on so few rows is a stump, as it should be.
GENEROUS = {"epsilon": 1e5, "delta": 0.1, "max_depth": 20}

BY_NAME = "columns are matched by name, so another order of the same columns is accepted"
EXPECTED = {"check_dataframe_column_names_consistency": BY_NAME}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [LumberjackClassifier(**GENEROUS), LumberjackRegressor(**GENEROUS)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def toy():
    return make_toy(4000)


def private(domain, **kwargs):
    return LumberjackClassifier(epsilon=4.0, n_estimators=5, domain=domain, classes=[0, 1, 2], **kwargs)


def test_clone_and_parameters(toy):
    X, y, domain = toy
    model = private(domain)
    before = dict(model.get_params())
    fitted = model.fit(X, y)
    assert fitted is model
    assert model.get_params() == before
    assert all(model.get_params()[k] is v for k, v in before.items())
    assert not hasattr(clone(model), "forest_")
    assert clone(model).domain is not None


def test_pipeline_grid_search_and_cross_validation(toy):
    X, y, domain = toy
    scores = cross_val_score(private(domain), X, y, cv=3)
    assert scores.min() > 0.8
    search = GridSearchCV(private(domain), {"epsilon": [0.001, 4.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"epsilon": 4.0}
    pruned = private(domain, leaf="counts")
    search = GridSearchCV(pruned, {"max_depth": [1, 50]}, cv=2).fit(X, y)
    assert search.best_params_ == {"max_depth": 50}
    scaled = {"x": (-5.0, 5.0), "y": (-5.0, 5.0)}
    pipe = make_pipeline(make_column_transformer((StandardScaler(), [0, 1])), private(scaled))
    assert pipe.fit(X, y).score(X, y) > 0.8


def test_pickle_joblib_and_html(toy, tmp_path):
    X, y, domain = toy
    model = private(domain).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    joblib.dump(model, tmp_path / "model.joblib")
    assert np.array_equal(joblib.load(tmp_path / "model.joblib").predict(X), model.predict(X))
    assert "LumberjackClassifier" in estimator_html_repr(model)


def test_public_parameters_warn_of_nothing(toy):
    X, y, domain = toy
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private(domain).fit(X, y)
        LumberjackRegressor(domain=domain, y_bounds=(0, 2)).fit(X, y)
