"""Several releases together: never below what is true, never above basic composition."""

import dataclasses
import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import reference
from dp_accounting.pld import privacy_loss_distribution as pld
from promises import changed, plain
from scipy.stats import norm

from lumberjack import Choices, Guarantee, NoisySums, ThresholdQueries, compose, plan
from lumberjack.accounting import joint_delta, zcdp_events_delta
from lumberjack.guarantee import (
    BUDGETS_FIXED,
    FOREST_ASSUMPTIONS,
    LIMITS_FIXED,
    NOT_PROVED,
    SEARCH_ASSUMPTIONS,
    SEEDED,
)
from lumberjack.planning import plan_heavy_hitters

PARTS = {
    "fitted": plan(0.6, 1e-6, columns=(4, 3)),
    "fitted mean": plan(0.4, 1e-7, leaf="fitted-mean", columns=(0, 2)),
    "columns": plan(0.7, 1e-6, leaf="counts", columns=(4, 3)),
    "guided": plain(1.0, 1e-6, leaf="counts"),
    "small": plain(0.1, 1e-7, 5, leaf="counts"),
    "mean": plain(0.5, 1e-6, 10, leaf="mean"),
    "random": plain(2.0, 1e-6, splits="random"),
    "two-sided": plan_heavy_hitters(0.3, 1e-7, 16, method="two-sided"),
    "gaussian": plan_heavy_hitters(0.5, 1e-6, 4, method="gaussian", counts=True, dense_nodes=9),
}
PAIRS = list(itertools.combinations_with_replacement(PARTS, 2))


@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_between_each_part_alone_and_basic_composition(names):
    parts = [PARTS[name] for name in names]
    both = compose(parts)
    assert both.delta == sum(part.delta for part in parts)
    assert both.verify() <= both.delta
    assert dataclasses.replace(both, epsilon=both.epsilon * (1 - 1e-6)).verify() > both.delta
    assert both.epsilon < sum(part.epsilon for part in parts)
    for part in parts:
        alone = joint_delta(both.epsilon, part.events)
        assert alone <= both.verify()


@pytest.mark.parametrize("name", PARTS)
def test_one_part_keeps_its_epsilon(name):
    part = PARTS[name]
    assert 0.9999 * part.epsilon <= compose([part]).epsilon <= part.epsilon


def test_gaussian_releases_by_dp_accounting():
    parts = [
        plan_heavy_hitters(epsilon, 1e-6, 4, method="gaussian", counts=counts, dense_nodes=9)
        for epsilon, counts in ((0.3, False), (0.7, True), (1.0, False))
    ]
    both = compose(parts, delta=1e-6)
    theirs = [
        pld.from_gaussian_mechanism(event.noise, sensitivity=math.sqrt(event.count))
        for part in parts
        for event in part.events
    ]
    whole = theirs[0]
    for one in theirs[1:]:
        whole = whole.compose(one)
    assert both.epsilon == pytest.approx(whole.get_epsilon_for_delta(1e-6), rel=2e-3)
    assert whole.get_delta_for_epsilon(both.epsilon) == pytest.approx(1e-6, rel=2e-2)


