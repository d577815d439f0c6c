"""What a plan pays for what is learned before trees grow: columns, classes, and the target's scale."""

import dataclasses
import itertools

import pytest
from promises import plain

from lumberjack import Choices, Guarantee, ThresholdQueries, plan
from lumberjack.accounting import spent
from lumberjack.planning import CUT_LEVELS


def shares(promise):
    """Of mu^2, by use."""
    prices = {}
    for event in promise.events:
        prices[event.use] = prices.get(event.use, 0.0) + spent(event)
    whole = sum(prices.values())
    return {use: price / whole for use, price in prices.items()}


@pytest.mark.parametrize(
    ("leaf", "splits"),
    [
        *itertools.product(["counts", "majority", "mean"], ["guided", "random"]),
        ("fitted", "guided"),
        ("fitted-mean", "guided"),
    ],
)
def test_learning_has_its_share_and_the_rest_keeps_its_proportions(leaf, splits):
    number = leaf in ("mean", "fitted-mean")
    found = shares(plan(1.0, 1e-6, leaf=leaf, splits=splits))
    target = "scale" if number else "classes"
    learned = {"categories": 0.05, "cuts": 0.05, target: 0.05 if number else 0.01}
    left = 1 - sum(learned.values())
    alone = shares(
        plan(1.0, 1e-6, leaf=leaf, splits=splits, columns=(0, 0), target=leaf == "fitted-mean")
    )
    scale = alone.pop("scale", 0.0)
    rest = {use: left * share / (1 - scale) for use, share in alone.items()}
    assert found == pytest.approx({**learned, **rest}, rel=1e-6)


def test_fitted_leaves_share_what_is_left():
    """5 % for sizes of cells, 19 % for columns alone, 76 % for all; of numbers, 2 % for clips first."""
    assert shares(plain(1.0)) == pytest.approx({"sizes": 0.05, "columns": 0.19, "pairs": 0.76}, rel=1e-6)
    found = shares(plan(1.0, leaf="fitted-mean", columns=(0, 0)))
    parts = {"clips": 0.02, "sizes": 0.98 * 0.05, "columns": 0.98 * 0.19, "pairs": 0.98 * 0.76}
    expected = {"scale": 0.05, **{use: 0.95 * share for use, share in parts.items()}}
    assert found == pytest.approx(expected, rel=1e-6)


def test_absent_columns_and_targets_cost_nothing():
    assert shares(plan(1.0, columns=(3, 0), target=False))["cuts"] == pytest.approx(0.05)
    assert "categories" not in shares(plan(1.0, columns=(3, 0)))
    assert "cuts" not in shares(plan(1.0, columns=(0, 3)))
    nothing = plan(1.0, columns=(0, 0), target=False)
    assert [event.use for event in nothing.events] == ["sizes", "columns", "pairs"]
    assert (nothing.numbers_learned, nothing.categories_learned, nothing.cut_levels) == (0, 0, 0)
    pruned = plan(1.0, columns=(0, 0), target=False, leaf="counts")
    assert [event.use for event in pruned.events] == ["structure", "splits", "leaves"]
    assert {*shares(plan(1.0, accounting="paper"))} == {"structure", "leaves"}


def test_events_come_in_the_order_in_which_they_are_asked():
    fit = ["sizes", "columns", "pairs"]
    learned = ["categories", "classes", "cuts"]
    assert [event.use for event in plan(1.0).events] == [*learned, *fit]
    numbers = [event.use for event in plan(1.0, leaf="fitted-mean").events]
    assert numbers == ["categories", "cuts", "scale", "scale", "clips", *fit]
    pruned = [event.use for event in plan(1.0, leaf="counts").events]
    assert pruned == [*learned, "structure", "splits", "leaves"]
    means = [event.use for event in plan(1.0, leaf="mean").events]
    assert means[:5] == ["categories", "cuts", "scale", "scale", "structure"]


def test_leaves_are_fitted_by_default():
    assert plan(1.0) == plan(1.0, leaf="fitted", splits="guided")
    assert plan(1.0, splits="random").leaf == "counts"
    assert plan(1.0, accounting="paper").leaf == "counts"


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 30.0])
@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_steps_are_priced_for_residuals_of_at_most_1(epsilon):
    """20 steps of columns share 19 % of mu^2, 60 steps of all 76 %; sizes have 5 %."""
    for leaf in ("fitted", "fitted-mean"):
        promise = plan(epsilon, leaf=leaf)
        sizes, columns, pairs = (promise.event(use) for use in ("sizes", "columns", "pairs"))
        assert [e.reach for e in (sizes, columns, pairs)] == [1, 1, 1]
        assert [e.count for e in (sizes, columns, pairs)] == [1, 20, 60]
        assert (columns.noise / pairs.noise) ** 2 == pytest.approx((76 / 60) / (19 / 20), rel=1e-6)
        assert (sizes.noise / columns.noise) ** 2 == pytest.approx((19 / 20) / 5, rel=1e-6)


