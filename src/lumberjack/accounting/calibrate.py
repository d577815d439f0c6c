"""From (epsilon, delta) to noise: the smallest thresholds that the accounting allows.

In: a budget, and events that share it. Out: the same events with the noise, the exponents and the
cut-offs that keep the promise. Every search ends on parameters whose recomputed delta is at most the
asked one; a fixed sliver of delta, ``MARGIN``, is left unused so that rounding in the recomputation,
here or elsewhere, cannot break the promise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri_exp

from lumberjack.accounting.checks import check_count, check_delta, check_epsilon, check_share
from lumberjack.accounting.events import (
    Choices,
    Event,
    NoisySums,
    ThresholdQueries,
    joint_delta,
    noise_delta,
)
from lumberjack.accounting.gaussian import gaussian_mu
from lumberjack.accounting.sparse import theorem1_delta
from lumberjack.accounting.zcdp import zcdp_rho

__all__ = ["Part", "calibrate", "calibrate_paper"]

Part = tuple[Sequence[Event], float]  # templates of events, and their share of mu^2

# Relative share of delta left unused. Evaluation errors are below 1e-11.
MARGIN = 1e-6
_ROUGH_STEPS = 2  # grid steps per range while searching
_LEAST_CUT = 1e-3  # at least this share of delta is for cut-offs


def calibrate(
    epsilon: float, delta: float, parts: Sequence[Part], rows_per_person: int = 1
) -> tuple[Event, ...]:
    """Events with the smallest thresholds under the joint bound.

    Parameters
    ----------
    epsilon, delta : float
        The budget: epsilon > 0 and 0 < delta < 1.
    parts : sequence of (templates, share)
        Events that are asked, in their public order. Noise and exponents of one part's templates are
        relative to each other; each part gets its share of the total. The total is mu^2, in which N
        choices that are eta-bounded-range weigh N eta^2/4, as in zCDP. Templates of threshold queries
        have any cut-off, or None to compare every count.
    rows_per_person : int
        Maximum number of rows per unit of privacy.

    Returns
    -------
    tuple of ThresholdQueries, Choices and NoisySums
        In the same order. All threshold queries have the same cutoff / noise, up to what
        ``rows_per_person`` allows, and thresholds of cutoff + rows_per_person. One scalar search: what
        the total leaves of delta pays for the cut-offs. Without cut-offs all of delta buys mu.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    split = _Split.of(parts, check_count("rows_per_person", rows_per_person))
    goal = delta * (1 - 2 * MARGIN)
    if split.chooses:
        found = _with_choices(epsilon, goal, split)
    elif split.queries:
        found = _without_choices(epsilon, goal, split)
    else:
        found = split.at(gaussian_mu(epsilon, goal), 0.0)
    return _settle(found, split.rows, lambda e: joint_delta(epsilon, e, split.rows), delta)


@dataclass(frozen=True)
class _Split:
    """Templates, each with a factor: its noise is the template's times factor / mu.

    ``queries`` is the number of threshold queries with a cut-off that one record is in.
    """

    scaled: tuple[tuple[Event, float], ...]
    rows: int
    queries: int
    chooses: bool

    @classmethod
    def of(cls, parts: Sequence[Part], rows: int) -> "_Split":
        scaled = []
        for templates, share in parts:
            if share != 1:
                check_share("share", share)
            factor = math.sqrt(math.fsum(map(_weight, templates)) / share)
            scaled += [(event, factor) for event in templates]
        if math.fsum(share for _, share in parts) > 1 + 1e-9:
            raise ValueError("shares must add up to at most 1")
        listed = [event for event, _ in scaled]
        cut = [e for e in listed if isinstance(e, ThresholdQueries) and e.cutoff is not None]
        chooses = any(isinstance(event, Choices) for event in listed)
        return cls(tuple(scaled), rows, sum(event.count for event in cut), chooses)

    def at(self, total: float, left: float) -> tuple[Event, ...]:
        """The events for a total mu, when ``left`` of delta is for the cut-offs."""
        mu, r = total / self.rows, self.rows
        # Probabilities multiply, so with one common z each kind enters by its count.
        together, apart = (
            _cut_in_sigmas(left, m) if left > 0 and m else math.inf
            for m in (self.queries, r * self.queries)
        )
        found: list[Event] = []
        for event, factor in self.scaled:
            scale = factor / mu
            if isinstance(event, Choices):
                found.append(replace(event, exponent=event.exponent / scale))
                continue
            noise = event.noise * scale
            if isinstance(event, NoisySums) or event.cutoff is None:
                found.append(replace(event, noise=noise))
                continue
            cutoff = max(together * noise, apart * noise - (r - 1))
            found.append(replace(event, noise=noise, cutoff=cutoff, threshold=cutoff + r, cut=0))
        return tuple(found)


