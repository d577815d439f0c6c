"""Entries of columns and targets: true to the model, its record, and their own units."""

import datetime as dt
import json
import math

import numpy as np
import pandas as pd
import pytest

from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor, load
from lumberjack.legend import (
    Entry,
    columns_of,
    fit_in_words,
    in_lines,
    shares,
    spread,
    target_of,
    weights_in_words,
)
from lumberjack.targets import Classes, Numbers


@pytest.fixture(scope="module")
def staff():
    rng, n = np.random.default_rng(0), 5000
    return pd.DataFrame(
        {
            "pay": np.exp(rng.normal(9, 2, n)),
            "age": rng.uniform(0, 100, n),
            "city": rng.choice(np.array(["Bonn", "Kiel", "Trier", None], object), n),
            "ward": rng.choice(["A", "B"], n),
            "since": pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
        }
    )


@pytest.fixture(scope="module")
def models(staff):
    known = np.where(staff["pay"] > 8000, "much", "little")
    domain = {"age": (0, 100), "ward": ["A", "B"], "city": Domain.categorical()}
    return {
        "classifier": LumberjackClassifier(4.0, n_estimators=3, domain=domain).fit(staff, known),
        "regressor": LumberjackRegressor(4.0, n_estimators=3, domain=domain).fit(staff, staff["age"]),
        "bounded": LumberjackRegressor(4.0, n_estimators=3, domain=domain, y_bounds=(0, 90)).fit(
            staff, staff["age"]
        ),
        "means": LumberjackRegressor(4.0, n_estimators=3, splits="random", domain=domain).fit(
            staff, staff["age"]
        ),
        "declared": LumberjackClassifier(
            4.0, n_estimators=3, splits="random", leaf="counts",
            domain={"ward": ["A", "B"], "age": (0, 100)}, classes=["much", "little"],
        ).fit(staff[["ward", "age"]], known),
    }  # fmt: skip


def entries(model):
    return {entry.name: entry for entry in columns_of(model.released_)}


def test_origins_are_those_of_the_fit(models):
    found = {name: (e.kind, e.origin, e.bounds) for name, e in entries(models["classifier"]).items()}
    assert found == {
        "pay": ("number", "learned", None),
        "age": ("number", "learned", (0, 100)),
        "city": ("category", "learned", None),
        "ward": ("category", "declared", None),
        "since": ("date", "learned", None),
    }
    assert [target_of(m.released_).origin for m in models.values()] == ["learned"] * 4 + ["declared"]
    assert {e.origin for e in entries(models["declared"]).values()} == {"declared"}


def test_a_column_that_another_model_learned_is_declared(models, staff):
    """Its price is in the record of the other model."""
    domain = models["classifier"].domain_
    again = LumberjackClassifier(4.0, n_estimators=2, domain=domain).fit(staff, staff["pay"] > 8000)
    assert {e.origin for e in entries(again).values()} == {"declared"}
    assert {e.share for e in entries(again).values()} == {0.0}
    assert again.guarantee_.numbers_learned == again.guarantee_.categories_learned == 0
    assert again.domain_ == domain


@pytest.mark.parametrize("kind", ["classifier", "regressor", "bounded"])
def test_shares_of_columns_and_target_add_up_to_what_the_record_prices(models, kind):
    model = models[kind]
    g, found = model.guarantee_, entries(model)
    price = {}
    for e in g.events:  # mu^2 of each event
        if e.kind == "choices":
            price[e.use] = price.get(e.use, 0) + e.count * (e.exponent * e.score_range / 2) ** 2
        else:
            price[e.use] = price.get(e.use, 0) + e.count * (getattr(e, "reach", 1) / e.noise) ** 2
    whole = sum(price.values())
    numbers = [e.share for e in found.values() if e.is_cut]
    assert numbers == pytest.approx([price["cuts"] / whole / 3] * 3)
    assert found["city"].share == pytest.approx(price["categories"] / whole)
    assert found["ward"].share == 0
    use = "classes" if kind == "classifier" else "scale"
    assert target_of(model.released_).share == pytest.approx(price[use] / whole)
    assert shares(g) == pytest.approx({use: part / whole for use, part in price.items()})


