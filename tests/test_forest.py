"""The estimators: what they accept, what they release, and what they promise."""

import dataclasses
import datetime as dt
import io
import itertools
import math
import pickle
import pickletools
import types
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from promises import changed
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lumberjack import (
    Domain,
    Guarantee,
    LumberjackClassifier,
    LumberjackRegressor,
    PrivacyLeakWarning,
    plan,
)
from lumberjack.datasets import make_toy
from lumberjack.guarantee import (
    BOUNDS_INFERRED,
    CLASSES_INFERRED,
    DOMAIN_INFERRED,
    NOT_PROVED,
    SEEDED,
    SUM_BOUND,
)
from lumberjack.inputs import read_people
from lumberjack.kinds import Categorical, Cuts
from lumberjack.noise import Bits
from lumberjack.report import describe
from lumberjack.targets import Numbers

DOMAIN = Domain({"age": (0, 100), "city": ["Bonn", "Kiel", "Trier"], "member": [False, True]})
ignore_leaks = pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")


def classifier(**kwargs):
    settings = {"epsilon": 4.0, "n_estimators": 8, "domain": DOMAIN, "classes": ["no", "yes"]}
    return LumberjackClassifier(**{**settings, **kwargs})


def seeded_classifier(**kwargs):
    return classifier(random_state=0, **kwargs)


def pruned(**kwargs):
    """Trees pruned by heavy hitters, with counts in their leaves."""
    return classifier(**{"leaf": "counts", **kwargs})


# What goes in


def test_frames_of_every_library_as_they_are(table):
    frame, y = table()
    expected = None
    for X in (
        frame,
        frame.astype({"city": "category", "member": "boolean"}),
        pl.DataFrame(frame),
        pa.table(frame),
        frame[["member", "age", "city"]],
        frame.to_numpy(dtype=object),
    ):
        with pytest.warns(PrivacyLeakWarning, match="seeded"):
            model = seeded_classifier().fit(X, y)
        probabilities = model.predict_proba(X)
        expected = probabilities if expected is None else expected
        np.testing.assert_array_equal(probabilities, expected)
    assert np.mean(model.predict(frame.to_numpy(dtype=object)) == y) > 0.9


def test_missing_and_unknown_values_are_neither_lost_nor_fatal(table):
    frame, y = table()
    frame.loc[::7, "age"] = np.nan
    frame.loc[::11, "city"] = None
    frame.loc[::13, "city"] = "Atlantis"
    model = classifier().fit(frame, y)
    proba = model.predict_proba(frame)
    assert np.isfinite(proba).all()
    odd = pd.DataFrame(
        {"age": [-5.0, 1e9, math.inf], "city": ["?", None, "Kiel"], "member": [None, True, False]}
    )
    assert np.isfinite(model.predict_proba(odd)).all()


def test_targets_may_be_strings_numbers_or_booleans_in_any_library(table):
    frame, y = table(2000)
    for target, classes in [
        (y, ["yes", "no"]),
        (pl.Series(y.tolist()), ["yes", "no"]),
        (pd.Series(y, dtype="category"), ["yes", "no"]),
        (y == "yes", [True, False]),
        ((y == "yes") * 5, [5, 0]),
        ((y == "yes") * 1.0, [0, 1]),
    ]:
        model = classifier(classes=classes).fit(frame, target)
        assert model.classes_.tolist() == sorted(classes)
        assert set(model.predict(frame).tolist()) <= set(classes)


def test_a_class_that_never_occurs_is_known_all_the_same(table):
    frame, y = table(2000)
    model = classifier(classes=["maybe", "no", "yes"]).fit(frame, y)
    assert model.predict_proba(frame).shape == (2000, 3)
    assert model.predict_proba(frame)[:, 0].mean() < 0.1


# What is refused, before noise is drawn