def test_an_auditor_of_two_forests():
    """Random splits: the printed formula in sixty digits."""
    parts = [plain(1.0, splits="random"), plain(0.4, 1e-7, 5, 9, splits="random", threshold=2000)]
    both = compose(parts)
    mu, quiet = 0, mp.mpf(1)
    for part in parts:
        queries, leaves = part.events
        mu += queries.count / mp.mpf(queries.noise) ** 2 + leaves.count / mp.mpf(leaves.noise) ** 2
        quiet *= 1 - reference.cutoff_delta(queries.count, queries.noise, queries.cutoff)
    exact = reference.gaussian_delta(both.epsilon, mp.sqrt(mu)) + 1 - quiet
    assert both.verify() == pytest.approx(float(exact), rel=1e-10)
    mixed = [plain(1.0), PARTS["mean"]]
    both, rho, quiet = compose(mixed, adaptive_budgets=True), 0.0, 1.0
    for event in (event for part in mixed for event in part.events):
        if isinstance(event, Choices):
            rho += event.count * (event.exponent * event.score_range) ** 2 / 8
        else:
            rho += event.count * (getattr(event, "reach", 1) / event.noise) ** 2 / 2
        if isinstance(event, ThresholdQueries):
            quiet *= float(norm.cdf(event.cutoff / event.noise)) ** event.count
    expected = float(reference.zcdp_delta(both.epsilon, rho)) + 1 - quiet
    assert both.verify() == pytest.approx(expected, rel=1e-8)
    assert both.epsilon > compose(mixed).epsilon


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def transcripts(rng, steps, with_record):
    """(P, Q) of all transcripts of a random adaptive algorithm that asks these events in this order.

    A record moves counts by 1 and scores within the event's range; at the cut-off it moves a count from
    "never" to "with the noise beyond Delta". The next step of each transcript is drawn anew.
    """
    found = [(1.0, 1.0)]
    for event in steps:
        grown = []
        for p, q in found:
            if isinstance(event, Choices):
                scores = rng.normal(0, 2, rng.integers(2, 4))
                move = rng.integers(0, 2, scores.size) * event.exponent * event.score_range
                one, other = softmax(scores + move), softmax(scores)
            else:
                at_cutoff = rng.random() < 0.5
                z = event.cutoff / event.noise if at_cutoff else rng.normal()
                one = np.array([norm.sf(z), norm.cdf(z)])
                z = math.inf if at_cutoff else z + 1 / event.noise
                other = np.array([norm.sf(z), norm.cdf(z)])
            grown += [(p * a, q * b) for a, b in zip(one, other, strict=True)]
        found = grown
    P, Q = np.array(found).T
    return (P, Q) if with_record else (Q, P)


def test_random_adaptive_algorithms_stay_below_the_bound():
    """Two kinds of threshold queries and choices of two ranges, every transcript enumerated."""
    rng = np.random.default_rng(12)
    closest = 0.0
    for _ in range(150):
        kinds = [
            ThresholdQueries(int(rng.integers(1, 3)), s, s * z, s * z + 1)
            for s, z in zip(10 ** rng.uniform(0, 1, 2), rng.uniform(0.3, 3, 2), strict=True)
        ]
        ranges = [
            Choices(int(rng.integers(1, 3)), float(10 ** rng.uniform(-1.5, 0.3)), 1.0) for _ in "ab"
        ]
        steps = [e for e in ranges for _ in range(e.count)]
        for query in (e for e in kinds for _ in range(e.count)):  # anywhere between the choices
            steps.insert(int(rng.integers(0, len(steps) + 1)), query)
        listed = [*kinds, *ranges]
        for with_record in (True, False):
            P, Q = transcripts(rng, steps, with_record)
            for epsilon in rng.uniform(0, 1.5, 4):
                exact = np.maximum(P - math.exp(epsilon) * Q, 0).sum()
                bound = joint_delta(epsilon, listed)
                assert exact <= bound * (1 + 1e-12)
                assert exact <= zcdp_events_delta(epsilon, listed) * (1 + 1e-12)
                closest = max(closest, exact / bound)
    assert closest > 0.6  # the bound is not vacuous


@pytest.mark.parametrize("rows", [2, 3])
def test_persons_and_two_kinds_of_thresholds(rows):
    """Every way to spread a person's rows over boundary queries of both kinds."""

    def spread(total):
        if total == 0:
            yield ()
        for first in range(1, min(total, rows) + 1):
            yield from ((first, *rest) for rest in spread(total - first))

    kinds = [(2, 3.0, 4.0), (1, 9.0, 2.0)]
    listed = [ThresholdQueries(m, s, D, D + rows) for m, s, D in kinds]
    quietest = [
        min(
            math.prod(norm.cdf((D + rows - j) / s) for j in js)
            for total in range(rows * m + 1)
            for js in spread(total)
        )
        for m, s, D in kinds
    ]
    assert joint_delta(math.inf, listed, rows) == pytest.approx(1 - math.prod(quietest), rel=1e-12)
    assert joint_delta(0.3, listed, rows) > joint_delta(0.3, listed[:1], rows)


def test_persons_have_larger_noise_for_the_same_promise():
    """r rows are r times as far apart: same events for one row, noise divided and ranges times r."""
    parts = [plain(1.0, rows_per_person=3), plain(0.4, rows_per_person=3, leaf="majority")]
    both = compose(parts)
    assert (both.unit, both.rows_per_person) == ("person", 3)
    scaled = []
    for event in both.events:
        if isinstance(event, Choices):
            scaled.append(Choices(event.count, event.exponent, 3 * event.score_range))
        elif isinstance(event, NoisySums):
            scaled.append(NoisySums(event.count, event.noise / 3, event.reach))
        else:
            scaled.append(ThresholdQueries(event.count, event.noise / 3, None, 0.0, -1))
    cut = joint_delta(math.inf, both.events, 3)
    assert both.verify() == pytest.approx(joint_delta(both.epsilon, scaled) + cut, rel=1e-12)
    limited = compose(parts, adaptive_budgets=True)
    expected = zcdp_events_delta(limited.epsilon, scaled) + cut
    assert limited.verify() == pytest.approx(expected, rel=1e-12)


