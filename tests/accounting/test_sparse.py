import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import reference
from promises import events, forest
from scipy.stats import norm

from lumberjack.accounting import (
    NoisySums,
    ThresholdQueries,
    cutoff_delta,
    error_bound,
    gaussian_delta,
    gdp_mu,
    joint_delta,
    lower_bound,
    queries_per_tree,
    simple_parameters,
    theorem1_delta,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.mark.parametrize("row", VECTORS["theorem1_delta"])
def test_theorem1_reference_values(row):
    found = theorem1_delta(row["epsilon"], m=row["m"], sigma=row["sigma"], Delta=row["Delta"])
    assert found == pytest.approx(row["delta"], rel=1e-10)


@pytest.mark.parametrize("row", VECTORS["joint_delta"])
def test_joint_reference_values(row):
    shape = {name: row[name] for name in ("m", "sigma", "Delta", "k", "leaf_sigma")}
    found = joint_delta(row["epsilon"], events(**shape))
    assert found == pytest.approx(row["delta"], rel=1e-10)


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_joint_bound_for_persons_in_sixty_digits(rows):
    arguments = {
        "m": 140,
        "sigma": 90.0 * rows,
        "Delta": 420.0 * rows,
        "k": 20,
        "leaf_sigma": 30.0 * rows,
    }
    exact = reference.joint_delta(1.0, *arguments.values(), rows)
    found = joint_delta(1.0, events(**arguments, rows=rows), rows)
    assert found == pytest.approx(float(exact), rel=1e-11)


def test_branch_and_bound_finds_the_maximum_over_every_j():
    """Against the printed formula for all j; the maximum was always at one of the ends."""
    rng = np.random.default_rng(2)
    at_cutoff_end = 0
    for _ in range(40):
        m = int(rng.integers(1, 60))
        sigma = 10 ** rng.uniform(0, 1.5)
        Delta = sigma * rng.uniform(0.5, 3.5)
        epsilon = 10 ** rng.uniform(-4, 0)
        exact = float(reference.theorem1_delta(epsilon, m, sigma, Delta))
        assert theorem1_delta(epsilon, m=m, sigma=sigma, Delta=Delta) == pytest.approx(exact, rel=1e-11)
        at_cutoff_end += exact > gaussian_delta(epsilon, math.sqrt(m) / sigma) * (1 + 1e-9)
    assert 5 < at_cutoff_end < 40


def test_theorem1_with_many_queries_matches_a_dense_scan():
    m, sigma, Delta, epsilon = 20_000, 900.0, 4500.0, 0.3
    j = np.arange(1, m + 1)
    loss = (m - j) * -norm.logcdf(Delta / sigma)
    mu = np.sqrt(j) / sigma
    removed = -np.expm1(-loss) + np.exp(-loss) * gaussian_delta(epsilon + loss, mu)
    dense = max(
        -math.expm1(m * norm.logcdf(Delta / sigma)),
        removed.max(),
        gaussian_delta(epsilon - loss, mu).max(),
    )
    assert theorem1_delta(epsilon, m=m, sigma=sigma, Delta=Delta) == pytest.approx(dense, rel=1e-12)


def test_query_bound():
    assert [queries_per_tree(h) for h in (1, 2, 3, 4, 7, 8, 100, 512, 10**6)] == [
        1,
        2,
        2,
        3,
        3,
        4,
        7,
        10,
        20,
    ]


def test_cutoff_edges():
    assert cutoff_delta() == 0
    assert cutoff_delta((0, 1.0, 0.0)) == 0
    assert cutoff_delta((5, 1.0, math.inf)) == 0
    assert cutoff_delta((5, 0.0, 0.0)) == 0
    assert cutoff_delta((3, math.inf, 2.0)) == pytest.approx(1 - 0.5**3)
    many = cutoff_delta((200_000, 1.0, 10.0))
    assert many == pytest.approx(float(200_000 * mp.ncdf(-10)), rel=1e-12)


def test_composition_edges():
    assert gdp_mu() == 0
    assert gdp_mu((0, 0.0)) == 0
    assert gdp_mu((3, 0.0)) == math.inf
    assert gdp_mu((3, math.inf)) == 0
    assert gdp_mu((9, 3.0), (16, 4.0)) == pytest.approx(math.sqrt(2))


def test_joint_edges():
    uncut = ThresholdQueries(3, 2.0, None, 5.0, cut=-1)
    assert joint_delta(1.0, ()) == 0
    assert joint_delta(1.0, events(0, 1.0, 0.0)) == 0
    assert joint_delta(1.0, events(3, 0.0, 5.0)) == 1
    assert joint_delta(math.inf, events(3, 2.0, 5.0)) == cutoff_delta((3, 2.0, 5.0))
    assert joint_delta(1.0, [uncut]) == gaussian_delta(1.0, math.sqrt(3) / 2)
    assert joint_delta(1.0, [replace(uncut, cut=0)]) == 1
    assert joint_delta(1.0, [replace(uncut, noise=math.inf)]) == 0
    assert theorem1_delta(1.0, m=0, sigma=1.0, Delta=1.0) == 0
    assert theorem1_delta(1.0, m=4, sigma=0.0, Delta=1.0) == 1
    assert theorem1_delta(1.0, m=4, sigma=3.0, Delta=math.inf) == gaussian_delta(1.0, 2 / 3)
    assert theorem1_delta(0.0, m=1, sigma=2.0, Delta=6.0) == pytest.approx(
        float(reference.theorem1_delta(0.0, 1, 2.0, 6.0)), rel=1e-11
    )
    with pytest.raises(ValueError, match="noise must be at least 0, got -1"):
        joint_delta(1.0, [NoisySums(1, -1.0)])
    with pytest.raises(ValueError, match="reach must be at least 1, got 0"):
        joint_delta(1.0, [NoisySums(1, 1.0, 0)])
    with pytest.raises(ValueError, match="cutoff must be a number, got NaN"):
        joint_delta(1.0, [ThresholdQueries(1, 1.0, math.nan, 5.0)])


@pytest.mark.parametrize("rows", [1, 3])
def test_a_threshold_below_the_proved_one_gives_delta_1(rows):
    """tau >= cut + r + Delta, compared without rounding."""
    enough = ThresholdQueries(5, 20.0, 100.0, 107.0 + rows, cut=7)
    assert joint_delta(1.0, [enough], rows) < 1e-3
    assert joint_delta(1.0, [replace(enough, threshold=math.nextafter(107.0 + rows, 0))], rows) == 1
    assert joint_delta(1.0, [replace(enough, cut=8)], rows) == 1
    assert joint_delta(1.0, [enough], rows + 1) == 1


@pytest.mark.parametrize("rows", [1, 2, 3, 10])
def test_person_cutoff_covers_every_way_to_spread_the_rows(rows):
    """Brute force: rows j_1, j_2, ... in separate boundary queries, adding up to at most r m."""
    m, sigma = 2, 3.0
    for Delta in (0.5, 4.0, 9.0):
        bound = cutoff_delta((m, sigma, Delta), rows_per_person=rows)
        worst = 0.0
        budget = rows * m
        for parts in _partitions(budget, rows):
            stay = math.prod(norm.cdf((Delta + rows - j) / sigma) for j in parts)
            worst = max(worst, 1 - stay)
        assert worst == pytest.approx(bound, rel=1e-9)


def _partitions(total, largest):
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first):
            yield (first, *rest)


