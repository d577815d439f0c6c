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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import CELLS, Codes
from lumberjack.guarantee import SUM_BOUND
from lumberjack.kernels import kernel
from lumberjack.noise import Bits, ExponentialChoice, Purpose
from lumberjack.structure import Features, chance, is_used

__all__ = ["Guide"]

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
        bits: Bits,
    ) -> tuple[int, int, bool] | None:
        """Feature, cut and side of missing numbers for a node; None: there are no candidates.

        ``rows`` are the node's, ``nodes`` is the tree so far (``engines.local``), its room filled in.
        """
        public = self.features.sizes, self.features.categorical, self.features.chances
        key = nodes.key[node]
        offsets, missing_left = _offer(public, key, nodes.first[node], nodes.last[node])
        if offsets[-1] == 0:
            return None
        bins, total = _count(codes, rows, public, offsets, self.target, self.n_classes)
        feature, cut, score, weight = _candidates(
            public,
            offsets,
            bins,
            total,
            missing_left,
            self.n_classes,
            node,
            nodes.first,
            nodes.last,
            nodes.up,
            nodes.feature,
            nodes.cut,
        )
        if len(score) == 0:
            return None
        choice = ExponentialChoice(self.exponent / 2**_STEPS)
        keys = None if bits.seed is None else nodes.key[node : node + 1]
        found = choice.draw(score[None], bits, keys, weights=weight[None], purpose=Purpose.SPLIT)[0]
        return int(feature[found]), int(cut[found]), missing_left


@kernel
def _offer(public: Any, key: Any, first: Any, last: Any) -> Any:
    """Where the bins of each offered feature begin, and the side of missing numbers.

    Feature f has bins offsets[f] to offsets[f + 1]: none if it is not offered. Otherwise one for each
    category, or BINS, and a last one for unknown categories, or missing numbers.
    """
    sizes, categorical, chances = public
    n = len(sizes)
    share = 1 / math.sqrt(n)
    offsets = np.zeros(n + 1, dtype=np.int64)
    for f in range(n):
        weight = chances[f] - (chances[f - 1] if f else 0.0)
        # The last category left against nothing but unknown ones is no split.
        room = last[f] >= 2 if categorical[f] else first[f] < last[f]
        offered = room and weight > 0 and chance(key, f) < share
        size = (sizes[f] if categorical[f] else BINS) + 1
        offsets[f + 1] = offsets[f] + (size if offered else 0)
    return offsets, chance(key, n) < 0.5


@kernel
def _count(codes: Any, rows: Any, public: Any, offsets: Any, target: Any, n_classes: Any) -> Any:
    """Rows of each class (or rows and sum of targets) in each bin, and in all."""
    categorical = public[1]
    n_values = max(n_classes, 2)
    # Unsigned integers throughout: signed ones are looked at for being negative at each use.
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
    total = np.zeros(n_values, dtype=np.int64)
    for place in range(first[0], first[0] + most[0] + 1):
        total += bins[place]
    return bins, total


@kernel
def _candidates(
    public: Any,
    offsets: Any,
    bins: Any,
    total: Any,
    missing_left: Any,
    n_classes: Any,
    node: Any,
    first: Any,
    last: Any,
    up: Any,
    features: Any,
    cuts: Any,
) -> Any:
    """All candidates of a node: feature, cut, score and weight of each.

    ``first`` and ``last`` are the room of all nodes; ``up``, ``features`` and ``cuts`` are the tree so
    far, as in ``structure``.
    """
    _, categorical, chances = public
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
                if not is_used(node, f, c, up, features, cuts):
                    feature[made], cut[made] = f, c
                    score[made] = _score(bins[offsets[f] + c], total, n_classes)
                    made += 1
        else:
            left[:] = 0
            if missing_left:
                left += bins[offsets[f] + BINS]
            for b in range(BINS - 1):
                left += bins[offsets[f] + b]
                edge = ((b + 1) << _SHIFT) - 1
                if first[node, f] <= edge < last[node, f]:
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
