"""Guided splits: near the root, the exponential mechanism chooses each node's split.

In: the rows of a node and their targets. Out: a split, chosen among known candidates with probability
proportional to weight * exp(lambda * score). Deeper levels split at random (``structure``): their
nodes have too few rows to tell a good split from a bad one through the noise.

Candidates are public, or were released before. Each column is offered with chance 1/sqrt(number of
columns), drawn from the node's key alone, so trees differ, as in any random forest. The candidates of an
offered numeric column are its learned cuts (``columns``). Those of an offered categorical column are the
categories that no ancestor used, each against all others. The total weight of a column does not depend
on its number of candidates.

The score of a split is what its two sides say about the target, in units of rows: the sum over sides
of sum_c n_c^2 / n (classes), or of (sum y)^2 / n with y in [0, 1] (numbers), rounded down to a
multiple of 1/256, each side by itself, in integers throughout.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.growing import Growing, Nodes, find_room
from lumberjack.guarantee import SUM_BOUND
from lumberjack.kernels import kernel
from lumberjack.kinds import Codes, shift_of
from lumberjack.noise import Bits, ExponentialChoice, Purpose
from lumberjack.structure import Features, Room, chance, is_used

__all__ = ["Choice", "Gini", "Guide", "Histograms", "Variance", "offered_share"]

_STEPS = 8  # scores are multiples of 2^-8
_Y_SHIFT = (2 * SUM_BOUND).bit_length() - 1 - _STEPS  # targets as integers from 0 to 2^8

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Gini:
    """Scores splits by how well they tell classes apart.

    Parameters
    ----------
    n_classes : int

    Formal guarantees
    -----------------
    Adding a record moves the scores of all candidates within [-1, 1], rounding included.
    """

    n_classes: int

    def count(self, codes: Codes, rows: NDArray[Any], offer: "Offer", target: NDArray[Any]) -> Integers:
        """Rows of each class in each bin, shape (n_bins, n_classes)."""
        out = np.zeros((offer.first[-1], self.n_classes), dtype=np.int64)
        _count_classes(codes, rows, offer, target, out)
        return out

    def score(self, left: Integers, total: Integers) -> Integers:
        """Score of splits, from their left sides, shape (n, n_classes), in steps of 2^-8 rows."""
        return _gini(left, total)

    def size(self, left: Integers) -> int:
        """Number of rows in a count."""
        return int(left.sum())


@dataclass(frozen=True)
class Variance:
    """Scores splits by how well they tell numbers apart.

    Formal guarantees
    -----------------
    Adding a record moves the scores of all candidates within an interval of width 1 that depends on its
    target alone, rounding included.
    """

    def count(self, codes: Codes, rows: NDArray[Any], offer: "Offer", target: NDArray[Any]) -> Integers:
        """Rows, and sum of targets from 0 to 2^8, in each bin, shape (n_bins, 2)."""
        out = np.zeros((offer.first[-1], 2), dtype=np.int64)
        _count_numbers(codes, rows, offer, target, out)
        return out

    def score(self, left: Integers, total: Integers) -> Integers:
        """Score of splits, from their left sides, shape (n, 2), in steps of 2^-8 rows."""
        return _variance(left, total)

    def size(self, left: Integers) -> int:
        """Number of rows in a count."""
        return int(left[0])


class Offer(NamedTuple):
    """What a node may choose from.

    ``first`` is where the bins of each feature begin: feature f has bins first[f] to first[f + 1] - 1. A
    feature that is not offered has none. An offered one has a bin for each code, and a last one for
    unknown categories (or missing numbers). ``missing_left`` says whether
    missing numbers go left.
    """

    first: Integers
    missing_left: bool


class Choice(NamedTuple):
    """A split that was chosen, and how many rows go left: private, like all counts."""

    feature: int
    cut: int
    missing_left: bool
    n_left: int


@dataclass(frozen=True)
class Histograms:
    """A counting object: the histograms that ``Guide.choose`` needs for some nodes."""

    tree: Growing
    nodes: tuple[int, ...]
    offers: tuple[Offer, ...]
    score: Gini | Variance

    def __call__(self, block: Any) -> list[Integers]:
        """The bins of each node."""
        found, out = block.sort(self.tree), []
        for node, offer in zip(self.nodes, self.offers, strict=True):
            rows = found.order[found.start[node] : found.start[node] + found.n_rows[node]]
            out.append(self.score.count(block.codes, rows, offer, block.target))
        return out


@dataclass(frozen=True)
class Guide:
    """Chooses splits for nodes on the first levels of a tree.

    Parameters
    ----------
    score : Gini or Variance
    exponent : float
        lambda, per row of score.
    levels : int
        Nodes above this level choose.

    Formal guarantees
    -----------------
    The choice is ``ExponentialChoice`` over candidates and weights that depend on the node's key, the
    splits above it and the domain. By what ``score`` guarantees it is 2 lambda-bounded-range (classes),
    or lambda-bounded-range (numbers). A record is in one node of each level, so it takes part in one
    choice for each level and tree.
    """

    score: Gini | Variance
    exponent: float
    levels: int

    def offer(self, tree: Growing, node: int) -> tuple[Room, Offer]:
        """The room in a node, and what it may choose from."""
        room = find_room(tree.nodes, node, tree.features)
        share = offered_share(len(tree.features.sizes))
        return room, _offer(tree.features, tree.nodes.key[node], room, share)

    def ask(self, tree: Growing, nodes: Sequence[int], offers: Sequence[Offer]) -> Histograms:
        """What to count before nodes can choose."""
        return Histograms(tree, tuple(nodes), tuple(offers), self.score)

    def choose(
        self, bins: Integers, tree: Growing, node: int, offered: tuple[Room, Offer], bits: Bits
    ) -> Choice | None:
        """A split for a node; None if there are no candidates."""
        room, offer = offered
        if offer.first[-1] == 0:
            return None
        found = _candidates(tree.features, offer, bins, tree.nodes, node, room)
        if len(found.feature) == 0:
            return None
        choice = ExponentialChoice(self.exponent / 2**_STEPS)
        keys = tree.nodes.key[node : node + 1]
        score, weights = self.score.score(found.left, found.total), found.weight[None]
        i = choice.draw(score[None], bits, keys, weights=weights, purpose=Purpose.SPLIT)[0]
        n_left = self.score.size(found.left[i])
        return Choice(int(found.feature[i]), int(found.cut[i]), offer.missing_left, n_left)


def offered_share(n_features: int) -> float:
    """Chance that a node offers a column: about sqrt(n) of n are offered, as in most forests."""
    return 1 / math.sqrt(n_features)


@kernel
def _offer(features: Features, key: np.uint64, room: Room, share: float) -> Offer:
    """The offer of a node, from its key alone."""
    n = len(features.sizes)
    offsets = np.zeros(n + 1, dtype=np.int64)
    for f in range(n):
        categorical = features.categorical[f]
        weight = features.chances[f] - (features.chances[f - 1] if f else 0.0)
        # One category left is not enough: only unknown ones would be on the other side.
        enough = room.last[f] >= 2 if categorical else room.first[f] < room.last[f]
        offered = enough and weight > 0 and chance(key, f) < share
        offsets[f + 1] = offsets[f] + (features.sizes[f] + 1 if offered else 0)
    return Offer(offsets, chance(key, n) < 0.5)


class _Places(NamedTuple):
    """Offered features, where their bins begin, and how many they have besides the last.

    Unsigned integers throughout: signed indices cost a wraparound check.
    """

    feature: NDArray[np.uint64]
    first: NDArray[np.uint64]
    most: NDArray[np.uint32]


@kernel
def _places(offer: Offer) -> _Places:
    """Where the codes of a row are counted."""
    n_features = len(offer.first) - 1
    feature, first = np.empty(n_features, dtype=np.uint64), np.empty(n_features, dtype=np.uint64)
    most = np.empty(n_features, dtype=np.uint32)
    n = 0
    for f in range(n_features):
        n_bins = offer.first[f + 1] - offer.first[f]
        if n_bins > 0:
            feature[n], first[n], most[n] = f, offer.first[f], n_bins - 1
            n += 1
    return _Places(feature[:n], first[:n], most[:n])


@kernel
def _count_classes(
    codes: Codes, rows: NDArray[np.int32], offer: Offer, target: NDArray[np.int32], out: Integers
) -> None:
    places = _places(offer)
    offered, first, most = places.feature, places.first, places.most
    n_offered, shift = np.uint64(len(offered)), shift_of(codes)
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        y = np.uint64(target[row])
        for j in range(n_offered):
            code = np.uint32(np.uint32(codes[row, offered[j]]) - shift)
            place = first[j] + np.uint64(min(code, most[j]))
            out[place, y] += 1


@kernel
def _count_numbers(
    codes: Codes, rows: NDArray[np.int32], offer: Offer, target: NDArray[np.int32], out: Integers
) -> None:
    places = _places(offer)
    offered, first, most = places.feature, places.first, places.most
    n_offered, shift = np.uint64(len(offered)), shift_of(codes)
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        y = np.int64((target[row] + SUM_BOUND) >> _Y_SHIFT)
        for j in range(n_offered):
            code = np.uint32(np.uint32(codes[row, offered[j]]) - shift)
            place = first[j] + np.uint64(min(code, most[j]))
            out[place, np.uint64(0)] += 1
            out[place, np.uint64(1)] += y


class _Candidates(NamedTuple):
    """Feature, cut, weight and counts on the left side of each candidate, and the counts of the node."""

    feature: Integers
    cut: Integers
    weight: NDArray[np.float64]
    left: Integers
    total: Integers


@kernel
def _candidates(
    features: Features, offer: Offer, bins: Integers, nodes: Nodes, node: int, room: Room
) -> _Candidates:
    """All candidates of a node; ``nodes`` is the tree so far, as in ``structure``."""
    offsets, categorical, chances = offer.first, features.categorical, features.chances
    most, width = offsets[-1], bins.shape[1]
    feature, cut = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    left, weight = np.empty((most, width), dtype=np.int64), np.empty(most, dtype=np.float64)
    total, below = np.zeros(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    made = 0
    for f in range(len(categorical)):
        if offsets[f] == offsets[f + 1]:
            continue
        total[:] = 0
        for place in range(offsets[f], offsets[f + 1]):  # the bins of each offered feature hold all rows
            for k in range(width):
                total[k] += bins[place, k]
        before = made
        if categorical[f]:
            for c in range(offsets[f + 1] - offsets[f] - 1):
                if not is_used(nodes, node, f, c):
                    feature[made], cut[made] = f, c
                    for k in range(width):
                        left[made, k] = bins[offsets[f] + c, k]
                    made += 1
        else:
            for k in range(width):
                below[k] = bins[offsets[f + 1] - 1, k] if offer.missing_left else 0
            for cell in range(features.sizes[f] - 1):
                for k in range(width):
                    below[k] += bins[offsets[f] + cell, k]
                if room.first[f] <= cell < room.last[f]:
                    feature[made], cut[made] = f, cell
                    for k in range(width):
                        left[made, k] = below[k]
                    made += 1
        weight[before:made] = (chances[f] - (chances[f - 1] if f else 0.0)) / max(made - before, 1)
    return _Candidates(feature[:made], cut[:made], weight[:made], left[:made], total)


@kernel
def _gini(left: Integers, total: Integers) -> Integers:
    out = np.empty(len(left), dtype=np.int64)
    for i in range(len(left)):
        squares_left = squares_right = n_left = n_right = 0
        for c in range(len(total)):
            right = total[c] - left[i, c]
            n_left, squares_left = n_left + left[i, c], squares_left + left[i, c] * left[i, c]
            n_right, squares_right = n_right + right, squares_right + right * right
        out[i] = _of_squares(squares_left, n_left) + _of_squares(squares_right, n_right)
    return out


@kernel
def _variance(left: Integers, total: Integers) -> Integers:
    out = np.empty(len(left), dtype=np.int64)
    for i in range(len(left)):
        n, y = left[i, 0], left[i, 1]
        out[i] = _of_sum(y, n) + _of_sum(total[1] - y, total[0] - n)
    return out


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
