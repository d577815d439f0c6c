"""How forests of counted leaves in model files up to version 5 vote; new ones do not need this.

In: released leaf values, and the curves of such a file, which a noisy histogram of a guided forest once
gave. Out: targets that predict what they always did: only ``io`` makes them, and a file of such a model
is written as version 5 again. What is different from ``leaves`` and ``targets``:

- the class shares (or the mean) of each node are shrunk towards its parent's, from the root down. The
  parent weighs as many rows as half the standard deviation of the noise;
- trees are combined by the geometric mean of their shares, of which each is raised by 0.02;
- what comes out is read through a curve: log odds a log p - b log(1 - p) + c, one for each class (two
  classes share one), or a line for numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from lumberjack.anatomy import node_sums
from lumberjack.guarantee import SUM_BOUND, Guarantee
from lumberjack.kernels import kernel
from lumberjack.leaves import Counts, Sums, Votes
from lumberjack.targets import Classes, Numbers, Target
from lumberjack.tree import LEAF, Forest, Tree

__all__ = ["OldClasses", "OldNumbers", "refuse_old", "with_curves"]

Floats = NDArray[np.float64]

_CURVE = np.array([1.0, 1.0, 0.0])  # leaves probabilities unchanged
_LINE = np.array([1.0, 0.0])  # leaves numbers unchanged
_CURVE_BOUNDS = ((0.25, 4.0), (0.25, 4.0), (-2.0, 2.0))
_LINE_BOUNDS = ((0.25, 4.0), (-1.0, 1.0))
_PULL = 0.5  # weight of a parent, in rows per standard deviation of the noise
_RAISE = 0.02


@dataclass(frozen=True)
class OldCounts(Counts):
    """Noisy rows of each class, which vote by the logarithms of their shrunk shares."""

    leaf_noise: float

    def vote(self, forest: Forest) -> Votes:
        """log(share + 0.02) of each class in each leaf."""
        each = zip(forest.trees, forest.values, strict=True)
        said = tuple(log_shares(tree, counts, self.leaf_noise) for tree, counts in each)
        return Votes(np.zeros(self.n_values), said)


@dataclass(frozen=True)
class OldSums(Sums):
    """Noisy counts and sums, which vote by their shrunk means."""

    leaf_noise: float

    def vote(self, forest: Forest) -> Votes:
        """The mean of each leaf, in steps of the targets' grid."""
        each = zip(forest.trees, forest.values, strict=True)
        return Votes(np.zeros(1), tuple(means(tree, sums, self.leaf_noise) for tree, sums in each))


@dataclass(frozen=True)
class OldClasses(Classes):
    """Classes whose forest was made for a file of version 5 or before.

    Parameters
    ----------
    leaf_noise : float
    n_trees : int
    curves : ndarray of shape (n_curves, 3)
    """

    leaf_noise: float = 0.0
    n_trees: int = 1
    curves: Floats | None = None

    @property
    def leaves(self) -> OldCounts:
        """What leaves hold, and how they vote."""
        return OldCounts(len(self.labels), self.leaf_noise)

    def read(self, pooled: Floats) -> Floats:
        """Probabilities from added logarithms, shape (n, n_classes)."""
        assert self.curves is not None
        return read_odds(pooled / self.n_trees, self.curves)


@dataclass(frozen=True)
class OldNumbers(Numbers):
    """Numbers whose forest was made for a file of version 5 or before.

    Parameters
    ----------
    leaf_noise : float
    n_trees : int
    curves : ndarray of shape (1, 2)
        Slope and intercept.
    """

    leaf_noise: float = 0.0
    n_trees: int = 1
    curves: Floats | None = None

    @property
    def leaves(self) -> OldSums:
        """What leaves hold, and how they vote."""
        return OldSums(self.leaf_noise)

    def read(self, pooled: Floats) -> Floats:
        """Numbers from added means, shape (n,)."""
        assert self.curves is not None
        slope, intercept = self.curves[0]
        place = slope * pooled[:, 0] / self.n_trees + intercept * SUM_BOUND
        return super().read(place[:, None] / SUM_BOUND)


def with_curves(target: Target, found: NDArray[Any] | None, guarantee: Guarantee) -> Target:
    """The target of an old file, as its forest votes.

    Parameters
    ----------
    target : Classes or Numbers
    found : ndarray or None
        The curves of the file, which change nothing unless the guarantee prices their histogram; None
        in files of version 1.
    guarantee : Guarantee
    """
    classes = isinstance(target, Classes)
    n_classes = len(target.labels) if isinstance(target, Classes) else 1
    neutral = np.tile(_CURVE if classes else _LINE, (1 if n_classes == 2 else n_classes, 1))
    curves = neutral if found is None else found.astype(np.float64)
    changed = not np.array_equal(curves, neutral)
    if curves.shape != neutral.shape or (changed and guarantee.event("calibration") is None):
        raise ValueError("its calibration is not that of the guarantee")
    low, high = np.transpose(_CURVE_BOUNDS if classes else _LINE_BOUNDS)
    if not ((curves >= low) & (curves <= high)).all():  # also refuses NaN
        raise ValueError("its calibration is out of range")
    how = (guarantee.leaf_noise or 0.0, guarantee.n_estimators, curves)
    if isinstance(target.leaves, Counts) and isinstance(target, Classes):
        return OldClasses(target.labels, target.leaf, target.learned, *how)
    if isinstance(target.leaves, Sums) and isinstance(target, Numbers):
        return OldNumbers(target.low, target.high, target.learned, False, None, *how)
    return target


