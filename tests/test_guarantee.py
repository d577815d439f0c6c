import dataclasses
import json
import math
import pickle
import re
import warnings

import pytest
import reference
from promises import changed, plain

from lumberjack import Choices, Guarantee, NoisySums, PrivacyLeakWarning, plan
from lumberjack.guarantee import FOREST_ASSUMPTIONS, NOT_PROVED
from lumberjack.planning import plan_heavy_hitters

PLANS = {
    "fitted": plan(1.0, 1e-6),
    "fitted declared": plain(2.0, 1e-6),
    "fitted person": plan(2.0, 1e-5, 3, rows_per_person=4, columns=(7, 2)),
    "fitted mean": plan(0.5, 1e-6, leaf="fitted-mean"),
    "fitted mean person": plan(4.0, 1e-7, leaf="fitted-mean", rows_per_person=3, columns=(0, 4)),
    "guided": plain(1.0, 1e-6, leaf="counts"),
    "guided majority": plain(4.0, 1e-8, 10, 30, leaf="majority", structure_share=0.3),
    "guided mean": plain(0.3, 1e-6, leaf="mean"),
    "guided person": plain(2.0, 1e-5, 10, 4, leaf="counts", rows_per_person=4, threshold=900),
    "random": plain(1.0, 1e-6, splits="random"),
    "paper": plain(1.0, 1e-6, 30, accounting="paper", leaf="exponential"),
    "paper counts": plain(0.5, 1e-6, 50, accounting="paper"),
    "majority": plain(4.0, 1e-8, 10, 30, splits="random", leaf="majority", structure_share=0.3),
    "mean": plain(1.0, 1e-6, splits="random", leaf="mean"),
    "person": plain(2.0, 1e-5, splits="random", rows_per_person=4, threshold=900),
    "columns": plan(1.0, 1e-6, leaf="counts"),
    "columns mean": plan(0.3, 1e-6, leaf="mean", columns=(3, 0)),
    "columns person": plan(2.0, 1e-5, 10, 4, leaf="counts", rows_per_person=4, columns=(0, 7)),
    "columns random": plan(1.0, 1e-6, splits="random", leaf="majority", columns=(5, 2), target=False),
    "sparse": plan_heavy_hitters(1.0, 1e-6, 32),
    "sparse counts": plan_heavy_hitters(1.0, 1e-6, 32, counts=True, threshold=500.5),
    "two-sided": plan_heavy_hitters(1.0, 1e-6, 32, method="two-sided"),
    "top-down": plan_heavy_hitters(1.0, 1e-6, 32, method="top-down"),
    "gaussian": plan_heavy_hitters(1.0, 1e-6, 4, method="gaussian", counts=True, dense_nodes=340),
}


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_verifies_and_wastes_nothing(name):
    promise = PLANS[name]
    assert 0.999 * promise.delta <= promise.verify() <= promise.delta


@pytest.mark.parametrize("name", PLANS)
def test_json_round_trip(name):
    promise = PLANS[name]
    assert Guarantee.from_json(promise.to_json()) == promise
    assert Guarantee.from_json(promise.to_json()).verify() == promise.verify()
    assert pickle.loads(pickle.dumps(promise)) == promise
    assert json.loads(promise.to_json())["epsilon"] == promise.epsilon


def test_an_auditor_with_nothing_but_the_record_gets_the_same_delta():
    record = json.loads(PLANS["random"].to_json())
    queries, leaves = record["events"]
    assert [queries["kind"], leaves["kind"]] == ["threshold queries", "noisy sums"]
    exact = reference.joint_delta(
        record["epsilon"],
        queries["count"],
        queries["noise"],
        queries["cutoff"],
        record["n_estimators"],
        leaves["noise"],
    )
    assert PLANS["random"].verify() == pytest.approx(float(exact), rel=1e-11)
    assert queries["count"] == 20 * (1 + math.floor(math.log2(100)))
    assert queries["threshold"] == queries["cutoff"] + 1


