"""What is predicted: classes, or numbers. How a target is encoded, and what a leaf releases about it.

In: targets, and exact sums over the rows of each leaf. Out: integers, and noisy sums, the only input
of prediction (``voting``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from lumberjack.anatomy import Values
from lumberjack.growing import Growing
from lumberjack.guarantee import SUM_BOUND, Guarantee, Leaf, warn
from lumberjack.guided import Gini, Variance
from lumberjack.kernels import kernel
from lumberjack.kinds import Category, Codes, places_of
from lumberjack.noise import (
    Bits,
    ExponentialChoice,
    Integers,
    Purpose,
    RoundedGaussian,
    Words,
    mix_keys,
)
from lumberjack.priors import PlacePrior, prior_of_centre
from lumberjack.residuals import Distance, Odds, Softmax
from lumberjack.tree import Forest
from lumberjack.voting import (
    CURVE_BOUNDS,
    LINE_BOUNDS,
    UNBENT,
    bin_means,
    bin_odds,
    calibrate_means,
    calibrate_odds,
    log_shares,
    means,
    read_odds,
    unchanged,
)

__all__ = [
    "Classes",
    "LeafSums",
    "Learnable",
    "Numbers",
    "OpenClasses",
    "OpenNumbers",
    "Target",
    "Votes",
    "noisy_counts",
    "noisy_labels",
    "noisy_sums",
]

Floats = NDArray[np.float64]
# From exact sums to noisy ones. Its tables take time: it is made once for all trees.
Release = Callable[[Integers, Bits, Words], Floats]
_ROWS = 1 << 18  # rows that vote together
_FITTED_SCALES = 8.0  # the same for fitted leaves, whose noise does not grow with the bounds
_SCALES = 2.0  # learned bounds are this many 90 % quantiles of |y - centre| from the centre


@dataclass(frozen=True)
class Classes:
    """A label from a set that is public, or was learned.

    Parameters
    ----------
    labels : ndarray, shape (n_classes,)
        Sorted.
    leaf : {"counts", "majority", "exponential"}
        What a leaf releases: noisy class counts, the noisy majority, or a label by the exponential
        mechanism.
    learned : bool
        Whether the labels were released as frequent.
    """

    labels: NDArray[Any]
    leaf: Leaf = "counts"
    learned: bool = False

    @property
    def is_fitted(self) -> bool:
        """Whether leaves hold an expected size and weights that were fitted together."""
        return self.leaf == "fitted"

    clips: ClassVar = False

    def loss(self, reach: int, clip: int = 0) -> Odds | Softmax:
        """The residuals that fitted leaves add up, as whole numbers of at most ``reach``."""
        n = len(self.labels)
        return Odds(reach) if n <= 2 else Softmax(reach, n)

    @property
    def score(self) -> Gini:
        """How splits are scored."""
        return Gini(len(self.labels))

    def add_up(self, order: Any, start: Any, count: Any, target: NDArray[np.int32]) -> Integers:
        """Rows of each class in each leaf, shape (n_leaves, n_classes); private until noise is added."""
        out = np.zeros((len(start), len(self.labels)), dtype=np.int64)
        _count_classes(order, start, count, target, out)
        return out

    def release(self, guarantee: Guarantee, precision: int = 1) -> Release:
        """The mechanism of the leaves, shape (n_leaves, n_classes), with 1/precision of their noise.

        Formal guarantees
        -----------------
        That of ``noisy_counts`` or ``noisy_labels``.
        """
        scale = guarantee.leaf_noise or 0.0
        if self.leaf == "exponential":
            choice = ExponentialChoice(1 / scale)
            return lambda sums, bits, keys: noisy_labels(sums, choice, bits, keys)
        noise = RoundedGaussian(scale / precision)
        if self.leaf == "majority":
            return lambda sums, bits, keys: noisy_labels(sums, noise, bits, keys)
        return lambda sums, bits, keys: noisy_counts(sums, noise, bits, keys)

    def say(self, forest: Forest, guarantee: Guarantee) -> list[Floats]:
        """What each leaf says about the classes; prediction adds this up over trees."""
        if self.is_fitted:
            return [values[:, 1:] for values in forest.values]
        if self.leaf != "counts":
            return list(forest.values)
        noise = guarantee.leaf_noise or 0.0
        each = zip(forest.trees, forest.values, strict=True)
        return [log_shares(tree, counts, noise) for tree, counts in each]

    def histogram(self, said: Floats, codes: Codes, target: NDArray[np.int32]) -> Integers:
        """Rows by the average of what trees say and by true class: see ``voting.bin_odds``."""
        return bin_odds(said, codes, target)

    def calibrate(self, released: Floats, guarantee: Guarantee, precision: int) -> Floats:
        """The curve of each class, from such a histogram with noise."""
        return calibrate_odds(released, (guarantee.leaf_noise or 0.0) / precision)

    estimator: ClassVar = "classifier"
    calibration_bounds: ClassVar = CURVE_BOUNDS

    @property
    def n_values(self) -> int:
        """How many values a leaf has."""
        return 1 + self.loss(1).n_outputs if self.is_fitted else len(self.labels)

    @property
    def holds(self) -> Values:
        """What kind of values a leaf holds."""
        return "weights" if self.is_fitted else "counts" if self.has_sizes else "labels"

    def noise(self, guarantee: Guarantee) -> tuple[float, float]:
        """Noise of a leaf's counts, and of its sums."""
        return (_possible(guarantee.leaf_noise), 0.0) if self.has_sizes else (0.0, 0.0)

    def sizes(self, values: Floats) -> Floats:
        """Released size of each leaf, at least 1 (all 1 for labels), shape (n_leaves,)."""
        if self.is_fitted:
            return values[:, 0]
        return np.maximum(values.sum(axis=1), 1.0) if self.has_sizes else np.ones(len(values))

    def show(self, values: Floats) -> str:
        """What one leaf holds, for people."""
        if self.is_fitted:
            weights = ", ".join(f"{w:+.2f}" for w in values[1:].tolist())
            return f"{weights} for about {values[0]:.0f} rows"
        if not self.has_sizes:
            return str(self.labels.tolist()[int(values.argmax())])
        each = zip(self.labels.tolist(), values.tolist(), strict=True)
        return ", ".join(f"{label}: {count:.0f}" for label, count in each)

    @property
    def uncalibrated(self) -> Floats:
        """Curves that leave probabilities unchanged."""
        return unchanged(len(self.labels))

    @property
    def has_sizes(self) -> bool:
        """Whether leaves release their number of rows, and not just a label."""
        return self.leaf == "counts"

    def read(self, pooled: Floats, forest: Forest, curves: Floats) -> Floats:
        """Weights of the classes from what leaves say, added up over trees, shape (n, n_classes).

        Probabilities, or votes where leaves hold labels.
        """
        if self.is_fitted:
            return self._read_scores(pooled)
        if self.has_sizes:
            return read_odds(pooled / len(forest.trees), curves)
        return np.asarray(pooled + self.ties(forest))

    def _read_scores(self, scores: Floats) -> Floats:
        """Class probabilities from scores: log odds, or log chances up to a constant."""
        if len(self.labels) > 2:
            return np.asarray(softmax(scores, axis=1))
        chances = np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])
        return chances if len(self.labels) == 2 else np.ones((len(scores), 1))

    def ties(self, forest: Forest) -> Floats:
        """Votes that settle ties in favour of rare classes, as leaf majorities favour frequent ones."""
        prior = np.maximum(self.totals(forest), 1.0)
        tie = (1 - prior / prior.sum()) / max(len(prior) - 1, 1)
        return np.asarray(1e-3 * len(forest.trees) * tie)

    def totals(self, forest: Forest) -> Floats:
        """Noisy counts (or votes) of each class over all leaves and trees.

        Fitted leaves: rows of each class, as many as the mean score of all rows says.
        """
        if self.is_fitted:
            means = [v[:, 0] @ v[:, 1:] / v[:, 0].sum() for v in forest.values]
            (share,) = self._read_scores(np.sum(means, axis=0)[None])
            return np.asarray(forest.values[0][:, 0].sum() * share)
        return np.asarray(np.sum([v.sum(axis=0) for v in forest.values], axis=0))


