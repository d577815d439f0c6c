"""Lists of priced events, by hand."""

import math

import pytest
import reference
from scipy.stats import norm

from lumberjack.accounting import Choices, NoisySums, ThresholdQueries, joint_delta, spent

SLOW = ThresholdQueries(10, 30.0, 150.0, 151.0)
FAST = ThresholdQueries(5, 20.0, 120.0, 121.0)
SUMS = NoisySums(3, 40.0, 2)


@pytest.mark.parametrize(
    ("event", "price"),
    [
        (SLOW, 10 / 900),
        (SUMS, 3 * 4 / 1600),
        (Choices(7, 0.25, 2.0), 7 * 0.5**2 / 4),  # what zCDP takes for the mu^2 of a choice of range 1/2
    ],
)
def test_what_one_event_spends_of_mu_squared(event, price):
    assert spent(event) == pytest.approx(price, rel=1e-15)


def test_kinds_with_different_noise_add_up():
    """mu^2 adds up over all kinds, and the chances that no cut-off is crossed are multiplied."""
    mu = math.sqrt(10 / 900 + 5 / 400 + 12 / 1600)
    crossing = -math.expm1(10 * norm.logcdf(5.0) + 5 * norm.logcdf(6.0))
    for epsilon in (0.1, 0.5, 1.0):
        expected = float(reference.gaussian_delta(epsilon, mu)) + crossing
        assert joint_delta(epsilon, [SLOW, FAST, SUMS]) == pytest.approx(expected, rel=1e-9)


def test_a_threshold_below_its_cutoff_gives_delta_1():
    assert joint_delta(1.0, [SLOW, ThresholdQueries(5, 20.0, 120.0, 120.999)]) == 1.0
    assert joint_delta(1.0, [ThresholdQueries(5, 20.0, 120.0, 121.0, cut=1)]) == 1.0


def test_the_order_of_other_events_does_not_matter():
    assert joint_delta(0.5, [SLOW, FAST, SUMS]) == joint_delta(0.5, [SUMS, FAST, SLOW])
