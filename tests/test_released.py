"""What a fit releases predicts by itself: by hand, leaf by leaf."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import lumberjack.released
from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import make_toy
from lumberjack.leaves import Counts, Weights
from lumberjack.released import released_by
from lumberjack.tree import Tree


@pytest.fixture(scope="module")
def fitted():
    X, y, domain = make_toy(1500)
    settings = {"epsilon": 8.0, "domain": domain, "splits": "random", "n_estimators": 3}
    classes = LumberjackClassifier(classes=[0, 1, 2], leaf="counts", **settings).fit(X, y)
    return X, classes, LumberjackRegressor(y_bounds=(0, 2), **settings).fit(X, y)


def test_votes_of_counts_are_means_of_shares(fitted):
    """From released counts alone, leaf by leaf."""
    X, model, _ = fitted
    leaves, shares = model.apply(X), 0
    for tree, counts in enumerate(model.forest_.values):
        positive = np.maximum(counts, 0) + (counts.max(axis=1, keepdims=True) <= 0)
        shares = shares + (positive / positive.sum(axis=1, keepdims=True))[leaves[:, tree]]
    np.testing.assert_allclose(model.predict_proba(X), shares / 3, rtol=1e-12)


def test_numbers_of_pruned_trees_are_means_of_means(fitted):
    X, _, model = fitted
    leaves, means = model.apply(X), 0
    for tree, sums in enumerate(model.forest_.values):
        mean = np.clip(sums[:, 1] / np.maximum(sums[:, 0], 1), -4096, 4096)
        means = means + mean[leaves[:, tree]]
    # Numbers lie between 0 and 2, and each of few operations rounds by at most 2^-53 of such a number.
    np.testing.assert_allclose(model.predict(X), 1 + means / 3 / 4096, rtol=0, atol=2.0**-50)


@pytest.mark.parametrize("leaf", ["counts", "fitted"])
def test_votes_are_computed_once(leaf, monkeypatch):
    """A call on one row looks at no leaf but its own."""
    X, y, domain = make_toy(1500)
    model = LumberjackClassifier(8.0, domain=domain, classes=[0, 1, 2], leaf=leaf).fit(X, y)
    model.set_params(class_weight="balanced")
    before = model.predict_proba(X[:1])

    def never(*_):
        raise AssertionError("leaves were read again")

    for held in (Counts, Weights):
        monkeypatch.setattr(held, "vote", never)
    monkeypatch.setattr(Tree, "_paths", never)
    monkeypatch.setattr(lumberjack.released, "independent_rows", never)
    np.testing.assert_array_equal(model.predict_proba(X[:1]), before)


def test_cached_values_are_not_pickled(fitted):
    X, y, domain = make_toy(1500)
    model = LumberjackClassifier(8.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    fresh = pickle.dumps(model)
    model.predict_proba(X)
    assert pickle.dumps(model) == fresh
    np.testing.assert_array_equal(pickle.loads(fresh).predict_proba(X), model.predict_proba(X))


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


@pytest.mark.parametrize("classes", [[0, 1, 2], [False, True]])
def test_scores_of_fitted_leaves_are_sums_of_weights(classes):
    X, y, domain = make_toy(4000)
    y = y if len(classes) > 2 else y > 0
    released = released_by(LumberjackClassifier(8.0, domain=domain, classes=classes).fit(X, y))
    leaves = released.apply(X)
    scores = sum(v[leaves[:, tree], 1:] for tree, v in enumerate(released.forest.values))
    scores = scores if len(classes) > 2 else np.column_stack([0 * scores, scores])
    odds = np.exp(scores)
    np.testing.assert_allclose(released.chances(X), odds / odds.sum(axis=1, keepdims=True), rtol=1e-9)


def test_numbers_of_fitted_leaves_are_half_widths_inside_their_limits():
    X, y, domain = make_toy(4000)
    released = released_by(LumberjackRegressor(8.0, domain=domain, y_bounds=(0, 1.25)).fit(X, y))
    leaves, numbers = released.apply(X), released.numbers
    scores = sum(v[leaves[:, tree], 1] for tree, v in enumerate(released.forest.values))
    expected = (numbers.low + numbers.high) / 2 + scores * (numbers.high - numbers.low) / 2
    assert numbers.low < 0 or numbers.high > 1.25  # learned nevertheless
    assert expected.max() > 1.25
    np.testing.assert_allclose(released.predict(X), np.clip(expected, 0, 1.25), rtol=1e-9)


@pytest.mark.parametrize("counts", [(3000, 9000), (9000, 2000, 1000)])
def test_balanced_weights_of_fitted_forests_follow_the_classes(counts):
    """Two independent columns shift the odds, so the base alone is far from the shares."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), 2))
    X[:, 0] += 2.5 * y
    model = LumberjackClassifier(8.0, classes=np.unique(y)).fit(X, y)
    released = released_by(model)
    shares = 1 / released.class_weights("balanced") / len(counts)
    np.testing.assert_allclose(shares.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(shares, np.array(counts) / len(y), atol=0.04)
    base = released.forest.values[0][0, 1:]
    odds = np.exp(base if len(counts) > 2 else [0, *base])
    assert np.abs(odds / odds.sum() - np.array(counts) / len(y)).max() > 0.08
    plain = released.chances(X)
    weighted = plain * released.class_weights("balanced")
    expected = weighted / weighted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(released.chances(X, "balanced"), expected, rtol=1e-12)


def test_a_forest_without_weights_learned_nothing():
    X, y, domain = make_toy(4000)
    released = released_by(LumberjackClassifier(8.0, domain=domain, classes=[0, 1, 2]).fit(X, y))
    assert not released.learned_nothing
    assert list(released.importances()) == list(domain)
    assert sum(released.importances().values()) == pytest.approx(1)
    assert len(released.leaf_sizes()) == sum(tree.n_leaves for tree in released.forest.trees[1:3])
    assert released.leaf_sizes().sum() == pytest.approx(2 * released.forest.values[0][0, 0])
    for values in released.forest.values[1:]:
        values[:, 1:] = 0
    assert released.learned_nothing
    assert set(released.importances().values()) == {0.0}


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
