"""Trees from a table in memory.

In: encoded rows and the noise to use. Out: pruned trees, and which rows are in which leaf. Private
counts live only inside ``prune``, which takes the paper's steps one after the other:

1. ``_grow`` splits the rows from the root down to nodes so small that they are left asleep;
2. ``_wake`` expands the few sleeping nodes below which a threshold query could pass (``thinning``);
3. ``mark_tree`` is MarkHeavyHitters, with one coin for each node;
4. ``_release`` keeps Heavy nodes as splits, and their Light children as leaves.

A block is several levels of splits. They are known before any row is read, so each row walks through
a block in one go and goes straight to its place at the bottom: a tree reads the table a few times, not
once for each level.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import Codes
from lumberjack.heavy_hitters import HEAVY, mark_tree
from lumberjack.kernels import kernel
from lumberjack.noise import Bits, Words
from lumberjack.structure import (
    LEFT,
    NO_SPLIT,
    RIGHT,
    Features,
    child_key,
    choose_split,
    interval,
    narrow,
    root_room,
)
from lumberjack.thinning import Thinning
from lumberjack.tree import LEAF, Tree

__all__ = ["Leaves", "prune"]

Integers = NDArray[np.int64]

_BLOCK_LEVELS = 8  # 255 splits of 12 bytes: they stay in the first-level cache
_BATCH = 256  # rows that walk together


class Coin(Protocol):
    """What ``prune`` asks of a threshold: ``noise.ThresholdCoin``, or a stand-in without noise."""

    def draw(self, counts: Integers, bits: Bits, keys: Words | None) -> NDArray[np.bool_]:
        """One answer for each count."""


@dataclass(frozen=True)
class Leaves:
    """The rows in each leaf of a pruned tree: private, and never kept.

    Attributes
    ----------
    keys : ndarray of uint64, shape (n_leaves,)
        Keys of the leaves, for seeded noise.
    rows : ndarray of int32, shape (n_rows,)
        Rows of the table, those of one leaf next to each other.
    start, count : ndarray of int64, shape (n_leaves,)
        Where in ``rows`` a leaf's rows are.
    """

    keys: Words
    rows: NDArray[np.int32]
    start: Integers
    count: Integers


class Work(NamedTuple):
    """What a tree cost, in units that do not depend on the machine.

    Attributes
    ----------
    nodes : int
        Nodes that were made, sleeping ones included.
    steps : int
        Splits that rows were taken through.
    moves : int
        Times that a row (its index of 4 bytes) was moved.
    """

    nodes: int
    steps: int
    moves: int


class _Nodes(NamedTuple):
    """Nodes of a growing tree, parents before children. Empty ones are not made.

    ``start`` and ``n_rows`` are a node's rows, a segment of all rows: children share out their parent's
    segment, so it stays valid for all ancestors. ``first`` and ``last``, with a column for each feature,
    are what is left to tell apart (``structure.narrow``).
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
    first: Codes
    last: Codes


def prune(
    codes: Codes,
    features: Features,
    root_key: np.uint64,
    height: int,
    coin: Coin,
    bits: Bits,
    *,
    thinning: Thinning | None = None,
    stop: NDArray[np.bool_] | None = None,
) -> tuple[Tree, Leaves, Work]:
    """Grow one random tree and keep its Heavy nodes as splits.

    Parameters
    ----------
    thinning : Thinning or None
        Leaves small nodes asleep, with the same distribution of trees. None expands every node.
    stop : ndarray of bool, shape (1,), or None
        Set from another thread, it ends the work soon; the result is then of no use.

    Returns
    -------
    tree : Tree
        Split nodes and leaves; a Light root, or one that cannot be split, is the one leaf.
    leaves : Leaves
        The rows in each leaf.
    work : Work
        What it cost.

    Formal guarantees
    -----------------
    ``tree`` depends on the rows only through ``coin`` and ``thinning``, whose answers together are
    distributed as one coin for each node, seen only where MarkHeavyHitters asks; each row is in at
    most 1 + floor(log2 height) of the counts asked about.
    """
    small = 1 if thinning is None else thinning.small
    stop = np.zeros(1, dtype=np.bool_) if stop is None else stop
    rows = np.arange(len(codes), dtype=np.int32)
    public = (features.sizes, features.categorical, features.chances)
    nodes, size, steps, moves = _grow(codes, public, root_key, height, small, rows, stop)
    answers = np.zeros(size, dtype=np.bool_)
    awake = np.flatnonzero((nodes.n_rows[:size] >= small) & (nodes.level[:size] < height))
    keys = None if bits.seed is None else nodes.key[awake]
    answers[awake] = coin.draw(nodes.n_rows[awake], bits, keys)
    if thinning is not None:
        nodes, answers = _wake(codes, public, height, nodes, answers, rows, thinning, bits)
    marks = mark_tree(nodes.level[: len(answers)], nodes.up, answers, height)
    *arrays, leaf_keys, segment = _release(nodes, marks)
    tree = Tree(*arrays)
    start = np.where(segment < 0, 0, nodes.start[segment])
    count = np.where(segment < 0, 0, nodes.n_rows[segment])
    return tree, Leaves(leaf_keys, rows, start, count), Work(len(answers), steps, moves)


