import math
from concurrent.futures import ThreadPoolExecutor

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from lumberjack import noise
from lumberjack.noise import (
    Bits,
    ExponentialChoice,
    Purpose,
    RoundedGaussian,
    ThresholdCoin,
    below,
    seed_from,
)


class Scripted(Bits):
    """Bits from a list: word i of the script is position i of every draw."""

    def __init__(self, *words):
        object.__setattr__(self, "seed", None)
        object.__setattr__(self, "script", words)

    def words(self, size, keys, purpose, position=0):
        return np.full(size, self.script[position], dtype=np.uint64)


def tail(sigma, x):
    return mp.erfc((x + mp.mpf(0.5)) / (mp.mpf(sigma) * mp.sqrt(2)))


def as_words(probability, n_words, sign=0):
    """The bits of a number in [0, 1), as a draw would use them: 63 and then 64 at a time."""
    whole = int(mp.floor(probability * mp.mpf(2) ** (63 + 64 * (n_words - 1))))
    rest = [(whole >> (64 * i)) & (2**64 - 1) for i in range(n_words - 1)]
    return [(whole >> (64 * (n_words - 1))) << 1 | sign, *reversed(rest)]


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 1.0, 17.3, 4321.0, 1e5])
def test_gaussian_table_brackets_the_true_tail(sigma):
    """Every bound, or 400 of them, against 60 digits; and they are tight, so that ties are rare."""
    table = RoundedGaussian(sigma)
    size = len(table._lower)
    for x in np.unique(np.linspace(0, size - 1, 400).astype(int)):
        with mp.workdps(60):
            exact = tail(sigma, int(x)) * 2**63
            assert int(table._lower[x]) <= exact <= int(table._upper[x])
            assert int(table._upper[x]) - int(table._lower[x]) <= exact * mp.mpf(2) ** -38 + 3
    assert int(table._lower[-1]) == 0


@pytest.mark.parametrize(("sigma", "tau"), [(0.7, 3.2), (15.0, 88.8), (1e5, 6.1e5), (2.0, 1e6 + 0.3)])
def test_coin_table_brackets_the_true_probability(sigma, tau):
    cut = max(0, math.floor(tau - 12 * sigma))
    coin = ThresholdCoin(sigma, tau, cut=cut, largest=2**40)
    size = len(coin._table.lower)
    for i in np.unique(np.linspace(0, size - 1, 400).astype(int)):
        with mp.workdps(60):
            q = cut + 1 + int(i)
            exact = mp.ncdf((q - mp.mpf(tau)) / mp.mpf(sigma)) * 2**63
            assert int(coin._table.lower[i]) <= exact <= int(coin._table.upper[i])
            assert int(coin._table.upper[i]) - int(coin._table.lower[i]) <= exact * mp.mpf(2) ** -38 + 3
    assert int(coin._table.upper[-1]) == 2**63


def test_scipy_is_far_more_accurate_than_the_bounds_assume():
    from scipy.special import erfc

    z = np.linspace(-6.7, 6.7, 500)
    with mp.workdps(40):
        worst = max(abs(mp.mpf(float(erfc(v))) / mp.erfc(mp.mpf(float(v))) - 1) for v in z)
    assert worst < 2.0**-47