def test_counts_follow_from_the_columns():
    promise = plan(1.0, columns=(7, 4))
    assert (promise.numbers_learned, promise.categories_learned) == (7, 4)
    assert promise.cut_levels == CUT_LEVELS == 5
    assert promise.event("cuts").count == 35
    assert promise.event("categories").count == 4
    assert promise.event("classes").count == 1
    assert plan(1.0) == plan(1.0, columns=(10, 10), target=True)


@pytest.mark.parametrize("leaf", ["mean", "fitted-mean"])
def test_the_quantile_of_the_target_has_four_times_the_share_of_the_median(leaf):
    place, scale = plan(1.0, leaf=leaf).events_for("scale")
    assert (place.count, scale.count) == (1, 1)
    assert (place.score_range, scale.score_range) == (1.0, 1.8)
    assert 2 * place.exponent == pytest.approx(1.8 * scale.exponent)


@pytest.mark.parametrize("rows", [1, 3])
def test_values_pass_only_above_the_cutoff_for_all_rows_of_a_person(rows):
    promise = plan(1.0, leaf="counts", rows_per_person=rows, threshold=5000)
    for use in ("categories", "classes"):
        (event,) = promise.events_for(use)
        assert event.threshold == event.cutoff + rows
        assert event.cut == 0
    assert promise.threshold == 5000
    assert promise.cut > 0


def test_learning_leaves_the_threshold_where_it_was_but_for_its_share():
    """mu falls by sqrt(0.89), so noise and threshold rise by its inverse, up to the tighter bound."""
    ratio = plan(1.0, leaf="counts").threshold / plain(1.0, leaf="counts").threshold
    assert 1.0 < ratio < 0.89**-0.5 * 1.01


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e5, 0.1), (0.01, 1e-6), (1.0, 1e-12), (8.0, 1e-6), (0.1, 1e-9)]
)
@pytest.mark.parametrize("columns", [(10, 10), (1000, 0), (0, 1000), (1, 1)])
@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_any_budget_and_any_number_of_columns_verify(epsilon, delta, columns):
    for leaf, rows in (("counts", 1), ("mean", 5), ("fitted", 3)):
        promise = plan(epsilon, delta, columns=columns, leaf=leaf, rows_per_person=rows)
        assert 0.999 * delta <= promise.verify() <= delta
    promise = plan(epsilon, delta, columns=columns, leaf="fitted-mean")
    # Without categories there is no cut-off that could take what a grid of ranges leaves over.
    assert (0.999 if columns[1] else 0.998) * delta <= promise.verify() <= delta


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": (1,)}, "columns must be two numbers"),
        ({"columns": 7}, "columns must be two numbers"),
        ({"columns": (-1, 2)}, r"columns\[0\] must be at least 0, got -1"),
        ({"columns": (1, -2)}, r"columns\[1\] must be at least 0, got -2"),
        ({"columns": (1, 0), "accounting": "paper"}, 'needs accounting="joint"'),
        ({"target": True, "accounting": "paper"}, 'needs accounting="joint"'),
    ],
)
def test_bad_columns_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        plan(1.0, **settings)


LEARNED, NUMBERS = plan(1.0, leaf="counts", columns=(4, 3)), plan(1.0, leaf="mean", columns=(4, 3))
FITTED, LINE = plan(1.0, columns=(4, 3)), plan(1.0, leaf="fitted-mean", columns=(4, 3), unit="person")
PRUNED = plain(1.0, leaf="counts")


def altered(promise, which, n=0, **changes):
    """The promise with changed fields of the n-th event of a use."""
    old = promise.events_for(which)[n]
    place = next(i for i, event in enumerate(promise.events) if event is old)
    new = dataclasses.replace(old, **changes)
    return dataclasses.replace(
        promise, events=(*promise.events[:place], new, *promise.events[place + 1 :])
    )


