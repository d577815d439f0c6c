"""What is known about the columns of a table, and the integer codes of its values.

In: a description of the columns, then frames and arrays. Out: a matrix of integer codes, the same
whatever library the data came from. What is known was declared, or learned by ``fit``; the rest is open.
Values outside the domain are clipped (numbers) or become "other" (categories), in ``fit`` and
``predict`` alike.
"""

import datetime as dt
import json
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from lumberjack.checking import Check
from lumberjack.declared import (
    HEAD,
    describe,
    load_codebook,
    load_json,
    mark,
    range_of,
    read_declared,
)
from lumberjack.guarantee import warn
from lumberjack.kinds import (
    Categorical,
    Category,
    Codes,
    Kind,
    Known,
    Numeric,
    Open,
    code_type,
    compact,
    list_values,
)
from lumberjack.quoting import bare_all, quote
from lumberjack.values import Column, columns_of, seconds

__all__ = ["Domain", "Encoded", "complete", "names_of", "read_off"]


class Domain:
    """What is public about the columns of a table: kinds, and where known, ranges and categories.

    Columns that are not mentioned are left open: ``fit`` takes their kinds from the table, and learns
    cuts and categories privately. After that the model's ``domain_`` holds what was learned.

    Parameters
    ----------
    columns : mapping of str to column
        A tuple (low, high) is a range, of numbers or of dates. A list is a set of categories. A
        list of just two numbers is ambiguous: use ``Domain.numeric`` or ``Domain.categorical``. Without
        arguments these two declare the kind of a column, and leave its values to be learned.

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
    def numeric(
        low: Any = None, high: Any = None, *, temporal: bool = False, date_format: str | None = None
    ) -> Numeric:
        """A range of numbers, or of dates; without bounds any number (or date) is allowed.

        ``date_format`` says how text is read as dates, as in ``datetime.strptime``; by default as in
        2026-01-31 or 2026-01-31T12:00:00.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain.numeric(0, 300)
        Numeric(low=0.0, high=300.0, temporal=False)
        >>> Domain.numeric()
        Numeric(low=-inf, high=inf, temporal=False)
        >>> born = Domain.numeric("01.01.1900", "31.12.2026", date_format="%d.%m.%Y")
        >>> born == Domain.numeric("01.01.1900", "31.12.2026", date_format="%d.%m.%Y")
        True
        """
        temporal = temporal or date_format is not None
        if low is None and high is None:
            return Numeric(temporal=temporal, date_format=date_format)
        when = (dt.date, str) if temporal else dt.date
        if isinstance(low, when) and isinstance(high, when):
            return range_of(seconds(low, date_format), seconds(high, date_format), True, date_format)
        if not all(isinstance(v, numbers.Real) and not isinstance(v, bool) for v in (low, high)):
            raise TypeError(
                f"a range needs two numbers or two dates, got {quote(low)} and {quote(high)}"
            )
        return range_of(low, high)

    @staticmethod
    def categorical(
        categories: Sequence[Category] | None = None, *, missing: bool = False
    ) -> Categorical | Open:
        """A set of categories; ``missing=True`` makes a missing value a category of its own.

        Without categories, the frequent ones are learned privately.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain.categorical(["no", "yes"], missing=True)
        Categorical(categories=('no', 'yes'), missing=True)
        """
        return Open() if categories is None else Categorical(tuple(categories), missing)

    @classmethod
    def infer(cls, X: Any) -> "Domain":
        """Read ranges and categories off the data, without privacy: a warning and a caveat say so.

        There is rarely a reason for it, as ``fit`` learns privately what is not declared.

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
            Places or intervals of numbers, positions of categories, MISSING or OTHER (``kinds``).

        Examples
        --------
        >>> from lumberjack import Domain
        >>> domain = Domain({"age": (0, 100), "ward": ["A", "B"]})
        >>> import numpy as np
        >>> domain.encode(np.array([[50, "B"], [999, "A"]], dtype=object))
        array([[1073741824,          1],
               [2147483647,          0]], dtype=uint32)
        """
        encoded = self.read(X)
        if encoded.labels:
            raise ValueError("categories of some columns are open; declare them, or let fit learn them")
        return encoded.codes

    def compact(self, X: Any) -> Codes:
        """The same codes in as few bits as their columns need: what kernels read.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain({"ward": ["A", "B"]}).compact([["B"], ["A"]]).dtype
        dtype('uint8')
        """
        kinds = self.known
        if isinstance(X, Encoded):
            return compact(self.read(X).codes, code_type(kinds))
        columns = self._match(X)
        codes = np.empty((len(columns[0]), len(self)), dtype=code_type(kinds))
        buffer = np.empty(len(columns[0]), dtype=np.uint32)
        for j, (name, kind) in enumerate(zip(self, kinds, strict=True)):
            kind.encode(name, columns[j], buffer)
            codes[:, j] = compact(buffer, codes.dtype)
        return codes

    def read(self, X: Any) -> "Encoded":
        """Codes of 32 bits, with the values of open columns listed: what ``fit`` starts from.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain({"ward": Domain.categorical()}).read([["B"], ["A"]]).labels
        {'ward': ('A', 'B')}
        """
        if isinstance(X, Encoded):
            self._check_encoded(X)
            return X
        columns = self._match(X)
        codes = np.empty((len(columns[0]), len(self)), dtype=np.uint32)
        labels: dict[str, tuple[Category, ...]] = {}
        for j, (name, kind) in enumerate(zip(self, self.kinds, strict=True)):
            if isinstance(kind, Open):
                labels[name] = list_values(name, columns[j], codes[:, j])
            else:
                kind.encode(name, columns[j], codes[:, j])
        return Encoded(self, codes, labels)

    def check(self, X: Any) -> Check:
        """How well a table fits: for each column, the shares of values outside and missing.

        For the data holder's eyes only: the shares are exact and private. Columns of the table that the
        domain does not declare are left out.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> import pandas as pd
        >>> wards = pd.DataFrame({"ward": ["A", "B", "?", None]})
        >>> Domain({"ward": ["A", "B"]}).check(wards).shares["ward"]
        Share(outside=0.25, missing=0.25)
        """
        check = Check()
        for name, kind, column in zip(self, self.kinds, self._match(X, surplus=True), strict=True):
            check.add(name, kind, column)
        return check

    def to_learn(self, guided: bool) -> tuple[int, int]:
        """How many columns of numbers need cuts, and how many columns need categories.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain({"age": (0, 100), "ward": Domain.categorical()}).to_learn(guided=True)
        (1, 1)
        """
        numeric = [kind for kind in self.kinds if isinstance(kind, Numeric)]
        return sum(n.is_to_cut(guided) for n in numeric), sum(isinstance(k, Open) for k in self.kinds)

    @property
    def known(self) -> list[Known]:
        """What each column is, in order; refuses a domain with open columns."""
        known = [kind for kind in self.kinds if not isinstance(kind, Open)]
        if len(known) < len(self):
            raise ValueError("categories of some columns are open; declare them, or let fit learn them")
        return known

    def _check_encoded(self, X: "Encoded") -> None:
        if X.domain != self:
            raise ValueError("X was encoded with another domain")
        _check_rows(len(X.codes))

    def _match(self, X: Any, *, surplus: bool = False) -> list[Column]:
        """Columns of a table in the order of the domain; with ``surplus``, it may have others."""
        names, columns = columns_of(X)
        if names is None:
            if len(columns) != len(self):
                raise ValueError(f"X has {len(columns)} columns, but the domain has {len(self)}")
        else:
            missing, others = sorted(set(self) - set(names)), sorted(set(names) - set(self))
            if missing:
                raise ValueError(f"X lacks columns of the domain: {bare_all(missing)}")
            if others and not surplus:
                raise ValueError(f"X has columns outside the domain: {bare_all(others)}; drop them")
            by_name = dict(zip(names, columns, strict=True))
            columns = [by_name[name] for name in self]
        _check_rows(len(columns[0]))
        return columns

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
    def from_json(cls, path: str | Path, names: Sequence[str] | None = None) -> "Domain":
        """Read a domain file, written by ``to_json`` or by hand.

        ``names`` are the columns of the table, for a file with patterns of names.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain.from_json("no such file")
        Traceback (most recent call last):
            ...
        FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
        """
        return cls.from_dict(load_json(path), names)

    @classmethod
    def from_codebook(cls, path: str | Path, names: Sequence[str] | None = None) -> "Domain":
        r"""Read a code book: CSV with the headings column, kind, low, high, values and format.

        ``names`` are the columns of the table, for a code book with patterns like ``*-dose``.

        Examples
        --------
        >>> import os, tempfile
        >>> from lumberjack import Domain
        >>> text = "column,kind,low,high,values\nage,number,0,120,\nward,category,,,A|B|C\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "codes.csv")
        ...     _ = open(path, "w").write(text)
        ...     Domain.from_codebook(path)["ward"]
        Categorical(categories=('A', 'B', 'C'), missing=True)
        """
        return cls.from_dict({**HEAD, **load_codebook(path)}, names)

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain, typed data.

        Examples
        --------
        >>> from lumberjack import Domain
        >>> Domain({"age": (0, 100)}).to_dict()["columns"]
        [{'name': 'age', 'type': 'numeric', 'low': 0.0, 'high': 100.0}]
        """
        columns = [{"name": name, **describe(kind)} for name, kind in self._columns.items()]
        marked = {"inferred": True} if self.inferred else {}
        version = 1 if all(_in_version_1(kind) for kind in self.kinds) else 2
        return {**HEAD, "version": version, **marked, "columns": columns}

    @classmethod
    def from_dict(cls, found: Any, names: Sequence[str] | None = None) -> "Domain":
        """Read what ``to_dict`` gave, or what is in a file (``from_json``).

        Examples
        --------
        >>> from lumberjack import Domain
        >>> domain = Domain({"age": (0, 100), "ward": ["A", "B"]})
        >>> Domain.from_dict(domain.to_dict()) == domain
        True
        """
        return cls(read_declared(found, names).kinds)


