"""The tight privacy curve of the Gaussian mechanism, and its inverses.

In: numbers. Out: numbers. A mechanism is mu-GDP (Dong, Roth, Su 2022) when telling two neighbours
apart is no easier than telling N(0, 1) from N(mu, 1); noise sigma on a query of l2-sensitivity s has
mu = s / sigma, and adaptive composition adds the squares. Such a mechanism is (epsilon, delta)-DP
exactly for (Balle and Wang 2018, Theorem 8)

    delta(epsilon, mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

The two terms nearly cancel where it matters, so they are never subtracted. With t = epsilon/mu
both carry the density phi(t - mu/2), and what is left is a difference of Mills ratios
R(x) = (1 - Phi(x)) / phi(x):

    delta = phi(t - mu/2) (R(t - mu/2) - R(t + mu/2)) = phi(t - mu/2) * integral of (1 - x R(x)) dx,

whose integrand, over [t - mu/2, t + mu/2], is positive. The relative error stays below 1e-12.
"""

import math
from typing import overload

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from lumberjack.accounting.checks import check_delta, check_epsilon, check_nonnegative

__all__ = ["gaussian_delta", "gaussian_epsilon", "gaussian_mu"]

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = _NODES / 2, _WEIGHTS / 2  # the interval [-1/2, 1/2]

Floats = NDArray[np.float64]


def _mills(x: Floats) -> Floats:
    """R(x) = (1 - Phi(x)) / phi(x); infinite below about -37, where it is never used."""
    return math.sqrt(math.pi / 2) * np.asarray(erfcx(x / math.sqrt(2)))


def _log_delta_positive(epsilon: Floats, mu: Floats) -> Floats:
    """log delta for 0 <= epsilon < inf and 0 < mu < inf, elementwise."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        t = epsilon / mu
        a = mu / 2 - t
        log_density = -0.5 * a * a - _LOG_SQRT_2PI
        # mu <= 1: the integral of 1 - x R(x), 20 Gauss-Legendre nodes, is exact to rounding.
        x = t[..., None] + mu[..., None] * _NODES
        # Beyond 1e7 the integrand rounds to 0 or below, where delta itself has long underflowed.
        integrand = np.maximum(1 - x * _mills(x), 1e-300)
        narrow = log_density + np.log(mu) + np.log((integrand * _WEIGHTS).sum(-1))
        # mu > 1: the Mills ratios differ enough to be subtracted, while they are finite;
        # for a > 0 the first one times the density is Phi(a).
        wide = log_density + np.log(_mills(-a) - _mills(t + mu / 2))
        far = np.log(ndtr(a) - np.exp(log_density) * _mills(t + mu / 2))
    return np.where(mu <= 1, narrow, np.where(a <= 0, wide, far))


def _deltas(epsilon: Floats, mu: Floats) -> Floats:
    """delta(epsilon, mu), elementwise, for any real epsilon and mu >= 0."""
    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(mu, float))
    magnitude = np.abs(epsilon)
    usual = (mu > 0) & (mu < np.inf) & (magnitude < np.inf)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        safe_mu = np.where(usual, mu, 1.0)
        safe_epsilon = np.where(usual, magnitude, 1.0)
        delta = np.exp(_log_delta_positive(safe_epsilon, safe_mu))
        # mu = 0: the neighbours look alike; mu = inf: they are told apart for certain.
        delta = np.where(usual, delta, np.where(mu == 0, 0.0, 1.0))
        delta = np.where(magnitude == np.inf, 0.0, delta)
        # epsilon < 0: delta(-e) = 1 - e^-e (1 - delta(e)), as the Gaussian pair is symmetric.
        mirrored = -np.expm1(-magnitude) + np.exp(-magnitude) * delta
    return np.clip(np.where(epsilon < 0, mirrored, delta), 0.0, 1.0)


@overload
def gaussian_delta(epsilon: float, mu: float) -> float: ...
@overload
def gaussian_delta(epsilon: Floats, mu: float | Floats) -> Floats: ...
@overload
def gaussian_delta(epsilon: float | Floats, mu: Floats) -> Floats: ...
def gaussian_delta(epsilon: float | Floats, mu: float | Floats) -> float | Floats:
    """Smallest delta for which mu-GDP implies (epsilon, delta)-DP.

    Implements delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    Parameters
    ----------
    epsilon : float or ndarray
        Any real number; negative values occur inside worst-case recursions. inf gives 0.
    mu : float or ndarray
        mu >= 0. 0 gives 0 (for epsilon >= 0), inf gives 1 (for epsilon < inf).

    Returns
    -------
    float or ndarray
        In [0, 1], relative error below 1e-12.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 0.2367) * 1e6, 6)
    0.999619
    """
    if np.isnan(epsilon).any() or np.isnan(mu).any():
        raise ValueError(f"epsilon and mu must not be NaN, got epsilon={epsilon}, mu={mu}")
    if np.any(np.asarray(mu) < 0):
        raise ValueError(f"mu must be at least 0, got {mu}")
    delta = _deltas(np.asarray(epsilon, float), np.asarray(mu, float))
    return float(delta) if delta.ndim == 0 else delta


def _log_delta(epsilon: float, mu: float) -> float:
    return float(_log_delta_positive(np.asarray(epsilon), np.asarray(mu)))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu for which mu-GDP implies (epsilon, delta)-DP.

    The returned value satisfies gaussian_delta(epsilon, mu) <= delta, and is within a relative
    1e-12 of the largest such number. delta = 0 gives 0 (inf when epsilon = inf), delta = 1 gives inf.
    """
    check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
    check_delta(delta, allow_zero=True, allow_one=True)
    if epsilon == math.inf or delta == 1:
        return math.inf
    if delta == 0:
        return 0.0
    target = math.log(delta)

    def excess(log_mu: float) -> float:
        # log(0) at one end of the bracket: any finite value far below the target will do.
        return max(_log_delta(epsilon, math.exp(log_mu)), -1e300) - target

    # delta is increasing in mu, since d delta / d mu = phi(mu/2 - epsilon/mu) > 0. Start from the
    # rough normal quantile epsilon / mu = sqrt(-2 log delta) and expand.
    low = high = math.log(max(epsilon, 1e-3) / (math.sqrt(-2 * target) + 1))
    while excess(low) > 0:
        low -= 2
    while excess(high) < 0:
        high += 1
    mu = math.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))
    while gaussian_delta(epsilon, mu) > delta:
        mu *= 1 - 2e-13
    return mu


def gaussian_epsilon(delta: float, mu: float) -> float:
    """Smallest epsilon for which mu-GDP implies (epsilon, delta)-DP.

    The returned value satisfies gaussian_delta(epsilon, mu) <= delta. 0 when delta alone suffices;
    inf for delta = 0 (with mu > 0) and for mu = inf (with delta < 1).
    """
    check_delta(delta, allow_zero=True, allow_one=True)
    check_nonnegative("mu", mu)
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0 or mu == math.inf:
        return math.inf
    target = math.log(delta)

    def excess(epsilon: float) -> float:
        return max(_log_delta(epsilon, mu), -1e300) - target

    high = mu * mu / 2 + mu
    while excess(high) > 0:
        high *= 2
    epsilon = float(brentq(excess, 0.0, high, xtol=1e-15 * high, rtol=1e-14))
    while gaussian_delta(epsilon, mu) > delta:
        epsilon = epsilon * (1 + 2e-13) + 1e-300
    return epsilon
