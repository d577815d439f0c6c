"""What is chosen privately about columns, against brute force and a naive reference."""

import itertools
from fractions import Fraction
from functools import partial

import naive
import numpy as np
import pytest
from scipy import stats

from lumberjack.columns import (
    MEDIAN,
    NINETIETH,
    CodeCounts,
    Frequencies,
    choose_cut,
    choose_cuts,
    choose_place,
)
from lumberjack.engines.base import Block
from lumberjack.events import MEDIAN_RANGE, QUANTILE_RANGE
from lumberjack.kinds import MISSING, OTHER, Numeric
from lumberjack.noise import Bits, Purpose
from lumberjack.priors import PlacePrior, prior_of_cut

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
    codes, places = np.array(codes)[:, None], np.array(places)
    return quantile.scores(*(m.sum(axis=0) for m in (codes < places, codes == places, codes > places)))


def cut_scores(quantile, codes, places):
    left = (np.array(codes)[:, None] < np.array(places)).sum(axis=0)
    return quantile.scores(left, 0 * left, len(codes) - left)


@pytest.mark.parametrize(
    ("quantile", "claimed"), [(MEDIAN, MEDIAN_RANGE), (NINETIETH, QUANTILE_RANGE)], ids=["1/2", "9/10"]
)
@pytest.mark.parametrize("person", [1, 2])
@pytest.mark.parametrize("score", [scores, cut_scores])
def test_range_of_scores_by_brute_force(quantile, claimed, person, score):
    """All tables of at most 20 records on 3 codes, and all records that a person may add."""
    assert quantile.range == claimed
    widest, places = Fraction(0), [-1, 0, 1, 2, 3]
    tables = itertools.chain(*(itertools.combinations_with_replacement(range(3), n) for n in range(21)))
    for codes in map(list, tables):
        before = score(quantile, codes, places)
        for added in itertools.combinations_with_replacement(range(3), person):
            moved = score(quantile, codes + list(added), places) - before
            width = Fraction(int(moved.max() - moved.min()), quantile.below + quantile.above)
            widest = max(widest, width)
    assert widest == Fraction(str(claimed)) * person


def test_no_exponent_is_rounded_up():
    """The range that is priced is the exponent's times 1.8."""
    for exponent in np.random.default_rng(0).uniform(0, 2, 1000):
        used = Fraction(NINETIETH.choice(exponent).exponent) * 10
        assert Fraction(exponent) * (1 - Fraction(1, 2**51)) <= used <= Fraction(exponent)


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
        "many": np.sort(rng.integers(0, 200, 300)).tolist(),
    }[shape]
    for seed in range(5):
        found = choose_cuts(tally(codes), grid, 4, exponent, Bits(seed), np.uint64(7))
        expected = naive.choose_cuts(codes, (0, top), 4, exponent, 7, draws(Bits(seed)))
        assert found == tuple(sorted(expected))


TARGETS = {
    "spread": np.random.default_rng(2).integers(10, 10**6, 400).tolist(),
    "few values": [3] * 150 + [500] * 50 + [10**6] * 100,
    "constant": [77] * 300,
    "ends": [0] * 100 + [10**6] * 200,
    "nothing": [],
}


@pytest.mark.parametrize("quantile", [MEDIAN, NINETIETH], ids=["1/2", "9/10"])
@pytest.mark.parametrize("exponent", [0.02, 1.0])
@pytest.mark.parametrize("shape", TARGETS)
def test_places_are_those_of_the_naive_reference(shape, exponent, quantile):
    """With the same noise; and with little of it, at the quantile."""
    codes, grid, key = sorted(TARGETS[shape]), (0, 10**6), np.uint64(3)
    share = Fraction(quantile.below, quantile.below + quantile.above)
    for seed in range(20):
        found = choose_place(tally(codes), grid, quantile, exponent, Bits(seed), key)
        expected = naive.choose_place(
            codes, [(*grid, 1)], share, exponent, partial(draws(Bits(seed)), 3)
        )
        assert found == expected
        if exponent == 1.0 and codes:
            # Scores 35 below the best have a chance of e^-35, times 10^6 places.
            at = int(len(codes) * share)
            assert codes[max(at - 72, 0)] <= found <= codes[min(at + 72, len(codes) - 1)]


EVEN, SKEWED = [1] * 10, [5, 5, 1, 1, 1, 40, 40, 3, 3, 3]


def by_itself(codes, grid, weights, exponent, score):
    """The chance of each place of a small grid."""
    weights = np.array(
        [weights[z] * np.exp(exponent * score(*naive.counts(codes, z))) for z in range(*grid)]
    )
    return weights / weights.sum()


def prior_of(weights, first, last):
    """Segments of equal weights."""
    edges = [z for z in range(first, last + 1) if z == first or weights[z] != weights[z - 1]]
    return PlacePrior(np.array([*edges, last + 1]), np.array([weights[z] for z in edges]))


@pytest.mark.parametrize("codes", [[2, 2, 3, 7], [0, 0, 0, 9, 9], [], [5] * 6], ids=str)
@pytest.mark.parametrize("weights", [EVEN, SKEWED], ids=["even", "skewed"])
def test_every_place_has_its_chance(codes, weights):
    """Chi-square over all places of a grid of 10; false alarms below 1e-6 a test."""
    many, key, exponent = 4_000, np.uint64(0), 0.8
    median = by_itself(
        codes, (1, 10), weights, exponent, lambda left, at, right: -abs(left - at - right) / 2
    )
    ninetieth = by_itself(
        codes,
        (0, 10),
        weights,
        exponent,
        lambda left, at, right: (
            -max(0, 0.1 * left - 0.9 * (at + right), 0.9 * right - 0.1 * (left + at))
        ),
    )
    found, inner, prior = tally(codes), prior_of(weights, 1, 9), prior_of(weights, 0, 9)
    cuts = [choose_cut(found, inner, exponent, Bits(), key) for _ in range(many)]
    places = [choose_place(found, (0, 9), NINETIETH, exponent, Bits(), key, prior) for _ in range(many)]
    for found, chances, first in ((cuts, median, 1), (places, ninetieth, 0)):
        seen = np.bincount(found, minlength=10)[first:]
        assert stats.chisquare(seen, chances * many).pvalue > 5e-7


def test_a_node_with_one_place_is_not_cut():
    grid = Numeric()
    cuts = [100, 101]
    assert prior_of_cut(grid, cuts, 1) is None
    assert prior_of_cut(Numeric(0, 1), [5], 0).first == 1