class Untouchable:
    def __getattr__(self, name):
        raise AssertionError("data was read")

    def __array__(self, *args, **kwargs):
        raise AssertionError("data was read")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, "epsilon must be positive, got 0"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be a number, got NaN"),
        ({"delta": 1.0}, ValueError, r"delta must lie in \(0, 1\), got 1"),
        ({"n_estimators": 0}, ValueError, "n_estimators must be at least 1, got 0"),
        ({"max_depth": 1.5}, TypeError, "max_depth must be a whole number"),
        ({"leaf": "counts", "threshold": 2}, ValueError, "threshold must be at least"),
        (
            {"leaf": "counts", "structure_share": 1},
            ValueError,
            "structure_share must lie strictly between",
        ),
        ({"threshold": 300}, ValueError, "threshold is for trees that are pruned; leave it out"),
        ({"structure_share": 0.5}, ValueError, "structure_share is for trees that are pruned"),
        ({"splits": "random"}, ValueError, 'splits="random" needs pruned trees, .*leaf="counts"'),
        (
            {"splits": "random", "accounting": "paper"},
            ValueError,
            'fitted leaves need accounting="joint": .*leaf="counts" or paper',
        ),
        ({"feature_weights": [1, 2, 3]}, ValueError, "fitted leaves do not have: leave them out"),
        ({"accounting": "paper"}, ValueError, 'splits="guided" needs accounting="joint"'),
        ({"splits": "magic"}, ValueError, "splits must be 'guided' or 'random', got 'magic'"),
        (
            {"leaf": "mean"},
            ValueError,
            "leaf must be one of .*, got 'mean'",
        ),
        ({"leaf": "exponential"}, ValueError, 'needs accounting="paper"'),
        ({"accounting": "magic"}, ValueError, "accounting must be one of"),
        ({"class_weight": "heavy"}, ValueError, "class_weight must be None, 'balanced' or a dict"),
        ({"class_weight": {"no": -1}}, ValueError, "class_weight must hold numbers"),
        ({"domain": 3}, TypeError, "domain must be a Domain, a dict or None, got int"),
        ({"rows_per_person": 0}, ValueError, "rows_per_person must be at least 1"),
        (
            {"rows_per_person": 2, "leaf": "counts", "splits": "random", "accounting": "paper"},
            ValueError,
            'needs accounting="joint"',
        ),
        ({"random_state": "x"}, ValueError, "seed"),
        ({"classes": []}, ValueError, "classes must be all strings or all numbers"),
        ({"classes": [0, "1"]}, ValueError, "classes must be all strings or all numbers"),
        ({"classes": [0, None]}, ValueError, "classes must be all strings or all numbers"),
        ({"classes": "ab"}, ValueError, "classes must be a sequence of labels"),
        ({"class_weight": {"no": 0, "yes": 0, "maybe": 1}}, ValueError, "0 for all classes"),
        ({"class_weight": {"no": 0, "yes": 0}}, ValueError, "must not all be 0"),
        ({"class_weight": {"no": 1e308, "yes": 1e308}}, ValueError, "which is at most 1e100"),
        ({"class_weight": {"no": 10**400}}, ValueError, "class_weight must hold numbers"),
        ({"class_weight": {"No": 2.0}}, ValueError, r"not in classes: \['No'\]"),
        ({"domain": {"a": [1, 2]}}, ValueError, "a range or two categories"),
        ({"feature_weights": [-1.0]}, ValueError, "feature_weights must hold numbers of at least 0"),
        ({"n_jobs": "many"}, TypeError, "n_jobs must be a number"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
    ],
)
def test_bad_parameters_are_refused_before_data_is_touched(change, error, message):
    with pytest.raises(error, match=message):
        classifier(**change).fit(Untouchable(), Untouchable())


@pytest.mark.parametrize("bounds", [(1, 0), (0, math.inf), (0,), "ab", "05", (0, 0), (-1e308, 1e308)])
def test_bad_bounds_are_refused_before_data_is_touched(bounds):
    with pytest.raises(ValueError, match="y_bounds must be"):
        LumberjackRegressor(y_bounds=bounds).fit(Untouchable(), Untouchable())


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda X, y: (X.drop(columns="age"), y), ValueError, "lacks columns of the domain: age"),
        (lambda X, y: (X.assign(age="secret"), y), TypeError, "column 'age' must hold numbers"),
        (lambda X, y: (X, np.where(np.arange(len(y)) == 3, "secret", y)), ValueError, "not in classes"),
        (lambda X, y: (X, pd.Series(y).where(np.arange(len(y)) > 3)), ValueError, "y contains NaN"),
        (lambda X, y: (X, y[:-1]), ValueError, "different numbers of rows"),
        (lambda X, y: (X, None), ValueError, "requires y to be passed"),
        (lambda X, y: (X.iloc[:0], y[:0]), ValueError, "at least one row"),
        (lambda X, y: (X["age"].to_numpy(), y), ValueError, "Reshape your data"),
        (lambda X, y: (X, np.column_stack([y, y])), ValueError, "y should be a 1d array"),
        (
            lambda X, y: (X, pd.Series(y, dtype="string").where(X["age"] > 1)),
            ValueError,
            "y contains NaN",
        ),
    ],
)
def test_errors_about_the_schema_name_no_value_row_or_count(table, spoil, error, message):
    X, y = spoil(*table(777))
    with pytest.raises(error, match=message) as caught:
        classifier().fit(X, y)
    for secret in ("secret", "777", "776"):
        assert secret not in str(caught.value)


def test_y_may_miss_in_a_frame_with_numbers_for_names():
    with pytest.raises(ValueError, match="y names no column of X, whose columns are 0, 1"):
        classifier().fit(pd.DataFrame({0: [1.0], 1: [2.0]}), "who")


def test_sample_weight_is_refused_with_an_explanation(table):
    frame, y = table(500)
    with pytest.raises(TypeError, match=r"sample_weight is not supported: .* class_weight"):
        classifier().fit(frame, y, sample_weight=np.ones(500))
    with pytest.raises(TypeError, match="unexpected arguments: magic"):
        classifier().fit(frame, y, magic=1)


def test_prediction_needs_a_fit_and_the_same_columns(table):
    frame, y = table(500)
    with pytest.raises(NotFittedError):
        classifier().predict(frame)
    with pytest.raises(NotFittedError):
        classifier().predict_proba(frame)
    model = classifier().fit(frame, y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="2 features, but LumberjackClassifier is expecting 3"):
        model.predict(frame[["age", "city"]].to_numpy(dtype=object))


# Decided cases


def test_a_light_root_is_the_one_leaf(table):
    frame, y = table(50)
    model = pruned(epsilon=0.1).fit(frame, y)
    assert [tree.n_leaves for tree in model.forest_.trees] == [1] * 8
    assert np.all(model.apply(frame) == 0)
    assert len(np.unique(model.predict_proba(frame), axis=0)) == 1


def test_a_domain_with_nothing_left_to_split_stops():
    X = pd.DataFrame({"flag": [True, False] * 20000})
    model = LumberjackClassifier(4.0, domain={"flag": [False, True]}, classes=[0, 1]).fit(
        X, [1, 0] * 20000
    )
    assert max(tree.n_leaves for tree in model.forest_.trees) <= 3
    assert model.score(X, [1, 0] * 20000) == 1.0


