"""What threshold queries with a cut-off cost: the cut-off, Theorem 1, and bounds on the error.

In: numbers. Out: numbers. The mechanism (the paper's Algorithm 2) answers a counting query with
"count + N(0, sigma^2) > tau", except that counts of at most tau - Delta - 1 always get "no". One
record takes part in at most m queries, however earlier answers choose later queries.

Symbols are the paper's: k trees, height h, m = k (1 + floor(log2 h)) queries, sigma, Delta, tau.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from lumberjack.accounting.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_nonnegative,
)
from lumberjack.accounting.gaussian import gaussian_delta

__all__ = [
    "cutoff_delta",
    "error_bound",
    "gdp_mu",
    "lower_bound",
    "queries_per_tree",
    "simple_parameters",
    "theorem1_delta",
]

Floats = NDArray[np.float64]

_MOST_BLOCKS = 2048  # of j's bisected at a time in Theorem 1; calibrated noise needs fewer than 100


def queries_per_tree(height: int) -> int:
    """Maximum number of queries about a record in a tree: q(h) = 1 + floor(log2 h) (paper, Lemma 1)."""
    return check_count("height", height).bit_length()


def gdp_mu(*releases: tuple[float, float]) -> float:
    """Compose Gaussian releases: mu^2 is the sum of count / sigma^2 over (count, sigma) pairs.

    A count of 0 costs nothing whatever its noise; sigma = inf costs nothing; sigma = 0 costs inf.
    """
    total = 0.0
    for count, sigma in releases:
        check_nonnegative("count", count)
        check_nonnegative("sigma", sigma)
        if count > 0:
            total += math.inf if sigma == 0 else count / sigma / sigma
    return math.sqrt(total)


def _log_no_crossing(Delta: float, sigma: float) -> float:
    """log Phi(Delta / sigma), the chance that noise sigma does not exceed Delta >= 0."""
    check_nonnegative("Delta", Delta)
    check_nonnegative("sigma", sigma)
    if Delta == math.inf or sigma == 0:
        return 0.0
    return float(log_ndtr(Delta / sigma))


def cutoff_delta(*queries: tuple[int, float, float], rows_per_person: int = 1) -> float:
    """What the deterministic "no" of small counts adds to delta: 1 - prod Phi(Delta/sigma)^m.

    ``queries`` are (m, sigma, Delta) of each kind of threshold query. When one person owns r rows, a
    query that is cut off without them may hold j of them, 1 <= j <= r, and all such j of one kind add
    up to at most r m. Then "yes" has probability at most 1 - Phi((Delta + r - j)/sigma), because tau >=
    cut + r + Delta. The worst case for each kind puts all rows in the same m queries, or every row in
    queries of its own:

        1 - prod min(Phi(Delta/sigma)^m, Phi((Delta + r - 1)/sigma)^(r m)).

    m = 0 and Delta = inf give 0; sigma = 0 gives 0 (without noise nothing crosses); sigma = inf gives
    1 - 2^-m.
    """
    r = check_count("rows_per_person", rows_per_person)
    log_quiet = 0.0
    for m, sigma, Delta in queries:
        check_count("m", m, least=0)
        together = m * _log_no_crossing(Delta, sigma)
        apart = r * m * _log_no_crossing(Delta + r - 1, sigma)
        log_quiet += min(together, apart)
    return -math.expm1(log_quiet)


def theorem1_delta(epsilon: float, *, m: int, sigma: float, Delta: float) -> float:
    """Delta of Theorem 1 of the paper, with gamma(j) = (m - j) log Phi(Delta/sigma).

    The largest, over 0 <= j <= m, of

        1 - Phi^(m-j) + Phi^(m-j) delta_G(epsilon - gamma(j), sqrt(j)/sigma)   and
        delta_G(epsilon + gamma(j), sqrt(j)/sigma).

    Holds for queries fixed in advance. It is *not* true for adaptive ones: see
    ``docs/adaptivity.md``. Exact maximum by branch and bound: on a block of j's both expressions
    are bounded by putting each increasing factor at one end and each decreasing one at the other.
    Where both are so flat that thousands of blocks remain, which calibrated noise never is, the
    largest bound is returned: at least the maximum, after at most 4096 evaluations a level.
    """
    check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
    check_count("m", m, least=0)
    if m == 0:
        return 0.0
    loss = -_log_no_crossing(Delta, sigma)

    def at(j_first: Floats, j_last: Floats) -> Floats:
        """Bound both expressions on the blocks; with equal ends, their exact value."""
        most, least = (m - j_first) * loss, (m - j_last) * loss
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mu = np.where(j_last == 0, 0.0, np.sqrt(j_last) / sigma)
        removed = -np.expm1(-most) + np.exp(-least) * gaussian_delta(epsilon + least, mu)
        added = gaussian_delta(epsilon - most, mu)
        return np.maximum(removed, np.where(j_last == 0, 0.0, added))

    ends = np.unique(np.linspace(0, m, min(m, 64) + 1).astype(np.int64)).astype(float)
    best = float(at(ends, ends).max())
    first, last = ends[:-1], ends[1:]
    while first.size:
        bound = at(first, last)
        promising = (bound > best) & (last - first > 1)
        if np.count_nonzero(promising) > _MOST_BLOCKS:
            return min(1.0, float(bound.max()))
        first, last = first[promising], last[promising]
        middle = np.floor((first + last) / 2)
        best = max([best, *at(middle, middle)])
        first, last = np.concatenate([first, middle]), np.concatenate([middle, last])
    return min(1.0, best)


def simple_parameters(epsilon: float, delta: float, m: int) -> tuple[float, float]:
    """Closed-form (sigma, Delta) of the paper's Lemma 'theorem-simpler', for epsilon < 1.

    sigma = sqrt(2 m ln(2.5/delta)) / epsilon and Delta = sigma sqrt(2 ln(2 m/delta)).
    """
    check_epsilon(epsilon)
    check_delta(delta)
    check_count("m", m)
    if epsilon >= 1:
        raise ValueError(f"epsilon must be below 1 for the closed form, got {epsilon:g}")
    sigma = math.sqrt(2 * m * math.log(2.5 / delta)) / epsilon
    return sigma, sigma * math.sqrt(2 * math.log(2 * m / delta))


def error_bound(sigma: float, *, n: int, height: int, beta: float, k: int = 1) -> float:
    """Alpha of Theorem 1: counts beyond tau +- alpha are classified correctly with probability 1 - beta.

    alpha = sigma sqrt(2 ln(2 k n ceil(log2(h + 1)) / beta)); 0 for an empty data set.
    """
    check_nonnegative("sigma", sigma)
    check_count("n", n, least=0)
    check_count("k", k)
    check_delta(beta, name="beta")
    if n == 0 or sigma == 0:
        return 0.0
    return sigma * math.sqrt(2 * math.log(2 * k * n * queries_per_tree(height) / beta))


def lower_bound(epsilon: float, delta: float, *, n: int, height: int, beta: float) -> float:
    """Smallest threshold that any private algorithm can reach on deep trees (paper's appendix).

    An (epsilon, delta)-DP algorithm, epsilon < 1, that outputs at most n^2 nodes a layer and, with
    probability 1 - beta, all nodes with counts above tau needs

        tau >= 1/2 min(ln(2^(h-1) / (32 beta n^2)) / (8 epsilon) - 1,
                       ln(epsilon / (4 delta)) / (4 epsilon) - 1, n)

    when h > 6 + log2(n^2 / beta^15). Shallower trees get the trivial bound 0.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    check_count("n", n)
    check_count("height", height)
    check_delta(beta, name="beta")
    if epsilon >= 1:
        raise ValueError(f"epsilon must be below 1 for the lower bound, got {epsilon:g}")
    if height <= 6 + 2 * math.log2(n) - 15 * math.log2(beta):
        return 0.0
    by_height = ((height - 1) * math.log(2) - math.log(32 * beta) - 2 * math.log(n)) / (8 * epsilon)
    by_delta = math.log(epsilon / (4 * delta)) / (4 * epsilon)
    return max(0.0, 0.5 * min(by_height - 1, by_delta - 1, n))