@pytest.mark.parametrize("exponent", [1, 5, 18, 19, 20, 60, 150, 300])
@pytest.mark.parametrize("sigma", [0.4, 3.0, 250.0])
@pytest.mark.parametrize("sign", [0, 1])
def test_tails_are_right_down_to_1e_300(exponent, sigma, sign):
    """A U just below S(x) must give a magnitude above x; one just above, at most x."""
    with mp.workdps(800):
        u = mp.mpf(10) ** -exponent
        x = 0
        step = 2 ** math.ceil(math.log2(40 * sigma + 2))
        while step >= 1:  # the smallest x with S(x) <= u, by bisection
            if tail(sigma, x + step - 1) > u:
                x += step
            step //= 2
        n_words = 20
        below, above = tail(sigma, x) * (1 - mp.mpf(10) ** -30), tail(sigma, x) * (1 + mp.mpf(10) ** -30)
        gaussian = RoundedGaussian(sigma)
        mirror = -1 if sign else 1
        assert gaussian.draw(3, Scripted(*as_words(above, n_words, sign))).tolist() == [mirror * x] * 3
        (more,) = gaussian.draw(1, Scripted(*as_words(below, n_words, sign)))
        assert mirror * more == x + 1


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("q", [1, 40, 89, 90, 120, 250])
def test_coins_on_either_side_of_their_probability(q, side):
    """p(1) is about 1e-9, 1 - p(250) about 1e-26: the first 63 bits cannot tell."""
    sigma, tau = 15.0, 90.0
    with mp.workdps(100):
        p = mp.ncdf((q - mp.mpf(tau)) / sigma)
        u = p + side * min(p, 1 - p) * mp.mpf(10) ** -25
        coin = ThresholdCoin(sigma, tau, cut=0, largest=500)
        (passes,) = coin.draw(np.array([q]), Scripted(*as_words(u, 6)))
    assert passes == (side < 0)


def test_the_first_word_alone_never_decides_a_close_call(monkeypatch):
    """Bits equal to the table's own entry leave it open: the exact path must be taken."""
    calls = []
    settle = noise._settle_gaussian
    monkeypatch.setattr(noise, "_settle_gaussian", lambda *a: calls.append(a) or settle(*a))
    gaussian = RoundedGaussian(20.0)
    close = (int(gaussian._lower[7]) + int(gaussian._upper[7])) // 2
    low = gaussian.draw(1, Scripted(close << 1, 0))
    high = gaussian.draw(1, Scripted(close << 1, 2**64 - 1))
    assert len(calls) == 2
    assert {int(low[0]), int(high[0])} <= {7, 8}


def test_large_sigma_takes_the_exact_path_and_agrees_with_the_quantile():
    sigma = 3e6
    for u in (0.9, 0.5, 1e-3, 1e-12):
        (x,) = RoundedGaussian(sigma).draw(1, Scripted(*as_words(mp.mpf(u), 4)))
        assert tail(sigma, int(x)) <= u < tail(sigma, int(x) - 1)


def test_cut_and_sure_are_deterministic():
    coin = ThresholdCoin(5.0, 20.0, cut=3, sure=60, largest=100)
    counts = np.array([0, 1, 2, 3, 60, 61, 100])
    for word in (0, 2**64 - 1):
        assert coin.draw(counts, Scripted(word, 0, 0)).tolist() == [False] * 4 + [True] * 3


def test_seeded_bits_are_a_function_of_seed_key_and_purpose():
    keys = np.arange(1000, dtype=np.uint64)
    one = Bits(1).words(1000, keys, Purpose.COUNT)
    assert np.array_equal(Bits(1).words(1000, keys[::-1], Purpose.COUNT)[::-1], one)
    others = [
        Bits(2).words(1000, keys, Purpose.COUNT),
        Bits(1).words(1000, keys, Purpose.THRESHOLD),
        Bits(1).words(1000, keys, Purpose.COUNT, 1),
        Bits(1).words(1000, keys + np.uint64(1), Purpose.COUNT),
    ]
    for other in others:
        assert not np.any(other == one)
    with pytest.raises(ValueError, match="one key for each draw"):
        Bits(1).words(3, None, Purpose.COUNT)


def test_seeded_draws_do_not_depend_on_blocks(monkeypatch):
    keys = np.arange(5000, dtype=np.uint64)
    counts = (keys % 60).astype(np.int64)
    gaussian, coin = RoundedGaussian(9.0), ThresholdCoin(9.0, 30.0, cut=0, largest=60)
    whole = gaussian.draw(5000, Bits(7), keys), coin.draw(counts, Bits(7), keys)
    monkeypatch.setattr(noise, "_BLOCK", 17)
    assert np.array_equal(gaussian.draw(5000, Bits(7), keys), whole[0])
    assert np.array_equal(coin.draw(counts, Bits(7), keys), whole[1])


