"""The plain engine, kept as an oracle: what ``lumberjack.engines.local`` must be a faster version of.

Nodes are grown level by level, every row is followed to wherever the search asks, each query tosses its
own coin when it is asked, and a split finds what is left to tell apart by walking up its ancestors.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import MISSING, Codes
from lumberjack.kernels import kernel
from lumberjack.noise import Bits, ThresholdCoin
from lumberjack.paths import Level, make_level
from lumberjack.search import HEAVY, LIGHT, UNMARKED, _distinct, search_order
from lumberjack.structure import _TRIES, LEFT, NO_SPLIT, RIGHT, Features, _below, _word, child_key
from lumberjack.tree import LEAF

__all__ = ["prune"]

Integers = NDArray[np.int64]

_FIELDS = {
    "key": np.uint64,
    "up": np.int32,
    "side": np.int8,
    "start": np.int64,
    "count": np.int64,
    "feature": np.int32,
    "cut": np.int64,
    "missing_left": np.bool_,
}


@kernel
def goes_left(code: int, cut: int, categorical: bool, missing_left: bool) -> bool:
    """Whether a value takes the left branch: equal to the category, or at most the cell."""
    if categorical:
        return code == cut
    if code == MISSING:
        return missing_left
    return code <= cut


@kernel
def _room(
    node: Any, feature: Any, sizes: Any, categorical: Any, up: Any, side: Any, features: Any, cuts: Any
) -> Any:
    """First and last cell of a numeric feature at a node, or categories left and 0; (1, 0): none."""
    first, last, left = 0, sizes[feature] - 1, sizes[feature]
    while up[node] >= 0:
        here = side[node]
        node = up[node]
        if features[node] != feature:
            continue
        if categorical[feature]:
            if here == LEFT:
                return 1, 0  # the one category is known: nothing left to tell apart
            left -= 1
        elif here == LEFT:
            last = min(last, cuts[node])
        else:
            first = max(first, cuts[node] + 1)
    if categorical[feature]:
        return (0, left) if left > 0 else (1, 0)
    return (first, last) if first < last else (1, 0)


@kernel
def _used(node: Any, feature: Any, category: Any, up: Any, features: Any, cuts: Any) -> Any:
    while up[node] >= 0:
        node = up[node]
        if features[node] == feature and cuts[node] == category:
            return True
    return False


@kernel
def choose_split(
    node: Any,
    key: Any,
    sizes: Any,
    categorical: Any,
    chances: Any,
    up: Any,
    side: Any,
    features: Any,
    cuts: Any,
) -> Any:
    """Feature, cut and side of missing values of a node; feature NO_SPLIT when nothing is left.

    ``up``, ``side``, ``features`` and ``cuts`` are the tree so far: parent (-1 at the root), branch
    taken from it, and the splits of all proper ancestors.
    """
    feature, first, last = NO_SPLIT, 1, 0
    for attempt in range(_TRIES):
        u = float(_word(key, attempt) >> np.uint64(11)) * 2.0**-53
        feature = min(int(np.searchsorted(chances, u, "right")), len(sizes) - 1)
        first, last = _room(node, feature, sizes, categorical, up, side, features, cuts)
        if first <= last:
            break
    if first > last:
        # Hardly any feature has room: list those that do, and take one with its chance.
        total = 0.0
        for f in range(len(sizes)):
            a, b = _room(node, f, sizes, categorical, up, side, features, cuts)
            if a <= b:
                total += chances[f] - (chances[f - 1] if f else 0.0)
        rest = float(_word(key, _TRIES) >> np.uint64(11)) * 2.0**-53 * total
        feature = NO_SPLIT
        for f in range(len(sizes)):
            a, b = _room(node, f, sizes, categorical, up, side, features, cuts)
            if a <= b and rest >= 0.0:
                weight = chances[f] - (chances[f - 1] if f else 0.0)
                if weight > 0.0:
                    feature, first, last = f, a, b
                    rest -= weight
        if feature == NO_SPLIT:
            return NO_SPLIT, 0, False
    word = _word(key, _TRIES + 1)
    missing_left = bool(word & np.uint64(1))
    if not categorical[feature]:
        return feature, first + _below(word, last - first), missing_left
    draw = _TRIES + 1
    category = _below(word, sizes[feature])
    while _used(node, feature, category, up, features, cuts):
        draw += 1
        category = _below(_word(key, draw), sizes[feature])
    return feature, category, missing_left


def mark_heavy_hitters(levels, order, check_threshold, grow):
    """Algorithm 1 on levels that are made as the search needs them, never below a Light node."""
    marks = [np.zeros(len(level.count), dtype=np.int8) for level in levels]
    for low, middle, high in order:
        while len(levels) <= middle:
            # Here low is the first level not yet made, and all nodes just above it are marked.
            above = marks[-1] == HEAVY if len(levels) == low else np.ones(len(marks[-1]), dtype=bool)
            levels.append(grow(np.flatnonzero(above)))
            marks.append(np.zeros(len(levels[-1].count), dtype=np.int8))
        asked = np.flatnonzero(marks[middle] == UNMARKED)
        if not len(asked):
            continue
        passed = check_threshold(middle, asked)
        marks[middle][asked] = np.where(passed, HEAVY, LIGHT)
        nodes = asked[passed]
        for above in range(middle - 1, low - 1, -1):
            nodes = _distinct(levels[above + 1].parent[nodes])
            nodes = nodes[marks[above][nodes] == UNMARKED]
            marks[above][nodes] = HEAVY
        nodes = asked[~passed]
        for below in range(middle + 1, min(high, len(levels))):
            nodes = levels[below].children(nodes)
            marks[below][nodes] = LIGHT
    return marks


@dataclass(frozen=True)
class NaiveTree:
    """Split nodes and leaves, children anywhere; rows go down one by one."""

    feature: Any
    cut: Any
    missing_left: Any
    left: Any
    right: Any

    @property
    def n_leaves(self):
        return int(np.sum(self.feature == LEAF))

    def apply(self, codes, categorical):
        out = np.empty(len(codes), dtype=np.int32)
        _apply(codes, categorical, self.feature, self.cut, self.missing_left, self.left, self.right, out)
        return out


@kernel
def _apply(codes, categorical, feature, cut, missing_left, left, right, out):
    for i in range(len(codes)):
        node = 0
        while feature[node] != LEAF:
            f = feature[node]
            if goes_left(codes[i, f], cut[node], categorical[f], missing_left[node]):
                node = left[node]
            else:
                node = right[node]
        out[i] = left[node]


class _Nodes:
    """Nodes of one growing tree: flat arrays that double when full, by level.

    ``start`` and ``count`` are a node's rows, a segment of ``rows``: children share out their
    parent's segment, so it stays valid for all ancestors.
    """

    def __init__(self, root_key: np.uint64, n_rows: int) -> None:
        self.size = 1
        self.offsets = [0, 1]
        self.rows = np.arange(n_rows)
        for name, kind in _FIELDS.items():
            setattr(self, name, np.zeros(1024, dtype=kind))
        self.key[0], self.up[0], self.count[0], self.feature[0] = root_key, -1, n_rows, NO_SPLIT

    key: NDArray[np.uint64]
    up: NDArray[np.int32]
    side: NDArray[np.int8]
    start: Integers
    count: Integers
    feature: NDArray[np.int32]
    cut: Integers
    missing_left: NDArray[np.bool_]

    def reserve(self, more: int) -> None:
        """Make room for so many more nodes."""
        if self.size + more > len(self.key):
            for name in _FIELDS:
                old = getattr(self, name)
                new = np.zeros(max(2 * len(old), self.size + more), dtype=old.dtype)
                new[: self.size] = old[: self.size]
                setattr(self, name, new)

    def level(self, depth: int) -> slice:
        """Where the nodes of one level are."""
        return slice(self.offsets[depth], self.offsets[depth + 1])


def prune(
    codes: Codes,
    features: Features,
    root_key: np.uint64,
    height: int,
    coin: ThresholdCoin,
    bits: Bits,
) -> tuple[NaiveTree, NDArray[np.uint64]]:
    """Grow one random tree and keep its Heavy nodes as splits.

    Returns
    -------
    tree : Tree
        Split nodes and leaves; a Light root, or one that cannot be split, is the one leaf.
    leaf_keys : ndarray of uint64, shape (n_leaves,)
        Keys of the leaves, for seeded noise.

    Formal guarantees
    -----------------
    The data is read through ``coin`` alone: the result depends on the rows only through its answers,
    and each row is in at most 1 + floor(log2 height) of the counts that it is asked about.
    """
    nodes = _Nodes(root_key, len(codes))
    root = make_level(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), nodes.count[:1], 1)
    levels: list[Level] = [root]

    def grow(parents: Integers) -> Level:
        depth = len(levels)
        above = nodes.level(depth - 1)
        nodes.reserve(2 * len(parents))
        _split_nodes(parents + above.start, nodes, features, codes)
        made = slice(above.stop, nodes.size)
        nodes.offsets.append(nodes.size)
        side = nodes.side[made].astype(np.int64)
        parent = nodes.up[made].astype(np.int64) - above.start
        return make_level(parent, side, nodes.count[made], above.stop - above.start)

    def check_threshold(depth: int, asked: Integers) -> NDArray[np.bool_]:
        found = asked + nodes.offsets[depth]
        keys = None if bits.seed is None else nodes.key[found]
        return coin.draw(nodes.count[found], bits, keys)

    order: Iterator[tuple[int, int, int]] = search_order(height)
    marks = mark_heavy_hitters(levels, order, check_threshold, grow)
    heavy = np.concatenate(
        [np.flatnonzero(mark == HEAVY) + nodes.offsets[depth] for depth, mark in enumerate(marks)]
    )
    return _release(nodes, heavy, features)


def _split_nodes(parents: Integers, nodes: _Nodes, features: Features, codes: Codes) -> None:
    """Give each parent a split and share its rows out to its children; empty ones are not made."""
    nodes.size = _split_kernel(
        parents,
        codes,
        features.sizes,
        features.categorical,
        features.chances,
        nodes.rows,
        nodes.key,
        nodes.up,
        nodes.side,
        nodes.start,
        nodes.count,
        nodes.feature,
        nodes.cut,
        nodes.missing_left,
        nodes.size,
    )


def _release(nodes: _Nodes, heavy: Integers, features: Features) -> tuple[NaiveTree, NDArray[np.uint64]]:
    """The pruned tree: Heavy nodes with their splits, and a leaf wherever one of their branches ends."""
    number = {int(node): i for i, node in enumerate(heavy)}
    n = len(heavy)
    children = np.full((max(n, 1), 2), -1, dtype=np.int64)
    for node in heavy[1:]:
        children[number[int(nodes.up[node])], nodes.side[node]] = number[int(node)]
    splits, keys = [], []
    for node in heavy:
        feature, cut, missing_left = choose_split(
            int(node),
            nodes.key[node],
            features.sizes,
            features.categorical,
            features.chances,
            nodes.up,
            nodes.side,
            nodes.feature,
            nodes.cut,
        )
        splits.append((feature, cut, missing_left))
        keys.append(nodes.key[node])
    feature = [s[0] for s in splits] or [NO_SPLIT]
    cut, missing_left = [s[1] for s in splits] or [0], [s[2] for s in splits] or [False]
    left, right = children[:, LEFT].tolist(), children[:, RIGHT].tolist()
    leaf_keys: list[np.uint64] = []

    def new_leaf(key: np.uint64) -> int:
        feature.append(LEAF)
        cut.append(0)
        missing_left.append(False)
        left.append(len(leaf_keys))
        right.append(-1)
        leaf_keys.append(key)
        return len(feature) - 1

    for i in range(n):
        if feature[i] == NO_SPLIT:
            left[i] = len(leaf_keys)
            leaf_keys.append(keys[i])
            continue
        if left[i] < 0:
            left[i] = new_leaf(child_key(keys[i], LEFT))
        if right[i] < 0:
            right[i] = new_leaf(child_key(keys[i], RIGHT))
    if n == 0:
        left[0] = 0
        leaf_keys.append(nodes.key[0])
    tree = NaiveTree(
        np.array(feature, dtype=np.int32),
        np.array(cut, dtype=np.uint32),
        np.array(missing_left, dtype=np.bool_),
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
    )
    return tree, np.array(leaf_keys, dtype=np.uint64)


@kernel
def _split_kernel(
    parents: Any,
    codes: Any,
    sizes: Any,
    categorical: Any,
    chances: Any,
    rows: Any,
    key: Any,
    up: Any,
    side: Any,
    start: Any,
    count: Any,
    feature: Any,
    cut: Any,
    missing_left: Any,
    size: Any,
) -> Any:
    for p in parents:
        f, c, m = choose_split(p, key[p], sizes, categorical, chances, up, side, feature, cut)
        feature[p], cut[p], missing_left[p] = f, c, m
        if f == NO_SPLIT:
            continue
        low, high = start[p], start[p] + count[p] - 1
        while low <= high:  # left rows to the front of the segment, right rows to its end
            row = rows[low]
            if goes_left(codes[row, f], c, categorical[f], m):
                low += 1
            else:
                rows[low] = rows[high]
                rows[high] = row
                high -= 1
        for here, begin, n in (
            (LEFT, start[p], low - start[p]),
            (RIGHT, low, start[p] + count[p] - low),
        ):
            if n > 0:
                key[size] = child_key(key[p], here)
                up[size], side[size], start[size], count[size] = p, here, begin, n
                feature[size] = NO_SPLIT
                size += 1
    return size
