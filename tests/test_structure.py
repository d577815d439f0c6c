"""Random splits against a plain-Python account of what a split may be."""

import numpy as np
import pytest
from scipy import stats

from lumberjack import Domain
from lumberjack.growing import plant
from lumberjack.kinds import CELLS, MISSING, OTHER
from lumberjack.structure import (
    LEFT,
    NO_SPLIT,
    RIGHT,
    Features,
    Room,
    child_key,
    choose_split,
    interval,
    narrow,
    root_keys,
    root_room,
)

DOMAIN = Domain({"n": (0, 1), "c": ["a", "b", "c"], "m": (5, 9), "one": (3, 3)})


def split(features, key, path=()):
    """Split of the node reached by ``path``, (feature, cut, side) from the root."""
    n = len(path)
    nodes = plant(key, 0)._replace(
        key=np.full(n + 1, key),
        up=np.arange(-1, n, dtype=np.int32),
        feature=np.array([*(f for f, _, _ in path), NO_SPLIT], dtype=np.int32),
        cut=np.array([*(c for _, c, _ in path), 0], dtype=np.int64),
    )
    room = Room(*np.empty((2, len(features.sizes)), dtype=np.uint32))
    root_room(features, room)
    for node, (_, _, side) in enumerate(path):
        narrow(nodes, node, side, features, room)
    return choose_split(nodes, n, features, room)


def keys(n, seed=0):
    return root_keys(seed, n)


def test_features_are_uniform_over_columns_that_can_be_split():
    """Columns, not categories; and never the column with a single value. Alarm rate 1e-6."""
    features = Features.of(DOMAIN)
    chosen = [split(features, k)[0] for k in keys(30_000)]
    counts = np.bincount(chosen, minlength=4)
    assert counts[3] == 0
    assert stats.chisquare(counts[:3]).pvalue > 1e-6


def test_weights_are_the_chances():
    features = Features.of(DOMAIN, np.array([1.0, 3.0, 0.0, 5.0]))
    counts = np.bincount([split(features, k)[0] for k in keys(20_000)], minlength=4)
    assert counts[2] == counts[3] == 0
    assert stats.chisquare(counts[:2], np.array([0.25, 0.75]) * 20_000).pvalue > 1e-6


def test_cuts_are_uniform_in_the_current_range():
    features = Features.of(Domain({"n": (0, 1)}))
    low, high = CELLS // 4, CELLS // 2
    path = ((0, high, LEFT), (0, low, RIGHT))
    cuts = np.array([split(features, k, path)[1] for k in keys(20_000)])
    assert cuts.min() > low
    assert cuts.max() < high
    assert stats.kstest((cuts - low - 1) / (high - low - 1), "uniform").pvalue > 1e-6


def test_categories_are_uniform_over_those_no_ancestor_used():
    features = Features.of(Domain({"c": list("abcde")}))
    path = ((0, 1, RIGHT), (0, 3, RIGHT))
    counts = np.bincount([split(features, k, path)[1] for k in keys(20_000)], minlength=5)
    assert counts[1] == counts[3] == 0
    assert stats.chisquare(counts[[0, 2, 4]]).pvalue > 1e-6


def test_missing_values_take_a_fair_coin():
    features = Features.of(Domain({"n": (0, 1)}))
    lefts = sum(split(features, k)[2] for k in keys(20_000))
    assert stats.binomtest(int(lefts), 20_000).pvalue > 1e-6


@pytest.mark.parametrize(
    "path",
    [
        ((0, 0, LEFT),),  # a single category is left
        ((0, 0, RIGHT), (0, 1, RIGHT)),  # all are used
    ],
)
def test_a_node_with_nothing_left_stops(path):
    features = Features.of(Domain({"c": ["a", "b"], "one": (3, 3)}))
    assert split(features, keys(1)[0], path)[0] == NO_SPLIT


def test_a_rare_chance_is_found():
    """One column in 500 has room: no number of random tries may miss it."""
    columns = {f"c{i}": (1, 1) for i in range(499)}
    features = Features.of(Domain({**columns, "n": (0, 1)}))
    assert {split(features, k)[0] for k in keys(50)} == {499}


def test_structure_is_a_function_of_the_seed():
    assert np.array_equal(root_keys(7, 5), root_keys(7, 9)[:5])
    assert not np.array_equal(root_keys(7, 5), root_keys(8, 5))
    assert not np.array_equal(root_keys(None, 5), root_keys(None, 5))
    assert len({int(child_key(k, side)) for k in keys(1000) for side in (LEFT, RIGHT)}) == 2000


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("missing_left", [False, True])
def test_the_codes_that_go_left_are_one_interval(categorical, missing_left):
    """Against the rule in words: equal to the category, at most the cell, missing by its coin."""
    for cut in (0, 1, 3, CELLS - 2):
        low, width = interval(cut, categorical, missing_left)
        for code in (0, 1, 2, 3, 4, CELLS - 2, CELLS - 1, OTHER, MISSING):
            if categorical:
                expected = code == cut
            elif code == MISSING:
                expected = missing_left
            else:
                expected = code <= cut
            assert ((code - int(low)) % 2**32 <= int(width)) == expected
