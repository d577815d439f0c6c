"""Trees looked up together: naive walks down each tree, whatever the tables are."""

import pickle

import numpy as np
import pytest
from test_residuals import CATEGORICAL, STUMP, TERMS, naive_leaf, rows
from test_terms import category, number

from lumberjack.grove import Grove
from lumberjack.kinds import MISSING, OTHER, compact
from lumberjack.terms import base_term, column_term, pair_term
from lumberjack.tree import Tree

TREES = tuple(term.tree for term in TERMS)
ROOMS = [1, 40, 300, 2**12, 2**20]


def sums(grove, codes, weights, values):
    """Scores of rows, and values of rows added up by leaf."""
    digits, everyone = grove.digits(codes), slice(0, len(codes))
    scores = grove.scores(digits, everyone, grove.spread(weights))
    out = np.zeros_like(grove.spread(weights))
    grove.add(digits, everyone, values, out)
    return scores, grove.fold(out)


def naive_sums(trees, codes, weights, values):
    starts = np.cumsum([0] + [tree.n_leaves for tree in trees])
    scores, out = np.zeros_like(values), np.zeros_like(weights)
    for i, row in enumerate(codes):
        for tree, start in zip(trees, starts, strict=False):
            leaf = start + naive_leaf(tree, row)
            scores[i] += weights[leaf]
            out[leaf] += values[i]
    return scores, out


def check(trees, codes, room, n_outputs=1, kind=np.uint32):
    rng = np.random.default_rng(room)
    grove = Grove(trees, CATEGORICAL, room)
    weights = rng.integers(-(2**40), 2**40, (int(grove.starts[-1]), n_outputs))
    values = rng.integers(-(2**20), 2**20, (len(codes), n_outputs))
    small = np.column_stack([compact(column, np.dtype(kind)) for column in codes.T])
    found = sums(grove, small, weights, values)
    for ours, naive in zip(found, naive_sums(trees, codes, weights, values), strict=True):
        np.testing.assert_array_equal(ours, naive)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("room", ROOMS)
def test_scores_and_sums_are_those_of_naive_walks(room, n_outputs, kind):
    check(TREES, rows(300).codes, room, n_outputs, kind)


@pytest.mark.parametrize("which", [[0], [2], [1, 3], [5], [4, 5], [3, 3, 0]])
def test_any_trees_will_do(which):
    check(tuple(TREES[v] for v in which), rows(200).codes, 2**12)


def test_every_pair_of_many_columns():
    """Digits of one, two and three columns, and pairs inside a digit."""
    columns = [number(9, 1, 0), category(3, 2, 1), number(3, 3, 2), number(12, 4, 3), category(2, 5, 4)]
    flags = np.array([not c.is_number for c in columns])
    pairs = [pair_term(a, b) for i, a in enumerate(columns) for b in columns[:i]]
    trees = tuple(t.tree for t in [base_term(1.0), *map(column_term, columns), *pairs])
    codes = np.column_stack([np.random.default_rng(j).integers(0, 5, 200) for j in range(5)])
    codes = codes.astype(np.uint32)
    codes[::7] = np.where(flags, OTHER, MISSING)
    weights = np.random.default_rng(9).integers(-99, 99, (sum(t.n_leaves for t in trees), 1))
    leaves = [
        np.cumsum([0] + [t.n_leaves for t in trees])[v] + t.apply(codes, flags)
        for v, t in enumerate(trees)
    ]
    expected = sum(weights[leaf] for leaf in leaves)
    for room in ROOMS:
        grove = Grove(trees, flags, room)
        scores, found = sums(grove, codes, weights, np.ones((200, 1), dtype=np.int64))
        np.testing.assert_array_equal(scores, expected)
        np.testing.assert_array_equal(
            found[:, 0], np.bincount(np.concatenate(leaves), minlength=len(found))
        )


def test_digits_of_hundreds_of_groups():
    wide = [number(700, 1, 0), category(400, 2, 1)]
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, 700, 300), rng.integers(0, 400, 300), np.zeros(300)])
    codes = codes.astype(np.uint32)
    codes[:9, 0], codes[5:20, 1] = MISSING, OTHER
    check(tuple(column_term(c).tree for c in wide), codes, 2**12, kind=np.uint16)
    check(tuple(column_term(c).tree for c in wide), codes, 2**12)


def test_a_row_is_looked_up_few_times():
    """Gathers, and histogram updates, of a row in a step: kept low by a test, as clocks are not."""
    columns = [number(32, j, j) for j in range(20)]
    trees = [column_term(c).tree for c in columns]
    pairs = [pair_term(a, b).tree for i, a in enumerate(columns) for b in columns[:i]]
    categorical = np.zeros(20, dtype=bool)
    assert Grove(tuple(trees), categorical).n_lookups <= 12
    assert Grove((*trees, *pairs), categorical).n_lookups <= 56
    assert len(trees + pairs) == 210


def test_trees_of_three_columns_are_refused():
    feature = np.array([0, 1, -1, 2, -1, -1, -1], dtype=np.int32)
    left = np.array([1, 3, 0, 5, 1, 2, 3], dtype=np.int32)
    tree = Tree(feature, np.zeros(7, dtype=np.uint32), np.zeros(7, dtype=bool), left)
    with pytest.raises(ValueError, match="more than two columns"):
        Grove((tree,), CATEGORICAL).digits(rows(3).codes)


def test_what_follows_from_trees_is_not_sent():
    grove = Grove(TREES, CATEGORICAL)
    before = len(pickle.dumps(grove))
    codes = rows(10).codes
    digits = grove.digits(codes)
    assert len(pickle.dumps(grove)) == before
    sent = pickle.loads(pickle.dumps(grove))
    assert sent.key == grove.key
    np.testing.assert_array_equal(sent.digits(codes), digits)


def test_a_single_leaf_is_a_tree():
    one = np.ones((3, 1), dtype=np.int64)
    scores, found = sums(Grove((STUMP,), CATEGORICAL), rows(3).codes, np.array([[7]]), one)
    assert scores.tolist() == [[7], [7], [7]]
    assert found.tolist() == [[3]]