def _weight(event: Event) -> float:
    """Share of a template in mu^2, without rounding for whole numbers."""
    check_count("count", event.count)
    if isinstance(event, Choices):
        return event.count * (event.exponent * event.score_range) ** 2 / 4
    reach = event.reach if isinstance(event, NoisySums) else 1
    return event.count * (reach / event.noise) ** 2


def _highest(events: Sequence[Event]) -> float:
    """The highest threshold with a cut-off: what searches minimize."""
    cut = [e.threshold for e in events if isinstance(e, ThresholdQueries) and e.cutoff is not None]
    return min(max(cut, default=0.0), 1e300)


def _without_choices(epsilon: float, goal: float, split: _Split) -> tuple[Event, ...]:
    """The curve of Gaussian queries has an inverse: search over the cut-offs' share of delta."""

    def solve(x: float) -> tuple[Event, ...]:
        return split.at(gaussian_mu(epsilon, goal * -math.expm1(x)), goal * math.exp(x))

    low, high = math.log(1e-4), math.log1p(-1e-9)
    best = minimize_scalar(
        lambda x: _highest(solve(x)), bounds=(low, high), method="bounded", options={"xatol": 1e-5}
    )
    return min((solve(float(best.x)), solve(high)), key=_highest)


def _with_choices(epsilon: float, goal: float, split: _Split) -> tuple[Event, ...]:
    """The curve of choices has no inverse: search over the logarithm of the total.

    A coarse grid overprices choices as if the total were larger by a factor, which hardly varies. So the
    search uses a coarse grid; one evaluation on the fine grid gives the factor, and a second one the
    price of what was found.
    """

    def fine(x: float) -> float:
        return noise_delta(epsilon, split.at(math.exp(x), 0.0), split.rows)

    @cache
    def coarse(x: float) -> float:
        return noise_delta(epsilon, split.at(math.exp(x), 0.0), split.rows, steps=_ROUGH_STEPS)

    def where(price: float, near: float, tolerance: float) -> float:
        """Total at which the coarse grid has this price."""
        return _root(lambda x: math.log(max(coarse(x), 1e-300) / price), near, tolerance)

    def threshold(x: float, price: float) -> float:
        return _highest(split.at(math.exp(x), goal - price))

    target = goal * (1 - _LEAST_CUT)
    start = math.log(2 * zcdp_rho(epsilon, target)) / 2 - 1e-6  # what zCDP allows is always allowed
    place = where(target, start, 1e-2)
    shift, low, tolerance = 0.0, place - 2, 1e-2
    found, least = start, math.inf
    for _ in range(6):
        if split.queries:
            best = minimize_scalar(
                lambda x, shift=shift: threshold(x, coarse(x + shift)),
                bounds=(low, max(place, low + tolerance)),
                method="bounded",
                options={"xatol": tolerance},
            )
            place = float(best.x)
        price = fine(place)
        reached = threshold(place, price) if split.queries else -place
        if price <= goal and reached < least:
            found, least = place, reached
        if abs(math.log(max(price, 1e-300) / max(coarse(place + shift), 1e-300))) < 1e-3:
            break
        shift = where(max(price, 1e-290), place, 1e-6) - place
        place = where(target, place + shift, 1e-4) - shift
        low, tolerance = place - 0.5, 1e-4
    return split.at(math.exp(found), goal - fine(found))


