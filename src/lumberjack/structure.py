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

__all__ = ["LEFT", "RIGHT", "Features", "child_key", "choose_split", "goes_left", "root_keys"]

LEFT, RIGHT = 0, 1
NO_SPLIT = -1

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
def _below(word: np.uint64, bound: int) -> np.int64:
    """A number below bound from 32 bits: the bias is below bound / 2^32."""
    return np.int64(((word >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


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


assert CELLS < 2**32  # _below needs bounds of 32 bits
