"""From (epsilon, delta) to noise: the smallest threshold that the accounting allows.

In: a budget and the shape of the forest. Out: sigma, Delta, tau and the leaf noise. Every search ends
on parameters whose recomputed delta is at most the asked one; a fixed sliver of delta, ``MARGIN``, is
left unused so that rounding in the recomputation, here or elsewhere, cannot tip the promise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri_exp

from lumberjack.accounting.adaptive import bounded_range_delta
from lumberjack.accounting.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_nonnegative,
    check_share,
)
from lumberjack.accounting.events import Choices, Event, NoisySums, ThresholdQueries, joint_delta
from lumberjack.accounting.gaussian import gaussian_mu
from lumberjack.accounting.sparse import theorem1_delta
from lumberjack.accounting.zcdp import zcdp_rho

__all__ = ["Calibration", "calibrate", "calibrate_paper", "calibrate_plain"]

# Relative share of delta given away. Evaluation errors are below 1e-11.
MARGIN = 1e-6


@dataclass(frozen=True)
class Calibration:
    """Noise that keeps a promise, and the exponent of choices.

    ``leaf_sigma`` is inf when there are no leaves to pay for, ``exponent`` 0 when there are no choices.
    """

    sigma: float
    Delta: float
    tau: float
    leaf_sigma: float
    exponent: float = 0.0


def calibrate(
    epsilon: float,
    delta: float,
    *,
    m: int,
    k: int = 0,
    leaf_share: float = 0.5,
    choices: int = 0,
    choice_share: float = 0.3,
    score_range: float = 2.0,
    rows_per_person: int = 1,
) -> Calibration:
    """Smallest tau = Delta + rows_per_person under the joint bound.

    The budget is a total: mu^2, in which N choices that are eta-bounded-range weigh N eta^2/4, as in
    zCDP. ``leaf_share`` of it goes to k noisy counts per record, ``choice_share`` to the choices
    (nothing where there are none), and the rest to the m threshold queries. One scalar search:
    the part of delta that the total does not use pays for the cut-off. ``score_range`` is explained in
    ``Choices``.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_count("m", m)
    check_count("k", k, least=0)
    check_count("choices", choices, least=0)
    r = check_count("rows_per_person", rows_per_person)
    choice_share = check_share("choice_share", choice_share) if choices else 0.0
    leaf_share = check_share("leaf_share", leaf_share) if k else 0.0
    rest = 1 - choice_share - leaf_share
    if rest <= 0:
        raise ValueError(
            "choice_share and leaf_share must leave something for the thresholds, "
            f"got {choice_share:g} + {leaf_share:g}"
        )
    if not 0 < check_nonnegative("score_range", score_range) < math.inf:
        raise ValueError(f"score_range must be positive and finite, got {score_range:g}")
    goal = delta * (1 - 2 * MARGIN)
    width = 2 * math.sqrt(choice_share / choices) if choices else 0.0  # of a choice, in totals

    def share_out(total: float, left: float) -> Calibration:
        mu = total / r
        sigma = math.sqrt(m / rest) / mu
        if left <= 0:
            return Calibration(sigma, math.inf, math.inf, math.inf)
        Delta = max(_cut_in_sigmas(left, m) * sigma, _cut_in_sigmas(left, r * m) * sigma - (r - 1))
        leaf_sigma = math.sqrt(k / leaf_share) / mu if k else math.inf
        return Calibration(sigma, Delta, Delta + r, leaf_sigma, width * mu / score_range)

    def price(total: float) -> float:
        mu = math.sqrt(1 - choice_share) * total
        return bounded_range_delta(epsilon, mu, (choices, width * total))

    # The curve of choices has no inverse. With choices, the search is over the logarithm of the total;
    # without, over the logarithm of the cut-off's part of delta.
    def solve(x: float) -> Calibration:
        if choices:
            return share_out(math.exp(x), goal - price(math.exp(x)))
        return share_out(gaussian_mu(epsilon, goal * -math.expm1(x)), goal * math.exp(x))

    low, high, tolerance = math.log(1e-4), math.log1p(-1e-9), 1e-5
    if choices:
        # The largest total that leaves a thousandth for the cut-off lies between what zCDP allows and
        # what the Gaussian part alone would allow; beyond it tau only grows.
        target = goal * (1 - 1e-3)
        high = brentq(
            lambda x: math.log(max(price(math.exp(x)), 1e-300) / target),
            math.log(2 * zcdp_rho(epsilon, target)) / 2 - 1e-6,
            math.log(gaussian_mu(epsilon, target) / math.sqrt(1 - choice_share)) + 1e-6,
            xtol=1e-5,
        )
        low, tolerance = high - 2, 1e-4
    best = minimize_scalar(
        lambda x: min(solve(x).tau, 1e300),
        bounds=(low, high),
        method="bounded",
        options={"xatol": tolerance},
    )

    def recomputed(c: Calibration) -> float:
        events: list[Event] = [
            ThresholdQueries(m, c.sigma, c.Delta, c.tau),
            Choices(choices, c.exponent, score_range),
            NoisySums(k, c.leaf_sigma),
        ]
        return joint_delta(epsilon, events, r)

    found = min((solve(float(best.x)), solve(high)), key=lambda c: c.tau)
    return _settle(found, r, recomputed, delta)


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

    # The noise that j = m alone would need and the cut-off that j = 0 alone would need, each for all of
    # delta: no j in between needs more, or ``_settle`` would find out. (1e-12 and 1e-9 absorb rounding.)
    sigma = math.sqrt(m) / gaussian_mu(first_epsilon, goal) * (1 + 1e-12)
    Delta = _cut_in_sigmas(goal * math.exp(math.log1p(-1e-9)), m) * sigma
    rho = zcdp_rho(epsilon - first_epsilon, (delta - first_delta) * (1 - 2 * MARGIN))
    leaf_sigma = math.sqrt(k / rho / 2)

    def recomputed(c: Calibration) -> float:
        return theorem1_delta(first_epsilon, m=m, sigma=c.sigma, Delta=c.Delta)

    found = Calibration(sigma, Delta, Delta + 1, leaf_sigma)
    return replace(_settle(found, 1, recomputed, first_delta), leaf_sigma=leaf_sigma), rho


def _cut_in_sigmas(delta: float, m: int) -> float:
    """z with 1 - Phi(z)^m = delta; 0 where a cut-off at 0 would already do."""
    tail = -math.expm1(math.log1p(-delta) / m)
    return max(0.0, -float(ndtri_exp(math.log(tail))))


def _settle(
    c: Calibration, r: int, recomputed: Callable[[Calibration], float], delta: float
) -> Calibration:
    """Round to floats that keep the promise, with tau = Delta + r exactly.

    Noise grows where rounding takes more than ``MARGIN``: for billions of rows, or tiny budgets.
    """
    grow = 1 + 1e-9
    while True:
        tau = c.Delta + r
        c = replace(c, Delta=tau - r, tau=tau)  # exact up to 2^53: r is a multiple of tau's ulp
        if recomputed(c) <= delta * (1 - MARGIN):
            return c
        c = Calibration(c.sigma * grow, c.Delta * grow, tau, c.leaf_sigma * grow, c.exponent / grow)
        grow = 1 + 2 * (grow - 1)
