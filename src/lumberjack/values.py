"""One column at a time, whatever library it comes from: numbers, times, or plain Python values.

In: frames and arrays. Out: ``Column`` objects. How one value is read never depends on another.
"""

import datetime as dt
import math
import re
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from lumberjack.quoting import quote, reading

__all__ = [
    "Column",
    "Columns",
    "check_date_format",
    "columns_of",
    "fresh_copy",
    "is_missing",
    "seconds",
]

_EXAMPLE = dt.datetime(2026, 1, 31)
_STEPS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
_LONGEST = 100  # characters of a date format
_INTEGERS = (nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64)


class Column:
    """One column of a frame or an array, read as numbers, as times or as plain Python values."""

    def __init__(self, values: Any) -> None:
        self.values = values  # a narwhals Series or a 1-D ndarray

    def __len__(self) -> int:
        return len(self.values)

    @property
    def _is_array(self) -> bool:
        return isinstance(self.values, np.ndarray)

    @property
    def _is_text_of_pandas(self) -> bool:
        """Whether it is probably a pandas column of text, which pandas can factorize.

        The type of Python objects is guessed from the first rows.
        """
        return (
            not self._is_array
            and self.values.implementation.is_pandas()
            and bool(self.values.dtype == nw.String)
        )

    @property
    def is_numeric(self) -> bool:
        """Whether its type holds numbers or booleans only."""
        if self._is_array:
            return self.values.dtype.kind in "iufb"
        return bool(self.values.dtype.is_numeric() or self.values.dtype == nw.Boolean)

    @property
    def is_boolean(self) -> bool:
        """Whether its type holds booleans only."""
        if self._is_array:
            return bool(self.values.dtype.kind == "b")
        return bool(self.values.dtype == nw.Boolean)

    @property
    def is_object(self) -> bool:
        """Whether its type holds any Python objects, or is one of pandas' own (sparse, for example)."""
        if self._is_array:
            return bool(self.values.dtype.kind == "O")
        return bool(self.values.dtype == nw.Object) or (
            not self.is_typed and bool(self.values.dtype == nw.Unknown)
        )

    @property
    def is_temporal(self) -> bool:
        """Whether its type holds dates only."""
        if self._is_array:
            return bool(self.values.dtype.kind == "M")
        return bool(isinstance(self.values.dtype, nw.Date | nw.Datetime))

    @property
    def is_typed(self) -> bool:
        """Whether its type was declared, not derived from the values as in pandas and NumPy."""
        if self._is_array:
            return False
        return not bool(self.values.implementation.is_pandas_like())

    def items(self) -> list[Any]:
        """Plain Python values; None for missing ones."""
        with reading("X"):
            listed = self.values.tolist() if self._is_array else self.values.to_list()
        return [None if is_missing(value) else value for value in listed]

    def distinct(self) -> tuple[list[Any], NDArray[np.intp]]:
        """Distinct plain values, and each row's place among them; 1, 1.0 and True are distinct."""
        if self._is_array and self.is_numeric:
            values, place = np.unique(self.values, return_inverse=True)
            return Column(values).items(), place
        if self._is_text_of_pandas:
            place, texts = nw.to_native(self.values).factorize(use_na_sentinel=False)
            found = [None if is_missing(text) else text for text in texts.tolist()]
            if all(text is None or isinstance(text, str) for text in found):
                return found, place
        seen: dict[Any, int] = {}
        rows = [seen.setdefault((type(value), value), len(seen)) for value in self.items()]
        return [value for _, value in seen], np.array(rows, dtype=np.intp)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Floats, NaN where missing."""
        try:
            if self.is_numeric and self._is_array:
                with np.errstate(over="ignore", invalid="ignore"):  # no warning about single values
                    return np.asarray(self.values.astype(np.float64))
            if self.is_numeric:
                return _floats(self.values)
            items = self.items()
            if any(isinstance(v, str | bytes) for v in items):
                raise TypeError
            return np.array([math.nan if v is None else float(v) for v in items], dtype=np.float64)
        except OverflowError:
            raise ValueError(f"column {quote(name)} holds a number beyond 1e308") from None
        except (TypeError, ValueError):
            raise TypeError(f"column {quote(name)} must hold numbers, like its domain") from None

    def timestamps(self, name: str, date_format: str | None = None) -> NDArray[np.float64]:
        """Seconds since 1970, NaN where missing; text is read by the format."""
        try:
            if self.is_temporal:  # as integers: Python knows no dates beyond the year 9999
                return self._timestamps()
            items, known = self.items(), dict[str, float]()
            for text in {v for v in items if isinstance(v, str)}:
                known[text] = seconds(text, date_format)
            found = [known[v] if isinstance(v, str) else seconds(v) for v in items]
            return np.array(found, dtype=np.float64)
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            like = _EXAMPLE.strftime(date_format or "%Y-%m-%d")
            raise TypeError(f"column {quote(name)} must hold dates, like {like}") from None

    def _timestamps(self) -> NDArray[np.float64]:
        if self._is_array:
            steps = self.values.astype("datetime64[us]").astype(np.float64)
            return np.where(np.isnat(self.values), math.nan, steps / 1e6)
        days = isinstance(self.values.dtype, nw.Date)  # in microseconds some overflow
        return _floats(self.values.dt.timestamp("ms" if days else "us")) / (1e3 if days else 1e6)


def _floats(values: Any) -> NDArray[np.float64]:
    """A narwhals Series of numbers as floats, NaN where missing; large integers are rounded."""
    if not isinstance(values.dtype, _INTEGERS):
        floats = values.cast(nw.Float64).fill_null(math.nan)
        return np.asarray(floats.to_numpy(), dtype=np.float64)
    absent = np.asarray(values.is_null().to_numpy(), dtype=np.bool_)
    # By NumPy: Arrow refuses to round an integer beyond 2^53, and quotes it.
    out = np.asarray(values.fill_null(0).to_numpy()).astype(np.float64)
    out[absent] = math.nan
    return out


def is_missing(value: Any) -> bool:
    """Whether a plain value is None or one of the many kinds of NaN."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ArithmeticError):  # pandas.NA, Decimal("sNaN")
        return True
    except ValueError:  # an array
        return False


