"""From chunks of a file to what an estimator takes: an encoded table, labels, numbers, and persons.

In: a table (``tables``), and what is declared about its columns. Out: arrays that cover all chunks. A
column that nobody declared gets its type from the schema of a Parquet file, or from all rows of a CSV
file.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.checking import Check
from lumberjack.declared import parse_label
from lumberjack.domain import Domain, Encoded, complete
from lumberjack.inputs import read_people
from lumberjack.kinds import OTHER, Category, Codes, Kind, Number, Numeric, Open, list_values
from lumberjack.quoting import quote
from lumberjack.tables import Chunk, Numbers, Progress, Table, Values, is_null
from lumberjack.values import Column

__all__ = [
    "Labels",
    "Matcher",
    "Source",
    "as_read",
    "label_reader",
    "number_reader",
    "person_reader",
    "speller",
]

Reader = Callable[[Values], NDArray[Any]]


def speller(table: Table, kind: str) -> Callable[[Any], Any]:
    """Reads undeclared values: text of a CSV file by the type of its column, missing values as None."""
    if table.is_parquet:
        return lambda value: value
    meant = parse_label if kind in ("numeric", "boolean") else str

    def spell(text: str | None) -> Any:
        if text is None or is_null(text):
            return None
        return meant(text if meant is str else text.strip())

    return spell


class Matcher:
    """Finds the category that a cell means: text in a file may stand for a number or a boolean."""

    def __init__(self, categories: Sequence[Category], *, text: bool) -> None:
        self.known = {category: category for category in categories}
        self.text = text  # a text file: missing values have spellings, too

    def __call__(self, value: Any) -> Any:
        """The category, None for a missing value, or the value itself if it is not a category."""
        if value in self.known:
            return self.known[value]
        if isinstance(value, str):
            if self.text and is_null(value):
                return None
            meant = parse_label(value.strip())
            if meant in self.known:
                return self.known[meant]
        return value


class Labels:
    """The values of an open column over all chunks: what ``kinds.list_values`` gives for a whole one."""

    def __init__(self) -> None:
        self.place: dict[Category, int] = {}

    def encode(self, name: str, values: Column, out: Codes) -> None:
        """Number values in the order of their appearance."""
        labels = list_values(name, values, out)
        new = [self.place.setdefault(label, len(self.place)) for label in labels]
        listed = out < OTHER
        out[listed] = np.array(new, dtype=np.uint32)[out[listed]]

    def settle(self, name: str, codes: Codes) -> tuple[Category, ...]:
        """The values, sorted; changes the codes of a whole column to places among them."""
        distinct = np.empty(len(self.place), dtype=object)
        distinct[:] = list(self.place)
        new = np.empty(len(distinct), dtype=np.uint32)
        labels = list_values(name, Column(distinct), new)
        listed = codes < OTHER
        codes[listed] = new[codes[listed]]
        return labels


def as_read(
    table: Table,
    declared: Domain | None,
    names: Sequence[str],
    types: Mapping[str, str],
    date_format: str | None = None,
) -> Domain:
    """Add the columns that are not declared, as Python would read them from such a table."""
    if table.is_parquet:
        return complete(declared, table.without_rows(names))
    known = {} if declared is None else dict(zip(declared, declared.kinds, strict=True))
    kinds = {"numeric": Numeric(), "datetime": Numeric(temporal=True, date_format=date_format)}
    return Domain({**known, **{n: kinds.get(types[n], Open()) for n in names if n not in known}})


@dataclass(frozen=True)
class Source:
    """A file, and what its columns hold.

    Attributes
    ----------
    table : Table
    domain : Domain
        Of the columns to be encoded.
    types : dict of str to str
        How the text of open columns is read: see ``Table.read_types``.
    """

    table: Table
    domain: Domain
    types: Mapping[str, str] = field(default_factory=dict)

    def read(
        self,
        extra: Mapping[str, Reader],
        progress: Progress | None = None,
        check: Check | None = None,
    ) -> tuple[Encoded, dict[str, NDArray[Any]]]:
        """A whole file, encoded; ``extra`` columns go through a function, chunk by chunk.

        ``check`` counts values outside the domain.

        Memory: 9/8 of the result, and one chunk.
        """
        n, domain = 0, self.domain
        codes = np.empty((0, len(domain)), dtype=np.uint32)
        others: dict[str, NDArray[Any]] = {}
        labels = {name: Labels() for name in domain if isinstance(domain[name], Open)}
        numbers, values = self.split()
        for chunk in self.table.chunks(numbers, [*values, *extra], progress):
            piece = self.encode(chunk, labels, check)
            _put(codes, n, piece)
            for name, convert in extra.items():
                part = convert(chunk[name])  # type: ignore[arg-type]
                _put(others.setdefault(name, np.empty(0, dtype=part.dtype)), n, part)
            n += len(piece)
        if not n:
            raise ValueError(f"{self.table.path} has no rows")
        for array in (codes, *others.values()):
            _resize(array, n)
        place = {name: j for j, name in enumerate(domain)}
        settled = {name: found.settle(name, codes[:, place[name]]) for name, found in labels.items()}
        return Encoded(domain, codes, settled), others

    def split(self) -> tuple[list[str], list[str]]:
        """Columns to read as numbers, and those to read as values."""
        kinds = dict(zip(self.domain, self.domain.kinds, strict=True))
        plain = [n for n, kind in kinds.items() if isinstance(kind, Number) and not kind.temporal]
        return plain, [n for n in kinds if n not in plain]

    def encode(
        self,
        chunk: Chunk,
        labels: Mapping[str, Labels] | None = None,
        check: Check | None = None,
    ) -> Codes:
        """Codes of one chunk, shape (n_rows, n_columns): each distinct value is looked up once."""
        columns = []
        for name, kind in zip(self.domain, self.domain.kinds, strict=True):
            values, place = self._column(name, kind, chunk[name])
            codes = np.empty(len(values), dtype=np.uint32)
            if check is not None:
                check.add(name, kind, values, place)
            if isinstance(kind, Open):
                (labels or {})[name].encode(name, values, codes)
            else:
                kind.encode(name, values, codes)
            columns.append(codes if place is None else codes[place])
        return np.column_stack(columns)

    def check(self, progress: Progress | None = None) -> Check:
        """How well the file fits the domain: for the data holder's eyes only."""
        check = Check()
        for chunk in self.table.chunks(*self.split(), progress):
            for name, kind in zip(self.domain, self.domain.kinds, strict=True):
                check.add(name, kind, *self._column(name, kind, chunk[name]))
        return check

    def _column(
        self, name: str, kind: Kind, given: Numbers | Values
    ) -> tuple[Column, NDArray[np.int64] | None]:
        """A column of a chunk as its kind reads it; for distinct values, each row's place among them."""
        if not isinstance(given, Values):
            return Column(given), None
        distinct = np.empty(len(given.distinct), dtype=object)
        distinct[:] = list(map(self._meaning(name, kind), given.distinct))
        return Column(distinct), given.place

    def _meaning(self, name: str, kind: Kind) -> Callable[[Any], Any]:
        if isinstance(kind, Number | Open):  # dates are read by their kind
            return speller(self.table, self.types.get(name, "text"))
        return Matcher(kind.categories, text=not self.table.is_parquet)