def _in_version_1(kind: Kind) -> bool:
    plain = isinstance(kind, Numeric) and kind.is_bounded and kind.date_format is None
    return plain or (isinstance(kind, Categorical) and not kind.learned)


@dataclass(frozen=True)
class Encoded:
    """An encoded table, for example one read chunk by chunk; accepted wherever a frame is.

    Attributes
    ----------
    domain : Domain
    codes : ndarray of uint32, shape (n_rows, n_columns)
        Of 32 bits, as ``Domain.read`` gives them.
    labels : dict of str to tuple
        The values that the codes of an open column stand for.
    """

    domain: Domain
    codes: NDArray[np.uint32]
    labels: Mapping[str, tuple[Category, ...]] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Column names, as frames have them."""
        return self.domain.names


def names_of(X: Any) -> list[str] | None:
    """Column names of a table; None if it has none."""
    return X.columns if isinstance(X, Encoded) else columns_of(X).names


def complete(domain: Domain | None, X: Any) -> Domain:
    """Add to a domain the columns of a table that it does not declare, with their kinds as read.

    Typed tables declare kinds. In pandas and NumPy the type of a column follows from its values, and a
    column of Python objects holds numbers, dates or categories, depending on them. Kinds of columns are
    assumed to be public.
    """
    if isinstance(X, Encoded):
        return X.domain
    names, columns = columns_of(X)
    if names is None:
        names = [f"x{j}" for j in range(len(columns))] if domain is None else domain.names
    known = {} if domain is None else dict(zip(domain, domain.kinds, strict=True))
    found = zip(names, columns, strict=False)
    return Domain({**known, **{n: _kind_as_read(c) for n, c in found if n not in known}})


def _kind_as_read(column: Column) -> Kind:
    declared = _declared_kind(column)
    if declared is not None:
        return declared
    if column.is_temporal:
        return Numeric(temporal=True)
    if column.is_numeric:
        return Open() if column.is_boolean else Numeric()
    if not column.is_object:
        return Open()
    types = {type(v) for v in column.items() if v is not None}
    if types and all(issubclass(t, dt.date) for t in types):
        return Numeric(temporal=True)
    plain = all(issubclass(t, numbers.Real | Decimal) and not issubclass(t, bool) for t in types)
    return Numeric() if types and plain else Open()


def _check_rows(n: int) -> None:
    """Row ids are int32 and unchecked in kernels."""
    if n >= 2**31:
        raise ValueError("X must have fewer than 2^31 rows: train on a sample, predict part by part")


def _check_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"column names must be strings, got {quote(name)}")
    return name


def _kind(name: str, given: Any) -> Kind:
    if isinstance(given, Kind):
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
    """The domain of the data; whatever the types do not determine is marked as inferred."""
    if isinstance(X, Encoded):
        return X.domain
    names, columns = columns_of(X)
    names = names or [f"x{j}" for j in range(len(columns))]
    found = {}
    for name, column in zip(names, columns, strict=True):
        kind = _declared_kind(column)
        found[name] = mark(_infer_kind(name, column)) if kind is None else kind
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
    """A column's kind, guessed from its values."""
    if column.is_temporal:
        return _infer_range(column.timestamps(name), temporal=True)
    items = column.items()
    present = [v for v in items if v is not None]
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
        raise TypeError(f"column {quote(name)} mixes kinds of values that have no order") from None
    return Categorical(tuple(seen), len(present) < len(items))


def _infer_range(found: NDArray[np.float64], temporal: bool = False) -> Numeric:
    finite = found[np.isfinite(found)].tolist()
    return Numeric(min(finite, default=0.0), max(finite, default=0.0), temporal)
