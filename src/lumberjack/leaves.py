"""What leaves hold: counts of classes, labels, sums of targets, or weights.

In: exact sums over the rows of each leaf. Out: sums with noise, and what leaves add to a prediction,
which is the sum over the trees (``targets`` reads it). Only released values are read here:

- *counts*: the shares of the classes in a leaf's noisy counts, averaged over trees;
- *labels*: one tree, one vote;
- *sums*: a leaf's noisy sum of targets over its noisy count, averaged over trees;
- *weights*, which were fitted together: they add up as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.anatomy import Values
from lumberjack.growing import Growing
from lumberjack.guarantee import SUM_BOUND, Guarantee, Leaf
from lumberjack.kernels import kernel
from lumberjack.noise import (
    Bits,
    ExponentialChoice,
    Integers,
    Purpose,
    RoundedGaussian,
    Words,
    mix_keys,
)
from lumberjack.tree import Forest

__all__ = [
    "Counts",
    "Labels",
    "LeafSums",
    "Leaves",
    "Pruned",
    "Sums",
    "Votes",
    "Weights",
    "leaves_of_classes",
    "noisy_counts",
    "noisy_labels",
    "noisy_sums",
    "shares",
]

Floats = NDArray[np.float64]
# From exact sums to noisy ones. Its tables take time: it is made once for all trees.
Release = Callable[[Integers, Bits, Words], Floats]


class Votes(NamedTuple):
    """What leaves add to a prediction.

    Attributes
    ----------
    base : ndarray of shape (n_outputs,)
        What all rows get.
    leaves : tuple of ndarray, each of shape (n_leaves, n_outputs)
        For each tree.
    """

    base: Floats
    leaves: tuple[Floats, ...]


@dataclass(frozen=True)
class Counts:
    """Noisy rows of each class.

    Parameters
    ----------
    n_values : int
        Number of classes.
    """

    n_values: int
    holds: ClassVar[Values] = "counts"

    def add_up(
        self, order: NDArray[np.int32], start: Integers, count: Integers, target: NDArray[np.int32]
    ) -> Integers:
        """Rows of each class in each leaf, shape (n_leaves, n_classes); private until noise is added."""
        out = np.zeros((len(start), self.n_values), dtype=np.int64)
        _count_classes(order, start, count, target, out)
        return out

    def release(self, guarantee: Guarantee) -> Release:
        """The mechanism of the leaves, shape (n_leaves, n_classes).

        Formal guarantees
        -----------------
        That of ``noisy_counts``.
        """
        noise = RoundedGaussian(guarantee.leaf_noise or 0.0)
        return lambda sums, bits, keys: noisy_counts(sums, noise, bits, keys)

    def vote(self, forest: Forest) -> Votes:
        """Shares of the classes, each tree's divided by the number of trees."""
        each = tuple(shares(counts) / len(forest.trees) for counts in forest.values)
        return Votes(np.zeros(self.n_values), each)

    def noise(self, guarantee: Guarantee) -> tuple[float, float]:
        """Noise of a leaf's counts, and of its sums."""
        return _possible(guarantee.leaf_noise), 0.0

    def sizes(self, values: Floats) -> Floats:
        """Noisy rows of each leaf, at least one, shape (n_leaves,)."""
        return np.asarray(np.maximum(values.sum(axis=1), 1.0))


