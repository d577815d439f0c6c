"""Pruning without noise, and what training asks of its target."""

import numpy as np
import pytest

import lumberjack.leaves
import lumberjack.training
from lumberjack import Domain, plan
from lumberjack.engines.base import Block
from lumberjack.engines.local import LocalRows
from lumberjack.engines.many import ManyRows
from lumberjack.learning import Task
from lumberjack.noise import Bits, RoundedGaussian
from lumberjack.structure import Features, root_keys
from lumberjack.targets import Classes, Numbers
from lumberjack.training import Policy, prune, train

DOMAIN = Domain({"x": (0, 1), "c": ["a", "b"]})


class Never:
    def draw(self, counts, bits, keys):
        return np.zeros(len(counts), dtype=bool)


class Always:
    def draw(self, counts, bits, keys):
        return np.ones(len(counts), dtype=bool)


def rows(n=300):
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 2**31, n), rng.integers(0, 2, n)], axis=1).astype(np.uint32)
    return LocalRows(codes, (codes[:, 1]).astype(np.int32)), codes


def test_a_root_that_does_not_pass_is_the_only_leaf():
    data, codes = rows()
    (key,) = root_keys(0, 1)
    tree, leaves = prune(data, len(codes), Features.of(DOMAIN), key, Policy(6, Never(), Bits()))
    assert tree.n_leaves == len(leaves.keys) == 1
    assert leaves.keys[0] == key


@pytest.mark.parametrize("height", [1, 4])
def test_where_all_pass_leaves_are_on_the_last_level(height):
    data, codes = rows()
    (key,) = root_keys(0, 1)
    features = Features.of(Domain({"x": (0, 1), "y": (0, 1)}))
    tree, leaves = prune(data, len(codes), features, key, Policy(height, Always(), Bits()))
    depth = np.zeros(len(tree.feature), dtype=int)
    for node in np.flatnonzero(tree.feature >= 0):
        depth[[tree.left[node], tree.left[node] + 1]] = depth[node] + 1
    reached = np.unique(tree.apply(codes, features.categorical))
    assert (depth[tree.feature < 0][np.argsort(tree.left[tree.feature < 0])][reached] == height).all()
    assert len(np.unique(leaves.keys)) == tree.n_leaves


def test_a_forest_has_the_planned_trees_and_reports_each():
    data, _ = rows()
    told = []
    promise = plan(4.0, 1e-6, 3, 8, splits="random")
    classes = Classes(np.arange(2))
    task = Task(DOMAIN, classes)
    trained = train(data, task, promise, Bits(0), advance=lambda: told.append(1))
    forest = trained.forest
    assert len(forest.trees) == len(forest.values) == len(told) == 3
    assert [len(v) for v in forest.values] == [tree.n_leaves for tree in forest.trees]
    assert (trained.domain, trained.target) == (DOMAIN, classes)


def test_tables_of_noise_are_made_once_for_all_trees(monkeypatch):
    """Those of sums take longer than a tree."""
    made = []

    class Counted(RoundedGaussian):
        def __init__(self, sigma):
            made.append(sigma)
            super().__init__(sigma)

    monkeypatch.setattr(lumberjack.leaves, "RoundedGaussian", Counted)
    promise = plan(4.0, 1e-6, 5, 8, splits="random", leaf="mean")
    train(rows()[0], Task(DOMAIN, Numbers(0.0, 1.0)), promise, Bits(0))
    assert sorted(made) == sorted([promise.leaf_noise, promise.sum_noise])


@pytest.mark.parametrize("splits", ["guided", "random"])
def test_rows_in_blocks_give_the_same_forest(splits, monkeypatch):
    """Few enough rows to run uncompiled, and enough for a sample that says how to lay out a tree."""
    _, codes = rows(2100)
    target = (codes[:, 0] > 2**30).astype(np.int32) ^ (codes[:, 1] > 0)
    promise = plan(8.0, 1e-3, 1, 8, splits=splits, leaf="counts")
    task = Task(DOMAIN, Classes(np.arange(2)))
    parts = [slice(700, None), slice(0, 700)]
    many = ManyRows([Block(codes[part], target[part]) for part in parts])
    monkeypatch.setattr(lumberjack.training, "_SAMPLE", 400)
    one, other = (
        train(each, task, promise, Bits(3)).forest for each in (LocalRows(codes, target), many)
    )
    assert one.trees[0].n_leaves > 8
    for name in ("feature", "cut", "missing_left", "left"):
        np.testing.assert_array_equal(getattr(one.trees[0], name), getattr(other.trees[0], name))
    np.testing.assert_array_equal(one.values[0], other.values[0])
