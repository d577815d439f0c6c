"""What is predicted: classes, or numbers.

In: targets. Out: integers, which engines add up. A target names what leaves hold (``leaves``), how
splits are scored (``guided``) and how leaves are fitted (``residuals``), and reads what trees add up to.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from lumberjack.guarantee import SUM_BOUND, Leaf, warn
from lumberjack.guided import Gini, Variance
from lumberjack.inputs import check_classes, encode_labels
from lumberjack.kinds import Category, places_of
from lumberjack.leaves import Leaves, Sums, Weights, leaves_of_classes
from lumberjack.priors import PlacePrior, prior_of_centre
from lumberjack.residuals import Distance, Odds, Softmax

__all__ = ["FITTED_SCALES", "Classes", "Learnable", "Numbers", "OpenClasses", "OpenNumbers", "Target"]

Floats = NDArray[np.float64]
FITTED_SCALES = 8.0  # the same for fitted leaves, whose noise does not grow with the bounds
_SCALES = 2.0  # learned bounds are this many 90 % quantiles of |y - centre| from the centre
# Kinds of NumPy types, their names in files, and the Python types of their labels.
_TYPES = {"b": "bool", "i": "int64", "u": "int64", "f": "float64", "O": "object"}
_LABELS: dict[str, type] = {"bool": bool, "int64": int, "float64": float, "str": str, "object": object}


@dataclass(frozen=True)
class Classes:
    """A label from a set that is public, or was learned.

    Parameters
    ----------
    labels : ndarray, shape (n_classes,)
        Sorted.
    leaf : {"counts", "fitted", "majority", "exponential"}
        What a leaf releases: noisy class counts, sums of residuals, the noisy majority, or a label by
        the exponential mechanism.
    learned : bool
        Whether the labels were released as frequent.
    """

    labels: NDArray[Any]
    leaf: Leaf = "counts"
    learned: bool = False
    estimator: ClassVar = "classifier"

    @property
    def leaves(self) -> Leaves:
        """What leaves hold, and how it is released."""
        if self.leaf == "fitted":
            return Weights(self.loss(1).n_outputs)
        return leaves_of_classes(self.leaf, len(self.labels))

    @property
    def score(self) -> Gini:
        """How splits are scored."""
        return Gini(len(self.labels))

    def loss(self, reach: int, clip: int = 0) -> Odds | Softmax:
        """The residuals that fitted leaves add up, as whole numbers of at most ``reach``."""
        n = len(self.labels)
        return Odds(reach) if n <= 2 else Softmax(reach, n)

    def encode(self, y: Any) -> NDArray[np.int32]:
        """The place of each label among all."""
        return encode_labels(y, self.labels)

    def read(self, pooled: Floats) -> Floats:
        """Weights of the classes from what the leaves of rows add up to, shape (n, n_classes).

        Probabilities, or votes where leaves hold labels.
        """
        if self.leaf != "fitted":
            return pooled
        if len(self.labels) > 2:  # log chances, up to a constant
            return np.asarray(softmax(pooled, axis=1))
        chances = np.column_stack([expit(-pooled[:, 0]), expit(pooled[:, 0])])
        return chances if len(self.labels) == 2 else np.ones((len(pooled), 1))

    def show(self, values: Floats) -> str:
        """What one leaf holds, for people."""
        if self.leaf == "fitted":
            weights = ", ".join(f"{w:+.2f}" for w in values[1:].tolist())
            return f"{weights} for about {values[0]:.0f} rows"
        if self.leaf != "counts":
            return str(self.labels.tolist()[int(values.argmax())])
        each = zip(self.labels.tolist(), values.tolist(), strict=True)
        return ", ".join(f"{label}: {count:.0f}" for label, count in each)

    def to_dict(self) -> dict[str, Any]:
        """The labels, and how NumPy keeps them, so that ``predict`` returns the same type."""
        kind = _TYPES.get(self.labels.dtype.kind, "str")
        return {"classes": {"type": kind, "labels": self.labels.tolist()}, "bounds": None}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], leaf: Leaf, learned: bool) -> "Classes":
        """Read what ``to_dict`` wrote; the guarantee says the rest."""
        said = found["classes"]
        labels, kind = said["labels"], said["type"]
        if set(said) != {"labels", "type"} or kind not in _LABELS or not isinstance(labels, list):
            raise ValueError("its classes are not a list of labels")
        expected = _LABELS[kind]
        if not all(isinstance(v, expected) and (type(v) is not bool or kind != "int64") for v in labels):
            raise ValueError("its classes are not of their type")
        if check_classes(labels).tolist() != labels:
            raise ValueError("its classes are not sorted and distinct")
        if found["bounds"] is not None:
            raise ValueError("its target is both a class and a number")
        return cls(np.array(labels, dtype=kind), leaf, learned)


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
        the bounds; otherwise a noisy count and a noisy sum.
    limits : (float, float) or None
        Public bounds of predictions, if ``low`` and ``high`` were learned nevertheless.
    """

    low: float
    high: float
    learned: bool = False
    is_fitted: bool = False
    limits: tuple[float, float] | None = None
    estimator: ClassVar = "regressor"

    @property
    def leaves(self) -> Leaves:
        """What leaves hold, and how it is released."""
        return Weights(1) if self.is_fitted else Sums()

    @property
    def score(self) -> Variance:
        """How splits are scored."""
        return Variance()

    def loss(self, reach: int, clip: int) -> Distance:
        """The residuals that fitted leaves add up, as whole numbers of at most ``reach``."""
        return Distance(reach, clip)

    @property
    def centre(self) -> float:
        """The middle of the bounds, where the grid is 0."""
        return self.low + (self.high - self.low) / 2

    @property
    def half_width(self) -> float:
        """Half the width of the bounds: the unit of what leaves add up to."""
        return (self.high - self.low) / 2

    @property
    def scale(self) -> float:
        """Of learned bounds: the quantile of the distances from the centre that they were made from."""
        return self.half_width / (FITTED_SCALES if self.is_fitted else _SCALES)

    def encode(self, y: Floats) -> NDArray[np.int32]:
        """Clip to the bounds and round to the grid: integers from -SUM_BOUND to SUM_BOUND."""
        place = (np.clip(y, self.low, self.high) - self.centre) / (self.half_width or 1.0) * SUM_BOUND
        # Clip last, as integers: the price of a sum rests on this bound.
        return np.clip(np.rint(place).astype(np.int32), -SUM_BOUND, SUM_BOUND)

    def read(self, pooled: Floats) -> Floats:
        """Numbers from what the leaves of rows add up to, shape (n,), inside all bounds."""
        numbers = np.clip(self.centre + pooled[:, 0] * self.half_width, self.low, self.high)
        return numbers if self.limits is None else np.clip(numbers, *self.limits)

    def show(self, values: Floats) -> str:
        """What one leaf holds, for people."""
        if self.is_fitted:
            return f"{values[1] * self.half_width:+.6g} for about {values[0]:.0f} rows"
        mean = self.read(values[None, 1:] / max(values[0], 1.0) / SUM_BOUND)[0]
        return f"mean {mean:.6g} of {values[0]:.0f} rows"

    def to_dict(self) -> dict[str, Any]:
        """The bounds."""
        return {"classes": None, "bounds": [self.low, self.high]}

    @classmethod
    def from_dict(
        cls,
        found: Mapping[str, Any],
        leaf: Leaf,
        learned: bool,
        limits: tuple[float, float] | None = None,
    ) -> "Numbers":
        """Read what ``to_dict`` wrote; the guarantee and ``y_bounds`` say the rest."""
        bounds = found["bounds"]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in bounds)
        if len(bounds) != 2 or not numbers or not 0 <= bounds[1] - bounds[0] < np.inf:
            raise ValueError("bounds of the target must be two numbers")
        if found["classes"] is not None:
            raise ValueError("its target is both a class and a number")
        is_fitted = leaf == "fitted-mean"
        return cls(float(bounds[0]), float(bounds[1]), learned, is_fitted, limits if is_fitted else None)


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
        width = (FITTED_SCALES if self.is_fitted else _SCALES) * scale
        if scale == 0:
            warn(
                "nearly all targets seem to be the same, so all predictions will be; give y_bounds",
                UserWarning,
            )
        return Numbers(centre - width, centre + width, True, self.is_fitted, self.limits)


Target = Classes | Numbers
Learnable = Target | OpenClasses | OpenNumbers
