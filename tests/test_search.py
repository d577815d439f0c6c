"""MarkHeavyHitters, against the paper's Algorithm 1 and its promises on every sequence of answers."""

import math
from collections import Counter

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from lumberjack.paths import make_level, read_paths
from lumberjack.search import HEAVY, LIGHT, mark_heavy_hitters, mark_tree, search_order, top_down_order


def chains(copies, height):
    """``copies`` separate paths of ``height`` nodes each, all with count 1."""
    index, ones = np.arange(copies), np.ones(copies, dtype=np.int64)
    first = make_level(np.zeros(copies, dtype=np.int64), index, ones, 1)
    return [first] + [make_level(index, index, ones, copies)] * (height - 1)


@pytest.mark.parametrize("height", range(1, 513))
def test_no_path_is_asked_more_often_than_promised_whatever_the_answers(height):
    """Every sequence of answers at once: path i answers its j-th query with bit j of i."""
    most = 1 + math.floor(math.log2(height))
    copies = 2 ** (most + 1)
    asked = np.zeros(copies, dtype=np.int64)

    def check(level, nodes):
        answers = (nodes >> asked[nodes]) & 1
        asked[nodes] += 1
        return answers.astype(bool)

    marks = mark_heavy_hitters(chains(copies, height), search_order(height), check)
    assert asked.max() == most
    assert all(np.all((m == HEAVY) | (m == LIGHT)) for m in marks)
    # Every place where Heavy can end occurs, once for each way to answer the queries not asked.
    depth = sum((m == HEAVY).astype(int) for m in marks)
    assert set(depth.tolist()) == set(range(height + 1))


def test_search_order_is_the_one_of_the_paper():
    """Levels in the order of Algorithm 1: the middle, then below it, then above."""
    for height in (1, 2, 3, 4, 7, 10, 33):
        levels = [middle for _, middle, _ in search_order(height)]
        order = []
        _paper_levels(0, height, order)
        assert levels == order
        assert sorted(levels) == list(range(height))


def _paper_levels(offset, height, order):
    middle = height // 2
    order.append(offset + middle)
    if height >= 3:
        _paper_levels(offset + middle + 1, height - middle - 1, order)
    if height >= 2:
        _paper_levels(offset, middle, order)


def nested_paths(root):
    """The tree as tuples of names, one for each record."""
    out = []

    def visit(node, above):
        path = (*above, node.name)
        out.extend([path] * node.own)
        for child in node.children:
            visit(child, path)

    visit(root, ())
    return out


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_marks_and_queries_match_the_paper_word_for_word(data):
    """Same answers at the same nodes, whatever the tree: same queries along each path, same marks."""
    shape = data.draw(st.sampled_from(reference.rooted_trees(data.draw(st.integers(1, 8)))))
    root = reference.build(shape)
    for node in root.walk():
        node.own = data.draw(st.integers(1, 3))
    height = data.draw(st.integers(_height(shape), 12))
    salt = data.draw(st.integers(0, 2**32))

    def answer(name):
        return (name * 2654435761 + salt) % 97 < 48

    asked_by_paper = []

    def paper_check(node):
        asked_by_paper.append(node.name)
        return answer(node.name)

    reference.mark_heavy_hitters(root, height, paper_check)

    tree = read_paths(nested_paths(root), height, None)
    names = [
        [p[-1] for p in tree.prefixes(_all_nodes(tree)) if len(p) == d + 1]
        for d in range(len(tree.levels))
    ]
    asked = []

    def check(level, nodes):
        found = [names[level][i] for i in nodes]
        asked.extend(found)
        return np.array([answer(name) for name in found])

    marks = mark_heavy_hitters(tree.levels, search_order(height), check)
    heavy = {names[d][i] for d, m in enumerate(marks) for i in np.flatnonzero(m == HEAVY)}
    assert heavy == {n.name for n in root.walk() if n.mark == "heavy"}
    assert len(asked) == len(set(asked))
    assert sorted(asked) == sorted(asked_by_paper)
    for path in nested_paths(root):
        assert [a for a in asked if a in path] == [a for a in asked_by_paper if a in path]
        assert sum(a in path for a in asked) <= 1 + math.floor(math.log2(height))


def _height(shape):
    return 1 + max((_height(child) for child in shape), default=0)


def _all_nodes(tree):
    return [np.arange(len(level.count)) for level in tree.levels]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([search_order, top_down_order]))
def test_heavy_is_closed_upward_under_random_answers(seed, height, order):
    rng = np.random.default_rng(seed)
    tree = read_paths(rng.integers(0, 3, (60, height)) * (rng.random((60, height)) < 0.3), height, None)
    asked = Counter()

    def check(level, nodes):
        asked.update((level, int(i)) for i in nodes)
        return rng.random(len(nodes)) < 0.5

    marks = mark_heavy_hitters(tree.levels, order(height), check)
    assert max(asked.values()) == 1
    for above, below, level in zip(marks, marks[1:], tree.levels[1:], strict=False):
        assert np.all(above[level.parent[below == HEAVY]] == HEAVY)
    most = 1 + math.floor(math.log2(height)) if order is search_order else height
    ancestors = np.zeros(1, dtype=int)
    for depth, level in enumerate(tree.levels):
        here = np.array([asked[(depth, i)] for i in range(len(level.count))])
        ancestors = ancestors[level.parent] + here
    assert ancestors.max() <= most


def test_work_is_linear_in_the_nodes():
    """Marks and look-ups together touch each node a bounded number of times, however deep the tree."""
    rng = np.random.default_rng(4)
    for height in (16, 256, 1024):
        tree = read_paths(rng.integers(0, 2, (50, height)), height, None)
        touched = 0

        class Counting(np.ndarray):
            def __getitem__(self, index):
                nonlocal touched
                if isinstance(index, np.ndarray):
                    touched += int(index.sum()) if index.dtype == bool else len(index)
                return super().__getitem__(index)

        for level in tree.levels:
            object.__setattr__(level, "parent", level.parent.view(Counting))
            object.__setattr__(level, "first_child", level.first_child.view(Counting))
        mark_heavy_hitters(
            tree.levels, search_order(height), lambda _, nodes: rng.random(len(nodes)) < 0.7
        )
        assert touched <= 4 * sum(len(level.count) for level in tree.levels)


@pytest.mark.parametrize("height", [1, 2, 3, 8, 13])
def test_coins_tossed_beforehand_give_the_same_marks(height):
    """``mark_tree`` against ``mark_heavy_hitters`` on random trees with random answers."""
    rng = np.random.default_rng(height)
    for _ in range(50):
        rows = rng.integers(0, 3, (30, height))
        rows[:, 0] = 0  # one root
        tree = read_paths(rows, height, None)
        answers = [rng.random(len(level.count)) < 0.6 for level in tree.levels]
        marks = mark_heavy_hitters(
            tree.levels, search_order(height), lambda depth, asked, told=answers: told[depth][asked]
        )
        sizes = [len(level.count) for level in tree.levels]
        first = np.cumsum([0, *sizes])
        up = [level.parent + (first[d - 1] if d else -1) for d, level in enumerate(tree.levels)]
        level = np.repeat(np.arange(height), sizes)
        found = mark_tree(level, np.concatenate(up), np.concatenate(answers), height)
        np.testing.assert_array_equal(found, np.concatenate(marks))
