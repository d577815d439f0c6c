"""Public weights of places, against enumeration and against what the guarantee's text says."""

import itertools
import math

import numpy as np
import pytest

from lumberjack.columns import DISTANCES, coarse_value, prior_of_scale
from lumberjack.kinds import CELLS, Numeric, places_of, values_at
from lumberjack.priors import PlacePrior, prior_of_centre, prior_of_cut, prior_within

MOST = 2**47
PRIORS = {
    "root": prior_of_cut(Numeric(), [], 0),
    "root of a range": prior_of_cut(Numeric(0, 1), [], 0),
    "below": prior_of_cut(Numeric(), places_of(np.array([2004.0, 2005.0])).tolist(), 0),
    "between": prior_of_cut(Numeric(), places_of(np.array([-1.0, 3.0])).tolist(), 1),
    "above": prior_of_cut(Numeric(), places_of(np.array([0.0])).tolist(), 1),
    "at infinity": prior_of_cut(Numeric(), [0x800000, 0xFF7FFFFF], 2),
    "above in a range": prior_of_cut(Numeric(0, 1), [CELLS // 2, CELLS - 2], 2),
    "a target": prior_of_centre(None),
    "a target in bounds": prior_of_centre((-5.0, 1e6)),
    "a constant target": prior_of_centre((3.0, 3.0)),
    **{f"scale at {c}": prior_of_scale(c) for c in (0.0, -7.5, 1e-40, 3.4e38)},
}


def value(place):
    return float(values_at(place))


def share(prior, low, high):
    """Of all weight, that of numbers from low to just below high."""
    first, last = places_of(np.array([low, high])).tolist()
    total = int(prior.below(prior.last + 1))
    return (int(prior.below(last)) - int(prior.below(first))) / total


@pytest.mark.parametrize("name", PRIORS)
def test_every_place_has_some_weight_and_all_fit_into_64_bits(name):
    prior = PRIORS[name]
    assert (np.diff(prior.edges) > 0).all()
    assert prior.weights.min() >= 1
    assert (
        sum(w * n for w, n in zip(prior.weights.tolist(), np.diff(prior.edges).tolist(), strict=True))
        == int(prior.below(prior.last + 1))
        < MOST
    )


@pytest.mark.parametrize("name", PRIORS)
def test_each_unit_of_weight_belongs_to_its_place(name):
    prior, rng = PRIORS[name], np.random.default_rng(0)
    total = int(prior.below(prior.last + 1))
    for weight in [0, total - 1, *rng.integers(0, total, 200).tolist()]:
        place = prior.place(weight)
        assert prior.first <= place <= prior.last
        assert prior.below(place) <= weight < prior.below(place + 1)


def test_weights_by_enumeration():
    prior = PlacePrior.shaped(10, 19, np.array([8, 12, 12, 15]), np.array([2, 5, 1]), everywhere=1)
    half = 2**46 // 2 // 10  # the same for all
    expected = [half + 2**46 // 8 * 2 // 2] * 2 + [half + 2**46 // 8 // 3] * 3 + [half] * 5
    total = 0
    for place, weight in zip(range(10, 20), expected, strict=True):
        assert prior.below(place) == total
        total += weight
    assert prior.below(20) == total


def test_a_cut_beyond_others_is_likely_at_about_their_distance():
    """Distances of a half to twice the last one: octaves of 1 and 1/2 in a sum of 1/(1 + k^2).

    Octaves that are finer than floats have no place, and their weight (below 5 %) is lost.
    """
    total = sum(1 / (1 + k * k) for k in range(-60, 61))
    for at in ([2004.0, 2005.0], [1e6, 1e6 + 256], [-3000.0, -2999.0]):
        cuts = places_of(np.array(at)).tolist()
        unit = at[1] - at[0]
        above, below = prior_of_cut(Numeric(), cuts, 2), prior_of_cut(Numeric(), cuts, 0)
        expected = pytest.approx(1.5 / total * 8 / 9, rel=0.05)
        assert share(above, at[1] + unit / 2, at[1] + 2 * unit) == expected
        assert share(below, at[0] - 2 * unit, at[0] - unit / 2) == expected


def test_a_cut_between_others_is_likely_in_the_middle():
    """The middle half has 96 of 128 parts, whatever floats there are between."""
    for low, high in ((-8.0, 8.0), (0.0, 16.0), (1e9, 1e9 + 2**20)):
        prior = prior_of_cut(Numeric(), places_of(np.array([low, high])).tolist(), 1)
        quarter = (high - low) / 4
        assert share(prior, low + quarter, high - quarter) >= 96 / 128 * 8 / 9 * 0.99


def test_a_first_number_is_as_likely_below_zero_as_above():
    prior = prior_of_centre(None)
    assert share(prior, 2.0**-50, 2.0**60) == pytest.approx(
        share(prior, -(2.0**60), -(2.0**-50)), rel=1e-6
    )
    octaves = [100 // 1 / (100 + k * k) for k in range(-60, 61)]
    zero = int(places_of(np.zeros(1))[0])
    exactly = int(prior.below(zero + 1) - prior.below(zero)) / int(prior.below(prior.last + 1))
    assert exactly == pytest.approx(50 / (50 + 2 * sum(octaves)) * 64 / 65, rel=0.01)


def test_a_scale_far_above_the_centre_is_unlikely():
    """By powers of two; so few rows are enough to say that it is not higher."""
    prior = prior_of_scale(1000.0)
    total = int(prior.below(DISTANCES[1] + 1))
    tail = []
    for octave in (4, 8, 12):
        place = next(p for p in range(*DISTANCES) if coarse_value(p) > 1000 * 2.0**octave)
        tail.append(1 - int(prior.below(place)) / total)
    ratios = [math.log2(a / b) for a, b in itertools.pairwise(tail)]
    np.testing.assert_allclose(ratios, 4, atol=0.1)


def test_a_prior_within_limits_leaves_a_64th_to_all_places():
    prior = prior_within((100, 227), 110, 125)
    weights = [int(prior.below(place + 1) - prior.below(place)) for place in range(100, 228)]
    inside, outside = weights[10:26], weights[:10] + weights[26:]
    assert len(set(inside)) == len(set(outside)) == 1
    assert inside[0] - outside[0] == pytest.approx(64 * 128 / 16 * outside[0], rel=1e-6)
