"""What private choices cost next to Gaussian queries when each may depend on all answers before it.

In: numbers. Out: numbers. A choice among public options is *eta-bounded-range* when its privacy loss
lies in an interval [t - eta, t] for some t. The exponential mechanism with probabilities proportional
to exp(lambda * score) is so with eta = lambda * w when one record moves all scores within an interval of
width w. Since E e^-loss = 1, the worst such choice has two outcomes:

    loss t with probability p_t = (e^eta - e^t) / (e^eta - 1), else t - eta,     0 <= t <= eta.

An adversary who sees the loss L so far picks t anew each time (Dong, Durfee and Rogers 2020). With
y = L - epsilon the largest delta that N choices can still reach is

    U_0(y) = (1 - e^-y)+,   U_{j+1}(y) = max over t of p_t U_j(y + t) + (1 - p_t) U_j(y + t - eta),

and Gaussian queries of mu in all, asked anywhere between the choices, make it at most
E U_N(Z - epsilon) with Z ~ N(mu^2/2, mu^2): their answers are given away before the first choice. The
opposite order, N choices and then delta_G, is smaller, and covers only algorithms whose choices look
at no Gaussian answer. Proofs: ``docs/guarantee.md``, "Guided splits".

Every U_j is convex and falling in x = e^-y, so chords over a grid of x bound it from above, and on
chords the maximum over t has a closed form. Nothing is rounded down.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from lumberjack.accounting.calibrate import MARGIN, Calibration, cut_in_sigmas
from lumberjack.accounting.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_nonnegative,
    check_share,
)
from lumberjack.accounting.gaussian import gaussian_delta, gaussian_mu
from lumberjack.accounting.sparse import cutoff_delta, gdp_mu
from lumberjack.accounting.zcdp import zcdp_delta, zcdp_rho
from lumberjack.kernels import kernel

__all__ = ["GuidedCalibration", "bounded_range_delta", "calibrate_guided", "guided_delta"]

Floats = NDArray[np.float64]

_SLACK = 1e-10  # relative; rounding errors were below 1e-13 against extended precision
_TAIL = 30.0  # the grid ends where U is below e^-30 of delta
_WORK = 2.4e6  # cells per evaluation, about 20 ms
_MOST_CELLS = 2.5e7  # beyond, zCDP prices the choices: a claim must not keep an auditor busy
_MOST_CHOICES = 4000  # beyond, and for eta > _LARGEST_ETA, zCDP prices the choices
_SMALLEST_ETA, _LARGEST_ETA = 1e-100, 50.0


def bounded_range_delta(epsilon: float, mu: float, *, choices: int, eta: float) -> float:
    """Delta of choices of bounded range and Gaussian queries together, in any adaptive order.

    Parameters
    ----------
    epsilon : float
        epsilon >= 0; inf gives 0.
    mu : float
        Gaussian queries in all: on every transcript sum (shift / noise)^2 <= mu^2. inf gives 1.
    choices : int
        N, the most choices on any transcript whose outcome depends on the unit. 0: Gaussian alone.
    eta : float
        Width of the interval that holds the privacy loss of one choice. 0: Gaussian alone.

    Returns
    -------
    float
        In [0, 1]; never above the price in zCDP, whose rho is mu^2/2 + N eta^2/8, and never below
        the tight Gaussian curve. Near 1e-6 it exceeds the worst case by some 1 % for N = 160 and 13 %
        for N = 1000, which is 0.05 % and 0.5 % of noise. Beyond 4000 choices, eta = 50 or some 25
        million steps (thousands of choices with epsilon > 100 or delta < 1e-15) it is the price in
        zCDP. Values below 1e-300 may be 0.

    Formal guarantees
    -----------------
    Take any algorithm that makes, on every transcript, at most N choices that are eta-bounded-range
    and otherwise answers Gaussian queries of mu in all, each step chosen from all answers so far.
    Its transcripts under the two data sets P, Q satisfy P(E) <= e^epsilon Q(E) + delta for every event
    E, and the same with P and Q exchanged.

    Examples
    --------
    >>> delta = bounded_range_delta(1.0, 0.2, choices=160, eta=0.02)
    >>> 1.0e-6 < delta < 1.1e-6
    True
    """
    epsilon = check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
    mu, eta = check_nonnegative("mu", mu), check_nonnegative("eta", eta)
    choices = check_count("choices", choices, least=0)
    if choices == 0 or eta == 0 or mu == math.inf or epsilon == math.inf:
        return gaussian_delta(epsilon, mu)
    by_zcdp = zcdp_delta(epsilon, mu * mu / 2 + choices * (eta * eta / 8))
    if choices > _MOST_CHOICES or eta > _LARGEST_ETA:
        return by_zcdp
    return min(by_zcdp, _worst_case(epsilon, mu, choices, max(eta, _SMALLEST_ETA)))


def guided_delta(
    epsilon: float,
    *,
    m: int,
    sigma: float,
    Delta: float,
    choices: int,
    exponent: float,
    score_range: float = 2.0,
    k: int = 0,
    leaf_sigma: float = math.inf,
    rows_per_person: int = 1,
) -> float:
    """Delta of guided splits, thresholds and noisy counts together: the joint bound with choices.

        delta = bounded_range_delta(epsilon, r mu, choices, r * score_range * exponent) + cutoff_delta

    Parameters
    ----------
    epsilon : float
        epsilon >= 0; inf gives the cut-off's share alone.
    m, sigma, Delta, k, leaf_sigma : int, float, float, int, float
        As in ``joint_delta``.
    choices, exponent : int, float
        Split choices that one record takes part in (one for each guided level of each tree), and
        lambda: an option is chosen with probability proportional to exp(lambda * score).
    score_range : float
        Width of the interval in which one record moves the scores of all options of one choice:
        2 for the count-weighted Gini score, 1 for the regression score, more after rounding.
    rows_per_person : int
        r, the most rows that one unit of privacy owns.

    Formal guarantees
    -----------------
    That of ``joint_delta``, for algorithms that also choose by the exponential mechanism. All choices
    on one level of one tree must be independent of each other given the levels above: then r rows,
    on whatever paths, move the losses of one level within r * score_range * exponent in all.
    """
    r = check_count("rows_per_person", rows_per_person)
    width = check_nonnegative("score_range", score_range) * check_nonnegative("exponent", exponent)
    mu = r * gdp_mu((m, sigma), (k, leaf_sigma))
    main = bounded_range_delta(epsilon, mu, choices=choices, eta=r * width)
    return min(1.0, main + cutoff_delta(m, sigma, Delta, r))


@dataclass(frozen=True)
class GuidedCalibration(Calibration):
    """Noise that keeps a promise, and the exponent lambda of the split choices."""

    exponent: float


def calibrate_guided(
    epsilon: float,
    delta: float,
    *,
    m: int,
    choices: int,
    k: int = 0,
    choice_share: float = 0.3,
    leaf_share: float = 0.35,
    score_range: float = 2.0,
    rows_per_person: int = 1,
) -> GuidedCalibration:
    """Smallest tau = Delta + rows_per_person when split choices take a share of the budget.

    N choices that are eta-bounded-range weigh N eta^2/4, what zCDP takes for their mu^2. Of the total,
    ``choice_share`` goes to the choices, ``leaf_share`` to k noisy counts per record (nothing when
    k = 0), and the rest to the m threshold queries. One scalar search over the total: what it leaves
    of delta pays for the cut-off. ``score_range`` is explained in ``guided_delta``.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_count("m", m)
    check_count("choices", choices)
    check_count("k", k, least=0)
    r = check_count("rows_per_person", rows_per_person)
    choice_share = check_share("choice_share", choice_share)
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

    def price(total: float) -> float:
        eta = 2 * math.sqrt(choice_share / choices) * total
        return bounded_range_delta(
            epsilon, math.sqrt(1 - choice_share) * total, choices=choices, eta=eta
        )

    def solve(total: float) -> GuidedCalibration:
        mu, left = total / r, goal - price(total)
        sigma = math.sqrt(m / rest) / mu
        if left <= 0:
            return GuidedCalibration(sigma, math.inf, math.inf, math.inf, 0.0)
        Delta = max(cut_in_sigmas(left, m) * sigma, cut_in_sigmas(left, r * m) * sigma - (r - 1))
        leaf_sigma = math.sqrt(k / leaf_share) / mu if k else math.inf
        exponent = 2 * math.sqrt(choice_share / choices) * mu / score_range
        return GuidedCalibration(sigma, Delta, Delta + r, leaf_sigma, exponent)

    # The largest total that leaves a thousandth for the cut-off lies between what zCDP allows and
    # what the Gaussian part alone would allow; beyond it tau only grows.
    target = goal * (1 - 1e-3)
    low = math.log(2 * zcdp_rho(epsilon, target)) / 2
    high = math.log(gaussian_mu(epsilon, target) / math.sqrt(1 - choice_share)) + 1e-6

    def excess(x: float) -> float:
        return math.log(max(price(math.exp(x)), 1e-300) / target)

    most = brentq(excess, low - 1e-6, high, xtol=1e-5)
    found = minimize_scalar(
        lambda x: min(solve(math.exp(x)).tau, 1e300),
        bounds=(most - 2, most),
        method="bounded",
        options={"xatol": 1e-4},
    )
    c, grow = solve(math.exp(found.x)), 1 + 1e-9
    while True:
        tau = c.Delta + r
        c = replace(c, Delta=tau - r, tau=tau)  # exact: r is a multiple of tau's ulp
        recomputed = guided_delta(
            epsilon,
            m=m,
            sigma=c.sigma,
            Delta=c.Delta,
            choices=choices,
            exponent=c.exponent,
            score_range=score_range,
            k=k,
            leaf_sigma=c.leaf_sigma,
            rows_per_person=r,
        )
        if recomputed <= delta * (1 - MARGIN):
            return c
        c = GuidedCalibration(
            c.sigma * grow, c.Delta * grow, tau, c.leaf_sigma * grow, c.exponent / grow
        )
        grow = 1 + 2 * (grow - 1)


