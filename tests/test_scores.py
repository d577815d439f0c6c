"""Scores on held-out data: exact ones against scikit-learn, private ones against what they promise."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from lumberjack.accounting import gaussian_delta
from lumberjack.scores import (
    Spent,
    _histogram,
    _sums,
    classification,
    private_classification,
    private_regression,
    regression,
)
from lumberjack.targets import Numbers


def predictions(n=5000, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(n_classes, 0.7), n)
    classes = np.array(["a", "b", "c", "d"][:n_classes])
    truth = classes[[rng.choice(n_classes, p=p) for p in proba]]
    return truth, proba, classes


def test_exact_scores():
    truth, proba, classes = predictions()
    found = classification(truth, proba, classes)
    assert found["accuracy"] == np.mean(classes[proba.argmax(axis=1)] == truth)
    assert found["auc"] == roc_auc_score(truth == "b", proba[:, 1])
    assert found["calibration_error"] < 0.05  # the truth was drawn from these probabilities
    assert classification(truth[truth == "a"], proba[truth == "a"], classes)["auc"] is None
    several = classification(*predictions(n_classes=4))
    assert 0.5 < several["auc"] < 1
    assert regression(np.array([1.0, 2.0]), np.array([1.0, 4.0])) == {
        "r2": pytest.approx(-7.0),
        "mean_absolute_error": 1.0,
        "root_mean_squared_error": pytest.approx(2**0.5),
    }


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_row_is_in_one_cell_of_the_histogram(n_classes):
    """The sensitivity that the price of a private score rests on."""
    truth, proba, classes = predictions(300, n_classes)
    proba[:3] = np.eye(n_classes)[0], np.full(n_classes, 1 / n_classes), np.eye(n_classes)[-1]
    for i in range(100):
        change = _histogram(truth, proba, classes) - _histogram(
            np.delete(truth, i), np.delete(proba, i, axis=0), classes
        )
        assert sorted(change.ravel())[-2:] == [0, 1]
        assert change.sum() == 1


def test_a_row_moves_the_sums_by_at_most_their_bounds():
    rng = np.random.default_rng(0)
    truth, predicted = rng.uniform(-50, 50, 200), rng.uniform(-50, 50, 200)
    targets = Numbers(-10, 30)
    truth[:2], predicted[:2] = (-1e300, 1e300), (30, -10)
    for i in range(200):
        change = _sums(truth, predicted, targets) - _sums(
            np.delete(truth, i), np.delete(predicted, i), targets
        )
        assert change[0] == 1
        assert (change >= 0).all()
        assert (change[1:] <= 4096).all()


def test_the_price_can_be_recomputed():
    spent = Spent.plan(0.7, 1e-5, rows_per_person=3)
    assert (spent.unit, spent.rows_per_person) == ("person", 3)
    assert spent.verify() == gaussian_delta(0.7, 3 / spent.noise) <= 1e-5
    assert gaussian_delta(0.7, 3 / (0.999 * spent.noise)) > 1e-5  # no more noise than needed
    for wrong in ({"epsilon": -1}, {"delta": 2}, {"rows_per_person": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Spent.plan(**{"epsilon": 1.0, "delta": 1e-6, **wrong})


def test_private_scores_are_noisy_and_near():
    truth, proba, classes = predictions(20_000)
    exact, spent = classification(truth, proba, classes), Spent.plan(1.0, 1e-6)
    found = [private_classification(truth, proba, classes, spent) for _ in range(30)]
    accuracies = np.array([f["accuracy"] for f in found])
    # 40 cells with noise 4.2 each: about 27 rows of 20,000. Six standard deviations: 1 in 10^8.
    assert np.abs(accuracies - exact["accuracy"]).max() < 6 * found[0]["accuracy_noise"]
    assert len(set(accuracies)) > 20
    assert found[0]["accuracy_noise"] == pytest.approx(spent.noise * 40**0.5 / 20_000, rel=0.02)
    assert np.abs(np.array([f["auc"] for f in found]) - exact["auc"]).max() < 0.01
    several = private_classification(*predictions(20_000, 4), spent)
    assert several["auc"] is None
    assert several["accuracy"] == pytest.approx(
        classification(*predictions(20_000, 4))["accuracy"], abs=0.01
    )


def test_without_noise_a_private_score_is_the_exact_one():
    truth, proba, classes = predictions(20_000)
    found = private_classification(truth, proba, classes, Spent(1, 1, "row", 1, 1e-9))
    assert found["accuracy"] == classification(truth, proba, classes)["accuracy"]
    binned = np.ceil(proba[:, 1] * 20)
    assert found["auc"] == pytest.approx(roc_auc_score(truth == "b", binned), rel=1e-12)
    rng = np.random.default_rng(0)
    truth, predicted = rng.uniform(0, 8, 5000), rng.uniform(0, 8, 5000)
    near = private_regression(truth, predicted, Numbers(0, 8), Spent(1, 1, "row", 1, 1e-9))
    for name, value in regression(truth, predicted).items():
        assert near[name] == pytest.approx(value, rel=0.01)


def test_the_noise_of_sums_grows_with_their_bounds():
    truth = predicted = np.full(3000, 4.0)  # no error at all: what is released is noise
    spent = Spent.plan(1.0, 1e-6)
    found = [private_regression(truth, predicted, Numbers(0, 8), spent) for _ in range(400)]
    errors = np.array([f["mean_absolute_error"] for f in found])
    # |error| is a clipped Gaussian around 0: half of them 0, standard deviation 8 sqrt(5) noise / n.
    sigma = 8 * 5**0.5 * spent.noise / 3000
    assert 0.3 < np.mean(errors == 0) < 0.7  # 400 fair coins leave this with chance below 1e-14
    assert np.sqrt(np.mean(errors**2) * 2) == pytest.approx(sigma, rel=0.4)


def test_private_scores_of_few_rows_stay_in_range():
    spent = Spent.plan(0.1, 1e-6)
    truth, proba, classes = predictions(3)
    for _ in range(50):
        found = private_classification(truth, proba, classes, spent)
        assert 0 <= found["accuracy"] <= 1
        assert found["auc"] is None or 0 <= found["auc"] <= 1
        private_regression(np.ones(2), np.ones(2), Numbers(1, 1), spent)
