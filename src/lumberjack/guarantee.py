"""A guarantee is data: the promise, every number behind it, and how to recompute it.

In: a budget and the shape of what is released. Out: a frozen ``Guarantee`` that anyone can check
with nothing but itself. No data comes near this file.
"""

import dataclasses
import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar, get_args

from lumberjack.accounting import (
    MOST_EVENTS,
    Calibration,
    Choices,
    Event,
    NoisySums,
    ThresholdQueries,
    calibrate,
    calibrate_paper,
    calibrate_plain,
    cutoffs_delta,
    joint_delta,
    queries_per_tree,
    spent,
    theorem1_delta,
    zcdp_delta,
    zcdp_events_delta,
)
from lumberjack.accounting.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_real,
    check_share,
)
from lumberjack.quoting import quote

__all__ = ["Guarantee", "PrivacyLeakWarning", "plan", "plan_heavy_hitters", "warn"]

Accounting = Literal["joint", "paper"]
Pricing = Literal["joint", "paper", "zcdp"]  # of a guarantee; "zcdp" only for several releases
Splits = Literal["guided", "random"]
Unit = Literal["row", "person"]
Method = Literal["sparse", "two-sided", "gaussian", "top-down"]
Source = Literal["sparse", "two-sided", "gaussian", "top-down", "composed"]
ClassLeaf = Literal["counts", "majority", "exponential"]
Leaf = Literal[ClassLeaf, "mean", "prefixes", "none"]

NOT_PROVED = "Theorem 1 of the paper; not proved for adaptive queries"
SEEDED = "seeded noise: whoever knows random_state can remove it"
DOMAIN_INFERRED = "domain inferred from the data"
CLASSES_INFERRED = "classes inferred from the data"
BOUNDS_INFERRED = "y_bounds inferred from the data"
NOT_ENFORCED = "rows per person not enforced: no person_ids were given"
HEIGHT_INFERRED = "height inferred from the data"
ALPHABET_INFERRED = "alphabet inferred from the data"

# What a promise rests on. A caveat breaks it; an assumption is for the data holder to judge.
COLUMNS_PUBLIC = "the names and kinds of the columns are public"
DECLARED_PUBLIC = "ranges, categories, classes and bounds that were given were known without the data"
FIT_SUCCEEDED = "that fit succeeded is public: one bad row can make it fail"
HEIGHT_PUBLIC = "a height and an alphabet that were given were known without the data"
SEARCH_SUCCEEDED = "that the search succeeded is public: one bad path can make it fail"
BUDGETS_FIXED = (
    "several releases: what each would spend was fixed before the first, and they were made one after "
    "the other, in the order of the events"
)
LIMITS_FIXED = (
    "several releases: limits on rho and on the cut-offs, those that the events reach, were fixed "
    "before the first, and no release was made that could have passed them"
)
FOREST_ASSUMPTIONS = (COLUMNS_PUBLIC, DECLARED_PUBLIC, FIT_SUCCEEDED)
SEARCH_ASSUMPTIONS = (HEIGHT_PUBLIC, SEARCH_SUCCEEDED)

SUM_BOUND = 2**12  # regression targets lie on a grid from -SUM_BOUND to SUM_BOUND
GUIDED_LEVELS = 6  # from the root down, where splits are chosen; docs/guided.md has the measurements
_CHOICE_PART = 6 / 13  # choices in a guided structure's budget: 30 % of all; pruning: 35 %
_COUNT_SHARE = 0.25  # counts' part of a mean's budget: its error comes mostly from the sums
_ROWS_PER_THRESHOLD = 20  # with fewer rows per threshold, trees stay stumps
_LEAST = 1e-50  # smallest epsilon, and smallest share, whose squares floats still hold
_MOST_ROWS = 2.0**50  # largest threshold: counts must be exact as floats
_WEAK_EPSILON, _WEAK_DELTA = 20.0, 0.01  # beyond these, a promise is one in form only
_EVENTS = {cls.kind: cls for cls in (ThresholdQueries, Choices, NoisySums)}
_NO_QUERIES = ThresholdQueries(0, math.inf, None, math.inf, cut=-1)
_E = TypeVar("_E", ThresholdQueries, Choices, NoisySums)