@pytest.mark.parametrize(
    ("name", "m", "k", "r"),
    [
        ("sparse", 6, 0, 1),
        ("two-sided", 6, 0, 1),
        ("top-down", 32, 0, 1),
        ("sparse counts", 6, 32, 1),  # one fresh count of a heavy prefix on each of 32 levels
        ("person", 140, 20, 4),
        ("majority", 50, 10, 1),
    ],
)
def test_an_auditor_of_every_other_kind(name, m, k, r):
    promise = PLANS[name]
    leaf_noise = promise.leaf_noise or math.inf
    exact = reference.joint_delta(
        promise.epsilon, m, promise.threshold_noise, promise.cutoff, k, leaf_noise, r
    )
    assert promise.verify() == pytest.approx(float(exact), rel=1e-11)


def test_an_auditor_of_means():
    """A record moves a leaf's count by 1 and its sum by at most sum_bound."""
    promise = PLANS["mean"]
    both = (1 / promise.leaf_noise**2 + (promise.sum_bound / promise.sum_noise) ** 2) ** -0.5
    exact = reference.joint_delta(1.0, 140, promise.threshold_noise, promise.cutoff, 20, both)
    assert promise.verify() == pytest.approx(float(exact), rel=1e-11)
    worse = changed(promise, sum_noise=promise.sum_noise * 0.99)
    assert worse.verify() > promise.delta


@pytest.mark.parametrize("name", ["guided", "guided majority", "guided mean", "guided person"])
def test_an_auditor_of_guided_splits(name):
    """Above the Gaussian part, at most the price in zCDP: both by other means."""
    g = PLANS[name]
    r = g.rows_per_person
    one = 1 / g.leaf_noise**2 + (0 if g.sum_noise is None else (g.sum_bound / g.sum_noise) ** 2)
    counts = g.counts_per_record + (0 if g.leaf == "majority" else 4)  # a histogram with half the noise
    gaussian = (g.queries_per_record, g.threshold_noise, g.cutoff, counts, one**-0.5, r)
    assert g.verify() > 1.01 * reference.joint_delta(g.epsilon, *gaussian)
    cut = reference.joint_delta(200, g.queries_per_record, g.threshold_noise, g.cutoff, r=r)
    mu = g.queries_per_record / g.threshold_noise**2 + counts * one
    choices = g.choices_per_record * (g.choice_exponent * g.choice_range) ** 2 / 8
    assert g.verify() <= cut + reference.zcdp_delta(g.epsilon, r**2 * (mu / 2 + choices))
    assert g.choices_per_record == g.n_estimators * g.guided_levels
    assert g.choice_range == (1 if g.leaf == "mean" else 2)
    worse = changed(g, choice_exponent=1.01 * g.choice_exponent)
    assert worse.verify() > g.delta


FITTED = [name for name in PLANS if "fitted" in name]


@pytest.mark.parametrize("name", FITTED)
def test_an_auditor_of_fitted_leaves(name):
    """From the JSON alone; and never above the price of everything in zCDP."""
    record = json.loads(PLANS[name].to_json())
    r, listed = record["rows_per_person"], record["events"]
    exact, above = reference.events_delta(record["epsilon"], listed, r)
    said = PLANS[name].verify()
    assert float(exact) * (1 - 1e-6) <= said <= float(exact) * (1 + above)
    rho = sum(
        e["count"] * (e["exponent"] * e["score_range"]) ** 2 / 8
        if e["kind"] == "choices"
        else e["count"] * (e.get("reach", 1) / e["noise"]) ** 2 / 2
        for e in listed
    )
    cut, _ = reference.events_delta(200, [{**e, "noise": 1e9} if "reach" in e else e for e in listed], r)
    assert said <= float(reference.zcdp_delta(record["epsilon"], r**2 * rho) + cut)
    assert [(e["use"], e["count"]) for e in listed[-3:]] == [
        ("sizes", 1),
        ("columns", 20),
        ("pairs", 60),
    ]
    clips = [(e["count"], e["score_range"]) for e in listed if e["use"] == "clips"]
    assert clips == ([(2, 1.8)] if "mean" in name else [])
    assert (record["method"], record["structure_share"]) == ("none", None)


