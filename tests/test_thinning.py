"""Candidates and their acceptance against binomials, closed forms and multi-precision arithmetic."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from lumberjack import plan
from lumberjack.noise import Bits, ThresholdCoin
from lumberjack.thinning import Thinning, _binomial, _distinct


def passing(coin, q):
    with mpmath.workprec(2000):
        if q <= coin.cut:
            return mpmath.mpf(0)
        distance = (mpmath.mpf(coin.threshold) - q) / mpmath.mpf(coin.sigma)
        return mpmath.erfc(distance / mpmath.sqrt(2)) / 2


@pytest.mark.parametrize(
    ("sigma", "threshold", "cut"), [(70, 420, 0), (5, 20, 3), (0.5, 30, 0), (3, 0.5, 0)]
)
def test_slot_probabilities_suffice_for_every_node(sigma, threshold, cut):
    """p^ of n rows must be at least 1 - (1 - p(q))^(1/q) for all q <= n, and not much above."""
    thinning = Thinning(ThresholdCoin(sigma, threshold, cut=cut, largest=10**6), 100)
    needed = mpmath.mpf(0)
    for n in range(1, len(thinning.chances)):
        with mpmath.workprec(2000):
            slot = 1 - (1 - passing(thinning.coin, n)) ** (mpmath.mpf(1) / n)
            needed = max(needed, slot)
            found = mpmath.mpf(float(thinning.chances[n]))
            assert found >= needed
            assert found <= needed * (1 + mpmath.mpf(2) ** -25) + mpmath.mpf("1e-299")


@pytest.mark.parametrize("epsilon", [0.1, 1, 8])
@pytest.mark.parametrize("height", [10, 100, 1000])
def test_small_nodes_are_nearly_always_left_asleep(epsilon, height):
    promise = plan(epsilon, 1e-6, 20, height, leaf="counts")
    coin = ThresholdCoin(promise.threshold_noise, promise.threshold, cut=promise.cut, largest=10**7)
    thinning = Thinning(coin, height)
    n = thinning.small
    assert promise.threshold / 10 < n < promise.threshold
    awake = [1 - (1 - mpmath.mpf(float(thinning.chances[k]))) ** (k * height) for k in (n - 1, n)]
    assert awake[0] < 2**-10 < awake[1] * 1.001


def chi_square(observed, chances, n):
    """p-value with rare cells put together."""
    expected = np.asarray(chances) * n
    rare = expected < 5
    cells = [(observed[~rare], expected[~rare]), (observed[rare].sum(), expected[rare].sum())]
    f = np.append(cells[0][0], cells[1][0])
    e = np.append(cells[0][1], cells[1][1])
    keep = e > 0
    assert f[~keep].sum() == 0
    return stats.chisquare(f[keep], e[keep] * f[keep].sum() / e[keep].sum()).pvalue


def test_the_number_of_candidates_is_binomial():
    """Alarm rate 1e-6. Many candidates on purpose: the threshold is close."""
    thinning = Thinning(ThresholdCoin(10.0, 25.0, cut=2, largest=1000), 7)
    n, levels, runs = 20, 6, 20_000
    found = thinning.draw(
        np.full(runs, n), np.full(runs, levels), Bits(4), np.arange(runs, dtype=np.uint64)
    )
    numbers = np.zeros(runs, dtype=int)
    for which, slots in found:
        assert len(set(slots)) == len(slots)
        assert min(slots) >= 0
        assert max(slots) < n * levels
        numbers[which] = len(slots)
    chances = stats.binom.pmf(np.arange(n * levels + 1), n * levels, thinning.chances[n])
    observed = np.bincount(numbers, minlength=n * levels + 1)
    assert chances[0] < 0.9
    assert chi_square(observed, chances, runs) > 1e-6
    places = np.bincount([s for _, slots in found for s in slots], minlength=n * levels)
    assert stats.chisquare(places).pvalue > 1e-6


def test_no_candidates_where_nothing_can_pass():
    """At or below the cut a node never passes, whatever the bits say."""
    thinning = Thinning(ThresholdCoin(10.0, 25.0, cut=5, largest=1000), 100)

    class Zero:
        seed = None

        def words(self, size, keys, purpose, position=0):
            return np.zeros(size, dtype=np.uint64)

    assert thinning.draw(np.arange(1, 6), np.full(5, 100), Zero(), None) == []
    assert not thinning.accepts(5, 20, Zero(), None)


@pytest.mark.parametrize(("count", "most"), [(3, 3), (3, 20), (10, 20), (20, 20)])
def test_acceptance_completes_the_chance_of_the_coin(count, most):
    """P(owns a candidate) * P(accepted) = p(q). Alarm rate 1e-6."""
    thinning = Thinning(ThresholdCoin(10.0, 25.0, cut=2, largest=1000), 7)
    keys = np.arange(3000, dtype=np.uint64)
    accepted = sum(thinning.accepts(count, most, Bits(9), keys[i : i + 1]) for i in range(3000))
    owns = -math.expm1(count * math.log1p(-thinning.chances[most]))
    chance = float(passing(thinning.coin, count)) / owns
    assert stats.binomtest(accepted, 3000, min(chance, 1.0)).pvalue > 1e-6


def test_a_binomial_at_a_boundary_is_settled_with_more_bits():
    """n = 2, p = 1/2: more than 0 with chance 3/4. U just below 3/4, just above, and still undecided."""
    three_quarters = 3 << 61
    never = iter(())
    assert _binomial(2, 0.5, (three_quarters + 10) << 1, lambda: next(never)) == 0
    assert _binomial(2, 0.5, (three_quarters - 10) << 1, lambda: next(never)) == 1
    assert _binomial(2, 0.5, (three_quarters >> 2) << 1, lambda: next(never)) == 2  # below 1/4
    asked = []
    assert _binomial(2, 0.5, three_quarters << 1, lambda: asked.append(1) or 2**63) == 0
    assert asked


def test_distinct_numbers_are_uniform_over_sets():
    """10 sets of 2 out of 5. Alarm rate 1e-6."""
    rng = np.random.default_rng(0)
    more = lambda: int(rng.integers(0, 2**64, dtype=np.uint64))  # noqa: E731
    sets = [tuple(_distinct(5, 2, more)) for _ in range(20_000)]
    _, counts = np.unique(np.array(sets) @ [10, 1], return_counts=True)
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > 1e-6