@dataclass(frozen=True)
class Numbers:
    """A number on an integer grid between bounds, which are public or were learned.

    Parameters
    ----------
    low, high : float
    learned : bool
        Whether the bounds were chosen privately.
    is_fitted : bool
        Whether leaves hold an expected size and weights that were fitted together, in half widths of
        the bounds.
    limits : (float, float) or None
        Public bounds of predictions, where ``low`` and ``high`` were learned all the same.
    """

    low: float
    high: float
    learned: bool = False
    is_fitted: bool = False
    limits: tuple[float, float] | None = None
    clips: ClassVar = True

    def loss(self, reach: int, clip: int) -> Distance:
        """The residuals that fitted leaves add up, as whole numbers of at most ``reach``."""
        return Distance(reach, clip)

    @property
    def score(self) -> Variance:
        """How splits are scored."""
        return Variance()

    def encode(self, y: Floats) -> NDArray[np.int32]:
        """Clip to the bounds and round to the grid: integers from -SUM_BOUND to SUM_BOUND."""
        half = (self.high - self.low) / 2 or 1.0
        place = (np.clip(y, self.low, self.high) - self.centre) / half * SUM_BOUND
        # Clip last, as integers: the price of a sum rests on this bound.
        return np.clip(np.rint(place).astype(np.int32), -SUM_BOUND, SUM_BOUND)

    def decode(self, place: Floats) -> Floats:
        """From the grid back to targets, inside the bounds."""
        half = (self.high - self.low) / 2
        return np.clip(self.centre + place / SUM_BOUND * half, self.low, self.high)

    @property
    def centre(self) -> float:
        """The middle of the bounds, where the grid is 0."""
        return self.low + (self.high - self.low) / 2

    @property
    def scale(self) -> float:
        """Of learned bounds: the quantile of the distances from the centre that they were made from."""
        return (self.high - self.low) / 2 / (_FITTED_SCALES if self.is_fitted else _SCALES)

    def add_up(self, order: Any, start: Any, count: Any, target: NDArray[np.int32]) -> Integers:
        """(rows, sum of targets) of each leaf, shape (n_leaves, 2); private until noise is added."""
        sums = np.zeros(len(start), dtype=np.int64)
        _add_targets(order, start, count, target, sums)
        return np.column_stack([count, sums])

    def release(self, guarantee: Guarantee, precision: int = 1) -> Release:
        """The mechanism of the leaves, shape (n_leaves, 2), with 1/precision of their noise.

        Formal guarantees
        -----------------
        That of ``noisy_sums``.
        """
        of_counts, of_sums = self._noise(guarantee, precision)
        noise = RoundedGaussian(of_counts), RoundedGaussian(of_sums)
        return lambda sums, bits, keys: noisy_sums(sums, noise, bits, keys)

    @staticmethod
    def _noise(guarantee: Guarantee, precision: int) -> tuple[float, float]:
        """Noise of counts and of sums."""
        return (guarantee.leaf_noise or 0.0) / precision, (guarantee.sum_noise or 0.0) / precision

    def say(self, forest: Forest, guarantee: Guarantee) -> list[Floats]:
        """What each leaf says about the number; prediction adds this up over trees."""
        if self.is_fitted:
            return [values[:, 1:] for values in forest.values]
        noise = guarantee.leaf_noise or 0.0
        each = zip(forest.trees, forest.values, strict=True)
        return [means(tree, sums, noise) for tree, sums in each]

    def histogram(self, said: Floats, codes: Codes, target: NDArray[np.int32]) -> Integers:
        """Rows and sum of targets by the average of what trees say: see ``voting.bin_means``."""
        return bin_means(said[:, 0], target)

    def calibrate(self, released: Floats, guarantee: Guarantee, precision: int) -> Floats:
        """The line, slope and intercept, from such a histogram with noise."""
        return calibrate_means(released, self._noise(guarantee, precision))

    estimator: ClassVar = "regressor"
    calibration_bounds: ClassVar = LINE_BOUNDS
    n_values: ClassVar = 2

    @property
    def holds(self) -> Values:
        """What kind of values a leaf holds."""
        return "weights" if self.is_fitted else "sums"

    def noise(self, guarantee: Guarantee) -> tuple[float, float]:
        """Noise of a leaf's counts, and of its sums."""
        return _possible(guarantee.leaf_noise), _possible(guarantee.sum_noise)

    def sizes(self, values: Floats) -> Floats:
        """Noisy rows of each leaf, at least one, shape (n_leaves,)."""
        return np.maximum(values[:, 0], 1.0)

    def show(self, values: Floats) -> str:
        """What one leaf holds, for people."""
        if self.is_fitted:
            weight = values[1] * (self.high - self.low) / 2
            return f"{weight:+.6g} for about {values[0]:.0f} rows"
        mean = self.decode(values[1:] / max(values[0], 1.0))[0]
        return f"mean {mean:.6g} of {values[0]:.0f} rows"

    @property
    def uncalibrated(self) -> Floats:
        """A line that leaves numbers unchanged."""
        return UNBENT.copy()

    @property
    def has_sizes(self) -> bool:
        """Whether leaves release their number of rows."""
        return True

    def read(self, pooled: Floats, forest: Forest, line: Floats) -> Floats:
        """Numbers from what leaves say, added up over trees, shape (n,)."""
        if self.is_fitted:
            numbers = self.decode(pooled[:, 0] * SUM_BOUND)
            return numbers if self.limits is None else np.clip(numbers, *self.limits)
        slope, intercept = line
        return self.decode(slope * pooled[:, 0] / len(forest.trees) + intercept * SUM_BOUND)