def test_ten_rows_on_ten_paths_break_the_naive_exponent():
    m, sigma, Delta, r = 7, 40.0, 200.0, 10
    naive = -math.expm1(m * norm.logcdf(Delta / sigma))
    apart = -math.expm1(r * m * norm.logcdf((Delta + r - 1) / sigma))
    assert apart > naive
    assert cutoff_delta((m, sigma, Delta), rows_per_person=r) == pytest.approx(apart, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "m"), list(itertools.product([0.1, 0.99], [1e-9, 1e-3], [1, 210]))
)
def test_closed_form_is_private(epsilon, delta, m):
    sigma, Delta = simple_parameters(epsilon, delta, m)
    assert sigma == pytest.approx(math.sqrt(2 * m * math.log(2.5 / delta)) / epsilon)
    assert Delta == pytest.approx(sigma * math.sqrt(2 * math.log(2 * m / delta)))
    assert float(reference.joint_delta(epsilon, m, sigma, Delta)) <= delta
    with pytest.raises(ValueError, match="epsilon must be below 1"):
        simple_parameters(1.0, delta, m)


def test_error_bound_of_theorem1():
    expected = 81.0 * math.sqrt(2 * math.log(2 * 30 * 48842 * math.ceil(math.log2(101)) / 0.05))
    assert error_bound(81.0, n=48842, height=100, beta=0.05, k=30) == pytest.approx(expected, rel=1e-14)
    assert error_bound(81.0, n=0, height=100, beta=0.05) == 0


def test_lower_bound_by_hand():
    # h = 2000, n = 10: ln(2^1999 / (32 * 0.1 * 100)) = 1999 ln 2 - ln 320.
    by_height = (1999 * math.log(2) - math.log(320)) / 0.8 - 1
    by_delta = math.log(0.1 / 4e-6) / 0.4 - 1
    assert lower_bound(0.1, 1e-6, n=10**6, height=2000, beta=0.1) == pytest.approx(by_delta / 2)
    assert lower_bound(0.1, 1e-6, n=10, height=2000, beta=0.1) == pytest.approx(10 / 2)
    assert lower_bound(0.1, 1e-300, n=10**9, height=200, beta=0.1) == pytest.approx(
        ((199 * math.log(2) - math.log(3.2e18)) / 0.8 - 1) / 2
    )
    assert by_height > by_delta
    assert lower_bound(0.1, 1e-6, n=10**6, height=20, beta=0.1) == 0


def test_no_calibration_beats_the_lower_bound():
    from lumberjack.accounting import calibrate

    for height in (200, 1000):
        (found,) = calibrate(0.5, 1e-6, forest(queries_per_tree(height)))
        reached = found.threshold + error_bound(found.noise, n=10**4, height=height, beta=0.05)
        assert reached > lower_bound(0.5, 1e-6, n=10**4, height=height, beta=0.05) > 0
