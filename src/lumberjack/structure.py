"""Random splits as a pure function of the seed: the same tree in every engine.

In: a node's key, its ancestors' splits and the domain, public or learned before. Out: the node's split.
No state and no data: whoever knows the seed and the domain can grow the same trees.

A node's key mixes its parent's key and its side. From it come a feature (uniform over the features that
can still be split, or by public weights), then a cell uniform in the node's current range of that
feature, or a category that no ancestor used, and the side that missing numbers take.
"""

import hashlib
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import Domain
from lumberjack.kernels import kernel
from lumberjack.kinds import CELLS, MISSING, Categorical
from lumberjack.noise import mix

__all__ = [
    "LEFT",
    "NO_SPLIT",
    "RIGHT",
    "Features",
    "Room",
    "Split",
    "chance",
    "child_key",
    "choose_split",
    "interval",
    "is_used",
    "narrow",
    "root_keys",
    "root_room",
]

LEFT, RIGHT = 0, 1
NO_SPLIT = -1
_CHANCES = 2  # stands for a side in ``child_key``: no child has this key

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TRIES = 64  # random features tried before all are listed


class Features(NamedTuple):
    """The domain, public or learned before, as the kernels read it.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n_features,)
        Codes of each feature: cells of a range, parts between cuts, or categories.
    categorical : ndarray of bool, shape (n_features,)
    chances : ndarray of float64, shape (n_features,)
        Cumulative probabilities of the features, by which one is drawn.
    """

    sizes: NDArray[np.int64]
    categorical: NDArray[np.bool_]
    chances: NDArray[np.float64]

    @classmethod
    def of(cls, domain: Domain, weights: NDArray[np.float64] | None = None) -> "Features":
        """Describe a domain; ``weights`` are public chances of the features, uniform if None."""
        weights = np.ones(len(domain)) if weights is None else np.asarray(weights, dtype=float)
        return cls(
            np.array([kind.size for kind in domain.known], dtype=np.int64),
            np.array([isinstance(kind, Categorical) for kind in domain.kinds]),
            np.cumsum(weights) / weights.sum(),
        )


class Room(NamedTuple):
    """What the splits above a node leave to split, with one entry for each feature.

    Attributes
    ----------
    first, last : ndarray of uint32, shape (n_features,)
        For numbers, the first and the last cell of the range; for categories, 0 and the number of
        categories that no ancestor used. Where first < last, there is room for a split.
    """

    first: NDArray[np.uint32]
    last: NDArray[np.uint32]


class Split(NamedTuple):
    """How a node is split.

    Attributes
    ----------
    feature : int
        NO_SPLIT: nothing is left to split on.
    cut : int
        At most ``cut`` (numbers) or equal to it (categories) goes left.
    missing_left : bool
        Which way missing numbers go.
    """

    feature: int
    cut: int
    missing_left: bool


def root_keys(seed: int | None, n_trees: int) -> NDArray[np.uint64]:
    """Keys of the roots: from a seed, or fresh from the operating system. Never shared with noise."""
    secret = os.urandom(16) if seed is None else str(seed).encode()
    keys = [
        hashlib.blake2b(
            secret, digest_size=8, salt=tree.to_bytes(8, "little"), person=b"lumberjack tree"
        ).digest()
        for tree in range(n_trees)
    ]
    return np.frombuffer(b"".join(keys), dtype=np.uint64)


@kernel
def child_key(key: np.uint64, side: int) -> np.uint64:
    """Key of a node's left (0) or right (1) child."""
    return mix(key ^ mix(np.uint64(side + 1) * _GOLDEN))


@kernel
def _word(key: np.uint64, draw: int) -> np.uint64:
    """Draw number ``draw`` of a node: random bits that no child key shares."""
    return mix(mix(key + _GOLDEN) ^ mix(np.uint64(draw + 1000) * _GOLDEN))


