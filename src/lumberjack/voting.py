"""How trees vote: from what leaves released to one prediction.

In: released leaf values, and for calibration a noisy histogram. Out: what each leaf says, which
prediction adds up over trees, and how the sum is read.

**Leaves.** A small leaf is mostly noise, its parent less so. So, from the root down, the class shares
(or the mean) of each node are shrunk towards its parent's. The parent weighs as many rows as half the
standard deviation of the noise. Sizes of inner nodes are sums over their leaves.

**Trees** are combined by the geometric mean of their shares, which gives confident trees more influence;
0.02 is added to each share first, so that no tree has a veto. Means of numbers are averaged.

**Calibration.** An average of noisy trees is underconfident: its probabilities are too close to the
middle. A guided forest therefore counts its own rows once more, by what the forest says about them and
by their true target, and releases that histogram with half the noise of a leaf: the only part here that
has a price. A curve fitted to the histogram corrects the probabilities: for classes, the beta
calibration of Kull et al. (2017), with log odds a log p - b log(1 - p) + c, one curve for each class;
for numbers, a line.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_ndtr

from lumberjack.anatomy import node_sums
from lumberjack.guarantee import SUM_BOUND
from lumberjack.kernels import kernel
from lumberjack.kinds import Codes
from lumberjack.noise import mix
from lumberjack.tree import LEAF, Tree

__all__ = [
    "BINS",
    "CURVE_BOUNDS",
    "LINE_BOUNDS",
    "UNBENT",
    "bin_means",
    "bin_odds",
    "calibrate_means",
    "calibrate_odds",
    "log_odds",
    "log_shares",
    "means",
    "read_odds",
    "unchanged",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BINS = 16
UNCHANGED = np.array([1.0, 1.0, 0.0])  # a curve that leaves probabilities unchanged
UNBENT = np.array([1.0, 0.0])  # a line that leaves numbers unchanged
CURVE_BOUNDS = [(0.25, 4.0), (0.25, 4.0), (-2.0, 2.0)]
LINE_BOUNDS = [(0.25, 4.0), (-1.0, 1.0)]
_PULL = 0.5  # weight of a parent, in rows per standard deviation of the noise
_RAISE = 0.02
_REACH = 4.0  # bound on the log odds of raised shares: log(1.02 / 0.02) = 3.93
_SPREAD = 3.0  # how far noise alone may take a curve from ``UNCHANGED``
_CLEAR = 3.0  # a bin counts as filled from this many standard deviations of noise on
_CENTRES = np.linspace(1 / BINS - 1, 1 - 1 / BINS, BINS)  # of bins over [-1, 1]


def unchanged(n_classes: int) -> Floats:
    """Curves that leave probabilities unchanged, one per class; two classes share one."""
    return np.tile(UNCHANGED, (1 if n_classes == 2 else n_classes, 1))


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
    return np.asarray(_means(tree.feature, tree.left, of_nodes, len(sums), weight, float(SUM_BOUND)))


@kernel
def _shares(feature: Any, left: Any, share: Any, n_leaves: Any, weight: Any) -> Any:
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
def _draw_to(counts: Any, prior: Any, weight: Any) -> None:
    """Replace counts by shares, after adding ``weight`` rows with the shares of ``prior``."""
    total = weight
    for c in range(len(counts)):
        counts[c] = max(counts[c], 0.0)
        total += counts[c]
    for c in range(len(counts)):
        counts[c] = (counts[c] + weight * prior[c]) / total if total > 0 else prior[c]


@kernel
def _means(feature: Any, left: Any, sums: Any, n_leaves: Any, weight: Any, bound: Any) -> Any:
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
    return np.asarray(_parts(odds) @ curve)


def _parts(odds: Floats) -> Floats:
    """log p, -log(1 - p) and 1 for each of the log odds, shape (n, 3)."""
    return np.column_stack([log_expit(odds), -log_expit(-odds), np.ones_like(odds)])


def bin_odds(said: Floats, codes: Codes, target: NDArray[np.int32]) -> Integers:
    """Rows by log odds and truth, shape (n_curves * BINS, 2); private until noise is added.

    Formal guarantees
    -----------------
    A record is in one cell, which depends on the record and on released values alone. With more than
    two classes it is counted for one of them, by a hash of its codes.
    """
    n_classes = said.shape[1]
    if n_classes == 2:
        curve, odds, truth = np.zeros(len(said), dtype=np.int64), said[:, 1] - said[:, 0], target
    else:
        curve = _hash(codes, n_classes)
        odds = log_odds(said)[np.arange(len(said)), curve]
        truth = (target == curve).astype(np.int32)
    cell = (curve * BINS + _bin(odds / _REACH)) * 2 + truth
    n_curves = 1 if n_classes == 2 else n_classes
    return np.bincount(cell, minlength=2 * BINS * n_curves).reshape(-1, 2)


def bin_means(said: Floats, target: NDArray[np.int32]) -> Integers:
    """Rows and sum of targets by predicted mean, shape (BINS, 2); private until noise is added.

    Formal guarantees
    -----------------
    A record moves one count by 1 and one sum by at most SUM_BOUND, like a leaf's.
    """
    bins = _bin(said / SUM_BOUND)
    counts = np.bincount(bins, minlength=BINS)
    sums = np.zeros(BINS, dtype=np.int64)
    np.add.at(sums, bins, target)
    return np.column_stack([counts, sums])


def _bin(x: Floats) -> Integers:
    """The bin of each number; numbers beyond [-1, 1] go to the end bins."""
    return np.clip(np.floor((x + 1) * (BINS / 2)), 0, BINS - 1).astype(np.int64)


@kernel
def _hash(codes: Any, n: Any) -> Any:
    out = np.empty(len(codes), dtype=np.int64)
    for i in range(len(codes)):
        word = np.uint64(0)
        for code in codes[i]:
            word = mix(word ^ np.uint64(code))
        out[i] = np.int64(word % np.uint64(n))
    return out


def calibrate_odds(histogram: Floats, noise: float) -> Floats:
    """The curve of each class, shape (n_curves, 3), from a noisy ``bin_odds``.

    The maximum of a likelihood with a penalty on the distance from ``UNCHANGED`` that grows with the
    noise: noise alone changes little. Bins that noise alone could fill are left out. Counts
    in the other bins are replaced by their posterior means, so that noise rules out no class.
    """
    centres: Floats = _CENTRES * _REACH
    expected = _expected(histogram, noise)

    def fit(noisy: Floats, counts: Floats) -> Floats:
        clear = noisy.sum(axis=1) > _CLEAR * math.sqrt(2) * noise
        if not clear.any():  # with many classes, most are rare
            return UNCHANGED
        odds, false, true = centres[clear], counts[clear, 0], counts[clear, 1]
        x = _parts(odds)
        spread = noise * np.hypot(expit(odds), expit(-odds))
        pull = np.linalg.norm(spread[:, None] * x, axis=0) / _SPREAD

        def loss(curve: Floats) -> tuple[float, Floats]:
            said, away = x @ curve, curve - UNCHANGED
            value = -true @ log_expit(said) - false @ log_expit(-said)
            slope = false * expit(said) - true * expit(-said)
            return float(value + pull @ away**2 / 2), slope @ x + pull * away

        found = minimize(loss, UNCHANGED, jac=True, method="L-BFGS-B", bounds=CURVE_BOUNDS)
        return np.asarray(found.x)

    each = zip(histogram.reshape(-1, BINS, 2), expected.reshape(-1, BINS, 2), strict=True)
    return np.array([fit(noisy, counts) for noisy, counts in each])


def _expected(noisy: Floats, noise: float) -> Floats:
    """Posterior means of counts, under a flat prior on n >= 0: c + s phi(c/s) / Phi(c/s).

    A count far above the noise stays as it is, one far below 0 becomes small but never 0.
    """
    z = np.maximum(noisy / noise, -30.0)
    return np.asarray(noise * (z + np.exp(-z * z / 2 - log_ndtr(z)) / math.sqrt(2 * math.pi)))


def calibrate_means(histogram: Floats, noise: tuple[float, float]) -> Floats:
    """Slope and intercept, shape (2,), from a noisy ``bin_means``; targets scaled to [-1, 1]."""
    clear = histogram[:, 0] > _CLEAR * noise[0]
    x, counts, sums = _CENTRES[clear], histogram[clear, 0], histogram[clear, 1] / SUM_BOUND
    spread = np.hypot(noise[1] / SUM_BOUND, noise[0] * x)
    pull = np.array([np.linalg.norm(spread * x), np.linalg.norm(spread)]) / _SPREAD
    # Half the square of slope x + intercept - target, added up over rows.
    moments = np.array([[counts @ x**2, counts @ x], [counts @ x, counts.sum()]])

    def loss(line: Floats) -> tuple[float, Floats]:
        away = line - UNBENT
        gradient = moments @ line - np.array([sums @ x, sums.sum()])
        value = line @ moments @ line / 2 - line @ np.array([sums @ x, sums.sum()])
        return float(value + pull @ away**2 / 2), gradient + pull * away

    found = minimize(loss, UNBENT, jac=True, method="L-BFGS-B", bounds=LINE_BOUNDS)
    return np.asarray(found.x)