def _wake(
    codes: Codes,
    public: Any,
    height: int,
    nodes: _Nodes,
    answers: NDArray[np.bool_],
    rows: NDArray[np.int32],
    thinning: Thinning,
    bits: Bits,
) -> tuple[_Nodes, NDArray[np.bool_]]:
    """Expand sleeping nodes along their candidates, and answer the queries there."""
    size = len(answers)
    asleep = np.flatnonzero((nodes.n_rows[:size] < thinning.small) & (nodes.level[:size] < height))
    keys = None if bits.seed is None else nodes.key[asleep]
    levels = height - nodes.level[asleep].astype(np.int64)
    found = thinning.draw(nodes.n_rows[asleep], levels, bits, keys)
    passed: list[int] = []
    for which, slots in found:
        top = int(asleep[which])
        most = int(nodes.n_rows[top])
        here = rows[nodes.start[top] : nodes.start[top] + most]
        # By their codes: which rows are candidates must not depend on the order of the table.
        by_code = here[np.lexsort(codes[here].T[::-1])]
        level = int(nodes.level[top])
        candidates = [(level + slot // most, int(by_code[slot % most])) for slot in slots]
        pending = [(top, candidates)]
        while pending:
            node, candidates = pending.pop()
            level = int(nodes.level[node])
            if any(at == level for at, _ in candidates) and thinning.accepts(
                int(nodes.n_rows[node]), most, bits, nodes.key[node : node + 1]
            ):
                passed.append(node)
            first = size
            nodes, size = _split(codes, public, node, nodes, size, rows)
            for child in range(first, size):
                begin = nodes.start[child]
                inside = set(rows[begin : begin + nodes.n_rows[child]].tolist())
                below = [(at, row) for at, row in candidates if at > level and row in inside]
                if below:
                    pending.append((child, below))
    out = np.zeros(size, dtype=np.bool_)
    out[: len(answers)] = answers
    out[passed] = True
    return nodes, out


@kernel
def _split(codes: Any, public: Any, node: Any, nodes: Any, size: Any, rows: Any) -> Any:
    """Split one node; its children come last."""
    n = nodes.n_rows[node]
    spare, place = np.empty(n, dtype=rows.dtype), np.empty(n, dtype=np.uint16)
    stop = np.zeros(1, dtype=np.bool_)
    nodes = _reserve(nodes, size, 2)
    size, _ = _split_block(codes, public, node, 1, 0, nodes, size, rows, spare, place, stop)
    return nodes, size


@kernel
def _grow(codes: Any, public: Any, root_key: Any, height: Any, small: Any, rows: Any, stop: Any) -> Any:
    """All nodes of at least ``small`` rows down to level ``height``, and their children."""
    n = len(rows)
    spare, place = np.empty(n, dtype=rows.dtype), np.empty(n, dtype=np.uint16)
    nodes = _reserve(_no_nodes(codes.shape[1]), 0, 4096)
    nodes.key[0], nodes.up[0], nodes.side[0], nodes.level[0] = root_key, -1, 0, 0
    nodes.start[0], nodes.n_rows[0], nodes.feature[0] = 0, n, NO_SPLIT
    root_room(public[0], public[1], nodes.first[0], nodes.last[0])
    size, steps, moves = 1, 0, 0
    # Depth first: the rows of a block are still in the cache when the next one reads them.
    waiting = [0]
    while waiting and not stop[0]:
        node = waiting.pop()
        n_rows, below = nodes.n_rows[node], height - nodes.level[node]
        levels = 1
        while levels < min(below, _BLOCK_LEVELS) and (small << levels) >> 1 <= n_rows:
            levels += 1
        nodes = _reserve(nodes, size, 2 << levels)
        first = size
        size, walked = _split_block(
            codes, public, node, levels, small, nodes, size, rows, spare, place, stop
        )
        steps, moves = steps + walked * n_rows, moves + (n_rows if walked else 0)
        for i in range(first, size):
            if nodes.feature[i] == NO_SPLIT and nodes.n_rows[i] >= small and nodes.level[i] < height:
                waiting.append(i)
    return nodes, size, steps, moves


@kernel
def _split_block(
    codes: Any,
    public: Any,
    node: Any,
    levels: Any,
    small: Any,
    nodes: Any,
    size: Any,
    rows: Any,
    spare: Any,
    place: Any,
    stop: Any,
) -> Any:
    """Split a node and the nodes below it, ``levels`` deep, and share out its rows.

    Inside a block nodes are numbered like a heap: 1 is the given node, 2 g and 2 g + 1 are the children
    of g. Nodes below one of fewer than ``small`` rows are not kept. Returns the new number of nodes,
    and how many splits each row went through.
    """
    sizes, categorical, chances = public
    bottom = 1 << levels
    feature, low = np.zeros(bottom, dtype=np.uint32), np.zeros(bottom, dtype=np.uint32)
    width = np.full(bottom, 0xFFFFFFFF, dtype=np.uint32)
    number = np.full(2 * bottom, -1, dtype=np.int64)
    number[1] = node
    # The splits of the block, from the top. Its nodes are written behind all others for now.
    for g in range(1, bottom):
        p = number[g]
        if p < 0:
            continue
        f, c, m = choose_split(
            p,
            nodes.key[p],
            sizes,
            categorical,
            chances,
            nodes.first[p],
            nodes.last[p],
            nodes.up,
            nodes.feature,
            nodes.cut,
        )
        nodes.feature[p], nodes.cut[p], nodes.missing_left[p] = f, c, m
        if f == NO_SPLIT:
            continue
        feature[g] = f
        low[g], width[g] = interval(c, categorical[f], m)
        for side in (LEFT, RIGHT):
            child = size + 2 * g + side - 2
            number[2 * g + side] = child
            nodes.key[child], nodes.up[child] = child_key(nodes.key[p], side), p
            nodes.side[child], nodes.level[child] = side, nodes.level[p] + 1
            nodes.feature[child] = NO_SPLIT
            _copy_room(nodes, p, child)
            narrow(f, c, side, categorical, nodes.first[child], nodes.last[child])
    if nodes.feature[node] == NO_SPLIT:
        return size, 0
    # Every row walks down the block: a batch of them at a time, copied so that they are next to each
    # other in the cache, and one level at a time, since steps of different rows do not wait for another.
    begin, end = nodes.start[node], nodes.start[node] + nodes.n_rows[node]
    count = np.zeros(2 * bottom, dtype=np.int64)
    n_features = codes.shape[1]
    batch, here = np.empty(_BATCH * n_features, dtype=np.uint32), np.empty(_BATCH, dtype=np.uint32)
    for done in range(begin, end, _BATCH):
        if stop[0]:
            return size, 0
        n = min(_BATCH, end - done)
        for i in range(n):
            here[i] = 1
            row = rows[done + i]
            for f in range(n_features):
                batch[i * n_features + f] = codes[row, f]
        for _ in range(levels):
            for i in range(n):
                g = here[i]
                code = batch[np.uint64(i * n_features) + feature[g]]
                right = np.uint32(code - low[g]) > width[g]
                here[i] = (g << np.uint32(1)) | np.uint32(right)
        for i in range(n):
            place[done - begin + i] = here[i] - bottom
            count[here[i]] += 1
    # Rows that arrived at the same place come next to each other.
    start = np.zeros(2 * bottom, dtype=np.int64)
    at = 0
    for g in range(bottom, 2 * bottom):
        start[g] = at
        at += count[g]
    for i in range(end - begin):
        g = bottom + place[i]
        spare[start[g]] = rows[begin + i]
        start[g] += 1
    rows[begin:end] = spare[: end - begin]
    for g in range(bottom - 1, 0, -1):
        count[g] = count[2 * g] + count[2 * g + 1]
    # Keep the nodes that have rows and a parent that is kept and not small.
    start[1] = begin
    for g in range(2, 2 * bottom):
        up = number[g >> 1]
        if number[g] < 0:
            continue
        above = g >> 1
        start[g] = start[above] if g % 2 == 0 else start[above] + count[g - 1]
        if up < 0 or count[g] == 0 or (above > 1 and count[above] < small):
            number[g] = -1
            continue
        old, number[g] = number[g], size
        nodes.key[size], nodes.up[size], nodes.side[size] = nodes.key[old], up, nodes.side[old]
        nodes.level[size] = nodes.level[old]
        _copy_room(nodes, old, size)
        nodes.start[size], nodes.n_rows[size] = start[g], count[g]
        if g < bottom and count[g] >= small:
            nodes.feature[size], nodes.cut[size] = nodes.feature[old], nodes.cut[old]
            nodes.missing_left[size] = nodes.missing_left[old]
        else:
            nodes.feature[size] = NO_SPLIT
        size += 1
    return size, levels


@kernel
def _copy_room(nodes: Any, source: Any, target: Any) -> None:
    for f in range(nodes.first.shape[1]):
        nodes.first[target, f] = nodes.first[source, f]
        nodes.last[target, f] = nodes.last[source, f]


@kernel
def _no_nodes(n_features: Any) -> Any:
    return _Nodes(
        np.empty(0, dtype=np.uint64),
        np.empty(0, dtype=np.int32),
        np.empty(0, dtype=np.int8),
        np.empty(0, dtype=np.int32),
        np.empty(0, dtype=np.int64),
        np.empty(0, dtype=np.int64),
        np.empty(0, dtype=np.int32),
        np.empty(0, dtype=np.int64),
        np.empty(0, dtype=np.bool_),
        np.empty((0, n_features), dtype=np.uint32),
        np.empty((0, n_features), dtype=np.uint32),
    )


@kernel
def _longer(array: Any, room: Any) -> Any:
    out = np.empty((room, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out


@kernel
def _reserve(nodes: Any, size: Any, more: Any) -> Any:
    """The same nodes with room for so many more."""
    if size + more <= len(nodes.key):
        return nodes
    room = max(len(nodes.key) + len(nodes.key) // 2, size + more)
    return _Nodes(
        _longer(nodes.key, room),
        _longer(nodes.up, room),
        _longer(nodes.side, room),
        _longer(nodes.level, room),
        _longer(nodes.start, room),
        _longer(nodes.n_rows, room),
        _longer(nodes.feature, room),
        _longer(nodes.cut, room),
        _longer(nodes.missing_left, room),
        _longer(nodes.first, room),
        _longer(nodes.last, room),
    )


@kernel
def _release(nodes: Any, marks: Any) -> Any:
    """The pruned tree, level by level: Heavy nodes with their splits, and a leaf where a branch ends.

    Also the keys of the leaves, and the node whose rows each leaf has (-1: none was made, no rows).
    """
    size = len(marks)
    child = np.full((size, 2), -1, dtype=np.int64)
    n_heavy = 0
    for i in range(size):
        if marks[i] == HEAVY:
            n_heavy += 1
        if i > 0:
            child[nodes.up[i], nodes.side[i]] = i
    most = 2 * n_heavy + 1
    feature, cut = np.full(most, LEAF, dtype=np.int32), np.zeros(most, dtype=np.uint32)
    missing_left = np.zeros(most, dtype=np.bool_)
    left, right = np.full(most, -1, dtype=np.int32), np.full(most, -1, dtype=np.int32)
    source, key = np.full(most, -1, dtype=np.int64), np.zeros(most, dtype=np.uint64)
    segment, leaf_keys = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.uint64)
    source[0], key[0] = 0, nodes.key[0]
    made, n_leaves = 1, 0
    for i in range(most):
        if i == made:
            break
        node = source[i]
        if node >= 0 and marks[node] == HEAVY and nodes.feature[node] != NO_SPLIT:
            feature[i], cut[i] = nodes.feature[node], nodes.cut[node]
            missing_left[i] = nodes.missing_left[node]
            left[i], right[i] = made, made + 1
            for side in (LEFT, RIGHT):
                source[made], key[made] = child[node, side], child_key(key[i], side)
                made += 1
        else:
            left[i] = n_leaves
            segment[n_leaves], leaf_keys[n_leaves] = node, key[i]
            n_leaves += 1
    return (
        feature[:made],
        cut[:made],
        missing_left[:made],
        left[:made],
        right[:made],
        leaf_keys[:n_leaves],
        segment[:n_leaves],
    )
