"""A tree while it grows: its nodes, the room for splits in each, and the rows in each.

In: splits and counts. Out: larger trees. Counts of rows are private: they live in ``training`` alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.kernels import kernel
from lumberjack.noise import Words
from lumberjack.structure import LEFT, NO_SPLIT, RIGHT, Features, Room, child_key, narrow, root_room

__all__ = [
    "Growing",
    "Limits",
    "Nodes",
    "Segments",
    "add_children",
    "find_room",
    "plant",
    "reserve",
    "settle",
    "starts",
]

Integers = NDArray[np.int64]


class Nodes(NamedTuple):
    """Nodes of a growing tree, parents before children, siblings next to each other.

    Empty nodes are not made. ``start`` and ``n_rows`` locate a node's rows, a segment of all rows.
    Children divide their parent's segment between them, so the segments of all ancestors stay valid.
    """

    key: Words
    up: NDArray[np.int32]
    side: NDArray[np.int8]
    level: NDArray[np.int32]
    start: Integers
    n_rows: Integers
    feature: NDArray[np.int32]
    cut: Integers
    missing_left: NDArray[np.bool_]


class Growing(NamedTuple):
    """A tree so far.

    Attributes
    ----------
    features : Features
    nodes : Nodes
        With spare capacity.
    size : int
        Number of nodes made so far.
    """

    features: Features
    nodes: Nodes
    size: int

    @property
    def key(self) -> int:
        """Identifies the tree."""
        return int(self.nodes.key[0])


class Limits(NamedTuple):
    """How far a tree grows.

    Attributes
    ----------
    height : int
        Nodes on this level are not split.
    small : int
        Nodes with fewer rows are not split either.
    stop : ndarray of bool, shape (1,)
        Set from another thread to end the work soon.
    """

    height: int
    small: int
    stop: NDArray[np.bool_]


class Segments(NamedTuple):
    """Which rows of a block are in which node of a tree.

    Attributes
    ----------
    order : ndarray of int32, shape (n_rows,)
        Row ids, grouped by node.
    start, n_rows : ndarray of int64, shape (n_nodes,)
        Segment of ``order`` with a node's rows.
    """

    order: NDArray[np.int32]
    start: Integers
    n_rows: Integers


def plant(root_key: np.uint64, n_rows: int) -> Nodes:
    """A tree with nothing but a root, which has all rows."""
    one = np.ones(1, dtype=np.int64)
    return Nodes(
        key=np.array([root_key]),
        up=(-one).astype(np.int32),
        side=(0 * one).astype(np.int8),
        level=(0 * one).astype(np.int32),
        start=0 * one,
        n_rows=n_rows * one,
        feature=(NO_SPLIT * one).astype(np.int32),
        cut=0 * one,
        missing_left=(0 * one).astype(np.bool_),
    )


@kernel
def find_room(nodes: Nodes, node: int, features: Features) -> Room:
    """The room at a node (``structure.Room``)."""
    n = len(features.sizes)
    room = Room(np.empty(n, dtype=np.uint32), np.empty(n, dtype=np.uint32))
    way = np.empty(nodes.level[node] + 1, dtype=np.int64)
    for level in range(nodes.level[node], -1, -1):
        way[level] = node
        node = nodes.up[node]
    root_room(features, room)
    for level in range(len(way) - 1):
        narrow(nodes, way[level], nodes.side[way[level + 1]], features, room)
    return room


@kernel
def add_children(nodes: Nodes, size: int, node: int, n_left: int, even_empty: bool) -> tuple[Nodes, int]:
    """Append the children of a split node, the left one with ``n_left`` of its rows."""
    nodes = reserve(nodes, size, 2)
    for side in (LEFT, RIGHT):
        n = n_left if side == LEFT else nodes.n_rows[node] - n_left
        if n > 0 or even_empty:
            nodes.key[size], nodes.up[size] = child_key(nodes.key[node], side), node
            nodes.side[size], nodes.level[size] = side, nodes.level[node] + 1
            nodes.start[size] = nodes.start[node] + (0 if side == LEFT else n_left)
            nodes.n_rows[size], nodes.feature[size] = n, NO_SPLIT
            size += 1
    return nodes, size


@kernel
def starts(nodes: Nodes, count: Integers) -> Integers:
    """Start of each node's rows, from the number of rows in each: right children after left ones."""
    start = np.zeros(len(count), dtype=np.int64)
    for i in range(1, len(count)):
        up = nodes.up[i]
        start[i] = start[up] + (count[up] - count[i] if nodes.side[i] == RIGHT else 0)
    return start


@kernel
def settle(nodes: Nodes, size: int, count: Integers, before: int, small: int) -> int:
    """Of the nodes laid out by a sample (from ``before`` on), keep those that exact counts confirm.

    A node is kept if it has rows and its parent is kept and not small, and split if it is not small.
    Returns the new number of nodes.
    """
    place = np.arange(size)
    kept = before
    for i in range(before):
        nodes.n_rows[i] = count[i]
    for i in range(before, size):
        up = nodes.up[i]
        if place[up] < 0 or count[i] == 0 or (up >= before and count[up] < small):
            place[i] = -1
            continue
        place[i] = kept
        nodes.key[kept], nodes.up[kept], nodes.side[kept] = nodes.key[i], place[up], nodes.side[i]
        nodes.level[kept], nodes.n_rows[kept] = nodes.level[i], count[i]
        nodes.feature[kept] = nodes.feature[i] if count[i] >= small else NO_SPLIT
        nodes.cut[kept], nodes.missing_left[kept] = nodes.cut[i], nodes.missing_left[i]
        kept += 1
    return kept


@kernel
def _longer(array: Any, room: Any) -> Any:
    out = np.empty(room, dtype=array.dtype)
    for i in range(len(array)):
        out[i] = array[i]
    return out


@kernel
def reserve(nodes: Nodes, size: int, more: int) -> Nodes:
    """The same nodes, with capacity for ``more`` new ones."""
    if size + more <= len(nodes.key):
        return nodes
    room = len(nodes.key) + len(nodes.key) // 2 + more
    return Nodes(
        _longer(nodes.key, room),
        _longer(nodes.up, room),
        _longer(nodes.side, room),
        _longer(nodes.level, room),
        _longer(nodes.start, room),
        _longer(nodes.n_rows, room),
        _longer(nodes.feature, room),
        _longer(nodes.cut, room),
        _longer(nodes.missing_left, room),
    )
