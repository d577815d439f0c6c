import json
import math
from pathlib import Path

import numpy as np
import pytest
import reference
from promises import forest
from scipy.stats import norm

from lumberjack.accounting import (
    Choices,
    NoisySums,
    ThresholdQueries,
    calibrate,
    calibrate_paper,
    gaussian_mu,
    joint_delta,
    queries_per_tree,
    theorem1_delta,
    zcdp_delta,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
EPSILONS = [0.001, 0.05, 1.0, 8.0, 100.0]
DELTAS = [1e-15, 1e-6, 0.1]
SHAPES = [(1, 1), (20, 100), (10_000, 10**6)]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("k", "h"), SHAPES)
@pytest.mark.parametrize("rows", [1, 7])
def test_joint_keeps_the_promise_in_sixty_digits(epsilon, delta, k, h, rows):
    m = k * queries_per_tree(h)
    queries, leaves = calibrate(epsilon, delta, forest(m, k, 0.4), rows)
    exact = reference.joint_delta(epsilon, m, queries.noise, queries.cutoff, k, leaves.noise, rows)
    assert 0.999 * delta <= exact <= delta
    assert joint_delta(epsilon, [queries, leaves], rows) <= delta
    assert queries.threshold == queries.cutoff + rows
    assert k / leaves.noise**2 == pytest.approx(0.4 / 0.6 * m / queries.noise**2)


@pytest.mark.parametrize(
    ("epsilon", "delta", "m"), [(1e-12, 1e-15, 140), (1e-9, 1e-15, 10**6), (1e-6, 1e-100, 10**9)]
)
def test_noise_grows_where_rounding_takes_more_than_the_margin(epsilon, delta, m):
    """With a million rows a person and a tiny budget, the threshold is rounded by too much."""
    queries, leaves = calibrate(epsilon, delta, forest(m, 20), 10**6)
    assert queries.threshold == queries.cutoff + 10**6
    assert joint_delta(epsilon, [queries, leaves], 10**6) <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "m", "k"), [(1.0, 1e-6, 140, 20), (0.01, 0.1, 7, 1), (50.0, 1e-12, 7, 1)]
)
def test_joint_threshold_is_the_smallest(epsilon, delta, m, k):
    """A dense scan over the split of delta, with independent formulas."""
    best = math.inf
    for t in np.geomspace(1e-6, 1 - 1e-6, 4000):
        mu = gaussian_mu(epsilon, delta * (1 - t))
        sigma = math.sqrt(m / 0.5) / mu
        best = min(best, 1 + sigma * norm.isf(-math.expm1(math.log1p(-delta * t) / m)))
    assert calibrate(epsilon, delta, forest(m, k))[0].threshold <= best * (1 + 1e-5)


@pytest.mark.parametrize("row", VECTORS["paper_calibration"])
def test_paper_settings_reach_the_reference_threshold(row):
    found, _ = calibrate_paper(row["epsilon"], row["delta"], m=row["m"])
    assert found.threshold <= row["tau_about"] + 0.01
    assert found.noise == pytest.approx(row["sigma_about"], rel=1e-3)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("k", "h"), SHAPES)
def test_paper_keeps_its_promise(epsilon, delta, k, h):
    m = k * queries_per_tree(h)
    found, rho = calibrate_paper(epsilon, delta, m=m)
    first = theorem1_delta(0.75 * epsilon, m=m, sigma=found.noise, Delta=found.cutoff)
    second = zcdp_delta(0.25 * epsilon, rho)
    assert 0.999 * 0.75 * delta <= first <= 0.75 * delta
    assert 0.999 * 0.25 * delta <= second <= 0.25 * delta
    if m <= 140:
        assert reference.theorem1_delta(0.75 * epsilon, m, found.noise, found.cutoff) <= 0.75 * delta