@dataclass(frozen=True)
class Labels:
    """One label for each leaf, as a row with a single 1.

    Parameters
    ----------
    n_values : int
        Number of classes.
    is_chosen : bool
        Whether the exponential mechanism chooses it; otherwise it is the noisy majority.
    """

    n_values: int
    is_chosen: bool = False
    holds: ClassVar[Values] = "labels"

    def add_up(
        self, order: NDArray[np.int32], start: Integers, count: Integers, target: NDArray[np.int32]
    ) -> Integers:
        """As ``Counts.add_up``."""
        return Counts(self.n_values).add_up(order, start, count, target)

    def release(self, guarantee: Guarantee) -> Release:
        """The mechanism of the leaves, shape (n_leaves, n_classes).

        Formal guarantees
        -----------------
        That of ``noisy_labels``.
        """
        scale = guarantee.leaf_noise or 0.0
        noise = ExponentialChoice(1 / scale) if self.is_chosen else RoundedGaussian(scale)
        return lambda sums, bits, keys: noisy_labels(sums, noise, bits, keys)

    def vote(self, forest: Forest) -> Votes:
        """One vote a tree; ties go to rare classes, as leaf majorities favour frequent ones."""
        total = np.maximum(np.sum([v.sum(axis=0) for v in forest.values], axis=0), 1.0)
        tie = (1 - total / total.sum()) / max(len(total) - 1, 1)
        return Votes(1e-3 * len(forest.trees) * tie, forest.values)

    def noise(self, guarantee: Guarantee) -> tuple[float, float]:
        """Noise of a leaf's counts, and of its sums: it has neither."""
        return 0.0, 0.0

    def sizes(self, values: Floats) -> Floats:
        """1 for each leaf, shape (n_leaves,)."""
        return np.ones(len(values))


@dataclass(frozen=True)
class Sums:
    """A noisy count of rows, and the noisy sum of their targets."""

    n_values: ClassVar[int] = 2
    holds: ClassVar[Values] = "sums"

    def add_up(
        self, order: NDArray[np.int32], start: Integers, count: Integers, target: NDArray[np.int32]
    ) -> Integers:
        """(rows, sum of targets) of each leaf, shape (n_leaves, 2); private until noise is added."""
        sums = np.zeros(len(start), dtype=np.int64)
        _add_targets(order, start, count, target, sums)
        return np.column_stack([count, sums])

    def release(self, guarantee: Guarantee) -> Release:
        """The mechanism of the leaves, shape (n_leaves, 2).

        Formal guarantees
        -----------------
        That of ``noisy_sums``.
        """
        of_counts, of_sums = guarantee.leaf_noise or 0.0, guarantee.sum_noise or 0.0
        noise = RoundedGaussian(of_counts), RoundedGaussian(of_sums)
        return lambda sums, bits, keys: noisy_sums(sums, noise, bits, keys)

    def vote(self, forest: Forest) -> Votes:
        """Means in half widths of the target's bounds, each divided by the number of trees."""
        each = ((v[:, 1:], self.sizes(v)[:, None]) for v in forest.values)
        means = (np.clip(sums / rows / SUM_BOUND, -1.0, 1.0) for sums, rows in each)
        return Votes(np.zeros(1), tuple(mean / len(forest.trees) for mean in means))

    def noise(self, guarantee: Guarantee) -> tuple[float, float]:
        """Noise of a leaf's counts, and of its sums."""
        return _possible(guarantee.leaf_noise), _possible(guarantee.sum_noise)

    def sizes(self, values: Floats) -> Floats:
        """Noisy rows of each leaf, at least one, shape (n_leaves,)."""
        return np.maximum(values[:, 0], 1.0)


@dataclass(frozen=True)
class Weights:
    """An expected number of rows, and weights that were fitted together.

    Parameters
    ----------
    n_outputs : int
        Weights of a leaf: 1, or one for each class.
    """

    n_outputs: int
    holds: ClassVar[Values] = "weights"

    @property
    def n_values(self) -> int:
        """How many values a leaf has."""
        return 1 + self.n_outputs

    def vote(self, forest: Forest) -> Votes:
        """Weights as they are."""
        return Votes(np.zeros(self.n_outputs), tuple(v[:, 1:] for v in forest.values))

    def noise(self, guarantee: Guarantee) -> tuple[float, float]:
        """Noise of a leaf's counts, and of its sums: weights are shrunk to what noise leaves."""
        return 0.0, 0.0

    def sizes(self, values: Floats) -> Floats:
        """Expected rows of each leaf, shape (n_leaves,)."""
        return values[:, 0]


Pruned = Counts | Labels | Sums  # added up over rows, tree by tree
Leaves = Pruned | Weights


def leaves_of_classes(leaf: Leaf, n_classes: int) -> Pruned:
    """What the leaves of pruned trees hold, where classes are predicted."""
    known: dict[Leaf, Pruned] = {
        "counts": Counts(n_classes),
        "majority": Labels(n_classes),
        "exponential": Labels(n_classes, is_chosen=True),
    }
    return known[leaf]