def test_domain_is_stored_as_given_and_may_be_a_dict(table):
    given = {"age": (0, 100), "city": ["Bonn", "Kiel", "Trier"], "member": [False, True]}
    frame, y = table(500)
    model = classifier(domain=given).fit(frame, y)
    assert model.domain is given
    assert model.domain_["city"] == DOMAIN["city"]
    assert model.domain_["age"].grid == DOMAIN["age"]  # its cuts are learned
    assert clone(model).domain == given


def test_inference_is_a_caveat_for_each_thing_inferred(table):
    frame, y = table(500)
    with pytest.warns(PrivacyLeakWarning) as warned:
        model = LumberjackClassifier.paper(1.0, random_state=0).fit(frame, y)
    assert set(model.guarantee_.caveats) == {DOMAIN_INFERRED, CLASSES_INFERRED, NOT_PROVED, SEEDED}
    assert len([w for w in warned if w.category is PrivacyLeakWarning]) == 3


def test_nothing_declared_is_no_caveat(table, recwarn):
    frame, y = table(5000)
    model = LumberjackClassifier(epsilon=4.0).fit(frame, y)
    assert model.guarantee_.caveats == ()
    assert [w for w in recwarn if w.category is PrivacyLeakWarning] == []
    assert model.guarantee_ == plan(4.0, columns=(1, 2))
    assert model.score(frame, y) > 0.6
    regressor = LumberjackRegressor(domain=DOMAIN).fit(frame, frame["age"])
    assert regressor.guarantee_.caveats == ()
    assert regressor.guarantee_ == plan(1.0, leaf="fitted-mean", columns=(1, 0))
    paper = LumberjackRegressor(domain=DOMAIN, accounting="paper", splits="random")
    with pytest.warns(PrivacyLeakWarning, match="y_bounds"):
        assert BOUNDS_INFERRED in paper.fit(frame, frame["age"]).guarantee_.caveats
    assert classifier().fit(frame, y).guarantee_.caveats == ()
    assert pruned(splits="random", accounting="paper").fit(frame, y).guarantee_.caveats == (NOT_PROVED,)


def test_types_that_name_all_values_need_no_caveat():
    X = pl.DataFrame(
        {"flag": [True, False] * 300, "level": pl.Series(["lo"] * 600, dtype=pl.Enum(["lo", "hi"]))}
    )
    model = LumberjackClassifier(classes=[0, 1]).fit(X, [0, 1] * 300)
    assert model.guarantee_.caveats == ()


@pytest.mark.parametrize("value", [3.5e38, -1e300])
def test_targets_beyond_any_scale_are_refused_before_noise(monkeypatch, value):
    X, y = pd.DataFrame({"a": np.arange(400.0)}), np.append(np.arange(399.0), value)
    monkeypatch.setattr(Bits, "words", lambda *_: pytest.fail("noise was drawn"))
    with pytest.raises(ValueError, match=r"beyond 3\.4e38, .* rescale y or give y_bounds") as caught:
        LumberjackRegressor(2.0).fit(X, y)
    assert str(value) not in str(caught.value)


def test_a_target_of_the_largest_floats_is_learned():
    y = np.repeat([-1, 1], 3000) * float(np.finfo(np.float32).max)
    model = LumberjackRegressor(4.0, n_estimators=2).fit(pd.DataFrame({"a": y > 0}), y)
    assert model.targets_.high > 0
    assert LumberjackRegressor(4.0, n_estimators=2, y_bounds=(0, 1)).fit(y[:, None], y * 1e9)


def test_too_few_rows_for_a_scale_are_warned_of():
    """At epsilon = 1 the quantile's exponent is about .05: e^4 need some 800 rows."""
    rng = np.random.default_rng(0)
    X = rng.random((8000, 2))
    y = 1e5 * (1 + X[:, 0])
    with pytest.warns(UserWarning, match="too few rows to find the scale of y.* give y_bounds"):
        model = LumberjackRegressor(1.0).fit(X[:200], y[:200])
    assert model.released_.scale_is_doubtful
    for rows, settings in ((8000, {}), (200, {"y_bounds": (1e5, 2e5)})):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "too few rows to find")
            LumberjackRegressor(1.0, **settings).fit(X[:rows], y[:rows])


