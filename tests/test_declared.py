"""What people declare in files: kinds for many columns, code books, and how dates are written."""

import datetime as dt
import fnmatch
import itertools

import numpy as np
import pandas as pd
import pytest

from lumberjack import Domain, LumberjackClassifier, load
from lumberjack.declared import HEAD, SKIP, load_codebook, parse_labels, read_declared
from lumberjack.kinds import Categorical, Cuts, Numeric, Open

NAMES = ["age", "id", "insulin", "glyburide-metformin", "glipizide-metformin", "x*", "note", "dose 1"]


def declared(columns, names=None, **more):
    return read_declared(
        {"format": "lumberjack-domain", "version": 2, "columns": columns, **more}, names
    )


def test_kinds_are_shared_and_patterns_stand_for_many_columns():
    drug = {"type": "categorical", "categories": ["No", "Steady", "Up"], "missing": True}
    found = declared(
        [
            {"name": "insulin", "like": "drug"},
            {"pattern": "*-metformin", "like": "drug"},
            {"pattern": "dose *", "type": "numeric", "low": 0, "high": 9},
            {"name": "glipizide-metformin", "type": "categorical"},
            {"pattern": "*i*", "type": "skip"},
            {"name": "note"},
        ],
        NAMES,
        shared={"drug": drug},
    )
    expected = Categorical(("No", "Steady", "Up"), missing=True)
    assert found.kinds == {
        "insulin": expected,
        "glyburide-metformin": expected,
        "dose 1": Numeric(0, 9),
        "glipizide-metformin": Open(),
    }
    assert found.skipped == ["id"]  # the other names with an i come first
    assert found.columns["note"] is None


def test_patterns_are_those_of_a_shell():
    names = ["".join(word) for n in range(4) for word in itertools.product("ab.*\n", repeat=n)]
    for pattern in ("*", "a*", "*.b", "a*b*", "**", "*\n*", "a.*"):
        found = declared([{"pattern": pattern, "type": "skip"}], names).skipped
        assert found == [name for name in names if fnmatch.fnmatchcase(name, pattern)]


def test_a_name_with_a_star_is_a_name():
    assert list(declared([{"name": "x*", "type": "categorical"}], NAMES).kinds) == ["x*"]


def test_nothing_filled_in_leaves_a_column_open():
    blank = {"low": None, "high": None, "categories": None, "format": None, "missing": None}
    found = declared(
        [
            {"name": "a", "type": None, **blank},
            {"name": "b", "type": "numeric", **blank},
            {"name": "c", "type": "datetime", **blank},
            {"name": "d", "type": "categorical", **blank},
        ]
    ).columns
    assert found == {"a": None, "b": Numeric(), "c": Numeric(temporal=True), "d": Open()}


def test_what_is_filled_in_tells_the_type():
    found = declared(
        [
            {"name": "a", "low": 1, "high": 2},
            {"name": "b", "type": None, "categories": ["x"]},
            {"name": "c", "low": "2020-01-01", "high": "2021-01-01"},
            {"name": "d", "format": "%d.%m.%Y"},
        ]
    ).kinds
    dates = Domain.numeric(dt.date(2020, 1, 1), dt.date(2021, 1, 1))
    assert found["a"] == Numeric(1, 2)
    assert found["b"] == Categorical(("x",))
    assert found["c"] == dates
    assert found["d"] == Numeric(temporal=True, date_format="%d.%m.%Y")


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ({"name": "a", "type": "magic"}, "'a' needs a type"),
        ({"name": "a", "type": "numeric", "low": 1}, "numbers as low and high"),
        ({"name": "a", "type": "numeric", "low": "1", "high": "2"}, "numbers as low and high"),
        ({"name": "a", "type": "datetime", "low": "1.1.2020", "high": "1.1.2021"}, "or a format"),
        ({"name": "a", "type": "categorical", "categories": "x"}, "a list of categories"),
        ({"name": "a", "low": 1, "high": 2, "categories": ["x"]}, "both a range and categories"),
        ({"name": "a", "like": "b"}, "'b', which is not under 'shared'"),
        ({"name": "a", "like": "odd"}, "'odd' under 'shared' is not a column"),
        ({"name": "a", "like": []}, "not a domain"),
        ({"name": "age"}, "'age' occurs twice"),
        ({"pattern": "*", "type": "skip"}, "give names"),
        ({"type": "numeric"}, "not a domain: it lacks 'name'"),
        ({"name": []}, "not a domain"),
        ("age", "not a domain"),
        ({"name": "a", "type": "datetime", "format": "%d%d"}, "a date format is like"),
    ],
)
def test_what_is_unclear_is_refused(column, why):
    with pytest.raises(ValueError, match=why):
        declared([{"name": "age", "low": 0, "high": 1}, column], shared={"odd": 3})


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        ({"*-dose": {"like": "drug"}}, "format"),
        ({**HEAD, "column": []}, "columns"),
        ({**HEAD, "columns": [{"low": 0, "high": 1}]}, "name"),
    ],
)
def test_what_is_lacking_is_named(found, lacks):
    with pytest.raises(ValueError, match=f"not a domain: it lacks '{lacks}'"):
        read_declared(found)


