"""Columns as people declare them in files: typed JSON, kinds for many columns at once, and code books.

In: JSON or a code book and, if it has patterns, the names of a table's columns. Out: kinds by name.
Anything may stay open: a column without a type gets its kind from the table.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lumberjack.kinds import Categorical, Category, Cuts, Kind, Numeric, Open
from lumberjack.quoting import quote, quote_all
from lumberjack.values import seconds

__all__ = [
    "HEAD",
    "SKIP",
    "Answer",
    "Declared",
    "as_given",
    "describe",
    "load_codebook",
    "load_json",
    "mark",
    "parse_label",
    "parse_labels",
    "range_of",
    "read_declared",
]

SKIP = "skip"
Answer = Kind | str | None  # what is said about a column: its kind, SKIP, or nothing

HEAD = {"format": "lumberjack-domain", "version": 2}
_LARGEST = 2**26  # bytes of a file
_BETWEEN = "|"  # values in a code book
_HEADER = ("column", "kind", "low", "high", "values", "format")
_DELIMITERS = ",;\t"
_WORDS = {
    "": None, "number": "numeric", "numeric": "numeric", "date": "datetime", "datetime": "datetime",
    "category": "categorical", "categorical": "categorical", "skip": SKIP,
}  # fmt: skip


@dataclass(frozen=True)
class Declared:
    """What a file declares.

    Attributes
    ----------
    columns : dict of str to kind, SKIP or None
        None: the kind follows from the table.
    """

    columns: Mapping[str, Answer]

    @property
    def kinds(self) -> dict[str, Kind]:
        """Columns that have a kind."""
        return {name: kind for name, kind in self.columns.items() if isinstance(kind, Kind)}

    @property
    def skipped(self) -> list[str]:
        """Columns to leave out."""
        return [name for name, kind in self.columns.items() if kind == SKIP]


def describe(kind: Kind) -> dict[str, Any]:
    """A kind as plain data."""
    if isinstance(kind, Open):
        return {"type": "categorical"}
    if isinstance(kind, Categorical):
        learned = {"learned": True} if kind.learned else {}
        plain = {"categories": list(kind.categories), "missing": kind.missing}
        return {"type": "categorical", **plain, **learned}
    grid = kind.grid if isinstance(kind, Cuts) else kind
    bounds = {"low": grid.low, "high": grid.high} if grid.is_bounded else {}
    written = {} if grid.date_format is None else {"format": grid.date_format}
    cuts = {"cuts": list(kind.places)} if isinstance(kind, Cuts) else {}
    learned = {"learned": True} if isinstance(kind, Cuts) and kind.learned else {}
    return {"type": "datetime" if grid.temporal else "numeric", **bounds, **written, **cuts, **learned}


def mark(kind: Kind) -> Kind:
    """The same kind, marked as read off the data."""
    if isinstance(kind, Open):
        return kind
    if isinstance(kind, Cuts):
        return replace(kind, grid=replace(kind.grid, inferred=True))
    return replace(kind, inferred=True)


def as_given(kind: Kind) -> Kind:
    """The same kind, marked as not learned by this fit."""
    return replace(kind, learned=False) if isinstance(kind, Cuts | Categorical) else kind


def read_declared(found: Any, names: Sequence[str] | None = None) -> Declared:
    """The columns of a domain file, and those that it says to leave out."""
    try:
        if found["format"] != HEAD["format"] or found["version"] not in (1, 2):
            raise ValueError("not a domain: unknown format or version")
        declared = _read_columns(found, names)
        marked = found.get("inferred", False) is True  # the file marks all columns or none
    except KeyError as error:
        raise ValueError(f"not a domain: it lacks {quote(error.args[0])}") from None
    except TypeError as error:
        raise ValueError(f"not a domain: {error}") from None
    if not marked:
        return declared
    return Declared({**declared.columns, **{n: mark(kind) for n, kind in declared.kinds.items()}})


def _read_columns(found: Mapping[str, Any], names: Sequence[str] | None = None) -> Declared:
    """The columns of a domain file; ``names``, those of the table, are what patterns stand for."""
    shared = found.get("shared", {})
    kinds: dict[str, Answer] = {}
    patterns: list[tuple[str, Answer]] = []
    for column in found["columns"]:
        label = column["pattern"] if "pattern" in column else column["name"]
        kind = _read_kind(label, _like(label, column, shared))
        if "pattern" in column:
            patterns.append((str(label), kind))
        elif label in kinds:
            raise ValueError(f"not a domain: column {quote(label)} occurs twice")
        else:
            kinds[label] = kind
    for pattern, kind in patterns:
        for name in _matching(pattern, names):
            kinds.setdefault(name, kind)  # names win over patterns, and the first match over later ones
    return Declared(kinds)


def _like(label: str, column: Mapping[str, Any], shared: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of a column, or the shared entry that it names."""
    if "like" not in column:
        return column
    if column["like"] not in shared:
        raise ValueError(
            f"not a domain: column {quote(label)} is like {quote(column['like'])}, which is not under "
            "'shared'"
        )
    found = shared[column["like"]]
    if not isinstance(found, Mapping):
        raise ValueError(f"not a domain: {quote(column['like'])} under 'shared' is not a column")
    return found


def _matching(pattern: str, names: Sequence[str] | None) -> list[str]:
    """Names that fit a pattern, in which * stands for anything."""
    if names is None:
        raise ValueError("not a domain: it has patterns; give names, the columns of the table")
    fits = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    found = [name for name in names if fits.fullmatch(name)]
    if not found:
        raise ValueError(f"not a domain: no column fits the pattern {quote(pattern)}")
    return found