@pytest.mark.parametrize("name", FITTED)
def test_less_noise_of_a_fit_is_noticed(name):
    promise = PLANS[name]
    for place, event in enumerate(promise.events):
        if isinstance(event, NoisySums):
            claims = [{"noise": 0.995 * event.noise}, {"count": math.ceil(1.01 * event.count)}]
            claims += [{"reach": event.reach + 1}]
        elif isinstance(event, Choices):
            claims = [{"exponent": 1.1 * event.exponent}]
        else:
            continue
        for claim in claims:
            listed = list(promise.events)
            listed[place] = dataclasses.replace(event, **claim)
            worse = dataclasses.replace(promise, events=tuple(listed))
            assert promise.delta < worse.verify() < 1.0


def altered(name, which, **claims):
    """Events of a plan with another number in the last of a use."""
    listed = list(PLANS[name].events)
    place = max(i for i, event in enumerate(listed) if event.use == which)
    listed[place] = dataclasses.replace(listed[place], **claims)
    return {"events": tuple(listed)}


def without(name, use):
    return {"events": tuple(event for event in PLANS[name].events if event.use != use)}


USES = {
    "fitted": ["categories", "cuts", "sizes", "columns", "pairs"],
    "fitted declared": ["sizes", "columns", "pairs"],
    "fitted person": ["categories", "cuts", "sizes", "columns", "pairs"],
    "fitted mean": ["categories", "cuts", "scale", "clips", "sizes", "columns", "pairs"],
    "fitted mean person": ["categories", "scale", "clips", "sizes", "columns", "pairs"],
}


@pytest.mark.parametrize("name", FITTED)
def test_a_fit_that_leaves_something_out_promises_nothing(name):
    promise = PLANS[name]
    pairs = promise.event("pairs")
    other = "fitted-mean" if promise.leaf == "fitted" else "fitted"
    claims = [
        *(without(name, use) for use in USES[name]),
        altered(name, "sizes", count=0),
        altered(name, "columns", count=19),
        altered(name, "pairs", count=59),
        altered(name, "pairs", use="columns"),
        altered(name, "pairs", use="leaves"),
        altered(name, "sizes", use="calibration"),
        altered(name, "columns", use="anything"),
        altered(name, "pairs", reach=0),
        altered(name, "pairs", reach=-1),
        altered(name, "sizes", noise=0.0),
        altered(name, "columns", noise=-1.0),
        {"events": promise.events[::-1]},
        {"events": (*promise.events, pairs)},
        {"events": (*promise.events[:-1], NoisySums(60, 1e9))},
        {"events": (*promise.events[:-1], Choices(60, 1e-9, 2.0, use="clips"))},
        {"events": (PLANS["random"].event("structure"), *promise.events)},
        {"accounting": "paper", "caveats": (NOT_PROVED,)},
        {"accounting": "zcdp"},
        *({"method": method} for method in ("sparse", "gaussian", "two-sided", "composed")),
        *({"leaf": leaf} for leaf in (other, "counts", "majority", "mean", "none", "prefixes")),
        {"n_estimators": 0},
        {"assumptions": ()},
        {"unit": "row", "rows_per_person": 2},
    ]
    assert promise.verify() <= promise.delta
    for claim in claims:
        assert dataclasses.replace(promise, **claim).verify() == 1.0, claim


@pytest.mark.parametrize("name", ["fitted mean", "fitted mean person"])
@pytest.mark.parametrize("claim", [{"score_range": 1.79}, {"count": 1}, {"exponent": 0.0}])
def test_clips_are_paid_in_full(name, claim):
    assert dataclasses.replace(PLANS[name], **altered(name, "clips", **claim)).verify() == 1.0
    wider = altered(name, "clips", score_range=2.5)
    assert PLANS[name].delta < dataclasses.replace(PLANS[name], **wider).verify() < 1.0


