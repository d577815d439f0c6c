"""How trees decide together: what leaves say is added up, and one formula turns the sum into an answer.

In: the sum over trees of what a row's leaves say, shape (n_rows, n_values). Out: probabilities or means.
Each formula is a frozen record of numbers, so that an export can rebuild it elsewhere.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lumberjack.leaves import Targets

__all__ = ["Mean", "Shares", "Softmax", "Voting"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Probabilities in proportion to (sum + offset) * weight."""

    offset: Floats
    weight: Floats

    def __call__(self, pooled: Floats) -> Floats:
        """Probabilities, shape (n_rows, n_classes)."""
        said = (pooled + self.offset) * self.weight
        return np.asarray(said / said.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Softmax:
    """Probabilities in proportion to exp(sum + offset)."""

    offset: Floats

    def __call__(self, pooled: Floats) -> Floats:
        """Probabilities, shape (n_rows, n_classes)."""
        said = pooled + self.offset
        said = np.exp(said - said.max(axis=1, keepdims=True))
        return np.asarray(said / said.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Mean:
    """The pooled sum over the pooled count; ``prior`` where the count is at most ``floor``."""

    floor: float
    prior: float
    targets: Targets

    def __call__(self, pooled: Floats) -> Floats:
        """Targets, shape (n_rows,)."""
        count = pooled[:, 0]
        means = pooled[:, 1] / np.maximum(count, max(self.floor, 1.0))
        return self.targets.decode(np.where(count > self.floor, means, self.prior))


@dataclass(frozen=True)
class Voting:
    """All that prediction reads besides the splits.

    Attributes
    ----------
    says : tuple of ndarray, each of shape (n_leaves, n_values)
        What the leaves of each tree say; a row's answer rests on the sum over trees.
    conclude : Shares, Softmax or Mean
        From that sum to the answer.
    """

    says: tuple[Floats, ...]
    conclude: Shares | Softmax | Mean
