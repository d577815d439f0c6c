"""A released forest against following its splits row by row."""

import pickle

import numpy as np
import pytest

from lumberjack.kinds import MISSING, OTHER
from lumberjack.tree import LEAF, Forest, Tree

CATEGORICAL = np.array([False, True])
STUMP = Tree(
    np.array([LEAF], dtype=np.int32),
    np.zeros(1, dtype=np.uint32),
    np.zeros(1, dtype=np.bool_),
    np.zeros(1, dtype=np.int32),
)
ROWS = {
    (0, 2): 1,  # at most 100, and category 2
    (100, 2): 1,
    (100, 1): 2,
    (5, OTHER): 2,
    (101, 2): 0,
    (MISSING, 2): 0,  # missing numbers go right at the root
}


def small_tree():
    """Root: x <= 100, else leaf 0; below on the left: c == 2, leaf 1, else leaf 2."""
    return Tree(
        feature=np.array([0, 1, LEAF, LEAF, LEAF], dtype=np.int32),
        cut=np.array([100, 2, 0, 0, 0], dtype=np.uint32),
        missing_left=np.zeros(5, dtype=np.bool_),
        left=np.array([1, 3, 0, 1, 2], dtype=np.int32),
    )


@pytest.mark.parametrize("repeat", [1, 100])
def test_each_row_reaches_its_leaf(repeat):
    """Also where rows are more than walk together."""
    codes = np.array([*ROWS] * repeat, dtype=np.uint32)
    assert small_tree().apply(codes, CATEGORICAL).tolist() == [*ROWS.values()] * repeat
    assert small_tree().n_leaves == 3
    assert small_tree().right.tolist() == [2, 4, -1, -1, -1]
    assert (small_tree().columns, STUMP.columns) == ((0, 1), ())


def test_missing_numbers_may_go_left():
    tree = small_tree()
    tree.missing_left[0] = True
    codes = np.array([[MISSING, 2], [MISSING, 0]], dtype=np.uint32)
    assert tree.apply(codes, CATEGORICAL).tolist() == [1, 2]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_forest_adds_up_what_its_leaves_say(threads):
    forest = Forest((small_tree(), STUMP), (np.eye(3), np.ones((1, 3))), CATEGORICAL)
    before = pickle.dumps(forest)
    codes = np.array([*ROWS] * 6000, dtype=np.uint32)  # more than one thread takes at a time
    leaves = np.array([*ROWS.values()] * 6000)
    np.testing.assert_array_equal(forest.apply(codes, threads), np.stack([leaves, 0 * leaves], axis=1))
    np.testing.assert_array_equal(forest.pool(forest.values, codes, threads), np.eye(3)[leaves] + 1)
    assert pickle.dumps(forest) == before
