"""What leaves hold: noise as a distribution, and votes by hand."""

import math
import tracemalloc

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from lumberjack import leaves
from lumberjack.guarantee import SUM_BOUND
from lumberjack.leaves import Counts, Labels, Sums, Weights, noisy_counts, noisy_labels, noisy_sums
from lumberjack.noise import Bits, ExponentialChoice, RoundedGaussian, mix_keys
from lumberjack.tree import Forest, Tree

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

    monkeypatch.setattr(leaves, "mix_keys", lambda *given: calls.append(1) or mix_keys(*given))
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


def test_noisy_sums_use_separate_noise():
    noise = RoundedGaussian(10.0), RoundedGaussian(5000.0)
    released = noisy_sums(np.tile([4, 77], (N, 1)), noise, Bits(4), KEYS)
    assert abs((released[:, 0] - 4).std() - 10) < 0.2
    assert abs((released[:, 1] - 77).std() - 5000) < 60
    assert abs(np.corrcoef(released.T)[0, 1]) < 0.02


def forest(*values):
    """Trees whose shape plays no part in votes."""
    alone = Tree(np.array([-1]), np.zeros(1, np.uint32), np.zeros(1, bool), np.zeros(1, np.int32))
    return Forest((alone,) * len(values), tuple(map(np.array, values)), np.zeros(1, bool))


def test_counts_vote_with_the_mean_of_shares():
    """Counts below 0 say nothing, and a leaf without any above 0 has no opinion."""
    counts = [[30.0, 10.0], [-5.0, 8.0], [-1.0, -2.0]], [[3.0, 0.0]]
    base, votes = Counts(2).vote(forest(*counts))
    assert base.tolist() == [0, 0]
    np.testing.assert_allclose(votes[0], [[0.375, 0.125], [0, 0.5], [0.25, 0.25]])
    np.testing.assert_allclose(votes[1], [[0.5, 0]])
    assert counts[0][1] == [-5.0, 8.0]  # released values stay what they are


def test_sums_vote_with_the_mean_of_means():
    """In half widths of the bounds; a count below 1 is 1, and a mean beyond the bounds is cut off."""
    half = SUM_BOUND / 2
    sums = [[10.0, 10 * half], [2.0, -9 * SUM_BOUND], [-7.0, half]], [[4.0, 2 * half]]
    base, votes = Sums().vote(forest(*sums))
    assert base.tolist() == [0]
    np.testing.assert_allclose(votes[0], [[0.25], [-0.5], [0.25]])
    np.testing.assert_allclose(votes[1], [[0.125]])


def test_labels_vote_once_and_rare_ones_win_ties():
    labels = np.eye(3)[[0, 0, 1]], np.eye(3)[[0, 2]]
    base, votes = Labels(3).vote(forest(*labels))
    np.testing.assert_array_equal(votes[0], labels[0])
    np.testing.assert_allclose(base, 1e-3 * 2 * (1 - np.array([3, 1, 1]) / 5) / 2)


def test_weights_vote_as_they_are():
    base, votes = Weights(2).vote(forest([[70.0, 0.5, -0.25]], [[30.0, 1.0, 2.0], [40.0, -1.0, 0.0]]))
    assert base.tolist() == [0, 0]
    assert [v.tolist() for v in votes] == [[[0.5, -0.25]], [[1.0, 2.0], [-1.0, 0.0]]]


@pytest.mark.parametrize(
    ("held", "values", "sizes"),
    [
        (Counts(2), [[30.0, 12.0], [-5.0, 3.0]], [42, 1]),
        (Labels(2), [[0.0, 1.0], [1.0, 0.0]], [1, 1]),
        (Sums(), [[30.0, 900.0], [-2.0, 5.0]], [30, 1]),
        (Weights(1), [[30.5, -1.0], [0.0, 2.0]], [30.5, 0]),
    ],
)
def test_sizes_of_leaves(held, values, sizes):
    assert held.sizes(np.array(values)).tolist() == sizes
    assert held.n_values == 2