@pytest.mark.parametrize(
    "claim",
    [
        altered(LEARNED, "cuts", count=19),
        altered(LEARNED, "cuts", score_range=0.99, exponent=1e-9),
        altered(LEARNED, "cuts", exponent=0.0),
        altered(LEARNED, "categories", count=2),
        altered(LEARNED, "categories", threshold=1.0),
        altered(LEARNED, "categories", cutoff=None, cut=-1),
        altered(LEARNED, "classes", count=0),
        altered(LEARNED, "classes", cut=3),
        altered(FITTED, "cuts", count=19),
        altered(FITTED, "cuts", score_range=0.99, exponent=1e-9),
        altered(FITTED, "categories", count=2),
        altered(FITTED, "classes", cutoff=None, cut=-1),
        altered(LINE, "categories", threshold=1.0),
        altered(LINE, "scale", 0, score_range=0.9, exponent=1e-9),
        altered(LINE, "scale", 1, score_range=1.7, exponent=1e-9),
        altered(LINE, "scale", 1, exponent=0.0),
        dataclasses.replace(FITTED, numbers_learned=5),
        dataclasses.replace(FITTED, categories_learned=0),
        dataclasses.replace(LINE, cut_levels=6),
        dataclasses.replace(LINE, events=(*LINE.events[:2], *LINE.events[3:])),
        dataclasses.replace(LINE, events=(FITTED.event("classes"), *LINE.events)),
        altered(NUMBERS, "scale", 0, score_range=0.9, exponent=1e-9),
        altered(NUMBERS, "scale", 1, score_range=1.7, exponent=1e-9),
        altered(NUMBERS, "scale", 0, count=0),
        altered(NUMBERS, "scale", 1, exponent=0.0),
        dataclasses.replace(LEARNED, numbers_learned=5),
        dataclasses.replace(LEARNED, numbers_learned=0),
        dataclasses.replace(LEARNED, numbers_learned=-4),
        dataclasses.replace(LEARNED, categories_learned=4),
        dataclasses.replace(LEARNED, categories_learned=0),
        dataclasses.replace(LEARNED, cut_levels=6),
        dataclasses.replace(LEARNED, cut_levels=0),
        dataclasses.replace(LEARNED, cut_levels=0, numbers_learned=0, categories_learned=0),
        dataclasses.replace(LEARNED, events=LEARNED.events[1:]),
        dataclasses.replace(LEARNED, events=(LEARNED.events[1], LEARNED.events[0], *LEARNED.events[2:])),
        dataclasses.replace(NUMBERS, events=(*NUMBERS.events[:2], *NUMBERS.events[3:])),
        dataclasses.replace(PRUNED, cut_levels=5),
        dataclasses.replace(PRUNED, events=(LEARNED.event("cuts"), *PRUNED.events)),
        dataclasses.replace(PRUNED, events=(*NUMBERS.events_for("scale"), *PRUNED.events)),
        altered(PRUNED, "splits", use="cuts"),
        altered(PRUNED, "splits", use="anything"),
    ],
)
def test_a_record_that_learns_without_paying_promises_nothing(claim):
    for promise in (LEARNED, NUMBERS, FITTED, LINE, PRUNED):
        assert promise.verify() <= promise.delta
    assert claim.verify() == 1.0


@pytest.mark.parametrize("use", ["categories", "classes", "cuts"])
@pytest.mark.parametrize("promise", [LEARNED, FITTED], ids=["pruned", "fitted"])
def test_more_than_was_planned_costs_more(use, promise):
    event = promise.event(use)
    if isinstance(event, ThresholdQueries):
        # Less noise also crosses the cut-off less, which is more of the price in fitted leaves.
        lower = 0.9 if promise is FITTED else 1.0
        claim = altered(promise, use, noise=0.9 * event.noise, cutoff=lower * event.cutoff)
    else:
        assert isinstance(event, Choices)
        claim = altered(promise, use, exponent=1.1 * event.exponent)
    assert promise.delta < claim.verify() < 1


def test_records_say_what_events_are_for():
    for promise in (LEARNED, NUMBERS, FITTED, LINE):
        assert Guarantee.from_json(promise.to_json()) == promise
    text = str(NUMBERS)
    for said in (
        "(cuts of numbers)",
        "(values of categories)",
        "(place and scale of the target)",
        "(nodes)",
    ):
        assert said in text
    assert "1 threshold query a row (classes)" in str(LEARNED)
    text = str(LINE)
    for said in (
        "2 choices a row (clips of residuals)",
        "1 noisy sum a row (rows of all cells of columns)",
        "20 noisy sums a row (steps of the fit of columns)",
        "60 noisy sums a row (steps of the fit of columns and pairs)",
        "a tree for each column and each pair of up to 20 columns",
    ):
        assert said in text
    for said in ("nodes", "levels", "calibration", "splits"):
        assert said not in text