def test_cuts_are_where_codes_change(models):
    for name in ("pay", "age"):
        cuts = np.array(entries(models["classifier"])[name].cuts)
        below = np.nextafter(cuts.astype(np.float32), np.float32(-np.inf)).astype(float)
        domain = Domain({name: models["classifier"].domain_[name]})
        expected = np.concatenate([np.arange(len(cuts)), np.arange(1, len(cuts) + 1)])
        codes = domain.encode(pd.DataFrame({name: np.concatenate([below, cuts])}))[:, 0]
        assert codes.tolist() == expected.tolist()


# Bounds are this many scales around the place.
@pytest.mark.parametrize(("kind", "scales"), [("regressor", 8), ("bounded", 8), ("means", 2)])
def test_the_target_has_place_and_scale(models, kind, scales):
    entry, target = target_of(models[kind].released_), models[kind].targets_
    place, scale = entry.scale
    assert entry.bounds == (target.low, target.high)
    # The truth: a median of 50 and a 90 % quantile of 45.
    assert (place - scales * scale, place + scales * scale) == pytest.approx(entry.bounds)
    assert place == pytest.approx(50, abs=15)
    assert scale == pytest.approx(45, abs=15)
    assert entry.facts().startswith(
        f"number from {target.low:.3g} to {target.high:.3g}, place {place:.3g}"
    )
    assert ("; predictions from 0 to 90, declared" in entry.facts()) == (kind == "bounded")
    assert entry.to_dict().get("limits") == ([0, 90] if kind == "bounded" else None)


def test_weights_in_words():
    """Of targets made by hand: what a score means, and where predictions end."""
    said = weights_in_words(Classes(np.array(["no", "yes"]), "fitted"))
    assert "the log odds of yes against no" in said
    assert "doubles the odds of yes" in said
    assert "a weight for each class" in weights_in_words(Classes(np.array([1, 2, 3]), "fitted"))
    assert "a single class, 7, so" in weights_in_words(Classes(np.array([7]), "fitted"))
    said = weights_in_words(Numbers(-10.0, 30.0, True, True))
    assert said.endswith("the prediction is 10 + 20 times the score.")
    said = weights_in_words(Numbers(-10.0, 30.0, True, True, (0.0, 25.0)))
    assert said.endswith("the prediction is 10 + 20 times the score and clipped to 0 to 25.")


def test_trees_of_columns_and_pairs_are_counted(models):
    """Five columns; pairs of at most three, however large the budget is."""
    model = models["classifier"]
    trees, released, weights = fit_in_words(model.released_)
    pairs = len(model.forest_.trees) - 6
    assert 0 < pairs <= 3
    assert trees.startswith(f"5 trees of one column and {pairs} of a pair of columns, and a single leaf")
    assert "in 20 steps on columns and 60 on columns and pairs" in released
    assert "for each leaf, and for groups of leaves of a column, the sum of how far" in released
    assert "Residuals" not in released
    assert "log odds of much against little" in weights
    assert "2 limits" in fit_in_words(models["regressor"].released_)[1]


