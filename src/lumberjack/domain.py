"""What values a column may have, known before any data is seen, and their compact integer codes.

In: a description of the columns, then frames and arrays. Out: a matrix of integer codes, the same
whatever library the data came from. Values outside the domain are clipped (numbers) or
become "other" (categories), in ``fit`` and ``predict`` alike.
"""

import datetime as dt
import json
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from lumberjack.guarantee import warn
from lumberjack.kernels import kernel
from lumberjack.quoting import bare_all, quote, reading

__all__ = [
    "CELLS",
    "MISSING",
    "OTHER",
    "Categorical",
    "Codes",
    "Column",
    "Domain",
    "Encoded",
    "Numeric",
    "columns_of",
    "is_missing",
    "read_off",
]

CELLS = 2**31  # numbers are placed on this many cells of their public range
MISSING = 2**32 - 1
OTHER = 2**32 - 2

_LARGEST = 2**26  # bytes of a domain file
_LOOKUP = 2**16  # entries of a table from values to codes

_INTEGERS = (nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64)

Codes = NDArray[np.uint32]
Category = str | int | float | bool


@dataclass(frozen=True)
class Numeric:
    """Numbers from ``low`` to ``high``; with ``temporal`` they are seconds since 1970 (UTC).

    ``inferred`` says that they were read off the data.
    """

    low: float
    high: float
    temporal: bool = False
    inferred: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.high - self.low) and self.low <= self.high):
            raise ValueError(
                f"a range needs finite bounds, low <= high, got ({self.low:g}, {self.high:g})"
            )

    def encode(self, name: str, values: "Column", out: Codes) -> None:
        """Place numbers on the grid: clipped to the range, missing values kept apart."""
        number = values.timestamps(name) if self.temporal else values.numbers(name)
        _place_on_grid(number, self.low, self.high, out)

    @property
    def size(self) -> int:
        """How many codes there are to split between."""
        return CELLS if self.high > self.low else 1


@dataclass(frozen=True)
class Categorical:
    """A fixed set of categories; with ``missing``, a missing value is a category of its own.

    ``inferred`` says that they were read off the data.
    """

    categories: tuple[Category, ...]
    missing: bool = False
    inferred: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.categories and not self.missing:
            raise ValueError("a categorical column needs at least one category")
        if not all(isinstance(c, str | numbers.Real) and c == c for c in self.categories):
            raise ValueError(
                "categories must be strings, numbers or booleans; missing=True is for missing values"
            )
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("categories must be distinct")

    def encode(self, name: str, values: "Column", out: Codes) -> None:
        """Number the categories; any other value is OTHER."""
        # A missing value is None or NaN, and neither can be a category.
        absent = len(self.categories) if self.missing else OTHER
        lookup = self._lookup if values.is_numeric else None
        if lookup is not None:
            _look_up(values.numbers(name), *lookup, absent, out)
            return
        if values.is_temporal:
            raise TypeError(f"column {quote(name)} holds dates, but its domain is a set of categories")
        table = {category: code for code, category in enumerate(self.categories)}
        try:
            found = values.items()
            codes = [absent if v is None or v != v else table.get(v, OTHER) for v in found]
        except (TypeError, ValueError, ArithmeticError):
            raise TypeError(f"column {quote(name)} holds values that cannot be categories") from None
        out[:] = codes

    @property
    def _lookup(self) -> tuple[int, Codes] | None:
        """Codes by (value - least value), for integer categories that lie close together."""
        numbers_only = [c for c in self.categories if not isinstance(c, str)]
        if not all(abs(c) < 2**53 and float(c).is_integer() for c in numbers_only):
            return None  # beyond 2^53 a float may compare equal to another integer
        values = [int(c) for c in numbers_only]
        least = min(values, default=0)
        if max(values, default=0) - least >= _LOOKUP:
            return None
        table = np.full(max(values, default=0) - least + 1, OTHER, dtype=np.uint32)
        for code, category in enumerate(self.categories):
            if not isinstance(category, str):
                table[int(category) - least] = code
        return least, table

    @property
    def size(self) -> int:
        """How many codes there are to split between."""
        return len(self.categories) + self.missing


