"""What an estimator is given: tables, targets, labels and persons, checked and read row by row.

In: whatever the caller passes. Out: plain arrays. How one row is read never depends on another, and
errors name the kind of the problem, never a value, a row or a count.
"""

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import column_or_1d

from lumberjack.accounting.checks import check_real
from lumberjack.domain import Domain, Encoded
from lumberjack.kinds import MISSING, OTHER, Category, list_values
from lumberjack.noise import Bits, Purpose, mix_keys
from lumberjack.paths import hash_label
from lumberjack.quoting import bare, bare_all, quote, quote_all, reading
from lumberjack.values import Column, Columns, columns_of, is_missing

__all__ = [
    "NULLS",
    "as_domain",
    "check_bounds",
    "check_class_weight",
    "check_classes",
    "check_feature_weights",
    "check_lengths",
    "check_names",
    "check_weights",
    "content",
    "encode_labels",
    "encode_rows",
    "feature_weights",
    "limit_rows",
    "list_labels",
    "read_numbers",
    "read_people",
    "read_table",
    "read_target",
    "refuse_unknown",
    "split_target",
    "unknown_classes",
]

# How files and other programs spell a missing value.
NULLS = [
    "", "NA", "N/A", "#N/A", "NaN", "nan", "n/a", "NULL", "null", "None", "<NA>", "NaT", "<null>",
]  # fmt: skip


def read_table(X: Any) -> Columns | Encoded:
    """Columns of a frame, or of a 2-D array, each value read independently.

    Formal guarantees
    -----------------
    How one row is read depends on no other row: a list becomes an array of Python objects, so that
    a stray value in one row cannot turn the numbers of all the others into text.
    """
    if isinstance(X, Encoded):
        return X
    if isinstance(X, np.ma.MaskedArray):
        X, mask = X.data.astype(object), np.ma.getmaskarray(X)
        X[mask] = None
    found = columns_of(X) if hasattr(X, "columns") or hasattr(X, "column_names") else None
    if issparse(X):
        raise TypeError("Sparse data was passed for X, but dense data is required. Use X.toarray().")
    if found is None or found.names is None:
        found = columns_of(_read_array(X))
    if not found.columns:
        # scikit-learn's words, without the number of rows
        raise ValueError("X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required.")
    return found