@kernel
def _below(word: np.uint64, bound: Any) -> Any:
    """A number below bound from 32 bits: the bias is below bound / 2^32."""
    return np.int64(((word >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@kernel
def interval(cut: int, categorical: bool, missing_left: bool) -> tuple[np.uint32, np.uint32]:
    """The codes that go left, as (low, width): those with code - low <= width, in 32 bits.

    One comparison for every kind of split: MISSING is -1 in 32 bits, so it comes just before cell 0.
    """
    if categorical:
        return np.uint32(cut), np.uint32(0)
    if missing_left:
        return np.uint32(MISSING), np.uint32(cut + 1)
    return np.uint32(0), np.uint32(cut)


@kernel
def root_room(features: Features, room: Room) -> None:
    """Fill in the room at the root."""
    for f in range(len(features.sizes)):
        room.first[f] = 0
        room.last[f] = features.sizes[f] if features.categorical[f] else features.sizes[f] - 1


@kernel
def narrow(nodes: Any, node: Any, side: Any, features: Features, room: Room) -> None:
    """Turn the room of a node into that of its child on one side."""
    f, cut = nodes.feature[node], nodes.cut[node]
    if features.categorical[f]:
        # On the left the category is known: nothing remains.
        room.last[f] = 0 if side == LEFT else room.last[f] - 1
    elif side == LEFT:
        room.last[f] = cut
    else:
        room.first[f] = cut + 1


@kernel
def chance(key: Any, draw: Any) -> Any:
    """A node's number in [0, 1) for each ``draw``; splits drawn from its key use other bits."""
    return float(_word(child_key(key, _CHANCES), draw) >> np.uint64(11)) * 2.0**-53


@kernel
def is_used(nodes: Any, node: Any, feature: Any, category: Any) -> Any:
    """Whether an ancestor split on this category."""
    while nodes.up[node] >= 0:
        node = nodes.up[node]
        if nodes.feature[node] == feature and nodes.cut[node] == category:
            return True
    return False


@kernel
def choose_split(nodes: Any, node: Any, features: Features, room: Room) -> Split:
    """The random split of a node; feature NO_SPLIT when nothing is left.

    ``nodes`` is the tree so far: keys, parents (-1 at the root) and the splits of all proper ancestors.
    """
    key, chances, first, last = nodes.key[node], features.chances, room.first, room.last
    feature, n_features = NO_SPLIT, len(features.sizes)
    for attempt in range(_TRIES):
        u = float(_word(key, attempt) >> np.uint64(11)) * 2.0**-53
        f = min(int(np.searchsorted(chances, u, "right")), n_features - 1)
        if first[f] < last[f]:
            feature = f
            break
    if feature == NO_SPLIT:
        # Hardly any feature has room: list those that do, and draw one of them by its chance.
        total = 0.0
        for f in range(n_features):
            if first[f] < last[f]:
                total += chances[f] - (chances[f - 1] if f else 0.0)
        rest = float(_word(key, _TRIES) >> np.uint64(11)) * 2.0**-53 * total
        for f in range(n_features):
            if first[f] < last[f] and rest >= 0.0:
                weight = chances[f] - (chances[f - 1] if f else 0.0)
                if weight > 0.0:
                    feature = f
                    rest -= weight
        if feature == NO_SPLIT:
            return Split(NO_SPLIT, 0, False)
    word = _word(key, _TRIES + 1)
    missing_left = bool(word & np.uint64(1))
    if not features.categorical[feature]:
        cells = np.int64(last[feature]) - np.int64(first[feature])
        return Split(feature, np.int64(first[feature]) + _below(word, cells), missing_left)
    size, draw = features.sizes[feature], _TRIES + 1
    category = _below(word, size)
    while last[feature] < size and is_used(nodes, node, feature, category):
        draw += 1
        category = _below(_word(key, draw), size)
    return Split(feature, category, missing_left)


assert CELLS < 2**32  # _below needs bounds of 32 bits