def refuse_old(target: Target) -> None:
    """Refuse to export what only this module can read."""
    if isinstance(target, OldClasses | OldNumbers):
        raise ValueError(
            "this model comes from a file of format 5 or before, and how its pruned trees vote is not "
            "exported any more: fit it again"
        )


def log_shares(tree: Tree, counts: Floats, noise: float) -> Floats:
    """What each leaf says about classes, shape (n_leaves, n_classes): log(share + 0.02)."""
    shares = _shares(tree.feature, tree.left, node_sums(tree, counts), len(counts), _PULL * noise)
    return np.asarray(np.log(shares + _RAISE))


def means(tree: Tree, sums: Floats, noise: float) -> Floats:
    """What each leaf says about a number, shape (n_leaves, 1), in steps of the targets' grid.

    ``sums`` are noisy (count, sum) of each leaf, ``noise`` that of the counts, twice as large as it
    would be without sums.
    """
    of_nodes, weight = node_sums(tree, sums), _PULL * noise / 2
    return _means(tree.feature, tree.left, of_nodes, len(sums), weight, float(SUM_BOUND))


@kernel
def _shares(
    feature: NDArray[np.int32], left: NDArray[np.int32], share: Floats, n_leaves: int, weight: float
) -> Floats:
    """Class shares of each leaf, shrunk towards its parent's; ``share`` holds node counts on entry."""
    n_classes = share.shape[1]
    out = np.empty((n_leaves, n_classes))
    _draw_to(share[0], np.full(n_classes, 1.0 / n_classes), weight)
    for node in range(len(feature)):
        if feature[node] == LEAF:
            out[left[node]] = share[node]
        else:
            for side in (0, 1):
                _draw_to(share[left[node] + side], share[node], weight)
    return out


@kernel
def _draw_to(counts: Floats, prior: Floats, weight: float) -> None:
    """Replace counts by shares, after adding ``weight`` rows with the shares of ``prior``."""
    total = weight
    for c in range(len(counts)):
        counts[c] = max(counts[c], 0.0)
        total += counts[c]
    for c in range(len(counts)):
        counts[c] = (counts[c] + weight * prior[c]) / total if total > 0 else prior[c]


@kernel
def _means(
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    sums: Floats,
    n_leaves: int,
    weight: float,
    bound: float,
) -> Floats:
    """Mean of each leaf, shrunk towards its parent's; ``sums`` has (count, sum) of nodes."""
    out = np.empty((n_leaves, 1))
    mean = np.zeros(len(feature))
    for node in range(len(feature)):
        # ``mean[node]`` holds the parent's mean (0 at the root): shrink towards it.
        count = max(sums[node, 0], 0.0) + weight
        mean[node] = (sums[node, 1] + weight * mean[node]) / count if count > 0 else mean[node]
        mean[node] = min(max(mean[node], -bound), bound)
        if feature[node] == LEAF:
            out[left[node], 0] = mean[node]
        else:
            mean[left[node]] = mean[left[node] + 1] = mean[node]
    return out


def log_odds(said: Floats) -> Floats:
    """Log odds of each class against all others from mean log shares, shape (n, n_classes)."""
    weight = np.exp(said - said.max(axis=1, keepdims=True))
    others = weight.sum(axis=1, keepdims=True) - weight
    return np.asarray(np.log(weight) - np.log(np.maximum(others, 1e-300)))


def read_odds(said: Floats, curves: Floats) -> Floats:
    """Class probabilities from mean log shares and the curve of each class, shape (n_curves, 3)."""
    if said.shape[1] == 2:  # two classes share one curve
        odds = _bend(said[:, 1] - said[:, 0], curves[0])
        return np.column_stack([expit(-odds), expit(odds)])
    chance = np.column_stack([expit(_bend(x, c)) for x, c in zip(log_odds(said).T, curves, strict=True)])
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def _bend(odds: Floats, curve: Floats) -> Floats:
    """Log odds read through a curve: a log p - b log(1 - p) + c."""
    parts = np.column_stack([log_expit(odds), -log_expit(-odds), np.ones_like(odds)])
    return np.asarray(parts @ curve)
