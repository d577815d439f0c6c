"""Trees as the paper grows them, slowly: a reference for the faster engines.

Plain NumPy, and nothing of the code under test. Every row walks down the whole random tree by itself.
MarkHeavyHitters marks the nodes on the paths of rows, by recursion over levels. Heavy nodes become
splits. Cuts of numbers are chosen from sorted lists, with weights of 60 digits.
"""

import math
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


def draw_place(runs, parts, exponent, draw):
    """A place by the exponential mechanism, from (first, last, score) of places with equal scores.

    ``parts`` are (first, last, weight of a place), and ``draw(purpose, position)`` gives words of 64
    random bits.
    """
    inside = [
        [(max(a, first), min(b, last), w) for a, b, w in parts if max(a, first) <= min(b, last)]
        for first, last, _ in runs
    ]
    sizes = [sum((b - a + 1) * w for a, b, w in pieces) for pieces in inside]
    with mp.workdps(60):
        weights = [
            size * mp.exp(mp.mpf(exponent) * score.numerator / score.denominator)
            for size, (_, _, score) in zip(sizes, runs, strict=True)
        ]
        rest = mp.mpf(draw("choice", 0) >> 1) / 2**63 * mp.fsum(weights)
        chosen = 0
        while (rest := rest - weights[chosen]) >= 0:
            chosen += 1
    position = 0
    while (word := draw("place", position)) >= 2**64 // sizes[chosen] * sizes[chosen]:
        position += 1
    left = word % sizes[chosen]
    for first, last, weight in inside[chosen]:
        if left < (last - first + 1) * weight:
            return first + left // weight
        left -= (last - first + 1) * weight
    raise AssertionError


def counts(codes, place):
    """Codes below, at and above a place."""
    below, at = bisect_left(codes, place), bisect_right(codes, place)
    return below, at - below, len(codes) - at


def choose_place(codes, parts, share, exponent, draw):
    """A place of a grid in weighted parts with ``share``, a Fraction, of the sorted codes below it."""
    grid = (parts[0][0], parts[-1][1])
    # Places with the same counts: those of each code, and those between two.
    starts = sorted({grid[0], *codes, *(code + 1 for code in codes if code < grid[1])})
    runs = []
    for first, last in zip(starts, [*(start - 1 for start in starts[1:]), grid[1]], strict=True):
        left, at, right = counts(codes, first)
        too_high = (1 - share) * left - share * (at + right)
        too_low = share * right - (1 - share) * (left + at)
        runs.append((first, last, -max(0, too_high, too_low)))
    return draw_place(runs, parts, exponent, draw)


def choose_cut(codes, parts, exponent, draw):
    """A place with half of the sorted codes below it, and the others not; ``parts`` as above."""
    first, last = parts[0][0] - 1, parts[-1][1]
    runs = []
    for low, high in pairwise(sorted({first, *codes, last})):
        left, at, right = counts(codes, high)
        runs.append((low + 1, high, -abs(Fraction(left - (at + right), 2))))
    return draw_place(runs, parts, exponent, draw)


def choose_cuts(codes, grid, levels, exponent, key, draw):
    """Medians of the sorted codes of a range, level by level; ``draw(key, purpose, position)``."""
    nodes, found = [(*grid, key)], []
    for _ in range(levels):
        below, known = [], sorted(found)
        for first, last, node in nodes:
            if first == last:
                continue
            inside = [c for c in codes if first <= c <= last]
            parts = parts_of_range(grid, known, first + 1, last)
            cut = choose_cut(inside, parts, exponent, partial(draw, node))
            found.append(cut)
            below += [(first, cut - 1, mixed(node, 0)), (cut, last, mixed(node, 1))]
        nodes = below
    return set(found)


def parts_of_range(grid, cuts, first, last):
    """The weights of places of a declared range: (first, last, weight of each), by docs/guarantee.md."""
    low, high = (
        max((c for c in cuts if c < first), default=None),
        min((c for c in cuts if c > last), default=None),
    )
    size, total = last - first + 1, 2**46
    if low is None and high is None:
        return [(first, last, 1)]
    if low is not None and high is not None:
        ends = [low + (high - low) * (i / 16) for i in range(17)]
        masses = [1, 3, 5, 7, 9, 11, 13, 15, 15, 13, 11, 9, 7, 5, 3, 1]
    else:
        side, start = (1, low) if high is None else (-1, high)
        others = [abs(c - start) for c in cuts if c != start]
        room = grid[1] + 1 - start if side == 1 else start
        unit = float(min(others)) if others else room / 16 or 1.0
        spread = 1 if others else 8
        ends = [start + side * unit * 2.0**k for k in range(-60, 62)]
        masses = [2**20 // (spread**2 + k**2) for k in range(-60, 61)]
        ends, masses = (ends, masses) if side == 1 else (ends[::-1], masses[::-1])
    edges = [min(max(math.floor(end), first), last + 1) for end in ends]
    share, everywhere = total // sum(masses), total // 8 // size
    parts = [(first, edges[0] - 1, everywhere), (edges[-1], last, everywhere)]
    for a, b, mass in zip(edges, edges[1:], masses, strict=False):
        if a < b:
            parts.append((a, b - 1, share * mass // (b - a) + everywhere))
    return sorted(part for part in parts if part[0] <= part[1])
