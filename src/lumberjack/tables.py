"""Tables in files, chunk by chunk: CSV and Parquet to codes, with the memory of one chunk.

In: a path and which columns are wanted. Out: chunks of plain arrays, and from them an ``Encoded`` table.
Needs pyarrow (extra ``cli``). Errors go to the data holder: they name columns and kinds of problems, and
no value; a line only when ``locate`` asks for it.
"""

import csv
import datetime as dt
import io
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lumberjack.domain import Domain, Encoded
from lumberjack.inputs import NULLS, read_people
from lumberjack.kinds import Category, Codes, Known, Number
from lumberjack.quoting import quote, quote_all
from lumberjack.values import Column

__all__ = [
    "Matcher",
    "Table",
    "Values",
    "encode",
    "label_reader",
    "number_reader",
    "parse_label",
    "person_reader",
    "read",
    "settle_labels",
    "split",
]

_BLOCK = 2**19  # bytes of text in a chunk; Arrow reads up to 32 of them ahead
_ROWS = 2**16  # rows in a chunk of Parquet

Numbers = NDArray[np.float64]
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Values:
    """A column as its distinct values (a last None for missing ones), and each row's index in them."""

    distinct: list[Any]
    place: NDArray[np.int64]

    def listed(self) -> list[Any]:
        """The values, row by row."""
        return [self.distinct[i] for i in self.place.tolist()]


Chunk = dict[str, Numbers | Values]
Reader = Callable[[Values], NDArray[Any]]


