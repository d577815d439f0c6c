"""Whatever a record claims: ``verify`` answers soon, in little memory, and never underprices it."""

import dataclasses
import json
import os
import random
import signal
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
import reference
from promises import changed, plain

from lumberjack import Choices, Guarantee, NoisySums, ThresholdQueries, compose, plan
from lumberjack.accounting import adaptive, bounded_range_delta, sparse, theorem1_delta, zcdp_delta
from lumberjack.guarantee import LIMITS_FIXED
from lumberjack.planning import plan_heavy_hitters

ROUNDS = max(300, int(os.environ.get("LUMBERJACK_FUZZ", "0")))
BASES = [
    plain(1.0, 1e-6, leaf="counts"),
    plan(1.0, 1e-6, leaf="mean"),
    plan(2.0, 1e-5, 10, 4, leaf="counts", rows_per_person=4),
    plain(1.0, 1e-6, splits="random"),
    plan(1.0, 1e-6, 30, accounting="paper", leaf="exponential"),
    plan(0.5, 1e-6, 50, accounting="paper"),
    plan_heavy_hitters(1.0, 1e-6, 32, counts=True),
    plan_heavy_hitters(1.0, 1e-6, 4, method="gaussian", dense_nodes=340),
    plan(1.0, 1e-6),
    plan(1.0, 1e-6, leaf="fitted-mean", rows_per_person=3),
]
TOGETHER = compose(BASES[:2])
WHOLE = [0, 1, 2, 7, 160, 1000, 3999, 4000, 4001, 10**5, 10**9, 2**62, -1]
REAL = [0.0, 5e-324, 1e-300, 1e-100, 1e-9, 0.01, 0.5, 1.0, 600.0, 1e6, 1e15, 1e100, 1e308, -1.0, -1e308]


@pytest.fixture
def counted(monkeypatch):
    """Evaluations of the Gaussian curve, and steps of the recursion over choices."""
    work = {"curve": 0, "steps": 0}

    def curve(epsilon, mu):
        work["curve"] += np.broadcast(epsilon, mu).size
        assert work["curve"] < 500_000  # a third of a second
        return real(epsilon, mu)

    def steps(f, choices, eta, r, done):
        work["steps"] += sum(r * min(done + j * r, f.size - 2 * r) for j in range(1, choices + 1))
        assert work["steps"] < 3e7  # half a second
        choose(f, choices, eta, r, done)

    real, choose = sparse.gaussian_delta, adaptive._choose
    monkeypatch.setattr(sparse, "gaussian_delta", curve)
    monkeypatch.setattr(adaptive, "gaussian_delta", curve)
    monkeypatch.setattr(adaptive, "_choose", steps)
    adaptive._worst_case.cache_clear()
    return work