def test_without_cutoffs_all_of_delta_buys_mu():
    uncut = ThresholdQueries(7, 1.0, None, 3.0, -1)
    queries, sums = calibrate(1.0, 1e-6, [((uncut,), 0.5), ((NoisySums(3, 1.0),), 0.5)])
    exact = reference.gaussian_delta(1.0, (7 / queries.noise**2 + 3 / sums.noise**2) ** 0.5)
    assert 0.999e-6 <= exact <= 1e-6
    assert queries == ThresholdQueries(7, queries.noise, None, 3.0, -1)
    choices, sums = calibrate(1.0, 1e-6, [((Choices(9, 1.0, 2.0),), 0.3), ((NoisySums(3, 1.0),), 0.7)])
    assert 0.999e-6 <= joint_delta(1.0, [choices, sums]) <= 1e-6


def test_events_of_one_part_keep_their_proportions():
    sums = NoisySums(2, 1.0), NoisySums(3, 4.0, 8)
    queries, one, other = calibrate(1.0, 1e-6, half(sums))
    assert other.noise == pytest.approx(4 * one.noise)
    assert 2 / one.noise**2 + 3 * 64 / other.noise**2 == pytest.approx(7 / queries.noise**2)


def half(sums):
    return [((ThresholdQueries(7, 1.0, 0.0, 0.0),), 0.5), (sums, 0.5)]


@pytest.mark.parametrize("rows", [1, 5])
def test_several_kinds_of_queries_share_the_cutoffs_part_of_delta(rows):
    """By their counts: each kind crosses its cut-off with the same chance a query."""
    few = ThresholdQueries(10, 1.0, 0.0, 0.0, use="categories")
    many = ThresholdQueries(140, 1.0, 0.0, 0.0)
    parts = [((few,), 0.05), ((many,), 0.55), ((NoisySums(20, 1.0),), 0.4)]
    a, b, sums = calibrate(1.0, 1e-6, parts, rows)
    assert (a.use, b.use, a.cut, b.cut) == ("categories", "structure", 0, 0)
    for event in (a, b):
        assert event.threshold == event.cutoff + rows
    if rows == 1:
        assert a.cutoff / a.noise == pytest.approx(b.cutoff / b.noise, rel=1e-9)
    mu = rows * (10 / a.noise**2 + 140 / b.noise**2 + 20 / sums.noise**2) ** 0.5
    quiet = 0.0
    for event in (a, b):
        together = event.count * norm.logcdf(event.cutoff / event.noise)
        apart = rows * event.count * norm.logcdf((event.cutoff + rows - 1) / event.noise)
        quiet += min(together, apart)
    exact = float(reference.gaussian_delta(1.0, mu)) - math.expm1(quiet)
    assert 0.99e-6 <= exact <= 1e-6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0}, "epsilon must be positive, got 0"),
        ({"epsilon": -1}, "epsilon must be positive, got -1"),
        ({"epsilon": math.nan}, "epsilon must be a number, got NaN"),
        ({"epsilon": math.inf}, "epsilon must be finite"),
        ({"delta": 0}, r"delta must lie in \(0, 1\), got 0"),
        ({"delta": 1}, r"delta must lie in \(0, 1\), got 1"),
        ({"parts": forest(0)}, "count must be at least 1, got 0"),
        ({"parts": forest(7, 1, 1.0)}, "share must lie strictly between 0 and 1, got 0"),
        ({"parts": forest(7, 1, 1.5)}, "share must lie strictly between 0 and 1, got -0.5"),
        ({"parts": forest(7) * 2}, "shares must add up to at most 1"),
        ({"rows_per_person": 0}, "rows_per_person must be at least 1"),
    ],
)
def test_bad_parameters_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        calibrate(**{"epsilon": 1.0, "delta": 1e-6, "parts": forest(7, 1), **changes})


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match=r"count must be a whole number, got 2\.5"):
        calibrate(1.0, 1e-6, forest(2.5))
    with pytest.raises(TypeError, match="epsilon must be a number, got '1'"):
        calibrate("1", 1e-6, forest(2))
