"""Random trees grown block by block: which rows are in which node.

In: encoded rows, and nodes waiting to be split. Out: the same nodes with the nodes grown below them, and
the rows sorted by node.

A block is a node and several levels below it. Splits do not depend on rows, so all rows go through the
splits of a block in one pass and then straight to their places: a tree reads the table three times, not
once for each level. Every row is compared with every split of the block. Most comparisons are wasted,
but the loop is branch-free and takes whole vectors of rows at a time.

This pays only for splits that many rows reach. If the rows of a block fit in the cache, all of them are
counted while the block is laid out. Otherwise a sample is counted first, and then all rows go through
the block, one batch at a time.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.growing import Limits, Nodes, add_children, find_room, reserve
from lumberjack.kernels import kernel
from lumberjack.kinds import Codes, shift_of
from lumberjack.structure import (
    LEFT,
    NO_SPLIT,
    RIGHT,
    Features,
    Room,
    Split,
    child_key,
    choose_split,
    interval,
    narrow,
)
from lumberjack.tree import end_path, lay_path, walk

__all__ = ["Grown", "Table", "Work", "grow", "lay_out", "place", "sort_rows"]

Integers = NDArray[np.int64]

_BLOCK = 256  # splits of a block, at most
_NEAR = 2048  # rows that fit in the cache
_SAMPLE = 512  # rows sampled from a larger block, to predict which nodes will be large
_PARTS = 24  # a node with less than 1/_PARTS of a block's rows is not split in that block
_BATCH = 768  # rows that go through a block together
assert max(_SAMPLE, _BATCH) <= _NEAR < 2**16  # they share buffers, and are counted in 16 bits


class Work(NamedTuple):
    """What a tree cost, in units that do not depend on the machine.

    Attributes
    ----------
    nodes : int
        Nodes made, sleeping ones included.
    steps : int
        Splits on the paths of all rows.
    tests : int
        Comparisons of a row with a split, many of them wasted.
    moves : int
        Moves of rows (of their 4-byte row ids).
    """

    nodes: int
    steps: int
    tests: int
    moves: int


class Grown(NamedTuple):
    """A tree after growing.

    Attributes
    ----------
    nodes : Nodes
        With spare capacity at the end.
    size : int
        Number of nodes.
    work : Work
        The cost of the new ones.
    """

    nodes: Nodes
    size: int
    work: Work


class Table(NamedTuple):
    """Encoded rows, and their order in a tree: the rows of one node are next to each other.

    Attributes
    ----------
    codes : ndarray of unsigned integers, shape (n_rows, n_features)
    order : ndarray of int32, shape (n_rows,)
        Row ids, sorted inside a node when it is split.
    """

    codes: Codes
    order: NDArray[np.int32]


class _Block(NamedTuple):
    """The nodes of a block, numbered from 0, parents before children, and work buffers.

    ``node`` is a node's number in the tree, ``above`` its parent's number in the block. ``n_rows`` is
    its number of rows: first in the sample, later in all. ``start`` is the position of its first row,
    ``at`` the position for the next one, and ``paths`` says where its rows go (``tree.walk``). ``first``
    and ``last`` are the room left in it (``structure.Room``), with a column for each feature.
    ``sample`` holds row ids, ``here`` the node of each of these rows, and ``columns`` the codes of the
    sample or of a batch, feature by feature.
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


class _Splits(NamedTuple):
    """What ``structure`` reads of a tree's nodes: kernels pass arrays by value, so each one costs."""

    key: NDArray[np.uint64]
    up: NDArray[np.int32]
    feature: NDArray[np.int32]
    cut: Integers


@kernel
def grow(
    table: Table, features: Features, nodes: Nodes, size: int, waiting: Integers, limits: Limits
) -> Grown:
    """Split waiting nodes, and all nodes below them that ``limits`` allow.

    Parameters
    ----------
    table : Table
        ``order`` is sorted in place, inside each node.
    features : Features
    nodes : Nodes
        The tree so far, its first ``size`` nodes.
    waiting : ndarray of int64
        Nodes to split.
    limits : Limits
    """
    most = 0
    for node in waiting:
        most = max(most, nodes.n_rows[node])
    spare, place = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.uint16)
    block = _new_block(len(features.sizes))
    old_size, steps, tests, moves = size, 0, 0, 0
    # Depth first: the rows of a block are still in the cache when the next one reads them.
    pending = list(waiting)
    while pending and not limits.stop[0]:
        node = pending.pop()
        if nodes.n_rows[node] < limits.small:
            continue
        nodes = reserve(nodes, size, 2 * _BLOCK)
        made, tested = _lay_out_block(table, features, nodes, size, node, limits, block)
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
    return Grown(nodes, size, Work(size - old_size, steps, tests, moves))


