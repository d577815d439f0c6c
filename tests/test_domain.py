import datetime as dt
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lumberjack import Domain, PrivacyLeakWarning
from lumberjack.domain import Encoded, complete, read_off
from lumberjack.kinds import CELLS, MISSING, OTHER, Categorical, Numeric, Open

EXAMPLE = Domain(
    {
        "age": (17, 90),
        "sex": ["Male", "Female"],
        "zip": Domain.categorical([10115, 20095], missing=True),
        "bmi": Domain.numeric(10, 80),
        "seen": (dt.date(2020, 1, 1), dt.date(2024, 1, 1)),
        "smokes": [False, True],
    }
)

ROWS = {
    "age": [17, 90, 16, 120, None],
    "sex": ["Male", "Female", "other", None, "Male"],
    "zip": [10115, 20095, 1, None, 10115],
    "bmi": [10.0, 80.0, 45.0, math.nan, -5.0],
    "seen": [dt.date(2020, 1, 1), dt.date(2024, 1, 1), dt.date(2022, 1, 1), None, dt.date(1999, 1, 1)],
    "smokes": [False, True, None, True, False],
}

TOP = CELLS - 1
EXPECTED = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [TOP, 1, 1, TOP, TOP, 1],
        [0, OTHER, OTHER, CELLS // 2, 1074266111, OTHER],
        [TOP, OTHER, 2, MISSING, MISSING, 1],
        [MISSING, 0, 0, 0, 0, 0],
    ]
)


def test_every_library_gives_the_same_codes(frame):
    check_codes(EXAMPLE.encode(frame(ROWS)))
    check_codes(EXAMPLE.encode(frame({name: ROWS[name] for name in reversed(ROWS)})))


def test_every_type_of_column_gives_the_same_codes():
    nullable = pd.DataFrame(ROWS).astype({"age": "Int64", "zip": "Int64", "smokes": "boolean"})
    for kind in ("category", "string"):
        check_codes(EXAMPLE.encode(nullable.astype({"sex": kind})))


def check_codes(codes):
    assert codes.dtype == np.uint32
    assert codes.flags.c_contiguous
    middle = codes[2, 4]
    assert abs(int(middle) - (731 / 1461) * CELLS) < CELLS / 1e6  # days since 2020, a leap year
    expected = EXPECTED.copy()
    expected[2, 4] = middle
    np.testing.assert_array_equal(codes, expected)


def test_arrays_match_by_position():
    domain = Domain({"a": (0, 1), "b": ["x", "y"]})
    array = np.array([[0.5, "y"], [None, "z"]], dtype=object)
    np.testing.assert_array_equal(domain.encode(array), [[CELLS // 2, 1], [MISSING, OTHER]])
    times = np.array([["2020-01-01"], ["NaT"]], dtype="datetime64[ns]")
    dated = Domain({"t": (dt.date(2020, 1, 1), dt.date(2021, 1, 1))})
    np.testing.assert_array_equal(dated.encode(times), [[0], [MISSING]])


def test_json_is_typed_and_round_trips(tmp_path):
    path = tmp_path / "domain.json"
    EXAMPLE.to_json(path)
    again = Domain.from_json(path)
    assert again == EXAMPLE
    assert hash(again) == hash(EXAMPLE)
    assert [type(c) for c in again["zip"].categories] == [int, int]
    assert [type(c) for c in again["smokes"].categories] == [bool, bool]
    assert json.loads(path.read_text())["columns"][0] == {
        "name": "age",
        "type": "numeric",
        "low": 17.0,
        "high": 90.0,
    }
    assert Domain(dict(zip(again.names, again.kinds, strict=True))) == EXAMPLE


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({}, ValueError, "at least one column"),
        ({"a": [1, 2]}, ValueError, "could be a range or two categories"),
        ({"a": (2, 1)}, ValueError, "low <= high"),
        ({"a": (0, math.inf)}, ValueError, "finite"),
        ({"a": (0, "1")}, TypeError, "two numbers or two dates"),
        ({"a": []}, ValueError, "at least one category"),
        ({"a": ["x", "x"]}, ValueError, "distinct"),
        ({"a": ["x", None]}, ValueError, "missing=True"),
        ({"a": "xyz"}, TypeError, "tuple or a list"),
        ({3: (0, 1)}, TypeError, "names must be strings"),
    ],
)
def test_unclear_domains_are_refused(columns, error, message):
    with pytest.raises(error, match=message):
        Domain(columns)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"format": "lumberjack-domain", "version": 3, "columns": []}',
        '{"format": "lumberjack-domain", "version": 1, "columns": [{"name": "a", "type": "magic"}]}',
        '{"format": "lumberjack-domain", "version": 1, "columns": [{"name": "a", "type": "numeric", "low": 1}]}',  # noqa: E501,
    ],
)
def test_what_is_not_a_domain_is_refused(text, tmp_path):
    path = tmp_path / "domain.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="not a domain"):
        Domain.from_json(path)


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        ({"a": [1.0]}, ValueError, "lacks columns of the domain: b"),
        ({"a": [1.0], "b": ["x"], "c": [1]}, ValueError, "outside the domain: c"),
        ({"a": ["secret"], "b": ["x"]}, TypeError, "column 'a' must hold numbers"),
    ],
)
def test_errors_about_the_schema_name_no_value(frame, error, message):
    domain = Domain({"a": (0, 1), "b": ["x", "y"]})
    with pytest.raises(error, match=message) as caught:
        domain.encode(pd.DataFrame(frame))
    assert "secret" not in str(caught.value)