def fresh_copy(value: Any) -> Any:
    """An equal str, bool, int or float: an object of the caller shows which record it came from."""
    if isinstance(value, str):
        return str.encode(value, "utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        size = value.bit_length() // 8 + 1
        return int.from_bytes(value.to_bytes(size, "little", signed=True), "little", signed=True)
    return float.fromhex(value.hex())


def seconds(when: Any, date_format: str | None = None) -> float:
    """Seconds since 1970 (UTC) of a date, a time, or one in text; NaN if it is missing."""
    if is_missing(when):
        return math.nan
    if isinstance(when, np.datetime64):  # of years that Python does not know, mostly
        unit = np.datetime_data(when.dtype)[0]
        if unit in _STEPS:
            # Integers are divided, and rounded once: as Python's own dates are.
            return int(when.astype(np.int64)) / _STEPS[unit]
        when = when.astype("datetime64[us]").item()
    if isinstance(when, str):
        text = when.strip()
        if date_format is None:
            when = dt.datetime.fromisoformat(text)
        else:
            when = dt.datetime.strptime(text, date_format)
    if isinstance(when, dt.date) and not isinstance(when, dt.datetime):
        when = dt.datetime(when.year, when.month, when.day)
    return float((when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp())


def check_date_format(date_format: Any) -> None:
    """Refuse a format that cannot be read."""
    try:
        if not isinstance(date_format, str) or len(date_format) > _LONGEST:
            raise ValueError
        dt.datetime.strptime(_EXAMPLE.strftime(date_format), date_format)
    except (ValueError, re.error):
        problem = f"a date format is like '%d.%m.%Y', got {quote(date_format)}"
        raise ValueError(problem) from None


class Columns(NamedTuple):
    """The columns of a table, and their names if it has any."""

    names: list[str] | None
    columns: list[Column]


def columns_of(X: Any) -> Columns:
    """Columns of a frame, with their names, or of a 2-D array, without."""
    if isinstance(X, Columns):
        return X
    if not isinstance(X, np.ndarray):
        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            kind = type(X).__name__
            raise TypeError(f"X must be a table in memory, got a lazy {kind}; collect it first")
        if isinstance(frame, nw.DataFrame):
            if nw.get_level(frame) != "full":
                kind = type(X).__name__
                raise TypeError(
                    f"X must be a table of pandas, polars or Arrow, or an array; got a {kind}"
                )
            names = list(frame.columns)
            if all(isinstance(name, str) for name in names):
                return Columns(names, _columns_of_frame(frame, names))
    with reading("X"):
        X = np.array(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got a {X.ndim}D array instead. Reshape your data.")
    return Columns(None, [Column(X[:, j]) for j in range(X.shape[1])])


def _columns_of_frame(frame: Any, names: list[str]) -> list[Column]:
    """Columns that pandas keeps in NumPy are read as arrays: narwhals is slow for few rows."""
    if not frame.implementation.is_pandas():
        return [Column(frame[name]) for name in names]
    columns = []
    for name, series in nw.to_native(frame).items():
        plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb"
        columns.append(Column(series.to_numpy() if plain else frame[name]))
    return columns
