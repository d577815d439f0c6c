"""What a fit releases predicts by itself: by hand, leaf by leaf."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import make_toy
from lumberjack.released import released_by


@pytest.fixture(scope="module")
def fitted():
    X, y, domain = make_toy(1500)
    settings = {"epsilon": 8.0, "domain": domain, "splits": "random", "n_estimators": 3}
    classes = LumberjackClassifier(classes=[0, 1, 2], **settings).fit(X, y)
    return X, classes, LumberjackRegressor(y_bounds=(0, 2), **settings).fit(X, y)


def test_pooled_votes_are_sums_over_the_leaves(fitted):
    X, model, _ = fitted
    released = released_by(model)
    leaves, said = released.apply(X), released.say()
    by_hand = sum(values[leaves[:, tree]] for tree, values in enumerate(said))
    np.testing.assert_allclose(released.forest.pool(said, released.encode(X)), by_hand, rtol=1e-12)
    np.testing.assert_allclose(
        released.predict(X), released.target.read(by_hand, released.forest, released.calibration)
    )
    np.testing.assert_array_equal(released.chances(X), model.predict_proba(X))


def test_votes_of_labels_are_divided_once(fitted):
    """Leaves vote with 1; a tie goes to the class with fewer leaves."""
    X, _, _ = fitted
    model = LumberjackClassifier(8.0, domain=make_toy(1500)[2], classes=[0, 1, 2], leaf="majority")
    released = released_by(model.set_params(splits="random", n_estimators=3).fit(X, make_toy(1500)[1]))
    leaves, labels = released.apply(X), released.forest.values
    votes = sum(values[leaves[:, tree]] for tree, values in enumerate(labels))
    share = np.maximum(sum(values.sum(axis=0) for values in labels), 1)
    votes = votes + 1e-3 * 3 * ((1 - share / share.sum()) / 2)
    np.testing.assert_array_equal(released.chances(X), votes / votes.sum(axis=1, keepdims=True))


def test_weights_of_classes_rescale_chances(fitted):
    X, model, _ = fitted
    released = released_by(model)
    plain = released.predict(X)
    weighted = plain * [1.0, 3.0, 1.0]
    expected = weighted / weighted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(released.chances(X, {1: 3.0}), expected)
    np.testing.assert_array_equal(released.class_weights(None), [1, 1, 1])
    balanced = released.class_weights("balanced")
    totals = sum(values.sum(axis=0) for values in released.forest.values)
    np.testing.assert_allclose(balanced * totals, np.full(3, totals.sum() / 3))


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({0: 1e308, 1: 1e308}, "at most 1e100"),
        ({0: float("nan")}, "numbers of at least 0"),
        ({0: -5.0}, "numbers of at least 0"),
        ({0: 0.0, 1: 0.0, 2: 0.0}, "must not all be 0"),
        ({7: 3.0}, r"not in classes: \[7\]"),
        ("heavy", "None, 'balanced' or a dict"),
    ],
)
def test_weights_of_classes_set_after_fit_are_checked(fitted, weights, problem):
    X, model, _ = fitted
    model.set_params(class_weight=weights)
    with pytest.raises(ValueError, match=problem):
        model.predict_proba(X)
    model.set_params(class_weight=None)


def test_targets_are_told_apart(fitted):
    _, classifier, regressor = fitted
    assert released_by(classifier).classes.labels.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="no bounds"):
        _ = released_by(classifier).numbers
    with pytest.raises(TypeError, match="no classes"):
        _ = released_by(regressor).classes


def test_nothing_is_released_before_a_fit():
    with pytest.raises(NotFittedError):
        released_by(LumberjackClassifier(1.0))
