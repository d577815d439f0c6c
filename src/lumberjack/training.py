"""The training algorithm: guided and random splits, pruning by heavy hitters, released leaves.

In: encoded rows, wherever they are (``engines.base.Rows``), and a guarantee with its noise. Out: trees
and released values. Sums over the rows of a tree are private, and never leave this module without noise
(``learning`` and ``heavy_hitters`` do the same with counts of their own):

1. ``_guide`` lets the exponential mechanism choose the splits of the first levels; ``_expand`` splits
   at random below, and leaves small nodes asleep (not expanded);
2. ``_wake`` expands the few sleeping nodes below which a threshold query could pass (``thinning``);
3. ``mark_tree`` is MarkHeavyHitters, with one coin for each node;
4. ``_release`` keeps Heavy nodes as splits, and their Light children as leaves.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lumberjack.descent import fit_forest
from lumberjack.domain import Domain
from lumberjack.engines.base import Block, Rows, Size, Tally
from lumberjack.engines.growth import Table, Work, grow, place
from lumberjack.growing import Growing, Limits, Nodes, add_children, plant, settle
from lumberjack.guarantee import Guarantee
from lumberjack.guided import Choice, Guide
from lumberjack.kernels import kernel
from lumberjack.learning import Task, learn
from lumberjack.noise import Bits, ThresholdCoin, Words, mix_keys
from lumberjack.search import HEAVY, Marks, mark_tree
from lumberjack.structure import LEFT, NO_SPLIT, RIGHT, Features, child_key, root_keys
from lumberjack.targets import LeafSums, Target, Votes
from lumberjack.thinning import Thinning
from lumberjack.tree import LEAF, Forest, Tree

__all__ = ["Leaves", "Policy", "Trained", "prune", "train"]

Integers = NDArray[np.int64]
CALIBRATION = np.uint64(0xCA11B)  # key of the noise of the calibration histogram
_PRECISION = 2  # the calibration histogram has 1/2 of a leaf's noise
_SAMPLE = 2**18  # rows sampled to find the nodes that are probably large; affects speed only


class Coin(Protocol):
    """What ``prune`` needs for threshold queries: ``noise.ThresholdCoin``, or a noiseless stand-in."""

    def draw(self, counts: Integers, bits: Bits, keys: Words | None) -> NDArray[np.bool_]:
        """One answer for each count."""


@dataclass(frozen=True)
class Policy:
    """How trees are split and pruned.

    Attributes
    ----------
    height : int
        Nodes on this level are neither split nor queried.
    coin : Coin
        The threshold queries.
    bits : Bits
    guide : Guide or None
        Chooses the splits of the first levels. None: all splits are random.
    thinning : Thinning or None
        Leaves small nodes asleep, without changing the distribution of trees. None expands every node.
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


class Leaves(NamedTuple):
    """The leaves of a pruned tree.

    Attributes
    ----------
    keys : ndarray of uint64, shape (n_leaves,)
        For seeded noise.
    nodes : ndarray of int64, shape (n_leaves,)
        Their nodes in the grown tree; -1 for a leaf without rows, which has no node.
    grown : Growing
        The grown tree: private, and never kept.
    work : Work
        The cost of growing it.
    """

    keys: Words
    nodes: Integers
    grown: Growing
    work: Work


class Trained(NamedTuple):
    """What training releases.

    Attributes
    ----------
    domain : Domain
        With what was learned about the columns.
    target : Classes or Numbers
    forest : Forest
    calibration : ndarray
        How pooled votes are read: see ``voting``.
    """

    domain: Domain
    target: Target
    forest: Forest
    calibration: NDArray[np.float64]


