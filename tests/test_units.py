"""Numbers and dates in words, against Python's own."""

import datetime as dt
import math

import numpy as np
import pytest

from lumberjack.units import number, one, several


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (8524731.0, "8524731"),
        (-123456789012.0, "-123456789012"),
        (0.1, "0.1"),
        (1 / 3, "0.333333333"),
        (999999999999999.0, "999999999999999"),
        (1e15, "1e+15"),
        (2.0**127, "1.70141183e+38"),
        (1234567890.5, "1234567890"),
        (-0.0, "0"),
        (math.inf, "inf"),
    ],
)
def test_numbers_in_words(value, said):
    assert number(value) == said


def test_nine_digits_tell_all_floats_of_32_bits_apart():
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    assert [np.float32(number(float(v))) for v in values] == values.tolist()


@pytest.mark.parametrize("seconds", [0, -1, 1.7e9, 86_399.5, -86_400.0, 253_402_300_799])
def test_dates_are_those_of_the_calendar(seconds):
    expected = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=math.ceil(seconds))
    assert one(seconds, temporal=True) == str(expected)
    assert one(seconds, temporal=True, step="D") == str(expected.date())


@pytest.mark.parametrize("seconds", [1e38, -1e38, math.inf, -math.inf, 2.0**53])
def test_dates_beyond_any_calendar(seconds):
    assert one(seconds, temporal=True) == f"{seconds:g} seconds after 1970"


def test_values_are_told_apart_with_few_letters():
    assert several([2.6816660, 18.34043, 2681.66605]) == ["2.68", "18.3", "2682"]
    assert several([100.25, 100.5]) == ["100.2", "100.5"]
    assert several([1.0000001, 1.0000002, 17.0]) == ["1.0000001", "1.0000002", "17"]
    day = 86_400.0
    assert several([0.0, day], temporal=True) == ["1970-01-01", "1970-01-02"]
    assert several([0.0, 60.0], temporal=True) == ["1970-01-01 00:00:00", "1970-01-01 00:01:00"]
    assert several([]) == []
    assert several([0.1, 0.1]) == ["0.1", "0.1"]
