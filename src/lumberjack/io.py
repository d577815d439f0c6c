"""A model as bytes and back, without pickle.

In: a fitted estimator, or bytes that anybody may have written. Out: bytes that are the same for the same
model, or plain checked values; ``forest.load`` makes an estimator of them. ``docs/model_file.md``
describes the format: a fixed start, a JSON header, raw arrays, a digest.

Nothing is compressed, so a length can be checked against the file before anything is made. An untrusted
file gives a ValueError, or values that the rest of the library can trust.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from lumberjack.accounting import Choices, Event, NoisySums, ThresholdQueries
from lumberjack.anatomy import check_tree, depths
from lumberjack.domain import Domain
from lumberjack.events import SIZED, kinds_of
from lumberjack.fitting import SCALE, as_integers
from lumberjack.guarantee import (
    BOUNDS_INFERRED,
    CLASSES_INFERRED,
    DOMAIN_INFERRED,
    LEARNED,
    NOT_PROVED,
    SUM_BOUND,
    ClassLeaf,
    Guarantee,
)
from lumberjack.inputs import as_domain, check_bounds, check_classes
from lumberjack.kinds import Categorical, Cuts, Kind, Number, Open
from lumberjack.old_votes import OldClasses, OldNumbers, with_curves
from lumberjack.quoting import quote
from lumberjack.released import Fitted, Released, released_by
from lumberjack.structure import Features
from lumberjack.targets import Classes, Numbers, Target
from lumberjack.terms import Column, column_tree, n_cells, pair_sizes
from lumberjack.tree import LEAF, Forest, Tree

__all__ = ["Stored", "pack", "read_model", "unpack"]

MAGIC = b"lumberjack model"
# 1 had no calibration, 2 a fixed set of fields for events, 3 no use of events, 4 no fitted leaves; 5 had
# a calibration, and is written for forests that vote as such files say (``old_votes``).
VERSION, CALIBRATED = 6, 5
_START = struct.Struct("<16sII")  # magic, version, bytes of the header
_DIGEST = 32

# Fields of a tree as they are stored, all trees one after the other, and their type in memory.
TREE_FIELDS = (
    ("feature", np.int32),
    ("cut", np.uint32),
    ("missing_left", np.bool_),
    ("left", np.int32),
)
_STORED_TYPES = ("<i2", "<i4", "<i8", "<f8")  # the first that holds all values exactly
# Not stored: the seed, with which noise can be removed, and settings that depend on the machine.
_AT_HOME = ("random_state", "n_jobs", "verbose")
_NEEDED = (
    "epsilon", "delta", "n_estimators", "max_depth", "domain", "splits", "accounting", "rows_per_person",
)  # fmt: skip

# Python objects need more memory than their text. A file may ask for this much in all.
_ALLOWED = 4
_ALLOWED_ALWAYS = 32 * 2**20
_BYTES_PER_VALUE = 150
_BYTES_PER_TREE = 2000
_BYTES_PER_LEAF = 400  # of a fitted forest, while its trees are rebuilt
_EQUAL = 1e-9  # sums of sizes are not the same to the last bit everywhere


@dataclass(frozen=True)
class Stored:
    """What a model file says: which estimator, its parameters, and what it released."""

    kind: str
    parameters: dict[str, Any]
    released: Released


def pack(model: Fitted) -> bytes:
    """Bytes of a fitted estimator: the same for the same model, whatever the machine or the time."""
    released = released_by(model)
    forest, target = released.forest, released.target
    old = target.curves if isinstance(target, OldClasses | OldNumbers) else None
    arrays = {
        "nodes": np.array([len(tree.feature) for tree in forest.trees]),
        **{
            name: np.concatenate([getattr(tree, name) for tree in forest.trees])
            for name, _ in TREE_FIELDS
        },
        "values": np.concatenate(forest.values),
        **({} if old is None else {"calibration": old}),
    }
    stored = {name: _narrow(array) for name, array in arrays.items()}
    header = {
        "estimator": target.estimator,
        "parameters": _plain_parameters(model.get_params(deep=False)),
        "guarantee": dataclasses.asdict(released.guarantee),
        "domain": released.domain.to_dict(),
        "columns": None if released.columns is None else list(released.columns),
        **target.to_dict(),
        "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in stored.items()],
    }
    text = _to_json(header)
    body = b"".join(
        [
            _START.pack(MAGIC, VERSION if old is None else CALIBRATED, len(text)),
            text,
            *(array.tobytes() for array in stored.values()),
        ]
    )
    data = body + hashlib.sha256(body).digest()
    unpack(data)  # never write what could not be read again
    return data


def unpack(data: bytes) -> Stored:
    """Read what ``pack`` made; anything else raises a ValueError that says why.

    Formal guarantees
    -----------------
    No byte of ``data`` is executed. Sizes are checked against ``len(data)`` before memory is taken:
    at most ten times the file and 32 MiB in all. Time is linear in the file, up to sorting.
    """
    text, place, version = _check_frame(data)
    try:
        header = _read_header(text, len(data))
        arrays = _read_arrays(data, header["arrays"], place, version)
        if version < 3:
            header["guarantee"] = _with_events(header["guarantee"])
        return _restore(header, arrays, version, len(data))
    except ValueError as error:
        raise ValueError(f"not a valid model file: {error}") from None
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a valid model file: {type(error).__name__} in its header") from None


def read_model(path: str | os.PathLike[str]) -> Stored:
    """Read a model file; ValueError if it is not one, OSError if it cannot be read."""
    with Path(path).open("rb") as file:
        start = file.read(_START.size)
        if start[: len(MAGIC)] != MAGIC:  # before a wrong and perhaps huge file is read
            raise ValueError(f"{path} is not a Lumberjack model file")
        try:
            return unpack(start + file.read())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


# Plain values


def _to_json(value: Any) -> bytes:
    """Canonical JSON: what is read must have the same bytes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)
    return text.encode("ascii")


