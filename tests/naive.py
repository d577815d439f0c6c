"""Trees as the paper grows them, slowly: a reference for the faster engines.

Plain NumPy, and nothing of the code under test. Every row walks down the whole random tree by itself.
MarkHeavyHitters marks the nodes on the paths of rows, by recursion over levels. Heavy nodes become
splits. Cuts of numbers are chosen from sorted lists, with weights of 60 digits.
"""

from bisect import bisect_left, bisect_right
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import mpmath as mp
import numpy as np

MISSING = 2**32 - 1
GOLDEN = 0x9E3779B97F4A7C15
TRIES = 64  # random features tried before all are listed
NOTHING = -1  # no feature is left to split on
UNMARKED, HEAVY, LIGHT = 0, 1, 2


def mix(x):
    """SplitMix64's finaliser (Steele, Lea and Flood 2014), of an array."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def times_golden(number):
    return mix(np.array([number * GOLDEN % 2**64], dtype=np.uint64))


def child(keys, side):
    """Keys of the left (0) or right (1) children."""
    return mix(keys ^ times_golden(side + 1))


def word(keys, draw):
    """Draw number ``draw`` of each node."""
    return mix(mix(keys + np.uint64(GOLDEN)) ^ times_golden(draw + 1000))


def unit(words):
    return (words >> np.uint64(11)).astype(float) * 2.0**-53


def below(words, bound):
    return (((words >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def choose_feature(keys, room, chances):
    """A feature with room for each node: at random, by its weight."""
    found = np.full(len(keys), NOTHING)
    some = room.any(axis=1)
    for attempt in range(TRIES):
        open_ = np.flatnonzero((found == NOTHING) & some)
        if not len(open_):
            return found
        tried = np.searchsorted(chances, unit(word(keys[open_], attempt)), "right")
        tried = np.minimum(tried, len(chances) - 1)
        found[open_] = np.where(room[open_, tried], tried, NOTHING)
    open_ = np.flatnonzero((found == NOTHING) & some)
    weights = np.where(room[open_], np.diff(chances, prepend=0.0), 0.0)
    rest = unit(word(keys[open_], TRIES)) * np.cumsum(weights, axis=1)[:, -1]
    for feature, weight in enumerate(weights.T):
        take = (rest >= 0) & (weight > 0)
        found[open_[take]] = feature
        rest[take] -= weight[take]
    return found


class Walk(NamedTuple):
    """The node of each row on each level, shape (height + 1, n_rows).

    ``key`` is 0 where the row has ended above, ``node`` numbers the nodes of a level, ``splits`` says
    which can be split.
    """

    key: np.ndarray
    node: np.ndarray
    splits: np.ndarray


def walk(codes, features, root_key, height):
    """Take all rows down the random tree; ``features`` are sizes, kinds and cumulative chances."""
    sizes, categorical, chances = features
    n, every = len(codes), np.arange(len(codes))
    keys = np.zeros((height + 1, n), dtype=np.uint64)
    splits = np.zeros((height + 1, n), dtype=bool)
    keys[0] = root_key
    first, last = np.zeros((n, len(sizes)), dtype=np.int64), np.tile(sizes - 1, (n, 1))
    most = max((int(size) for size, listed in zip(sizes, categorical, strict=True) if listed), default=1)
    used = np.tile(np.arange(most) >= sizes[:, None], (n, 1, 1))  # categories that an ancestor split on
    here = every
    for level in range(height):
        room = np.where(categorical, ~used[here].all(axis=2), first[here] < last[here])
        feature = choose_feature(keys[level, here], room, chances)
        here, feature = here[feature != NOTHING], feature[feature != NOTHING]
        splits[level, here] = True
        key, listed = keys[level, here], categorical[feature]
        code = codes[here, feature].astype(np.int64)
        bits = word(key, TRIES + 1)
        low = np.where(listed, 0, first[here, feature])
        cut = low + below(bits, np.where(listed, sizes[feature], last[here, feature] - low))
        draw, again = TRIES + 1, np.flatnonzero(listed)
        while len(again := again[used[here[again], feature[again], cut[again]]]):
            draw += 1
            cut[again] = below(word(key[again], draw), sizes[feature[again]])
        missing_left = (bits & np.uint64(1)).astype(bool)
        in_range = np.where(code == MISSING, missing_left, code <= cut)
        left = np.where(listed, code == cut, in_range)
        keys[level + 1, here] = np.where(left, child(key, 0), child(key, 1))
        for rows, known in ((left & listed, slice(None)), (~left & listed, cut[~left & listed])):
            used[here[rows], feature[rows], known] = True  # on the left nothing is left to tell apart
        for rows, bound, cell in ((left & ~listed, last, cut), (~left & ~listed, first, cut + 1)):
            bound[here[rows], feature[rows]] = cell[rows]
    node = np.array([np.unique(level, return_inverse=True)[1] for level in keys])
    return Walk(keys, node, splits)


def mark_heavy_hitters(way, passes, marks, low, high):
    """Algorithm 1 on levels low ... high - 1; ``marks`` has those of the nodes on each row's way."""
    if low >= high:
        return
    middle = low + (high - low) // 2
    asked = np.flatnonzero(marks[middle] == UNMARKED)
    _, which, count = np.unique(way.node[middle, asked], return_inverse=True, return_counts=True)
    passed = passes(count)[which]
    marks[middle:, asked[~passed]] = LIGHT  # all below
    heavy = asked[passed]
    for level in range(middle + 1):  # all above, and so all rows that pass there
        hit = np.zeros(len(marks[level]), dtype=bool)
        hit[way.node[level, heavy]] = True
        marks[level, hit[way.node[level]]] = HEAVY
    mark_heavy_hitters(way, passes, marks, middle + 1, high)
    mark_heavy_hitters(way, passes, marks, low, middle)


