"""Tables in files, chunk by chunk: CSV and Parquet, with the memory of one chunk.

In: a path and which columns are wanted. Out: names, types, and chunks of plain arrays (``reading``
encodes them). Needs pyarrow (extra ``cli``). Errors go to the data holder: they name columns and kinds
of problems, and no value; a line only when ``locate`` asks for it.
"""

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lumberjack.inputs import NULLS
from lumberjack.quoting import quote, quote_all
from lumberjack.values import seconds

__all__ = ["Chunk", "Numbers", "Progress", "Table", "Values", "is_null"]

_BLOCK = 2**19  # bytes of text in a chunk; Arrow reads up to 32 of them ahead
_LONGEST = 2 * _BLOCK  # Arrow reads a row that is in two chunks, but in no more
_TOO_LONG = f"a row is longer than {_BLOCK // 2**10} KiB; is a quote never closed?"
_ROWS = 2**16  # rows in a chunk of Parquet
_DELIMITERS = ";\t|,"  # what often separates fields

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


@dataclass(frozen=True)
class Table:
    """A CSV or Parquet file.

    Attributes
    ----------
    path : Path
    delimiter : str
        What separates the fields of a CSV file.
    locate : bool
        Whether errors may name the line of a bad row: for the data holder only.
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
        for i, name in enumerate(names):  # positions, as names would be data if there is no header
            if (first := place.setdefault(name, i)) < i:
                raise ValueError(f"{self.path}: columns {first + 1} and {i + 1} have the same name")
        return names

    def index(self) -> list[str]:
        """Columns that are the index of a pandas frame, by what pandas wrote into the schema."""
        if not self.is_parquet:
            return []
        try:
            listed = (self._parquet().schema_arrow.pandas_metadata or {})["index_columns"]
        except (ValueError, KeyError, TypeError, RecursionError):  # a file may hold anything there
            return []
        return [name for name in self.names() if isinstance(listed, list) and name in listed]

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

    def read_types(
        self, names: Sequence[str], date_format: str | None = None, progress: Progress | None = None
    ) -> dict[str, str]:
        """What columns hold: by the schema of a Parquet file, or by all rows of a CSV file.

        In a CSV file a column holds numbers if all of it can be read so, or else booleans, or dates of
        the given format, or else text.
        """
        if self.is_parquet:
            return {name: kind for name, kind in self.types().items() if name in names}
        self.check_columns(names)
        tests = {"numeric": _are_numbers, "boolean": _are_booleans}  # in this order
        if date_format is not None:
            tests["datetime"] = partial(_are_dates, date_format)
        possible = {name: dict(tests) for name in names}
        if not names:  # Arrow would read all columns
            return {}
        for batch in self._csv_batches(list(names), [], progress or (lambda _: None)):
            for name, column in zip(names, batch.columns, strict=True):
                present = column.filter(pc.invert(pc.is_in(column, pa.array(NULLS))))
                possible[name] = {k: test for k, test in possible[name].items() if test(present)}
            if not any(possible.values()):
                break
        return {name: next(iter(kinds), "text") for name, kinds in possible.items()}

    def without_rows(self, names: Sequence[str]) -> pa.Table:
        """The schema of some columns of a Parquet file, as a table."""
        return self._parquet().schema_arrow.empty_table().select(list(names))

    def check_columns(self, wanted: Sequence[str]) -> None:
        """Refuse a file that lacks columns."""
        names = self.names()
        missing = [name for name in wanted if name not in names]
        if missing:
            hint = f"; {self.hint}" if self.hint else ""
            raise ValueError(f"{self.path} has no column {quote_all(missing)}{hint}")

    @property
    def hint(self) -> str:
        """What may be wrong with a CSV file of one column; empty if there is nothing to say."""
        names = self.names()
        if len(names) > 1 or self.is_parquet:
            return ""
        found = [mark for mark in _DELIMITERS if mark in names[0]]
        other = f" {found[0]!r} occurs in its name" if found else ""
        return f"it has one column only: is {self.delimiter!r} the right --delimiter?{other}"

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
        if len(self.names()) == 1:
            self._refuse_returns()
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
            problem = _TOO_LONG
        else:
            problem = "it cannot be read as CSV"
        if not self.locate:
            return f"{self.path}: {problem} (--locate names the line)"
        line = self._find_line(numbers)
        return f"{self.path}: {problem}" + (f", line {line}" if line else "")

    def _find_line(self, numbers: Sequence[str]) -> int | None:
        """Line of the first row with a wrong number of fields, or with text instead of a number."""
        with self._rows("") as rows:
            names = next(rows)
            places = [names.index(name) for name in numbers]
            try:
                for row in rows:
                    if row and len(row) != len(names):
                        return int(rows.line_num)
                    if row and any(not _is_number(row[i]) for i in places):
                        return int(rows.line_num)
            except csv.Error:  # a field that is too long, or what no row can hold
                return int(rows.line_num)
        return None

    @contextmanager
    def _rows(self, newline: str) -> Iterator[Any]:
        """Rows as Python's reader finds them, in lines that ``newline`` ends ("": all line breaks)."""
        before = csv.field_size_limit(_LONGEST)  # Python's own limit is lower than Arrow's
        try:
            with self.path.open(newline=newline, encoding="utf-8-sig", errors="replace") as file:
                yield csv.reader(_lines(file), delimiter=self.delimiter)
        finally:
            csv.field_size_limit(before)

    def _refuse_returns(self) -> None:
        """Refuse a single column in which a carriage return ends a row: Arrow would split such rows.

        With more columns the parts of a row have too few fields.
        """
        try:
            with self._rows("\n") as rows:
                for _ in rows:
                    pass
        except csv.Error as error:
            problem = "a row has a carriage return that is neither quoted nor before a newline"
            problem = problem if "new-line" in str(error) else _TOO_LONG
            raise ValueError(f"{self.path}: {problem}") from None

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
            if pa.types.is_timestamp(column.type):
                column = pc.cast(column, _plain(column.type), safe=False)
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            distinct = [*_listed(coded.dictionary), None]
            place = coded.indices.cast(pa.int64()).fill_null(len(distinct) - 1)
            return Values(distinct, place.to_numpy(zero_copy_only=False))


