"""Mistakes that were made in earlier private forests: docs/flaws.md tells each story."""

import numpy as np
import pytest

from lumberjack import LumberjackClassifier, LumberjackRegressor

DOMAIN = {"a": (0, 1), "b": (0, 1), "c": ["u", "v", "w"]}
pytestmark = pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), dtype=object)
    X[:, 0], X[:, 1], X[:, 2] = rng.random(n), rng.random(n), rng.choice(["u", "v", "w"], n)
    return X, rng.integers(0, 2, n)


def forest(X, y, **kw):
    given = {"epsilon": 4.0, "random_state": 5, "n_estimators": 4, "splits": "random", **kw}
    return LumberjackClassifier(domain=DOMAIN, classes=[0, 1], leaf="counts", **given).fit(X, y)


def shapes(model):
    return [(t.feature.tolist(), t.cut.tolist(), t.left.tolist()) for t in model.forest_.trees]


def test_pure_nodes_are_split_like_all_others():
    X, y = table()
    mixed, pure = forest(X, y), forest(X, np.zeros(len(y), dtype=int))
    assert shapes(mixed) == shapes(pure)
    assert max(tree.n_leaves for tree in pure.forest_.trees) > 5


def test_cuts_come_from_the_domain_and_not_from_the_data():
    """Other values, same seed: where both trees split, they split at the same place."""
    X, y = table()
    moved = X.copy()
    moved[:, 0] = 0.9 + 0.1 * X[:, 0].astype(float)
    one, two = forest(X, y), forest(moved, y)
    for left, right in zip(one.forest_.trees, two.forest_.trees, strict=True):
        assert (left.feature[0], left.cut[0]) == (right.feature[0], right.cut[0])
    cells = set((X[:, 0].astype(float) * 2**31).astype(int).tolist())
    cuts = {int(c) for t in one.forest_.trees for c in t.cut[t.feature == 0]}
    assert len(cuts) > 10
    assert not cuts & cells


def test_learned_cuts_are_no_values_of_the_table():
    """Nothing is declared, and there is next to no noise: cuts fall between values, not on them."""
    X, y = table()
    values = X[:, 0].astype(np.float64)
    model = LumberjackClassifier(1e3, n_estimators=2, max_depth=2, random_state=5).fit(X, y)
    cuts = model.domain_["x0"].edges
    assert len(cuts) == 31
    assert not np.isin(cuts, values.astype(np.float32)).any()
    shares = np.mean(values[:, None] < cuts, axis=0)
    np.testing.assert_allclose(shares, np.arange(1, 32) / 32, atol=0.01)


def test_every_row_counts_once_in_every_tree():
    """With next to no noise the leaves of a tree hold each row once: no bootstrap, no weights."""
    X, y = table()
    model = forest(X, y, epsilon=1e5)
    for values in model.forest_.values:
        assert values.sum(axis=0).tolist() == [np.sum(y == 0), np.sum(y == 1)]


def test_pure_and_empty_leaves_have_noise_like_all_others():
    X, _ = table()
    model = forest(X, np.zeros(len(X), dtype=int), n_estimators=50)
    never = np.concatenate([values[:, 1] for values in model.forest_.values])  # class 1 does not occur
    assert len(never) > 200
    assert never.std() == pytest.approx(model.guarantee_.leaf_noise, rel=0.35)


def test_noise_does_not_depend_on_the_data():
    X, y = table()
    few, label = table(100, seed=1)
    assert forest(X, y).guarantee_ == forest(few, label).guarantee_
    wide = LumberjackRegressor(domain=DOMAIN, y_bounds=(0, 100), splits="random")
    narrow = LumberjackRegressor(domain=DOMAIN, y_bounds=(0, 100), splits="random")
    assert wide.fit(X, y * 100).guarantee_ == narrow.fit(few, label * 1e-3).guarantee_