def _read_kind(name: str, column: Mapping[str, Any]) -> Answer:
    """A kind, SKIP, or None for a column whose kind follows from the table."""
    given = {key: value for key, value in column.items() if value is not None}
    kind = given.get("type", _type_of(name, given))
    if kind is None or kind == SKIP:
        return kind
    if kind == "categorical":
        return _read_categories(name, given)
    if kind not in ("numeric", "datetime"):
        raise ValueError(
            f"not a domain: column {quote(name)} needs a type (numeric, datetime, categorical or skip), "
            f"not {quote(kind)}"
        )
    grid = _read_range(name, given, kind == "datetime")
    if "cuts" not in given:
        return grid
    if not isinstance(given["cuts"], list) or any(isinstance(c, bool) for c in given["cuts"]):
        raise ValueError(f"not a domain: column {quote(name)} needs a list of cuts")
    return Cuts(grid, tuple(given["cuts"]), learned=given.get("learned", False) is True)


def _type_of(name: str, given: Mapping[str, Any]) -> str | None:
    """The type of a column that does not name one, by what is filled in."""
    if "categories" in given and given.keys() & {"low", "high", "format"}:
        raise ValueError(f"not a domain: column {quote(name)} has both a range and categories")
    if "categories" in given:
        return "categorical"
    if "format" in given or any(isinstance(given.get(key), str) for key in ("low", "high")):
        return "datetime"
    return "numeric" if given.keys() & {"low", "high"} else None


def _read_categories(name: str, given: Mapping[str, Any]) -> Categorical | Open:
    if "categories" not in given:
        return Open()
    if not isinstance(given["categories"], list):
        raise ValueError(f"not a domain: column {quote(name)} needs a list of categories")
    missing, learned = (given.get(key, False) is True for key in ("missing", "learned"))
    return Categorical(tuple(given["categories"]), missing, learned=learned)


def _read_range(name: str, given: Mapping[str, Any], temporal: bool) -> Numeric:
    """A range; without low and high, an open one."""
    written = given.get("format")
    if not given.keys() & {"low", "high"}:
        return Numeric(temporal=temporal, date_format=written)
    low, high = given.get("low"), given.get("high")
    if temporal and isinstance(low, str) and isinstance(high, str):
        try:
            low, high = seconds(low, written), seconds(high, written)
        except ValueError:
            problem = f"not a domain: column {quote(name)} needs dates like 2026-01-31, or a format"
            raise ValueError(problem) from None
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high)):
        raise ValueError(f"not a domain: column {quote(name)} needs numbers as low and high")
    return range_of(low, high, temporal, written)


def range_of(low: Any, high: Any, temporal: bool = False, date_format: str | None = None) -> Numeric:
    """A range of numbers, whatever their type."""
    try:
        return Numeric(float(low), float(high), temporal, date_format)
    except OverflowError:
        problem = f"a range needs bounds below 1e308, got {quote(low)} and {quote(high)}"
        raise ValueError(problem) from None


def parse_label(text: str) -> Category:
    """Parse a label as a whole number, a number, true or false, or else text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def parse_labels(words: Iterable[str]) -> list[Any]:
    """Parse labels as all numbers, all true or false, or else all text."""
    words = [word.strip() for word in words if word.strip()]
    if not words:
        raise ValueError("give at least one value")
    labels = [parse_label(word) for word in words]
    flags = {isinstance(label, bool) for label in labels}
    return words if any(isinstance(label, str) for label in labels) or len(flags) > 1 else labels


def load_json(path: str | Path) -> Any:
    """What is in a domain file."""
    try:
        return json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"not a domain: invalid JSON at line {error.lineno}") from None
    except (UnicodeDecodeError, RecursionError):
        raise ValueError("not a domain: not a JSON file") from None


def _read(path: str | Path) -> str:
    with Path(path).open("rb") as file:  # which may be an endless device
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError(f"not a domain: larger than {_LARGEST // 2**20} MiB")
    return text.decode("utf-8-sig")


def load_codebook(path: str | Path) -> dict[str, Any]:
    """A code book as the same data: a CSV file with a row for each column, or for a pattern of names."""
    try:
        lines = _read(path).splitlines()
        mark = max(_DELIMITERS, key=(lines or [""])[0].count)
        rows = list(csv.reader(lines, delimiter=mark, strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path} is not a CSV file in UTF-8") from None
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if "column" not in header:
        raise ValueError(f"{path} needs a header with the names {', '.join(_HEADER)}; column at least")
    if unknown := [name for name in header if name not in _HEADER]:
        raise ValueError(f"{path} has unknown headings: {quote_all(unknown)}")
    cells = [dict(zip(header, map(str.strip, row), strict=False)) for row in rows[1:] if any(row)]
    return {"columns": [_read_row(row) for row in cells]}


def _read_row(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a code book as a column of a domain file."""
    name = row["column"]
    given: dict[str, Any] = {key: row[key] for key in ("low", "high", "format") if row.get(key)}
    word = row.get("kind", "").lower()
    if word not in _WORDS:
        known = ", ".join(word for word in _WORDS if word)
        raise ValueError(f"the code book has a kind {quote(word)} for {quote(name)}; say {known}")
    kind = _WORDS[word]
    if kind != "datetime" and "format" not in given:
        given.update({k: _number(name, text) for k, text in given.items() if k in ("low", "high")})
    if row.get("values"):
        given.update(categories=_values(name, row["values"]), missing=True)
    return {"pattern" if "*" in name else "name": name, "type": kind, **given}


def _number(name: str, text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _values(name: str, text: str) -> list[Any]:
    if _BETWEEN not in text and re.search("[,;]", text):
        raise ValueError(f"the code book must separate the values of {quote(name)} by {_BETWEEN}")
    return parse_labels(text.split(_BETWEEN))