def _put(array: NDArray[Any], n: int, part: NDArray[Any]) -> None:
    """Write after the first n rows, growing the array if needed, but without copying large arrays."""
    end = n + len(part)
    if end > len(array):
        _resize(array, end + end // 8)
    array[n:end] = part


def _resize(array: NDArray[Any], n: int) -> None:
    array.resize((n, *array.shape[1:]), refcheck=False)


def label_reader(source: Source, target: str, known: list[Any] | None, *, strict: bool = True) -> Reader:
    """Reads labels: known ones as they are declared, else by the type of their column.

    With ``strict``, a label that is not known is refused; without, it becomes None.
    """
    table = source.table
    match = Matcher(known or [], text=not table.is_parquet)
    meaning = speller(table, source.types.get(target, "text")) if known is None else match

    def convert(column: Values) -> NDArray[Any]:
        meant = np.empty(len(column.distinct), dtype=object)
        meant[:] = [meaning(value) for value in column.distinct]
        used = np.unique(column.place).tolist()
        if any(meant[i] is None for i in used):
            raise ValueError(f"the target {quote(target)} has missing values; leave those rows out")
        other = [] if known is None else [i for i in used if meant[i] not in match.known]
        if other and strict:
            raise ValueError(f"the target {quote(target)} has a label that is not among the classes")
        meant[other] = None
        return np.asarray(meant[column.place])

    return convert


def number_reader(target: str) -> Reader:
    """Reads a target as numbers."""

    def convert(column: Values) -> NDArray[Any]:
        used = np.zeros(len(column.distinct))
        for i in np.unique(column.place).tolist():
            try:
                used[i] = float(column.distinct[i])
            except (TypeError, ValueError):
                used[i] = math.nan
            if not math.isfinite(used[i]):
                raise ValueError(
                    f"the target {quote(target)} must hold numbers, and none may be missing"
                )
        return np.asarray(used[column.place])

    return convert


def person_reader(name: str) -> Reader:
    """Reads ids as numbers: one for each person, in the order of appearance.

    A spelling of "missing" is never an id: it would merge all persons without an id into one.
    """
    seen: dict[Any, int] = {}

    def convert(column: Values) -> NDArray[Any]:
        number, used = np.zeros(len(column.distinct), dtype=np.int64), np.unique(column.place)
        try:
            people = read_people([column.distinct[i] for i in used.tolist()])
        except ValueError:
            problem = "has missing values, or values that are not ids; leave those rows out"
            raise ValueError(f"the column of persons, {quote(name)}, {problem}") from None
        number[used] = [seen.setdefault(person, len(seen)) for person in people]
        return number[column.place]

    return convert