def _root(rising: Callable[[float], float], near: float, tolerance: float) -> float:
    """Root of an increasing function, given a point near it."""
    low, high, step = near, near, 0.01
    while rising(low) > 0:
        low, step = low - step, 2 * step
    while rising(high) < 0:
        high, step = high + step, 2 * step
    return low if low == high else float(brentq(rising, low, high, xtol=tolerance))


def calibrate_paper(
    epsilon: float, delta: float, *, m: int, structure_share: float = 0.75
) -> tuple[ThresholdQueries, float]:
    """The paper's split: Theorem 1 gets structure_share of (epsilon, delta), the leaves the rest.

    Returns the threshold queries, and rho of all leaves together: for k leaves the noise of counts is
    sqrt(k / rho / 2), and the exponential mechanism's exponent sqrt(8 rho / k).
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_count("m", m)
    check_share("structure_share", structure_share)
    first_epsilon, first_delta = structure_share * epsilon, structure_share * delta
    goal = first_delta * (1 - 2 * MARGIN)
    # The noise for j = m alone and the cut-off for j = 0 alone, each with all of delta. No j in between
    # needs more, which ``_settle`` checks. (1e-12 and 1e-9 absorb rounding.)
    sigma = math.sqrt(m) / gaussian_mu(first_epsilon, goal) * (1 + 1e-12)
    Delta = _cut_in_sigmas(goal * math.exp(math.log1p(-1e-9)), m) * sigma
    rho = zcdp_rho(epsilon - first_epsilon, (delta - first_delta) * (1 - 2 * MARGIN))

    def recomputed(events: Sequence[Event]) -> float:
        (queries,) = events
        assert isinstance(queries, ThresholdQueries)
        return theorem1_delta(first_epsilon, m=m, sigma=queries.noise, Delta=queries.cutoff or 0.0)

    (found,) = _settle((ThresholdQueries(m, sigma, Delta, Delta + 1),), 1, recomputed, first_delta)
    assert isinstance(found, ThresholdQueries)
    return found, rho


def _cut_in_sigmas(delta: float, m: int) -> float:
    """z >= 0 with 1 - Phi(z)^m = delta; 0 where z = 0 suffices."""
    tail = -math.expm1(math.log1p(-delta) / m)
    return max(0.0, -float(ndtri_exp(math.log(tail))))


def _settle(
    events: Sequence[Event], r: int, recomputed: Callable[[Sequence[Event]], float], delta: float
) -> tuple[Event, ...]:
    """Round to floats that keep the promise, with threshold = cutoff + r exactly.

    Noise grows where rounding takes more than ``MARGIN``: for billions of rows, or tiny budgets.
    """
    grow = 1 + 1e-9
    events = tuple(_rounded(event, r) for event in events)
    while recomputed(events) > delta * (1 - MARGIN):
        events = tuple(_rounded(_grown(event, grow), r) for event in events)
        grow = 1 + 2 * (grow - 1)
    return events


def _rounded(event: Event, r: int) -> Event:
    if not isinstance(event, ThresholdQueries) or event.cutoff is None:
        return event
    tau = event.cutoff + r
    return replace(
        event, cutoff=tau - r, threshold=tau
    )  # exact up to 2^53: r is a multiple of tau's ulp


def _grown(event: Event, factor: float) -> Event:
    if isinstance(event, Choices):
        return replace(event, exponent=event.exponent / factor)
    if isinstance(event, NoisySums) or event.cutoff is None:
        return replace(event, noise=event.noise * factor)
    return replace(event, noise=event.noise * factor, cutoff=event.cutoff * factor)