def _listed(values: Any) -> list[Any]:
    """Plain Python values; dates as NumPy's if some are of years that Python does not know."""
    try:
        return list(values.to_pylist())
    except (ValueError, OverflowError):
        if _kind_of(values.type) != "datetime":
            raise
        pa.scalar(0, values.type).as_py()  # raises, too, if there is no such time zone
    days = pa.types.is_date(values.type)  # in microseconds some overflow
    unit = "s" if days else values.type.unit
    return list(pc.cast(values, pa.timestamp(unit)).to_numpy(zero_copy_only=False))


def _lines(file: TextIO) -> Iterator[str]:
    """Lines of bounded length: one that is too long is cut, and is the last."""
    for line in iter(lambda: file.readline(_LONGEST + 1), ""):
        yield line
        if len(line) > _LONGEST:
            raise csv.Error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return is_null(text)
    return True


def is_null(text: str) -> bool:
    """Whether this text means a missing value in a file."""
    return text.strip() in NULLS


def _are_numbers(column: Any) -> bool:
    try:  # like the CSV reader
        pc.cast(pc.ascii_trim(column, " \t"), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _are_booleans(column: Any) -> bool:
    spelt = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    return pc.all(pc.is_in(spelt, pa.array(["true", "false"])), min_count=0).as_py() is True


def _are_dates(date_format: str, column: Any) -> bool:
    try:
        for text in pc.unique(column).to_pylist():
            seconds(text, date_format)
    except ValueError:
        return False
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
    fine = pa.types.is_timestamp(kind) and kind.unit == "ns"  # Python's datetime has no nanoseconds
    return pa.timestamp("us", kind.tz) if fine else kind