@contextmanager
def alarm(seconds):
    """A guard for what the counts miss: end the process if it hangs."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def check(record, work):
    work.update(curve=0, steps=0)
    with alarm(20):
        delta = record.verify()
        work.update(curve=0, steps=0)
        assert f"delta = {delta:.8g}" in str(record)
    assert 0 <= delta <= 1, record
    return delta


def wild(rng):
    """A record with absurd numbers, as JSON lets it in."""
    record = json.loads(rng.choice(BASES).to_json())
    numbers = [
        (part, name)
        for part in (record, *record["events"])
        for name, value in part.items()
        if isinstance(value, int | float)
    ]
    for part, name in rng.sample(numbers, rng.choice([1, 1, 2, 3, 5, 8])):
        part[name] = rng.choice(WHOLE if isinstance(part[name], int) else WHOLE + REAL)
    return Guarantee.from_json(json.dumps(record))


def test_wild_records_are_priced_with_bounded_work(counted):
    rng = random.Random(20260101)
    priced = sum(0 < check(wild(rng), counted) < 1 for _ in range(ROUNDS))
    assert priced > ROUNDS / 30  # many get as far as the formulas


@pytest.mark.parametrize(
    ("base", "claim"),
    [
        (4, {"queries_per_record": 10**9}),
        (4, {"queries_per_record": 10**6}),
        (5, {"queries_per_record": 10**9, "threshold_noise": 1e4}),
        (5, {"queries_per_record": 10**9, "threshold_noise": 5e-324}),
        (3, {"queries_per_record": 10**9, "max_depth": 10**9, "rows_per_person": 10**9}),
        (0, {"max_depth": 10**9, "choices_per_record": 10**9, "choice_exponent": 1e-100}),
        (0, {"max_depth": 10**4, "choices_per_record": 4000, "choice_exponent": 1e-100}),
        (0, {"max_depth": 10**4, "choices_per_record": 4000, "choice_exponent": 25.0}),
        (0, {"max_depth": 10**4, "choices_per_record": 4000, "choice_exponent": 5.0, "epsilon": 1e6}),
        (1, {"sum_bound": 10**9}),
    ],
)
def test_hostile_records_are_priced_with_bounded_work(counted, base, claim):
    check(changed(BASES[base], **claim), counted)


def composed(events, **claims):
    """A record of several releases, which may claim any list of events."""
    return dataclasses.replace(TOGETHER, events=tuple(events), **claims)


def test_wild_lists_of_events_are_priced_with_bounded_work(counted):
    rng = random.Random(7)
    priced = 0
    for _ in range(ROUNDS // 10):
        spread = rng.choice([0.0, 1.0, 4.0, 8.0])
        choices = [
            Choices(rng.choice([1, 1, 4, 30]), 10 ** rng.uniform(-4, spread - 4), rng.choice([1.0, 2.0]))
            for _ in range(rng.choice([1, 3, 40, 998]))
        ]
        listed = [ThresholdQueries(140, 86.0, 504.0, 505.0), *choices, NoisySums(20, 35.0)]
        accounting, epsilon = rng.choice(["joint", "joint", "zcdp"]), 10 ** rng.uniform(-2, 2)
        record = composed(listed, accounting=accounting, epsilon=epsilon)
        if accounting == "zcdp":
            record = dataclasses.replace(record, assumptions=(LIMITS_FIXED,))
        priced += 0 < check(record, counted) < 1
    assert priced > ROUNDS / 50


@pytest.mark.parametrize("number", [1001, 300_000])
def test_endless_lists_of_events_are_refused(counted, number):
    listed = [Choices(1, 1e-2 + 1e-9 * i, 1.0) for i in range(1, number + 1)]
    claim = composed(listed)
    work = dict(counted)
    assert claim.verify() == 1.0
    assert counted == work  # nothing was computed
    with pytest.raises(ValueError, match="events must be a list of at most 1,000"):
        Guarantee.from_json(claim.to_json())
    assert 0 < composed(listed[:998]).verify() < 1


def test_a_paper_record_with_flat_curves_is_never_priced_below_the_maximum(monkeypatch):
    """Against the printed formula over every j, also where the search gives up at once."""
    rng = np.random.default_rng(5)
    for most in (0, 4, 2048):
        monkeypatch.setattr(sparse, "_MOST_BLOCKS", most)
        for _ in range(4):
            m = int(rng.integers(70, 110))  # more than the 64 blocks of the start
            sigma, Delta = 10 ** rng.uniform(-0.5, 2), 10 ** rng.uniform(-1, 2.5)
            epsilon = 10 ** rng.uniform(-3, 1)
            exact = float(reference.theorem1_delta(epsilon, m, sigma, Delta))
            found = theorem1_delta(epsilon, m=m, sigma=sigma, Delta=Delta)
            assert found >= exact * (1 - 1e-11)
            if most == 2048:
                assert found == pytest.approx(exact, rel=1e-11)


def test_calibrated_noise_never_reaches_the_limits(monkeypatch):
    """So promises made before there were limits are verified to the last digit."""
    for epsilon, delta, trees in product((0.01, 1.0, 20.0), (1e-12, 1e-6, 9e-3), (5, 10**4, 10**8)):
        monkeypatch.undo()
        promise = plan(epsilon, delta, trees, accounting="paper")
        monkeypatch.setattr(sparse, "_MOST_BLOCKS", 2**62)
        again = promise.verify()
        monkeypatch.undo()
        assert promise.verify() == again <= delta
    for trees, delta in ((20, 1e-6), (600, 1e-12)):
        monkeypatch.undo()
        promise = plain(1.0, delta, trees)
        monkeypatch.setattr(adaptive, "_MOST_CELLS", 1e30)
        adaptive._worst_case.cache_clear()
        again = promise.verify()
        monkeypatch.undo()
        adaptive._worst_case.cache_clear()
        assert promise.verify() == again <= delta


def test_choices_that_are_too_much_work_cost_what_zcdp_says():
    epsilon, rho = 50_300.0, 0.01**2 / 2 + 4000 * 10.0**2 / 8
    assert bounded_range_delta(epsilon, 0.01, (4000, 10.0)) == zcdp_delta(epsilon, rho) > 0.1