def test_classes_have_no_clips():
    clips = PLANS["fitted mean"].event("clips")
    *learned, sizes, columns, pairs = PLANS["fitted"].events
    listed = (*learned, clips, sizes, columns, pairs)
    assert dataclasses.replace(PLANS["fitted"], events=listed).verify() == 1.0


@pytest.mark.parametrize("name", ["guided", "guided mean"])
def test_the_budget_of_guided_splits_is_shared_as_documented(name):
    """Of mu^2: 30 % for choices, where eta^2/4 counts like mu^2, 35 % for pruning and for leaves."""
    g = PLANS[name]
    one = 1 / g.leaf_noise**2 + (0 if g.sum_noise is None else (g.sum_bound / g.sum_noise) ** 2)
    parts = (
        g.choices_per_record * (g.choice_exponent * g.choice_range) ** 2 / 4,
        g.queries_per_record / g.threshold_noise**2,
        g.counts_per_record * one,
    )
    shares = [part / sum(parts) for part in parts]
    assert shares == pytest.approx([0.3, 0.35, 0.35], rel=1e-6)


def test_an_auditor_of_the_paper_mode():
    record = json.loads(PLANS["paper"].to_json())
    queries, labels = record["events"]
    structure = reference.theorem1_delta(
        0.75 * record["epsilon"], 210, queries["noise"], queries["cutoff"]
    )
    assert (labels["count"], labels["score_range"]) == (30, 1)
    leaves = reference.zcdp_delta(0.25 * record["epsilon"], 30 * labels["exponent"] ** 2 / 8)
    assert PLANS["paper"].verify() == pytest.approx(float(structure + leaves), rel=1e-10)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(("field", "factor"), [("threshold_noise", 0.8), ("leaf_noise", 0.99)])
def test_less_noise_is_noticed(name, field, factor):
    """A slightly smaller threshold noise alone may even help: it also crosses the cut-off less."""
    noise = getattr(PLANS[name], field)
    if (name, field) == ("paper", "leaf_noise"):  # labels by the exponential mechanism
        assert changed(PLANS[name], choice_exponent=1 / (noise * factor)).verify() > PLANS[name].delta
    elif noise is not None and "fitted" not in name:
        assert changed(PLANS[name], **{field: noise * factor}).verify() > PLANS[name].delta


