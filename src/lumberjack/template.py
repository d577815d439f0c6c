"""Domain files for people: a template from a file's schema, filled in by answers.

In: names and types of columns, and what a person says about them. Out: the JSON that
``Domain.from_json`` reads, or refuses by name where something is still to be filled in. No row is read,
except by ``infer``, whose result is marked.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lumberjack.domain import Domain, mark, read_off
from lumberjack.kinds import Categorical, Kind
from lumberjack.reading import parse_label, speller
from lumberjack.tables import Progress, Table, Values

__all__ = ["ask_column", "infer", "parse_bounds", "parse_labels", "template", "to_fill_in"]

Prompt = Callable[[str, str | None], str]


def template(types: Mapping[str, str], known: Mapping[str, Kind]) -> dict[str, Any]:
    """A domain as JSON, with null where nobody has said anything yet."""
    columns = []
    for name, kind in types.items():
        if name in known:
            columns += Domain({name: known[name]}).to_dict()["columns"]
        elif kind == "boolean":  # the type alone tells
            columns += Domain({name: Categorical((False, True), missing=True)}).to_dict()["columns"]
        elif kind in ("numeric", "datetime"):
            columns.append({"name": name, "type": kind, "low": None, "high": None})
        elif kind == "text":
            columns.append({"name": name, "type": "categorical", "categories": None, "missing": False})
        else:
            blank = {"low": None, "high": None, "categories": None, "missing": False}
            columns.append({"name": name, "type": None, **blank})
    return {"format": "lumberjack-domain", "version": 1, "columns": columns}


def to_fill_in(found: Mapping[str, Any]) -> list[str]:
    """Columns of a template that still need an answer."""
    return [column["name"] for column in found["columns"] if None in column.values()]


def parse_bounds(text: str) -> Kind:
    """A range like 17:90 or 2020-01-01:2024-12-31."""
    if ":" not in text:
        raise ValueError(f"a range is LOW:HIGH, like 17:90, got {text!r}")
    for at in (i for i, letter in enumerate(text) if letter == ":"):  # times hold colons as well
        low, high = text[:at].strip(), text[at + 1 :].strip()
        for read in (float, dt.datetime.fromisoformat):
            try:
                bounds = read(low), read(high)
            except ValueError:
                continue
            return Domain.numeric(*bounds)
    raise ValueError(f"a range needs two numbers or two dates like 2026-01-31, got {text!r}")


def parse_labels(text: str) -> list[Any]:
    """Labels like a,b,c: all numbers, all true or false, or all text."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ValueError("give at least one value, separated by commas")
    labels = [parse_label(word) for word in words]
    return words if any(isinstance(label, str) for label in labels) else labels


def ask_column(name: str, kind: str, prompt: Prompt, complain: Callable[[str], None]) -> Kind | None:
    """What a person says about a column; None to leave it out."""
    guess = {"numeric": "n", "datetime": "n", "boolean": "c", "text": "c"}.get(kind)
    while True:
        answer = prompt(f"{name}: [n]umbers or dates, [c]ategories, [s]kip", guess).strip().lower()[:1]
        if answer == "s":
            return None
        try:
            if answer == "n":
                low = prompt("  smallest possible value", None)
                high = prompt("  largest possible value", None)
                return parse_bounds(f"{low}:{high}")
            if answer == "c":
                given = prompt("  all possible values, separated by commas", None)
                missing = prompt("  can it be missing? [y/n]", "n").strip().lower()[:1] == "y"
                return Domain.categorical(parse_labels(given), missing=missing)
            complain("Please answer n, c or s.")
        except (TypeError, ValueError) as error:
            complain(str(error))


def infer(table: Table, names: list[str], target: str | None, progress: Progress) -> Domain:
    """Ranges and categories of the data; a target with few values is a set of classes."""
    types = table.read_types(names)
    meanings = {name: speller(table, types[name]) for name in names}
    listed: dict[str, list[Any]] = {name: [] for name in names}
    for chunk in table.chunks([], names, progress):
        for name, meaning in meanings.items():
            column: Any = chunk[name]
            listed[name] += Values(list(map(meaning, column.distinct)), column.place).listed()
    columns: dict[str, Kind] = {}
    for name, items in listed.items():
        distinct = {v for v in items if v is not None}
        if name == target and len(distinct) <= 20:
            columns[name] = Domain.categorical(sorted(distinct, key=lambda v: (isinstance(v, str), v)))
        else:
            columns[name] = read_off(pa.table({name: pa.array(items)}))[name]
    return Domain({name: mark(kind) for name, kind in columns.items()})