class PrivacyLeakWarning(UserWarning):
    """Something that was asked for weakens the promise; the guarantee lists it as a caveat.

    Examples
    --------
    >>> import warnings
    >>> from lumberjack import Domain, PrivacyLeakWarning
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     domain = Domain.infer([[1.0], [5.0]])
    >>> caught[0].category is PrivacyLeakWarning
    True
    """


def warn(message: str, category: type[Warning] = PrivacyLeakWarning) -> None:
    """Warn about the calling line outside this package (and outside scikit-learn's decorators)."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("lumberjack", "sklearn")


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is promised, and everything needed to recompute it.

    Attributes
    ----------
    epsilon, delta : float
        The promise: (epsilon, delta)-differential privacy.
    unit : {"row", "person"}
        What may be added or removed without being noticed.
    rows_per_person : int
        Maximum number of rows that one unit owns.
    neighbours : str
        Always "add/remove".
    accounting : {"joint", "paper", "zcdp"}
        Which theorem prices it; ``theorem`` spells it out.
    method : {"sparse", "two-sided", "gaussian", "top-down", "composed"}
        How nodes are compared with the threshold; "composed": several releases together.
    n_estimators, max_depth : int
        Trees, and levels of nodes that are compared in each.
    leaf : {"counts", "majority", "exponential", "mean", "prefixes", "none"}
        What is released besides the nodes: something for each leaf, a count for each heavy prefix,
        or nothing. "none" for several releases, which may differ.
    events : tuple of ThresholdQueries, Choices and NoisySums
        What one record takes part in, and what the theorem prices: threshold queries; choices, if splits
        are guided; what leaves release (counts or labels, then sums of targets); and, if splits are
        guided, the same of the histogram by which the forest is calibrated.
    structure_share : float or None
        Share of the budget for the structure: of mu^2 ("joint") or of epsilon and delta ("paper").
    assumptions : tuple of str
        What the promise rests on, for the data holder to judge.
    caveats : tuple of str
        What breaks the promise. Empty only if nothing does.

    Examples
    --------
    >>> from lumberjack import plan
    >>> promise = plan(1.0, 1e-6)
    >>> promise.unit, promise.accounting, promise.caveats
    ('row', 'joint', ())
    """

    epsilon: float
    delta: float
    unit: Unit
    rows_per_person: int
    neighbours: Literal["add/remove"] = "add/remove"
    accounting: Pricing
    method: Source
    n_estimators: int
    max_depth: int
    leaf: Leaf
    structure_share: float | None
    events: tuple[Event, ...]
    assumptions: tuple[str, ...] = FOREST_ASSUMPTIONS
    caveats: tuple[str, ...] = ()

    def _nth(self, kind: type[_E], n: int = 0) -> _E | None:
        found = [event for event in self.events if isinstance(event, kind)]
        return found[n] if n < len(found) else None

    @property
    def _queries(self) -> ThresholdQueries:
        return self._nth(ThresholdQueries) or _NO_QUERIES

    @property
    def _choices(self) -> Choices | None:
        return None if self.leaf == "exponential" else self._nth(Choices)

    @property
    def _leaves(self) -> NoisySums | Choices | None:
        return self._nth(Choices) if self.leaf == "exponential" else self._nth(NoisySums)

    @property
    def queries_per_record(self) -> int:
        """m: threshold queries that one record can meet, over all trees."""
        return self._queries.count

    @property
    def threshold_noise(self) -> float:
        """sigma, the noise of the threshold queries."""
        return self._queries.noise

    @property
    def cutoff(self) -> float | None:
        """Delta; None when nothing is cut off."""
        return self._queries.cutoff

    @property
    def cut(self) -> int:
        """The largest count that never passes; -1 when nothing is cut off."""
        return self._queries.cut

    @property
    def threshold(self) -> float:
        """tau, at least cut + rows_per_person + Delta."""
        return self._queries.threshold

    @property
    def guided_levels(self) -> int:
        """Number of levels, from the root down, whose splits are guided by the targets; 0: none."""
        return self.choices_per_record // max(self.n_estimators, 1)

    @property
    def choices_per_record(self) -> int:
        """N: split choices that one record takes part in, over all trees."""
        return 0 if self._choices is None else self._choices.count

    @property
    def choice_exponent(self) -> float | None:
        """lambda of the exponential mechanism; None without split choices."""
        return None if self._choices is None else self._choices.exponent

    @property
    def choice_range(self) -> float | None:
        """Width of the interval within which one record moves the scores of all candidates."""
        return None if self._choices is None else self._choices.score_range

    @property
    def counts_per_record(self) -> int:
        """Leaf counts or labels that one record takes part in, one per tree; or heavy prefixes."""
        return 0 if self._leaves is None else self._leaves.count

    @property
    def leaf_noise(self) -> float | None:
        """Standard deviation of a noisy count, or the Gumbel scale of an exponential leaf."""
        if isinstance(self._leaves, Choices):
            return 1 / self._leaves.exponent if self._leaves.exponent else math.inf
        return None if self._leaves is None else self._leaves.noise

    @property
    def sum_noise(self) -> float | None:
        """For means: the noise of a leaf's sum of targets, in steps of their grid."""
        sums = self._nth(NoisySums, 1) if self.leaf == "mean" else None
        return None if sums is None else sums.noise

    @property
    def sum_bound(self) -> int | None:
        """For means: the largest target, in steps of their grid."""
        sums = self._nth(NoisySums, 1) if self.leaf == "mean" else None
        return None if sums is None else sums.reach

    @property
    def theorem(self) -> str:
        """The theorem that the accounting rests on."""
        if self.accounting == "paper":
            return NOT_PROVED
        chosen = any(isinstance(event, Choices) for event in self.events)
        cuts = [e for e in self.events if isinstance(e, ThresholdQueries) and e.cutoff is not None]
        cut = " + 1 - prod Phi(Delta_i/sigma_i)^m_i" if cuts else ""
        cut = " + 1 - Phi(Delta/sigma)^m" if len(cuts) == 1 else cut
        if self.accounting == "zcdp":
            return f"zCDP of several releases, docs/guarantee.md: delta(epsilon, rho){cut}"
        if chosen:
            how = "joint bound with adaptive choices, docs/guarantee.md"
            return f"{how}: E U(Z - epsilon){cut}"
        if cuts:
            return f"joint bound, docs/guarantee.md: delta_G(epsilon, mu){cut}"
        return "tight Gaussian curve, adaptive composition"

    @property
    def suggested_rows(self) -> int:
        """Recommended number of rows: with fewer than 20 thresholds trees stay stumps."""
        highest = max((e.threshold for e in self.events if isinstance(e, ThresholdQueries)), default=0.0)
        threshold = min(max(highest, 0.0), 2.0**50)  # a stored guarantee may claim any number
        return math.ceil(_ROWS_PER_THRESHOLD * threshold)

    @property
    def way_out(self) -> str:
        """Advice for a model that learned nothing."""
        return (
            f"What helps: more rows (recommended: at least {self.suggested_rows:,}), a larger epsilon, "
            "or fewer trees."
        )

    @property
    def protected(self) -> str:
        """What may be added or removed: a row, or a person with up to ``rows_per_person`` rows."""
        r = self.rows_per_person
        if self.unit == "row":
            return "row"
        return f"person with up to {r:,} rows" if r > 1 else "person (one row of each is used)"

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """What epsilon or delta means, if it is so large that it promises next to nothing."""
        said = []
        if self.epsilon > _WEAK_EPSILON:
            odds = f"{math.exp(self.epsilon):.2g}" if self.epsilon < 700 else "more than 1e300"
            said.append(
                f"epsilon = {self.epsilon:g} is almost no protection: one {self.unit} may change the "
                f"odds of anything by a factor of {odds}; 0.1 to 4 is usual"
            )
        if self.delta >= _WEAK_DELTA:
            said.append(
                f"delta = {self.delta:g} is almost no protection: with that chance everything about a "
                f"{self.unit} may be revealed; well below 1 / (number of rows) is usual"
            )
        return tuple(said)

    def verify(self) -> float:
        """Recompute delta from this record alone; the promise holds when it is at most ``delta``.

        A record that contradicts itself (a query bound below the provable one, a threshold below
        cut + rows_per_person + cutoff, a missing noise) gives 1.0.

        Examples
        --------
        >>> import dataclasses
        >>> from lumberjack import plan
        >>> promise = plan(1.0, 1e-6)
        >>> promise.verify() <= promise.delta
        True
        >>> dataclasses.replace(promise, events=promise.events[1:]).verify()
        1.0
        """
        try:
            return self._recompute() if self._consistent() else 1.0
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            return 1.0

    def _consistent(self) -> bool:
        if self.unit not in get_args(Unit) or self.neighbours != "add/remove":
            return False
        words = (self.leaf, Leaf), (self.accounting, Pricing), (self.method, Source)
        if any(word not in get_args(known) for word, known in words):
            return False
        check_delta(self.delta)
        if self.structure_share is not None:
            check_share("structure_share", self.structure_share)
        if self.unit == "row" and self.rows_per_person != 1:
            return False
        if self.accounting == "paper" and NOT_PROVED not in self.caveats:
            return False
        if self.method == "composed":
            due = {"joint": BUDGETS_FIXED, "zcdp": LIMITS_FIXED}.get(self.accounting)
            return self.leaf == "none" and due in self.assumptions
        forest = self.leaf not in ("prefixes", "none")
        if not {*(FOREST_ASSUMPTIONS if forest else SEARCH_ASSUMPTIONS)} <= {*self.assumptions}:
            return False
        if self.accounting == "zcdp" or (self.method != "sparse" and self.rows_per_person != 1):
            return False
        if (self._queries.cutoff is None) != (self.method == "gaussian"):
            return False
        check_count("max_depth", self.max_depth)
        return self._consistent_events(check_count("n_estimators", self.n_estimators))

    def _consistent_events(self, trees: int) -> bool:
        """Whether the events are those of such a forest or search, and no count is too small."""
        guided = self._choices is not None
        if tuple(map(type, self.events)) != event_kinds(self.leaf, guided):
            return False
        if self._queries.count < trees * _queries(self.method, self.max_depth):
            return False
        if guided and not self._consistent_choices(trees):
            return False
        leaves = self.events[1 + guided :]
        if guided and calibration_counts(self.leaf):
            leaves, again = leaves[: len(leaves) // 2], leaves[len(leaves) // 2 :]
            if any(e.count < 1 for e in again) or again != _calibration(leaves, again[0].count):
                return False
        if isinstance(self._leaves, Choices) and self._leaves.score_range < 1:
            return False
        return all(e.count >= trees * _counts(self.leaf, self.max_depth) for e in leaves)

    def _consistent_choices(self, trees: int) -> bool:
        return (
            self.accounting == "joint"
            and self.method == "sparse"
            and self.choices_per_record == trees * self.guided_levels
            and 1 <= self.guided_levels <= self.max_depth
            and check_real("choice_exponent", self.choice_exponent or 0.0) > 0
            and check_real("choice_range", self.choice_range or 0.0) >= score_range(self.leaf)
        )

    def _recompute(self) -> float:
        if self.accounting != "paper":
            bound = joint_delta if self.accounting == "joint" else zcdp_events_delta
            return bound(self.epsilon, self.events, self.rows_per_person)
        # Thresholds must meet the conditions of the joint bound here too; Theorem 1 sets the price.
        if self.rows_per_person != 1 or self.method != "sparse" or cutoffs_delta(self.events) == 1:
            return 1.0
        structure_epsilon = check_share("structure_share", self.structure_share or 0.0) * self.epsilon
        q = self._queries
        structure = theorem1_delta(structure_epsilon, m=q.count, sigma=q.noise, Delta=q.cutoff or 0.0)
        rho = sum(map(spent, self.events[1:])) / 2
        return min(1.0, structure + zcdp_delta(self.epsilon - structure_epsilon, rho))

    def to_json(self) -> str:
        """Return the guarantee as a JSON object, one field per line.

        Examples
        --------
        >>> from lumberjack import plan
        >>> print(plan(1.0, 1e-6).to_json().splitlines()[1])
          "epsilon": 1.0,
        """
        return json.dumps(dataclasses.asdict(self), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Guarantee":
        """Read what ``to_json`` wrote; refuse unknown, missing and ill-typed fields.

        Examples
        --------
        >>> from lumberjack import Guarantee, plan
        >>> promise = plan(1.0, 1e-6)
        >>> Guarantee.from_json(promise.to_json()) == promise
        True
        """
        try:
            pairs = json.loads(text, object_pairs_hook=tuple)
        except (json.JSONDecodeError, RecursionError):
            raise ValueError("not a guarantee: invalid JSON") from None
        fields = {field.name: field for field in dataclasses.fields(cls)}
        names = [pair[0] for pair in pairs] if isinstance(pairs, tuple) else []
        if sorted(names) != sorted(fields):
            raise ValueError(f"not a guarantee: must have each of {', '.join(fields)} once")
        found = dict(pairs)
        events = found.pop("events")
        if not isinstance(events, list) or len(events) > MOST_EVENTS:
            raise ValueError(f"not a guarantee: events must be a list of at most {MOST_EVENTS:,}")
        _refuse_misfits(found, {name: field.type for name, field in fields.items() if name != "events"})
        for name in ("assumptions", "caveats"):
            found[name] = tuple(found[name])
            if not "".join(found[name]).isprintable():  # nobody may add lines to what is printed
                raise ValueError(f"not a guarantee: {name} must be printable")
        return cls(**found, events=tuple(map(_read_event, events)))

    def __str__(self) -> str:
        promise = f"({self.epsilon:g}, {self.delta:g})-differential privacy"
        lines = [f"{promise}, {self.neighbours} a {self.protected}", f"  theorem     {self.theorem}"]
        if self.method != "composed":
            plural = "s" if self.n_estimators > 1 else ""
            trees = f"{self.n_estimators} tree{plural} of {self.max_depth} levels, {self.method}"
            lines.append(f"  structure   {trees}; leaves: {self.leaf}")
        lines += [
            *(f"  priced      {in_words(event)}" for event in self.events),
            f"  recomputed  delta = {self.verify():.8g}",
            f"  data        recommended: at least {self.suggested_rows:,} rows",
            *(f"  weak        {weakness}" for weakness in self.weaknesses),
            *(f"  assumption  {assumption}" for assumption in self.assumptions),
            f"  caveats     {'; '.join(self.caveats) or 'none'}",
        ]
        return "\n".join(lines)


def in_words(event: Event) -> str:
    """An event and its parameters in words."""
    name: str = event.kind
    if event.count == 1:
        name = {"threshold queries": "threshold query", "choices": "choice", "noisy sums": "noisy sum"}[
            name
        ]
    if isinstance(event, Choices):
        said = f"exponent {event.exponent:.6g}, scores move by {event.score_range:g}"
    elif isinstance(event, NoisySums):
        said = f"noise {event.noise:.6g}, moved by {event.reach:,}"
    else:
        said = f"count + noise {event.noise:.6g} > {event.threshold:.6g}"
        if event.cutoff is not None:
            said += f"; never for counts up to {event.cut} (cut-off {event.cutoff:.6g})"
    return f"{event.count:,} {name} a row: {said}"


def _read_event(pairs: object) -> Event:
    """One event, from the name-value pairs of its JSON object."""
    found = dict(pairs) if isinstance(pairs, tuple) else {}
    kind = _EVENTS.get(found.pop("kind", None)) if isinstance(found.get("kind"), str) else None
    if kind is None or not isinstance(pairs, tuple):
        raise ValueError(f"not a guarantee: each event must have a kind, one of {', '.join(_EVENTS)}")
    types = {field.name: field.type for field in dataclasses.fields(kind) if field.init}
    if sorted(name for name, _ in pairs) != sorted([*types, "kind"]):
        raise ValueError(f"not a guarantee: {kind.kind} must have each of {', '.join(types)} once")
    _refuse_misfits(found, types)
    return kind(**found)


def _refuse_misfits(found: dict[str, Any], types: dict[str, Any]) -> None:
    for name, annotation in types.items():
        if not _fits(found[name], annotation):
            raise ValueError(f"not a guarantee: {name} must not be {quote(found[name])}")


def _fits(value: object, annotation: Any) -> bool:
    """Whether a JSON value has the annotated type; whole numbers count as floats."""
    if annotation == tuple[str, ...]:
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    options = get_args(annotation) or (annotation,)
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return value in options
    if value is None:
        return type(None) in options
    if isinstance(value, int):
        return (int in options or float in options) and abs(value) < 2**63
    return isinstance(value, float) and float in options and math.isfinite(value)


def event_kinds(leaf: Leaf, guided: bool) -> tuple[type, ...]:
    """Kinds of the events of a forest or a search, in their order: see ``Guarantee.events``."""
    once: tuple[type, ...] = (NoisySums,)
    once = {"exponential": (Choices,), "mean": (NoisySums,) * 2, "none": ()}.get(leaf, once)
    again = once if guided and calibration_counts(leaf) else ()
    return (ThresholdQueries, *(Choices,) * guided, *once, *again)


def _calibration(leaves: tuple[Event, ...], count: int = 1) -> tuple[Event, ...]:
    """The histogram that calibrates a forest: released like a leaf, with half the noise."""
    return tuple(NoisySums(count, e.noise / 2, e.reach) for e in leaves if isinstance(e, NoisySums))


def _queries(method: Source, height: int) -> int:
    """Threshold queries that one record meets in one tree: every level of it, or a binary search."""
    return height if method == "top-down" else queries_per_tree(height)


def _counts(leaf: Leaf, height: int) -> int:
    """Noisy counts that one record takes part in, in one tree: its leaf, or a prefix on each level."""
    return {"none": 0, "prefixes": height}.get(leaf, 1)


def calibration_counts(leaf: Leaf) -> int:
    """Price of a guided forest's calibration histogram, as a number of leaf counts.

    It has half the noise of a leaf, so it costs as much as four. Leaves that release labels have none.
    """
    return 4 if leaf in ("counts", "mean") else 0


def score_range(leaf: Leaf) -> float:
    """Width within which one record moves the scores of all candidate splits: see ``guided``."""
    return 1.0 if leaf == "mean" else 2.0


def plan(
    epsilon: float,
    delta: float = 1e-6,
    n_estimators: int = 20,
    max_depth: int = 100,
    *,
    splits: Splits | None = None,
    accounting: Accounting = "joint",
    leaf: Leaf = "counts",
    structure_share: float | None = None,
    threshold: float | None = None,
    rows_per_person: int = 1,
    unit: Unit | None = None,
    sum_bound: int | None = None,
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
    leaf : {"counts", "majority", "exponential", "mean"}
        What a leaf releases; "exponential" only with the paper's accounting, "mean" for regression.
    structure_share : float or None
        Share of the budget for the structure, split choice and pruning together; None: 0.65 (guided),
        0.5 (random) or 0.75 (paper).
    threshold : float or None
        tau; None: the smallest allowed. A larger one also raises the largest count that is dropped.
    rows_per_person : int
        Maximum number of rows per person; above 1 the guarantee is for persons.
    unit : {"row", "person"} or None
        What the guarantee is for. ``fit`` with ``person_ids`` always protects persons, also with one row
        each. None: persons if ``rows_per_person`` is above 1, and rows otherwise.
    sum_bound : int or None
        For "mean": the largest target in steps of its grid; None: the grid that the regressor uses.

    Returns
    -------
    Guarantee

    Examples
    --------
    >>> from lumberjack import plan
    >>> promise = plan(1.0, 1e-6)
    >>> promise.verify() <= promise.delta
    True
    >>> promise.queries_per_record, promise.choices_per_record
    (140, 120)
    >>> round(plan(1.0, 1e-6, splits="random").threshold, 1)
    422.9
    """
    epsilon, delta = _check_budget(epsilon, delta)
    k, h = check_count("n_estimators", n_estimators), check_count("max_depth", max_depth)
    r = check_count("rows_per_person", rows_per_person)
    _check_option("accounting", accounting, get_args(Accounting))
    _check_option("leaf", leaf, ("counts", "majority", "exponential", "mean"))
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
    if structure_share is None:
        structure_share = 0.75 if accounting == "paper" else 0.65 if splits == "guided" else 0.5
    if check_share("structure_share", structure_share) < _LEAST:
        raise ValueError(f"structure_share must be at least {_LEAST:g}, got {structure_share:g}")
    m, levels, rho = k * queries_per_tree(h), 0, 0.0
    found: Calibration
    if leaf == "exponential" and accounting == "joint":
        raise ValueError('leaf="exponential" needs accounting="paper"; use leaf="majority"')
    if accounting == "joint":
        levels = min(GUIDED_LEVELS, h) if splits == "guided" else 0
        with _within_floats():
            found = calibrate(
                epsilon,
                delta,
                m=m,
                k=k + (calibration_counts(leaf) if levels else 0),
                leaf_share=1 - structure_share,
                choices=k * levels,
                choice_share=structure_share * _CHOICE_PART,
                score_range=score_range(leaf),
                rows_per_person=r,
            )
    else:
        if r != 1:
            raise ValueError(
                f'rows_per_person={r} needs accounting="joint": Theorem 1 is for single rows'
            )
        with _within_floats():
            found, rho = calibrate_paper(epsilon, delta, m=m, k=k, structure_share=structure_share)
    leaves: tuple[Event, ...] = (NoisySums(k, found.leaf_sigma),)
    if leaf == "exponential":
        leaves = (Choices(k, math.sqrt(8 * rho / k), 1.0),)
    if leaf == "mean":
        bound = check_count("sum_bound", SUM_BOUND if sum_bound is None else sum_bound)
        leaves = (
            NoisySums(k, found.leaf_sigma / math.sqrt(_COUNT_SHARE)),
            NoisySums(k, bound * found.leaf_sigma / math.sqrt(1 - _COUNT_SHARE), bound),
        )
    elif sum_bound is not None:
        raise ValueError(f'sum_bound is for leaf="mean" only, got leaf={leaf!r}')
    tau, cut = _threshold(found, threshold, r)
    guided: tuple[Event, ...] = (Choices(k * levels, found.exponent, score_range(leaf)),) * (levels > 0)
    calibration = _calibration(leaves) if levels and calibration_counts(leaf) else ()
    guarantee = Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        rows_per_person=r,
        accounting=accounting,
        method="sparse",
        n_estimators=k,
        max_depth=h,
        leaf=leaf,
        structure_share=structure_share,
        events=(
            ThresholdQueries(m, found.sigma, found.Delta, tau, cut),
            *guided,
            *leaves,
            *calibration,
        ),
        caveats=(NOT_PROVED,) if accounting == "paper" else (),
    )
    for weakness in guarantee.weaknesses:
        warn(weakness)
    return guarantee


def plan_heavy_hitters(
    epsilon: float,
    delta: float,
    height: int,
    *,
    method: Method = "sparse",
    counts: bool = False,
    threshold: float | None = None,
    caveats: tuple[str, ...] = (),
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
    m, k = _queries(method, h), _counts(leaf, h)
    cutoff: float | None
    if method == "gaussian":
        with _within_floats():
            sigma, leaf_sigma = calibrate_plain(epsilon, delta, m=m, k=k)
        quiet = sigma * math.sqrt(2 * math.log(max(dense_nodes, 1) / 0.05))
        tau = quiet if threshold is None else _check_threshold(threshold)
        cutoff, cut = None, -1
    else:
        with _within_floats():
            found = calibrate(epsilon, delta, m=m, k=k)
        sigma, cutoff, leaf_sigma = found.sigma, found.Delta, found.leaf_sigma
        tau, cut = _threshold(found, threshold, 1)
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
        events=(
            ThresholdQueries(m, sigma, cutoff, tau, cut),
            *(NoisySums(k, leaf_sigma),) * counts,
        ),
        assumptions=SEARCH_ASSUMPTIONS,
        caveats=caveats,
    )


def _threshold(found: Calibration, threshold: float | None, r: int) -> tuple[float, int]:
    """The threshold, and the largest count that may be dropped below it, without rounding."""
    if found.tau > _MOST_ROWS:
        raise ValueError(
            f"this budget needs a threshold of {found.tau:.3g} records; raise epsilon or delta, or give "
            "the structure a larger share"
        )
    if threshold is None:
        return found.tau, 0
    tau = _check_threshold(threshold)
    if tau < found.tau:
        raise ValueError(
            f"threshold must be at least {found.tau:.6g} for this budget, got {tau:g}; "
            "leave it out to get the smallest, or raise epsilon or delta"
        )
    return tau, math.floor(Fraction(tau) - r - Fraction(found.Delta))


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
