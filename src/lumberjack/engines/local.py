"""Trees from a table in memory, several at a time in threads.

In: encoded rows and the noise to use. Out: pruned trees. Private counts live only inside ``prune``:
nodes are grown level by level, and only below those that MarkHeavyHitters has found Heavy.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import Codes
from lumberjack.heavy_hitters import HEAVY, mark_heavy_hitters, search_order
from lumberjack.kernels import kernel
from lumberjack.noise import Bits, ThresholdCoin
from lumberjack.paths import Level, make_level
from lumberjack.structure import LEFT, NO_SPLIT, RIGHT, Features, child_key, choose_split, goes_left
from lumberjack.tree import LEAF, Tree

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
) -> tuple[Tree, NDArray[np.uint64]]:
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


def _release(nodes: _Nodes, heavy: Integers, features: Features) -> tuple[Tree, NDArray[np.uint64]]:
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
    tree = Tree(
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