@dataclass(frozen=True)
class Table:
    """A CSV or Parquet file.

    Attributes
    ----------
    path : Path
    delimiter : str
        What separates the fields of a CSV file.
    locate : bool
        Whether errors may name the line of a bad row: of use to the data holder, and to nobody else.
    """

    path: Path
    delimiter: str = ","
    locate: bool = False

    def __post_init__(self) -> None:
        if self.path.exists() and not self.path.is_file():
            raise ValueError(
                f"{self.path} is a pipe or a device, and tables are read twice: write it to a file first"
            )

    @property
    def is_parquet(self) -> bool:
        """Whether the name says Parquet; everything else is read as CSV."""
        return self.path.suffix.lower() in (".parquet", ".pq")

    def names(self) -> list[str]:
        """Column names: the schema, and no row."""
        names = list(self._parquet().schema_arrow.names) if self.is_parquet else self._header()
        place: dict[str, int] = {}
        for i, name in enumerate(names):  # by position: without a header the names would be data
            if (first := place.setdefault(name, i)) < i:
                raise ValueError(f"{self.path}: columns {first + 1} and {i + 1} have the same name")
        return names

    def _header(self) -> list[str]:
        try:
            # The buffer holds rows as well; only the names must be text.
            with self.path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
                start = io.StringIO(file.read(_BLOCK), newline="")
            names = next(csv.reader(start, delimiter=self.delimiter), [])
            "".join(names).encode("utf-8")
        except (UnicodeEncodeError, csv.Error):
            raise ValueError(f"{self.path} is not a CSV file in UTF-8") from None
        if not names:
            raise ValueError(f"{self.path} is empty: a CSV file begins with the names of its columns")
        if start.tell() == _BLOCK:
            raise ValueError(f"{self.path} has a header of more than {_BLOCK // 2**10} KiB")
        return names

    def types(self) -> dict[str, str]:
        """What the schema says of each column: numeric, datetime, boolean, text or unknown."""
        if not self.is_parquet:
            return dict.fromkeys(self.names(), "unknown")
        return {field.name: _kind_of(field.type) for field in self._parquet().schema_arrow}

    def type_of(self, name: str) -> pa.DataType:
        """The Arrow type of a column's values; text in a CSV file."""
        return _plain(self._parquet().schema_arrow.field(name).type) if self.is_parquet else pa.string()

    def check_columns(self, wanted: Sequence[str]) -> None:
        """Refuse a file that lacks columns."""
        names = self.names()
        missing = [name for name in wanted if name not in names]
        if missing:
            hint = ""
            if len(names) == 1 and not self.is_parquet:
                hint = f"; it has one column only: is {self.delimiter!r} the right --delimiter?"
            raise ValueError(f"{self.path} has no column {quote_all(missing)}{hint}")

    def chunks(
        self, numbers: Sequence[str], values: Sequence[str], progress: Progress | None = None
    ) -> Iterator[Chunk]:
        """Chunks with some columns as numbers and some as values; progress goes from 0 to 1."""
        self.check_columns([*numbers, *values])
        for name in values:
            if pa.types.is_nested(kind := self.type_of(name)):
                problem = (
                    f"is nested ({str(kind).partition('<')[0]}), and only single values can be read"
                )
                raise ValueError(f"{self.path}: column {quote(name)} {problem}")
        source = self._parquet_batches if self.is_parquet else self._csv_batches
        done = progress or (lambda _: None)
        for batch in source(list(dict.fromkeys([*numbers, *values])), numbers, done):
            if batch.num_rows:
                chunk: Chunk = {name: self._numbers(name, batch.column(name)) for name in numbers}
                chunk.update({name: self._values(name, batch.column(name)) for name in values})
                yield chunk

    def _parquet(self) -> Any:
        with self._arrow("is not a Parquet file"):
            return pq.ParquetFile(self._open())

    def _open(self) -> pa.OSFile:
        return pa.OSFile(os.fsencode(self.path))  # as text Arrow takes UTF-8 only

    @contextmanager
    def _arrow(self, problem: str) -> Iterator[None]:
        """Name the file in an error of Arrow, whose words may quote its content."""
        try:
            yield
        except MemoryError:
            raise
        except OSError as error:
            if error.errno is None:  # not a system error: Arrow could not parse the bytes
                raise ValueError(f"{self.path} {problem}") from None
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        except (pa.ArrowException, ValueError, OverflowError):
            raise ValueError(f"{self.path} {problem}") from None

    def _parquet_batches(
        self, names: list[str], numbers: Sequence[str], done: Progress
    ) -> Iterator[Any]:
        file = self._parquet()
        total, seen = max(file.metadata.num_rows, 1), 0
        batches = file.iter_batches(_ROWS, columns=names)
        while True:
            with self._arrow("is damaged: not all of it can be read"):
                batch = next(batches, None)
            if batch is None:
                return
            seen += batch.num_rows
            done(min(seen / total, 1.0))
            yield batch

    def _csv_batches(self, names: list[str], numbers: Sequence[str], done: Progress) -> Iterator[Any]:
        types = {name: pa.float64() if name in numbers else pa.string() for name in names}
        size = max(self.path.stat().st_size, 1)
        # Arrow reads ahead in threads of its own; a Python file would be called after its end.
        with self._open() as file:
            try:
                reader = arrow_csv.open_csv(
                    file,
                    read_options=arrow_csv.ReadOptions(block_size=_BLOCK),
                    parse_options=arrow_csv.ParseOptions(
                        delimiter=self.delimiter, newlines_in_values=True
                    ),
                    convert_options=arrow_csv.ConvertOptions(
                        column_types=types,
                        include_columns=names,
                        null_values=NULLS,
                        strings_can_be_null=False,
                    ),
                )
                with reader:
                    for batch in reader:
                        done(min(file.tell() / size, 1.0))
                        yield batch
            except pa.ArrowInvalid as error:
                raise ValueError(self._explain(str(error), numbers)) from None

    def _explain(self, error: str, numbers: Sequence[str]) -> str:
        """A parser's error without the values that it quotes."""
        column = re.search(r"In CSV column #(\d+)", error)
        name = quote(self.names()[int(column.group(1))]) if column else "a column"
        if "UTF8" in error:
            return f"{self.path}: column {name} holds text that is not UTF-8; convert the file first"
        if column:
            problem = f"column {name} must hold numbers: its domain is a range"
        elif "Expected" in error:
            problem = "a row has more or fewer fields than the header"
        elif "straddl" in error:
            problem = f"a row is longer than {_BLOCK // 2**10} KiB; is a quote never closed?"
        else:
            problem = "it cannot be read as CSV"
        if not self.locate:
            return f"{self.path}: {problem} (--locate names the line)"
        line = self._find_line(numbers)
        return f"{self.path}: {problem}" + (f", line {line}" if line else "")

    def _find_line(self, numbers: Sequence[str]) -> int | None:
        """Line of the first row with a wrong number of fields, or with text instead of a number."""
        before = csv.field_size_limit(_BLOCK)  # Python's own limit is lower than Arrow's
        try:
            with self.path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
                rows = csv.reader(file, delimiter=self.delimiter)
                names = next(rows)
                places = [names.index(name) for name in numbers]
                try:
                    for row in rows:
                        if row and len(row) != len(names):
                            return rows.line_num
                        if row and any(not _is_number(row[i]) for i in places):
                            return rows.line_num
                except csv.Error:  # a field that is too long, or what no row can hold
                    return rows.line_num
        finally:
            csv.field_size_limit(before)
        return None

    def _numbers(self, name: str, column: Any) -> Numbers:
        kind = _kind_of(column.type)
        if kind not in ("numeric", "boolean"):
            raise ValueError(
                f"{self.path}: column {quote(name)} must hold numbers: its domain is a range"
            )
        with self._arrow(f"has values in column {quote(name)} that cannot be read"):
            return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    def _values(self, name: str, column: Any) -> Values:
        with self._arrow(f"has values in column {quote(name)} that cannot be read"):
            if pa.types.is_dictionary(column.type) and pa.types.is_timestamp(column.type.value_type):
                column = column.dictionary_decode()
            if pa.types.is_timestamp(column.type):  # Python's datetime knows no nanoseconds
                column = pc.cast(column, _plain(column.type), safe=False)
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            distinct = [*coded.dictionary.to_pylist(), None]
            place = coded.indices.cast(pa.int64()).fill_null(len(distinct) - 1)
            return Values(distinct, place.to_numpy(zero_copy_only=False))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip() in NULLS
    return True


