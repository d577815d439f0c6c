"""Trees from a table in memory.

In: encoded rows and the noise to use. Out: pruned trees, and which rows are in which leaf. Private
counts live only inside ``prune``, which takes the paper's steps one after the other:

1. ``_guide`` lets the exponential mechanism choose the splits of the first levels, if it is asked to;
   ``grow`` splits the rows at random, from there down to nodes so small that they are left asleep
   (``blocks``);
2. ``_wake`` expands the few sleeping nodes below which a threshold query could pass (``thinning``);
3. ``mark_tree`` is MarkHeavyHitters, with one coin for each node;
4. ``_release`` keeps Heavy nodes as splits, and their Light children as leaves.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lumberjack.domain import Codes
from lumberjack.engines.blocks import (
    Limits,
    Nodes,
    Table,
    Work,
    divide,
    find_room,
    grow,
    plant,
)
from lumberjack.guided import Guide
from lumberjack.heavy_hitters import HEAVY, mark_tree
from lumberjack.kernels import kernel
from lumberjack.noise import Bits, Words
from lumberjack.structure import LEFT, NO_SPLIT, RIGHT, Features, child_key
from lumberjack.thinning import Thinning
from lumberjack.tree import LEAF, Tree

__all__ = ["Leaves", "Policy", "Work", "prune"]

Integers = NDArray[np.int64]


class Coin(Protocol):
    """What ``prune`` asks of a threshold: ``noise.ThresholdCoin``, or a stand-in without noise."""

    def draw(self, counts: Integers, bits: Bits, keys: Words | None) -> NDArray[np.bool_]:
        """One answer for each count."""


@dataclass(frozen=True)
class Leaves:
    """The rows in each leaf of a pruned tree: private, and never kept.

    Attributes
    ----------
    keys : ndarray of uint64, shape (n_leaves,)
        Keys of the leaves, for seeded noise.
    rows : ndarray of int32, shape (n_rows,)
        Rows of the table, those of one leaf next to each other.
    start, count : ndarray of int64, shape (n_leaves,)
        Where in ``rows`` a leaf's rows are.
    """

    keys: Words
    rows: NDArray[np.int32]
    start: Integers
    count: Integers


@dataclass(frozen=True)
class Policy:
    """How a tree is split and pruned.

    Attributes
    ----------
    height : int
        Nodes on this level are not split, nor asked about.
    coin : Coin
        The threshold queries.
    bits : Bits
    guide : Guide or None
        Chooses the splits of the first levels. None: all splits are random.
    thinning : Thinning or None
        Leaves small nodes asleep, with the same distribution of trees. None expands every node.
    """

    height: int
    coin: Coin
    bits: Bits
    guide: Guide | None = None
    thinning: Thinning | None = None

    @property
    def small(self) -> int:
        """Nodes of fewer rows are left asleep."""
        return 1 if self.thinning is None else self.thinning.small


def prune(
    codes: Codes,
    features: Features,
    root_key: np.uint64,
    policy: Policy,
    stop: NDArray[np.bool_] | None = None,
) -> tuple[Tree, Leaves, Work]:
    """Grow one tree and keep its Heavy nodes as splits.

    Parameters
    ----------
    stop : ndarray of bool, shape (1,), or None
        Set from another thread, it ends the work soon; the result is then of no use.

    Returns
    -------
    tree : Tree
        Split nodes and leaves; a Light root, or one that cannot be split, is the one leaf.
    leaves : Leaves
        The rows in each leaf.
    work : Work
        What it cost.

    Formal guarantees
    -----------------
    ``tree`` depends on the rows only through the guide, the coin and the thinning of ``policy``. The
    answers of the last two together are distributed as one coin for each node, seen only where
    MarkHeavyHitters asks; each row is in at most 1 + floor(log2 height) of the counts asked about. Every
    node on a guided level chooses, with no regard to how many rows it has: of nodes that are not made,
    or stay asleep, the choice is never seen and so is not drawn.
    """
    height, small = policy.height, policy.small
    limits = Limits(height, small, np.zeros(1, dtype=np.bool_) if stop is None else stop)
    table = Table(codes, np.arange(len(codes), dtype=np.int32))
    nodes, size = _guide(table, features, policy, limits, plant(root_key, len(codes)))
    waiting = np.flatnonzero((nodes.feature[:size] == NO_SPLIT) & (nodes.level[:size] < height))
    nodes, size, *cost = grow(table, features, nodes, size, waiting, limits)
    answers = np.zeros(size, dtype=np.bool_)
    awake = np.flatnonzero((nodes.n_rows[:size] >= small) & (nodes.level[:size] < height))
    keys = None if policy.bits.seed is None else nodes.key[awake]
    answers[awake] = policy.coin.draw(nodes.n_rows[awake], policy.bits, keys)
    if policy.thinning is not None:
        nodes, answers = _wake(table, features, policy, policy.thinning, nodes, answers)
    marks = mark_tree(nodes.level[: len(answers)], nodes.up, answers, height)
    *arrays, leaf_keys, segment = _release(nodes, marks)
    tree = Tree(*map(np.copy, arrays))  # a slice would keep private work buffers behind it
    start = np.where(segment < 0, 0, nodes.start[segment])
    count = np.where(segment < 0, 0, nodes.n_rows[segment])
    return tree, Leaves(leaf_keys, table.order, start, count), Work(len(answers), *cost)


def _guide(
    table: Table, features: Features, policy: Policy, limits: Limits, nodes: Nodes
) -> tuple[Nodes, int]:
    """Split the root, and all nodes of at least ``small`` rows on the guided levels."""
    node, size = 0, 1
    levels = min(policy.guide.levels, policy.height) if policy.guide is not None else 0
    while node < size and nodes.level[node] < levels and not limits.stop[0]:
        if nodes.n_rows[node] >= limits.small:
            nodes, size = _split(table, features, policy, nodes, size, node)
        node += 1
    return nodes, size


def _split(
    table: Table, features: Features, policy: Policy, nodes: Nodes, size: int, node: int
) -> tuple[Nodes, int]:
    """Split one node: where its guide says, or at random if it has none, or nothing to choose from."""
    level, n_rows, guide = int(nodes.level[node]), int(nodes.n_rows[node]), policy.guide
    if guide is not None and level < guide.levels:
        room = find_room(nodes, node, features)
        here = table.order[nodes.start[node] : nodes.start[node] + n_rows]
        chosen = guide.choose(table.codes, here, node, nodes, room, policy.bits)
        if chosen is not None:
            nodes, size = divide(table, features, nodes, size, node, chosen)
            return nodes, size
    alone = Limits(level + 1, n_rows, np.zeros(1, dtype=np.bool_))
    nodes, size, *_ = grow(table, features, nodes, size, np.array([node], dtype=np.int64), alone)
    return nodes, size


def _wake(
    table: Table,
    features: Features,
    policy: Policy,
    thinning: Thinning,
    nodes: Nodes,
    answers: NDArray[np.bool_],
) -> tuple[Nodes, NDArray[np.bool_]]:
    """Expand sleeping nodes along their candidates, and answer the queries there."""
    codes, order, size, bits = table.codes, table.order, len(answers), policy.bits
    asleep = np.flatnonzero(
        (nodes.n_rows[:size] < thinning.small) & (nodes.level[:size] < policy.height)
    )
    keys = None if bits.seed is None else nodes.key[asleep]
    levels = policy.height - nodes.level[asleep].astype(np.int64)
    found = thinning.draw(nodes.n_rows[asleep], levels, bits, keys)
    passed: list[int] = []
    for which, slots in found:
        top = int(asleep[which])
        most = int(nodes.n_rows[top])
        here = order[nodes.start[top] : nodes.start[top] + most]
        # By their codes: which rows are candidates must not depend on the order of the table.
        by_code = here[np.lexsort(codes[here].T[::-1])]
        level = int(nodes.level[top])
        candidates = [(level + slot // most, int(by_code[slot % most])) for slot in slots]
        pending = [(top, candidates)]
        while pending:
            node, candidates = pending.pop()
            level = int(nodes.level[node])
            if any(at == level for at, _ in candidates) and thinning.accepts(
                int(nodes.n_rows[node]), most, bits, nodes.key[node : node + 1]
            ):
                passed.append(node)
            first = size
            nodes, size = _split(table, features, policy, nodes, size, node)
            for child in range(first, size):
                begin = nodes.start[child]
                inside = set(order[begin : begin + nodes.n_rows[child]].tolist())
                below = [(at, row) for at, row in candidates if at > level and row in inside]
                if below:
                    pending.append((child, below))
    out = np.zeros(size, dtype=np.bool_)
    out[: len(answers)] = answers
    out[passed] = True
    return nodes, out


@kernel
def _release(nodes: Nodes, marks: Any) -> Any:
    """The pruned tree, level by level: Heavy nodes with their splits, and a leaf where a branch ends.

    Also the keys of the leaves, and the node whose rows each leaf has (-1: none was made, no rows).
    """
    size = len(marks)
    child = np.full((size, 2), -1, dtype=np.int64)
    n_heavy = 0
    for i in range(size):
        if marks[i] == HEAVY:
            n_heavy += 1
        if i > 0:
            child[nodes.up[i], nodes.side[i]] = i
    most = 2 * n_heavy + 1
    feature, cut = np.full(most, LEAF, dtype=np.int32), np.zeros(most, dtype=np.uint32)
    missing_left = np.zeros(most, dtype=np.bool_)
    left = np.empty(most, dtype=np.int32)
    source, key = np.full(most, -1, dtype=np.int64), np.zeros(most, dtype=np.uint64)
    segment, leaf_keys = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.uint64)
    source[0], key[0] = 0, nodes.key[0]
    made, n_leaves = 1, 0
    for i in range(most):
        if i == made:
            break
        node = source[i]
        if node >= 0 and marks[node] == HEAVY and nodes.feature[node] != NO_SPLIT:
            feature[i], cut[i] = nodes.feature[node], nodes.cut[node]
            missing_left[i] = nodes.missing_left[node]
            left[i] = made
            for side in (LEFT, RIGHT):
                source[made], key[made] = child[node, side], child_key(key[i], side)
                made += 1
        else:
            left[i] = n_leaves
            segment[n_leaves], leaf_keys[n_leaves] = node, key[i]
            n_leaves += 1
    return (
        feature[:made],
        cut[:made],
        missing_left[:made],
        left[:made],
        leaf_keys[:n_leaves],
        segment[:n_leaves],
    )