def _read_array(X: Any) -> NDArray[Any]:
    """A 2-D array; a list becomes one of Python objects, whose rows are read one by one."""
    if not isinstance(X, list | tuple) and not hasattr(X, "__array__"):
        raise TypeError(f"X must be a data frame or a 2-D array, got {type(X).__name__}")
    if isinstance(X, list | tuple):
        try:
            array = np.array(X, dtype=object)
        except (TypeError, ValueError):
            raise ValueError("X must be a table: its rows have different lengths") from None
    else:
        with reading("X"):
            array = np.asarray(X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if array.ndim != 2:
        raise ValueError(f"Expected 2D array, got a {array.ndim}D array instead. Reshape your data.")
    return array


def as_domain(given: Domain | Mapping[str, Any]) -> Domain:
    """A domain, or one made from a dict."""
    return given if isinstance(given, Domain) else Domain(given)


def encode_rows(domain: Domain, X: Any) -> Encoded:
    """Codes of a table, of 32 bits; refuses a table without rows."""
    encoded = domain.read(X)
    if not len(encoded.codes):
        raise ValueError("X must have at least one row")
    return encoded


def split_target(X: Any, y: Any) -> tuple[Any, Any]:
    """A table and its target; ``y`` may be the name of a column of a frame."""
    if not isinstance(y, str):
        return X, y
    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError("y is a string, the name of a column, but X is not a data frame; pass an array")
    if y not in frame.columns:
        names = bare_all(map(str, frame.columns))
        raise ValueError(f"y names no column of X, whose columns are {names}")
    return nw.to_native(frame.drop(y)), nw.to_native(frame[y])


def check_weights(name: str, given: Any) -> NDArray[np.float64]:
    """Weights of columns or classes: not all 0, and within the resolution of floats."""
    try:
        weights = np.asarray(list(given), dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must hold numbers, got {quote(given)}") from None
    if weights.ndim != 1 or not np.all(np.isfinite(weights) & (weights >= 0)):
        raise ValueError(f"{name} must hold numbers of at least 0, got {quote(given)}")
    if not weights.any():
        raise ValueError(f"{name} must not all be 0")
    if weights.max() > 1e100 or weights[weights > 0].min() < weights.max() * 1e-12:
        raise ValueError(f"{name} must be 0 or at least 1e-12 of the largest, which is at most 1e100")
    return weights


def check_feature_weights(given: Any) -> None:
    """Weights of columns: None, one number for each, or a dict by name (1 for columns not named)."""
    if given is not None:
        check_weights("feature_weights", [1.0, *given.values()] if isinstance(given, Mapping) else given)


def feature_weights(given: Any, domain: Domain) -> NDArray[np.float64] | None:
    """The weight of each column of a domain; columns that a dict does not name have weight 1."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(domain))
        if unknown:
            raise ValueError(f"feature_weights names columns outside the domain: {quote_all(unknown)}")
        given = [given.get(name, 1.0) for name in domain]
    weights = check_weights("feature_weights", given)
    if len(weights) != len(domain):
        raise ValueError("feature_weights must hold one number for each column")
    return weights


def check_class_weight(given: Any) -> None:
    """Weights of classes: None, "balanced", or a number of at least 0 for each."""
    if given is None or (isinstance(given, str) and given == "balanced"):
        return
    if not isinstance(given, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {quote(given)}")
    if given:
        check_weights("class_weight", given.values())


def unknown_classes(given: Any, classes: list[Any]) -> str:
    """Labels of ``class_weight`` that are not classes, in words; empty if there are none."""
    weights = given if isinstance(given, Mapping) else {}
    if weights and not any(weights.get(label, 1.0) for label in classes):
        raise ValueError("class_weight must not be 0 for all classes")
    unknown = [label for label in weights if label not in classes]
    return f"class_weight names labels that are not in classes: {quote(unknown)}" if unknown else ""


def check_names(names: list[str], fitted: list[str]) -> None:
    """Refuse columns that are not those of ``fit``, in the words that scikit-learn uses."""
    missing, surplus = sorted(set(fitted) - set(names)), sorted(set(names) - set(fitted))
    if missing or surplus:
        message = "The feature names should match those that were passed during fit.\n"
        if surplus:
            message += "Feature names unseen at fit time:\n" + _some_names(surplus)
        if missing:
            message += "Feature names seen at fit time, yet now missing:\n"
            message += _some_names(missing)
        raise ValueError(message)


def _some_names(names: list[str]) -> str:
    rest = ["..."] if len(names) > 10 else []
    return "".join(f"- {text}\n" for text in [*map(bare, names[:10]), *rest])


def refuse_unknown(fit_params: dict[str, Any]) -> None:
    """Refuse extra arguments of ``fit``; for ``sample_weight``, explain why."""
    if "sample_weight" in fit_params:
        raise TypeError(
            "sample_weight is not supported: a row that counts twice would need twice the noise; "
            "use class_weight, or repeat rows and set rows_per_person"
        )
    if fit_params:
        raise TypeError(f"fit got unexpected arguments: {', '.join(sorted(fit_params))}")


def check_lengths(n: int, **others: Any) -> None:
    """Refuse targets or ids that do not have one value for each row."""
    for name, values in others.items():
        if len(values) != n:
            raise ValueError(f"X and {name} have different numbers of rows")


def read_people(person_ids: Any) -> list[Any]:
    """Ids as plain values, read independently; a missing id is refused, as it protects nobody."""
    if isinstance(person_ids, str | bytes | Mapping) or not hasattr(person_ids, "__len__"):
        raise TypeError(
            f"person_ids must hold one id for each row, got a single {type(person_ids).__name__}"
        )
    listed = getattr(person_ids, "to_list", None) or getattr(person_ids, "to_pylist", None)
    listed = listed or getattr(person_ids, "tolist", None)
    with reading("person_ids"):
        people = [p.as_py() if hasattr(p, "as_py") else p for p in (listed() if listed else person_ids)]
    out, kinds = [], set()
    for person in people:
        kind = _kind_of_id(person)
        kinds.add(kind)
        out.append(int(person) if kind == "whole number" else str(person) if kind == "text" else person)
    if len(kinds) > 1:  # 7 and "7" may be one person, read in two ways
        raise ValueError(f"person_ids mixes {' and '.join(sorted(kinds))}; make all of them text")
    return out


def _kind_of_id(person: Any) -> str:
    """The kind of an id; refuses a missing id, and one that could stand for several persons."""
    if isinstance(person, str):
        missing, kind = person.strip() in NULLS, "text"
    elif isinstance(person, bytes):
        missing, kind = person.strip().decode("latin-1") in NULLS, "bytes"
    elif isinstance(person, Integral | np.bool_):
        missing, kind = False, "whole number"
    else:
        missing, kind = is_missing(person), type(person).__name__
        if isinstance(person, float | np.floating) and not missing:
            if not (float(person).is_integer() and abs(float(person)) < 2**53):
                raise ValueError("person_ids must be text or exact whole numbers")
            kind = "whole number"
        elif not missing and not isinstance(person, dt.date | uuid.UUID):
            raise ValueError("person_ids must hold one plain id for each row, none of them missing")
    if missing:
        raise ValueError("person_ids has missing values; drop those rows or give them an id")
    return kind


def content(codes: NDArray[Any], labels: Sequence[Any]) -> NDArray[np.uint64]:
    """Keys that depend on each row's own value alone, unlike the codes of labels."""
    codes = codes.astype(np.int64)  # a target's codes are int32
    if not labels:
        return codes.view(np.uint64)
    keys = np.array([*map(hash_label, labels), OTHER, MISSING], dtype=np.uint64)
    place = np.where(codes >= OTHER, codes - OTHER + len(labels), codes)
    return keys[place]


def limit_rows(
    columns: Iterable[NDArray[np.uint64]], person_ids: list[Any], r: int, bits: Bits
) -> NDArray[Any]:
    """Rows to keep so that nobody has more than ``r``: a random choice for each person.

    ``columns`` hold the content of the rows, by which seeded choices are made.

    Formal guarantees
    -----------------
    The rows kept of one person depend on that person's rows alone, so adding or removing a person
    changes at most ``r`` of all kept rows.
    """
    number: dict[Any, int] = {}
    person = np.array([number.setdefault(p, len(number)) for p in person_ids], dtype=np.int64)
    keys = None
    if bits.seed is not None:  # by the content of a row, never by its position
        keys = np.array([hash_label(p) for p in number], dtype=np.uint64)[person]
        for column in columns:
            keys = mix_keys(keys, column)
    lots = bits.words(len(person), keys, Purpose.PERSON)
    order = np.lexsort((lots, person))
    sorted_person = person[order]
    first = np.searchsorted(sorted_person, sorted_person)
    return np.sort(order[np.arange(len(order)) - first < r])


def read_target(y: Any) -> NDArray[Any]:
    """The target as a 1-D array, its values unchanged."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None")
    try:
        with reading("y"):
            values = np.asarray(y)
    except ValueError:
        raise ValueError("y should be a 1d array of plain values") from None
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if values.dtype.kind in "mM":
        raise TypeError(
            "y holds dates or durations; make them classes (text) or numbers, like seconds since 1970"
        )
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] != 1):
        raise ValueError("y should be a 1d array")
    return np.asarray(column_or_1d(values, warn=True))


def read_numbers(y: Any) -> NDArray[np.float64]:
    """A target of numbers, each read independently."""
    if isinstance(y, list | tuple):
        # One by one, like rows: a stray string must not change how other numbers are read.
        y = np.array(y, dtype=object)
    values = read_target(y)
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("y must hold numbers") from None
    if not np.isfinite(values).all():
        raise ValueError("Input y contains NaN or infinity.")
    return values


def check_classes(classes: Any) -> NDArray[Any]:
    """The public label set, sorted: strings, or numbers and booleans."""
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise ValueError(f"classes must be a sequence of labels, got {quote(classes)}")
    labels = np.asarray(classes).tolist() if hasattr(classes, "__array__") else list(classes)
    text = [isinstance(label, str) for label in labels]
    plain = all(isinstance(label, str | Real) and label == label for label in labels)
    if not labels or not plain or any(text) != all(text):
        raise ValueError(
            f"classes must be all strings or all numbers, at least one, got {quote(classes)}"
        )
    return np.unique(np.array(labels))


def encode_labels(y: Any, classes: NDArray[Any]) -> NDArray[np.int32]:
    """Each row's place among the sorted classes; errors name no value."""
    labels = _read_labels(y)
    if labels.dtype.kind in "iufb" and classes.dtype.kind in "iufb":
        target = np.searchsorted(classes, labels).astype(np.int32)
        target[classes[np.minimum(target, len(classes) - 1)] != labels] = -1
    else:
        place = {label: i for i, label in enumerate(classes.tolist())}
        try:
            target = np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.int32)
        except TypeError:
            raise TypeError("y must hold plain labels: strings or numbers") from None
    if (target < 0).any():
        raise ValueError("y has a label that is not in classes; add it or leave those rows out")
    return target


def list_labels(y: Any) -> tuple[tuple[Category, ...], NDArray[np.int32]]:
    """The distinct labels, sorted, and each row's place among them.

    Each label has one spelling, whatever the type of ``y`` and the other labels are: 1.0 is 1.
    """
    values = _read_labels(y)
    codes = np.empty(len(values), dtype=np.uint32)
    labels = list_values("y", Column(values), codes)
    if len({isinstance(label, str) for label in labels}) > 1:
        raise TypeError("y must hold labels of one kind: all strings, or all numbers")
    if any(isinstance(label, float) for label in labels):
        raise ValueError("Unknown label type: continuous. Classes are text, booleans or whole numbers.")
    whole = [abs(label) < 2**63 for label in labels if not isinstance(label, str | float)]
    if not all(whole) or (codes == OTHER).any():
        raise ValueError("y must hold text that can be written as UTF-8, or numbers below 2^63")
    return labels, codes.astype(np.int32)


def _read_labels(y: Any) -> NDArray[Any]:
    """Labels, each read independently; refuses missing ones."""
    if isinstance(y, list | tuple):
        # One by one, like rows: a stray value must not change how others are read.
        y = np.array(y, dtype=object)
    labels = read_target(y)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("Input y contains NaN or infinity.")
    if labels.dtype.kind == "O" and any(is_missing(v) for v in labels.tolist()):
        raise ValueError("Input y contains NaN.")
    return labels


def check_bounds(bounds: Any) -> tuple[float, float]:
    """Public bounds of a regression target."""
    try:
        low, high = (check_real("y_bounds", v) for v in bounds)
    except (TypeError, ValueError):
        raise ValueError(
            f"y_bounds must be a (low, high) pair of numbers, got {quote(bounds)}"
        ) from None
    if not (np.isfinite(high - low) and low < high):
        raise ValueError(f"y_bounds must be finite with low < high, got ({low:g}, {high:g})")
    return low, high
