"""From (epsilon, delta) to noise: the smallest threshold that the accounting allows.

In: a budget and the shape of the forest. Out: sigma, Delta, tau and the leaf noise. Every search ends
on parameters whose recomputed delta is at most the asked one; a fixed sliver of delta, ``MARGIN``, is
left unused so that rounding in the recomputation, here or elsewhere, cannot tip the promise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri_exp

from lumberjack.accounting.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_share,
)
from lumberjack.accounting.gaussian import gaussian_mu
from lumberjack.accounting.sparse import joint_delta, theorem1_delta
from lumberjack.accounting.zcdp import zcdp_rho

__all__ = ["Calibration", "calibrate_joint", "calibrate_paper", "calibrate_plain"]

# Relative share of delta given away. Evaluation errors are below 1e-11.
MARGIN = 1e-6


@dataclass(frozen=True)
class Calibration:
    """Noise that keeps a promise. ``leaf_sigma`` is inf when there are no leaves to pay for."""

    sigma: float
    Delta: float
    tau: float
    leaf_sigma: float


def calibrate_joint(
    epsilon: float,
    delta: float,
    *,
    m: int,
    k: int = 0,
    leaf_share: float = 0.5,
    rows_per_person: int = 1,
) -> Calibration:
    """Smallest tau = Delta + rows_per_person under the joint bound.

    ``leaf_share`` of mu^2 goes to k noisy counts per record, the rest to the m threshold queries
    (all of it when k = 0). One scalar search: t is the part of delta that pays for the cut-off.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_count("m", m)
    check_count("k", k, least=0)
    r = check_count("rows_per_person", rows_per_person)
    share = check_share("leaf_share", leaf_share) if k else 0.0
    goal = delta * (1 - 2 * MARGIN)

    def solve(log_t: float) -> Calibration:
        t = math.exp(log_t)
        mu = gaussian_mu(epsilon, goal * -math.expm1(log_t)) / r
        sigma = math.sqrt(m / (1 - share)) / mu
        leaf_sigma = math.sqrt(k / share) / mu if k else math.inf
        Delta = max(
            cut_in_sigmas(goal * t, m) * sigma,
            cut_in_sigmas(goal * t, r * m) * sigma - (r - 1),
        )
        return Calibration(sigma, Delta, Delta + r, leaf_sigma)

    best = _smallest_tau(solve)
    return _settle(
        best,
        r,
        lambda c: (
            joint_delta(
                epsilon,
                m=m,
                sigma=c.sigma,
                Delta=c.Delta,
                k=k,
                leaf_sigma=c.leaf_sigma,
                rows_per_person=r,
            )
            <= delta * (1 - MARGIN)
        ),
    )


def calibrate_plain(
    epsilon: float, delta: float, *, m: int, k: int = 0, leaf_share: float = 0.5
) -> tuple[float, float]:
    """(sigma, leaf_sigma) of Gaussian queries without a cut-off: all of delta buys mu."""
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_count("m", m)
    share = check_share("leaf_share", leaf_share) if check_count("k", k, least=0) else 0.0
    mu = gaussian_mu(epsilon, delta * (1 - 2 * MARGIN))
    return math.sqrt(m / (1 - share)) / mu, math.sqrt(k / share) / mu if k else math.inf


def calibrate_paper(
    epsilon: float, delta: float, *, m: int, k: int, structure_share: float = 0.75
) -> tuple[Calibration, float]:
    """The paper's split: Theorem 1 gets structure_share of (epsilon, delta), the leaves the rest.

    Returns the calibration, whose ``leaf_sigma`` is for noisy counts, and rho of all leaves together,
    from which the exponential mechanism's exponent is sqrt(8 rho / k).
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_count("m", m)
    check_count("k", k)
    check_share("structure_share", structure_share)
    first_epsilon, first_delta = structure_share * epsilon, structure_share * delta
    goal = first_delta * (1 - 2 * MARGIN)

    def price(sigma: float, Delta: float) -> float:
        return theorem1_delta(first_epsilon, m=m, sigma=sigma, Delta=Delta)

    # The noise that j = m alone would need: no smaller sigma can do. (The factor absorbs rounding.)
    least_sigma = math.sqrt(m) / gaussian_mu(first_epsilon, goal) * (1 + 1e-12)

    def solve(log_t: float) -> Calibration:
        # For a fixed ratio z = Delta/sigma the price falls as sigma grows.
        z = cut_in_sigmas(goal * math.exp(log_t), m)

        def excess(log_sigma: float) -> float:
            sigma = math.exp(log_sigma)
            return math.log(price(sigma, z * sigma) / goal)

        sigma, low, step = least_sigma, math.log(least_sigma), 1e-3
        if price(sigma, z * sigma) > goal:
            while excess(low + step) > 0:
                step *= 4
            sigma = math.exp(brentq(excess, low, low + step, xtol=1e-9, rtol=1e-12))
        return Calibration(sigma, z * sigma, z * sigma + 1, math.inf)

    best = _settle(
        _smallest_tau(solve, least_sigma),
        1,
        lambda c: price(c.sigma, c.Delta) <= first_delta * (1 - MARGIN),
    )
    rho = zcdp_rho(epsilon - first_epsilon, (delta - first_delta) * (1 - 2 * MARGIN))
    return (
        Calibration(best.sigma, best.Delta, best.tau, math.sqrt(k / rho / 2)),
        rho,
    )


def cut_in_sigmas(delta: float, m: int) -> float:
    """z with 1 - Phi(z)^m = delta; 0 where a cut-off at 0 would already do."""
    tail = -math.expm1(math.log1p(-delta) / m)
    return max(0.0, -float(ndtri_exp(math.log(tail))))


def _smallest_tau(solve: Callable[[float], Calibration], least_sigma: float = 0.0) -> Calibration:
    """Minimise tau over the logarithm of the cut-off's part of delta."""
    low, high = math.log(1e-4), math.log1p(-1e-9)
    most = solve(high)
    if most.sigma <= least_sigma:  # the smallest Delta/sigma and the smallest sigma at once
        return most
    found = minimize_scalar(
        lambda log_t: solve(log_t).tau,
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-5},
    )
    return min((solve(float(found.x)), most), key=lambda c: c.tau)


def _settle(c: Calibration, r: int, holds: Callable[[Calibration], bool]) -> Calibration:
    """Round to floats that keep the promise, with tau = Delta + r exactly."""
    grow = 1 + 1e-9
    while True:
        tau = c.Delta + r
        c = Calibration(c.sigma, tau - r, tau, c.leaf_sigma)  # exact: r is a multiple of tau's ulp
        if holds(c):
            return c
        c = Calibration(c.sigma * grow, c.Delta * grow, tau, c.leaf_sigma * grow)
        grow = 1 + 2 * (grow - 1)