@lru_cache(maxsize=4096)
def _worst_case(epsilon: float, mu: float, choices: int, eta: float) -> float:
    """E U_N(Z - epsilon), from above, for Z ~ N(mu^2/2, mu^2); 1 where that is too much work."""
    # Nodes y = -n h, ..., -h, 0, h. U(y) is at most the delta of rho = N eta^2/8 at epsilon = -y,
    # exp(-(-y - rho)^2 / 4 rho), so the grid may end there; losses beyond N eta do not occur.
    rho = choices * (eta * eta / 8)
    depth = _TAIL - math.log(max(zcdp_delta(epsilon, mu * mu / 2 + rho), 1e-290))
    reach = min(choices, math.ceil((rho + math.sqrt(4 * rho * depth)) / eta))
    per_eta = _resolution(choices)
    if per_eta**2 * reach * (choices - reach / 2) > _MOST_CELLS:  # step j computes min(j, reach) etas
        return 1.0
    values = _after_choices(choices, eta, per_eta, reach)
    h = eta / per_eta
    y: Floats = -h * np.arange(reach * per_eta, -1, -1.0)
    # The chords are U = values[0] + sum of weight_i (1 - x/x_i)+, a mixture of hockey sticks whose
    # Gaussian averages are known. U(y) = 1 - e^-y + e^-y U(-y) mirrors the weights to y > 0.
    rise = np.diff(values)
    weight = np.maximum(rise - math.exp(-h) * np.append(0.0, rise[:-1]), 0.0) / -math.expm1(-h)
    mirrored = weight[:-1] * np.exp(y[:-1])
    total = (
        values[0]
        + weight @ gaussian_delta(epsilon + y, mu)
        + mirrored @ gaussian_delta(epsilon - y[:-1], mu)
    )
    return min(1.0, float(total) * (1 + _SLACK))