def _plain(value: Any) -> Any:
    """Convert NumPy values to plain Python ones."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise ValueError(f"a {type(value).__name__} cannot be kept in a model file")


def _plain_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON holds them."""
    plain: dict[str, Any] = {}
    for name, value in given.items():
        if name in _AT_HOME:
            continue
        if name == "domain":
            plain[name] = None if value is None else as_domain(value).to_dict()
        elif name == "classes":
            plain[name] = None if value is None else _labels(value)
        elif name == "class_weight" and isinstance(value, Mapping):
            plain[name] = [[_number(label), _number(weight)] for label, weight in value.items()]
        elif name == "feature_weights" and value is not None:
            mapping = isinstance(value, Mapping)
            plain[name] = (
                {k: _number(w) for k, w in value.items()} if mapping else [_number(w) for w in value]
            )
        elif name == "y_bounds" and value is not None:
            plain[name] = [_number(v) for v in value]
        else:
            plain[name] = _number(value)
    return plain


def _number(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(f"a {type(value).__name__} cannot be kept in a model file")
    return value


def _labels(classes: Any) -> list[Any]:
    listed = np.asarray(classes).tolist() if hasattr(classes, "__array__") else list(classes)
    return [_number(label) for label in listed]


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the smallest stored type that holds them."""
    for name in _STORED_TYPES:
        kind = np.dtype(name)
        if kind.kind == "f":
            break
        limits = np.iinfo(kind)
        if array.min(initial=0) < limits.min or array.max(initial=0) > limits.max:
            continue
        small = array.astype(kind)
        if np.array_equal(small, array):
            return small
    return array.astype("<f8")


# Reading


def _check_frame(data: bytes) -> tuple[bytes, int, int]:
    """Check start and digest; returns the header's bytes, where the arrays begin, and the version."""
    if not data or data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise ValueError("not a Lumberjack model file")
    if len(data) < _START.size + _DIGEST:
        raise ValueError("the model file is cut off")
    _, version, length = _START.unpack_from(data)
    if not 1 <= version <= VERSION:
        raise ValueError(
            f"the model file has format {version}, this version reads 1 to {VERSION}: update Lumberjack"
        )
    if hashlib.sha256(memoryview(data)[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise ValueError("the model file is damaged or cut off: its digest does not match")
    end = _START.size + length
    if end > len(data) - _DIGEST:
        raise ValueError("not a valid model file: its header is longer than the file")
    return data[_START.size : end], end, version


def _read_header(text: bytes, size: int) -> dict[str, Any]:
    _refuse_greed(_BYTES_PER_VALUE * sum(text.count(mark) for mark in b",:[{"), size)
    try:
        header = json.loads(text.decode("ascii"))
    except ValueError:
        raise ValueError("its header is not plain JSON") from None
    if _to_json(header) != text:  # also refuses duplicate keys, NaN and extra blanks
        raise ValueError("its header is not canonical JSON")
    _check_text(header)
    known = {
        "estimator", "parameters", "guarantee", "domain", "columns", "classes", "bounds", "arrays",
    }  # fmt: skip
    if not isinstance(header, dict) or set(header) != known:
        raise ValueError("its header has missing or unknown fields")
    return header


def _refuse_greed(cost: int, size: int) -> None:
    """Refuse files that would need far more memory than their size."""
    if cost > _ALLOWED * size + _ALLOWED_ALWAYS:
        raise ValueError("it would need far more memory than its size")


def _check_text(value: Any) -> None:
    """Refuse lone surrogates, which cannot be printed."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("its header has text that is not Unicode") from None
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_text(name)
            _check_text(item)
    elif isinstance(value, list):
        for item in value:
            _check_text(item)


def _read_arrays(data: bytes, listed: Any, place: int, version: int) -> dict[str, NDArray[Any]]:
    """Arrays as views of the file; their sizes must use it up exactly."""
    needed = ["nodes", *(name for name, _ in TREE_FIELDS), "values"]
    known = [needed, [*needed, "calibration"]] if version <= CALIBRATED else [needed]
    names = [entry[0] for entry in listed if len(entry) == 3]
    if len(names) != len(listed) or names not in known:
        raise ValueError("it does not hold the arrays of a forest")
    arrays = {}
    for name, kind, shape in listed:
        dimensions = 2 if name in ("values", "calibration") else 1
        proper = len(shape) == dimensions and all(type(n) is int and n >= 0 for n in shape)
        if kind not in _STORED_TYPES or not proper:
            raise ValueError(f"array {quote(name)} has an invalid type or shape")
        dtype = np.dtype(kind)
        size = int(np.prod([1, *shape], dtype=object))
        if size * dtype.itemsize > len(data) - _DIGEST - place:
            raise ValueError("its arrays are longer than the file")
        arrays[name] = np.frombuffer(data, dtype, size, place).reshape(shape)
        place += size * dtype.itemsize
    if place != len(data) - _DIGEST:
        raise ValueError("it holds more than its header says")
    return arrays


def _restore(header: dict[str, Any], arrays: dict[str, NDArray[Any]], version: int, size: int) -> Stored:
    kind = header["estimator"]
    guarantee = _restore_guarantee(header["guarantee"], version)
    leaves = {"classifier": get_args(ClassLeaf), "regressor": ("mean", "fitted-mean")}
    method = "none" if guarantee.fits_leaves else "sparse"
    if guarantee.leaf not in leaves.get(kind, ()) or guarantee.method != method:
        raise ValueError("the estimator does not fit the guarantee")
    if guarantee.fits_leaves and version < 5:
        raise ValueError("its format has no fitted leaves")
    domain = Domain.from_dict(header["domain"])
    if domain.to_dict() != header["domain"]:
        raise ValueError("its domain is not in canonical form")
    columns = header["columns"]
    if columns is not None:
        if not isinstance(columns, list) or sorted(columns) != sorted(domain):
            raise ValueError("its columns are not those of its domain")
        columns = tuple(columns)
    parameters = _restore_parameters(header["parameters"], domain, kind)
    target: Target
    if kind == "classifier":
        _check_labels(header["classes"]["labels"])
        learned = guarantee.event("classes") is not None
        target = Classes.from_dict(header, guarantee.leaf, learned)
    else:
        given = parameters.get("y_bounds")
        limits = None if given is None else check_bounds(given)
        learned = guarantee.event("scale") is not None
        target = Numbers.from_dict(header, guarantee.leaf, learned, limits)
    forest = _restore_forest(arrays, domain, guarantee, target, size)
    is_old = version <= CALIBRATED and guarantee.guided_levels > 0 and guarantee.leaf in SIZED
    paid = guarantee.event("calibration") is not None
    _rule(paid == is_old, "a calibration histogram is priced but not used, or the reverse")
    if version <= CALIBRATED:
        target = with_curves(target, arrays.get("calibration"), guarantee)
    released = Released(guarantee, columns, domain, target, forest)
    stored = Stored(kind, parameters, released)
    _refuse_contradictions(stored)
    return stored


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_events(old: dict[str, Any]) -> dict[str, Any]:
    """Convert a guarantee of version 1 or 2, which had flat fields, to a list of events."""
    flat = {
        "sum_noise": None, "sum_bound": None, "guided_levels": 0,
        "choices_per_record": 0, "choice_exponent": None, "choice_range": None, **old,
    }  # fmt: skip
    m, sigma, Delta, cut, tau, k, noise, sum_noise, bound, levels, n, exponent, width = (
        flat.pop(name)
        for name in (
            "queries_per_record", "threshold_noise", "cutoff", "cut", "threshold", "counts_per_record",
            "leaf_noise", "sum_noise", "sum_bound", "guided_levels", "choices_per_record",
            "choice_exponent", "choice_range",
        )
    )  # fmt: skip
    if any((levels > 0) == (v is None) for v in (exponent, width)) or n != levels * flat["n_estimators"]:
        raise ValueError("its guarantee contradicts itself: choices without levels, or the reverse")
    # The number of noisy counts included the calibration histogram, whose half noise counts as four.
    again = 4 if levels and flat["leaf"] in SIZED else 0
    sums = [] if sum_noise is None and bound is None else [(sum_noise, bound)]
    events: list[Event] = [ThresholdQueries(m, sigma, Delta, tau, cut)]
    if levels:
        events.append(Choices(n, exponent, width))
    if (Choices, "leaves") in kinds_of(flat["leaf"], levels > 0):
        events.append(Choices(k, 1 / noise, 1.0))
    else:
        events += [NoisySums(k - again, *released) for released in ((noise, 1), *sums)]
        if again:
            events += [NoisySums(1, sigma / 2, reach) for sigma, reach in ((noise, 1), *sums)]
    plain = [dataclasses.asdict(event) for event in events]
    for event in plain:
        del event["use"]  # follows from the place, as in version 3
    return {**flat, "events": plain}


def _restore_guarantee(found: dict[str, Any], version: int) -> Guarantee:
    """The promise; fields that a later version added have their default in an older file."""
    added = {
        field.name: field.default
        for field in dataclasses.fields(Guarantee)
        if field.default is not dataclasses.MISSING and (version > 3 or field.name not in LEARNED)
    }
    guarantee = Guarantee.from_json(json.dumps({**added, **found}))
    # Refuse numbers that no fit could have, so that readers of the guarantee need not handle them.
    if (
        not guarantee.has_its_events
        or not all(map(_makes_sense, guarantee.events))
        or guarantee.sum_bound not in (None, SUM_BOUND)
        or not 1 <= guarantee.rows_per_person <= 10**9
        or not 1e-300 < guarantee.delta < 1
        or not all(0 <= getattr(guarantee, name) <= 10**9 for name in LEARNED)
    ):
        raise ValueError("its guarantee holds events or numbers that no fit could have")
    return guarantee


def _makes_sense(event: Event) -> bool:
    """Whether a fit could have such an event."""
    if not 1 <= event.count <= 10**9:
        return False
    if isinstance(event, Choices):
        return 0 < event.exponent < 2**52 and 0 < event.score_range < 2**52
    if isinstance(event, NoisySums):
        return 0 < event.noise < 2**52 and 1 <= event.reach <= SUM_BOUND
    return 0 < event.noise < 2**52 and 0 <= (event.cutoff or 0) < 2**52 and abs(event.threshold) < 2**52


def _check_labels(labels: list[Any]) -> list[Any]:
    """Labels, sorted: all strings or all numbers. NumPy stores each as wide as the longest."""
    longest = max((len(label) for label in labels if isinstance(label, str)), default=0)
    _refuse_greed(4 * len(labels) * longest, 0)
    return list(check_classes(labels).tolist())


def _restore_parameters(found: Any, domain: Domain, kind: str) -> dict[str, Any]:
    """Parameters as the estimators take them, each by itself."""
    if not isinstance(found, dict):
        raise ValueError("it has no parameters")
    parameters: dict[str, Any] = {}
    for name, value in found.items():
        if name == "domain" and isinstance(value, bool):  # up to version 3: that of the model, or none
            value = domain if value else None
        elif name == "domain" and isinstance(value, dict):
            value = Domain.from_dict(value)
        elif name == "classes" and value is not None:
            _check_labels(value)
        elif name == "class_weight" and isinstance(value, list):
            if any(len(pair) != 2 or not _is_number(pair[1]) for pair in value):
                raise ValueError("class_weight must be pairs of a label and a number")
            if len(dict(value)) != len(value):
                raise ValueError("class_weight must name each label once")
            value = dict(value)
        elif name == "feature_weights" and isinstance(value, dict | list):
            weights = value.values() if isinstance(value, dict) else value
            if not all(map(_is_number, weights)):
                raise ValueError("feature_weights must be numbers")
        elif name == "y_bounds" and value is not None:
            check_bounds(value)
            value = tuple(value)
        elif (
            isinstance(value, dict | list)
            or name in _AT_HOME
            or (name == "domain" and value is not None)
        ):
            raise ValueError(f"parameter {quote(name)} is not a plain value")
        parameters[name] = value
    needed = (*_NEEDED, "leaf") if kind == "classifier" else _NEEDED
    if not set(needed) <= set(parameters):
        raise ValueError("it lacks parameters that the guarantee is about")
    return parameters


def _refuse_contradictions(stored: Stored) -> None:
    """Refuse a file that says one thing in one place and another elsewhere.

    A caveat that is due must be there. Extra ones, perhaps of a later version, do no harm: they are kept
    and shown.
    """
    given, promise, domain = stored.parameters, stored.released.guarantee, stored.released.domain
    labels, bounds, weights = (given.get(name) for name in ("classes", "y_bounds", "class_weight"))

    promised = {**dataclasses.asdict(promise), "threshold": promise.threshold}
    for name in (name for name in given if name in promised):
        default = given[name] is None and name in ("structure_share", "threshold")
        same = given[name] == promised[name] and not isinstance(given[name], bool)
        _rule(default or same, f"{name} is not that of the guarantee")
    splits = "guided" if promise.cuts_numbers else "random"
    _rule(given["splits"] == splits, "splits is not that of the guarantee")
    if promise.fits_leaves:
        _rule(promise.accounting == "joint", "the paper does not price fitted leaves")
        pruned = promise.structure_share, given.get("feature_weights")
        _rule(pruned == (None, None), "fitted leaves have no pruned trees")
    else:
        uncut = given.get("threshold") is not None or promise.cut == 0
        _rule(uncut, "only a given threshold raises the cut")
    _rule(promise.unit == "person" or promise.rows_per_person == 1, "a row is not a person's rows")
    _check_learned(given["domain"], domain, promise)

    due = {NOT_PROVED: promise.accounting == "paper", DOMAIN_INFERRED: domain.inferred}
    if stored.kind == "classifier":
        known = stored.released.classes.labels.tolist()
        same = labels is None or _check_labels(labels) == known
        _rule(same, "its classes are not those of its parameters")
        weighed = set(weights) if isinstance(weights, dict) else set()
        _rule(labels is None or weighed <= set(known), "class_weight has other classes")
        learned = stored.released.classes.learned
        _rule(labels is None or not learned, "its classes are both given and learned")
        due[CLASSES_INFERRED] = labels is None and not learned
    else:
        numbers = stored.released.numbers
        if numbers.is_fitted:  # bounds are limits of predictions, and place and scale always learned
            _rule(numbers.learned, "its bounds are not learned")
        else:
            same = bounds is None or check_bounds(bounds) == (numbers.low, numbers.high)
            _rule(same, "its bounds are not those of its parameters")
            _rule(bounds is None or not numbers.learned, "its bounds are both given and learned")
        due[BOUNDS_INFERRED] = bounds is None and not numbers.learned
    for caveat, needed in due.items():
        _rule(caveat in promise.caveats or not needed, f"its caveats lack {caveat!r}")


def _rule(agrees: bool, broken: str) -> None:
    if not agrees:
        raise ValueError(f"it contradicts itself: {broken}")


def _check_learned(given: Domain | None, domain: Domain, promise: Guarantee) -> None:
    """Refuse a column that nobody declared, inferred or paid for."""
    declared: dict[str, Kind] = {} if given is None else dict(zip(given, given.kinds, strict=True))
    _rule(set(declared) <= set(domain), "its domain lacks columns that were declared")
    numbers = categories = 0
    for name, kind in zip(domain, domain.known, strict=True):
        was = declared.get(name)
        if isinstance(kind, Cuts) and kind.learned:
            numbers += 1
            # There are at most 2^cut_levels - 1, which a file may claim to be huge.
            # A range is declared, or read off the data with a caveat: no fit learns one.
            known = was == kind.grid or (was is None and not kind.grid.is_bounded)
            agrees = known and len(kind.places).bit_length() <= promise.cut_levels
        elif isinstance(kind, Categorical) and kind.learned:
            categories += 1
            agrees = was is None or isinstance(was, Open)
        else:  # without a declaration, a column's type may name its categories, but no range
            agrees = was == kind or (was is None and (kind.inferred or isinstance(kind, Categorical)))
        _rule(agrees, "a column of its domain is neither given, learned nor inferred")
    paid = numbers == promise.numbers_learned and categories == promise.categories_learned
    _rule(paid, "its learned columns are not those that the guarantee prices")


def _restore_forest(
    arrays: dict[str, NDArray[Any]], domain: Domain, guarantee: Guarantee, target: Target, size: int
) -> Forest:
    nodes, values = arrays["nodes"], arrays["values"]
    lengths = {len(arrays[name]) for name, _ in TREE_FIELDS}
    _refuse_greed(_BYTES_PER_TREE * len(nodes), size)
    fitted = guarantee.fits_leaves
    least, most = _numbers_of_trees(guarantee, domain)
    if not least <= len(nodes) <= most or nodes.dtype.kind == "f" or (nodes < 1).any():
        raise ValueError("its number of trees is not that of the guarantee")
    if lengths != {sum(nodes.tolist())}:
        raise ValueError("its arrays do not have the lengths of its trees")
    shape = (int(np.sum(arrays["feature"] == LEAF)), target.leaves.n_values)
    if values.shape != shape or not _sensible(values):
        raise ValueError("its leaves do not hold one valid value each")
    if target.leaves.holds == "labels" and not _one_hot(values):
        raise ValueError("its leaves do not hold one label each")
    if target.leaves.holds == "weights":
        _refuse_greed(_BYTES_PER_LEAF * len(values), size)
        if (values[:, 0] < 0).any() or not np.array_equal(
            as_integers(values[:, 1:]) / SCALE, values[:, 1:]
        ):
            raise ValueError("its leaves do not hold sizes and weights that a fit could have")
    fields = {name: _widen(name, arrays[name], np.dtype(kind)) for name, kind in TREE_FIELDS}
    values = values.astype(np.float64)
    trees, released, first, first_leaf = [], [], 0, 0
    for length in nodes.tolist():
        tree = Tree(**{name: field[first : first + length] for name, field in fields.items()})
        check_tree(tree, len(domain))
        if not fitted:
            _check_cuts(tree, domain)
            if depths(tree).max() > guarantee.max_depth:
                raise ValueError("a tree is deeper than the guarantee says")
        trees.append(tree)
        released.append(values[first_leaf : first_leaf + tree.n_leaves])
        first, first_leaf = first + length, first_leaf + tree.n_leaves
    forest = Forest(tuple(trees), tuple(released), Features.of(domain).categorical)
    if fitted:
        _check_terms(forest, domain, guarantee)
    return forest


def _numbers_of_trees(guarantee: Guarantee, domain: Domain) -> tuple[int, int]:
    """Least and largest possible number of trees."""
    k, least = guarantee.n_estimators, 1 + len(domain)
    return (least, least + k * (k - 1) // 2) if guarantee.fits_leaves else (k, k)


def _check_terms(forest: Forest, domain: Domain, guarantee: Guarantee) -> None:
    """Refuse trees other than those of ``terms``: the base, each column, all pairs of some columns."""
    each = list(zip(forest.trees, [values[:, 0] for values in forest.values], strict=True))
    (base, total), pairs = each[0], each[1 + len(domain) :]
    if base.n_leaves != 1 or not total > 0:
        raise ValueError("its first tree is not a single leaf with all rows")
    columns = []
    for j, (kind, (tree, sizes)) in enumerate(zip(domain.known, each[1 : 1 + len(domain)], strict=True)):
        columns.append(Column(j, kind, sizes))
        if len(sizes) != n_cells(kind) or not _same_tree(tree, column_tree(columns[j])):
            raise ValueError("a tree does not have a leaf for each cell of its column")
        if not np.isclose(sizes.sum(), total[0], _EQUAL, 0):
            raise ValueError("sizes of leaves do not add up to all rows")
    found = [tree.columns for tree, _ in pairs]
    chosen = sorted({column for pair in found for column in pair})
    if found != list(itertools.combinations(chosen, 2)) or len(chosen) > guarantee.n_estimators:
        raise ValueError("its trees are not those of all pairs of some columns")
    for (tree, sizes), (first, second) in zip(pairs, found, strict=True):
        expected = pair_sizes(tree, columns[first], columns[second])
        if expected is None:
            raise ValueError("a tree does not have a leaf for each combination of its columns")
        if not np.allclose(sizes, expected, _EQUAL, _EQUAL * total[0]):
            raise ValueError("sizes of leaves are not those of its columns")


def _same_tree(one: Tree, other: Tree) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name, _ in TREE_FIELDS)


def _check_cuts(tree: Tree, domain: Domain) -> None:
    """Refuse splits that separate nothing: beyond a column's codes, or of a range of one cell."""
    split = tree.feature != LEAF
    # Numbers are split between two cells, categories at one of them.
    most = np.array([k.size - 1 - isinstance(k, Number) for k in domain.known], dtype=np.int64)
    if (tree.cut[split].astype(np.int64) > most[tree.feature[split]]).any():
        raise ValueError("a tree splits where its column has no values")


def _sensible(values: NDArray[Any]) -> bool:
    """Whether these can be noisy counts or sums: finite, and exact as floats."""
    return bool(values.min(initial=0) >= -(2**53) and values.max(initial=0) <= 2**53)


def _one_hot(values: NDArray[Any]) -> bool:
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all())


def _widen(name: str, array: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """A stored array in the type that the kernels read; numbers that do not fit are refused."""
    low, high = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    if array.dtype.kind == "f" or array.min(initial=0) < low or array.max(initial=0) > high:
        raise ValueError(f"array {quote(name)} holds numbers that do not fit")
    return array.astype(kind)
