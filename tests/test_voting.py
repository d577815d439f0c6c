"""How trees vote, against a plain recursion, and calibration against logistic regression."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from lumberjack.guarantee import SUM_BOUND
from lumberjack.tree import LEAF, Tree
from lumberjack.voting import (
    BINS,
    UNBENT,
    _expected,
    _hash,
    bin_means,
    bin_odds,
    calibrate_means,
    calibrate_odds,
    log_odds,
    log_shares,
    means,
    read_odds,
    unchanged,
)


def random_tree(rng, n_splits):
    """A tree of random shape: leaves are split one after the other, nodes numbered level by level."""
    children, leaves = {0: None}, [0]
    for _ in range(n_splits):
        node = leaves.pop(rng.integers(len(leaves)))
        children[node] = [len(children), len(children) + 1]
        for child in children[node]:
            children[child] = None
            leaves.append(child)
    feature = np.array([LEAF if children[i] is None else 0 for i in range(len(children))], np.int32)
    left = np.array([0 if c is None else c[0] for c in children.values()], dtype=np.int32)
    left[feature == LEAF] = rng.permutation(int((feature == LEAF).sum()))
    zeros = np.zeros(len(feature))
    return Tree(feature, zeros.astype(np.uint32), zeros.astype(bool), left)


def naive_shares(tree, counts, weight):
    """From the definition: sums of leaves, and shares shrunk towards the parent's."""
    out = np.empty_like(counts)

    def total(node):
        if tree.feature[node] == LEAF:
            return counts[tree.left[node]]
        return total(tree.left[node]) + total(tree.left[node] + 1)

    def down(node, prior):
        positive = np.maximum(total(node), 0)
        share = (positive + weight * prior) / (positive.sum() + weight)
        if tree.feature[node] == LEAF:
            out[tree.left[node]] = share
        else:
            down(tree.left[node], share)
            down(tree.left[node] + 1, share)

    down(0, np.full(counts.shape[1], 1 / counts.shape[1]))
    return out


def naive_means(tree, sums, weight):
    out = np.empty((len(sums), 1))

    def total(node):
        if tree.feature[node] == LEAF:
            return sums[tree.left[node]]
        return total(tree.left[node]) + total(tree.left[node] + 1)

    def down(node, prior):
        count, value = total(node)
        mean = np.clip((value + weight * prior) / (max(count, 0) + weight), -SUM_BOUND, SUM_BOUND)
        if tree.feature[node] == LEAF:
            out[tree.left[node], 0] = mean
        else:
            down(tree.left[node], mean)
            down(tree.left[node] + 1, mean)

    down(0, 0.0)
    return out


@pytest.mark.parametrize("n_splits", [0, 1, 7, 60])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_leaves_lean_on_their_parents(n_splits, n_classes):
    rng = np.random.default_rng(n_splits)
    tree = random_tree(rng, n_splits)
    counts = np.round(rng.normal(10, 30, (n_splits + 1, n_classes)))
    expected = np.log(naive_shares(tree, counts, 10.0) + 0.02)
    np.testing.assert_allclose(log_shares(tree, counts, 20.0), expected, rtol=1e-12)
    sums = np.column_stack([counts[:, 0], np.round(rng.normal(0, 60_000, n_splits + 1))])
    np.testing.assert_allclose(means(tree, sums, 20.0), naive_means(tree, sums, 5.0), rtol=1e-9)


def test_a_forest_without_noise_says_what_its_leaves_hold():
    tree = random_tree(np.random.default_rng(0), 4)
    counts = np.arange(10.0).reshape(5, 2) + 1
    said = np.exp(log_shares(tree, counts, 1e-9)) - 0.02
    np.testing.assert_allclose(said, counts / counts.sum(axis=1, keepdims=True), rtol=1e-6)


def test_log_odds_and_unchanged_curves_give_shares_back():
    rng = np.random.default_rng(1)
    for n_classes in (2, 3, 6):
        shares = rng.dirichlet(np.ones(n_classes), 50)
        np.testing.assert_allclose(log_odds(np.log(shares)), logit(shares), rtol=1e-9, atol=1e-12)
        read = read_odds(np.log(shares), unchanged(n_classes))
        np.testing.assert_allclose(read, shares, rtol=1e-9)
    assert read_odds(np.zeros((3, 1)), unchanged(1)).tolist() == [[1.0]] * 3


