"""What several releases from one table promise together.

In: guarantees. Out: one guarantee with the events of all. No data comes near this file.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from scipy.optimize import brentq

from lumberjack.accounting import MOST_EVENTS
from lumberjack.accounting.checks import check_delta
from lumberjack.guarantee import BUDGETS_FIXED, LIMITS_FIXED, NOT_PROVED, Guarantee

__all__ = ["compose"]

_MOST_EPSILON = 1e6  # the largest that is searched


def compose(
    guarantees: Sequence[Guarantee], delta: float | None = None, *, adaptive_budgets: bool = False
) -> Guarantee:
    """Say what several releases from one table promise together.

    Parameters
    ----------
    guarantees : sequence of Guarantee
        Of all releases, in the order in which they were made; ``compose`` takes its own results too.
        They protect the same unit with the same number of rows.
    delta : float or None
        The delta of the promise. None: the sum of the parts'.
    adaptive_budgets : bool
        Whether later budgets may have been chosen by looking at earlier releases. Then everything is
        priced in zCDP, which costs more.

    Returns
    -------
    Guarantee
        With ``method="composed"``, the events of all parts, and the smallest epsilon for which
        ``verify()`` is at most delta. Its assumptions and caveats are those of all parts.

    Raises
    ------
    ValueError
        If a part does not keep its own promise, if the units differ, or if no epsilon up to a million
        will do.

    Formal guarantees
    -----------------
    All releases together are (epsilon, delta)-DP for the common unit. Each part may depend on the
    answers of the parts before it, as long as its events were fixed before the first part: this is an
    entry of ``assumptions``. Proof: ``docs/guarantee.md``, "Several releases".

    With ``adaptive_budgets`` events may have been chosen from the answers so far. The guarantee then
    holds if limits on rho and on the cut-offs, those that its events reach, were fixed before the first
    release, and no release was made that could have exceeded them: a privacy *filter*, which for zCDP
    costs no more than adding up (Rogers et al. 2016 introduced filters; Feldman and Zrnic 2021 and
    Whitehouse et al. 2023 prove such filters). It is not an *odometer*: if no limit was fixed
    beforehand, nothing is claimed about the amount spent by the time somebody stops.

    The paper's Theorem 1 does not compose and is not proved for adaptive queries. Parts with
    ``accounting="paper"`` enter with their events, at the price of the joint bound, so the caveat about
    the theorem is dropped, and even a single such part may get a larger epsilon than it had.

    Examples
    --------
    >>> from lumberjack import compose, plan
    >>> both = compose([plan(1.0, 1e-6), plan(0.5, 1e-6)])
    >>> both.delta, round(both.epsilon, 2) < 1.5, both.verify() <= both.delta
    (2e-06, True, True)
    """
    parts = list(guarantees)
    _check_parts(parts)
    if delta is None:
        delta = min(math.fsum(part.delta for part in parts), math.nextafter(1.0, 0.0))
    filtered = adaptive_budgets or any(part.accounting == "zcdp" for part in parts)
    said = [text for part in parts for text in part.assumptions if text != BUDGETS_FIXED]
    said.append(LIMITS_FIXED if filtered else BUDGETS_FIXED)
    caveats = [text for part in parts for text in part.caveats if text != NOT_PROVED]
    together = Guarantee(
        epsilon=0.0,
        delta=check_delta(delta),
        unit=parts[0].unit,
        rows_per_person=parts[0].rows_per_person,
        accounting="zcdp" if filtered else "joint",
        method="composed",
        n_estimators=sum(part.n_estimators for part in parts),
        max_depth=max(part.max_depth for part in parts),
        leaf="none",
        structure_share=None,
        events=tuple(event for part in parts for event in part.events),
        assumptions=tuple(dict.fromkeys(said)),
        caveats=tuple(dict.fromkeys(caveats)),
    )
    return replace(together, epsilon=_smallest_epsilon(together, sum(part.epsilon for part in parts)))


def _check_parts(parts: list[Guarantee]) -> None:
    """Refuse what cannot be priced together."""
    if not parts:
        raise ValueError("guarantees must hold at least one guarantee, got none")
    first = parts[0]
    for i, part in enumerate(parts):
        if not isinstance(part, Guarantee):
            raise TypeError(f"guarantees must hold Guarantee objects, got {type(part).__name__}")
        if (part.unit, part.rows_per_person) != (first.unit, first.rows_per_person):
            raise ValueError(
                f"guarantees[{i}] protects a {part.protected}, and guarantees[0] a {first.protected}; "
                "plan or fit all with the same unit and rows_per_person"
            )
        if not part.verify() <= part.delta:
            raise ValueError(
                f"guarantees[{i}] does not keep its own promise: delta = {part.delta:g}, "
                f"recomputed {part.verify():g}"
            )
    if sum(len(part.events) for part in parts) > MOST_EVENTS:
        raise ValueError(f"guarantees must have at most {MOST_EVENTS:,} events in all; compose fewer")


def _smallest_epsilon(together: Guarantee, start: float) -> float:
    """Smallest epsilon at which the guarantee verifies, rounded up."""

    def excess(epsilon: float) -> float:
        return math.log(max(replace(together, epsilon=epsilon).verify(), 1e-300) / together.delta)

    if excess(0.0) <= 0:
        return 0.0
    high = start or 1.0
    while excess(high) > 0:
        high *= 2
        if high > _MOST_EPSILON:
            least = replace(together, epsilon=_MOST_EPSILON).verify()
            raise ValueError(
                f"no epsilon up to a million suffices for delta = {together.delta:g}: the cut-offs "
                f"alone need {least:.3g}; give a larger delta, or leave it out"
            )
    epsilon, grow = float(brentq(excess, 0.0, high, xtol=1e-13 * high, rtol=1e-12)), 1e-12
    while excess(epsilon) > 0:
        epsilon, grow = epsilon * (1 + grow), 2 * grow
    return epsilon
