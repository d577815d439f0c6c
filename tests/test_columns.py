"""What is chosen privately about columns, against brute force and a naive reference."""

import itertools
from fractions import Fraction
from functools import partial

import naive
import numpy as np
import pytest

from lumberjack.columns import MEDIAN, NINETIETH, CodeCounts, Frequencies, choose_cuts, choose_place
from lumberjack.engines.base import Block
from lumberjack.events import MEDIAN_RANGE, QUANTILE_RANGE
from lumberjack.kinds import MISSING, OTHER, Numeric
from lumberjack.noise import Bits, Purpose

PURPOSES = {"choice": Purpose.CUT, "place": Purpose.PLACE}


def tally(codes):
    found, counts = np.unique(np.array(codes, dtype=np.uint32), return_counts=True)
    return CodeCounts(found, counts)


def draws(bits):
    """Random words for the naive reference."""
    return lambda key, purpose, position: int(
        bits.words(1, np.array([key], dtype=np.uint64), PURPOSES[purpose], position)[0]
    )


def scores(quantile, codes, places):
    left = np.array([sum(code < place for code in codes) for place in places])
    return quantile.scores(left, len(codes))


@pytest.mark.parametrize(
    ("quantile", "claimed"), [(MEDIAN, MEDIAN_RANGE), (NINETIETH, QUANTILE_RANGE)], ids=["1/2", "9/10"]
)
@pytest.mark.parametrize("person", [1, 2])
def test_range_of_scores_by_brute_force(quantile, claimed, person):
    """All tables of at most 20 records on 3 codes, and all records that a person may add."""
    assert quantile.range == claimed
    widest, places = Fraction(0), range(1, 3)
    tables = itertools.chain(*(itertools.combinations_with_replacement(range(3), n) for n in range(21)))
    for codes in map(list, tables):
        before = scores(quantile, codes, places)
        for added in itertools.combinations_with_replacement(range(3), person):
            moved = scores(quantile, codes + list(added), places) - before
            width = Fraction(int(moved.max() - moved.min()), quantile.below + quantile.above)
            widest = max(widest, width)
    assert widest == Fraction(str(claimed)) * person


def test_tallies_of_blocks_in_any_order_add_up_to_one():
    rng = np.random.default_rng(0)
    codes = rng.choice(np.array([3, 7, 8, 2**31, OTHER, MISSING], dtype=np.uint32), (500, 2))
    values, counts = np.unique(codes[codes[:, 1] < OTHER, 1], return_counts=True)
    target = np.zeros(500, dtype=np.int32)
    cut = [0, 1, 1, 130, 499, 500]
    blocks = [Block(codes[a:b], target[a:b]) for a, b in itertools.pairwise(cut)]
    for order in itertools.permutations(range(5)):
        (total,) = Frequencies(1)(blocks[order[0]])
        for i in order[1:]:
            (more,) = Frequencies(1)(blocks[i])
            total += more
        np.testing.assert_array_equal(total.codes, values)
        np.testing.assert_array_equal(total.counts, counts)
        assert total.codes.dtype == np.uint32


@pytest.mark.parametrize("exponent", [1e-3, 0.3, 40.0])
@pytest.mark.parametrize("shape", ["few", "one value", "nothing", "both ends", "many"])
def test_cuts_are_those_of_the_naive_reference(shape, exponent):
    """With the same noise."""
    rng = np.random.default_rng(1)
    grid = Numeric(0, 8)
    top = grid.size - 1
    codes = {
        "few": [5, 5, 9, 2**30],
        "one value": [77] * 50,
        "nothing": [],
        "both ends": [0] * 20 + [top] * 21,
        "many": rng.integers(0, 200, 300).tolist(),
    }[shape]
    for seed in range(5):
        found = choose_cuts(tally(codes), grid, 4, exponent, Bits(seed), np.uint64(7))
        expected = naive.choose_cuts(codes, (0, top), 4, exponent, 7, draws(Bits(seed)))
        assert found == tuple(sorted(expected))


@pytest.mark.parametrize("exponent", [0.02, 1.0])
def test_ninety_percent_of_codes_are_below_the_place(exponent):
    """Places of the naive reference with the same noise; and with little of it, where they should be."""
    rng = np.random.default_rng(2)
    codes, grid = np.sort(rng.integers(10, 10**6, 400)).tolist(), (0, 10**6)
    for seed in range(20):
        key, bits = np.uint64(3), Bits(seed)
        found = choose_place(tally(codes), grid, NINETIETH, exponent, bits, key)
        draw = partial(draws(bits), 3)
        assert found == naive.choose_place(codes, grid, Fraction(9, 10), exponent, draw)
        if exponent == 1.0:
            # Scores 30 below the best have chance e^-30, times 10^6 places.
            assert codes[360 - 38] < found <= codes[360 + 38]


def test_place_with_no_room_is_none():
    assert choose_place(tally([4]), (4, 4), MEDIAN, 1.0, Bits(0), np.uint64(0)) is None