def test_entries_in_words():
    year = dt.datetime(2001, 3, 4, tzinfo=dt.UTC).timestamp()
    said = Entry("a", "date", "learned", 0.0125, (year, year + 86_400)).in_words()
    assert said == "date, 2 cuts, learned (1.2% of the budget): 2001-03-04, 2001-03-05"
    many = Entry(
        "a", "number", "learned", 0.5, tuple(range(0, 310_000_000, 10_000_000)), bounds=(0, 1e9)
    )
    assert many.in_words() == (
        "number from 0 to 1000000000, 31 cuts, learned (50.0% of the budget): "
        "0 … 50000000 … 100000000 … 150000000 … 200000000 … 250000000 … 300000000"
    )
    listed = Entry(
        "a", "category", "declared", values=tuple(f"city {i:02}" for i in range(60)), missing=True
    )
    assert listed.in_words() == (
        "one of 60 categories or missing, declared: "
        + ", ".join(f"city {i:02}" for i in range(11))
        + " and 49 more"
    )
    assert (
        Entry("a", "number", "declared", bounds=(0.5, 2)).in_words() == "number from 0.5 to 2, declared"
    )
    assert Entry("a", "number", "learned", bounds=(0, 1), inferred=True).facts() == (
        "number from 0 to 1 (read off the data), learned"
    )
    assert len(Entry("a", "category", "declared", values=("x" * 10_000,)).in_words()) < 130


def test_plain_data_is_json_with_dates_and_infinities(models):
    far = Entry("a", "number", "learned", 0.1, (-math.inf, 0.5, math.inf)).to_dict()
    assert far["cuts"] == ["-inf", 0.5, "inf"]
    since = entries(models["classifier"])["since"].to_dict()
    parsed = [dt.datetime.fromisoformat(text) for text in since["cuts"]]
    assert parsed == sorted(parsed)
    assert 2011 <= parsed[len(parsed) // 2].year <= 2015  # of 9,000 days from 2001 on
    for model in models.values():
        listed = [e.to_dict() for e in (*columns_of(model.released_), target_of(model.released_))]
        assert json.loads(json.dumps(listed, allow_nan=False)) == listed


def test_a_file_says_the_same_of_its_columns(models, tmp_path):
    for name, model in models.items():
        model.save(tmp_path / name)
        again = load(tmp_path / name)
        assert columns_of(again.released_) == columns_of(model.released_)
        assert target_of(again.released_) == target_of(model.released_)


def test_lines_of_many_columns():
    columns = [Entry(f"c{i}", "number", "declared", bounds=(0, 1)) for i in range(1000)]
    assert len(in_lines(columns)) == 1000
    lines = in_lines(columns, 50)
    assert len(lines) == 51
    assert lines[-1] == "  ... and 950 more"
    assert in_lines([Entry("a\nb\x1b", "number", "declared")]) == ["  a\ufffdb\ufffd  number, declared"]


# Where cuts are drawn


def test_drawn_places_of_cuts_by_hand():
    """Quartiles 2 and 4: in units of 1, the distances from the median are -2 to 2."""
    expected = (np.arcsinh([-2, -1, 0, 1, 2]) / np.arcsinh(2) + 1) / 2
    np.testing.assert_allclose(spread([1.0, 2.0, 3.0, 4.0, 5.0]), expected)
    assert spread([7.0]).tolist() == [0.5]
    assert spread([7.0, 9.0]).tolist() == [0, 1]


def test_extreme_cuts_leave_room_for_the_others():
    usual = np.linspace(10, 20, 17)
    wild = [-math.inf, -1e38, -1e9, *usual, 1e30, 3e38, math.inf]
    places = spread(wild)
    assert places[0] == places[1] == places[2] == 0
    assert places[-1] == places[-2] == places[-3] == 1
    assert 0.2 < places[3] < 0.45 < 0.55 < places[-4] < 0.8


def test_drawn_places_keep_their_order_and_lie_between_0_and_1():
    rng = np.random.default_rng(0)
    for _ in range(200):
        bits = np.unique(rng.integers(0, 2**32, rng.integers(1, 40), dtype=np.uint32))
        values = bits.view(np.float32)
        values = np.sort(values[~np.isnan(values)]).astype(float)
        if len(values) == 0:
            continue
        places = spread(values)
        assert (np.diff(places) >= 0).all()
        assert (places >= 0).all()
        assert (places <= 1).all()
