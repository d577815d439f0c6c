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
from dataclasses import dataclass
from typing import Literal, get_args

from lumberjack.accounting import (
    MOST_EVENTS,
    Choices,
    Event,
    NoisySums,
    ThresholdQueries,
    cutoffs_delta,
    joint_delta,
    spent,
    theorem1_delta,
    zcdp_delta,
    zcdp_events_delta,
)
from lumberjack.accounting.checks import check_count, check_delta, check_real, check_share
from lumberjack.events import (
    FIT_STEPS,
    FIT_USES,
    FITTED,
    MEDIAN_RANGE,
    QUANTILE_RANGE,
    Kind,
    in_words,
    kind_of,
    kinds_of,
    leaf_counts,
    queries_of,
    read_event,
    refuse_misfits,
    score_range,
    with_uses,
)

__all__ = ["Guarantee", "PrivacyLeakWarning", "warn", "weaknesses"]

Accounting = Literal["joint", "paper"]
Pricing = Literal["joint", "paper", "zcdp"]  # of a guarantee; "zcdp" only for several releases
Splits = Literal["guided", "random"]
Unit = Literal["row", "person"]
Method = Literal["sparse", "two-sided", "gaussian", "top-down"]
Source = Literal["sparse", "two-sided", "gaussian", "top-down", "none", "composed"]
ClassLeaf = Literal["fitted", "counts", "majority", "exponential"]
Leaf = Literal[ClassLeaf, "mean", "fitted-mean", "prefixes", "none"]

NOT_PROVED = "Theorem 1 of the paper; not proved for adaptive queries"
SEEDED = "seeded noise: whoever knows random_state can remove it"
DOMAIN_INFERRED = "domain inferred from the data"
CLASSES_INFERRED = "classes inferred from the data"
BOUNDS_INFERRED = "y_bounds inferred from the data"
NOT_ENFORCED = "rows per person not enforced: no person_ids were given"
HEIGHT_INFERRED = "height inferred from the data"
ALPHABET_INFERRED = "alphabet inferred from the data"

# What a promise rests on. A caveat breaks it; an assumption is for the data holder to judge.
COLUMNS_PUBLIC = (
    "the names and kinds of the columns are public (as a typed source or a Domain declares them; "
    "pandas, NumPy and CSV as read)"
)
OLD_COLUMNS_PUBLIC = "the names and kinds of the columns are public"  # in files up to version 3
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
_ROWS_PER_THRESHOLD = 20  # with fewer rows per threshold, trees stay stumps
_ROWS_TIMES_MU = 1000  # with fewer rows, fitted leaves know little beyond the shares of the classes
_WEAK_EPSILON, _WEAK_DELTA = 20.0, 0.01  # beyond these, a promise is almost no protection
_NO_QUERIES = ThresholdQueries(0, math.inf, None, math.inf, cut=-1)
_LEARNED_USES = ("categories", "classes", "cuts", "scale")
LEARNED = ("numbers_learned", "categories_learned", "cut_levels")  # missing in older records


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


