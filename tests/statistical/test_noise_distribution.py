"""Samples against SciPy's distributions. False-alarm rate 1e-7 a test; seeds are kept."""

import numpy as np
import pytest
from scipy import stats

from lumberjack.noise import Bits, RoundedGaussian, ThresholdCoin

ALARM = 1e-7
SIZE = 1_000_000


def keys(start):
    return np.arange(start * SIZE, (start + 1) * SIZE, dtype=np.uint64)


def chi_square(observed, probabilities):
    """Merge cells with fewer than 10 expected into their neighbour, then test."""
    expected = probabilities * observed.sum()
    cells = np.concatenate([[0], np.cumsum(np.maximum(expected, 1e-300))])
    group = np.minimum((cells[:-1] // 10).astype(int), int(cells[-1] // 10) - 1)
    pooled_observed = np.bincount(group, observed)
    pooled_expected = np.bincount(group, expected)
    used = pooled_expected > 5
    return stats.chisquare(
        pooled_observed[used],
        pooled_expected[used] * pooled_observed[used].sum() / pooled_expected[used].sum(),
    ).pvalue


@pytest.mark.parametrize("bits", [Bits(11), Bits()], ids=["seeded", "system"])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.5, 60.0])
def test_rounded_gaussian_chi_square(sigma, bits):
    draws = RoundedGaussian(sigma).draw(SIZE, bits, keys(0))
    reach = int(6 * sigma) + 2
    x = np.arange(-reach, reach + 1)
    probabilities = stats.norm.cdf((x + 0.5) / sigma) - stats.norm.cdf((x - 0.5) / sigma)
    observed = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=len(x)).astype(float)
    assert chi_square(observed, probabilities / probabilities.sum()) > ALARM


@pytest.mark.parametrize("sigma", [1e3, 2e4, 1e5])
def test_rounded_gaussian_kolmogorov(sigma):
    """With sigma this large the half steps of rounding are invisible to a million draws."""
    draws = RoundedGaussian(sigma).draw(SIZE, Bits(12), keys(1))
    assert stats.kstest(draws / sigma, "norm").pvalue > ALARM


def test_tail_frequencies():
    """How often 3, 4 and 4.5 sigma are passed in 20 million draws."""
    gaussian = RoundedGaussian(40.0)
    draws = np.concatenate([gaussian.draw(SIZE, Bits(13), keys(i)) for i in range(20)])
    for x in (120, 160, 180):
        p = 2 * stats.norm.sf((x + 0.5) / 40)
        assert stats.binomtest(int(np.sum(np.abs(draws) > x)), len(draws), p).pvalue > ALARM


@pytest.mark.parametrize("bits", [Bits(14), Bits()], ids=["seeded", "system"])
def test_coins_have_their_probability_at_every_count(bits):
    sigma, tau = 6.0, 25.0
    coin = ThresholdCoin(sigma, tau, cut=2, largest=60)
    counts = np.arange(SIZE) % 60
    passed = coin.draw(counts, bits, keys(2))
    for q in range(60):
        p = 0.0 if q <= 2 else stats.norm.sf((tau - q) / sigma)
        mine = passed[counts == q]
        assert stats.binomtest(int(mine.sum()), len(mine), p).pvalue > ALARM / 60


def test_draws_of_neighbouring_keys_are_uncorrelated():
    draws = RoundedGaussian(10.0).draw(SIZE, Bits(15), keys(3)).astype(float)
    for lag in (1, 2, 64):
        r = stats.pearsonr(draws[:-lag], draws[lag:])
        assert r.pvalue > ALARM