def test_a_record_is_in_one_cell():
    rng = np.random.default_rng(2)
    for n_classes in (1, 2, 4):
        said = rng.normal(0, 2, (300, n_classes))
        codes = rng.integers(0, 2**32, (300, 3)).astype(np.uint32)
        target = rng.integers(0, n_classes, 300).astype(np.int32)
        whole = bin_odds(said, codes, target)
        assert whole.shape == (BINS * (1 if n_classes == 2 else n_classes), 2)
        assert whole.sum() == 300
        for i in range(300):
            one = slice(i, i + 1)
            assert bin_odds(said[one], codes[one], target[one]).sum() == 1
        parts = [bin_odds(said[i::7], codes[i::7], target[i::7]) for i in range(7)]
        np.testing.assert_array_equal(sum(parts), whole)  # the order of rows plays no part
        if n_classes == 4:
            per_class = whole.reshape(4, -1).sum(axis=1)
            assert per_class.min() > 40  # a hash shares rows out evenly: 75 each, 4.6 deviations
    predicted = rng.uniform(-SUM_BOUND, SUM_BOUND, 300)
    target = rng.integers(-SUM_BOUND, SUM_BOUND + 1, 300).astype(np.int32)
    whole = bin_means(predicted, target)
    assert whole[:, 0].sum() == 300
    assert whole[:, 1].sum() == target.sum()


def histogram(odds, truth):
    bins = np.clip(((odds + 4) * BINS / 8).astype(int), 0, BINS - 1)
    return np.column_stack([np.bincount(bins[truth == t], minlength=BINS) for t in (0, 1)]).astype(float)


def test_the_curve_is_the_most_likely_one():
    """Without noise, against scikit-learn's logistic regression on the same three columns."""
    rng = np.random.default_rng(3)
    odds = rng.normal(-1, 1.3, 200_000)
    truth = (rng.random(len(odds)) < expit(1.5 * odds + 0.4)).astype(int)
    counts = histogram(odds, truth)
    found = calibrate_odds(counts, 1e-6)[0]
    centres = (np.arange(BINS) + 0.5) * 8 / BINS - 4
    x = np.column_stack([np.log(expit(centres)), -np.log(expit(-centres))])
    fit = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(
        np.tile(x, (2, 1)), np.repeat([0, 1], BINS), sample_weight=counts.T.ravel()
    )
    said = x @ found[:2] + found[2]
    busy = counts.sum(axis=1) > 500
    np.testing.assert_allclose(said[busy], fit.decision_function(x)[busy], atol=0.02)
    # And it undoes what was done to the odds.
    np.testing.assert_allclose(expit(said[busy]), expit(1.5 * centres[busy] + 0.4), atol=0.015)


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_changes_little(seed):
    """Nothing but noise in the histogram: probabilities must hardly change."""
    rng = np.random.default_rng(seed)
    curves = calibrate_odds(np.round(rng.normal(0, 50, (3 * BINS, 2))), 50.0)
    odds = np.linspace(-3, 3, 50)
    for curve in curves:
        bent = curve[0] * np.log(expit(odds)) - curve[1] * np.log(expit(-odds)) + curve[2]
        assert np.abs(expit(bent) - expit(odds)).max() < 0.15
    line = calibrate_means(
        np.round(rng.normal(0, [50, 50 * SUM_BOUND], (BINS, 2))), (50.0, 50.0 * SUM_BOUND)
    )
    assert np.abs(line - UNBENT).max() < 1.01


def test_some_noise_hardly_matters_for_many_rows():
    rng = np.random.default_rng(4)
    odds = rng.normal(-0.5, 0.8, 100_000)
    truth = (rng.random(len(odds)) < expit(1.4 * odds + 0.3)).astype(int)
    counts = histogram(odds, truth)
    noisy = calibrate_odds(counts + np.round(rng.normal(0, 30, counts.shape)), 30.0)[0]
    grid = np.linspace(-2, 1, 30)
    bent = noisy[0] * np.log(expit(grid)) - noisy[1] * np.log(expit(-grid)) + noisy[2]
    assert np.abs(expit(bent) - expit(1.4 * grid + 0.3)).max() < 0.02


