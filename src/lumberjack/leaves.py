"""What a leaf releases.

In: exact statistics of each leaf. Out: noisy ones, which are all that prediction (``voting``) reads.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.guarantee import SUM_BOUND
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

__all__ = [
    "Targets",
    "add_targets",
    "count_classes",
    "noisy_counts",
    "noisy_labels",
    "noisy_sums",
]

Floats = NDArray[np.float64]


@kernel
def count_classes(rows: Any, start: Any, count: Any, target: Any, n_classes: Any) -> Any:
    """Rows of each class in each leaf, shape (n_leaves, n_classes); private until noise is added."""
    out = np.zeros((len(start), n_classes), dtype=np.int64)
    for leaf in range(len(start)):
        for i in range(start[leaf], start[leaf] + count[leaf]):
            out[leaf, target[rows[i]]] += 1
    return out


@kernel
def add_targets(rows: Any, start: Any, count: Any, target: Any) -> Any:
    """Sum of the targets in each leaf, shape (n_leaves,); private until noise is added."""
    out = np.zeros(len(start), dtype=np.int64)
    for leaf in range(len(start)):
        total = 0
        for row in rows[start[leaf] : start[leaf] + count[leaf]]:
            total += target[row]
        out[leaf] = total
    return out


def noisy_counts(counts: Integers, noise: RoundedGaussian, bits: Bits, keys: Words) -> Floats:
    """Class counts of each leaf plus rounded Gaussian noise, shape (n_leaves, n_classes).

    Formal guarantees
    -----------------
    A record is in one cell of one leaf of a tree: 1/sigma-GDP for each tree. Empty leaves get noise
    like all others.
    """
    n_classes = counts.shape[1]
    cells = np.concatenate([mix_keys(keys, np.uint64(c)) for c in range(n_classes)])
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
    return np.eye(counts.shape[1])[label]


@dataclass(frozen=True)
class Targets:
    """Public bounds of a regression target, and its integer grid."""

    low: float
    high: float

    def encode(self, y: Floats) -> NDArray[np.int32]:
        """Clip to the bounds and round to the grid: integers from -SUM_BOUND to SUM_BOUND."""
        half = (self.high - self.low) / 2 or 1.0
        place = (np.clip(y, self.low, self.high) - self.centre) / half * SUM_BOUND
        # Clipped as integers, last of all: the price of a sum rests on this bound.
        return np.clip(np.rint(place).astype(np.int32), -SUM_BOUND, SUM_BOUND)

    def decode(self, place: Floats) -> Floats:
        """From the grid back to targets, inside the bounds."""
        half = (self.high - self.low) / 2
        return np.clip(self.centre + place / SUM_BOUND * half, self.low, self.high)

    @property
    def centre(self) -> float:
        """The middle of the bounds, where the grid is 0."""
        return self.low + (self.high - self.low) / 2


def noisy_sums(
    sums: Integers,
    counts: Integers,
    noise: tuple[RoundedGaussian, RoundedGaussian],
    bits: Bits,
    keys: Words,
) -> Floats:
    """Noisy (count, sum) of each leaf, shape (n_leaves, 2), with the noise of counts and of sums.

    Formal guarantees
    -----------------
    A record moves one count by 1 and one sum by at most SUM_BOUND:
    mu^2 = 1/sigma_count^2 + SUM_BOUND^2/sigma_sum^2 for each tree.
    """
    of_counts = noise[0].draw(len(counts), bits, keys, Purpose.COUNT)
    of_sums = noise[1].draw(len(sums), bits, keys, Purpose.SUM)
    return np.column_stack([counts + of_counts, sums + of_sums]).astype(np.float64)
