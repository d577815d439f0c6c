"""MarkHeavyHitters (the paper's Algorithm 1): find the heavy nodes of a tree with few threshold queries.

In: levels of nodes with their counts, and a private check of thresholds. Out: a mark for each node.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.kernels import kernel
from lumberjack.paths import Level

__all__ = [
    "HEAVY",
    "LIGHT",
    "UNMARKED",
    "Marks",
    "mark_heavy_hitters",
    "mark_tree",
    "search_order",
    "top_down_order",
]

Integers = NDArray[np.int64]
Marks = NDArray[np.int8]

UNMARKED, HEAVY, LIGHT = 0, 1, 2


def search_order(height: int, depth: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Levels in the order in which MarkHeavyHitters queries them, each with its scope.

    A call on levels low ... high - 1 queries the one in the middle, then recurses below it, then
    above. All calls of one depth share their levels, so the recursion is over levels, not nodes: each
    level is queried once, and yields (low, middle, high). Along one path this is a binary search.
    Levels from ``depth`` on are known to be empty: calls that begin there are left out.
    """
    pending = [(0, height)]
    depth = height if depth is None else depth
    while pending:
        low, high = pending.pop()
        if low < min(high, depth):
            middle = low + (high - low) // 2
            yield low, middle, high
            pending += [(low, middle), (middle + 1, high)]


def top_down_order(height: int, depth: int | None = None) -> Iterator[tuple[int, int, int]]:
    """The baseline: every level from the root on, so that a record meets up to ``height`` queries."""
    for level in range(height if depth is None else min(height, depth)):
        yield level, level, height


def mark_heavy_hitters(
    levels: list[Level],
    order: Iterator[tuple[int, int, int]],
    check_threshold: Callable[[int, Integers], NDArray[np.bool_]],
) -> list[Marks]:
    """Mark every node Heavy or Light (the paper's Algorithm 1, for a forest of any branching factor).

    Parameters
    ----------
    levels : sequence of Level
        The non-empty nodes, by depth. Empty ones are Light without being asked.
    order : iterator of (low, middle, high)
        ``search_order(height)`` with the *public* height, which may exceed ``len(levels)``.
    check_threshold : callable
        ``check_threshold(level, nodes)`` privately compares the counts of those nodes with tau.

    Returns
    -------
    list of ndarray of int8
        HEAVY or LIGHT for each node of each level.

    Formal guarantees
    -----------------
    On every sequence of answers: no node is queried twice; the nodes on one root-to-leaf path are
    queried at most 1 + floor(log2 height) times; Heavy is closed upward and Light downward. Data is
    read through ``check_threshold`` alone. Time and memory are linear in the number of nodes: each
    is asked or marked once, and a mark stops at the edge of its call's scope.
    """
    marks = [np.zeros(len(level.count), dtype=np.int8) for level in levels]
    for low, middle, high in order:
        if middle >= len(levels):
            continue
        asked = np.flatnonzero(marks[middle] == UNMARKED)
        if not len(asked):
            continue
        passed = check_threshold(middle, asked)
        marks[middle][asked] = np.where(passed, HEAVY, LIGHT)
        nodes = asked[passed]
        for above in range(middle - 1, low - 1, -1):
            nodes = _distinct(levels[above + 1].parent[nodes])
            nodes = nodes[marks[above][nodes] == UNMARKED]
            if not len(nodes):
                break
            marks[above][nodes] = HEAVY
        nodes = asked[~passed]
        for below in range(middle + 1, min(high, len(levels))):
            nodes = levels[below].children(nodes)
            if not len(nodes):
                break
            marks[below][nodes] = LIGHT
    return marks


def _distinct(ascending: Integers) -> Integers:
    return ascending[np.diff(ascending, prepend=-1) > 0]


def mark_tree(
    level: NDArray[np.integer[Any]],
    up: NDArray[np.integer[Any]],
    answers: NDArray[np.bool_],
    height: int,
) -> Marks:
    """``mark_heavy_hitters`` for one tree, with all coins tossed beforehand, used or not.

    Parameters
    ----------
    level, up : ndarray of shape (n_nodes,)
        Depth and parent of each node; parents come before their children, the root's is -1.
    answers : ndarray of bool, shape (n_nodes,)
        Whether each node would pass its query.
    height : int
        The public number of levels. Deeper nodes are not asked about.

    Formal guarantees
    -----------------
    The marks, and so everything released, depend only on the answers of nodes that
    ``mark_heavy_hitters`` would ask about; the answers of all other nodes have no effect.
    """
    by_level = np.argsort(level, kind="stable")
    depth = min(int(level.max()) + 1, height)
    offsets = np.searchsorted(level[by_level], np.arange(depth + 1))
    order = np.array(list(search_order(height, depth)))
    return _mark_tree(by_level, offsets, order, up, answers)


@kernel
def _mark_tree(
    by_level: Integers,
    offsets: Integers,
    order: Integers,
    up: NDArray[np.integer[Any]],
    answers: NDArray[np.bool_],
) -> Marks:
    marks = np.zeros(len(answers), dtype=np.int8)
    depth = len(offsets) - 1
    for low, middle, high in order:
        if middle >= depth:
            continue
        for node in by_level[offsets[middle] : offsets[middle + 1]]:
            if marks[node] != UNMARKED:
                continue
            if not answers[node]:
                marks[node] = LIGHT
                continue
            marks[node] = HEAVY
            above, steps = up[node], middle - low
            while steps > 0 and marks[above] == UNMARKED:
                marks[above] = HEAVY
                above, steps = up[above], steps - 1
        for node in by_level[offsets[middle + 1] : offsets[min(high, depth)]]:
            if marks[up[node]] == LIGHT:
                marks[node] = LIGHT
    return marks