def test_order_and_nesting_of_parts():
    guided, mean, random = PARTS["guided"], PARTS["mean"], PARTS["random"]
    flat = compose([guided, mean, random])
    nested = compose([compose([guided, mean]), random], delta=flat.delta)
    assert nested == dataclasses.replace(flat, epsilon=nested.epsilon)
    assert nested.epsilon == pytest.approx(flat.epsilon, rel=1e-9)
    assert [type(event) for event in compose([random, guided]).events[:3]] == [
        ThresholdQueries,
        NoisySums,
        ThresholdQueries,
    ]


def test_assumptions_of_a_composition_are_listed():
    """The contract of the docstring: budgets or limits were fixed, and the parts' own texts."""
    seeded = dataclasses.replace(PARTS["two-sided"], caveats=(SEEDED,))
    both = compose([PARTS["guided"], seeded, PARTS["guided"]])
    assert both.assumptions == (*FOREST_ASSUMPTIONS, *SEARCH_ASSUMPTIONS, BUDGETS_FIXED)
    assert both.caveats == (SEEDED,)
    assert dataclasses.replace(both, assumptions=FOREST_ASSUMPTIONS).verify() == 1.0
    filtered = compose([both, PARTS["small"]], adaptive_budgets=True)
    assert LIMITS_FIXED in filtered.assumptions
    assert BUDGETS_FIXED not in filtered.assumptions
    again = compose([filtered, PARTS["small"]])  # adaptive budgets stay adaptive
    assert (again.accounting, LIMITS_FIXED in again.assumptions) == ("zcdp", True)
    assert dataclasses.replace(both, accounting="zcdp").verify() == 1.0
    assert "was fixed before the first" in str(both)
    assert "limits on rho" in str(filtered)
    for promise in (both, filtered):
        assert Guarantee.from_json(promise.to_json()) == promise
        assert f"delta = {promise.verify():.8g}" in str(promise)


def test_parts_of_the_paper_are_priced_by_the_joint_bound():
    paper = plain(1.0, 1e-6, 30, accounting="paper", leaf="exponential")
    alone = compose([paper])
    assert alone.accounting == "joint"
    assert NOT_PROVED not in alone.caveats
    queries, labels = paper.events
    mu, eta = math.sqrt(queries.count) / queries.noise, labels.exponent
    least = reference.choices_delta(alone.epsilon, mu, [(30, eta)])
    least += float(reference.cutoff_delta(queries.count, queries.noise, queries.cutoff))
    assert 0.98 * alone.verify() <= least <= alone.verify()


@pytest.mark.parametrize(
    ("parts", "delta", "message"),
    [
        ([], None, "at least one guarantee, got none"),
        ([plain(1.0), plain(1.0, unit="person")], None, r"guarantees\[1\] protects a person \(one row"),
        (
            [plain(1.0, rows_per_person=2), plain(1.0, rows_per_person=3)],
            None,
            "same unit and rows_per_per",
        ),
        ([changed(plain(1.0), epsilon=0.9)], None, r"guarantees\[0\] does not keep its own promise"),
        ([plain(1.0)] * 400, None, "at most 1,000 events in all"),
        ([plain(1.0, leaf="counts")] * 2, 1e-7, "the cut-offs alone need 7.58e-07; give a larger delta"),
        ([plain(1.0)], 1.0, r"delta must lie in \(0, 1\)"),
    ],
)
def test_what_cannot_be_composed_is_refused(parts, delta, message):
    with pytest.raises(ValueError, match=message):
        compose(parts, delta)


def test_only_guarantees_can_be_composed():
    with pytest.raises(TypeError, match="must hold Guarantee objects, got str"):
        compose(["guarantee"])


def test_a_large_delta_is_capped_and_may_be_all():
    weak = [dataclasses.replace(PARTS["small"], delta=0.6)] * 2
    both = compose(weak)
    assert (both.epsilon, both.delta) == (0.0, math.nextafter(1.0, 0.0))
    assert both.verify() <= both.delta
