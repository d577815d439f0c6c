"""Domain files for people, and what people answer."""

import datetime as dt

import pytest

from lumberjack import Domain
from lumberjack.template import ask_column, parse_bounds, parse_labels, template, to_fill_in


def test_a_template_is_what_a_domain_reads_once_it_is_filled_in():
    types = {"age": "numeric", "day": "datetime", "city": "text", "member": "boolean", "odd": "other"}
    made = template(types, {"age": Domain.numeric(0, 100)})
    assert to_fill_in(made) == ["day", "city", "odd"]
    for column in made["columns"]:
        if column["name"] == "city":
            column["categories"] = ["Bonn", "Kiel"]
    made["columns"] = [c for c in made["columns"] if c["name"] not in ("day", "odd")]
    assert to_fill_in(made) == []
    domain = Domain.from_dict(made)
    assert list(domain) == ["age", "city", "member"]
    assert domain["age"] == Domain.numeric(0, 100)
    assert domain["member"].categories == (False, True)
    assert domain["member"].missing


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("17:90", 17, 90),
        (" -1.5 : 2e3 ", -1.5, 2000),
        ("2020-01-01:2024-12-31", dt.datetime(2020, 1, 1), dt.datetime(2024, 12, 31)),
        ("2020-01-01T08:30:2020-01-01T09:30", *(dt.datetime(2020, 1, 1, h, 30) for h in (8, 9))),
    ],
)
def test_bounds(text, low, high):
    assert parse_bounds(text) == Domain.numeric(low, high)


@pytest.mark.parametrize("text", ["17", "a:b", "1:2020-01-01", ":", "9:1"])
def test_bounds_that_are_none(text):
    with pytest.raises(ValueError, match=r"range|low|high"):
        parse_bounds(text)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a, b,,c", ["a", "b", "c"]),
        ("1,2.5", [1, 2.5]),
        ("true,false", [True, False]),
        ("1,x", ["1", "x"]),
    ],
)
def test_labels(text, labels):
    assert parse_labels(text) == labels
    with pytest.raises(ValueError, match="at least one"):
        parse_labels(" , ")


def test_questions_are_asked_again_until_an_answer_makes_sense():
    answers = iter(["what", "n", "5", "1", "n", "1", "5"])
    complaints = []
    kind = ask_column("age", "numeric", lambda *_: next(answers), complaints.append)
    assert kind == Domain.numeric(1, 5)
    assert len(complaints) == 2
    assert ask_column("age", "numeric", lambda *_: "s", complaints.append) is None
