"""How well a model does on other data: exactly, or released with differential privacy.

In: truth and predictions on a held-out table. Out: a few numbers. The exact ones are outside every
guarantee; the private ones read the table through one noisy histogram (or a few noisy sums).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from lumberjack.accounting import gaussian_delta, gaussian_mu
from lumberjack.accounting.checks import check_count, check_delta, check_epsilon
from lumberjack.guarantee import Unit
from lumberjack.noise import Bits, RoundedGaussian
from lumberjack.targets import Numbers

__all__ = ["Spent", "classification", "private_classification", "private_regression", "regression"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_BINS = 20  # of a probability; one half is an edge, so that the histogram knows what was predicted
_GRID = 2**12  # steps for errors and targets: noise is exact on integers
_SUMS = 5  # count, |error|, error^2, target, target^2


@dataclass(frozen=True)
class Spent:
    """The price of a private score: Gaussian noise on counts that one row moves by one.

    Attributes
    ----------
    epsilon, delta : float
        The promise for the held-out table, on top of what the model's own training spent.
    unit, rows_per_person : str, int
        Who is protected.
    noise : float
        Standard deviation of each count's noise: delta_G(epsilon, rows_per_person / noise) <= delta.
    """

    epsilon: float
    delta: float
    unit: Unit
    rows_per_person: int
    noise: float

    @classmethod
    def plan(
        cls, epsilon: float, delta: float, rows_per_person: int = 1, unit: Unit | None = None
    ) -> "Spent":
        """The least noise that the budget allows; the unit is given, or follows from the rows."""
        epsilon, delta = check_epsilon(epsilon), check_delta(delta)
        r = check_count("rows_per_person", rows_per_person)
        return cls(
            epsilon,
            delta,
            unit or ("row" if r == 1 else "person"),
            r,
            r / gaussian_mu(epsilon, delta * (1 - 1e-9)),
        )

    def verify(self) -> float:
        """Delta, recomputed."""
        return float(gaussian_delta(self.epsilon, self.rows_per_person / self.noise))


def classification(truth: NDArray[Any], proba: Floats, classes: NDArray[Any]) -> dict[str, Any]:
    """Accuracy, AUC, log loss and calibration, exactly; AUC is None when a class is absent."""
    place = np.searchsorted(classes, truth)
    right = proba.argmax(axis=1) == place
    auc = None
    if len(classes) == 2 and len(np.unique(place)) == 2:
        auc = float(roc_auc_score(place, proba[:, 1]))
    elif len(classes) > 2 and len(np.unique(place)) == len(classes):
        auc = float(roc_auc_score(place, proba, multi_class="ovr"))
    hits = _histogram(truth, proba, classes)
    return {
        "accuracy": float(right.mean()),
        "auc": auc,
        "log_loss": float(log_loss(place, proba, labels=np.arange(len(classes)))),
        **_calibration(hits.astype(float)),
    }


def regression(truth: Floats, predicted: Floats) -> dict[str, Any]:
    """R squared and the usual errors, exactly."""
    return {
        "r2": float(r2_score(truth, predicted)) if len(truth) > 1 else None,
        "mean_absolute_error": float(mean_absolute_error(truth, predicted)),
        "root_mean_squared_error": float(root_mean_squared_error(truth, predicted)),
    }


def _histogram(truth: NDArray[Any], proba: Floats, classes: NDArray[Any]) -> Integers:
    """Rows by probability and outcome, shape (_BINS, 2).

    Two classes: the probability of the second one, and whether it occurred. More classes: the
    probability of the predicted class, and whether it was right. Each row is in one cell.
    """
    place = np.searchsorted(classes, truth)
    if len(classes) == 2:
        chance, came = proba[:, 1], place == 1
    else:
        chance, came = proba.max(axis=1), proba.argmax(axis=1) == place
    # Closed on the right: at exactly one half the first class is predicted.
    bins = np.clip(np.ceil(chance * _BINS).astype(np.int64) - 1, 0, _BINS - 1)
    return np.bincount(2 * bins + came, minlength=2 * _BINS).reshape(_BINS, 2)


def _calibration(cells: Floats) -> dict[str, Any]:
    """Frequency of outcomes by predicted probability, from exact or noisy cells."""
    cells = np.maximum(cells, 0.0)
    size = cells.sum(axis=1)
    middle = (np.arange(_BINS) + 0.5) / _BINS
    came = np.where(size > 0, cells[:, 1] / np.maximum(size, 1e-300), np.nan)
    share = size / max(float(size.sum()), 1e-300)
    error = float(np.nansum(share * np.abs(came - middle)))
    table = [
        {"from": i / _BINS, "to": (i + 1) / _BINS, "share": float(share[i]), "came": float(came[i])}
        for i in range(_BINS)
        if size[i] > 0
    ]
    return {"calibration_error": error, "calibration": table}


def private_classification(
    truth: NDArray[Any], proba: Floats, classes: NDArray[Any], spent: Spent
) -> dict[str, Any]:
    """Accuracy, AUC (two classes) and calibration from one noisy histogram.

    Formal guarantees
    -----------------
    A row is in one cell of the histogram, whose cells are public and all noisy: adding or removing it
    is 1/noise-GDP, and the r rows of a person r/noise-GDP. Everything returned is post-processing.
    """
    cells = _histogram(truth, proba, classes)
    noisy = cells + RoundedGaussian(spent.noise).draw(cells.size, Bits()).reshape(cells.shape)
    total = max(float(noisy.sum()), 1.0)
    half = _BINS // 2
    if len(classes) == 2:
        right = float(noisy[:half, 0].sum() + noisy[half:, 1].sum())
    else:
        right = float(noisy[:, 1].sum())
    return {
        "accuracy": min(max(right / total, 0.0), 1.0),
        "accuracy_noise": min(spent.noise * (2 * _BINS) ** 0.5 / total, 1.0),
        "auc": _auc(noisy.astype(float)) if len(classes) == 2 else None,
        **_calibration(noisy.astype(float)),
    }


def _auc(cells: Floats) -> float | None:
    """Chance that a positive row is above a negative one; ties within a bin count half."""
    negative, positive = cells[:, 0], cells[:, 1]
    pairs = float(negative.sum() * positive.sum())
    if min(negative.sum(), positive.sum()) < 1:
        return None
    below = np.cumsum(negative) - negative / 2
    return min(max(float(np.sum(positive * below)) / pairs, 0.0), 1.0)


def private_regression(
    truth: Floats, predicted: Floats, targets: Numbers, spent: Spent
) -> dict[str, Any]:
    """R squared and errors from a noisy count and four noisy sums, inside the model's bounds.

    Formal guarantees
    -----------------
    Truth is clipped to the model's bounds, so a row moves the count by 1 and each sum by at most _GRID
    steps. With noise sqrt(5) times as large, and _GRID times that for sums, all five are 1/noise-GDP for
    a row and r/noise-GDP for the r rows of a person.
    """
    sums = _sums(truth, predicted, targets)
    bounds = np.array([1, _GRID, _GRID, _GRID, _GRID])
    noisy = np.array(
        [
            float(s + RoundedGaussian(spent.noise * _SUMS**0.5 * bound).draw(1, Bits())[0])
            for s, bound in zip(sums.tolist(), bounds.tolist(), strict=True)
        ]
    )
    count = max(noisy[0], 1.0)
    absolute, square, mean, mean_square = np.clip(noisy[1:] / _GRID / count, 0.0, 1.0).tolist()
    width = targets.high - targets.low
    variance = mean_square - mean**2
    return {
        "r2": 1 - square / variance if variance > 0 else None,
        "mean_absolute_error": absolute * width,
        "root_mean_squared_error": square**0.5 * width,
    }


def _sums(truth: Floats, predicted: Floats, targets: Numbers) -> Integers:
    """Count, and sums of |error|, error^2, target and target^2 as shares of their range, in steps."""
    width = (targets.high - targets.low) or 1.0
    place = (np.clip(truth, targets.low, targets.high) - targets.low) / width
    error = np.abs(place - (np.clip(predicted, targets.low, targets.high) - targets.low) / width)
    parts = np.column_stack([error, error**2, place, place**2])
    steps = np.clip(np.rint(parts * _GRID).astype(np.int64), 0, _GRID)
    return np.concatenate([[len(truth)], steps.sum(axis=0)])
