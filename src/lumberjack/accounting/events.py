"""Priced events: threshold queries, choices and noisy sums, and the joint bound on a list of them.

In: events, as numbers. Out: numbers. An event says what one record takes part in, at most, on every
transcript. Events are not checked when they are made, as a stored guarantee may claim anything; the
bounds refuse nonsense with a ValueError or TypeError.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from lumberjack.accounting.adaptive import bounded_range_delta
from lumberjack.accounting.checks import check_count, check_epsilon, check_nonnegative
from lumberjack.accounting.sparse import cutoff_delta, gdp_mu
from lumberjack.accounting.zcdp import zcdp_delta

__all__ = [
    "MOST_EVENTS",
    "ChoiceUse",
    "Choices",
    "Event",
    "NoisySums",
    "QueryUse",
    "SumUse",
    "ThresholdQueries",
    "cutoffs_delta",
    "joint_delta",
    "noise_delta",
    "spent",
    "zcdp_events_delta",
]

MOST_EVENTS = 1000  # in one list: bounds the time of ``verify``
QueryUse = Literal["structure", "categories", "classes"]
ChoiceUse = Literal["splits", "cuts", "scale", "clips", "leaves"]
SumUse = Literal["leaves", "calibration", "prefixes", "sizes", "columns", "pairs"]


@dataclass(frozen=True)
class ThresholdQueries:
    """Counts compared with a threshold: "count + N(0, noise^2) > threshold".

    Attributes
    ----------
    count : int
        m: queries of this kind that one record is in.
    noise : float
        sigma.
    cutoff : float or None
        Delta; None: every count is compared, and ``cut`` is -1.
    threshold : float
        tau; at least cut + rows_per_person + cutoff.
    cut : int
        The largest count that never passes.
    use : {"structure", "categories", "classes"}
        What passes: nodes that split, values of a column, or labels.

    Examples
    --------
    >>> from lumberjack import plan
    >>> plan(1.0, 1e-6, leaf="counts").event("structure").count
    140
    """

    count: int
    noise: float
    cutoff: float | None
    threshold: float
    cut: int = 0
    use: QueryUse = "structure"
    kind: Literal["threshold queries"] = field(default="threshold queries", init=False, repr=False)


@dataclass(frozen=True)
class Choices:
    """Options chosen with probability proportional to exp(exponent * score).

    Attributes
    ----------
    count : int
        N: choices of this kind that one record takes part in.
    exponent : float
        lambda.
    score_range : float
        w: the width within which one record moves the scores of all options. The range of a choice, eta,
        is exponent * score_range.
    use : {"splits", "cuts", "scale", "clips", "leaves"}
        What is chosen: splits, cuts of a number, place and scale of the target, limits to which
        residuals are clipped, or a leaf's label.

    Examples
    --------
    >>> from lumberjack import plan
    >>> plan(1.0, 1e-6, leaf="counts").event("splits").count
    120
    """

    count: int
    exponent: float
    score_range: float
    use: ChoiceUse = "splits"
    kind: Literal["choices"] = field(default="choices", init=False, repr=False)


@dataclass(frozen=True)
class NoisySums:
    """Sums released with noise N(0, noise^2).

    Attributes
    ----------
    count : int
        Sums of this kind that one record is in.
    noise : float
        Standard deviation.
    reach : int
        Largest change of a sum by one record: 1 for counts.
    use : {"leaves", "calibration", "prefixes", "sizes", "columns", "pairs"}
        Whose sums: leaves, the histogram of a forest in a model file up to version 5 ("calibration"), or
        heavy prefixes; for fitted leaves, the rows of each cell of all columns, and the steps of the two
        stages of the fit. For fits, ``noise`` is what a single sum would get; all sums of a step share
        it (``strategy``).

    Examples
    --------
    >>> from lumberjack import plan
    >>> plan(1.0, 1e-6, leaf="counts").event("leaves").count
    20
    """

    count: int
    noise: float
    reach: int = 1
    use: SumUse = "leaves"
    kind: Literal["noisy sums"] = field(default="noisy sums", init=False, repr=False)


Event = ThresholdQueries | Choices | NoisySums


def joint_delta(epsilon: float, events: Sequence[Event], rows_per_person: int = 1) -> float:
    """Delta of a list of priced events that are asked adaptively: the joint bound.

        delta = E U(e^(epsilon - Z)) + 1 - prod Phi(Delta_i/sigma_i)^m_i,    Z ~ N(mu^2/2, mu^2),
        mu^2 = sum m_i/sigma_i^2 + sum count_j (reach_j/noise_j)^2

    U is the worst case over adaptive choices of the listed ranges; without choices the first term is
    delta_G(epsilon, mu). With r rows per person mu and all ranges are r times as large.

    Parameters
    ----------
    epsilon : float
        epsilon >= 0; inf gives the share of the cut-offs alone.
    events : sequence of ThresholdQueries, Choices and NoisySums
        Choices are listed in the public order in which they are asked.
    rows_per_person : int
        r, the maximum number of rows per unit of privacy.

    Returns
    -------
    float
        In [0, 1]; 1 when a threshold is below cut + rows_per_person + cutoff.

    Formal guarantees
    -----------------
    Take any algorithm that asks monotone counting queries, sums and choices, each chosen from all
    answers so far, such that on *every* transcript each record takes part in at most the listed ones,
    with choices in the listed order. Its answers are (epsilon, delta)-DP under adding or removing the
    rows of one person. For r > 1 the r rows move the losses of one choice within r * eta in all (choices
    that are independent of each other given what went before, like those on one level of a tree, count
    as one). Proof: ``docs/guarantee.md``, "Lists of priced events".

    Examples
    --------
    >>> from lumberjack.accounting import NoisySums, ThresholdQueries, joint_delta
    >>> events = [ThresholdQueries(140, 72.32, 421.9, threshold=422.9), NoisySums(20, 27.34)]
    >>> joint_delta(1.0, events) < 1e-6
    True
    """
    check_epsilon(epsilon, allow_zero=True, allow_infinity=True)
    cut = cutoffs_delta(events, check_count("rows_per_person", rows_per_person))
    return min(1.0, noise_delta(epsilon, events, rows_per_person) + cut)


def noise_delta(
    epsilon: float, events: Sequence[Event], rows_per_person: int = 1, *, steps: int | None = None
) -> float:
    """The joint bound without the cut-offs; ``steps`` is explained in ``bounded_range_delta``."""
    r = rows_per_person
    mu = r * gdp_mu(*(_gaussian(event) for event in events if not isinstance(event, Choices)))
    ranges = [(event.count, r * _range(event)) for event in events if isinstance(event, Choices)]
    return bounded_range_delta(epsilon, mu, *ranges, steps=steps)


def zcdp_events_delta(epsilon: float, events: Sequence[Event], rows_per_person: int = 1) -> float:
    """Delta of a list of priced events in zCDP, whatever the order of the choices.

        delta = zcdp_delta(epsilon, rho) + 1 - prod Phi(Delta_i/sigma_i)^m_i,
        rho = mu^2/2 + sum N eta^2/8

    Formal guarantees
    -----------------
    As ``joint_delta``, but parameters and order of the events may be chosen from all answers so far, as
    long as rho and the sum of -m_i log Phi(Delta_i/sigma_i) stay on every transcript below those of
    this list, which are fixed in advance. Proof: ``docs/guarantee.md``, "Several releases".
    """
    r = check_count("rows_per_person", rows_per_person)
    cut = cutoffs_delta(events, r)
    return min(1.0, zcdp_delta(epsilon, r * r * sum(map(spent, events)) / 2) + cut)


def cutoffs_delta(events: Sequence[Event], rows_per_person: int = 1) -> float:
    """What the cut-offs of all threshold queries add to delta; 1 when a threshold is too low."""
    if len(events) > MOST_EVENTS:
        raise ValueError(f"a list of events must have at most {MOST_EVENTS:,}, got {len(events):,}")
    queries = []
    for event in events:
        check_count("count", event.count, least=0)
        if isinstance(event, ThresholdQueries) and event.cutoff is not None:
            Delta = check_nonnegative("cutoff", event.cutoff)
            needed = Fraction(event.cut) + rows_per_person + Fraction(Delta)
            if event.cut < 0 or Fraction(event.threshold) < needed:
                return 1.0
            queries.append((event.count, event.noise, Delta))
        elif isinstance(event, ThresholdQueries) and event.cut != -1:
            return 1.0
    return cutoff_delta(*queries, rows_per_person=rows_per_person)


def spent(event: Event) -> float:
    """Share of an event in mu^2. N choices of range eta weigh N eta^2/4, which is twice their rho."""
    if isinstance(event, Choices):
        eta = _range(event)
        return event.count * eta * eta / 4
    mu = gdp_mu(_gaussian(event))
    return mu * mu


def _gaussian(event: ThresholdQueries | NoisySums) -> tuple[int, float]:
    """Count, and noise per unit of sensitivity."""
    noise = check_nonnegative("noise", event.noise)
    reach = check_count("reach", event.reach) if isinstance(event, NoisySums) else 1
    return event.count, noise / reach


def _range(event: Choices) -> float:
    """eta: the width of the interval that holds the privacy loss of one choice."""
    width = check_nonnegative("score_range", event.score_range)
    return width * check_nonnegative("exponent", event.exponent)
