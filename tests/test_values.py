"""Columns of every library, read value by value."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from lumberjack.values import columns_of, is_missing, seconds


def test_every_library_gives_the_same_values(frame):
    when = [dt.datetime(2020, 1, 1, 12), None, dt.datetime(1969, 12, 31)]
    names, columns = columns_of(
        frame({"n": [1.5, None, -2.0], "s": ["x", None, ""], "t": when, "b": [True, False, True]})
    )
    assert names == ["n", "s", "t", "b"]
    n, s, t, b = columns
    np.testing.assert_array_equal(n.numbers("n"), [1.5, math.nan, -2.0])
    assert s.items() == ["x", None, ""]
    np.testing.assert_array_equal(t.timestamps("t"), [18262 * 86400 + 43200, math.nan, -86400])
    np.testing.assert_array_equal(b.numbers("b"), [1, 0, 1])
    assert [c.is_numeric for c in columns] == [True, False, False, True]
    assert [c.is_boolean for c in columns] == [False, False, False, True]
    assert [c.is_temporal for c in columns] == [False, False, True, False]


def test_distinct_values_and_the_place_of_each(frame):
    texts, numbers = ["b", None, "a", "b", None], [2.5, None, -1.0, 2.5, 0.0]
    for values, column in zip(
        (texts, numbers), columns_of(frame({"s": texts, "n": numbers})).columns, strict=True
    ):
        found, place = column.distinct()
        assert [found[p] for p in place] == values
        assert len(found) == len(set(values))


@pytest.mark.parametrize("tail", [[1, True], [True, 1], [1.0, 1, Decimal(1)]])
def test_objects_behind_a_hundred_texts_are_read_one_by_one(tail):
    """Pandas would number equal objects alike, so that the first of them would decide for all others."""
    column = columns_of(pd.DataFrame({"a": ["x"] * 200 + tail})).columns[0]
    found, place = column.distinct()
    assert [(type(found[i]), found[i]) for i in place[200:]] == [(type(v), v) for v in tail]


def test_arrays_and_lists_have_columns_without_names():
    for X in (np.array([[1, "a"], [2, "b"]], dtype=object), [[1, "a"], [2, "b"]]):
        names, (first, second) = columns_of(X)
        assert names is None
        assert first.items() == [1, 2]
        assert second.items() == ["a", "b"]
        assert len(first) == 2


@pytest.mark.parametrize(
    "value", [None, math.nan, np.nan, pd.NA, pd.NaT, Decimal("nan"), Decimal("sNaN")]
)
def test_all_kinds_of_missing_values(value):
    assert is_missing(value)
    assert math.isnan(seconds(value))


@pytest.mark.parametrize("value", [0, "", "nan", False, np.array([1.0, math.nan])], ids=repr)
def test_other_values_are_not_missing(value):
    assert not is_missing(value)


@pytest.mark.parametrize("micro", [9_800_001_023_999_999, -(2**54) + 1, 2**57 + 9, 123])
def test_dates_of_numpy_are_read_as_those_of_python(micro):
    """To the last bit: a file gives NumPy's for all rows if one of them is beyond the year 9999."""
    python = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micro)
    assert seconds(np.datetime64(micro, "us")) == seconds(python) == float(Fraction(micro, 10**6))


def test_times_without_a_zone_are_utc():
    zone = dt.timezone(dt.timedelta(hours=2))
    assert seconds(dt.datetime(1970, 1, 1, 2, tzinfo=zone)) == seconds(dt.date(1970, 1, 1)) == 0
    assert seconds(dt.datetime(1970, 1, 2)) == 86400