class Pruned(NamedTuple):
    """Key of the leaf that each row reaches, and the depths of all leaves by key, empty ones too."""

    reached: np.ndarray
    leaves: dict


def prune(way, passes):
    """Keep the Heavy nodes as splits; ``passes`` tosses a coin for each of the counts it is given."""
    height = len(way.key) - 1
    marks = np.where(way.key[:-1] == 0, LIGHT, UNMARKED)
    mark_heavy_hitters(way, passes, marks, 0, height)
    split = (marks == HEAVY) & way.splits[:-1]
    leaves = {int(way.key[0, 0]): 0}
    for level in range(height):
        keys = np.unique(way.key[level, split[level]])
        for key, *children in np.stack([keys, child(keys, 0), child(keys, 1)], axis=1).tolist():
            del leaves[key]
            leaves.update(dict.fromkeys(children, level + 1))
    depth = split.sum(axis=0)  # Heavy is closed upward
    return Pruned(way.key[depth, np.arange(len(depth))], leaves)


def mixed(key, number):
    """Key of what is told apart by a number."""
    return int(
        mix(np.array([key], dtype=np.uint64) ^ mix(np.array([number + GOLDEN], dtype=np.uint64)))[0]
    )


def draw_place(runs, exponent, draw):
    """A place by the exponential mechanism, from (first, last, score) of places with equal scores.

    ``draw(purpose, position)`` gives words of 64 random bits.
    """
    with mp.workdps(60):
        weights = [
            (last - first + 1) * mp.exp(mp.mpf(exponent) * score.numerator / score.denominator)
            for first, last, score in runs
        ]
        rest = mp.mpf(draw("choice", 0) >> 1) / 2**63 * mp.fsum(weights)
        chosen = 0
        while (rest := rest - weights[chosen]) >= 0:
            chosen += 1
    first, last, _ = runs[chosen]
    size, position = last - first + 1, 0
    while (word := draw("place", position)) >= 2**64 // size * size:
        position += 1
    return first + word % size


def counts(codes, place):
    """Codes below, at and above a place."""
    below, at = bisect_left(codes, place), bisect_right(codes, place)
    return below, at - below, len(codes) - at


def choose_place(codes, grid, share, exponent, draw):
    """A place with ``share``, a Fraction, of the sorted codes below it."""
    # Places with the same counts: those of each code, and those between two.
    starts = sorted({grid[0], *codes, *(code + 1 for code in codes if code < grid[1])})
    runs = []
    for first, last in zip(starts, [*(start - 1 for start in starts[1:]), grid[1]], strict=True):
        left, at, right = counts(codes, first)
        too_high = (1 - share) * left - share * (at + right)
        too_low = share * right - (1 - share) * (left + at)
        runs.append((first, last, -max(0, too_high, too_low)))
    return draw_place(runs, exponent, draw)


def choose_cut(codes, grid, exponent, draw):
    """A place with half of the sorted codes below it, and the others not; None: no place."""
    edges = sorted({grid[0], *codes, grid[1]})
    runs = []
    for first, last in pairwise(edges):
        left, at, right = counts(codes, last)
        runs.append((first + 1, last, -abs(Fraction(left - (at + right), 2))))
    return draw_place(runs, exponent, draw) if runs else None


def choose_cuts(codes, grid, levels, exponent, key, draw):
    """Medians of the sorted codes, then of both sides, and so on; ``draw(key, purpose, position)``."""
    place = choose_cut(codes, grid, exponent, partial(draw, key)) if levels else None
    if place is None:
        return set()
    below, above = [c for c in codes if c < place], [c for c in codes if c >= place]
    left, right = (grid[0], place - 1), (place, grid[1])
    return {
        place,
        *choose_cuts(below, left, levels - 1, exponent, mixed(key, 0), draw),
        *choose_cuts(above, right, levels - 1, exponent, mixed(key, 1), draw),
    }
