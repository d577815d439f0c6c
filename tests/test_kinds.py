"""Codes of values: places of numbers on the public grid, spelling of categories, fewer bits."""

import math
import pickle
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from lumberjack.kinds import (
    MISSING,
    OTHER,
    Categorical,
    Cuts,
    Numeric,
    compact,
    expand,
    list_values,
    places_of,
    values_at,
)
from lumberjack.values import Column

ORDERED = [-math.inf, -3.4e38, -2.5, -1e-45, 0.0, 1e-45, 1.5, 2**31, 3.4e38, math.inf]


def repr_of(values):
    return "-".join(type(value).__name__ for value in values)


def listed(values):
    codes = np.empty(len(values), dtype=np.uint32)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return list_values("c", Column(array), codes), codes.tolist()


def test_places_keep_the_order_of_numbers():
    places = places_of(np.array(ORDERED))
    assert (np.diff(places.astype(np.int64)) > 0).all()
    np.testing.assert_array_equal(values_at(places), np.array(ORDERED, dtype=np.float32))
    assert Numeric().grid == (places[0], places[-1])


def test_places_are_ieee_bits_with_the_sign_turned():
    for number in (-7.25, -1.0, 1.0, 2010.0):
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        expected = bits ^ (0xFFFFFFFF if number < 0 else 0x80000000)
        assert places_of(np.array([number])).tolist() == [expected]


def test_zero_has_one_place_and_nan_none():
    assert len(set(places_of(np.array([0.0, -0.0])).tolist())) == 1
    assert places_of(np.array([math.nan, -math.nan])).tolist() == [MISSING] * 2


def test_values_beyond_single_precision_are_infinite():
    np.testing.assert_array_equal(
        places_of(np.array([1e300, -1e300])), places_of(np.array([math.inf, -math.inf]))
    )


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["b", "a", "b", None], ("a", "b")),
        ([1.0, 1, 0.5, np.float32(2)], (0.5, 1, 2)),
        ([True, np.True_, False, math.nan], (False, True)),
        (["x", 3, 2**70], (3, 2**70, "x")),
        ([math.inf, "\ud800", 1, Fraction(1, 3), 10**400, 10**5000], (1,)),
        ([Fraction(1, 2), 0.5, -0.0, 0], (0, 0.5)),
        ([np.str_("a"), "a", 7, np.uint8(7)], (7, "a")),
        ([None, math.nan], ()),
    ],
)
def test_categories_are_spelt_in_one_way_in_any_order(values, labels):
    for order in (values, values[::-1]):
        found, codes = listed(order)
        assert [(type(v), v) for v in found] == [(type(v), v) for v in labels]
        for value, code in zip(order, codes, strict=True):
            if value is None or value != value:
                assert code == MISSING
            else:
                assert code == (labels.index(value) if value in labels else OTHER)


def test_listed_values_are_fresh_objects():
    """It must not show whose object came first, neither in a subclass's attributes nor in a pickle."""

    class Tagged(str):
        def __str__(self):
            return self

    tagged = Tagged("abc")
    tagged.patient = 1
    given = [tagged, "".join(["ab", "cd"]), 10**6 + len("x"), 2**70 + 1, -0.125 * len("xyz")]
    labels, _ = listed(given)
    assert labels == (-0.375, 10**6 + 1, 2**70 + 1, "abc", "abcd")
    assert [type(label) for label in labels] == [float, int, int, str, str]
    assert not set(map(id, labels)) & set(map(id, given))


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, pd.NA, math.nan, "b", Decimal("nan")],
        [1, 2.0, Fraction(1, 3), 0.5, math.inf, 10**400, 2**60, 2**60 + 1, float(2**60)],
        [True, None, np.False_],
        ["a", 3, 3.0, np.int8(3), "3", "\ud800", ""],
        [2**53 - 1, 2**53, 2**53 + 1],
    ],
    ids=repr_of,
)
@pytest.mark.parametrize("dtype", [object, None])
def test_values_are_categories_of_their_own_when_all_are_learned(values, dtype):
    """The codes before learning and after it, when each value was released."""
    array = np.array(values, dtype=object)
    if dtype is None and (array := np.array(values)).dtype.kind not in "iuf":
        return
    before, after = np.empty((2, len(values)), dtype=np.uint32)
    labels = list_values("c", Column(array), before)
    Categorical(labels, missing=True).encode("c", Column(array), after)
    before[before == MISSING] = len(labels)
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("values", [[True, 2], [1, True], [np.True_, 1.0], ["x", False]], ids=repr)
def test_booleans_among_other_values_are_refused(values):
    for order in (values, values[::-1]):
        with pytest.raises(TypeError, match="mixes booleans"):
            listed(order)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_compact_codes_are_codes_in_fewer_bits(kind):
    largest = min(2 ** (8 * np.dtype(kind).itemsize) - 3, OTHER - 1)
    codes = np.array([0, 1, largest, OTHER, MISSING], dtype=np.uint32)
    small = compact(codes, np.dtype(kind))
    assert small.dtype == kind
    np.testing.assert_array_equal(expand(small), codes)


def test_cuts_count_the_cuts_below_a_number():
    places = tuple(places_of(np.array([-1.0, 0.0, 2010.0])).tolist())
    out = np.empty(6, dtype=np.uint32)
    Cuts(Numeric(), places).encode("a", Column(np.array([-1.5, -1.0, -1e-9, 0.0, 1e9, math.nan])), out)
    assert out.tolist() == [0, 1, 1, 2, 3, MISSING]
    assert Cuts(Numeric(), places).edges == (-1.0, 0.0, 2010.0)


def test_cuts_at_the_ends_of_the_grid_and_around_zero():
    """IEEE bits with the sign turned: 0x7FFFFFFF would be -0.0, whose place is that of 0.0."""
    cuts = Cuts(Numeric(), (0x7FFFFFFF, 0x80000000, 0x80000001, 0xFF800000))
    codes = {-1e-45: 0, -1e-46: 2, 0.0: 2, 1e-45: 3, 3e38: 3, 1e300: 4, math.inf: 4, math.nan: MISSING}
    out = np.empty(len(codes) + 1, dtype=np.uint32)
    cuts.encode("a", Column(np.array([*codes, -0.0])), out)
    assert out.tolist() == [*codes.values(), 2]


@pytest.mark.parametrize(
    "kind", [Cuts(Numeric(), (2**31,)), Categorical(("a",)), Categorical((1, 2))], ids=repr
)
def test_caches_of_kinds_are_not_pickled(kind):
    before = pickle.dumps(kind)
    kind.encode("a", Column(np.array([1.0])), np.empty(1, dtype=np.uint32))
    kind.encode(
        "a",
        Column(np.array([1.0 if isinstance(kind, Cuts) else "a"], dtype=object)),
        np.empty(1, dtype=np.uint32),
    )
    assert pickle.dumps(kind) == before
    assert pickle.loads(before) == kind


def test_categories_missing_and_others_are_told_apart():
    out = np.empty(4, dtype=np.uint32)
    column = Column(np.array(["a", None, "b", "?"], dtype=object))
    for missing, absent in ((True, 2), (False, OTHER)):
        Categorical(("a", "b"), missing).encode("c", column, out)
        assert out.tolist() == [0, absent, 1, OTHER]
