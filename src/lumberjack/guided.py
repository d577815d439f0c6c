"""Guided splits: near the root, the exponential mechanism chooses each node's split.

In: the rows of a node and their targets. Out: a split, chosen among public candidates with probability
proportional to weight * exp(lambda * score). Deeper levels split at random (``structure``), where few
rows are left to tell a good split from a bad one through the noise.

Candidates are public. Each column is offered with chance 1/sqrt(number of columns), drawn from the
node's key alone: so trees differ, as in any random forest. Of an offered number the cuts are those of a
grid of 64 equal bins over its range in the domain, of an offered category each value that no ancestor
used against all others. A column has the same weight in all, however many candidates it has.

The score of a split is what its two sides say about the target, in units of rows: the sum over sides
of sum_c n_c^2 / n (classes), or of (sum y)^2 / n with y in [0, 1] (numbers), rounded down to a
multiple of 1/256, each side by itself, in integers throughout.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import CELLS, Codes
from lumberjack.guarantee import SUM_BOUND
from lumberjack.kernels import kernel
from lumberjack.noise import Bits, ExponentialChoice, Purpose
from lumberjack.structure import Features, Room, chance, is_used

__all__ = ["Guide", "offered_share"]

BINS = 64  # of a number's range
_SHIFT = (CELLS // BINS).bit_length() - 1  # from a cell to its bin
_STEPS = 8  # scores are multiples of 2^-8
_Y_SHIFT = (2 * SUM_BOUND).bit_length() - 1 - _STEPS  # targets as integers from 0 to 2^8

assert CELLS == BINS << _SHIFT


@dataclass(frozen=True)
class Guide:
    """Chooses splits for nodes on the first levels of a tree.

    Parameters
    ----------
    features : Features
    target : ndarray of int32, shape (n_rows,)
        Number of each row's class, or its place on the grid of ``leaves.Targets``. Private.
    n_classes : int
        Classes; 0: the target is a number.
    exponent : float
        lambda, for each row that a score is worth.
    levels : int
        Nodes above this level choose.

    Formal guarantees
    -----------------
    The choice is ``ExponentialChoice`` over candidates and weights that depend on the node's key, the
    splits above it and the domain. Adding a record moves the scores of all candidates within
    [-1, 1] (classes), or within an interval of width 1 that depends on its target alone (numbers),
    rounding included: the choice is 2 lambda-bounded-range, or lambda-bounded-range. A record is in
    one node of each level, so it takes part in one choice for each level and tree.
    """

    features: Features
    target: NDArray[np.int32]
    n_classes: int
    exponent: float
    levels: int

    def choose(
        self,
        codes: Codes,
        rows: NDArray[np.int32],
        node: int,
        nodes: Any,
        room: Room,
        bits: Bits,
    ) -> tuple[int, int, bool] | None:
        """Feature, cut and side of missing numbers for a node; None: there are no candidates.

        ``rows`` are the node's, ``nodes`` is the tree so far (``engines.blocks.Nodes``), and ``room`` is
        what is left to tell apart (``structure.narrow``).
        """
        features = self.features
        offer = _offer(features, nodes.key[node], room, offered_share(len(features.sizes)))
        if offer.first[-1] == 0:
            return None
        bins = _count(codes, rows, features, offer, self.target, self.n_classes)
        feature, cut, score, weight = _candidates(
            features, offer, bins, self.n_classes, nodes, node, room
        )
        if len(score) == 0:
            return None
        choice = ExponentialChoice(self.exponent / 2**_STEPS)
        keys = None if bits.seed is None else nodes.key[node : node + 1]
        found = choice.draw(score[None], bits, keys, weights=weight[None], purpose=Purpose.SPLIT)[0]
        return int(feature[found]), int(cut[found]), offer.missing_left


def offered_share(n_features: int) -> float:
    """Chance of each column to be offered at a node: about sqrt(n) of n are, as in most forests."""
    return 1 / math.sqrt(n_features)


class _Offer(NamedTuple):
    """What a node may choose from.

    ``first`` is where the bins of each feature begin: feature f has bins first[f] to first[f + 1], none
    if it is not offered. Otherwise one for each category, or BINS, and a last one for unknown
    categories, or missing numbers. ``missing_left`` is the side of missing numbers.
    """

    first: NDArray[np.int64]
    missing_left: bool


@kernel
def _offer(features: Features, key: Any, room: Room, share: Any) -> Any:
    """The offer of a node, from its key alone."""
    n = len(features.sizes)
    offsets = np.zeros(n + 1, dtype=np.int64)
    for f in range(n):
        categorical = features.categorical[f]
        weight = features.chances[f] - (features.chances[f - 1] if f else 0.0)
        # The last category left against nothing but unknown ones is no split.
        enough = room.last[f] >= 2 if categorical else room.first[f] < room.last[f]
        offered = enough and weight > 0 and chance(key, f) < share
        size = (features.sizes[f] if categorical else BINS) + 1
        offsets[f + 1] = offsets[f] + (size if offered else 0)
    return _Offer(offsets, chance(key, n) < 0.5)


@kernel
def _count(codes: Any, rows: Any, features: Features, offer: _Offer, target: Any, n_classes: Any) -> Any:
    """Rows of each class (or rows and sum of targets) in each bin."""
    offsets, categorical = offer.first, features.categorical
    n_values = max(n_classes, 2)
    # Unsigned integers throughout: signed indices cost a wraparound check.
    feature = np.flatnonzero(np.diff(offsets)).astype(np.uint64)
    n_offered = np.uint64(len(feature))
    first, most = np.empty(n_offered, dtype=np.uint64), np.empty(n_offered, dtype=np.uint32)
    shift = np.empty(n_offered, dtype=np.uint32)
    for j in range(n_offered):
        f = feature[j]
        first[j], most[j] = offsets[f], offsets[f + np.uint64(1)] - offsets[f] - 1
        shift[j] = 0 if categorical[f] else _SHIFT
    bins = np.zeros((offsets[-1], n_values), dtype=np.int64)
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        y = np.uint64(target[row] if n_classes else (target[row] + SUM_BOUND) >> _Y_SHIFT)
        for j in range(n_offered):
            place = first[j] + np.uint64(min(codes[row, feature[j]] >> shift[j], most[j]))
            if n_classes:
                bins[place, y] += 1
            else:
                bins[place, np.uint64(0)] += 1
                bins[place, np.uint64(1)] += np.int64(y)
    return bins


@kernel
def _candidates(
    features: Features, offer: _Offer, bins: Any, n_classes: Any, nodes: Any, node: Any, room: Room
) -> Any:
    """All candidates of a node: feature, cut, score and weight of each.

    ``nodes`` is the tree so far, as in ``structure``.
    """
    offsets, categorical, chances = offer.first, features.categorical, features.chances
    total = np.zeros(bins.shape[1], dtype=np.int64)
    f = 0
    while offsets[f] == offsets[f + 1]:
        f += 1
    for place in range(offsets[f], offsets[f + 1]):  # any offered feature has all rows
        total += bins[place]
    most = offsets[-1]
    feature, cut = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    score, weight = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.float64)
    left = np.empty_like(total)
    made = 0
    for f in range(len(categorical)):
        if offsets[f] == offsets[f + 1]:
            continue
        before = made
        if categorical[f]:
            for c in range(offsets[f + 1] - offsets[f] - 1):
                if not is_used(nodes, node, f, c):
                    feature[made], cut[made] = f, c
                    score[made] = _score(bins[offsets[f] + c], total, n_classes)
                    made += 1
        else:
            left[:] = 0
            if offer.missing_left:
                left += bins[offsets[f] + BINS]
            for b in range(BINS - 1):
                left += bins[offsets[f] + b]
                edge = ((b + 1) << _SHIFT) - 1
                if room.first[f] <= edge < room.last[f]:
                    feature[made], cut[made] = f, edge
                    score[made] = _score(left, total, n_classes)
                    made += 1
        weight[before:made] = (chances[f] - (chances[f - 1] if f else 0.0)) / max(made - before, 1)
    return feature[:made], cut[:made], score[:made], weight[:made]


@kernel
def _score(left: Any, total: Any, n_classes: Any) -> Any:
    """What a split says about the target, in steps of 2^-8 rows."""
    if n_classes == 0:
        return _of_sum(left[1], left[0]) + _of_sum(total[1] - left[1], total[0] - left[0])
    squares_left = squares_right = n_left = n_right = 0
    for c in range(n_classes):
        right = total[c] - left[c]
        n_left, squares_left = n_left + left[c], squares_left + left[c] * left[c]
        n_right, squares_right = n_right + right, squares_right + right * right
    return _of_squares(squares_left, n_left) + _of_squares(squares_right, n_right)


@kernel
def _of_squares(squares: Any, n: Any) -> Any:
    """floor(2^8 squares / n) without overflow, for squares <= n^2 and n < 2^31."""
    if n == 0:
        return 0
    return ((squares // n) << _STEPS) + ((squares % n) << _STEPS) // n


@kernel
def _of_sum(y: Any, n: Any) -> Any:
    """floor(2^8 (y / 2^8)^2 / n) without overflow, for 0 <= y <= 2^8 n and n < 2^31."""
    if n == 0:
        return 0
    quotient, rest = y // n, y % n  # y^2 = y quotient n + quotient rest n + rest^2
    return (y * quotient + quotient * rest + rest * rest // n) >> _STEPS