def test_infer_reads_the_data_and_says_so():
    frame = pl.DataFrame(
        {
            "n": [3.0, -1.0, None, math.inf],
            "s": ["b", "a", None, "a"],
            "d": [dt.date(2020, 1, 1), dt.date(2021, 1, 1), None, None],
            "flag": [True, False, True, True],
            "level": pl.Series(["low", "low", "low", "low"], dtype=pl.Enum(["low", "high"])),
        }
    )
    with pytest.warns(PrivacyLeakWarning, match="inferred"):
        domain = Domain.infer(frame)
    assert domain["n"] == Numeric(-1.0, 3.0)
    assert domain["s"] == Categorical(("a", "b"), missing=True)
    assert domain["d"].temporal
    assert domain["flag"] == Categorical((False, True), missing=True)  # whatever the data holds
    assert domain["level"] == Categorical(("low", "high"))
    with pytest.warns(PrivacyLeakWarning):
        numbered = Domain.infer(pd.DataFrame({"c": pd.Series([2, 1, 2], dtype="category")}))
    assert numbered["c"] == Categorical((1, 2))


def test_only_types_that_name_all_values_are_public():
    public = pl.DataFrame({"flag": [True], "level": pl.Series(["low"], dtype=pl.Enum(["low", "high"]))})
    assert not read_off(public).inferred
    for private in (
        pd.DataFrame({"c": pd.Series(["x"], dtype="category")}),
        pl.DataFrame({"s": ["x"]}),
        np.array([[1.0]]),
        np.array([[True], [False]]),
        pd.DataFrame({"flag": [True, False]}),  # one missing value would make it a column of objects
        pd.DataFrame({"flag": pd.Series([True, None], dtype="boolean")}),
        pd.DataFrame({"flag": pd.Series([True, None], dtype="bool[pyarrow]")}),
    ):
        assert read_off(private).inferred


def test_one_missing_flag_changes_no_inferred_domain():
    frames = [pd.DataFrame({"flag": flags}) for flags in ([True, False], [True, None], [True] * 2)]
    assert len({str(read_off(frame)) for frame in frames}) == 1


NUMBERS, DATES, FLAGS = Numeric(), Numeric(temporal=True), Categorical((False, True), missing=True)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array([1, 2]), NUMBERS),
        (pd.Series([1, 2.5], dtype=object), NUMBERS),
        (pd.Series([Decimal("1.50"), None]), NUMBERS),
        (pd.arrays.SparseArray([0.0, 1.5]), NUMBERS),
        (pd.arrays.SparseArray([True, False]), Open()),
        (pd.Series([True, None], dtype=object), Open()),
        (pd.Series([None, None], dtype=object), Open()),
        (pd.Series(["a", 1], dtype=object), Open()),
        (pd.Series([1, 2], dtype="category"), Open()),
        (pd.Series([dt.date(2026, 1, 31), None]), DATES),
        (pd.to_datetime(["2026-01-31"]), DATES),
        (pl.Series([Decimal("1.50")]), NUMBERS),
        (pl.Series([dt.date(2026, 1, 31)]), DATES),
        (pl.Series([True]), FLAGS),
        (pl.Series([None]), Open()),
        (pl.Series(["a"], dtype=pl.Enum(["a", "b"])), Categorical(("a", "b"))),
        (pl.Series(["a"], dtype=pl.Categorical), Open()),
    ],
    ids=str,
)
def test_kinds_of_undeclared_columns(values, kind):
    frame = (pl if isinstance(values, pl.Series) else pd).DataFrame({"c": values})
    domain = complete(None, frame)
    assert domain["c"] == kind
    domain.read(frame)  # which refuses what is not of its kind


def test_categories_beyond_any_float_are_told_apart():
    domain = Domain({"c": Domain.categorical([0, 1, 10**400])})
    assert domain.encode(np.array([[0], [1], [7]])).ravel().tolist() == [0, 1, OTHER]
    assert domain.encode(np.array([[10**400]], dtype=object)).ravel().tolist() == [2]


def test_more_rows_than_kernels_can_number_are_refused():
    """As views of one number: nothing of that size is made."""
    domain = Domain({"a": (0, 1)})
    codes = np.broadcast_to(np.uint32(0), (2**31, 1))
    for X in (np.broadcast_to(0.5, (2**31, 1)), Encoded(domain, codes)):
        with pytest.raises(ValueError, match="fewer than 2\\^31 rows"):
            domain.encode(X)
    assert domain.encode(Encoded(domain, codes[1:])).shape == (2**31 - 1, 1)