def shares(counts: Floats) -> Floats:
    """Shares of the classes in each leaf's noisy counts; all alike where no count is above 0."""
    positive = np.maximum(counts, 0.0)
    positive[~positive.any(axis=1)] = 1.0
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


def _possible(noise: float | None) -> float:
    """The noise in a sane range: a file may claim nonsense, which ``Guarantee.verify`` exposes."""
    return min(max(float(noise or 0), 0.0), 1e100)


class LeafSums(NamedTuple):
    """A counting object: what the leaves of a tree hold.

    Attributes
    ----------
    tree : Growing
    nodes : ndarray of int64, shape (n_leaves,)
        Nodes that are leaves of the pruned tree; -1 for a leaf without rows, which has no node.
    leaves : Counts, Labels or Sums
    """

    tree: Growing
    nodes: Integers
    leaves: Pruned

    def __call__(self, block: Any) -> list[Integers]:
        """One array, shape (n_leaves, n_values)."""
        found, made = block.sort(self.tree), self.nodes >= 0
        start = np.where(made, found.start[self.nodes], 0)
        count = np.where(made, found.n_rows[self.nodes], 0)
        return [self.leaves.add_up(found.order, start, count, block.target)]


@kernel
def _count_classes(
    order: NDArray[np.int32], start: Integers, count: Integers, target: NDArray[np.int32], out: Integers
) -> None:
    for leaf in range(len(start)):
        for i in range(start[leaf], start[leaf] + count[leaf]):
            out[leaf, target[order[i]]] += 1


@kernel
def _add_targets(
    order: NDArray[np.int32], start: Integers, count: Integers, target: NDArray[np.int32], out: Integers
) -> None:
    for leaf in range(len(start)):
        total = 0
        for row in order[start[leaf] : start[leaf] + count[leaf]]:
            total += target[row]
        out[leaf] = total


def noisy_counts(counts: Integers, noise: RoundedGaussian, bits: Bits, keys: Words) -> Floats:
    """Class counts of each leaf plus rounded Gaussian noise, shape (n_leaves, n_classes).

    Formal guarantees
    -----------------
    A record is in one cell of one leaf of a tree: 1/sigma-GDP for each tree. Empty leaves get noise
    like all others.
    """
    n_classes = counts.shape[1]
    classes = np.arange(n_classes, dtype=np.uint64)
    cells = mix_keys(keys[None, :], classes[:, None]).ravel()
    draws = noise.draw(counts.size, bits, cells, Purpose.COUNT).reshape(n_classes, -1).T
    return np.asarray(counts + draws, dtype=np.float64)


def noisy_labels(
    counts: Integers, noise: RoundedGaussian | ExponentialChoice, bits: Bits, keys: Words
) -> Floats:
    """One label for each leaf, as a row with a single 1: the noisy majority.

    Formal guarantees
    -----------------
    The largest noisy count is post-processing of ``noisy_counts``; the exponential mechanism has the
    price of ``ExponentialChoice``. Nothing but the label is released.
    """
    if isinstance(noise, ExponentialChoice):
        label = noise.draw(counts, bits, keys)
    else:
        label = noisy_counts(counts, noise, bits, keys).argmax(axis=1)
    out = np.zeros(counts.shape)
    out[np.arange(len(out)), label] = 1.0
    return out


def noisy_sums(
    sums: Integers, noise: tuple[RoundedGaussian, RoundedGaussian], bits: Bits, keys: Words
) -> Floats:
    """Noisy (count, sum) of each leaf, shape (n_leaves, 2), with the noise of counts and of sums.

    Formal guarantees
    -----------------
    A record moves one count by 1 and one sum by at most SUM_BOUND:
    mu^2 = 1/sigma_count^2 + SUM_BOUND^2/sigma_sum^2 for each tree.
    """
    of_counts = noise[0].draw(len(sums), bits, keys, Purpose.COUNT)
    of_sums = noise[1].draw(len(sums), bits, keys, Purpose.SUM)
    return (sums + np.column_stack([of_counts, of_sums])).astype(np.float64)