def weaknesses(epsilon: float, delta: float, unit: Unit) -> tuple[str, ...]:
    """What epsilon or delta means, if it is so large that it promises next to nothing."""
    said = []
    if epsilon > _WEAK_EPSILON:
        odds = f"{math.exp(epsilon):.2g}" if epsilon < 700 else "more than 1e300"
        said.append(
            f"epsilon = {epsilon:g} is almost no protection: one {unit} may change the "
            f"odds of anything by a factor of {odds}; 0.1 to 4 is usual"
        )
    if delta >= _WEAK_DELTA:
        said.append(
            f"delta = {delta:g} is almost no protection: with that chance everything about a "
            f"{unit} may be revealed; well below 1 / (number of rows) is usual"
        )
    return tuple(said)


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
    method : {"sparse", "two-sided", "gaussian", "top-down", "none", "composed"}
        How nodes are compared with the threshold; "none": there are none, as leaves are fitted;
        "composed": several releases together.
    n_estimators, max_depth : int
        Trees, and levels of nodes that are compared in each.
    leaf : {"counts", "fitted", "majority", "exponential", "mean", "fitted-mean", "prefixes", "none"}
        What is released besides the nodes: something for each leaf, a count for each heavy prefix,
        or nothing. "none" for several releases, which may differ.
    events : tuple of ThresholdQueries, Choices and NoisySums
        What one record takes part in, and what the theorem prices, by ``use``, in the order in which it
        is asked: "categories" and "classes" (threshold queries), "cuts" and "scale" (choices), each only
        if learned. Fitted leaves: "clips" (choices), for numbers; "sizes" (counts); "columns" and
        "pairs" (steps of the fit). Pruned trees: "structure" (threshold queries); "splits" (choices), if
        they are guided; "leaves" (counts or labels, then sums of targets). A search has "structure" and
        "prefixes". Guided forests of model files up to version 5 have "calibration" too: a histogram
        that corrects them.
    numbers_learned, categories_learned : int
        Upper limits on the columns whose cuts are learned, and on those whose categories are.
    cut_levels : int
        Levels of cuts of a number, so at most 2^cut_levels - 1 cuts.
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
    numbers_learned: int = 0
    categories_learned: int = 0
    cut_levels: int = 0
    events: tuple[Event, ...]
    assumptions: tuple[str, ...] = FOREST_ASSUMPTIONS
    caveats: tuple[str, ...] = ()

    def events_for(self, use: str) -> tuple[Event, ...]:
        """All events of one use, in their order.

        Examples
        --------
        >>> from lumberjack import plan
        >>> [event.kind for event in plan(1.0, 1e-6, leaf="mean").events_for("scale")]
        ['choices', 'choices']
        """
        return tuple(event for event in self.events if event.use == use)

    def event(self, use: str) -> Event | None:
        """The first event of one use; None if there is none.

        Examples
        --------
        >>> from lumberjack import plan
        >>> plan(1.0, 1e-6, columns=(3, 4)).event("cuts").count
        15
        """
        return next(iter(self.events_for(use)), None)

    @property
    def _queries(self) -> ThresholdQueries:
        found = self.event("structure")
        return found if isinstance(found, ThresholdQueries) else _NO_QUERIES

    @property
    def _choices(self) -> Choices | None:
        found = self.event("splits")
        return found if isinstance(found, Choices) else None

    @property
    def _leaves(self) -> NoisySums | Choices | None:
        found = self.event("leaves") or self.event("prefixes")
        return None if isinstance(found, ThresholdQueries) else found

    @property
    def _sums(self) -> NoisySums | None:
        found = self.events_for("leaves")[1:2] if self.leaf == "mean" else ()
        return found[0] if found and isinstance(found[0], NoisySums) else None

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
    def fits_leaves(self) -> bool:
        """Whether the weights of all leaves are fitted together."""
        return self.leaf in FITTED

    @property
    def cuts_numbers(self) -> bool:
        """Whether cuts of numbers are learned before trees are made, even where a range was given."""
        return self.guided_levels > 0 or self.fits_leaves

    @property
    def stages(self) -> int:
        """Number of stages that progress shows: trees, or steps of a fit."""
        steps = [e.count for use in FIT_USES[1:] for e in self.events_for(use)]
        return sum(steps) if steps else self.n_estimators

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
        return None if self._sums is None else self._sums.noise

    @property
    def sum_bound(self) -> int | None:
        """For means: the largest target, in steps of their grid."""
        return None if self._sums is None else self._sums.reach

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
        """Recommended number of rows: with fewer, trees stay stumps, or weights near 0."""
        steps = [e for use in FIT_USES for e in self.events_for(use)]
        if steps:
            try:
                mu = math.sqrt(math.fsum(map(spent, steps)))
            except (TypeError, ValueError, ArithmeticError):  # a stored guarantee may claim any number
                mu = 0.0
            return math.ceil(min(_ROWS_TIMES_MU / max(mu, 1e-9), 2.0**50))
        found = [e.threshold for e in self.events_for("structure") if isinstance(e, ThresholdQueries)]
        highest = max(found, default=0.0)
        threshold = min(max(highest, 0.0), 2.0**50)  # a stored guarantee may claim any number
        return math.ceil(_ROWS_PER_THRESHOLD * threshold)

    @property
    def way_out(self) -> str:
        """Advice for a model that learned nothing."""
        fewer = "columns" if self.fits_leaves else "trees"
        return (
            f"What helps: more rows (recommended: at least {self.suggested_rows:,}), a larger epsilon, "
            f"or fewer {fewer}."
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
        return weaknesses(self.epsilon, self.delta, self.unit)

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
        said = {COLUMNS_PUBLIC if text == OLD_COLUMNS_PUBLIC else text for text in self.assumptions}
        if not {*(FOREST_ASSUMPTIONS if forest else SEARCH_ASSUMPTIONS)} <= said:
            return False
        persons = self.method in ("sparse", "none")
        if self.accounting == "zcdp" or (not persons and self.rows_per_person != 1):
            return False
        if self.fits_leaves != (self.method == "none"):
            return False
        if (self._queries.cutoff is None) != (self.method in ("gaussian", "none")):
            return False
        check_count("max_depth", self.max_depth)
        trees = check_count("n_estimators", self.n_estimators)
        consistent = self.has_its_events and self._consistent_learning()
        return consistent and self._consistent_events(trees)

    @property
    def has_its_events(self) -> bool:
        """Whether the events are those of such a forest or search, in their order."""
        calibrated = self.event("calibration") is not None
        kinds = kinds_of(self.leaf, self._choices is not None, tuple(self._learned_kinds()), calibrated)
        return tuple(map(kind_of, self.events)) == kinds

    def _learned_kinds(self) -> Iterator[Kind]:
        """Kinds of the events by which columns and target are learned, in their order."""
        if self.categories_learned:
            yield ThresholdQueries, "categories"
        if self.event("classes"):
            yield ThresholdQueries, "classes"
        if self.numbers_learned:
            yield Choices, "cuts"
        if self.event("scale"):
            yield from ((Choices, "scale"),) * 2

    def _consistent_learning(self) -> bool:
        """Whether what is learned about columns and target is paid for."""
        numbers = check_count("numbers_learned", self.numbers_learned, least=0)
        categories = check_count("categories_learned", self.categories_learned, least=0)
        levels = check_count("cut_levels", self.cut_levels, least=0)
        learned = [e for use in _LEARNED_USES for e in self.events_for(use)]
        if (numbers > 0) != (levels > 0):
            return False
        can_learn = self.leaf in ("counts", "majority", "mean", *FITTED)
        if learned and (self.accounting != "joint" or not can_learn):
            return False
        if self.event("classes" if self.leaf in ("mean", "fitted-mean") else "scale"):
            return False
        needed = {"categories": (categories,), "cuts": (numbers * levels,)}
        ranges = {"cuts": (MEDIAN_RANGE,), "scale": (MEDIAN_RANGE, QUANTILE_RANGE)}
        for use in _LEARNED_USES:
            for i, event in enumerate(self.events_for(use)):
                if event.count < needed.get(use, (1, 1))[i]:
                    return False
                if isinstance(event, ThresholdQueries) and event.cutoff is None:
                    return False  # any value may be asked about
                if isinstance(event, Choices) and not _is_choice(event, ranges[use][i]):
                    return False
        return True

    def _consistent_events(self, trees: int) -> bool:
        """Whether all counts and ranges of a forest or search are large enough."""
        if self.fits_leaves:
            return self._consistent_fit()
        if self._queries.count < trees * queries_of(self.method, self.max_depth):
            return False
        if self._choices is not None and not self._consistent_choices(trees, self._choices):
            return False
        leaves = self.events_for("leaves") or self.events_for("prefixes")
        again = self.events_for("calibration")
        # Released like a leaf, with half the noise.
        halved = [
            NoisySums(again[0].count, e.noise / 2, e.reach, use="calibration")
            for e in leaves
            if again and isinstance(e, NoisySums)
        ]
        if any(e.count < 1 for e in again) or list(again) != halved:
            return False
        if isinstance(self._leaves, Choices) and self._leaves.score_range < 1:
            return False
        return all(e.count >= trees * leaf_counts(self.leaf, self.max_depth) for e in leaves)

    def _consistent_fit(self) -> bool:
        """Whether a fit has all its steps and, for numbers, its scale and clips."""
        if self.accounting != "joint" or (self.leaf != "fitted" and not self.event("scale")):
            return False
        clips = self.event("clips")
        if isinstance(clips, Choices) and (
            clips.count < len(FIT_USES) - 1 or not _is_choice(clips, QUANTILE_RANGE)
        ):
            return False
        return all(e.count >= steps for use, steps in FIT_STEPS.items() for e in self.events_for(use))

    def _consistent_choices(self, trees: int, splits: Choices) -> bool:
        return (
            self.accounting == "joint"
            and self.method == "sparse"
            and splits.count == trees * self.guided_levels
            and 1 <= self.guided_levels <= self.max_depth
            and _is_choice(splits, score_range(self.leaf))
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
        old = not {*LEARNED} & {*names}  # written before columns were learned and events had a use
        if old:
            fields = {name: field for name, field in fields.items() if name not in LEARNED}
        if sorted(names) != sorted(fields):
            raise ValueError(f"not a guarantee: must have each of {', '.join(fields)} once")
        found = dict(pairs)
        events = found.pop("events")
        if not isinstance(events, list) or len(events) > MOST_EVENTS:
            raise ValueError(f"not a guarantee: events must be a list of at most {MOST_EVENTS:,}")
        refuse_misfits(found, {name: field.type for name, field in fields.items() if name != "events"})
        for name in ("assumptions", "caveats"):
            found[name] = tuple(found[name])
            if not "".join(found[name]).isprintable():  # a file must not add lines to what is printed
                raise ValueError(f"not a guarantee: {name} must be printable")
        listed = tuple(read_event(pairs, has_use=not old) for pairs in events)
        return cls(**found, events=with_uses(listed, found["leaf"]) if old else listed)

    def __str__(self) -> str:
        promise = f"({self.epsilon:g}, {self.delta:g})-differential privacy"
        lines = [f"{promise}, {self.neighbours} a {self.protected}", f"  theorem     {self.theorem}"]
        if self.method != "composed":
            plural = "s" if self.n_estimators > 1 else ""
            trees = f"{self.n_estimators} tree{plural} of {self.max_depth} levels, {self.method}"
            if self.fits_leaves:
                trees = f"a tree for each column and each pair of up to {self.n_estimators} columns"
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


def _is_choice(event: Choices, least: float) -> bool:
    """Whether its exponent is positive and its score range at least the proved one."""
    wide = check_real("score_range", event.score_range) >= least
    return wide and check_real("exponent", event.exponent) > 0