def test_a_pattern_for_nothing_is_refused():
    with pytest.raises(ValueError, match="no column fits the pattern '\\*-metfrmin'"):
        declared([{"pattern": "*-metfrmin", "type": "skip"}], NAMES)


@pytest.mark.parametrize(
    "kind",
    [
        Numeric(),
        Numeric(-1, 2.5),
        Numeric(temporal=True),
        Domain.numeric("01.02.2020", "31.12.2020", date_format="%d.%m.%Y"),
        Cuts(Numeric(0, 1), (5, 2**30), learned=True),
        Cuts(Numeric(date_format="%Y", temporal=True), (2**31,)),
        Open(),
        Categorical(("a", "b"), missing=True),
        Categorical((2, 2.5, True), learned=True),
    ],
)
def test_kinds_survive_json(kind, tmp_path):
    Domain({"a": kind}).to_json(tmp_path / "d.json")
    again = Domain.from_json(tmp_path / "d.json")
    assert again["a"] == kind
    assert getattr(again["a"], "learned", None) == getattr(kind, "learned", None)


# Code books

BOOK = """column,kind,low,high,values,format
age,number,0,120,,
bmi,,10,80.5,,
born,date,01.01.1900,31.12.2026,,%d.%m.%Y
seen,,2020-01-01,2026-12-31,,
ward,category,,,A|B|C,
grade,,,,1|2|3,
weight,number,,,,
zip,category,,,,
id,skip,,,,
note,,,,,

*-metformin,category,,,No|Steady,
"""
MET = "glyburide-metformin"
EXPECTED = {
    "age": Numeric(0, 120),
    "bmi": Numeric(10, 80.5),
    "born": Numeric(-2208988800, 1798675200, True, "%d.%m.%Y"),  # by GNU date, date -ud @...
    "seen": Domain.numeric(dt.date(2020, 1, 1), dt.date(2026, 12, 31)),
    "ward": Categorical(("A", "B", "C"), missing=True),
    "grade": Categorical((1, 2, 3), missing=True),
    "weight": Numeric(),
    "zip": Open(),
    "id": SKIP,
    "note": None,
    MET: Categorical(("No", "Steady"), missing=True),
}


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_code_books(tmp_path, mark, start):
    path = tmp_path / "book.csv"
    path.write_text(start + BOOK.replace(",", mark), "utf-8")
    names = [*EXPECTED, "another"]
    found = declared(load_codebook(path)["columns"], names).columns
    assert found == EXPECTED
    kinds = {name: kind for name, kind in EXPECTED.items() if kind not in (None, SKIP)}
    assert Domain.from_codebook(path, names) == Domain(kinds)