def test_unseeded_draws_differ():
    assert not np.array_equal(*(RoundedGaussian(1e4).draw(50, Bits()) for _ in range(2)))


def test_unseeded_bits_ignore_keys(monkeypatch):
    monkeypatch.setattr(noise.os, "urandom", lambda n: bytes(range(n)))
    plain = Bits().words(3, None, Purpose.COUNT)
    assert plain.tobytes() == bytes(range(24))
    for keys in (np.zeros(3, dtype=np.uint64), np.zeros(1, dtype=np.uint64)):
        assert np.array_equal(Bits().words(3, keys, Purpose.SUM, 7), plain)


def test_nothing_but_the_operating_system_feeds_unseeded_noise(monkeypatch):
    coin = ThresholdCoin(5.0, 5.0, cut=0, largest=9)
    coin.draw(np.array([9, 9]), Bits())  # compiled: Numba asks for randomness too
    asked = []
    monkeypatch.setattr(noise.os, "urandom", lambda n: asked.append(n) or bytes(n))
    assert coin.draw(np.array([9, 9]), Bits()).all()
    assert asked == [16]


def test_random_state_becomes_a_seed():
    assert seed_from(None) is None
    assert seed_from(np.int64(5)) == 5
    assert seed_from(np.random.RandomState(3)) == seed_from(np.random.RandomState(3))
    assert seed_from(np.random.default_rng(3)) == seed_from(np.random.default_rng(3))
    with pytest.raises(ValueError, match="cannot be used to seed"):
        seed_from("noise")


def test_threads_settle_with_a_precision_of_their_own():
    """mpmath's global precision is neither read nor left changed, however many threads draw."""
    keys = np.arange(400, dtype=np.uint64)
    gaussian = RoundedGaussian(2.0**20)  # every draw takes the exact path
    alone = gaussian.draw(400, Bits(1), keys)
    before = mp.mp.prec
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: gaussian.draw(400, Bits(1), keys), range(4)))
    assert all(np.array_equal(alone, other) for other in together)
    assert mp.mp.prec == before
    mp.mp.prec = 20
    try:
        assert np.array_equal(alone, gaussian.draw(400, Bits(1), keys))
    finally:
        mp.mp.prec = before


def test_smallest_noise_settles_even_the_rarest_draw():
    assert RoundedGaussian(1e-9).draw(1, Scripted(0, 2**63, 5)).tolist() == [0]


def test_bad_input_is_refused():
    for sigma in (0.0, -1.0, math.inf, math.nan, 1e-300, 1e19):
        with pytest.raises(ValueError, match="sigma"):
            RoundedGaussian(sigma)
    coin = ThresholdCoin(1.0, 3.0, cut=0, largest=5)
    with pytest.raises(ValueError, match="integers"):
        coin.draw(np.array([1.5]), Bits())
    with pytest.raises(ValueError, match="negative"):
        coin.draw(np.array([-1]), Bits())
    with pytest.raises(ValueError, match="must not exceed largest"):
        coin.draw(np.array([6]), Bits())
    with pytest.raises(ValueError, match=r"at most 2\^52"):
        ThresholdCoin(10.0, 2.0**53 + 100, cut=0, largest=5)
    assert coin.draw(np.array([], dtype=np.int64), Bits()).shape == (0,)
    assert RoundedGaussian(2.0).draw(0, Bits()).shape == (0,)


def chances(exponent, scores, weights):
    """Exact probabilities of an exponential mechanism."""
    with mp.workdps(300):
        sizes = [w * mp.exp(mp.mpf(exponent) * s) for s, w in zip(scores, weights, strict=True)]
        return [size / mp.fsum(sizes) for size in sizes]