@kernel
def _place_on_grid(number: Any, low: Any, high: Any, out: Any) -> None:
    width = high - low if high > low else 1.0
    for i in range(len(number)):
        x = number[i]
        if np.isnan(x):
            out[i] = MISSING
        else:
            out[i] = np.uint32(min((min(max(x, low), high) - low) / width * CELLS, CELLS - 1.0))


@kernel
def _look_up(number: Any, least: Any, table: Any, absent: Any, out: Any) -> None:
    for i in range(len(number)):
        x = number[i]
        if np.isnan(x):
            out[i] = absent
        elif least <= x < least + len(table) and x == np.floor(x):
            out[i] = table[int(x) - least]
        else:
            out[i] = OTHER


Kind = Numeric | Categorical


class Column:
    """One column of a frame or an array, read as numbers, as times or as plain Python values."""

    def __init__(self, values: Any) -> None:
        self.values = values  # a narwhals Series or a 1-D ndarray

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_numeric(self) -> bool:
        """Whether its type holds numbers or booleans only."""
        if isinstance(self.values, np.ndarray):
            return self.values.dtype.kind in "iufb"
        return bool(self.values.dtype.is_numeric() or self.values.dtype == nw.Boolean)

    @property
    def is_temporal(self) -> bool:
        """Whether its type holds dates only."""
        if isinstance(self.values, np.ndarray):
            return bool(self.values.dtype.kind == "M")
        return bool(isinstance(self.values.dtype, nw.Date | nw.Datetime))

    @property
    def is_typed(self) -> bool:
        """Whether its type was declared, not derived from the values as in pandas and NumPy."""
        if isinstance(self.values, np.ndarray):
            return False
        return not bool(self.values.implementation.is_pandas_like())

    def items(self) -> list[Any]:
        """Plain Python values; None where the library marks a missing one."""
        if isinstance(self.values, np.ndarray):
            return list(self.values.tolist())
        with reading("X"):
            values = list(self.values.to_list())
            try:
                absent = self.values.is_null().to_list()
            except ArithmeticError:  # pandas cannot look at Decimal("sNaN")
                absent = [is_missing(v) for v in values]
        return [None if a else v for v, a in zip(values, absent, strict=True)]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Floats, NaN where missing."""
        try:
            if self.is_numeric and isinstance(self.values, np.ndarray):
                return self.values.astype(np.float64)
            if self.is_numeric:
                return _floats(self.values)
            items = self.items()
            if any(isinstance(v, str | bytes) for v in items):
                raise TypeError
            return np.array([math.nan if is_missing(v) else float(v) for v in items], dtype=np.float64)
        except OverflowError:
            raise ValueError(f"column {quote(name)} holds a number beyond 1e308") from None
        except (TypeError, ValueError):
            raise TypeError(f"column {quote(name)} must hold numbers: its domain is a range") from None

    def timestamps(self, name: str) -> NDArray[np.float64]:
        """Seconds since 1970, NaN where missing."""
        try:
            if self.is_temporal:  # as integers: Python knows no dates beyond the year 9999
                return self._timestamps()
            return np.array([_seconds(v) for v in self.items()], dtype=np.float64)
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            raise TypeError(f"column {quote(name)} must hold dates, like its domain") from None

    def _timestamps(self) -> NDArray[np.float64]:
        if isinstance(self.values, np.ndarray):
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


def _seconds(when: Any) -> float:
    if is_missing(when):
        return math.nan
    if isinstance(when, dt.date) and not isinstance(when, dt.datetime):
        when = dt.datetime(when.year, when.month, when.day)
    return float((when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp())


def columns_of(X: Any) -> tuple[list[str] | None, list[Column]]:
    """Columns of a frame, with their names, or of a 2-D array, without."""
    if isinstance(X, Encoded):
        return X.columns, [Column(X.codes[:, j]) for j in range(len(X.columns))]
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"X must be a table in memory, got a lazy {type(X).__name__}; collect it first")
    if isinstance(frame, nw.DataFrame):
        if nw.get_level(frame) != "full":
            kind = type(X).__name__
            raise TypeError(f"X must be a table of pandas, polars or Arrow, or an array; got a {kind}")
        names = list(frame.columns)
        if all(isinstance(name, str) for name in names):
            return names, [Column(frame[name]) for name in names]
    with reading("X"):
        X = np.array(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got a {X.ndim}D array instead. Reshape your data.")
    return None, [Column(X[:, j]) for j in range(X.shape[1])]


class Domain:
    """The public domain of a table: for each column a range or a set of categories.

    Parameters
    ----------
    columns : mapping of str to column
        A tuple (low, high) is a range, of numbers or of dates. A list is a set of categories. A
        list of just two numbers is ambiguous: use ``Domain.numeric`` or ``Domain.categorical``.

    Examples
    --------
    >>> from lumberjack import Domain
    >>> Domain({"age": (17, 90), "sex": ["Male", "Female"]})
    Domain({'age': Numeric(low=17.0, high=90.0, temporal=False), \
'sex': Categorical(categories=('Male', 'Female'), missing=False)})
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise ValueError("a domain needs a mapping with at least one column")
        self._columns = {_check_name(name): _kind(name, given) for name, given in columns.items()}

    @staticmethod
    def numeric(low: Any, high: Any) -> Numeric:
        """A range of numbers, or of dates.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain.numeric(0, 300)
        Numeric(low=0.0, high=300.0, temporal=False)
        """
        if isinstance(low, dt.date) and isinstance(high, dt.date):
            return Numeric(_seconds(low), _seconds(high), temporal=True)
        if not all(isinstance(v, numbers.Real) and not isinstance(v, bool) for v in (low, high)):
            raise TypeError(
                f"a range needs two numbers or two dates, got {quote(low)} and {quote(high)}"
            )
        return Numeric(_bound(low), _bound(high))

    @staticmethod
    def categorical(categories: Sequence[Category], *, missing: bool = False) -> Categorical:
        """A set of categories; ``missing=True`` makes a missing value a category of its own.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain.categorical(["no", "yes"], missing=True)
        Categorical(categories=('no', 'yes'), missing=True)
        """
        return Categorical(tuple(categories), missing)

    @classmethod
    def infer(cls, X: Any) -> "Domain":
        """Read ranges and categories off the data. Convenient but not private: it warns.

        Examples
        --------
        >>> import warnings
        >>> from lumberjack import Domain
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     domain = Domain.infer([[1.0], [5.0]])
        >>> domain["x0"], domain.inferred
        (Numeric(low=1.0, high=5.0, temporal=False), True)
        """
        warn("the domain is inferred from the data: ranges and categories of the model are not private")
        return read_off(X)

    @property
    def inferred(self) -> bool:
        """Whether any column was read off the data; models trained with it say so."""
        return any(kind.inferred for kind in self.kinds)

    @property
    def names(self) -> list[str]:
        """Column names, in order."""
        return list(self._columns)

    @property
    def kinds(self) -> list[Kind]:
        """What each column is, in order."""
        return list(self._columns.values())

    def __getitem__(self, name: str) -> Kind:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and list(self._columns.items()) == list(other._columns.items())

    def __hash__(self) -> int:
        return hash(tuple(self._columns.items()))

    def __repr__(self) -> str:
        return f"Domain({self._columns})"

    def encode(self, X: Any) -> Codes:
        """Codes of a frame (columns by name, in any order) or of an array (by position).

        Returns
        -------
        ndarray of uint32, shape (n_rows, n_columns)
            Numbers as cells of their range, categories by position, MISSING and OTHER apart.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> domain = Domain({"age": (0, 100), "ward": ["A", "B"]})
        >>> import numpy as np
        >>> domain.encode(np.array([[50, "B"], [999, "A"]], dtype=object))
        array([[1073741824,          1],
               [2147483647,          0]], dtype=uint32)
        """
        if isinstance(X, Encoded):
            if X.domain != self:
                raise ValueError("X was encoded with another domain")
            _check_rows(len(X.codes))
            return X.codes
        names, columns = columns_of(X)
        if names is None:
            if len(columns) != len(self):
                raise ValueError(f"X has {len(columns)} columns, but the domain has {len(self)}")
            chosen = columns
        else:
            missing, surplus = sorted(set(self) - set(names)), sorted(set(names) - set(self))
            if missing:
                raise ValueError(f"X lacks columns of the domain: {bare_all(missing)}")
            if surplus:
                raise ValueError(f"X has columns outside the domain: {bare_all(surplus)}; drop them")
            by_name = dict(zip(names, columns, strict=True))
            chosen = [by_name[name] for name in self]
        _check_rows(len(chosen[0]))
        codes = np.empty((len(chosen[0]), len(chosen)), dtype=np.uint32)
        for j, (name, column) in enumerate(zip(self.names, chosen, strict=True)):
            self[name].encode(name, column, codes[:, j])
        return codes

    def to_json(self, path: str | Path) -> None:
        """Write the domain as typed JSON.

        Examples
        --------
        >>> import os, tempfile
        >>> from lumberjack import Domain
        >>> domain = Domain({"age": (0, 100)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     domain.to_json(os.path.join(folder, "domain.json"))
        ...     Domain.from_json(os.path.join(folder, "domain.json")) == domain
        True
        """
        Path(path).write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def from_json(cls, path: str | Path) -> "Domain":
        """Read what ``to_json`` wrote.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain.from_json("no such file")
        Traceback (most recent call last):
            ...
        FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
        """
        try:
            with Path(path).open("rb") as file:  # which may be a device without end
                text = file.read(_LARGEST + 1)
            if len(text) > _LARGEST:
                raise ValueError(f"not a domain: larger than {_LARGEST // 2**20} MiB")
            return cls.from_dict(json.loads(text.decode("utf-8")))
        except json.JSONDecodeError as error:
            raise ValueError(f"not a domain: invalid JSON at line {error.lineno}") from None
        except (UnicodeDecodeError, RecursionError):
            raise ValueError("not a domain: not a JSON file") from None

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain, typed data.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain({"age": (0, 100)}).to_dict()["columns"]
        [{'name': 'age', 'type': 'numeric', 'low': 0.0, 'high': 100.0}]
        """
        columns: list[dict[str, Any]] = []
        for name, kind in self._columns.items():
            if isinstance(kind, Numeric):
                bounds = {"low": kind.low, "high": kind.high}
                columns.append(
                    {"name": name, "type": "datetime" if kind.temporal else "numeric", **bounds}
                )
            else:
                plain = {"categories": list(kind.categories), "missing": kind.missing}
                columns.append({"name": name, "type": "categorical", **plain})
        marked = {"inferred": True} if self.inferred else {}
        return {"format": "lumberjack-domain", "version": 1, **marked, "columns": columns}

    @classmethod
    def from_dict(cls, found: Any) -> "Domain":
        """Read what ``to_dict`` gave.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> domain = Domain({"age": (0, 100), "ward": ["A", "B"]})
        >>> Domain.from_dict(domain.to_dict()) == domain
        True
        """
        try:
            if found["format"] != "lumberjack-domain" or found["version"] != 1:
                raise ValueError("not a domain: unknown format or version")
            columns: dict[str, Kind] = {}
            for column in found["columns"]:
                kind = _read_kind(column)
                if columns.setdefault(column["name"], kind) is not kind:
                    raise ValueError(f"not a domain: column {quote(column['name'])} occurs twice")
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a domain: {error}") from None
        if found.get("inferred", False) is True:  # which of them is not said
            columns = {name: replace(kind, inferred=True) for name, kind in columns.items()}
        return cls(columns)


def _read_kind(column: Mapping[str, Any]) -> Kind:
    """One column as ``to_dict`` describes it, or as somebody has filled in a template."""
    name, kind = column["name"], column["type"]
    if kind == "categorical":
        if not isinstance(column["categories"], list):
            raise ValueError(f"not a domain: column {quote(name)} needs a list of categories")
        return Categorical(tuple(column["categories"]), column.get("missing", False) is True)
    if kind not in ("numeric", "datetime"):
        raise ValueError(
            f"not a domain: column {quote(name)} needs a type (numeric, datetime or categorical), "
            f"not {quote(kind)}; fill it in"
        )
    low, high = column["low"], column["high"]
    if kind == "datetime" and isinstance(low, str) and isinstance(high, str):
        try:
            low, high = (_seconds(dt.datetime.fromisoformat(v)) for v in (low, high))
        except ValueError:
            problem = f"not a domain: column {quote(name)} needs dates like 2026-01-31"
            raise ValueError(problem) from None
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high)):
        raise ValueError(f"not a domain: column {quote(name)} needs numbers as low and high")
    return Numeric(_bound(low), _bound(high), kind == "datetime")


@dataclass(frozen=True)
class Encoded:
    """An encoded table, for example one read chunk by chunk; accepted wherever a frame is.

    Attributes
    ----------
    domain : Domain
    codes : ndarray of uint32, shape (n_rows, n_columns)
        What ``domain.encode`` gave.
    """

    domain: Domain
    codes: Codes

    @property
    def columns(self) -> list[str]:
        """Column names, as frames have them."""
        return self.domain.names


def _check_rows(n: int) -> None:
    """Row ids are int32 and unchecked in kernels."""
    if n >= 2**31:
        raise ValueError("X must have fewer than 2^31 rows: train on a sample, predict part by part")


def _bound(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"a range needs bounds below 1e308, got {quote(value)}") from None


def _check_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"column names must be strings, got {quote(name)}")
    return name


def _kind(name: str, given: Any) -> Kind:
    if isinstance(given, Numeric | Categorical):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return Domain.numeric(*given)
    if isinstance(given, list):
        if len(given) == 2 and all(
            isinstance(v, numbers.Real) and not isinstance(v, bool) for v in given
        ):
            raise ValueError(
                f"column {quote(name)}: a list of two numbers could be a range or two categories; "
                "say Domain.numeric(low, high) or Domain.categorical([...])"
            )
        return Domain.categorical(given)
    raise TypeError(
        f"column {quote(name)} must be a (low, high) tuple or a list of categories, got {quote(given)}"
    )


def read_off(X: Any) -> Domain:
    """The domain of the data; what declared types do not determine is marked as inferred."""
    if isinstance(X, Encoded):
        return X.domain
    names, columns = columns_of(X)
    names = names or [f"x{j}" for j in range(len(columns))]
    found = {}
    for name, column in zip(names, columns, strict=True):
        kind = _declared_kind(column)
        found[name] = replace(_infer_kind(name, column), inferred=True) if kind is None else kind
    return Domain(found)


def _declared_kind(column: Column) -> Kind | None:
    """A column's kind if its declared type determines it (booleans, Enum)."""
    values = column.values
    if column.is_typed and values.dtype == nw.Boolean:
        # Whether a value is missing is up to the data: always allow it.
        return Categorical((False, True), missing=True)
    if column.is_typed and isinstance(values.dtype, nw.Enum):
        return Categorical(tuple(values.cat.get_categories().to_list()))
    return None


def _infer_kind(name: str, column: Column) -> Kind:
    """A column's kind as its values suggest."""
    if column.is_temporal:
        return _infer_range(column.timestamps(name), temporal=True)
    items = column.items()
    present = [v for v in items if not is_missing(v)]
    if present and all(isinstance(v, bool | np.bool_) for v in present):
        return Categorical((False, True), missing=True)
    if present and all(isinstance(v, dt.date) for v in present):
        return _infer_range(column.timestamps(name), temporal=True)
    # A category dtype keeps what it saw in the data, so it is as private as the values are.
    coded = not isinstance(column.values, np.ndarray) and column.values.dtype == nw.Categorical
    if not coded and all(isinstance(v, numbers.Real) for v in present):
        return _infer_range(column.numbers(name))
    try:
        seen = sorted(set(present), key=lambda v: (isinstance(v, str), v))
    except TypeError:
        raise TypeError(f"column {quote(name)} holds values of kinds that do not go together") from None
    return Categorical(tuple(seen), len(present) < len(items))


def _infer_range(found: NDArray[np.float64], temporal: bool = False) -> Numeric:
    finite = found[np.isfinite(found)].tolist()
    return Numeric(min(finite, default=0.0), max(finite, default=0.0), temporal)
