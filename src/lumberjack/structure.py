"""Random splits as a pure function of the seed: the same tree in every engine.

In: a node's key, its ancestors' splits and the public domain. Out: the node's split. No state and no
data: whoever knows the seed and the domain can grow the same trees.

A node's key mixes its parent's key and its side. From it come a feature (uniform over the features that
can still be split, or by public weights), then a cell uniform in the node's current range of that
feature, or a category that no ancestor used, and the side that missing numbers take.
"""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import CELLS, MISSING, Domain, Numeric
from lumberjack.kernels import kernel

__all__ = [
    "LEFT",
    "NO_SPLIT",
    "RIGHT",
    "Features",
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
_CHANCES = 2  # a side that no child is on

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TRIES = 64  # random features tried before all are listed


@dataclass(frozen=True)
class Features:
    """The public domain as the kernels read it.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n_features,)
        Codes of each feature: cells of a range, or categories.
    categorical : ndarray of bool, shape (n_features,)
    chances : ndarray of float64, shape (n_features,)
        Cumulative chance of each feature to be tried.
    """

    sizes: NDArray[np.int64]
    categorical: NDArray[np.bool_]
    chances: NDArray[np.float64]

    @classmethod
    def of(cls, domain: Domain, weights: NDArray[np.float64] | None = None) -> "Features":
        """Describe a domain; ``weights`` are public chances of the features, uniform if None."""
        weights = np.ones(len(domain)) if weights is None else np.asarray(weights, dtype=float)
        return cls(
            np.array([kind.size for kind in domain.kinds], dtype=np.int64),
            np.array([not isinstance(kind, Numeric) for kind in domain.kinds]),
            np.cumsum(weights) / weights.sum(),
        )


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
def mix(x: np.uint64) -> np.uint64:
    """Spread every bit over the word (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


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
def root_room(sizes: Any, categorical: Any, first: Any, last: Any) -> None:
    """What can be told apart at the root: see ``narrow``."""
    for f in range(len(sizes)):
        first[f] = 0
        last[f] = sizes[f] if categorical[f] else sizes[f] - 1


@kernel
def narrow(feature: Any, cut: Any, side: Any, categorical: Any, first: Any, last: Any) -> None:
    """What is left to tell apart on one side of a split.

    ``first`` and ``last``, one entry for each feature, are the cells that a node's range of a number
    goes from and to; for categories 0 and how many no ancestor has used. Where first < last, there is
    room for a split.
    """
    if categorical[feature]:
        # On the left the category is known: nothing remains.
        last[feature] = 0 if side == LEFT else last[feature] - 1
    elif side == LEFT:
        last[feature] = cut
    else:
        first[feature] = cut + 1


@kernel
def chance(key: Any, draw: Any) -> Any:
    """A number in [0, 1) of a node, one for each ``draw``, that no split drawn from its key shares."""
    return float(_word(child_key(key, _CHANCES), draw) >> np.uint64(11)) * 2.0**-53


@kernel
def is_used(node: Any, feature: Any, category: Any, up: Any, features: Any, cuts: Any) -> Any:
    """Whether an ancestor split on this category."""
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
    first: Any,
    last: Any,
    up: Any,
    features: Any,
    cuts: Any,
) -> Any:
    """Feature, cut and side of missing values of a node; feature NO_SPLIT when nothing is left.

    ``first`` and ``last`` are the node's room, see ``narrow``. ``up``, ``features`` and ``cuts`` are the
    tree so far: parent (-1 at the root) and the splits of all proper ancestors.
    """
    feature = NO_SPLIT
    for attempt in range(_TRIES):
        u = float(_word(key, attempt) >> np.uint64(11)) * 2.0**-53
        f = min(int(np.searchsorted(chances, u, "right")), len(sizes) - 1)
        if first[f] < last[f]:
            feature = f
            break
    if feature == NO_SPLIT:
        # Hardly any feature has room: list those that do, and take one with its chance.
        total = 0.0
        for f in range(len(sizes)):
            if first[f] < last[f]:
                total += chances[f] - (chances[f - 1] if f else 0.0)
        rest = float(_word(key, _TRIES) >> np.uint64(11)) * 2.0**-53 * total
        for f in range(len(sizes)):
            if first[f] < last[f] and rest >= 0.0:
                weight = chances[f] - (chances[f - 1] if f else 0.0)
                if weight > 0.0:
                    feature = f
                    rest -= weight
        if feature == NO_SPLIT:
            return NO_SPLIT, 0, False
    word = _word(key, _TRIES + 1)
    missing_left = bool(word & np.uint64(1))
    if not categorical[feature]:
        room = np.int64(last[feature]) - np.int64(first[feature])
        return feature, np.int64(first[feature]) + _below(word, room), missing_left
    draw = _TRIES + 1
    category = _below(word, sizes[feature])
    while last[feature] < sizes[feature] and is_used(node, feature, category, up, features, cuts):
        draw += 1
        category = _below(_word(key, draw), sizes[feature])
    return feature, category, missing_left


assert CELLS < 2**32  # _below needs bounds of 32 bits