@pytest.mark.parametrize(
    "change",
    [
        {"queries_per_record": 139},
        {"counts_per_record": 19},
        {"cutoff": None},
        {"cutoff": 600.0},
        {"cut": 1},
        {"cut": -1},
        {"threshold": 400.0},
        {"threshold": math.nan},
        {"n_estimators": 0},
        {"n_estimators": 21},
        {"max_depth": 0},
        {"max_depth": 128},
        {"events": ()},
        {"events": PLANS["random"].events[:1]},
        {"events": PLANS["random"].events[::-1]},
        {"events": PLANS["random"].events * 600},
        {"events": (None, 1)},
        {"leaf_noise": -1.0},
        {"threshold_noise": 0.0},
        {"epsilon": -1.0},
        {"unit": "group"},
        {"assumptions": ()},
        {"rows_per_person": 2},
        {"leaf": "exponential"},
        {"method": "gaussian"},
        {"method": "top-down"},
        {"neighbours": "replace"},
        {"accounting": "paper"},
    ],
)
def test_a_record_that_contradicts_itself_promises_nothing(change):
    claim = changed(PLANS["random"], **change)
    assert claim.verify() > claim.delta


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gaussian", {"cut": 100}),
        ("paper", {"caveats": ()}),
        ("paper", {"choice_exponent": math.inf}),
        ("paper", {"choice_range": 0.5}),  # one record raises a class count by 1
        ("paper", {"cutoff": 1e4}),
        ("paper counts", {"leaf_noise": 0.0}),
        ("paper counts", {"accounting": "zcdp"}),
        ("paper", {"queries_per_record": 10**18}),
        ("person", {"method": "two-sided"}),
        ("random", {"events": (*PLANS["random"].events, NoisySums(1, 1e9))}),
        ("random", {"leaf": "anything"}),
        ("random", {"method": "composed"}),
        ("guided", {"choices_per_record": 20 * 101}),  # of 100 levels in all
        ("guided", {"choices_per_record": 0}),
        ("guided", {"choices_per_record": 119}),
        ("guided", {"choice_exponent": None}),
        ("guided", {"choice_exponent": 0.0}),
        ("guided", {"choice_range": 1.0}),
        ("guided", {"choice_range": None}),
        ("guided", {"counts_per_record": 19}),
        ("guided", {"events": PLANS["guided"].events[:-1]}),  # the histogram for nothing
        ("guided", {"events": (*PLANS["guided"].events[:-1], NoisySums(1, 1e9))}),
        ("guided", {"events": (*PLANS["guided"].events[:-1], NoisySums(0, 17.9))}),
        ("guided", {"accounting": "paper", "caveats": (NOT_PROVED,)}),
        ("guided mean", {"choice_range": 0.5}),
        ("guided person", {"choices_per_record": 50}),  # of 4 levels in all
        ("mean", {"sum_noise": None}),
        ("mean", {"sum_bound": None}),
        ("mean", {"events": PLANS["mean"].events[:2]}),
        ("mean", {"sum_bound": 0}),
        ("mean", {"sum_noise": -5.0}),
        ("person", {"method": "gaussian", "cutoff": None, "cut": -1}),
    ],
)
def test_so_does_one_that_mixes_what_is_not_proved_together(name, change):
    assert changed(PLANS[name], **change).verify() == 1.0


def test_frozen_and_readable():
    promise = PLANS["random"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        promise.epsilon = 2.0
    text = str(promise)
    for part in (
        "(1, 1e-06)-differential privacy",
        "joint bound",
        "140 threshold queries",
        "caveats     none",
    ):
        assert part in text
    assert f"{promise.suggested_rows:,} rows" in text
    assert promise.suggested_rows == math.ceil(20 * promise.threshold)
    assert "person with up to 4 rows" in str(PLANS["person"])


def test_paper_mode_says_what_is_not_proved():
    promise = PLANS["paper"]
    assert promise.theorem == "Theorem 1 of the paper; not proved for adaptive queries"
    assert promise.caveats == (NOT_PROVED,)
    assert NOT_PROVED in str(promise)


def test_a_larger_threshold_raises_the_cut_and_nothing_else():
    smallest = PLANS["random"]
    larger = plain(1.0, 1e-6, splits="random", threshold=smallest.threshold + 10.5)
    assert larger.cut == 10
    assert larger.threshold_noise == smallest.threshold_noise
    assert larger.verify() == smallest.verify()
    exactly = plain(1.0, 1e-6, splits="random", threshold=smallest.threshold)
    assert exactly.cut == 0
    person = PLANS["person"]
    assert person.threshold >= person.cut + 4 + person.cutoff > person.threshold - 1


def test_edges_of_the_promise():
    for epsilon, delta, k, h in [(0.001, 1e-15, 10_000, 10**6), (100.0, 0.1, 1, 1)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            promise = plan(epsilon, delta, k, h)
        assert 0.999 * delta <= promise.verify() <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "said"),
    [
        (25.0, 1e-6, [r"epsilon = 25 is almost no protection: one row .* factor of 7.2e\+10"]),
        (1e6, 1e-6, [r"epsilon = 1e\+06 is almost no protection: .* factor of more than 1e300"]),
        (1.0, 0.01, ["delta = 0.01 is almost no protection"]),
        (20.5, 0.5, ["epsilon = 20.5 is", "delta = 0.5 is"]),
        (20.0, 0.0099, []),
    ],
)
def test_numbers_that_promise_next_to_nothing_are_said(epsilon, delta, said):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        promise = plan(epsilon, delta)
    assert [w.category for w in caught] == [PrivacyLeakWarning] * len(said)
    for warning, text, weakness in zip(caught, said, promise.weaknesses, strict=True):
        assert warning.filename == __file__
        assert re.match(text, str(warning.message))
        assert weakness == str(warning.message)
        assert f"  weak        {weakness}" in str(promise)
    assert promise.caveats == ()


