import math
import tracemalloc

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from lumberjack import targets
from lumberjack.guarantee import SUM_BOUND
from lumberjack.noise import Bits, ExponentialChoice, RoundedGaussian, mix_keys
from lumberjack.targets import Numbers, noisy_counts, noisy_labels, noisy_sums

N = 100_000
KEYS = np.arange(N, dtype=np.uint64)


def test_noisy_counts_have_independent_noise_in_every_cell():
    counts = np.tile([5, 0, 900], (N, 1))
    noise = noisy_counts(counts, RoundedGaussian(30.0), Bits(1), KEYS) - counts
    for c in range(3):
        assert (
            stats.kstest((noise[:, c] + stats.uniform(-0.5).rvs(N, random_state=c)) / 30, "norm").pvalue
            > 1e-6
        )
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.02


def test_cells_of_many_classes_have_their_keys_at_once(monkeypatch):
    seen, calls, keys = [], [], np.array([3, 2**64 - 1], dtype=np.uint64)

    class Silent:
        def draw(self, size, bits, cells, purpose):
            seen.extend(cells.tolist())
            return np.arange(size)

    monkeypatch.setattr(targets, "mix_keys", lambda *given: calls.append(1) or mix_keys(*given))
    released = noisy_counts(np.zeros((2, 10_000), dtype=np.int64), Silent(), Bits(1), keys)
    assert len(calls) == 1
    assert seen == [k for c in range(10_000) for k in mix_keys(keys, np.uint64(c)).tolist()]
    assert released[:, :3].tolist() == [[0, 2, 4], [1, 3, 5]]


def test_labels_of_many_classes_need_little_memory():
    counts = np.zeros((3, 5000), dtype=np.int64)
    counts[:, 4321] = 1000
    tracemalloc.start()
    labels = noisy_labels(counts, ExponentialChoice(1.0), Bits(1), KEYS[:3])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert labels.argmax(axis=1).tolist() == [4321] * 3
    assert labels.sum() == 3
    assert peak < 40 * counts.nbytes  # one number for each pair of classes: 1667 times as much


def test_noisy_majority_is_the_largest_noisy_count():
    counts = np.tile([100, 90], (N, 1))
    labels = noisy_labels(counts, RoundedGaussian(20.0), Bits(2), KEYS)
    assert set(map(tuple, labels)) == {(1.0, 0.0), (0.0, 1.0)}
    p = stats.norm.cdf(10 / (20 * math.sqrt(2)))  # rounding moves it by less than the test can see
    assert abs(labels[:, 0].mean() - p) < 0.01


@pytest.mark.parametrize("bits", [Bits(3), Bits()], ids=["seeded", "system"])
def test_exponential_choice_has_its_probabilities(bits):
    exponent, counts = 0.02, [100, 130, 0, 60]
    weights = np.exp(exponent * np.array(counts))
    chosen = ExponentialChoice(exponent).draw(np.tile(counts, (N, 1)), bits, KEYS)
    observed = np.bincount(chosen, minlength=4)
    assert stats.chisquare(observed, weights / weights.sum() * N).pvalue > 1e-6


def test_exponential_choice_next_to_a_boundary_is_settled_exactly():
    exponent, counts = 0.1, np.array([[40, 30, 35]])
    with mp.workdps(80):
        weights = [mp.exp(mp.mpf(exponent) * (int(c) - 40)) for c in counts[0]]
        first = weights[0] / mp.fsum(weights)
        for side, expected in ((-1, 0), (1, 1)):
            u = int((first + side * mp.mpf(10) ** -30) * mp.mpf(2) ** 191)
            script = [(u >> 128) << 1, (u >> 64) & (2**64 - 1), u & (2**64 - 1)]

            class Scripted(Bits):
                def words(self, size, keys, purpose, position=0, script=script):
                    return np.full(size, script[position], dtype=np.uint64)

            assert ExponentialChoice(exponent).draw(counts, Scripted(), None).tolist() == [expected]


@pytest.mark.parametrize("word", [2**64 - 1, 2**64 - 2, 2**64 - 700])
def test_exponential_choice_at_the_very_end_is_still_a_class(word):
    """63 bits next to 1 round up to it as a float: they must be settled exactly."""

    class Last(Bits):
        def words(self, size, keys, purpose, position=0):
            return np.full(size, word if position == 0 else 0, dtype=np.uint64)

    assert ExponentialChoice(1.0).draw(np.array([[5, 5]]), Last(), None).tolist() == [1]
    assert ExponentialChoice(1.0).draw(np.array([[1000, 0]]), Last(), None).tolist() == [0]


def test_targets_are_bounded_whatever_comes():
    wild = np.array([-1e308, 1e308, 0.0, np.nan])
    with np.errstate(all="ignore"):
        codes = Numbers(-1e308, 1e308).encode(wild)
    assert codes.min() >= -SUM_BOUND  # not by magnitude: the smallest integer has none
    assert codes.max() <= SUM_BOUND


def test_targets_stay_inside_their_grid():
    targets = Numbers(10.0, 30.0)
    codes = targets.encode(np.array([-1e9, 10.0, 20.0, 30.0, 1e9, 25.0]))
    assert codes.tolist() == [-SUM_BOUND, -SUM_BOUND, 0, SUM_BOUND, SUM_BOUND, SUM_BOUND // 2]
    np.testing.assert_allclose(targets.decode(codes.astype(float)), [10, 10, 20, 30, 30, 25], atol=0.01)


def test_noisy_sums_use_separate_noise():
    noise = RoundedGaussian(10.0), RoundedGaussian(5000.0)
    released = noisy_sums(np.tile([4, 77], (N, 1)), noise, Bits(4), KEYS)
    assert abs((released[:, 0] - 4).std() - 10) < 0.2
    assert abs((released[:, 1] - 77).std() - 5000) < 60
    assert abs(np.corrcoef(released.T)[0, 1]) < 0.02
