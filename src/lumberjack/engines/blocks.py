"""Random trees grown block by block: which rows are in which node.

In: encoded rows, and nodes that wait to be split. Out: those nodes with all that is worth growing below
them, and the rows sorted by node.

A block is a node and several levels below it. Splits do not depend on rows, so all rows go through the
splits of a block in one pass and then straight to their places: a tree reads the table three times, not
once for each level. Every row is compared with every split of the block. Most comparisons are wasted,
but the loop is branch-free and takes whole vectors of rows at a time.

Only splits that many rows will meet are worth that. The rows of a block that fit in the cache are all
counted while it is laid out. Of more rows a sample is counted instead; then all of them go through the
block, a batch at a time.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import Codes
from lumberjack.kernels import kernel
from lumberjack.noise import Words
from lumberjack.structure import (
    LEFT,
    NO_SPLIT,
    RIGHT,
    Features,
    Room,
    child_key,
    choose_split,
    interval,
    narrow,
    root_room,
)
from lumberjack.tree import end_path, lay_path

__all__ = ["Limits", "Nodes", "Table", "Work", "divide", "find_room", "grow", "plant"]

_BLOCK = 256  # splits of a block, at most
_NEAR = 2048  # rows that fit in the cache
_SAMPLE = 512  # of more rows, those that tell which nodes will be large
_PARTS = 24  # a node with less than one of so many parts of a block's rows is not split in it
_BATCH = 768  # rows that go through a block together
assert max(_SAMPLE, _BATCH) <= _NEAR < 2**16  # they share room, and are counted in 16 bits


class Work(NamedTuple):
    """What a tree cost, in units that do not depend on the machine.

    Attributes
    ----------
    nodes : int
        Nodes that were made, sleeping ones included.
    steps : int
        Splits on the ways of all rows.
    tests : int
        Comparisons of a row with a split, many of them wasted.
    moves : int
        Times that a row (its index of 4 bytes) was moved.
    """

    nodes: int
    steps: int
    tests: int
    moves: int


class Table(NamedTuple):
    """Encoded rows, and the order in which a tree has them: those of one node next to each other.

    Attributes
    ----------
    codes : ndarray of uint32, shape (n_rows, n_features)
    order : ndarray of int32, shape (n_rows,)
        Row ids, sorted inside a node when it is split.
    """

    codes: Codes
    order: NDArray[np.int32]


class Limits(NamedTuple):
    """How far a tree grows.

    Attributes
    ----------
    height : int
        Nodes on this level are not split.
    small : int
        Nor are nodes with fewer rows.
    stop : ndarray of bool, shape (1,)
        Set from another thread, it ends the work soon.
    """

    height: int
    small: int
    stop: NDArray[np.bool_]


class Nodes(NamedTuple):
    """Nodes of a growing tree, parents before children. Empty ones are not made.

    ``start`` and ``n_rows`` are a node's rows, a segment of all rows: children share out their parent's
    segment, so it stays valid for all ancestors.
    """

    key: Words
    up: NDArray[np.int32]
    side: NDArray[np.int8]
    level: NDArray[np.int32]
    start: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    feature: NDArray[np.int32]
    cut: NDArray[np.int64]
    missing_left: NDArray[np.bool_]


class _Block(NamedTuple):
    """The nodes of a block, numbered from 0, parents before children, and room to work in.

    ``node`` is a node's number in the tree and ``above`` its parent's in the block. ``n_rows`` counts
    its rows, at first of the sample and then all; ``start`` is where they begin, ``at`` where the next
    one goes, and ``paths`` says how they go on (``tree.walk``). ``first`` and ``last`` are what is left
    to tell apart in it (``structure.Room``), with a column for each feature. ``sample`` are rows,
    ``here`` the nodes where they are, and ``columns`` the codes of the sample or of a batch, feature by
    feature.
    """

    node: NDArray[np.int64]
    above: NDArray[np.int64]
    start: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    at: NDArray[np.int64]
    first: NDArray[np.uint32]
    last: NDArray[np.uint32]
    paths: NDArray[np.uint32]
    columns: NDArray[np.uint32]
    sample: NDArray[np.int32]
    here: NDArray[np.uint16]


def plant(root_key: np.uint64, n_rows: int) -> Nodes:
    """A tree that is one root with all rows."""
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
def grow(table: Table, features: Features, nodes: Nodes, size: Any, waiting: Any, limits: Limits) -> Any:
    """Split waiting nodes, and below them all that ``limits`` allow.

    Parameters
    ----------
    table : Table
        Its order is sorted here, inside each node.
    features : Features
    nodes : Nodes
        The tree so far, its first ``size`` nodes.
    waiting : ndarray of int64
        Nodes to split.
    limits : Limits

    Returns
    -------
    nodes : Nodes
        With room for more at the end.
    size, steps, tests, moves : int
        Number of nodes, and the cost: see ``Work``.
    """
    most = 0
    for node in waiting:
        most = max(most, nodes.n_rows[node])
    spare, place = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.uint16)
    block = _new_block(len(features.sizes))
    steps, tests, moves = 0, 0, 0
    # Depth first: the rows of a block are still in the cache when the next one reads them.
    pending = list(waiting)
    while pending and not limits.stop[0]:
        node = pending.pop()
        if nodes.n_rows[node] < limits.small:
            continue
        nodes = _reserve(nodes, size, 2 * _BLOCK)
        made, tested = _lay_out(table, features, nodes, size, node, limits, block)
        if made == 1:
            continue
        begin, n, here = nodes.start[node], nodes.n_rows[node], block.here
        order = table.order[begin : begin + n]
        if n > _NEAR:
            here = place
            tested += _share_out(table.codes, order, made, place, block, limits.stop)
            if limits.stop[0]:
                break
        _sort(made, here, order, spare, block)
        before = size
        size, walked = _keep(nodes, size, node, made, limits.small, block)
        steps, tests, moves = steps + walked, tests + tested, moves + n
        for i in range(before, size):
            large = nodes.n_rows[i] >= limits.small
            if large and nodes.feature[i] == NO_SPLIT and nodes.level[i] < limits.height:
                pending.append(i)
    return nodes, size, steps, tests, moves


@kernel
def _lay_out(
    table: Table, features: Features, nodes: Nodes, size: Any, node: Any, limits: Limits, block: _Block
) -> Any:
    """Make the nodes of a block, and take a sample of its rows, or all if they are few, through it.

    New nodes are put behind all others for now. Returns how many nodes the block has, and how many
    comparisons were made.
    """
    begin, n = nodes.start[node], nodes.n_rows[node]
    n_seen = n if n <= _NEAR else _SAMPLE
    # What the sample says decides what a block is, and so how fast it goes: nothing else.
    enough = max(limits.small * n_seen / n, n_seen / _PARTS)
    for i in range(n_seen):
        block.sample[i] = table.order[begin + i * n // n_seen]
    _gather(table.codes, block.sample[:n_seen], block.columns)
    here = block.here[:n_seen]
    here[:] = 0
    block.node[0], block.n_rows[0] = node, n_seen
    block.first[0], block.last[0] = find_room(nodes, node, features)
    made, g, tests = 1, 0, 0
    while g < made:
        p = block.node[g]
        f, c, m = NO_SPLIT, 0, False
        large = g == 0 or block.n_rows[g] >= enough
        if large and nodes.level[p] < limits.height and made + 2 <= len(block.node):
            room = Room(block.first[g], block.last[g])
            if g > 0:
                up = block.above[g]
                room.first[:], room.last[:] = block.first[up], block.last[up]
                narrow(nodes, nodes.up[p], nodes.side[p], features, room)
            f, c, m = choose_split(nodes, p, features, room)
        nodes.feature[p], nodes.cut[p], nodes.missing_left[p] = f, c, m
        if f == NO_SPLIT:
            end_path(block.paths, g)
        else:
            lay_path(block.paths, g, f, c, features.categorical[f], m, made)
            low, width = block.paths[g, 1], block.paths[g, 2]
            n_right = _take_split(block.columns[f], low, width, np.uint16(g), np.uint16(made), here)
            tests += n_seen
            for side in (LEFT, RIGHT):
                child = size + made - 1
                block.node[made], block.above[made] = child, g
                block.n_rows[made] = block.n_rows[g] - n_right if side == LEFT else n_right
                nodes.key[child], nodes.up[child] = child_key(nodes.key[p], side), p
                nodes.side[child], nodes.level[child] = side, nodes.level[p] + 1
                made += 1
        g += 1
    return made, tests


@kernel
def _gather(codes: Any, rows: Any, columns: Any) -> None:
    """Copy the codes of some rows, column by column: many rows are then under way from memory at once.

    The two ends of a row come first: up to 17 features lie in two cache lines, at most.
    """
    last = codes.shape[1] - 1
    _copy(codes, rows, np.uint64(0), np.uint64(last), columns[0], columns[last])
    for f in range(1, last, 2):
        _copy(codes, rows, np.uint64(f), np.uint64(f + 1), columns[f], columns[f + 1])


@kernel
def _copy(codes: Any, rows: Any, f: Any, g: Any, one: Any, other: Any) -> None:
    """Two columns of some rows: going through ``rows`` costs as much as a column does."""
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        one[i] = codes[row, f]
        other[i] = codes[row, g]


@kernel
def _take_split(column: Any, low: Any, width: Any, node: Any, left: Any, here: Any) -> Any:
    """Rows that are at a node go to its left child, or to the one after that; how many go there."""
    n_right = np.uint16(0)
    for i in range(len(here)):
        right = np.uint16(np.uint32(column[i] - low) > width)
        at = here[i] == node
        here[i] = np.uint16(left + right) if at else here[i]
        n_right = np.uint16(n_right + (right if at else np.uint16(0)))
    return n_right


@kernel
def _share_out(codes: Any, order: Any, made: Any, place: Any, block: _Block, stop: Any) -> Any:
    """Take all rows of a node through its block, a batch at a time; how many comparisons that were."""
    n, paths, n_rows = len(order), block.paths, block.n_rows
    n_rows[0], n_rows[1:made] = n, 0
    for done in range(0, n, _BATCH):
        if stop[0]:
            break
        end = min(done + _BATCH, n)
        _gather(codes, order[done:end], block.columns)
        here = place[done:end]
        here[:] = 0
        for g in range(made):
            if paths[g, 3] != g:
                f, low, width, left = paths[g]
                n_rows[left + 1] += _take_split(
                    block.columns[f], low, width, np.uint16(g), np.uint16(left), here
                )
    for g in range(made):
        left = paths[g, 3]
        if left != g:
            n_rows[left] = n_rows[g] - n_rows[left + 1]
    return n * (made // 2)


@kernel
def _sort(made: Any, place: Any, order: Any, spare: Any, block: _Block) -> None:
    """Sort the rows of a block by where they end: those of a left child before those of the right."""
    n, start, at = block.n_rows[0], block.start, block.at
    start[0] = 0
    for g in range(made):
        at[g], left = start[g], block.paths[g, 3]
        if left != g:
            start[left], start[left + 1] = start[g], start[g] + block.n_rows[left]
    for i in range(n):
        g = place[i]
        spare[at[g]] = order[i]
        at[g] += 1
    order[:] = spare[:n]


@kernel
def _keep(nodes: Nodes, size: Any, node: Any, made: Any, small: Any, block: _Block) -> Any:
    """Keep the nodes of a block that have rows and a parent that is kept and not small.

    Returns the new number of nodes, and how many splits are on the ways of the rows.
    """
    begin, walked = nodes.start[node], nodes.n_rows[node]
    for g in range(1, made):
        above = block.above[g]
        up, n = block.node[above], block.n_rows[g]
        if up < 0 or n == 0 or (above > 0 and block.n_rows[above] < small):
            block.node[g] = -1
            continue
        old, block.node[g] = block.node[g], size
        nodes.key[size], nodes.up[size], nodes.side[size] = nodes.key[old], up, nodes.side[old]
        nodes.level[size] = nodes.level[old]
        nodes.start[size], nodes.n_rows[size] = begin + block.start[g], n
        nodes.feature[size] = nodes.feature[old] if n >= small else NO_SPLIT
        nodes.cut[size] = nodes.cut[old]
        nodes.missing_left[size] = nodes.missing_left[old]
        if nodes.feature[size] != NO_SPLIT:
            walked += n
        size += 1
    return size, walked


@kernel
def find_room(nodes: Nodes, node: Any, features: Features) -> Any:
    """What is left to tell apart at a node."""
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
def divide(table: Table, features: Features, nodes: Nodes, size: Any, node: Any, split: Any) -> Any:
    """Give one node a split that somebody chose, and share out its rows. Its children come last."""
    feature, cut, missing_left = split
    nodes = _reserve(nodes, size, 2)
    nodes.feature[node], nodes.cut[node], nodes.missing_left[node] = feature, cut, missing_left
    low, width = interval(cut, features.categorical[feature], missing_left)
    begin, n = nodes.start[node], nodes.n_rows[node]
    order, aside = table.order[begin : begin + n], np.empty(n, dtype=np.int32)
    n_left = _partition(table.codes[:, feature], low, width, order, aside)
    for side, first, last in ((LEFT, 0, n_left), (RIGHT, n_left, n)):
        if first < last:
            nodes.key[size], nodes.up[size] = child_key(nodes.key[node], side), node
            nodes.side[size], nodes.level[size] = side, nodes.level[node] + 1
            nodes.start[size], nodes.n_rows[size] = begin + first, last - first
            nodes.feature[size] = NO_SPLIT
            size += 1
    return nodes, size


@kernel
def _partition(column: Any, low: Any, width: Any, rows: Any, aside: Any) -> Any:
    """Left rows to the front, right rows to the end, and no branch to mispredict; how many go left."""
    n_left, n_right = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        right = np.uint32(column[np.uint64(row)] - low) > width
        rows[n_left] = aside[n_right] = row
        n_left, n_right = n_left + (not right), n_right + right
    for i in range(n_right):
        rows[n_left + i] = aside[i]
    return n_left


@kernel
def _new_block(n_features: Any) -> Any:
    n = 2 * _BLOCK
    return _Block(
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty((n, n_features), dtype=np.uint32),
        np.empty((n, n_features), dtype=np.uint32),
        np.empty((n, 4), dtype=np.uint32),
        np.empty((n_features, _NEAR), dtype=np.uint32),
        np.empty(_NEAR, dtype=np.int32),
        np.empty(_NEAR, dtype=np.uint16),
    )


@kernel
def _longer(array: Any, room: Any) -> Any:
    out = np.empty(room, dtype=array.dtype)
    out[: len(array)] = array
    return out


@kernel
def _reserve(nodes: Any, size: Any, more: Any) -> Any:
    """The same nodes with room for so many more."""
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