def test_the_unit_follows_from_the_rows_or_is_said():
    assert plan(1.0).unit == "row"
    assert plan(1.0, rows_per_person=2).unit == "person"
    assert plan(1.0, unit="person") == changed(plan(1.0), unit="person")
    with pytest.raises(ValueError, match="rows_per_person=2 makes persons the unit"):
        plan(1.0, rows_per_person=2, unit="row")
    with pytest.raises(ValueError, match="unit must be one of 'row', 'person', got 'household'"):
        plan(1.0, unit="household")


def test_what_a_promise_rests_on_is_said():
    assert plan(1.0).assumptions == FOREST_ASSUMPTIONS
    assert any("fit succeeded" in text for text in FOREST_ASSUMPTIONS)
    assert any("names and kinds of the columns" in text for text in FOREST_ASSUMPTIONS)
    assert all(f"  assumption  {text}" in str(plan(1.0)) for text in FOREST_ASSUMPTIONS)
    search = plan_heavy_hitters(1.0, 1e-6, 4)
    assert any("search succeeded" in text for text in search.assumptions)
    assert changed(search, assumptions=FOREST_ASSUMPTIONS).verify() == 1.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilon": 0}, "epsilon must be positive, got 0"),
        ({"epsilon": -1}, "epsilon must be positive, got -1"),
        ({"epsilon": math.nan}, "epsilon must be a number, got NaN"),
        ({"delta": 1.0}, r"delta must lie in \(0, 1\), got 1"),
        ({"delta": 0.0}, r"delta must lie in \(0, 1\), got 0"),
        ({"n_estimators": 0}, "n_estimators must be at least 1, got 0"),
        ({"max_depth": -3}, "max_depth must be at least 1, got -3"),
        (
            {"threshold": 400, "leaf": "counts"},
            "threshold must be at least 537.504 for this budget, got 400; leave it out",
        ),
        ({"threshold": math.nan, "leaf": "counts"}, "threshold must be a number, got NaN"),
        ({"threshold": math.inf, "leaf": "counts"}, "threshold must be a number of records"),
        ({"threshold": 1e19, "leaf": "counts"}, "threshold must be a number of records"),
        ({"epsilon": 1e26}, "epsilon must be at most a million"),
        ({"delta": 1e-320}, "delta must be at least 1e-300"),
        ({"max_depth": 10**30}, "max_depth must be at most a billion"),
        (
            {"structure_share": 1.5, "leaf": "majority"},
            "structure_share must lie strictly between 0 and 1, got 1.5",
        ),
        ({"threshold": 900}, "threshold is for trees that are pruned; leave it out"),
        ({"structure_share": 0.5}, "structure_share is for trees that are pruned; leave it out"),
        ({"leaf": "fitted", "splits": "random"}, 'use leaf="counts"'),
        ({"leaf": "fitted", "accounting": "paper"}, 'fitted leaves need accounting="joint"'),
        ({"leaf": "fitted-mean", "target": False}, "leave target=False out"),
        ({"accounting": "magic"}, "accounting must be one of 'joint', 'paper', got 'magic'"),
        ({"leaf": "median"}, "leaf must be one of"),
        ({"splits": "magic"}, "splits must be one of 'guided', 'random', got 'magic'"),
        ({"splits": "guided", "accounting": "paper"}, 'splits="guided" needs accounting="joint"'),
        ({"leaf": "exponential"}, 'needs accounting="paper"'),
        ({"rows_per_person": 2, "accounting": "paper"}, 'needs accounting="joint"'),
    ],
)
def test_bad_parameters_are_named(kwargs, message):
    with pytest.raises(ValueError, match=message):
        plan(**{"epsilon": 1.0, "delta": 1e-6, **kwargs})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        PLANS["random"].to_json().replace('"epsilon": 1.0', '"epsilon": "1.0"'),
        PLANS["random"].to_json().replace('"epsilon": 1.0', '"epsilon": true'),
        PLANS["random"].to_json().replace('"epsilon": 1.0', '"epsilon": NaN'),
        PLANS["random"].to_json().replace('"unit": "row"', '"unit": "village"'),
        PLANS["random"].to_json().replace('"n_estimators": 20', '"n_estimators": 20.5'),
        PLANS["random"].to_json().replace('"cut":', '"cuts":'),
        PLANS["random"].to_json().replace("{", '{"epsilon": 50.0,'),
        PLANS["random"].to_json().replace('"n_estimators": 20', f'"n_estimators": {10**400}'),
        "[" * 100_000,
        PLANS["random"].to_json().replace('"caveats": []', '"caveats": [1]'),
        PLANS["random"].to_json().replace('"noisy sums"', '"noisy thoughts"'),
        PLANS["random"].to_json().replace('"noisy sums"', '["noisy sums"]'),
        PLANS["random"].to_json().replace('"reach": 1', '"reach": 1.5'),
        PLANS["random"].to_json().replace('"reach": 1,', ""),
        PLANS["random"].to_json().replace('"reach": 1,', '"reach": 1, "reach": 1,'),
        PLANS["random"].to_json().replace('"reach": 1,', '"reach": 1, "cut": 1,'),
        PLANS["random"].to_json().replace('"cutoff"', '"cut-off"'),
        PLANS["random"].to_json().replace('"events": [', '"events": [[], '),
        PLANS["random"].to_json().replace('"events": [', '"events": [{}, '),
        PLANS["random"].to_json().replace('"events": [', '"events": [7, '),
        re.sub(r'"events": \[.*?\]', '"events": {}', PLANS["random"].to_json(), flags=re.DOTALL),
        json.dumps(
            {
                **json.loads(PLANS["random"].to_json()),
                "events": [dataclasses.asdict(NoisySums(1, 1.0))] * 1001,
            }
        ),
    ],
)
def test_what_is_not_a_guarantee_is_refused(text):
    with pytest.raises(ValueError, match="not a guarantee"):
        Guarantee.from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"accounting": "Paper", "caveats": ()},
        {"method": "dense"},
        {"delta": 5.0},
        {"structure_share": 7.0},
    ],
)
def test_unknown_words_and_absurd_shares_promise_nothing(change):
    assert dataclasses.replace(PLANS["paper"], **change).verify() == 1.0


def test_a_search_of_negative_depth_promises_nothing():
    promise = PLANS["top-down"]
    (queries,) = promise.events
    none = dataclasses.replace(queries, count=0)
    assert dataclasses.replace(promise, max_depth=-5, events=(none,)).verify() == 1.0


@pytest.mark.parametrize("field", ["assumptions", "caveats"])
def test_records_cannot_add_lines(field):
    record = json.loads(PLANS["guided"].to_json())
    record[field] = [*record[field], "x\n  recomputed  delta = 0"]
    with pytest.raises(ValueError, match=f"{field} must be printable"):
        Guarantee.from_json(json.dumps(record))


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 5e-324},
        {"epsilon": 1e-12, "delta": 8.2e-193, "n_estimators": 1000, "rows_per_person": 2},
        {"epsilon": 1.0, "accounting": "paper", "structure_share": 1e-300},
    ],
)
def test_budgets_beyond_floats_are_refused(settings):
    with pytest.raises(ValueError, match=r"at least 1e-50|threshold of .* records"):
        plan(**settings)
