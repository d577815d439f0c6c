"""Scores of probabilities: by hand, and by scikit-learn where it has them."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from benchmarks import scores


def both(p):
    p = np.asarray(p, dtype=float)
    return np.column_stack([1 - p, p])


def test_scores_of_two_classes_are_scikit_learns():
    rng = np.random.default_rng(0)
    p, y = rng.random(500), rng.integers(2, size=500)
    found = scores.of_classes(both(p), y)
    assert found["accuracy"] == np.mean((p > 0.5) == y)
    assert found["auc"] == roc_auc_score(y, p)
    assert found["brier"] == pytest.approx(brier_score_loss(y, p))


def test_brier_score_of_three_classes_by_hand():
    shares = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    # (0.25 + 0.09 + 0.04) and (0.01 + 0.81 + 0.64), a half of their mean
    assert scores.brier(shares, np.array([0, 1])) == pytest.approx((0.38 + 1.46) / 4)


def test_reliability_of_two_groups_by_hand():
    p = [0.2] * 50 + [0.9] * 50
    y = np.array([1] * 15 + [0] * 35 + [1] * 40 + [0] * 10)  # 0.3 and 0.8 are true
    assert scores.reliability_error(both(p), y) == pytest.approx((0.1 + 0.1) / 2)
    right = np.array([1] * 10 + [0] * 40 + [1] * 45 + [0] * 5)
    assert scores.reliability_error(both(p), right) == pytest.approx(0)


def test_bins_hold_about_equal_numbers_of_rows():
    """Errors of opposite sign cancel within a bin, and not between bins."""
    p = np.repeat(np.arange(20) / 20 + 0.01, 10)  # two values a bin
    y = np.zeros(200, dtype=int)
    assert scores.reliability_error(both(p), y) == pytest.approx(p.mean())
    p = np.concatenate([np.full(180, 0.001) + np.arange(180) * 1e-6, np.full(20, 0.5)])
    y = np.concatenate([np.zeros(180), np.repeat([0, 1], 10)]).astype(int)
    assert scores.reliability_error(both(p), y) == pytest.approx(0.9 * p[:180].mean())


def test_reliability_of_one_value_for_all_rows():
    assert scores.reliability_error(both([0.5] * 10), np.array([1] * 7 + [0] * 3)) == pytest.approx(0.2)


def test_reliability_of_more_classes_is_that_of_the_prediction():
    shares = np.array([[0.6, 0.3, 0.1]] * 10)
    target = np.array([0] * 4 + [1] * 6)
    assert scores.reliability_error(shares, target) == pytest.approx(0.2)  # says 0.6, is right in 0.4