def _kind_of(kind: Any) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numeric"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "datetime"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "unknown"


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values as ``Values`` has them."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def parse_label(text: str) -> Category:
    """A label as it was meant: a whole number, a number, true or false, or text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


class Matcher:
    """Finds the category that a cell means: text in a file may stand for a number or a boolean."""

    def __init__(self, categories: Sequence[Category], *, text: bool) -> None:
        self.known = {category: category for category in categories}
        self.text = text  # a text file: missing values have spellings, too

    def __call__(self, value: Any) -> Any:
        """The category, None for a missing value, or the value itself when it is no category."""
        if value in self.known:
            return self.known[value]
        if isinstance(value, str):
            if self.text and value.strip() in NULLS:
                return None
            meant = parse_label(value.strip())
            if meant in self.known:
                return self.known[meant]
        return value


def _moment(value: Any) -> dt.date | None:
    if value is None or (isinstance(value, str) and value.strip() in NULLS):
        return None
    return dt.datetime.fromisoformat(value.strip()) if isinstance(value, str) else value


def encode(chunk: Chunk, domain: Domain, table: Table) -> Codes:
    """Codes of one chunk, shape (n_rows, n_columns): each distinct value is looked up once."""
    codes = np.empty((_rows(chunk[domain.names[0]]), len(domain)), dtype=np.uint32)
    for j, (name, kind) in enumerate(zip(domain, domain.known, strict=True)):
        column = chunk[name]
        if isinstance(column, Values):
            codes[:, j] = _encode_values(name, kind, column, table)[column.place]
        else:
            kind.encode(name, Column(column), codes[:, j])
    return codes


def _rows(column: Numbers | Values) -> int:
    return len(column.place if isinstance(column, Values) else column)


def _encode_values(name: str, kind: Known, column: Values, table: Table) -> Codes:
    distinct = np.empty(len(column.distinct), dtype=object)
    codes = np.empty(len(distinct), dtype=np.uint32)
    if isinstance(kind, Number):
        try:
            distinct[:] = [_moment(value) for value in column.distinct]
            kind.encode(name, Column(distinct), codes)
        except (TypeError, ValueError):
            problem = "must hold dates like 2026-01-31 or 2026-01-31T12:00:00"
            raise ValueError(f"{table.path}: column {quote(name)} {problem}") from None
        return codes
    match = Matcher(kind.categories, text=not table.is_parquet)
    distinct[:] = [match(value) for value in column.distinct]
    kind.encode(name, Column(distinct), codes)
    return codes


def split(domain: Domain) -> tuple[list[str], list[str]]:
    """Columns of a domain to read as numbers, and those to read as values."""
    plain = {n for n in domain if isinstance(kind := domain[n], Number) and not kind.temporal}
    return [n for n in domain if n in plain], [n for n in domain if n not in plain]


def read(
    table: Table,
    domain: Domain,
    extra: Mapping[str, Reader],
    progress: Progress | None = None,
) -> tuple[Encoded, dict[str, NDArray[Any]]]:
    """A whole file, encoded; ``extra`` columns go through a function, chunk by chunk.

    Memory: the result, an eighth of it, and one chunk.
    """
    numbers, values = split(domain)
    n = 0
    codes = np.empty((0, len(domain)), dtype=np.uint32)
    others: dict[str, NDArray[Any]] = {}
    for chunk in table.chunks(numbers, [*values, *extra], progress):
        piece = encode(chunk, domain, table)
        _put(codes, n, piece)
        for name, convert in extra.items():
            part = convert(chunk[name])  # type: ignore[arg-type]
            _put(others.setdefault(name, np.empty(0, dtype=part.dtype)), n, part)
        n += len(piece)
    if not n:
        raise ValueError(f"{table.path} has no rows")
    for array in (codes, *others.values()):
        _resize(array, n)
    return Encoded(domain, codes), others


def _put(array: NDArray[Any], n: int, part: NDArray[Any]) -> None:
    """Write after the first n rows, growing the array if needed, but without copying large arrays."""
    end = n + len(part)
    if end > len(array):
        _resize(array, end + end // 8)
    array[n:end] = part


def _resize(array: NDArray[Any], n: int) -> None:
    array.resize((n, *array.shape[1:]), refcheck=False)


def label_reader(target: str, known: list[Any] | None, table: Table) -> Reader:
    """Reads labels: each becomes a known one, or stays unchanged for ``settle_labels``."""
    match = Matcher(known or [], text=not table.is_parquet)

    def convert(column: Values) -> NDArray[Any]:
        meant = np.empty(len(column.distinct), dtype=object)
        meant[:] = [match(value) for value in column.distinct]
        used = [meant[i] for i in np.unique(column.place).tolist()]
        if any(label is None for label in used):
            raise ValueError(f"the target {quote(target)} has missing values; leave those rows out")
        if known is not None and any(label not in match.known for label in used):
            raise ValueError(f"the target {quote(target)} has a label that is not among the classes")
        return np.asarray(meant[column.place])

    return convert


def settle_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels that nobody declared: numbers or booleans if all of them look so, text otherwise."""
    listed = labels.tolist()
    meant = {label: parse_label(label) if isinstance(label, str) else label for label in set(listed)}
    if any(isinstance(label, str) for label in meant.values()):
        meant = {label: str(label) for label in meant}
    return np.array([meant[label] for label in listed])


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
            problem = "has missing values, or values that are no ids; leave those rows out"
            raise ValueError(f"the column of persons, {quote(name)}, {problem}") from None
        number[used] = [seen.setdefault(person, len(seen)) for person in people]
        return number[column.place]

    return convert
