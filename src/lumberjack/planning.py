"""From a budget to a guarantee: what noise and thresholds a forest or a search will have.

In: a budget and the shape of what is released. Out: a ``Guarantee``. No data comes near this file.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import get_args

from lumberjack.accounting import (
    Choices,
    Event,
    NoisySums,
    Part,
    QueryUse,
    ThresholdQueries,
    calibrate,
    calibrate_paper,
    queries_per_tree,
)
from lumberjack.accounting.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_real,
    check_share,
)
from lumberjack.events import (
    FIT_STEPS,
    FIT_USES,
    FITTED,
    MEDIAN_RANGE,
    QUANTILE_RANGE,
    leaf_counts,
    queries_of,
    score_range,
)
from lumberjack.guarantee import (
    NOT_PROVED,
    SEARCH_ASSUMPTIONS,
    SUM_BOUND,
    Accounting,
    ClassLeaf,
    Guarantee,
    Leaf,
    Method,
    Splits,
    Unit,
    warn,
)
from lumberjack.quoting import quote

__all__ = ["CUT_LEVELS", "GUIDED_LEVELS", "plan", "plan_heavy_hitters"]

CUT_LEVELS = 5  # of noisy medians: at most 31 cuts of a number; docs/columns.md has the measurements
GUIDED_LEVELS = 6  # from the root down, where splits are chosen; docs/guided.md has the measurements
_SOME_COLUMNS = (10, 10)  # numbers and categories, where nothing is said about the table
# Shares of mu^2, where there is something to learn; docs/columns.md as well.
_CUT_SHARE, _CATEGORY_SHARE, _CLASS_SHARE, _SCALE_SHARE = 0.05, 0.05, 0.01, 0.05
_PLACE_PART = 0.2  # of a target's scale: a quantile near the end is harder to find than the median
# Of what is left for fitted leaves: cell sizes, the fit of columns, and the fit with pairs.
_FIT_SHARES = {"sizes": 0.05, "columns": 0.19, "pairs": 0.76}
_CLIP_SHARE = 0.02
_CHOICE_PART = 6 / 13  # choices in a guided structure's budget: 30 % of all; pruning: 35 %
_COUNT_SHARE = 0.25  # counts' part of a mean's budget: its error comes mostly from the sums
_LEAST = 1e-50  # smallest epsilon, and smallest share, whose squares floats still hold
_MOST_ROWS = 2.0**50  # largest threshold: counts must be exact as floats


def plan(
    epsilon: float,
    delta: float = 1e-6,
    n_estimators: int = 20,
    max_depth: int = 100,
    *,
    splits: Splits | None = None,
    accounting: Accounting = "joint",
    leaf: Leaf | None = None,
    structure_share: float | None = None,
    threshold: float | None = None,
    rows_per_person: int = 1,
    unit: Unit | None = None,
    sum_bound: int | None = None,
    columns: tuple[int, int] | None = None,
    target: bool | None = None,
) -> Guarantee:
    """Say what noise and threshold a forest will have; no data needed.

    Parameters
    ----------
    epsilon, delta : float
        The budget: epsilon > 0 and 0 < delta < 1.
    n_estimators, max_depth : int
        Trees, and the deepest level at which a node may split.
    splits : {"guided", "random"} or None
        How splits are made; None: guided, or random with the paper's accounting.
    accounting : {"joint", "paper"}
        The proved joint bound, or the paper's Theorem 1 with basic composition.
    leaf : {"fitted", "counts", "majority", "exponential", "mean", "fitted-mean"} or None
        What a leaf releases; "fitted": weights of columns and pairs, fitted together; "exponential"
        only with the paper's accounting, "mean" and "fitted-mean" for regression. None: "fitted", or
        "counts" with random splits or the paper's accounting.
    structure_share : float or None
        Share of the budget for the structure, split choice and pruning together; None: 0.65 (guided),
        0.5 (random) or 0.75 (paper).
    threshold : float or None
        tau; None: the smallest allowed. A larger one also raises the largest count that is dropped.
    rows_per_person : int
        Maximum number of rows per person; above 1 the guarantee is for persons.
    unit : {"row", "person"} or None
        What the guarantee is for. ``fit`` with ``person_ids`` always protects persons, even with one row
        each. None: persons if ``rows_per_person`` is above 1, and rows otherwise.
    sum_bound : int or None
        For "mean": the largest target in steps of its grid; None: the grid that the regressor uses.
    columns : (int, int) or None
        Columns of numbers whose cuts are learned, and columns whose categories are. None: ten of each,
        or none with the paper's accounting.
    target : bool or None
        Whether classes, or place and scale of a number, are learned. None: yes, or no with the paper's
        accounting.

    Returns
    -------
    Guarantee

    Examples
    --------
    >>> from lumberjack import plan
    >>> promise = plan(1.0, 1e-6)
    >>> promise.verify() <= promise.delta
    True
    >>> [event.use for event in promise.events]
    ['categories', 'classes', 'cuts', 'sizes', 'columns', 'pairs']
    >>> round(plan(1.0, 1e-6, splits="random").threshold, 1)
    449.3
    """
    epsilon, delta = _check_budget(epsilon, delta)
    k, h = check_count("n_estimators", n_estimators), check_count("max_depth", max_depth)
    r = check_count("rows_per_person", rows_per_person)
    _check_option("accounting", accounting, get_args(Accounting))
    if leaf is None:
        leaf = "fitted" if accounting == "joint" and splits != "random" else "counts"
    _check_option("leaf", leaf, (*get_args(ClassLeaf), "mean", "fitted-mean"))
    splits = ("random" if accounting == "paper" else "guided") if splits is None else splits
    _check_option("splits", splits, get_args(Splits))
    unit = ("row" if r == 1 else "person") if unit is None else unit
    _check_option("unit", unit, get_args(Unit))
    if unit == "row" and r != 1:
        raise ValueError(f'rows_per_person={r} makes persons the unit; leave unit="row" out')
    if splits == "guided" and accounting == "paper":
        raise ValueError(
            'splits="guided" needs accounting="joint": the paper prices random splits only; '
            'use splits="random"'
        )
    structure_share = _check_structure(accounting, splits, leaf, structure_share, threshold)
    numbers, categories = _check_columns(columns, accounting)
    target = accounting == "joint" if target is None else target
    if leaf == "fitted-mean" and not target:
        raise ValueError(
            "fitted leaves of numbers need the target's place and scale: leave target=False out"
        )
    if accounting == "paper" and (numbers or categories or target):
        raise ValueError('what is learned about columns or target needs accounting="joint"')
    bound = _check_sum_bound(sum_bound, leaf)
    m, templates = k * queries_per_tree(h), _leaf_templates(leaf, k, bound)
    if leaf == "exponential" and accounting == "joint":
        raise ValueError('leaf="exponential" needs accounting="paper"; use leaf="majority"')
    events: tuple[Event, ...]
    if accounting == "joint":
        parts = _learned_parts(numbers, categories, target, leaf)
        # What is learned comes first; the rest is divided as if there were nothing else.
        rest = 1 - math.fsum(share for _, share in parts)
        if structure_share is None:
            parts += _fit_parts(leaf, rest)
        else:
            levels = min(GUIDED_LEVELS, h) if splits == "guided" else 0
            choices = Choices(k * levels, 1.0, score_range(leaf)) if levels else None
            parts += _forest_parts(m, choices, templates, structure_share, rest)
        with _within_floats():
            events = _calibrate(epsilon, delta, tuple(parts), r)
    else:
        if r != 1:
            raise ValueError(
                f'rows_per_person={r} needs accounting="joint": Theorem 1 is for single rows'
            )
        with _within_floats():
            share = structure_share or 0.0  # never None here: fitted leaves were refused
            queries, rho = calibrate_paper(epsilon, delta, m=m, structure_share=share)
        sigma = math.sqrt(k / rho / 2)
        events = (queries, *(replace(sums, noise=sums.noise * sigma) for sums in templates))
        if leaf == "exponential":
            events = (queries, Choices(k, math.sqrt(8 * rho / k), 1.0, use="leaves"))
    guarantee = Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        rows_per_person=r,
        accounting=accounting,
        method="none" if leaf in FITTED else "sparse",
        n_estimators=k,
        max_depth=h,
        leaf=leaf,
        structure_share=structure_share,
        numbers_learned=numbers,
        categories_learned=categories,
        cut_levels=CUT_LEVELS if numbers else 0,
        events=_with_threshold(events, threshold, r),
        caveats=(NOT_PROVED,) if accounting == "paper" else (),
    )
    for weakness in guarantee.weaknesses:
        warn(weakness)
    return guarantee


@lru_cache(maxsize=64)
def _calibrate(epsilon: float, delta: float, parts: tuple[Part, ...], r: int) -> tuple[Event, ...]:
    """``calibrate``, cached: the check of parameters and the fit share one call."""
    return calibrate(epsilon, delta, parts, r)


def _check_structure(
    accounting: Accounting, splits: Splits, leaf: Leaf, share: float | None, threshold: float | None
) -> float | None:
    """Share of the structure; None for fitted leaves, whose trees follow from what is learned."""
    if leaf in FITTED:
        if accounting == "paper":
            raise ValueError(
                'fitted leaves need accounting="joint": the paper does not price them; '
                'use leaf="counts" or paper()'
            )
        if splits == "random":
            raise ValueError(
                'splits="random" needs pruned trees, as fitted leaves have none: use leaf="counts"'
            )
        if share is not None or threshold is not None:
            name = "threshold" if share is None else "structure_share"
            raise ValueError(f"{name} is for trees that are pruned; leave it out for fitted leaves")
        return None
    if share is None:
        return 0.75 if accounting == "paper" else 0.65 if splits == "guided" else 0.5
    if check_share("structure_share", share) < _LEAST:
        raise ValueError(f"structure_share must be at least {_LEAST:g}, got {share:g}")
    return share


def _forest_parts(
    m: int,
    choices: Choices | None,
    templates: tuple[NoisySums, ...],
    share: float,
    rest: float,
) -> list[Part]:
    """Pruning, choices of splits and leaves, and the share of each in what is left."""
    leaves = rest * (1 - share)
    chosen = rest * share * _CHOICE_PART if choices else 0.0
    parts: list[Part] = [((ThresholdQueries(m, 1.0, 0.0, 0.0),), rest - chosen - leaves)]
    if choices:
        parts.append(((choices,), chosen))
    return [*parts, (templates, leaves)]


def _fit_parts(leaf: Leaf, rest: float) -> list[Part]:
    """What a fit of all leaves releases, and the share of each in what is left."""
    parts: list[Part] = []
    if leaf != "fitted":
        clips = Choices(len(FIT_USES) - 1, 1.0, QUANTILE_RANGE, use="clips")
        parts, rest = [((clips,), rest * _CLIP_SHARE)], rest * (1 - _CLIP_SHARE)
    for use in FIT_USES:
        parts.append(((NoisySums(FIT_STEPS[use], 1.0, use=use),), rest * _FIT_SHARES[use]))
    return parts


def _check_columns(columns: tuple[int, int] | None, accounting: Accounting) -> tuple[int, int]:
    if columns is None:
        return (0, 0) if accounting == "paper" else _SOME_COLUMNS
    try:
        numbers, categories = columns
    except (TypeError, ValueError):
        raise ValueError("columns must be two numbers: of numbers and of categories to learn") from None
    return (
        check_count("columns[0]", numbers, least=0),
        check_count("columns[1]", categories, least=0),
    )


def _check_sum_bound(sum_bound: int | None, leaf: Leaf) -> int:
    if sum_bound is not None and leaf != "mean":
        raise ValueError(f'sum_bound is for leaf="mean" only, got leaf={leaf!r}')
    return check_count("sum_bound", SUM_BOUND if sum_bound is None else sum_bound)


def _learned_parts(numbers: int, categories: int, target: bool, leaf: Leaf) -> list[Part]:
    """What is learned about columns and target before trees grow, in the order in which it is asked."""
    parts: list[Part] = []
    if categories:
        parts.append(((_values(categories, "categories"),), _CATEGORY_SHARE))
    regression = leaf in ("mean", "fitted-mean")
    if target and not regression:
        parts.append(((_values(1, "classes"),), _CLASS_SHARE))
    if numbers:
        cuts = Choices(numbers * CUT_LEVELS, 1.0, MEDIAN_RANGE, use="cuts")
        parts.append(((cuts,), _CUT_SHARE))
    if target and regression:
        for width, part in ((MEDIAN_RANGE, _PLACE_PART), (QUANTILE_RANGE, 1 - _PLACE_PART)):
            parts.append(((Choices(1, 1.0, width, use="scale"),), part * _SCALE_SHARE))
    return parts


def _values(count: int, use: QueryUse) -> ThresholdQueries:
    return ThresholdQueries(count, 1.0, 0.0, 0.0, use=use)


def _leaf_templates(leaf: Leaf, k: int, bound: int) -> tuple[NoisySums, ...]:
    """What leaves release, together at the price of counts alone with noise 1."""
    if leaf != "mean":
        return (NoisySums(k, 1.0),)
    return (
        NoisySums(k, 1 / math.sqrt(_COUNT_SHARE)),
        NoisySums(k, bound / math.sqrt(1 - _COUNT_SHARE), bound),
    )


def plan_heavy_hitters(
    epsilon: float,
    delta: float,
    height: int,
    *,
    method: Method = "sparse",
    counts: bool = False,
    threshold: float | None = None,
    dense_nodes: int = 0,
) -> Guarantee:
    """Say what noise and threshold ``heavy_hitters`` will have on paths of at most ``height`` steps.

    With ``counts`` every level releases a fresh noisy count of each heavy prefix: ``height`` noisy
    counts per record, for half of mu^2. ``dense_nodes`` is the number of nodes of a dense tree
    (method "gaussian"): its default threshold lets an empty node pass with 5 % chance in all.
    """
    epsilon, delta = _check_budget(epsilon, delta)
    h = check_count("height", height)
    _check_option("method", method, get_args(Method))
    leaf: Leaf = "prefixes" if counts else "none"
    m, k = queries_of(method, h), leaf_counts(leaf, h)
    cutoff = None if method == "gaussian" else 0.0
    structure = ThresholdQueries(m, 1.0, cutoff, 0.0, 0 if cutoff == 0 else -1)
    parts: list[Part] = [((structure,), 0.5 if counts else 1.0)]
    parts += [((NoisySums(k, 1.0, use="prefixes"),), 0.5)] * counts
    with _within_floats():
        events = calibrate(epsilon, delta, parts)
    found = events[0]
    if method == "gaussian" and threshold is None and isinstance(found, ThresholdQueries):
        # An empty node passes with 5 % chance in all.
        threshold = found.noise * math.sqrt(2 * math.log(max(dense_nodes, 1) / 0.05))
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit="row",
        rows_per_person=1,
        accounting="joint",
        method=method,
        n_estimators=1,
        max_depth=h,
        leaf=leaf,
        structure_share=0.5 if counts else None,
        events=_with_threshold(events, threshold, 1),
        assumptions=SEARCH_ASSUMPTIONS,
    )


def _with_threshold(events: Sequence[Event], threshold: float | None, r: int) -> tuple[Event, ...]:
    """The events with the requested threshold for nodes, or the smallest one.

    A larger threshold raises the largest count that may be dropped below it, without rounding.
    """
    return tuple(
        _raised(event, threshold if event.use == "structure" else None, r)
        if isinstance(event, ThresholdQueries)
        else event
        for event in events
    )


def _raised(queries: ThresholdQueries, threshold: float | None, r: int) -> ThresholdQueries:
    if queries.cutoff is None:
        return replace(queries, threshold=_check_threshold(threshold or 0.0))
    if queries.threshold > _MOST_ROWS:
        raise ValueError(
            f"this budget needs a threshold of {queries.threshold:.3g} records; raise epsilon or delta, "
            "or give the structure a larger share"
        )
    if threshold is None:
        return queries
    tau = _check_threshold(threshold)
    if tau < queries.threshold:
        raise ValueError(
            f"threshold must be at least {queries.threshold:.6g} for this budget, got {tau:g}; "
            "leave it out to get the smallest, or raise epsilon or delta"
        )
    return replace(queries, threshold=tau, cut=math.floor(Fraction(tau) - r - Fraction(queries.cutoff)))


@contextmanager
def _within_floats() -> Iterator[None]:
    try:
        yield
    except (OverflowError, ZeroDivisionError):
        raise ValueError(
            "this budget needs a threshold of more records than floats can hold; raise epsilon or delta"
        ) from None


def _check_budget(epsilon: float, delta: float) -> tuple[float, float]:
    if check_epsilon(epsilon) < _LEAST:
        raise ValueError(f"epsilon must be at least {_LEAST:g}, got {epsilon:g}; 0.1 to 4 is usual")
    return float(epsilon), check_delta(delta)


def _check_threshold(threshold: float) -> float:
    """Refuse thresholds that no table of counts could hold exactly."""
    tau = check_real("threshold", threshold)
    if abs(tau) > _MOST_ROWS:
        raise ValueError(f"threshold must be a number of records, at most 2^50, got {tau:g}")
    return tau


def _check_option(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {quote(value)}")