MANY = 10_000
CHOICES = {  # exponent, scores, weights
    "even": (0.7, [-3, -3, -3, -3], [1, 1, 1, 1]),
    "steps": (0.25, [0, -1, -2, -9, -40], [1, 2, 3, 50, 2**20]),
    "far but heavy": (1.0, [0, -30, -500], [1, 2**43, 2**60]),
    "no room": (0.5, [5, 0, -1, 0, 9], [0, 3, 4, 5, 0]),
    "alone": (3.0, [-7], [2**32]),
}


@pytest.mark.parametrize("seed", [None, 5], ids=["system", "seeded"])
@pytest.mark.parametrize("case", CHOICES)
def test_draw_one_has_the_exact_probabilities(case, seed):
    """Chi-square of cells expected at least 10 times; false alarms below 1e-6 a case."""
    exponent, scores, weights = CHOICES[case]
    choice, bits = ExponentialChoice(exponent), Bits(seed)
    each = np.array(scores), np.array(weights)
    keys = np.arange(MANY, dtype=np.uint64)[:, None]
    drawn = [choice.draw_one(*each, bits, key, Purpose.CUT) for key in keys]
    found = np.bincount(drawn, minlength=len(scores))
    expected = MANY * np.array(chances(exponent, scores, weights), dtype=float)
    rare = expected < 10
    assert found[rare].sum() <= stats.poisson.isf(5e-7, expected[rare].sum())
    distance = np.sum((found[~rare] - expected[~rare]) ** 2 / expected[~rare])
    assert distance <= stats.chi2.isf(5e-7, (~rare).sum())


@pytest.mark.parametrize("options", [2, 5, 1000])
def test_one_choice_next_to_a_boundary_is_settled_exactly(options):
    """1e-30 to either side of each boundary, where 63 bits and floats decide nothing."""
    rng = np.random.default_rng(options)
    scores, weights = rng.integers(-60, 0, options), rng.integers(1, 2**31, options)
    scores[-1] = -900  # so far that its weight is not looked at, unless it could matter
    choice = ExponentialChoice(0.3)
    with mp.workdps(300):
        shares = chances(0.3, scores.tolist(), weights.tolist())
        for option in {*range(0, options - 1, max(options // 7, 1)), options - 2}:
            edge = mp.fsum(shares[: option + 1])
            for side, expected in ((-1, option), (1, option + 1)):
                u = edge + side * mp.mpf(10) ** -30 * shares[option + 1]
                script = Scripted(*as_words(u, 12))
                assert choice.draw_one(scores, weights, script, None, Purpose.CUT) == expected


def test_one_choice_at_both_ends_is_an_option():
    each = np.array([0, -2, 0]), np.array([0, 5, 7])
    choice = ExponentialChoice(1.0)
    for script, expected in (((0, 0, 0), 1), ((2**64 - 1,) * 3, 2)):
        assert choice.draw_one(*each, Scripted(*script), None, Purpose.CUT) == expected


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 255])
def test_numbers_below_a_bound_are_uniform(bound):
    """Chi-square; false alarms below 1e-6 a bound."""
    found = np.bincount([below(bound, Bits(), None, Purpose.PLACE) for _ in range(MANY)])
    assert len(found) == bound
    assert bound == 1 or stats.chisquare(found).pvalue > 1e-6


@pytest.mark.parametrize("bound", [3, 2**32 - 1, 2**63, 2**63 - 25])
def test_words_that_would_favour_small_numbers_are_drawn_again(bound):
    most = 2**64 // bound * bound
    assert below(bound, Scripted(most - 1), None, Purpose.PLACE) == bound - 1
    surplus = range(most, min(most + 3, 2**64))
    for word in surplus:
        assert below(bound, Scripted(word, most, bound + 1), None, Purpose.PLACE) == 1
