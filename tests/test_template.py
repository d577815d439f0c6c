"""Domain files for people, and what people answer."""

import datetime as dt
import json

import pytest

from lumberjack import Domain
from lumberjack.template import left_open, parse_bounds, template, to_text


def test_a_template_is_what_a_domain_reads_once_it_is_filled_in():
    types = {"age": "numeric", "day": "datetime", "city": "text", "member": "boolean", "odd": "other"}
    made = template(types, {"age": Domain.numeric(0, 100)})
    assert left_open(made) == ["day", "city", "odd"]
    for column in made["columns"]:
        if column["name"] == "city":
            column["categories"] = ["Bonn", "Kiel"]
    made["columns"] = [c for c in made["columns"] if c["name"] not in ("day", "odd")]
    assert left_open(made) == []
    domain = Domain.from_dict(made)
    assert list(domain) == ["age", "city", "member"]
    assert domain["age"] == Domain.numeric(0, 100)
    assert domain["member"].categories == (False, True)
    assert domain["member"].missing


def test_a_file_has_a_line_for_each_column():
    names = ["a", 'q"', "\u00e4\n"]
    made = template(dict.fromkeys(names, "text"), {"a": Domain.categorical(["\u00df"])})
    text = to_text({**made, "inferred": True})
    assert json.loads(text) == {**made, "inferred": True}
    lines = text.splitlines()
    assert len(lines) == 7 + len(names)
    assert (
        lines[5]
        == '    {"name": "a", "type": "categorical", "categories": ["\u00df"], "missing": false},'
    )


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("17:90", 17, 90),
        (" -1.5 : 2e3 ", -1.5, 2000),
        ("2020-01-01:2024-12-31", dt.datetime(2020, 1, 1), dt.datetime(2024, 12, 31)),
        ("2020-01-01T08:30:2020-01-01T09:30", *(dt.datetime(2020, 1, 1, h, 30) for h in (8, 9))),
    ],
)
def test_bounds_are_parsed(text, low, high):
    assert parse_bounds(text) == Domain.numeric(low, high)


@pytest.mark.parametrize("text", ["17", "a:b", "1:2020-01-01", ":", "9:1"])
def test_malformed_bounds_are_refused(text):
    with pytest.raises(ValueError, match=r"range|low|high"):
        parse_bounds(text)
