"""The price of private choices and Gaussian queries together, each chosen from all earlier answers.

In: numbers. Out: numbers. A choice among public options is *eta-bounded-range* when its privacy loss
lies in an interval [t - eta, t] for some t. The exponential mechanism with probabilities proportional to
exp(lambda * score) has eta = lambda * w if one record moves all scores within an interval of width w.
Since E e^-loss = 1, the worst such choice has two outcomes:

    loss t with probability p_t = (e^eta - e^t) / (e^eta - 1), else t - eta,     0 <= t <= eta.

An adversary who sees the loss L so far picks t anew each time (Dong, Durfee and Rogers 2020). With
y = L - epsilon the largest delta that N choices can still reach is

    U_0(y) = (1 - e^-y)+,   U_{j+1}(y) = max over t of p_t U_j(y + t) + (1 - p_t) U_j(y + t - eta),

and Gaussian queries of mu in all, asked anywhere between the choices, make it at most
E U_N(Z - epsilon) with Z ~ N(mu^2/2, mu^2): the bound for releasing all their answers before the first
choice. The opposite order, N choices and then delta_G, is smaller, but covers only algorithms whose
choices do not depend on Gaussian answers. Choices of several ranges take one step of the recursion each,
computed from the last one asked to the first. Proofs: ``docs/guarantee.md``, "Guided splits" and "Lists
of priced events".

Every U_j is convex and falling in x = e^-y, so chords over a grid of x bound it from above, and on
chords the maximum over t has a closed form. Nothing is rounded down.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lumberjack.accounting.checks import check_count, check_epsilon, check_nonnegative
from lumberjack.accounting.gaussian import gaussian_delta
from lumberjack.accounting.zcdp import zcdp_delta
from lumberjack.kernels import kernel

__all__ = ["bounded_range_delta"]

Floats = NDArray[np.float64]

_SLACK = 1e-10  # relative; rounding errors were below 1e-13 against extended precision
_TAIL = 30.0  # the grid ends where U is below e^-30 of delta
_WORK = 2.4e6  # cells per evaluation, about 20 ms
_MOST_CELLS = 2.5e7  # beyond, zCDP prices the choices: bounds the time of ``verify``
_MOST_CHOICES = 4000  # beyond, and for eta > _LARGEST_ETA, zCDP prices the choices
_SMALLEST_ETA, _LARGEST_ETA = 1e-100, 50.0


def bounded_range_delta(
    epsilon: float, mu: float, *choices: tuple[int, float], steps: int | None = None
) -> float:
    """Delta of choices of bounded range and Gaussian queries together, in any adaptive order.

    Parameters
    ----------
    epsilon : float
        epsilon >= 0; inf gives 0.
    mu : float
        Gaussian queries in all: on every transcript sum (shift / noise)^2 <= mu^2. inf gives 1.
    *choices : tuple of int and float
        (N, eta), in the public order in which they are asked: N, the most choices on any transcript
        whose outcome depends on the unit, and the width of the interval that holds the privacy loss of
        one of them. N = 0 and eta = 0 cost nothing.
    steps : int or None
        Grid steps in the range of a choice. Fewer give a larger bound, still valid; None: as many as
        some 20 ms allow, at least 4.

    Returns
    -------
    float
        In [0, 1]; never above the price in zCDP, whose rho is mu^2/2 + sum N eta^2/8, and never below
        the tight Gaussian curve. Near 1e-6 it exceeds the worst case by some 1 % for N = 160 and 13 %
        for N = 1000, which is 0.05 % and 0.5 % of noise. Beyond 4000 choices, eta = 50 or some 25
        million steps (thousands of choices with epsilon > 100 or delta < 1e-15) it is the price in
        zCDP. Values below 1e-300 may be 0. Ranges are rounded up to multiples of one step; those that
        are whole multiples already, and equal ones, are taken as they are.

    Formal guarantees
    -----------------
    Take any algorithm that makes choices of these ranges in this order, on every transcript at most N
    of each, and otherwise answers Gaussian queries of mu in all, each step chosen from all answers so
    far. Its transcripts under the two data sets P, Q satisfy P(E) <= e^epsilon Q(E) + delta for every
    event E, and the same with P and Q exchanged.

    Examples
    --------
    >>> delta = bounded_range_delta(1.0, 0.2, (160, 0.02))
    >>> 1.0e-6 < delta < 1.1e-6
    True
    """
    epsilon = check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
    mu = check_nonnegative("mu", mu)
    groups: list[tuple[int, float]] = []
    for number, width in choices:
        count, eta = check_count("choices", number, least=0), check_nonnegative("eta", width)
        if count and eta:
            eta = max(eta, _SMALLEST_ETA)
            before = groups.pop()[0] if groups and groups[-1][1] == eta else 0
            groups.append((before + count, eta))
    if not groups or mu == math.inf or epsilon == math.inf:
        return gaussian_delta(epsilon, mu)
    by_zcdp = zcdp_delta(epsilon, mu * mu / 2 + _rho(groups))
    if sum(n for n, _ in groups) > _MOST_CHOICES or max(eta for _, eta in groups) > _LARGEST_ETA:
        return by_zcdp
    return min(by_zcdp, _worst_case(epsilon, mu, tuple(groups), steps))


def _rho(groups: Iterable[tuple[int, float]]) -> float:
    """Rho of all choices in zCDP (Cesar and Rogers 2021)."""
    return sum(n * (eta * eta / 8) for n, eta in groups)


@lru_cache(maxsize=4096)
def _worst_case(
    epsilon: float, mu: float, groups: tuple[tuple[int, float], ...], resolution: int | None = None
) -> float:
    """Upper bound on E U(Z - epsilon) for Z ~ N(mu^2/2, mu^2); 1 where that is too much work."""
    # Nodes y = -n h, ..., -h, 0, h. U(y) is at most the delta of rho = sum N eta^2/8 at epsilon = -y,
    # exp(-(-y - rho)^2 / 4 rho), so the grid may end there; losses beyond sum N eta do not occur.
    rho = _rho(groups)
    depth = _TAIL - math.log(max(zcdp_delta(epsilon, mu * mu / 2 + rho), 1e-290))
    h, steps = _grid(groups, resolution)
    widest = max(eta for _, eta in groups)
    most = sum(n * r for (n, _), r in zip(groups, steps, strict=True))
    nodes = min(most, max(steps) * math.ceil((rho + math.sqrt(4 * rho * depth)) / widest))
    if nodes * (most - nodes / 2) > _MOST_CELLS:  # steps compute more and more nodes, up to all
        return 1.0
    values = _after_choices(groups, h, steps, nodes)
    y: Floats = -h * np.arange(nodes, -1, -1.0)
    # The chords are U = values[0] + sum of weight_i (1 - x/x_i)+, a mixture of hockey sticks whose
    # Gaussian averages are known. U(y) = 1 - e^-y + e^-y U(-y) mirrors the weights to y > 0.
    rise = np.diff(values)
    weight = np.maximum(rise - math.exp(-h) * np.append(0.0, rise[:-1]), 0.0) / -math.expm1(-h)
    mirrored = weight[:-1] * np.exp(y[:-1])
    delta = gaussian_delta(epsilon + np.concatenate([y, -y[:-1]]), mu)
    # Not a dot product, whose last bits depend on the linear algebra of the machine.
    total = math.fsum([values[0], *(weight * delta[: len(y)]), *(mirrored * delta[len(y) :])])
    return min(1.0, float(total) * (1 + _SLACK))


def _grid(groups: Sequence[tuple[int, float]], resolution: int | None = None) -> tuple[float, list[int]]:
    """A step h, and the number of steps in each range, rounded up; depends on these arguments alone.

    At least as fine as the grid of equally many choices of one range with the same sums of eta and
    eta^2. Up to half finer where that rounds up less; whole multiples of one step are not rounded.
    """
    widest = max(eta for _, eta in groups)
    total = sum(n * (eta / widest) for n, eta in groups)
    squares = sum(n * (eta / widest) ** 2 for n, eta in groups)
    least = (resolution or _resolution(total * total / squares)) * total / squares

    def rounded_up(most: int) -> tuple[float, list[int]]:
        steps = [max(1, round(most * (eta / widest))) for _, eta in groups]
        return max(eta / r for (_, eta), r in zip(groups, steps, strict=True)), steps

    def weight(grid: tuple[float, list[int]]) -> float:
        # The choices' share of mu^2. Chords over r steps inflate it by a factor of about 1 + 1/(2 r^2).
        h, steps = grid
        return h * h * sum(n * (r * r + 0.5) for (n, _), r in zip(groups, steps, strict=True))

    finest = least if len(groups) == 1 else 1.5 * least
    return min(map(rounded_up, range(round(least), round(finest) + 1)), key=weight)


def _resolution(choices: float) -> int:
    """Grid steps per eta, an even number, for this number of choices of one range."""
    reach = min(choices, 4.5 * math.sqrt(choices))
    return 2 * round(min(max(math.sqrt(_WORK / (choices * reach)), 4.0), 64.0) / 2)


def _after_choices(
    groups: Sequence[tuple[int, float]], h: float, steps: Sequence[int], nodes: int
) -> Floats:
    """Upper bound on U after all choices, at y = -nodes h, ..., -h, 0, h; nodes >= max(steps)."""
    values = np.zeros(nodes + 2)
    done = 0
    for (count, eta), r in reversed(list(zip(groups, steps, strict=True))):
        y = h * np.arange(1, r + 1)
        f = np.concatenate([np.full(r, values[0]), values[:-1], np.zeros(r)])
        f[nodes + r + 1 :] = -np.expm1(-y) + np.exp(-y) * f[nodes + r - 1 : nodes - 1 : -1]
        _choose(f, count, eta if eta / r == h else r * h, r, done)
        values, done = f[r : nodes + r + 2], done + count * r
    return values


@kernel
def _choose(f: Floats, choices: int, eta: float, r: int, done: int) -> None:
    """Replace U by T^N U in place; f has r extra nodes at either end, which are not computed.

    U is 0 further than ``done`` nodes below y = 0.

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
        first = max(n - done - j * r, 0)  # below, nothing can happen in so few choices: U = 0
        found, before = best[first:], f[first + r :]
        for i in range(len(found)):
            found[i] = before[i]
        for c in range(r):
            start = np.expm1(c * h)
            beyond = np.expm1(eta + c * h)
            least, most = np.expm1(2 * c * h), np.expm1(2 * (c + 1) * h)
            above, under = f[first + r + c :], f[first + c :]
            for i in range(len(found)):  # contiguous and branch-free, so vectorized
                upper, lower = above[i], under[i]
                rise, fall = above[i + 1] - upper, under[i + 1] - lower
                apart = upper - lower
                a = max(apart + steep * (rise - fall), 1e-320)
                z = (steep * (beyond * rise - start * fall) - apart) / a  # u^2 - 1
                z = min(max(z, least), most)
                s = z / (1 + math.sqrt(1 + z))
                theta = steep * (s - start) / (1 + s)
                value = (largest - s) * (upper + theta * rise) + s * (lower + theta * fall)
                found[i] = max(found[i], value / largest)
        for i in range(len(found)):
            before[i] = found[i]
        for i in range(r):
            f[i] = f[r]  # U increases in y: its lowest computed value bounds all lower ones
            y = (i + 1) * h
            f[n + r + 1 + i] = -np.expm1(-y) + math.exp(-y) * f[n + r - 1 - i]
