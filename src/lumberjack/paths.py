"""Paths of labels as a tree of prefixes: which prefixes occur, and how many paths go through each.

In: a 2-D integer array, tuples of labels, or strings with a separator. Out: a ``PrefixTree``, one
``Level`` of flat arrays for each prefix length, in time and memory linear in the input (up to sorting).
Everything here is private data: nothing of it may be released except through ``heavy_hitters``.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.noise import Words, mix_keys
from lumberjack.quoting import reading
from lumberjack.values import fresh_copy

__all__ = ["Level", "PrefixTree", "read_paths"]

Label = int | str
Path = tuple[Label, ...] | str
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Level:
    """The prefixes of one length.

    Attributes
    ----------
    parent : ndarray of shape (n_nodes,)
        Index of each node's parent in the level above, in ascending order; 0 on the first level.
    label : ndarray of shape (n_nodes,)
        Code of the last label, see ``PrefixTree.decode``.
    count : ndarray of shape (n_nodes,)
        Paths that start with this prefix.
    first_child : ndarray of shape (n_parents + 1,)
        Children of parent p are the nodes first_child[p] to first_child[p + 1] - 1 of this level.
    """

    parent: Integers
    label: Integers
    count: Integers
    first_child: Integers

    def children(self, parents: Integers) -> Integers:
        """Nodes of this level below the given nodes of the level above."""
        begin = self.first_child[parents]
        sizes = self.first_child[parents + 1] - begin
        ends = np.cumsum(sizes)
        return np.repeat(begin - (ends - sizes), sizes) + np.arange(ends[-1] if len(ends) else 0)


def make_level(parent: Integers, label: Integers, count: Integers, n_parents: int) -> Level:
    """Complete a level with the ranges of children."""
    first_child = np.zeros(n_parents + 1, dtype=np.int64)
    np.cumsum(np.bincount(parent, minlength=n_parents), out=first_child[1:])
    return Level(_narrow(parent), _narrow(label), _narrow(count), _narrow(first_child))


def _narrow(values: Integers) -> Integers:
    """Halve the memory of a level where 32 bits suffice."""
    return values.astype(np.int32) if values.max(initial=0) < 2**31 else values


@dataclass(frozen=True)
class PrefixTree:
    """Levels of prefixes, shortest first; ``decode(level, codes)`` gives labels back."""

    levels: list[Level]
    decode: Callable[[int, Integers], list[Label]]
    join: Callable[[tuple[Label, ...]], Path]

    def keys(self) -> list[Words]:
        """Name each node by a hash of its path, whatever the order of the rows: for seeded noise."""
        above = np.zeros(1, dtype=np.uint64)
        keys = []
        for depth, level in enumerate(self.levels):
            codes, inverse = np.unique(level.label, return_inverse=True)
            hashes = np.array([hash_label(v) for v in self.decode(depth, codes)], dtype=np.uint64)
            above = mix_keys(above[level.parent], hashes[inverse])
            keys.append(above)
        return keys

    def prefixes(self, chosen: list[Integers]) -> list[tuple[Label, ...]]:
        """Spell out nodes, given for each level; parents of chosen nodes must be chosen."""
        found: list[tuple[Label, ...]] = []
        above: dict[int, tuple[Label, ...]] = {0: ()}
        for depth, (level, nodes) in enumerate(zip(self.levels, chosen, strict=False)):
            labels = self.decode(depth, level.label[nodes])
            parents = level.parent[nodes].tolist()
            above = {
                node: (*above[parent], label)
                for node, parent, label in zip(nodes.tolist(), parents, labels, strict=True)
            }
            found.extend(above.values())
        return found


def hash_label(label: Label) -> int:
    digest = hashlib.blake2b(repr(label).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def read_paths(paths: Any, height: int | None, sep: str | None) -> PrefixTree:
    """Build the tree of prefixes of at most ``height`` labels (None: as long as the longest path).

    Errors go to the data holder: they name the kind of the problem, never a value, a row or a count.
    """
    if isinstance(paths, np.ma.MaskedArray):
        raise TypeError("paths must not be a masked array; leave masked rows out")
    if hasattr(paths, "__array__"):
        with reading("paths"):
            paths = np.asarray(paths)
        if not paths.size:
            return _from_labels([], height, tuple)
        if paths.ndim == 2 and paths.dtype.kind in "iub":
            return _from_array(paths, height)
        if paths.ndim not in (1, 2) or paths.dtype.kind not in "OUT":
            raise TypeError(
                f"paths must be a 2-D array of integers, tuples, or strings; got a {paths.ndim}-D array "
                f"of dtype {paths.dtype}; map other values to integers first"
            )
        paths = paths.tolist() if paths.ndim == 1 else [tuple(row) for row in paths.tolist()]
    if isinstance(paths, str | bytes) or not isinstance(paths, Iterable):
        raise TypeError(f"paths must be a sequence of paths, got a single {type(paths).__name__}")
    paths = list(paths)
    if sep is not None:
        return _from_labels(_split(paths, sep, height), height, sep.join)
    array = _as_rectangle(paths)
    return _from_labels(_tuples(paths), height, tuple) if array is None else _from_array(array, height)


def _as_rectangle(paths: list[Any]) -> NDArray[Any] | None:
    """Tuples of integers of one length as an array, which is read much faster."""
    if not all(isinstance(p, tuple | list) for p in paths) or len({len(p) for p in paths}) != 1:
        return None
    if not all(type(label) is int for label in paths[0]):
        return None
    try:
        array = np.asarray(paths)
    except (OverflowError, ValueError):
        return None
    return array if array.ndim == 2 and array.dtype.kind in "iu" else None


def _split(paths: list[Any], sep: str, height: int | None) -> Iterable[Sequence[Label]]:
    """Cut strings at sep. A leading sep belongs to the first label: "/a/b" is "/a", then "b"."""
    most = -1 if height is None else height
    for path in paths:
        if not isinstance(path, str):
            raise TypeError("paths must all be strings when sep is given; leave sep out for tuples")
        path = str.__str__(path)
        lead = sep if path.startswith(sep) else ""
        labels = path[len(lead) :].split(sep, most) if path else []
        if labels:
            labels[0] = lead + labels[0]
        yield labels[:height]


def _tuples(paths: list[Any]) -> Iterable[Sequence[Label]]:
    for path in paths:
        if isinstance(path, str):
            raise TypeError('paths are strings: say what separates their labels, for example sep="/"')
        if not isinstance(path, tuple | list | np.ndarray):
            raise TypeError("each path must be a tuple of integers and strings")
        yield [label if type(label) in (int, str) else plain_label(label) for label in path]


def plain_label(label: Any) -> Label:
    """One representative for equal labels, so that it does not show which of them came first."""
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, int | np.integer | np.bool_):
        return int(label)
    raise TypeError("labels must be integers or strings; convert other values first")


def _from_labels(
    paths: Iterable[Sequence[Label]], height: int | None, join: Callable[[Any], Path]
) -> PrefixTree:
    fresh = count(1)  # 0 is "the path ends here"
    code: dict[Label, int] = {}
    flat: list[int] = []
    depths: list[int] = []
    for labels in paths:
        labels = labels[:height]
        depths.append(len(labels))
        for label in labels:
            found = code.get(label)
            if found is None:
                found = code[label] = next(fresh)
            flat.append(found)
    codes, depth = np.array(flat, dtype=np.int64), np.array(depths, dtype=np.int64)
    begin = np.cumsum(depth) - depth
    # Fresh objects: releasing an object of the caller would show which record it came from.
    labels_by_code: list[Label] = [0, *map(fresh_copy, code)]

    def column(level: int, rows: Integers) -> Integers:
        inside = depth[rows] > level
        out = np.zeros(len(rows), dtype=np.int64)
        out[inside] = codes[begin[rows[inside]] + level]
        return out

    levels = _levels(len(depth), int(depth.max(initial=0)), lambda _: len(code).bit_length(), column)
    return PrefixTree(levels, lambda _, found: [labels_by_code[c] for c in found.tolist()], join)


def _from_array(array: NDArray[Any], height: int | None) -> PrefixTree:
    n, width = array.shape
    width = width if height is None else min(width, height)
    if n == 0:
        return PrefixTree([], lambda _, codes: codes.tolist(), tuple)
    if array.dtype.kind == "b":
        array = array.astype(np.int8)
    least = [int(array[:, level].min()) for level in range(width)]
    offset = [array[:, level].min().astype(np.int64) for level in range(width)]
    spans = [int(array[:, level].max()) - low + 1 for level, low in enumerate(least)]
    # Wide columns (hashes, say) are numbered first, so that a code never needs more than 32 bits.
    numbered = {
        level: np.unique(array[:, level], return_inverse=True)
        for level, span in enumerate(spans)
        if span >= 2**32
    }

    def column(level: int, rows: Integers) -> Integers:
        if level in numbered:
            return np.asarray(numbered[level][1].reshape(-1)[rows] + 1, dtype=np.int64)
        values = array[:, level] if len(rows) == n and level == 0 else array[rows, level]
        # Unsigned 64-bit labels wrap around here, and the difference wraps back.
        return np.asarray(values.astype(np.int64) - offset[level] + 1, dtype=np.int64)

    def width_bits(level: int) -> int:
        return (len(numbered[level][0]) if level in numbered else spans[level]).bit_length()

    def decode(level: int, codes: Integers) -> list[Label]:
        if level in numbered:
            return [int(v) for v in numbered[level][0][codes - 1]]
        return [c + least[level] - 1 for c in codes.tolist()]

    return PrefixTree(_levels(n, width, width_bits, column), decode, tuple)


def _levels(
    n: int,
    height: int,
    code_bits: Callable[[int], int],
    column: Callable[[int, Integers], Integers],
) -> list[Level]:
    """Group rows by prefix, several levels at a time.

    A key packs the group so far and the codes of as many levels as fit into 63 bits; one sort of the
    keys puts equal prefixes of each of those lengths next to each other. Rows whose path has ended
    (code 0) leave, so a few long paths cost only their own length.
    """
    levels: list[Level] = []
    rows, group, n_groups = np.arange(n), np.zeros(n, dtype=np.int64), 1
    while len(levels) < height and len(rows):
        first, used, shifts = len(levels), (n_groups - 1).bit_length(), [0]
        while (
            first + len(shifts) - 1 < height
            and used + shifts[-1] + code_bits(first + len(shifts) - 1) <= 63
        ):
            shifts.append(shifts[-1] + code_bits(first + len(shifts) - 1))
        total = shifts[-1]
        key = group
        for step in range(len(shifts) - 1):
            key = (key << code_bits(first + step)) | column(first + step, rows)
        order = np.argsort(key, kind="stable")
        rows, key = rows[order], key[order]
        run = key >> total  # the group: sorted, so it numbers the parents in order
        for step in range(1, len(shifts)):
            prefix = key >> (total - shifts[step])
            inside = (prefix & ((1 << code_bits(first + step - 1)) - 1)) != 0
            if not inside.all():
                rows, key, prefix, run = rows[inside], key[inside], prefix[inside], run[inside]
            if not len(rows):
                return levels
            fresh = np.concatenate([[True], prefix[1:] != prefix[:-1]])
            begin = np.flatnonzero(fresh)
            label = prefix[begin] & ((1 << code_bits(first + step - 1)) - 1)
            counts = np.diff(begin, append=len(prefix))
            levels.append(make_level(run[begin], label, counts, n_groups))
            run = np.cumsum(fresh) - 1
            n_groups = len(begin)
        group = run
    return levels