def test_headings_may_be_few_and_in_any_order(tmp_path):
    (tmp_path / "book.csv").write_text("Values, Column\nyes|no, member\n")
    domain = Domain.from_codebook(tmp_path / "book.csv")
    assert domain == Domain({"member": Domain.categorical(["yes", "no"], missing=True)})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "needs a header"),
        ("name,kind\nage,number\n", "needs a header"),
        ("column,type\nage,number\n", "unknown headings: 'type'"),
        ("column,kind\nage,magic\n", "a kind 'magic' for 'age'; say number"),
        ("column,values\nward,A;B\n", "separate the values of 'ward' by |"),
        ("column,low,high\nage,zero,9\n", "needs"),
        ("column,low,high\nage,0,\n", "numbers as low and high"),
        ("column\nage\nage\n", "'age' occurs twice"),
        ("column,kind\n*,number\n", "give names"),
        ('column,kind\n"age,number\n', "not a CSV file"),
    ],
)
def test_unclear_code_books_are_refused(tmp_path, text, why):
    (tmp_path / "book.csv").write_text(text)
    with pytest.raises(ValueError, match=why):
        Domain.from_codebook(tmp_path / "book.csv")


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (["a", " b", "", "c"], ["a", "b", "c"]),
        (["1", "2.5"], [1, 2.5]),
        (["true", "False"], [True, False]),
        (["true", "1"], ["true", "1"]),
        (["1", "x"], ["1", "x"]),
    ],
)
def test_labels(words, labels):
    found = parse_labels(words)
    assert found == labels
    assert list(map(type, found)) == list(map(type, labels))
    with pytest.raises(ValueError, match="at least one"):
        parse_labels([" ", ""])


# Dates in text

DAYS = [dt.datetime(2020, 2, 1), dt.datetime(1969, 7, 20, 20, 17), None, dt.datetime(2031, 12, 31)]
FORMATS = {"%d.%m.%Y %H:%M": None, "%m/%d/%y %I:%M %p": (1969, 2068), "%Y%m%dT%H%M": None}


@pytest.mark.parametrize("written", [None, *FORMATS])
@pytest.mark.parametrize("bounded", [False, True])
def test_text_is_read_as_the_dates_that_it_means(frame, written, bounded):
    bounds = (dt.date(1960, 1, 1), dt.date(2030, 1, 1)) if bounded else ()
    text = [None if day is None else day.strftime(written or "%Y-%m-%dT%H:%M") for day in DAYS]
    plain = Domain({"day": Domain.numeric(*bounds, temporal=True)})
    domain = Domain({"day": Domain.numeric(*bounds, temporal=True, date_format=written)})
    expected = plain.encode(frame({"day": DAYS}))
    np.testing.assert_array_equal(domain.encode(frame({"day": text})), expected)
    np.testing.assert_array_equal(domain.encode(frame({"day": DAYS})), expected)
    np.testing.assert_array_equal(domain.encode(np.array([text], dtype=object).T), expected)


@pytest.mark.parametrize("text", ["31/01/2026", "2026-01-31", "zqx", "", "32.01.2026"])
def test_other_text_is_refused_without_quoting_it(text):
    domain = Domain({"day": Domain.numeric(date_format="%d.%m.%Y")})
    with pytest.raises(TypeError) as caught:
        domain.encode(pd.DataFrame({"day": ["01.02.2020", text]}))
    assert str(caught.value) == "column 'day' must hold dates, like 31.01.2026"


@pytest.mark.parametrize("written", ["%Q", "%d%d", "%", "%-d.%m", 5, "x" * 101, "%d" + "\x00"])
def test_formats_that_cannot_be_read_are_refused(written):
    with pytest.raises((ValueError, TypeError), match="date format"):
        Numeric(temporal=True, date_format=written)


def test_a_model_reads_dates_as_they_were_declared(tmp_path):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, 4000), unit="D")
    late = np.where(days > pd.Timestamp("2022-06-01"), "late", "early")
    text = pd.DataFrame({"day": days.strftime("%d/%m/%Y")})
    domain = {"day": Domain.numeric(date_format="%d/%m/%Y")}
    model = LumberjackClassifier(4.0, domain=domain, n_estimators=2).fit(text, late)
    assert model.score(text, late) > 0.95
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    found = again.predict_proba(text)
    np.testing.assert_array_equal(found, again.predict_proba(pd.DataFrame({"day": days})))
    assert (again.predict(text) == model.predict(text)).all()
