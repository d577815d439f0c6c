"""Zero-concentrated DP, and conversions between ways of stating a guarantee.

In: numbers. Out: numbers. rho-zCDP (Bun and Steinke 2016) composes by adding; the Gaussian mechanism
with noise multiplier sigma is 1/(2 sigma^2)-zCDP.
"""

import math

from scipy.optimize import brentq

from lumberjack.accounting.checks import (
    check_delta,
    check_epsilon,
    check_nonnegative,
)

__all__ = [
    "basic_composition",
    "exponential_rho",
    "gaussian_rho",
    "pure_rho",
    "replacement",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Delta for which rho-zCDP implies (epsilon, delta)-DP (paper, Lemma on zCDP conversion).

        delta = 2 exp(-(epsilon - rho)^2 / (4 rho)) / (1 + x + sqrt((1 + x)^2 + 4/(pi rho))),
        x = (epsilon - rho) / (2 rho)

    stated for epsilon >= rho; below that the lemma is silent and 1 is returned. rho = 0 and
    epsilon = inf give 0.
    """
    check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
    check_nonnegative("rho", rho)
    if rho == 0 or epsilon == math.inf:
        return 0.0
    if epsilon < rho:
        return 1.0
    return math.exp(_log_zcdp_delta(epsilon, rho))


def _log_zcdp_delta(epsilon: float, rho: float) -> float:
    gap = epsilon - rho
    x = gap / rho / 2
    return (
        math.log(2)
        - gap * gap / rho / 4
        - math.log(1 + x + math.hypot(1 + x, 2 / math.sqrt(math.pi * rho)))
    )


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Largest rho, up to epsilon, for which rho-zCDP implies (epsilon, delta)-DP.

    The result satisfies zcdp_delta(epsilon, rho) <= delta. epsilon = 0 or delta = 0 give 0;
    epsilon = inf gives inf.
    """
    check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
    check_delta(delta, allow_zero=True, allow_one=True)
    if epsilon == math.inf:
        return math.inf
    if epsilon == 0 or delta == 0:
        return 0.0
    if zcdp_delta(epsilon, epsilon) <= delta:
        return epsilon
    target = math.log(delta)
    low = epsilon / 4
    while _log_zcdp_delta(epsilon, low) > target:
        low /= 4
    log_rho = brentq(
        lambda x: _log_zcdp_delta(epsilon, min(math.exp(x), epsilon)) - target,
        math.log(low),
        math.log(epsilon),
        xtol=1e-14,
        rtol=1e-14,
    )
    rho = min(math.exp(log_rho), epsilon)
    while zcdp_delta(epsilon, rho) > delta:
        rho *= 1 - 2e-14
    return rho


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon >= rho for which rho-zCDP implies (epsilon, delta)-DP.

    The result satisfies zcdp_delta(epsilon, rho) <= delta. rho = 0 gives 0; delta = 0 gives inf.
    """
    check_nonnegative("rho", rho)
    check_delta(delta, allow_zero=True, allow_one=True)
    if rho == 0:
        return 0.0
    if delta == 0 or rho == math.inf:
        return math.inf
    if zcdp_delta(rho, rho) <= delta:
        return rho
    target = math.log(delta)
    # exp(-(epsilon - rho)^2 / 4 rho) <= delta already suffices.
    high = rho + 2 * math.sqrt(rho * -target)
    epsilon = float(
        brentq(lambda e: _log_zcdp_delta(e, rho) - target, rho, high, xtol=1e-15 * high, rtol=1e-14)
    )
    while zcdp_delta(epsilon, rho) > delta:
        epsilon *= 1 + 2e-14
    return epsilon


def gaussian_rho(sigma: float) -> float:
    """Rho of the Gaussian mechanism with noise multiplier sigma: 1 / (2 sigma^2)."""
    check_nonnegative("sigma", sigma)
    return math.inf if sigma == 0 else 0.5 / sigma / sigma


def exponential_rho(exponent: float) -> float:
    """Rho of the exponential mechanism on class counts.

    A class is chosen with probability proportional to exp(exponent * count). One record raises one
    count by 1 and lowers none, so the privacy loss lies in an interval of width ``exponent``: bounded
    range, hence exponent^2/8-zCDP (Cesar and Rogers 2021). The largest count after adding Gumbel noise
    of scale 1/exponent is the same mechanism.
    """
    return check_nonnegative("exponent", exponent) ** 2 / 8


def pure_rho(epsilon: float) -> float:
    """Rho of any epsilon-DP mechanism: epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4)."""
    return check_epsilon(epsilon, allow_zero=True, allow_infinity=True) ** 2 / 2


def basic_composition(*guarantees: tuple[float, float]) -> tuple[float, float]:
    """Add (epsilon, delta) pairs; delta is capped at 1. No pairs: (0, 0)."""
    for epsilon, delta in guarantees:
        check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
        check_delta(delta, allow_zero=True, allow_one=True)
    return (
        math.fsum(epsilon for epsilon, _ in guarantees),
        min(1.0, math.fsum(delta for _, delta in guarantees)),
    )


def replacement(epsilon: float, delta: float) -> tuple[float, float]:
    """What add/remove DP means when a record is replaced: (2 epsilon, (1 + e^epsilon) delta)."""
    check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
    check_delta(delta, allow_zero=True, allow_one=True)
    if delta == 0:
        return 2 * epsilon, 0.0
    log_delta = epsilon + math.log1p(math.exp(-epsilon)) + math.log(delta)
    return 2 * epsilon, math.exp(min(0.0, log_delta))