@dataclass(frozen=True)
class OpenClasses:
    """A label from a set that is not known yet: the frequent labels are to be learned.

    Private, and dropped once they are.

    Parameters
    ----------
    labels : tuple
        All labels of the data, sorted.
    leaf : {"counts", "majority"}
        See ``Classes``.
    """

    labels: tuple[Category, ...]
    leaf: Leaf = "counts"

    def close(self, chosen: list[Any]) -> Classes:
        """The target that predicts the chosen labels."""
        if not chosen:
            raise ValueError(
                "no label of y is frequent enough to be released (1 sample of it is far too few): "
                "declare classes, use more rows or a larger epsilon"
            )
        return Classes(np.array(chosen), self.leaf, learned=True)


@dataclass(frozen=True)
class OpenNumbers:
    """A number whose place and scale are to be learned.

    Parameters
    ----------
    is_fitted : bool
        See ``Numbers``.
    limits : (float, float) or None
        Public bounds: targets are clipped to them, and so are predictions.
    """

    is_fitted: bool = False
    limits: tuple[float, float] | None = None

    @property
    def prior(self) -> PlacePrior:
        """Weights of the places among which a median is chosen."""
        return prior_of_centre(self.limits)

    def encode(self, y: Floats) -> NDArray[np.int32]:
        """Places on the grid of all 32-bit floats, kept in signed integers like any target."""
        y = y if self.limits is None else np.clip(y, *self.limits)
        if (np.abs(y) > float(np.finfo(np.float32).max)).any():
            raise ValueError(
                "y holds numbers beyond 3.4e38, too large to learn a scale: rescale y or give y_bounds"
            )
        return places_of(y).view(np.int32)

    def close(self, centre: float, scale: float) -> Numbers:
        """The target around ``centre``; ``scale`` is the 90 % quantile of the distances from it."""
        width = (_FITTED_SCALES if self.is_fitted else _SCALES) * scale
        if scale == 0:
            warn(
                "nearly all targets seem to be the same, so all predictions will be; give y_bounds",
                UserWarning,
            )
        return Numbers(centre - width, centre + width, True, self.is_fitted, self.limits)