def _resolution(choices: int) -> int:
    """Grid steps per eta, even: a function of N alone, so that delta grows with every argument.

    With r of them the chords inflate the choices' mu^2 by about 1/(2 r^2).
    """
    reach = min(choices, 4.5 * math.sqrt(choices))
    return 2 * round(min(max(math.sqrt(_WORK / (choices * reach)), 4.0), 64.0) / 2)


def _after_choices(choices: int, eta: float, per_eta: int, reach: int) -> Floats:
    """U_N, from above, at y = -reach eta, ..., -h, 0, h with h = eta / per_eta."""
    n = reach * per_eta
    padded = np.zeros(n + 1 + 2 * per_eta)
    padded[n + per_eta + 1 :] = -np.expm1(-(eta / per_eta) * np.arange(1, per_eta + 1))
    _choose(padded, choices, eta, per_eta)
    return padded[per_eta : n + per_eta + 2]


@kernel
def _choose(f: Floats, choices: int, eta: float, r: int) -> None:
    """Replace U_0 by U_N in place; f holds r nodes more at either end than are computed.

    The two outcomes of a choice are eta = r h apart. As t runs through [c h, (c + 1) h], both move
    through one cell each, the upper one from f[i + r + c], the lower one from f[i + c] (node i is
    f[i + r]). With u = e^t, s = u - 1 and theta the place in the cell, the value

        ((e^eta - u) (upper + theta rise) + (u - 1) (lower + theta fall)) / (e^eta - 1),
        theta = (1 - e^(c h) / u) / (1 - e^-h),

    is constant - a u - b / u with a, b >= 0: largest at u^2 = b / a, or at the end of the cell next to
    it. Everything is written in s and expm1: no accuracy is lost as eta -> 0.
    """
    n = f.size - 2 * r - 1
    h = eta / r
    steep = -1 / np.expm1(-h)
    largest = np.expm1(eta)
    best = np.empty(n + 1)
    for j in range(1, choices + 1):
        first = max(n - j * r, 0)  # below -j eta nothing can happen in j choices: U_j = 0
        for i in range(first, n + 1):
            best[i] = f[i + r]
        for c in range(r):
            start = np.expm1(c * h)
            beyond = np.expm1(eta + c * h)
            least, most = np.expm1(2 * c * h), np.expm1(2 * (c + 1) * h)
            for i in range(first, n + 1):
                upper, lower = f[i + r + c], f[i + c]
                rise, fall = f[i + r + c + 1] - upper, f[i + c + 1] - lower
                apart = upper - lower
                a = max(apart + steep * (rise - fall), 1e-320)
                z = (steep * (beyond * rise - start * fall) - apart) / a  # u^2 - 1
                z = min(max(z, least), most)
                s = z / (1 + math.sqrt(1 + z))
                theta = steep * (s - start) / (1 + s)
                value = (largest - s) * (upper + theta * rise) + s * (lower + theta * fall)
                best[i] = max(best[i], value / largest)
        for i in range(first, n + 1):
            f[i + r] = best[i]
        for i in range(r):
            f[i] = f[r]  # U grows with y, so its last value is a bound for all lower y
            y = (i + 1) * h
            f[n + r + 1 + i] = -np.expm1(-y) + math.exp(-y) * f[n + r - 1 - i]