@kernel
def _lay_out_block(
    table: Table, features: Features, nodes: Nodes, size: Any, node: Any, limits: Limits, block: _Block
) -> Any:
    """Make the nodes of a block, and take a sample of its rows (all, if they are few) through it.

    New nodes are appended to the tree for now (``_keep`` removes some). Returns the number of nodes in
    the block, and the number of comparisons.
    """
    begin, n = nodes.start[node], nodes.n_rows[node]
    n_seen = n if n <= _NEAR else _SAMPLE
    # The sample decides the shape of the block, and so its speed, but nothing else.
    enough = max(limits.small * n_seen / n, n_seen / _PARTS)
    for i in range(n_seen):
        block.sample[i] = table.order[begin + i * n // n_seen]
    _gather(table.codes, block.sample[:n_seen], block.columns)
    here = block.here[:n_seen]
    here[:] = 0
    block.node[0], block.n_rows[0] = node, n_seen
    block.first[0], block.last[0] = find_room(nodes, node, features)
    splits = _Splits(nodes.key, nodes.up, nodes.feature, nodes.cut)
    made, g, tests = 1, 0, 0
    while g < made:
        p = block.node[g]
        split = Split(NO_SPLIT, 0, False)
        large = g == 0 or block.n_rows[g] >= enough
        if large and nodes.level[p] < limits.height and made + 2 <= len(block.node):
            room = Room(block.first[g], block.last[g])
            if g > 0:
                up = block.above[g]
                for f in range(len(room.first)):
                    room.first[f], room.last[f] = block.first[up, f], block.last[up, f]
                narrow(splits, nodes.up[p], nodes.side[p], features, room)
            split = choose_split(splits, p, features, room)
        f = split.feature
        nodes.feature[p], nodes.cut[p], nodes.missing_left[p] = f, split.cut, split.missing_left
        if f == NO_SPLIT:
            end_path(block.paths, g)
        else:
            lay_path(block.paths, g, f, split.cut, features.categorical[f], split.missing_left, made)
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
    """Copy the codes of some rows, column by column, so that memory loads of many rows overlap.

    First and last column come first: a row of up to 17 features lies in at most two cache lines.
    """
    last = codes.shape[1] - 1
    _copy(codes, rows, np.uint64(0), np.uint64(last), columns[0], columns[last])
    for f in range(1, last, 2):
        _copy(codes, rows, np.uint64(f), np.uint64(f + 1), columns[f], columns[f + 1])


@kernel
def _copy(codes: Any, rows: Any, f: Any, g: Any, one: Any, other: Any) -> None:
    """Copy two columns of some rows at once: reading ``rows`` costs as much as reading a column."""
    shift = shift_of(codes)
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        one[i] = np.uint32(codes[row, f]) - shift
        other[i] = np.uint32(codes[row, g]) - shift


@kernel
def _take_split(column: Any, low: Any, width: Any, node: Any, left: Any, here: Any) -> Any:
    """Move the rows at a node to its left child or to the next node; returns how many go right."""
    n_right = np.uint16(0)
    for i in range(len(here)):
        right = np.uint16(np.uint32(column[i] - low) > width)
        at = here[i] == node
        here[i] = np.uint16(left + right) if at else here[i]
        n_right = np.uint16(n_right + (right if at else np.uint16(0)))
    return n_right


@kernel
def _share_out(codes: Any, order: Any, made: Any, place: Any, block: _Block, stop: Any) -> Any:
    """Take all rows of a node through its block in batches; returns the number of comparisons."""
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
    """Sort the rows of a block by the node where they end: left children before right ones."""
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
    for i in range(n):
        order[i] = spare[i]


@kernel
def _keep(nodes: Nodes, size: Any, node: Any, made: Any, small: Any, block: _Block) -> Any:
    """Keep the nodes of a block that have rows, and whose parent is kept and not small.

    Returns the new number of nodes, and the number of splits on the paths of the rows.
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
def _partition(column: Any, low: Any, width: Any, rows: Any, aside: Any) -> Any:
    """Move left rows to the front and right rows to the end, branch-free; returns how many go left.

    Left go those whose code - low <= width, in 32 bits.
    """
    low = np.uint32(low + shift_of(column))
    n_left, n_right = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        right = np.uint32(np.uint32(column[np.uint64(row)]) - low) > width
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
def place(table: Table, features: Features, nodes: Nodes, first: int, size: int) -> None:
    """Sort the rows of nodes first to size - 1, whose parents' rows are sorted already."""
    for i in range(first, size):
        up = nodes.up[i]
        if i > first and nodes.up[i - 1] == up:
            continue  # its sibling came first
        begin, n, f = nodes.start[up], nodes.n_rows[up], nodes.feature[up]
        low, width = interval(nodes.cut[up], features.categorical[f], nodes.missing_left[up])
        order, aside = table.order[begin : begin + n], np.empty(n, dtype=np.int32)
        _partition(table.codes[:, f], low, width, order, aside)


@kernel
def lay_out(
    table: Table, features: Features, nodes: Nodes, size: int, waiting: Integers, limits: Limits
) -> tuple[Nodes, int]:
    """Split waiting nodes, and the nodes below them that are large in a sample of the rows.

    ``start`` and ``n_rows`` of the nodes refer to the sample. Waiting nodes are always split, and both
    children of each split are made: counts of all rows decide what is kept (``growing.settle``).
    """
    aside = np.empty(len(table.order), dtype=np.int32)
    pending = [(node, True) for node in waiting]
    while pending and not limits.stop[0]:
        node, waits = pending.pop()
        begin, n = nodes.start[node], nodes.n_rows[node]
        if nodes.level[node] >= limits.height or not (waits or n >= limits.small):
            continue
        split = choose_split(nodes, node, features, find_room(nodes, node, features))
        f = split.feature
        if f == NO_SPLIT:
            continue
        nodes.feature[node], nodes.cut[node], nodes.missing_left[node] = split
        low, width = interval(split.cut, features.categorical[f], split.missing_left)
        n_left = _partition(table.codes[:, f], low, width, table.order[begin : begin + n], aside)
        nodes, size = add_children(nodes, size, node, n_left, True)
        pending.append((size - 2, False))
        pending.append((size - 1, False))
    return nodes, size


def sort_rows(codes: Codes, features: Features, nodes: Nodes, size: int) -> tuple[Integers, Integers]:
    """The node where each row ends, and the number of rows in each node, descendants included."""
    paths, node_of = _lay_nodes(nodes, size, features.categorical)
    where = np.empty(len(codes), dtype=np.int64)
    walk(codes, np.arange(len(codes), dtype=np.int32), paths, where)
    where = node_of[where]
    if (where < 0).any():
        raise ValueError("the table changed while the model was trained; train on a copy")
    count = np.bincount(where, minlength=size)
    _add_up(nodes.up, count)
    return where, count


@kernel
def _lay_nodes(
    nodes: Nodes, size: int, categorical: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], Integers]:
    """A growing tree as ``walk`` reads it, and the node of each path; -1 if there is none."""
    child = np.full((size, 2), -1, dtype=np.int64)
    for i in range(1, size):
        child[nodes.up[i], nodes.side[i]] = i
    paths = np.empty((2 * size + 1, 4), dtype=np.uint32)
    node_of = np.empty(2 * size + 1, dtype=np.int64)
    node_of[0], made, g = 0, 1, 0
    while g < made:
        node = node_of[g]
        if node < 0 or (child[node, LEFT] < 0 and child[node, RIGHT] < 0):
            end_path(paths, g)
        else:
            f = nodes.feature[node]
            lay_path(paths, g, f, nodes.cut[node], categorical[f], nodes.missing_left[node], made)
            node_of[made], node_of[made + 1] = child[node, LEFT], child[node, RIGHT]
            made += 2
        g += 1
    return paths[:made], node_of[:made]


@kernel
def _add_up(up: NDArray[np.int32], count: Integers) -> None:
    """Add the rows of each node to its parent's."""
    for i in range(len(count) - 1, 0, -1):
        count[up[i]] += count[i]