def test_columns_without_released_categories_are_named():
    n = 3000
    days = pd.Series(pd.date_range("1990-01-01", periods=n)).dt.strftime("%Y-%m-%d")
    X = pd.DataFrame({"seen": days, "city": ["Bonn", "Kiel"] * (n // 2)})
    with pytest.warns(UserWarning, match=r"no category of 'seen' was .*\(temporal=True\)") as caught:
        model = LumberjackClassifier(4.0, n_estimators=3).fit(X, X["city"] == "Kiel")
    assert len(caught) == 1
    said = "seen  no category was frequent enough to be released, only missing or not, learned"
    assert said in model.privacy_report()
    assert model.domain_["city"].categories == ("Bonn", "Kiel")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        domain = {"seen": Domain.numeric(temporal=True)}
        LumberjackClassifier(4.0, n_estimators=3, domain=domain).fit(X, X["city"] == "Kiel")


def test_paper_settings(table):
    model = LumberjackClassifier.paper(2.0, domain=DOMAIN)
    assert model.get_params() == {
        **LumberjackClassifier().get_params(),
        "epsilon": 2.0,
        "domain": DOMAIN,
        "n_estimators": 30,
        "splits": "random",
        "leaf": "exponential",
        "accounting": "paper",
        "structure_share": 0.75,
    }
    frame, y = table()
    fitted = LumberjackClassifier.paper(8.0, domain=DOMAIN, classes=["no", "yes"]).fit(frame, y)
    assert fitted.score(frame, y) > 0.9
    assert fitted.guarantee_.theorem == NOT_PROVED


@pytest.mark.parametrize("leaf", ["fitted", "counts", "majority"])
def test_leaf_kinds_and_proper_probabilities(table, leaf):
    frame, y = table()
    model = classifier(leaf=leaf).fit(frame, y)
    proba = model.predict_proba(frame)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(model.predict(frame), model.classes_[proba.argmax(axis=1)])
    assert model.score(frame, y) > 0.9


@pytest.mark.parametrize("leaf", ["fitted", "counts"])
def test_class_weight_moves_votes_and_costs_nothing(leaf):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(0, 1, 8000)})
    y = (rng.random(8000) < 0.05 + 0.1 * (X["x"] > 0.5)).astype(int)
    settings = {"epsilon": 4.0, "domain": {"x": (0, 1)}, "classes": [0, 1], "leaf": leaf}
    plain = LumberjackClassifier(**settings).fit(X, y)
    balanced = LumberjackClassifier(**settings, class_weight="balanced").fit(X, y)
    heavy = LumberjackClassifier(**settings, class_weight={1: 100.0}).fit(X, y)
    assert plain.predict(X).sum() == 0
    assert 0.3 < balanced.predict(X).mean() < 0.7
    assert heavy.predict(X).all()
    assert balanced.guarantee_ == plain.guarantee_


def test_feature_weights_are_public_chances(table):
    frame, y = table()
    model = pruned(feature_weights={"city": 0.0, "member": 0.0}).fit(frame, y)
    assert {int(f) for tree in model.forest_.trees for f in tree.feature} == {-1, 0}
    for bad in ({"town": 1.0}, [1.0], [0, 0, 0], [-1, 1, 1]):
        with pytest.raises(ValueError, match="feature_weights"):
            pruned(feature_weights=bad).fit(frame, y)
    open_city = pruned(domain={"age": (0, 90)}, feature_weights={"city": 0.0, "member": 0.0})
    assert {int(f) for tree in open_city.fit(frame, y).forest_.trees for f in tree.feature} == {-1, 0}


@pytest.mark.parametrize(("splits", "leaf"), [("guided", "fitted-mean"), ("random", "mean")])
def test_regression(table, splits, leaf):
    frame, _ = table(10_000)
    y = frame["age"] + 30 * (frame["city"] == "Kiel")
    model = LumberjackRegressor(8.0, domain=DOMAIN, y_bounds=(0, 130), splits=splits).fit(frame, y)
    assert model.score(frame, y) > 0.9
    assert model.predict(frame).min() >= 0
    assert model.predict(frame).max() <= 130
    assert model.guarantee_.leaf == leaf
    assert 0.999e-6 < model.guarantee_.verify() <= 1e-6
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(frame, y.where(y > 5))


# One seed, one forest


@ignore_leaks
@pytest.mark.parametrize("kind", ["classifier", "pruned", "paper", "regressor"])
def test_one_seed_gives_one_forest(table, kind):
    frame, y = table(4000)
    if kind == "regressor":
        y = frame["age"].to_numpy()

    def fitted(X, y, n_jobs=None):
        if kind == "regressor":
            model = LumberjackRegressor(
                4.0, domain=DOMAIN, y_bounds=(0, 100), random_state=5, n_jobs=n_jobs
            )
        elif kind == "paper":
            model = LumberjackClassifier.paper(
                4.0, domain=DOMAIN, classes=["no", "yes"], random_state=5, n_jobs=n_jobs
            )
        else:
            leaf = "fitted" if kind == "classifier" else "counts"
            model = classifier(random_state=5, n_jobs=n_jobs, leaf=leaf)
        return model.fit(X, y).predict(frame)

    one = fitted(frame, y)
    shuffle = np.random.default_rng(0).permutation(len(y))
    assert np.array_equal(one, fitted(frame, y, n_jobs=3))
    assert np.array_equal(one, fitted(frame.iloc[shuffle], y[shuffle]))


def test_without_a_seed_every_forest_is_new(table):
    frame, y = table(4000)
    first, second = (classifier().fit(frame, y) for _ in range(2))
    assert not np.array_equal(first.predict_proba(frame), second.predict_proba(frame))


# Persons


@ignore_leaks
def test_rows_per_person_are_enforced_at_random(table):
    frame, y = table(3000)
    people = np.repeat(np.arange(300), 10)
    model = pruned(rows_per_person=3, epsilon=50.0, max_depth=1)
    counts = []
    for _ in range(3):
        fitted = clone(model).fit(frame, y, person_ids=people)
        assert fitted.guarantee_.unit == "person"
        assert fitted.guarantee_.caveats == ()
        counts.append(np.mean([v.sum() for v in fitted.forest_.values]))
    assert abs(np.mean(counts) - 900) < 10  # 300 people with 3 rows each, with little noise
    seeded = [
        clone(model)
        .set_params(random_state=1)
        .fit(frame.iloc[o], y[o], person_ids=people[o])
        .predict_proba(frame)
        for o in (np.arange(3000), np.random.default_rng(1).permutation(3000))
    ]
    np.testing.assert_array_equal(*seeded)
    with pytest.raises(ValueError, match="X and person_ids have different numbers of rows"):
        model.fit(frame, y, person_ids=people[:-1])


@pytest.mark.parametrize("kind", ["joint", "paper", "regressor"])
def test_with_ids_the_unit_is_the_person(table, kind):
    """Even with one row each: which row of a person is kept is random, so one more row replaces one."""
    frame, y = table(300)
    model = {
        "joint": classifier(),
        "paper": LumberjackClassifier.paper(4.0, domain=DOMAIN, classes=["no", "yes"]),
        "regressor": LumberjackRegressor(domain=DOMAIN, y_bounds=(0, 100)),
    }[kind]
    y = frame["age"] if kind == "regressor" else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = model.fit(frame, y).guarantee_
        together = model.fit(frame, y, person_ids=np.arange(300) // 2).guarantee_
    assert (alone.unit, together.unit) == ("row", "person")
    assert together == dataclasses.replace(alone, unit="person")
    assert together.verify() <= together.delta
    assert "a person (one row of each is used)" in str(together)
    assert "for every person (one row of each is used)" in model.privacy_report()


def test_persons_without_an_id_are_refused(table):
    frame, y = table(300)
    people = np.arange(300.0)
    for missing in (np.nan, None, pd.NA):
        ids = people.astype(object)
        ids[3] = missing
        for given in (ids, ids.tolist(), pd.Series(ids)):
            with pytest.raises(ValueError, match="person_ids"):
                classifier(rows_per_person=2).fit(frame, y, person_ids=given)
    with pytest.raises(ValueError, match="person_ids"):
        classifier(rows_per_person=2).fit(frame, y, person_ids=np.zeros((300, 2)))


def test_persons_are_told_apart_one_by_one():
    assert len(set(read_people([2**53, 2**53 + 1, 1]))) == 3
    assert len(set(read_people(["1", "01", "b"]))) == 3
    assert read_people([7.0, np.int64(7), np.float32(7), True]) == [7, 7, 7, 1]
    day = dt.date(2020, 1, 1)
    assert read_people([day]) == [day]


@pytest.mark.parametrize(
    "ids",
    [
        [7, "7"],  # what pandas reads from a column of numbers with one text far down
        ["1", b"1"],
        [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)],
        [0.1, 0.2],
        [2.0**53, 1.0],
        [math.inf, 1.0],
        [("a", 1), ("b", 2)],
        np.array(["a", np.nan]),
        pa.array(["a", None]),
        list(pa.array(["a", None])),
        ["a", "<NA>"],
        ["a", " "],
        ["a", "NULL"],
        [b"a", b""],
    ],
    ids=str,
)
def test_ids_that_could_split_or_merge_persons_are_refused(ids):
    with pytest.raises(ValueError, match="person_ids"):
        read_people(ids)


def test_one_arrow_id_is_one_person():
    assert read_people(list(pa.array([5, 5]))) == [5, 5]


@ignore_leaks
def test_persons_do_not_depend_on_the_container(table):
    frame, y = table(400)
    people = np.repeat(np.arange(100), 4)
    same = [
        seeded_classifier(rows_per_person=2, epsilon=20.0)
        .fit(frame, y, person_ids=p)
        .predict_proba(frame)
        for p in (people, people.astype(float), people.tolist(), pl.Series(people))
    ]
    for other in same[1:]:
        np.testing.assert_array_equal(same[0], other)


# Nothing private leaks


@ignore_leaks
def test_one_row_cannot_change_how_the_others_are_read():
    """A list with one stray string: had it become an array of text, every number would be lost."""
    numbers = np.random.default_rng(0).integers(0, 4, (3000, 2))
    rows, y = numbers.tolist(), (numbers[:, 0] > 1).astype(int).tolist()
    domain = {"a": Domain.categorical([0, 1, 2, 3]), "b": Domain.categorical([0, 1, 2, 3])}
    settings = {
        "domain": domain,
        "classes": [0, 1],
        "n_estimators": 5,
        "epsilon": 4.0,
        "random_state": 0,
    }
    one = LumberjackClassifier(**settings).fit(rows, y)
    two = LumberjackClassifier(**settings).fit([*rows, [1, "x"]], [*y, 0])
    assert [t.n_leaves for t in one.forest_.trees] == [t.n_leaves for t in two.forest_.trees]
    assert two.score(rows, y) > 0.95
    mixed = LumberjackClassifier(20.0, domain={"a": (0, 1), "b": ["x", "y"]}, classes=[0, 1])
    assert mixed.fit([[0.5, "x"], [0.2, "y"]] * 500, [0, 1] * 500).predict([[0.5, "x"]]).tolist() == [0]


def test_missing_booleans_do_not_show_in_an_inferred_domain():
    columns = [
        pl.DataFrame({"flag": [True, False] * 300}),
        pl.DataFrame({"flag": [True, False, None] * 200}),
    ]
    models = [LumberjackClassifier(classes=[0, 1]).fit(X, [0, 1] * 300) for X in columns]
    assert models[0].domain_ == models[1].domain_
    assert models[0].guarantee_ == models[1].guarantee_


@pytest.mark.parametrize(
    "hold",
    [
        lambda flags: pd.DataFrame({"flag": flags}),
        lambda flags: pd.DataFrame({"flag": pd.array(flags, dtype="boolean")}),
        lambda flags: pd.DataFrame({"flag": pd.array(flags, dtype=pd.ArrowDtype(pa.bool_()))}),
        lambda flags: np.array(flags)[:, None],
        lambda flags: [[flag] for flag in flags],
        lambda flags: pl.DataFrame({"flag": pl.Series(flags, dtype=pl.Object)}),
    ],
    ids=["pandas", "nullable", "arrow in pandas", "numpy", "list", "object"],
)
def test_booleans_of_undeclared_type_are_values_whatever_one_row_holds(hold):
    whole, gap = [True, False] * 300, [True, None, *[True, False] * 299]
    models = [LumberjackClassifier(classes=[0, 1]).fit(hold(v), [0, 1] * 300) for v in (whole, gap)]
    assert [model.guarantee_.events for model in models] == [models[0].guarantee_.events] * 2
    assert [model.guarantee_.caveats for model in models] == [()] * 2
    assert [[type(kind) for kind in model.domain_.kinds] for model in models] == [[Categorical]] * 2
    assert models[0].domain_ == models[1].domain_


def test_warnings_count_no_classes(table, recwarn):
    frame, _ = table(40)
    # A root of 40 rows passes with a chance below 1e-6 in all.
    pruned(epsilon=0.5, classes=range(40)).fit(frame, [*range(20), *[0] * 20])
    assert ["learned nothing" in str(w.message) for w in recwarn.list] == [True]


@pytest.mark.parametrize("target", ["class", "number"])
def test_a_model_that_learned_nothing_says_so(table, target):
    frame, y = table(300)
    model, y = (
        (pruned(), y) if target == "class" else (LumberjackRegressor(splits="random"), frame["age"])
    )
    settings = {"epsilon": 0.1, "domain": DOMAIN, **({} if target == "class" else {"y_bounds": (0, 9)})}
    with pytest.warns(UserWarning, match="learned nothing: every tree is a single leaf") as caught:
        model.set_params(**settings).fit(frame, y)
    assert caught[0].filename == __file__
    assert f"at least {model.guarantee_.suggested_rows:,})" in str(caught[0].message)
    assert "300" not in str(caught[0].message)


@ignore_leaks
def test_weights_of_classes_that_were_not_seen_are_named(table):
    frame, y = table(4000)
    with pytest.warns(UserWarning, match=r"class_weight names labels .*: \['Yes'\]") as caught:
        classifier(classes=None, class_weight={"Yes": 2.0, "no": 1.0}).fit(frame, y)
    assert all(w.filename == __file__ for w in caught)


def test_a_fit_that_fails_changes_nothing(table):
    frame, y = table(500)
    model = classifier().fit(frame, y)
    before = model.predict_proba(frame)
    model.set_params(classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="not in classes"):
        model.fit(frame, y)
    np.testing.assert_array_equal(model.predict_proba(frame), before)


def test_arrays_follow_the_order_of_the_frame_in_fit(table):
    frame, y = table()
    turned = frame[["member", "age", "city"]]
    model = classifier().fit(turned, y)
    expected = model.predict_proba(frame)
    np.testing.assert_array_equal(model.predict_proba(turned), expected)
    np.testing.assert_array_equal(model.predict_proba(turned.to_numpy(dtype=object)), expected)


def reachable(thing, path="model", seen=None):
    """Every value that can be reached from an object, with the way to it."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    yield path, thing
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield from reachable(value, f"{path}[{key!r}]", seen)
    elif isinstance(thing, list | tuple | set | frozenset):
        for i, value in enumerate(thing):
            yield from reachable(value, f"{path}[{i}]", seen)
    elif not isinstance(thing, np.ndarray | str | bytes | int | float | types.FunctionType | type):
        yield from reachable(getattr(thing, "__dict__", {}), path, seen)


@ignore_leaks
@pytest.mark.parametrize(
    ("kind", "splits"),
    [
        *itertools.product(["counts", "majority"], ["guided", "random"]),
        *[("fitted", "guided"), ("fitted-mean", "guided"), ("mean", "random")],
        ("exponential", "random"),
    ],
)
def test_neighbours_with_the_same_noise_differ_in_released_values_only(table, kind, splits):
    """A planted record must not show in any attribute but the noisy values and the splits they chose."""
    frame, y = table(3000)
    more = pd.concat([frame, pd.DataFrame({"age": [99.123456], "city": ["Trier"], "member": [True]})])
    if kind.endswith("mean"):
        model = LumberjackRegressor(
            4.0, domain=DOMAIN, y_bounds=(0, 100), splits=splits, n_estimators=4, random_state=3
        )
        y, y_more = frame["age"], more["age"]
    else:
        accounting = "paper" if kind == "exponential" else "joint"
        model = seeded_classifier(leaf=kind, splits=splits, accounting=accounting, n_estimators=4)
        y_more = np.append(y, "yes")
    one, two = clone(model).fit(frame, y), clone(model).fit(more, y_more)
    assert vars(one).keys() == vars(two).keys()
    fitted = {name for name in vars(one) if name.endswith("_")}
    assert fitted == {"released_", "n_features_in_", "feature_names_in_"}
    noisy = {"forest"}
    noisy |= {"domain"} if splits == "guided" else set()  # cuts are chosen with noise
    noisy |= {"target"} if kind == "fitted-mean" else set()  # and so are place and scale
    for first, second in ((one, two), (one.released_, two.released_)):
        for name in set(vars(first)) - noisy - {"released_"}:
            assert pickle.dumps(getattr(first, name)) == pickle.dumps(getattr(second, name)), name
    assert one.guarantee_ == two.guarantee_
    kinds = {type(v) for _, v in reachable(one)}
    allowed = {dict, list, tuple, str, int, float, bool, type(None), np.ndarray, np.str_}
    assert kinds - allowed <= {
        type(one),
        type(one.released_),
        type(one.forest_),
        type(one.forest_.trees[0]),
        Domain,
        Guarantee,
        *(type(event) for event in one.guarantee_.events),
        *(type(kind) for kind in DOMAIN.kinds),
        type(one.released_.target),
        Cuts,
    }
    assert [
        domain["age"] == DOMAIN["age"] or domain["age"].grid == DOMAIN["age"]
        for domain in (one.domain_, two.domain_)
    ] == [True] * 2
    for path, value in reachable(one):
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert value not in (3000, 3001, 99.123456), path
    for model in (one, two):
        payload = pickle.dumps(model)
        assert b"99.123" not in payload
        assert "3000" not in repr(model)
        numbers = {op[1] for op in pickletools.genops(io.BytesIO(payload)) if isinstance(op[1], int)}
        assert not numbers & {3000, 3001}
    if kind in ("counts", "mean"):  # whole numbers with noise: no exact count survives
        assert all(np.array_equal(v, np.rint(v)) for v in one.forest_.values)


@ignore_leaks
@pytest.mark.parametrize(
    ("splits", "leaf"), [("guided", "fitted"), ("guided", "counts"), ("random", "counts")]
)
def test_neighbours_with_the_same_noise_learn_alike(table, splits, leaf):
    """A record of values that nobody shares: the same values, classes and scale; only cuts may move."""
    frame, y = table(3000)
    settings = {"splits": splits, "n_estimators": 4, "random_state": 3}
    model = LumberjackClassifier(4.0, leaf=leaf, **settings).fit(frame, y)
    assert set(model.domain_["city"].categories) == {"Bonn", "Kiel", "Trier"}
    for age, label in ((99.123456, "yes"), (99.123456, "maybe"), (math.nan, "maybe")):
        planted = pd.DataFrame({"age": [age], "city": ["Trento"], "member": [True]})
        other = clone(model).fit(pd.concat([frame, planted], ignore_index=True), np.append(y, label))
        assert other.guarantee_ == model.guarantee_
        assert other.classes_.tolist() == ["no", "yes"]
        assert all(other.domain_[name] == model.domain_[name] for name in ("city", "member"))
        if math.isnan(age):  # no cut has seen it, and without its label it is in no tree
            assert pickle.dumps(other.released_) == pickle.dumps(model.released_)
        payload = pickle.dumps(other)
        assert not any(word in payload for word in (b"Trento", b"maybe", b"99.123"))
    numbers = LumberjackRegressor(4.0, **settings)
    one, two = (clone(numbers).fit(X, X["age"] * 1000) for X in (frame, pd.concat([frame, frame[:1]])))
    assert one.guarantee_ == two.guarantee_
    assert one.released_.target.centre == pytest.approx(two.released_.target.centre, rel=0.01)


@ignore_leaks
def test_leaf_values_are_counts_plus_the_promised_noise(table):
    frame, y = table(5000)
    model = pruned(epsilon=8.0, n_estimators=50, max_depth=30).fit(frame, y)
    leaves = model.apply(frame)
    target = (y == "yes").astype(int)
    noise = []
    for t, values in enumerate(model.forest_.values):
        exact = np.zeros_like(values)
        np.add.at(exact, (leaves[:, t], target), 1)
        noise.append((values - exact).ravel())
    noise = np.concatenate(noise)
    assert len(noise) > 1000
    assert noise.std() == pytest.approx(model.guarantee_.leaf_noise, rel=0.1)


def test_progress_shows_steps_and_no_rows(table, capsys):
    frame, y = table(777)
    classifier(verbose=1, n_estimators=3).fit(frame, y)
    shown = capsys.readouterr().out
    assert "LumberjackClassifier" in shown
    assert "step" in shown
    assert "777" not in shown


def test_the_papers_accounting_has_no_guided_splits():
    with pytest.raises(ValueError, match="guided"):
        classifier(splits="guided", accounting="paper").fit(Untouchable(), Untouchable())


def test_guarantee_is_the_plan(table):
    frame, y = table(500)
    one = {"columns": (1, 0), "target": False}  # cuts of a declared range are learned
    assert classifier().fit(frame, y).guarantee_ == plan(4.0, 1e-6, 8, 100, **one)
    promise = pruned(threshold=200).fit(frame, y).guarantee_
    assert promise == plan(4.0, 1e-6, 8, 100, leaf="counts", threshold=200, **one)
    assert changed(promise, threshold_noise=1.0).verify() > promise.delta


def test_toy_data():
    X, y, domain = make_toy(scale=1000)
    model = LumberjackClassifier(2.0, n_estimators=25, domain=domain, classes=[0, 1, 2], leaf="majority")
    assert model.fit(X, y).score(X, y) > 0.9


def test_one_label_does_not_change_how_others_are_read():
    """2^53 + 1 becomes 2^53 as a float: a single float among integers must not make it so."""
    rng = np.random.default_rng(0)
    X, y = rng.random((4000, 1)), [2**53 + 1] * 3999 + [float(2**53)]
    settings = {"domain": {"a": (0, 1)}, "classes": [2**53, 2**53 + 1], "n_estimators": 2}
    model = LumberjackClassifier(8.0, **settings).fit(X, y)
    assert model.predict(X[:1])[0] == 2**53 + 1


@ignore_leaks
@pytest.mark.parametrize(
    ("splits", "leaf"), [("guided", "fitted"), ("guided", "counts"), ("random", "counts")]
)
def test_feature_importances_follow_the_columns_of_the_table(table, splits, leaf):
    """In the order of fit's table, as in scikit-learn; another order, the same importances."""
    frame, y = table(6000)
    model = seeded_classifier(splits=splits, leaf=leaf).fit(frame, y)
    assert model.feature_importances_.shape == (3,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    turned = seeded_classifier(splits=splits, leaf=leaf).fit(frame[frame.columns[::-1]], y)
    np.testing.assert_array_equal(turned.feature_importances_[::-1], model.feature_importances_)
    best = model.feature_names_in_[model.feature_importances_.argmax()]
    assert best == describe(model).importance[0].name
    with pytest.raises(NotFittedError):
        _ = classifier().feature_importances_


def test_guided_splits_find_the_column_that_matters():
    """One of thirty columns tells everything: random splits rarely meet it, guided ones do at once."""
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 30))
    y = (X[:, 17] > 0.4).astype(int)
    domain = {f"x{i}": (0, 1) for i in range(30)}
    scores = {}
    for splits in ("guided", "random"):
        model = LumberjackClassifier(
            1.0, domain=domain, classes=[0, 1], splits=splits, leaf="counts"
        ).fit(X, y)
        scores[splits] = model.score(X, y)
        assert model.feature_importances_.argmax() == 17
    assert scores["guided"] > 0.97
    assert scores["guided"] > scores["random"] + 0.05


