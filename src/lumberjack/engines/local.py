"""Trees from a table in memory.

In: encoded rows and the noise to use. Out: pruned trees, and which rows are in which leaf. Private
counts live only inside ``prune``, which takes the paper's steps one after the other:

1. ``_guide`` lets the exponential mechanism choose the splits of the first levels, if it is asked to;
   ``_grow`` splits the rows at random from there down to nodes so small that they are left asleep;
2. ``_wake`` expands the few sleeping nodes below which a threshold query could pass (``thinning``);
3. ``mark_tree`` is MarkHeavyHitters, with one coin for each node;
4. ``_release`` keeps Heavy nodes as splits, and their Light children as leaves.

A block is a node and several levels below it. Random splits do not depend on rows, so each row walks
through a block in one go and then straight to its place: a tree reads the table a few times, not once
for each level.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import Codes
from lumberjack.guided import Guide
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
from lumberjack.tree import LEAF, Tree, end_path, lay_path, walk

__all__ = ["Leaves", "prune"]

Integers = NDArray[np.int64]

_BLOCK = 512  # splits of a block: with 12 bytes each they stay in the first-level cache
_NEAR = 2048  # rows that fit in the cache, and are shared out node by node
_SAMPLE = 512  # of more rows, those that tell which nodes will be large
_SEEN = 4  # of them in a node, for it to be split
_ROWS = 1 << 14  # rows between two looks at the stop flag


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
    are what is left to tell apart (``structure.narrow``), filled in when a node is split.
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
    guide: Guide | None = None,
    thinning: Thinning | None = None,
    stop: NDArray[np.bool_] | None = None,
) -> tuple[Tree, Leaves, Work]:
    """Grow one tree and keep its Heavy nodes as splits.

    Parameters
    ----------
    guide : Guide or None
        Chooses the splits of the first levels. None: all splits are random.
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
    ``tree`` depends on the rows only through ``guide``, ``coin`` and ``thinning``. The answers of the
    last two together are distributed as one coin for each node, seen only where MarkHeavyHitters asks;
    each row is in at most 1 + floor(log2 height) of the counts asked about. Every node on a guided
    level chooses, with no regard to how many rows it has: of nodes that are not made, or stay asleep,
    the choice is never seen and so is not drawn.
    """
    small = 1 if thinning is None else thinning.small
    stop = np.zeros(1, dtype=np.bool_) if stop is None else stop
    rows = np.arange(len(codes), dtype=np.int32)
    public = (features.sizes, features.categorical, features.chances)
    nodes, size = _new_tree(public, root_key, len(rows)), 1
    if guide is not None:
        nodes, size = _guide(codes, public, height, small, guide, nodes, size, rows, bits, stop)
    nodes, size, steps, moves = _grow(codes, public, height, small, nodes, size, rows, stop)
    answers = np.zeros(size, dtype=np.bool_)
    awake = np.flatnonzero((nodes.n_rows[:size] >= small) & (nodes.level[:size] < height))
    keys = None if bits.seed is None else nodes.key[awake]
    answers[awake] = coin.draw(nodes.n_rows[awake], bits, keys)
    if thinning is not None:
        nodes, answers = _wake(codes, public, height, guide, nodes, answers, rows, thinning, bits)
    marks = mark_tree(nodes.level[: len(answers)], nodes.up, answers, height)
    *arrays, leaf_keys, segment = _release(nodes, marks)
    tree = Tree(*arrays)
    start = np.where(segment < 0, 0, nodes.start[segment])
    count = np.where(segment < 0, 0, nodes.n_rows[segment])
    return tree, Leaves(leaf_keys, rows, start, count), Work(len(answers), steps, moves)


def _guide(
    codes: Codes,
    public: Any,
    height: int,
    small: int,
    guide: Guide,
    nodes: _Nodes,
    size: int,
    rows: NDArray[np.int32],
    bits: Bits,
    stop: NDArray[np.bool_],
) -> tuple[_Nodes, int]:
    """Split all nodes of at least ``small`` rows on the guided levels."""
    node = 0
    while node < size and nodes.level[node] < min(guide.levels, height) and not stop[0]:
        if nodes.n_rows[node] >= small:
            nodes, size = _split_guided(codes, public, guide, node, nodes, size, rows, bits)
        node += 1
    return nodes, size


def _split_guided(
    codes: Codes,
    public: Any,
    guide: Guide,
    node: int,
    nodes: _Nodes,
    size: int,
    rows: NDArray[np.int32],
    bits: Bits,
) -> tuple[_Nodes, int]:
    """Split one node where its guide says, or at random if there is nothing to choose from."""
    _find_room(nodes, node, public[1])
    here = rows[nodes.start[node] : nodes.start[node] + nodes.n_rows[node]]
    chosen = guide.choose(codes, here, node, nodes, bits)
    if chosen is None:
        nodes, size = _split(codes, public, node, nodes, size, rows)
    else:
        nodes, size = _divide(codes, public, node, chosen, nodes, size, rows)
    return nodes, size


def _wake(
    codes: Codes,
    public: Any,
    height: int,
    guide: Guide | None,
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
            if guide is not None and level < guide.levels:
                nodes, size = _split_guided(codes, public, guide, node, nodes, size, rows, bits)
            else:
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
    spare, place = np.empty(n, dtype=rows.dtype), np.empty(n, dtype=np.int32)
    stop = np.zeros(1, dtype=np.bool_)
    nodes, block = _reserve(nodes, size, 4), _new_block(2, codes.shape[1])
    below = nodes.level[node] + 1
    size, _ = _split_block(
        codes, public, node, below, n + 1, nodes, size, rows, spare, place, block, stop
    )
    return nodes, size


@kernel
def _divide(codes: Any, public: Any, node: Any, split: Any, nodes: Any, size: Any, rows: Any) -> Any:
    """Give a node its split and share out its rows; its children come last."""
    feature, cut, missing_left = split
    nodes = _reserve(nodes, size, 2)
    nodes.feature[node], nodes.cut[node], nodes.missing_left[node] = feature, cut, missing_left
    low, width = interval(cut, public[1][feature], missing_left)
    begin, n = nodes.start[node], nodes.n_rows[node]
    aside = np.empty(n, dtype=rows.dtype)
    here, column = rows[begin : begin + n], np.uint64(feature)
    n_left, n_right = np.uint64(0), np.uint64(0)
    for i in range(n):
        row = here[i]
        right = np.uint32(codes[np.uint64(row), column] - low) > width
        here[n_left] = aside[n_right] = row
        n_left, n_right = n_left + np.uint64(not right), n_right + np.uint64(right)
    middle = begin + np.int64(n_left)
    rows[middle : begin + n] = aside[:n_right]
    for side, first, last in ((LEFT, begin, middle), (RIGHT, middle, begin + n)):
        if first < last:
            nodes.key[size], nodes.up[size] = child_key(nodes.key[node], side), node
            nodes.side[size], nodes.level[size] = side, nodes.level[node] + 1
            nodes.start[size], nodes.n_rows[size], nodes.feature[size] = first, last - first, NO_SPLIT
            size += 1
    return nodes, size


@kernel
def _new_tree(public: Any, root_key: Any, n: Any) -> Any:
    """The root, with all rows."""
    nodes = _reserve(_no_nodes(len(public[0])), 0, 4 * _BLOCK)
    nodes.key[0], nodes.up[0], nodes.side[0], nodes.level[0] = root_key, -1, 0, 0
    nodes.start[0], nodes.n_rows[0], nodes.feature[0] = 0, n, NO_SPLIT
    root_room(public[0], public[1], nodes.first[0], nodes.last[0])
    return nodes


@kernel
def _grow(
    codes: Any, public: Any, height: Any, small: Any, nodes: Any, size: Any, rows: Any, stop: Any
) -> Any:
    """Split nodes of at least ``small`` rows, and those below them, down to level ``height``."""
    n = len(rows)
    spare, place = np.empty(n, dtype=rows.dtype), np.empty(n, dtype=np.int32)
    block = _new_block(_BLOCK, codes.shape[1])
    steps, moves = 0, 0
    # Depth first: the rows of a block are still in the cache when the next one reads them.
    waiting = [i for i in range(size) if nodes.feature[i] == NO_SPLIT and nodes.level[i] < height]
    while waiting and not stop[0]:
        node = waiting.pop()
        if nodes.n_rows[node] < small:
            continue
        nodes = _reserve(nodes, size, 2 * _BLOCK)
        first = size
        size, walked = _split_block(
            codes, public, node, height, small, nodes, size, rows, spare, place, block, stop
        )
        steps, moves = steps + walked, moves + (nodes.n_rows[node] if walked else 0)
        for i in range(first, size):
            if nodes.feature[i] == NO_SPLIT and nodes.n_rows[i] >= small and nodes.level[i] < height:
                waiting.append(i)
    return nodes, size, steps, moves


@kernel
def _split_block(
    codes: Any,
    public: Any,
    node: Any,
    height: Any,
    small: Any,
    nodes: Any,
    size: Any,
    rows: Any,
    spare: Any,
    place: Any,
    block: Any,
    stop: Any,
) -> Any:
    """Split a node, and the nodes below it that will be large, and share out its rows.

    Nodes below one of fewer than ``small`` rows are not kept. Returns the new number of nodes, and how
    many splits rows went through in all.
    """
    sizes, categorical, chances = public
    begin, n = nodes.start[node], nodes.n_rows[node]
    number, above, first, last, count, start, paths, near = block
    # A sample of the rows tells which nodes will be large. This decides what a block is, and so how
    # fast it goes: nothing else.
    n_sample = n if n <= _NEAR else _SAMPLE
    sample, aside = spare[:n_sample], place[:n_sample]
    n_features = np.uint64(codes.shape[1])
    for i in range(n_sample):
        sample[i] = i
        row = np.uint64(rows[begin + i * n // n_sample])
        for f in range(n_features):
            near[np.uint64(i) * n_features + f] = codes[row, f]
    enough = max(small * n_sample / n, 0.0 if n_sample == n else _SEEN)
    # The block's nodes, numbered from 0, each a node behind all others for now.
    number[0], first[0], last[0] = node, 0, n_sample
    made, g = 1, 0
    while g < made:
        p = number[g]
        f, c, m = NO_SPLIT, 0, False
        large = g == 0 or last[g] - first[g] >= enough
        if large and nodes.level[p] < height and made + 2 <= len(number):
            _find_room(nodes, p, categorical)
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
            end_path(paths, g)
        else:
            lay_path(paths, g, f, c, categorical[f], m, made)
            low, width = paths[g, 1], paths[g, 2]
            # Of the sample, left rows to the front, right rows to the end, and no branch to mispredict.
            middle, n_right = first[g], 0
            for i in range(first[g], last[g]):
                row = sample[i]
                right = np.uint32(near[np.uint64(row) * n_features + np.uint64(f)] - low) > width
                sample[middle] = aside[n_right] = row
                middle, n_right = middle + (not right), n_right + right
            for i in range(n_right):
                sample[middle + i] = aside[i]
            for side in (LEFT, RIGHT):
                child = size + made - 1
                number[made], above[made] = child, g
                first[made], last[made] = (first[g], middle) if side == LEFT else (middle, last[g])
                nodes.key[child], nodes.up[child] = child_key(nodes.key[p], side), p
                nodes.side[child], nodes.level[child] = side, nodes.level[p] + 1
                made += 1
        g += 1
    if made == 1:
        return size, 0
    count[:made] = 0
    if n_sample == n:
        for i in range(n):
            aside[i] = rows[begin + sample[i]]
        rows[begin : begin + n] = aside
        for g in range(made):
            count[g] = last[g] - first[g]
    else:
        for done in range(begin, begin + n, _ROWS):
            if stop[0]:
                return size, 0
            end = min(done + _ROWS, begin + n)
            walk(codes, rows[done:end], paths, place[done - begin : end - begin])
        for i in range(n):
            count[place[i]] += 1
        for g in range(made - 1, 0, -1):
            count[above[g]] += count[g]
    # A node's rows are its left child's, then its right child's.
    start[0] = 0
    for g in range(made):
        left = paths[g, 3]
        if left != g:
            start[left], start[left + 1] = start[g], start[g] + count[left]
    if n_sample < n:
        at = first  # of use no more
        at[:made] = start[:made]
        for i in range(n):
            g = place[i]
            spare[at[g]] = rows[begin + i]
            at[g] += 1
        rows[begin : begin + n] = spare[:n]
    # Keep the nodes that have rows and a parent that is kept and not small.
    walked = n
    for g in range(1, made):
        up = number[above[g]]
        if up < 0 or count[g] == 0 or (above[g] > 0 and count[above[g]] < small):
            number[g] = -1
            continue
        old, number[g] = number[g], size
        nodes.key[size], nodes.up[size], nodes.side[size] = nodes.key[old], up, nodes.side[old]
        nodes.level[size] = nodes.level[old]
        nodes.start[size], nodes.n_rows[size] = begin + start[g], count[g]
        if nodes.feature[old] != NO_SPLIT:
            _copy_room(nodes, old, size)
        nodes.feature[size] = nodes.feature[old] if count[g] >= small else NO_SPLIT
        nodes.cut[size] = nodes.cut[old]
        nodes.missing_left[size] = nodes.missing_left[old]
        if paths[g, 3] != g:
            walked += count[g]
        size += 1
    return size, walked


@kernel
def _new_block(n_splits: Any, n_features: Any) -> Any:
    """Room for the nodes of a block; see ``_split_block``."""
    n = 2 * n_splits
    return (
        np.empty(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty((n, 4), dtype=np.uint32),
        np.empty(_NEAR * n_features, dtype=np.uint32),
    )


@kernel
def _find_room(nodes: Any, node: Any, categorical: Any) -> None:
    """What is left to tell apart at a node: its parent's, but for the parent's split."""
    up = nodes.up[node]
    if up >= 0:
        _copy_room(nodes, up, node)
        narrow(
            nodes.feature[up],
            nodes.cut[up],
            nodes.side[node],
            categorical,
            nodes.first[node],
            nodes.last[node],
        )


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
    left = np.empty(most, dtype=np.int32)
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
            left[i] = made
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
        leaf_keys[:n_leaves],
        segment[:n_leaves],
    )