def test_the_line_is_least_squares():
    rng = np.random.default_rng(5)
    predicted = rng.normal(0, 800, 100_000)
    target = np.clip(
        np.round(1.3 * predicted + 300 + rng.normal(0, 400, len(predicted))), -SUM_BOUND, SUM_BOUND
    )
    line = calibrate_means(bin_means(predicted, target.astype(np.int32)).astype(float), (1e-6, 1e-6))
    assert line[0] == pytest.approx(1.3, abs=0.05)
    assert line[1] * SUM_BOUND == pytest.approx(300, abs=10)


def test_rows_of_many_classes_are_counted_for_the_class_of_their_hash():
    """Against a loop: which class a row is counted for is the code's own hash, the rest is not."""
    rng = np.random.default_rng(6)
    said = rng.normal(0, 1, (400, 3))
    codes = rng.integers(0, 2**32, (400, 2)).astype(np.uint32)
    target = rng.integers(0, 3, 400).astype(np.int32)
    expected = np.zeros((3, BINS, 2))
    for i in range(400):
        c = _hash(codes[i : i + 1], 3)[0]
        share = np.exp(said[i]) / np.exp(said[i]).sum()
        odds = np.clip(logit(share[c]), -3.999, 3.999)
        expected[c, int((odds + 4) * BINS / 8), int(target[i] == c)] += 1
    np.testing.assert_array_equal(bin_odds(said, codes, target).reshape(3, BINS, 2), expected)


def posterior_mean(noisy, noise):
    """Posterior mean of a count of at least 0, from its noisy release, by summation over a fine grid."""
    n = np.linspace(0, max(noisy, 0) + 12 * noise, 200_001)
    weight = np.exp(-(((n - noisy) ** 2) - min(noisy, 0) ** 2) / (2 * noise**2))
    return np.trapezoid(n * weight, n) / np.trapezoid(weight, n)


@pytest.mark.parametrize("count", [-200.0, -30.0, 0.0, 10.0, 80.0, 5000.0])
def test_small_noisy_counts_are_read_as_what_they_may_have_been(count):
    assert _expected(np.array([count]), 20.0)[0] == pytest.approx(posterior_mean(count, 20.0), rel=1e-6)


def test_one_bin_does_not_make_a_forest_of_stumps_sure():
    """200 rows at a base rate of 0.11 in one bin, noise 17.6: what epsilon = 1 gives.

    Read as they were, the counts gave less than 0.01 in 8 % of draws, and 0.00003 at worst.
    """
    rng = np.random.default_rng(7)
    said = np.log([[0.88, 0.12]])
    place = np.searchsorted(np.linspace(-4, 4, BINS + 1), said[0, 1] - said[0, 0]) - 1
    found = []
    for _ in range(300):
        counts = np.round(rng.normal(0, 17.6, (BINS, 2)))
        counts[place] += [178, 22]
        found.append(read_odds(said, calibrate_odds(counts, 17.6))[0, 1])
    assert min(found) > 0.03
    assert max(found) < 0.4
    assert np.mean(found) == pytest.approx(0.11, abs=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_curves_minimise_likelihood_and_pull(seed):
    """Written out again, and minimised without gradients: noise as large as a tenth of the counts."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(-0.5, 1.5, 4000)
    truth = (rng.random(4000) < expit(1.5 * odds - 0.3)).astype(int)
    noise = 25.0
    counts = histogram(odds, truth) + np.round(rng.normal(0, noise, (BINS, 2)))
    centres = (np.arange(BINS) + 0.5) * 8 / BINS - 4
    used = counts.sum(axis=1) > 3 * np.sqrt(2) * noise
    p = expit(centres[used])
    x = np.column_stack([np.log(p), -np.log(1 - p), np.ones(used.sum())])
    # Each part is pulled with a third of the strength of the noise in its gradient.
    pull = [np.sqrt(np.sum(noise**2 * (p**2 + (1 - p) ** 2) * part**2)) / 3 for part in x.T]
    expected = [[posterior_mean(c, noise) for c in row] for row in counts[used]]
    false, true = np.transpose(expected)

    def loss(curve):
        q = expit(x @ curve)
        likely = true @ np.log(q) + false @ np.log(1 - q)
        return -likely + np.sum(pull * (curve - [1, 1, 0]) ** 2) / 2

    box = [(0.25, 4), (0.25, 4), (-2, 2)]
    best = minimize(loss, [1, 1, 0], method="Nelder-Mead", bounds=box, options={"xatol": 1e-6})
    np.testing.assert_allclose(calibrate_odds(counts, noise)[0], best.x, atol=2e-3)