def train(
    rows: Rows,
    task: Task,
    guarantee: Guarantee,
    bits: Bits,
    n_threads: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> Trained:
    """Learn what is open, grow a forest, release its leaves, and calibrate a guided one.

    Formal guarantees
    -----------------
    All that is returned is priced by ``guarantee``: what ``learning.learn`` states; then, for each tree,
    what ``prune`` and ``target.release`` state; then a
    histogram in which a record is in one cell, with half the noise of a leaf, which costs as much as the
    leaves of four more trees (``guarantee.calibration_counts``). Fitted leaves instead: what
    ``descent.fit_forest`` states.
    """
    rows, domain, target = learn(rows, task, guarantee, bits)
    if guarantee.fits_leaves:
        # Matrices of fits are small: more threads in linear algebra would only wait for each other.
        with threadpool_limits(1, user_api="blas"):
            forest = fit_forest(rows, domain, target, guarantee, bits, n_threads, advance)
        return Trained(domain, target, forest, target.uncalibrated)
    features = Features.of(domain, task.weights)
    forest = _grow_forest(rows, features, target, guarantee, bits, n_threads, advance)
    if not (guarantee.guided_levels and target.has_sizes):
        return Trained(domain, target, forest, target.uncalibrated)
    (cells,) = rows.total(Votes(forest, target.say(forest, guarantee), target, n_threads))
    keys = mix_keys(np.full(len(cells), CALIBRATION), np.arange(len(cells), dtype=np.uint64))
    released = target.release(guarantee, _PRECISION)(cells, bits, keys)
    return Trained(domain, target, forest, target.calibrate(released, guarantee, _PRECISION))


def _grow_forest(
    rows: Rows,
    features: Features,
    target: Target,
    guarantee: Guarantee,
    bits: Bits,
    n_threads: int,
    advance: Callable[[], None],
) -> Forest:
    """Prune every tree, in threads, and release its leaves."""
    largest = int(rows.total(Size())[0][0])
    coin = ThresholdCoin(
        guarantee.threshold_noise, guarantee.threshold, cut=guarantee.cut, largest=largest
    )
    guide = None
    if guarantee.guided_levels:
        guide = Guide(target.score, guarantee.choice_exponent or 0.0, guarantee.guided_levels)
    height = guarantee.max_depth
    policy = Policy(height, coin, bits, guide, Thinning(coin, height))
    release, stop = target.release(guarantee), np.zeros(1, dtype=np.bool_)

    def one(key: np.uint64) -> tuple[Tree, NDArray[np.float64]]:
        tree, leaves = prune(rows, largest, features, key, policy, stop)
        (sums,) = rows.total(LeafSums(leaves.grown, leaves.nodes, target))
        rows.forget(leaves.grown)
        return tree, release(sums, bits, leaves.keys)

    grown = []
    threads = ThreadPoolExecutor(n_threads)
    try:
        todo = [threads.submit(one, key) for key in root_keys(bits.seed, guarantee.n_estimators)]
        for future in todo:
            grown.append(future.result())
            advance()
    finally:
        # After an error or Ctrl-C: start no more trees, and end the running ones soon.
        stop[0] = True
        threads.shutdown(cancel_futures=True)
    return Forest(tuple(t for t, _ in grown), tuple(v for _, v in grown), features.categorical)


def prune(
    rows: Rows,
    n_rows: int,
    features: Features,
    root_key: np.uint64,
    policy: Policy,
    stop: NDArray[np.bool_] | None = None,
) -> tuple[Tree, Leaves]:
    """Grow one tree and keep its Heavy nodes as splits.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    stop : ndarray of bool, shape (1,), or None
        Set from another thread to end the work soon; the result is then unusable.

    Returns
    -------
    tree : Tree
        Split nodes and leaves; a Light root, or one that cannot be split, is the only leaf.
    leaves : Leaves

    Formal guarantees
    -----------------
    ``tree`` depends on the rows only through the guide, the coin and the thinning of ``policy``. The
    answers of the coin and the thinning together are distributed as one coin for each node, seen only
    where MarkHeavyHitters asks; each row is in at most 1 + floor(log2 height) of the queried counts.
    Every node on a guided level chooses, whatever its number of rows. The choices of nodes that are not
    made, or stay asleep, are never seen, so they are not drawn.
    """
    limits = Limits(policy.height, policy.small, np.zeros(1, np.bool_) if stop is None else stop)
    grown = _guide(rows, Growing(features, plant(root_key, n_rows), 1), policy, limits)
    level, size = grown.nodes.level[: grown.size], grown.nodes.n_rows[: grown.size]
    waiting = (grown.nodes.feature[: grown.size] == NO_SPLIT) & (level < policy.height)
    grown, work = _expand(rows, grown, np.flatnonzero(waiting & (size >= policy.small)), limits)
    nodes = grown.nodes
    answers = np.zeros(grown.size, dtype=np.bool_)
    open_to_ask = nodes.level[: grown.size] < policy.height
    awake = np.flatnonzero(open_to_ask & (nodes.n_rows[: grown.size] >= policy.small))
    answers[awake] = policy.coin.draw(nodes.n_rows[awake], policy.bits, nodes.key[awake])
    if policy.thinning is not None:
        grown, answers = _wake(rows, grown, policy, policy.thinning, answers)
    marks = mark_tree(grown.nodes.level[: grown.size], grown.nodes.up, answers, policy.height)
    kept = _release(grown.nodes, marks)
    # Copies: slices would keep the private work buffers alive.
    tree = Tree(kept.feature.copy(), kept.cut.copy(), kept.missing_left.copy(), kept.left.copy())
    work = work._replace(nodes=grown.size)
    return tree, Leaves(kept.keys, kept.nodes, grown, work)


def _guide(rows: Rows, tree: Growing, policy: Policy, limits: Limits) -> Growing:
    """Split the root, and all nodes of at least ``small`` rows on the guided levels."""
    guide = policy.guide
    for level in range(0 if guide is None else min(guide.levels, policy.height)):
        at = tree.nodes.level[: tree.size] == level
        here = np.flatnonzero(at & (tree.nodes.n_rows[: tree.size] >= limits.small)).tolist()
        if guide is None or not here or limits.stop[0]:
            break
        offered = [guide.offer(tree, node) for node in here]
        found = rows.total(guide.ask(tree, here, [offer for _, offer in offered]))
        alone = []
        for node, bins, options in zip(here, found, offered, strict=True):
            choice = guide.choose(bins, tree, node, options, policy.bits)
            if choice is None:
                alone.append(node)
            else:
                tree = _split(tree, node, choice)
        if alone:  # nothing to choose from: split at random
            tree, _ = _expand(rows, tree, np.array(alone), Limits(level + 1, 1, limits.stop))
    return tree


def _split(tree: Growing, node: int, choice: Choice) -> Growing:
    """Apply the chosen split to a node."""
    nodes = tree.nodes
    nodes.feature[node], nodes.cut[node] = choice.feature, choice.cut
    nodes.missing_left[node] = choice.missing_left
    nodes, size = add_children(nodes, tree.size, node, choice.n_left, False)
    return Growing(tree.features, nodes, size)


def _expand(rows: Rows, tree: Growing, waiting: Integers, limits: Limits) -> tuple[Growing, Work]:
    """Split waiting nodes at random, and all nodes below them that ``limits`` allow.

    If rows are in many blocks, a sample shows which nodes are probably large, and one pass over all rows
    counts these nodes. This repeats until no large node is left to split.
    """
    work, sample = Work(0, 0, 0, 0), rows.sample(_SAMPLE)
    while len(waiting) and not limits.stop[0]:
        before = tree.size
        tree, cost = sample.grow(tree, waiting, limits)
        work = Work(*map(sum, zip(work, cost, strict=True)))
        if sample.is_all:
            break
        (count,) = rows.total(Tally(tree))
        size = settle(tree.nodes, tree.size, count, before, limits.small)
        tree = tree._replace(size=size)
        nodes, new = tree.nodes, np.arange(before, size)
        unsplit = (nodes.feature[new] == NO_SPLIT) & (nodes.level[new] < limits.height)
        waiting = new[unsplit & (nodes.n_rows[new] >= limits.small)]
    return tree, work


def _wake(
    rows: Rows, tree: Growing, policy: Policy, thinning: Thinning, answers: NDArray[np.bool_]
) -> tuple[Growing, NDArray[np.bool_]]:
    """Expand sleeping nodes along their candidates, and answer the queries there."""
    nodes, size, bits = tree.nodes, tree.size, policy.bits
    asleep = np.flatnonzero(
        (nodes.n_rows[:size] < thinning.small) & (nodes.level[:size] < policy.height)
    )
    levels = policy.height - nodes.level[asleep].astype(np.int64)
    found = thinning.draw(nodes.n_rows[asleep], levels, bits, nodes.key[asleep])
    tops = [int(asleep[which]) for which, _ in found]
    passed: list[int] = []
    for top, (_, slots), block in zip(tops, found, rows.pick(tree, tops), strict=True):
        tree = _wake_one(block, tree, policy, (top, slots), passed)
    out = np.zeros(tree.size, dtype=np.bool_)
    out[: len(answers)] = answers
    out[passed] = True
    return tree, out


def _wake_one(
    block: Block, tree: Growing, policy: Policy, drawn: tuple[int, Sequence[int]], passed: list[int]
) -> Growing:
    """Expand one sleeping node along its candidates; nodes whose query passes join ``passed``."""
    (top, slots), thinning, most = drawn, policy.thinning, len(block)
    assert thinning is not None
    order = np.arange(most, dtype=np.int32)
    # Sorted by codes, because the choice of candidates must not depend on the order of the table.
    by_code = np.lexsort(block.codes.T[::-1])
    level = int(tree.nodes.level[top])
    pending = [(top, [(level + slot // most, int(by_code[slot % most])) for slot in slots])]
    tree.nodes.start[top] = 0
    while pending:
        node, candidates = pending.pop()
        level, count = int(tree.nodes.level[node]), int(tree.nodes.n_rows[node])
        key = tree.nodes.key[node : node + 1]
        if any(at == level for at, _ in candidates) and thinning.accepts(count, most, policy.bits, key):
            passed.append(node)
        before = tree.size
        tree = _split_alone(Table(block.codes, order), block.target, tree, policy, node)
        for child in range(before, tree.size):
            begin = tree.nodes.start[child]
            inside = set(order[begin : begin + tree.nodes.n_rows[child]].tolist())
            below = [(at, row) for at, row in candidates if at > level and row in inside]
            if below:
                pending.append((child, below))
    return tree


def _split_alone(
    table: Table, target: NDArray[np.int32], tree: Growing, policy: Policy, node: int
) -> Growing:
    """Split one node of few rows: by the guide on a guided level, or else at random."""
    guide, nodes = policy.guide, tree.nodes
    level, n_rows = int(nodes.level[node]), int(nodes.n_rows[node])
    if guide is not None and level < guide.levels:
        here = table.order[nodes.start[node] : nodes.start[node] + n_rows]
        options = guide.offer(tree, node)
        bins = guide.score.count(table.codes, here, options[1], target)
        choice = guide.choose(bins, tree, node, options, policy.bits)
        if choice is not None:
            before, tree = tree.size, _split(tree, node, choice)
            place(table, tree.features, tree.nodes, before, tree.size)
            return tree
    alone = Limits(level + 1, n_rows, np.zeros(1, dtype=np.bool_))
    waiting = np.array([node], dtype=np.int64)
    grown = grow(table, tree.features, nodes, tree.size, waiting, alone)
    return Growing(tree.features, grown.nodes, grown.size)


class _Kept(NamedTuple):
    """What is kept of a grown tree: the arrays of a ``Tree``, and ``keys`` and ``nodes`` of ``Leaves``.

    All are slices of longer arrays.
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.uint32]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    keys: Words
    nodes: Integers


@kernel
def _release(nodes: Nodes, marks: Marks) -> _Kept:
    """The pruned tree, level by level: Heavy nodes with their splits, and a leaf where a branch ends."""
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
    return _Kept(
        feature[:made],
        cut[:made],
        missing_left[:made],
        left[:made],
        leaf_keys[:n_leaves],
        segment[:n_leaves],
    )
