"""Real tables, where the data is: set LUMBERJACK_DATA, or keep the shared folder beside the project."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import fetch_acs, fetch_adult, fetch_california_housing, make_toy

BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def data(monkeypatch):
    folder = os.environ.get("LUMBERJACK_DATA") or str(BESIDE)
    if not Path(folder, "adult.parquet").is_file():
        pytest.skip("no data: set LUMBERJACK_DATA to the folder with adult.parquet and the other files")
    monkeypatch.setenv("LUMBERJACK_DATA", folder)


@pytest.mark.filterwarnings("ignore::lumberjack.datasets.SampleWarning")
@pytest.mark.parametrize(
    ("fetch", "shape"),
    [
        (fetch_adult, (48_842, 14)),
        (lambda: fetch_acs("income", "CA"), (89_958, 10)),
        (lambda: fetch_acs("income", "US"), (332_900, 10)),
        (lambda: fetch_acs("public_coverage", "CA"), (55_422, 19)),
        (lambda: fetch_acs("employment", "MA"), (70_131, 16)),
        (lambda: fetch_acs("employment", "MA", range(2015, 2019)), (277_677, 16)),
        (fetch_california_housing, (20_640, 9)),
    ],
)
def test_hand_written_domains_cover_the_data(fetch, shape):
    X, y, domain = fetch()
    assert X.shape == shape
    assert len(y) == shape[0]
    for name in domain:
        kind, values = domain[name], X[name].dropna()
        if hasattr(kind, "low"):
            assert kind.low <= values.min()
            assert values.max() <= kind.high or (name, values.max()) == ("median_income", 15.0001)
        else:
            assert set(values.unique()) <= set(kind.categories)


def test_adult_is_learned_and_the_joint_accounting_ranks_better_than_the_papers():
    X, y, domain = fetch_adult()
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.1, stratify=y, random_state=0)
    settings = {"domain": domain, "classes": ["<=50K", ">50K"], "n_jobs": 2}
    joint = LumberjackClassifier(1.0, **settings).fit(train, y_train)
    paper = LumberjackClassifier.paper(1.0, **settings).fit(train, y_train)
    aucs = [roc_auc_score(y_test == ">50K", m.predict_proba(test)[:, 1]) for m in (joint, paper)]
    assert aucs[0] > 0.88
    assert aucs[0] > aucs[1] > 0.84
    assert joint.score(test, y_test) > 0.82 < paper.score(test, y_test)


def moved(X, change):
    """The table with all its numbers changed."""
    return X.assign(**{name: change(X[name].astype(float)) for name in X.select_dtypes("number")})


def test_scores_do_not_depend_on_ranges_or_monotone_transforms():
    """AUC of two fits each, whose standard deviation is near 0.001."""
    X, y, domain = fetch_adult()
    test = np.random.default_rng(0).random(len(X)) < 0.2

    def auc(X, **declared):
        fits = [LumberjackClassifier(4.0, **declared).fit(X[~test], y[~test]) for _ in range(2)]
        return np.mean([roc_auc_score(y[test] == ">50K", m.predict_proba(X[test])[:, 1]) for m in fits])

    def widen(kind):
        more = 499.5 * (kind.high - kind.low)
        return kind.low - more, kind.high + more

    wide = {
        name: widen(domain[name]) if hasattr(domain[name], "low") else domain[name] for name in domain
    }
    learned = auc(X)
    assert learned == pytest.approx(auc(X, domain=domain, classes=["<=50K", ">50K"]), abs=0.01)
    assert learned == pytest.approx(auc(X, domain=wide), abs=0.01)
    for change in (
        lambda c: 2000 + 10 * (c - c.min()) / (c.max() - c.min()),
        lambda c: c * 1e6,
        lambda c: np.exp(c / c.std()),
    ):
        assert learned == pytest.approx(auc(moved(X, change)), abs=0.01)


def test_several_classes_on_real_data():
    X, _, domain = fetch_adult()
    kinds = [k for k in domain.names if k != "relationship"]
    reduced = {name: domain[name] for name in kinds}
    model = LumberjackClassifier(
        1.0, domain=reduced, classes=domain["relationship"].categories, n_jobs=2
    )
    train, test, y_train, y_test = train_test_split(
        X[kinds], X["relationship"], test_size=0.2, random_state=0
    )
    model.fit(train, y_train)
    assert model.classes_.tolist() == sorted(domain["relationship"].categories)
    assert model.score(test, y_test) > 0.6  # the most frequent class has 0.40


def test_regression_on_real_data():
    X, y, domain = fetch_california_housing()
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.1, random_state=0)
    model = LumberjackRegressor(1.0, domain=domain, y_bounds=(0, 500_001), n_jobs=2).fit(train, y_train)
    assert model.score(test, y_test) > 0.35


@pytest.mark.parametrize("scale", [1, 10, 1000])
def test_the_toy_example_of_the_paper(scale):
    X, y, domain = make_toy(scale=scale)
    model = LumberjackClassifier.paper(2.0, n_estimators=25, domain=domain, classes=[0, 1, 2], n_jobs=2)
    assert model.fit(X, y).score(X, y) > 0.93
    assert np.mean(model.predict(X)[y == 2] == 2) > 0.9
