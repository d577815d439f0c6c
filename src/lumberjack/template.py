"""Domain files for people: what is declared about a file's columns, and blanks for the rest.

In: names and types of columns, and what a person says about them. Out: the JSON that
``Domain.from_json`` reads, in which anything may stay open. No row is read, except by ``infer``, whose
result is marked.
"""

import datetime as dt
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from lumberjack.declared import (
    HEAD,
    SKIP,
    Answer,
    describe,
    load_json,
    mark,
    read_declared,
)
from lumberjack.domain import Domain, read_off
from lumberjack.kinds import Categorical, Kind, Numeric
from lumberjack.reading import speller
from lumberjack.tables import Progress, Table, Values

__all__ = ["infer", "left_open", "parse_bounds", "read_domain", "template", "to_text"]


def read_domain(path: Path | None, table: Table) -> tuple[Domain | None, list[str]]:
    """What a domain file says about the columns of a table, and which it says to leave out."""
    if path is None:
        return None, []
    index = table.index()  # patterns do not match it
    declared = read_declared(load_json(path), [name for name in table.names() if name not in index])
    skipped = [name for name in declared.skipped if name in table.names()]
    return Domain(declared.kinds) if declared.kinds else None, skipped


def template(types: Mapping[str, str], known: Mapping[str, Answer]) -> dict[str, Any]:
    """A domain as JSON, with null where nothing is declared."""
    columns = [{"name": name, **_column(kind, known.get(name))} for name, kind in types.items()]
    return {**HEAD, "columns": columns}


def _column(kind: str, answer: Answer) -> dict[str, Any]:
    if answer == SKIP:
        return {"type": SKIP}
    if kind == "boolean" and answer is None:  # the type determines the values
        answer = Categorical((False, True), missing=True)
    if isinstance(answer, Kind):
        return describe(answer)
    if kind in ("numeric", "datetime"):
        return {"type": kind, "low": None, "high": None}
    if kind == "text":
        return {"type": "categorical", "categories": None}
    return {"type": None, "low": None, "high": None, "categories": None}


def to_text(found: Mapping[str, Any]) -> str:
    """A domain as JSON with a line for each column, to be filled in."""
    head = [f"  {json.dumps(key)}: {json.dumps(found[key])}," for key in found if key != "columns"]
    columns = [f"    {json.dumps(column, ensure_ascii=False)}" for column in found["columns"]]
    return "\n".join(["{", *head, '  "columns": [', ",\n".join(columns), "  ]", "}", ""])


def left_open(found: Mapping[str, Any]) -> list[str]:
    """Columns of a template that are left to be learned."""
    return [column["name"] for column in found["columns"] if None in column.values()]


def parse_bounds(text: str, date_format: str | None = None) -> Numeric:
    """A range like 17:90 or 2020-01-01:2024-12-31."""
    if ":" not in text:
        raise ValueError(f"a range must be LOW:HIGH, like 17:90, got {text!r}")
    readers: list[tuple[Callable[[str], Any], str | None]]
    readers = [(float, None), (dt.datetime.fromisoformat, date_format)]
    if date_format is not None:
        readers.append((lambda day: dt.datetime.strptime(day, date_format), date_format))
    for at in (i for i, letter in enumerate(text) if letter == ":"):  # times hold colons as well
        low, high = text[:at].strip(), text[at + 1 :].strip()
        for read, known in readers:
            try:
                bounds = read(low), read(high)
            except ValueError:
                continue
            return Domain.numeric(*bounds, date_format=known)
    like = "2026-01-31" if date_format is None else f"2026-01-31 or {date_format}"
    raise ValueError(f"a range needs two numbers or two dates like {like}, got {text!r}")


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