def test_guided_splits_for_numbers_and_many_classes():
    rng = np.random.default_rng(1)
    X = rng.random((30_000, 6))
    domain = {f"x{i}": (0, 1) for i in range(6)}
    number = LumberjackRegressor(2.0, domain=domain, y_bounds=(0, 3)).fit(X, 3 * (X[:, 2] > 0.5))
    assert number.score(X, 3 * (X[:, 2] > 0.5)) > 0.95
    y = (X[:, 0] * 5).astype(int)
    many = LumberjackClassifier(2.0, domain=domain, classes=range(5), leaf="counts").fit(X, y)
    assert many.score(X, y) > 0.8
    assert np.allclose(many.predict_proba(X[:100]).sum(axis=1), 1)


def test_leaves_are_released_once_and_nothing_after_them(table):
    """No part of the budget is for anything but what is learned, splits, pruning and leaves."""
    frame, y = table(3000)
    for settings in ({"splits": "random", "leaf": "counts"}, {"leaf": "majority"}, {"leaf": "counts"}):
        model = classifier(**settings).fit(frame, y)
        last = model.guarantee_.events[-1]
        assert (last.use, last.count) == ("leaves", model.n_estimators)


def arrays_in(value, seen):
    """All arrays that can be reached from an object."""
    if id(value) in seen or isinstance(value, type | types.ModuleType | types.FunctionType):
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        yield value
        parts = value.tolist() if value.dtype == object else []
    elif isinstance(value, dict):
        parts = [*value, *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield from arrays_in(part, seen)


@pytest.mark.parametrize(
    ("splits", "leaf"),
    [
        *itertools.product(["guided", "random"], ["counts", "majority"]),
        *[("guided", "fitted"), ("guided", "fitted-mean"), ("random", "mean")],
    ],
)
def test_released_arrays_own_their_memory(table, splits, leaf):
    """A slice of a longer work buffer would keep private counts within reach, behind ``base``."""
    frame, y = table()
    model = classifier(splits=splits, leaf=leaf)
    if leaf.endswith("mean"):
        model, y = LumberjackRegressor(domain=DOMAIN, y_bounds=(0, 100), splits=splits), frame["age"]
    found = list(arrays_in(model.fit(frame, y), {}))
    assert len(found) > 4 * len(model.forest_.trees)
    for array in found:
        behind = array if array.base is None else array.base
        assert behind.flags.owndata
        assert behind.nbytes == array.nbytes


@ignore_leaks
def test_one_target_does_not_change_how_others_are_read():
    """A string among float32 numbers turns a whole NumPy array to text, and 0.3 then reads otherwise."""
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 1))
    # A number between two steps of the grid, which its text puts on the other side.
    steps, grid = np.float32((np.arange(8192) + 0.5) / 8192 * 0.7), Numbers(0.0, 0.7)
    moved = grid.encode(steps.astype(float)) != grid.encode(np.array([float(str(v)) for v in steps]))
    plain = [steps[moved][0]] * 20_000
    settings = {"domain": {"a": (0, 1)}, "y_bounds": (0, 0.7), "n_estimators": 2, "random_state": 1}
    settings["splits"] = "random"
    one = LumberjackRegressor(4.0, **settings).fit(X, plain)
    two = LumberjackRegressor(4.0, **settings).fit(X, [*plain[:-1], "0.1"])
    for a, b in zip(one.forest_.values, two.forest_.values, strict=True):
        assert np.abs(a[:, 1].sum() - b[:, 1].sum()) <= SUM_BOUND


@pytest.mark.parametrize("weights", [[3e-323, 1], [1e308, 1e308], [1e-13, 1]])
def test_weights_that_floats_cannot_tell_apart_are_refused(weights):
    model = LumberjackClassifier(domain={"a": (0, 1), "b": (0, 1)}, classes=[0, 1])
    with pytest.raises(ValueError, match="feature_weights must be 0 or at least 1e-12 of the largest"):
        model.set_params(feature_weights=weights).fit(Untouchable(), Untouchable())
