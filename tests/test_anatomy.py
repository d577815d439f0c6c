"""Shapes and importances of released trees, against scikit-learn and brute force."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from lumberjack.anatomy import (
    check_tree,
    depths,
    importances,
    independent_rows,
    leaf_sizes,
    learned_nothing,
)
from lumberjack.kinds import MISSING, OTHER
from lumberjack.tree import Forest, Tree


def from_sklearn(fitted, statistic):
    """scikit-learn's tree as ours: same splits, a statistic of the rows in each leaf."""
    inner = fitted.tree_
    feature, left, order, values = [], [], [0], []
    for node in order:  # level by level, so that siblings come next to each other
        if inner.children_left[node] < 0:
            feature.append(-1)
            left.append(len(values))
            values.append(statistic(node))
        else:
            feature.append(inner.feature[node])
            left.append(len(order))
            order += [inner.children_left[node], inner.children_right[node]]
    n = len(order)
    tree = Tree(
        np.array(feature, np.int32), np.zeros(n, np.uint32), np.zeros(n, bool), np.array(left, np.int32)
    )
    return tree, np.array(values, dtype=float)


@pytest.fixture(scope="module")
def classified():
    X, y = make_classification(
        3000, 8, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    fitted = DecisionTreeClassifier(max_depth=7, random_state=0).fit(X, y)
    place = fitted.apply(X)
    tree, values = from_sklearn(fitted, lambda n: np.bincount(y[place == n], minlength=3))
    return fitted, Forest((tree,), (values,), np.zeros(8, dtype=bool))


def test_importances_of_exact_counts_are_those_of_scikit_learn(classified):
    fitted, forest = classified
    np.testing.assert_allclose(importances(forest, "counts"), fitted.feature_importances_, rtol=1e-9)


def test_importances_of_exact_sums_are_those_of_scikit_learn():
    X, y = make_regression(2000, 6, n_informative=3, random_state=0)
    fitted = DecisionTreeRegressor(max_depth=6, random_state=0).fit(X, y)
    place = fitted.apply(X)
    tree, values = from_sklearn(fitted, lambda n: [np.sum(place == n), y[place == n].sum()])
    forest = Forest((tree,), (values,), np.zeros(6, dtype=bool))
    np.testing.assert_allclose(importances(forest, "sums"), fitted.feature_importances_, rtol=1e-9)


def test_noise_is_not_counted_as_importance(classified):
    """Labels that are the same everywhere: no column explains anything, whatever the noise."""
    _, forest = classified
    rng = np.random.default_rng(0)
    sizes = forest.values[0].sum(axis=1)
    even = np.repeat(sizes[:, None] * 4, 3, axis=1)
    trees, sigma = 200, 10.0
    noisy = tuple(even + rng.normal(0, sigma, even.shape) for _ in range(trees))
    many = Forest(forest.trees * trees, noisy, forest.categorical)
    # Corrected, the total is a few percent of what noise alone would explain otherwise.
    raw, corrected = (np.abs(sum_of_gains(many, noise)).sum() for noise in ((0.0, 0.0), (sigma, sigma)))
    assert corrected < 0.1 * raw


def sum_of_gains(forest, noise):
    """The importances before they are made shares, from shares of two forests: ours and a known gain."""
    n = len(forest.categorical)
    known = Tree(
        np.array([n, -1, -1], np.int32), np.zeros(3, np.uint32), np.zeros(3, bool),
        np.array([1, 0, 1], np.int32),
    )  # fmt: skip
    pure = np.zeros((2, 3))
    pure[0, 0] = pure[1, 1] = 1e6  # explains |p - q|^2 n_l n_r / n = 2 * 1e6 / 2
    both = Forest((*forest.trees, known), (*forest.values, pure), np.zeros(n + 1, dtype=bool))
    shares = importances(both, "counts", noise)
    return shares[:n] / shares[n] * 1e6


def test_noisy_importances_are_close_to_the_exact_ones(classified):
    fitted, forest = classified
    rng = np.random.default_rng(1)
    sigma = 3.0
    noisy = tuple(forest.values[0] + rng.normal(0, sigma, forest.values[0].shape) for _ in range(50))
    found = importances(Forest(forest.trees * 50, noisy, forest.categorical), "counts", (sigma, sigma))
    assert np.abs(found - fitted.feature_importances_).sum() < 0.1
    assert found.sum() == pytest.approx(1)


def test_a_forest_of_stumps_learned_nothing():
    X, y = make_classification(60, random_state=0)
    trees = [
        from_sklearn(DecisionTreeClassifier(max_depth=d).fit(X, labels), lambda _: [1.0])[0]
        for d, labels in ((1, y * 0), (2, y * 0), (1, y))
    ]
    values, kinds = [np.ones((tree.n_leaves, 1)) for tree in trees], np.zeros(20, bool)
    assert learned_nothing(Forest(trees[:2], values[:2], kinds))
    assert not learned_nothing(Forest(trees, values, kinds))


def test_a_stump_has_no_importances():
    tree = Tree(*(np.array([v], dtype=d) for v, d in ((-1, "i4"), (0, "u4"), (0, "?"), (0, "i4"))))
    forest = Forest((tree,), (np.array([[5.0, 3.0]]),), np.zeros(2, dtype=bool))
    assert importances(forest, "counts").tolist() == [0, 0]
    assert depths(tree).tolist() == [0]
    assert leaf_sizes(forest, "counts").tolist() == [8]
    assert leaf_sizes(forest, "sums").tolist() == [5]
    assert leaf_sizes(forest, "labels") is None


def flat(*nodes):
    """A tree from its nodes, level by level: (feature, cut, left child), or the number of a leaf."""
    each = [node if isinstance(node, tuple) else (-1, 0, node) for node in nodes]
    feature, cut, left = (np.array(column, dtype=np.int32) for column in zip(*each, strict=True))
    return Tree(feature, cut.astype(np.uint32), np.zeros(len(each), bool), left)


@pytest.fixture
def weighted():
    """The base, a number with two intervals, a category with two values, and the pair: 100 rows."""
    base, number = flat(0), flat((0, 0, 1), (0, 0, 3), 1, 0, 2)
    category = flat((1, 1, 1), 1, (1, 0, 3), 0, 2)
    pair = flat((0, 0, 1), (1, 1, 3), (1, 1, 5), 0, 1, 2, 3)
    values = (
        np.array([[100, 5.0, -5.0]]),
        np.array([[50, 1.0, 0.0], [40, -1.0, 0.0], [10, -1.0, 0.0]]),  # variances 1 and 0
        np.array([[20, 2.0, 1.0], [80, -0.5, 1.0], [0, 9.0, 9.0]]),  # 0.2 * 4 + 0.8 / 4 = 1, and 0
        np.array([[40, 0.0, 3.0], [10, 0.0, 3.0], [40, 0.0, -3.0], [10, 0.0, -3.0]]),  # 0 and 9
    )
    return Forest((base, number, category, pair), values, np.array([False, True, False]))


def test_importances_of_weights_are_variances_over_rows(weighted):
    """1 + 9 / 2 for either column of the pair, 0 for a column of no tree."""
    assert importances(weighted, "weights").tolist() == [0.5, 0.5, 0.0]
    tripled = tuple(np.column_stack([v[:, :1], 3 * v[:, 1:]]) for v in weighted.values)
    weighted.values[1][:, 1:] *= 3
    expected = np.array([9 + 4.5, 1 + 4.5, 0]) / 19
    np.testing.assert_allclose(importances(weighted, "weights"), expected, rtol=1e-12)
    weighted.values[3][:, 1:] = 0
    np.testing.assert_allclose(importances(weighted, "weights"), [0.9, 0.1, 0.0], rtol=1e-12)
    again = Forest(weighted.trees, tripled, weighted.categorical)
    assert importances(again, "weights").tolist() == [0.5, 0.5, 0.0]


def test_sizes_of_weighted_leaves_are_those_of_columns(weighted):
    assert leaf_sizes(weighted, "weights").tolist() == [50, 40, 10, 20, 80, 0]
    alone = Forest(weighted.trees[:1], weighted.values[:1], weighted.categorical)
    assert leaf_sizes(alone, "weights").tolist() == []


def test_a_base_alone_has_learned_nothing(weighted):
    assert not learned_nothing(weighted, "weights")
    for values in weighted.values[1:]:
        values[:, 1:] = 0
    assert learned_nothing(weighted, "weights")
    assert not learned_nothing(weighted, "sums")  # where the same values would be means
    assert importances(weighted, "weights").tolist() == [0, 0, 0]
    weighted.values[3][2, 2] = 2.0**-16
    assert not learned_nothing(weighted, "weights")


def test_independent_rows_have_the_sizes_of_cells(weighted):
    codes = independent_rows(weighted)
    n = len(codes)
    number, category = codes[:, 0], codes[:, 1]
    found = [np.sum(number == code) / n for code in (0, 1, MISSING)]
    np.testing.assert_allclose(found, [0.5, 0.4, 0.1], atol=1 / n)
    found = [np.sum(category == code) / n for code in (0, 1, OTHER)]
    np.testing.assert_allclose(found, [0.2, 0.8, 0.0], atol=1 / n)
    both = np.mean((number == 0) & (category == 1))
    assert abs(both - 0.5 * 0.8) < 6 * np.sqrt(0.4 * 0.6 / n)  # six standard deviations
    np.testing.assert_array_equal(codes, independent_rows(weighted))


def test_depths_by_walking_down(classified):
    tree = classified[1].trees[0]
    expected = {0: 0}
    for node in range(len(tree.feature)):
        if tree.feature[node] >= 0:
            expected[tree.left[node]] = expected[tree.right[node]] = expected[node] + 1
    assert depths(tree).tolist() == [expected[node] for node in range(len(tree.feature))]


def test_every_invalid_small_tree_is_refused():
    """All trees of three nodes with small numbers: only those whose walks all end at a leaf pass."""
    numbers = [-2, -1, 0, 1, 2, 3]
    passed = 0
    for case in np.stack(np.meshgrid(*[numbers] * 3, indexing="ij"), -1).reshape(-1, 3):
        left = np.array(case, np.int32)
        for second in (-1, 0):
            feature = np.array([0, second, -1], np.int32)
            tree = Tree(feature, np.zeros(3, np.uint32), np.zeros(3, bool), left)
            try:
                check_tree(tree, 1)
            except ValueError:
                continue
            passed += 1
            ends = {int(walk(tree, first, then)) for first in (0, 1) for then in (0, 1)}
            assert ends == set(range(tree.n_leaves))
    assert passed == 2  # the two orders of the leaves' numbers


def walk(tree, *turns):
    node = 0
    for turn in turns:
        if tree.feature[node] >= 0:
            node = (tree.left, tree.right)[turn][node]
            assert 0 <= node < 3
    assert tree.feature[node] == -1
    return tree.left[node]