Target = Classes | Numbers
Learnable = Target | OpenClasses | OpenNumbers


def _possible(noise: float | None) -> float:
    """The noise in a sane range: a file may claim nonsense, which ``Guarantee.verify`` exposes."""
    return min(max(float(noise or 0), 0.0), 1e100)


class Votes(NamedTuple):
    """A counting object: what a forest says on average about rows, against their true targets.

    Attributes
    ----------
    forest : Forest
    said : list of ndarray
        What the leaves of each tree say.
    target : Classes or Numbers
    n_threads : int
    """

    forest: Forest
    said: list[Floats]
    target: Target
    n_threads: int = 1

    def __call__(self, block: Any) -> list[Integers]:
        """One array, shape (n_cells, 2)."""
        total: Any = 0
        for begin in range(0, max(len(block.codes), 1), _ROWS):
            rows = slice(begin, begin + _ROWS)
            pooled = self.forest.pool(self.said, block.codes[rows], self.n_threads)
            said = pooled / len(self.forest.trees)
            total = total + self.target.histogram(said, block.codes[rows], block.target[rows])
        return [total]


class LeafSums(NamedTuple):
    """A counting object: what the leaves of a tree hold.

    Attributes
    ----------
    tree : Growing
    leaves : ndarray of int64, shape (n_leaves,)
        Nodes that are leaves of the pruned tree; -1 for a leaf without rows, which has no node.
    target : Classes or Numbers
    """

    tree: Growing
    leaves: Integers
    target: Target

    def __call__(self, block: Any) -> list[Integers]:
        """One array, shape (n_leaves, n_values)."""
        found, made = block.sort(self.tree), self.leaves >= 0
        start = np.where(made, found.start[self.leaves], 0)
        count = np.where(made, found.n_rows[self.leaves], 0)
        return [self.target.add_up(found.order, start, count, block.target)]


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
