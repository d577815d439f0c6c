"""A guarantee is data: the promise, every number behind it, and how to recompute it.

In: a budget and the shape of what is released. Out: a frozen ``Guarantee`` that anyone can check
with nothing but itself. No data comes near this file.
"""

import dataclasses
import json
import math
import sys
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from lumberjack.accounting import (
    Calibration,
    calibrate_guided,
    calibrate_joint,
    calibrate_paper,
    calibrate_plain,
    exponential_rho,
    gaussian_rho,
    gdp_mu,
    guided_delta,
    joint_delta,
    queries_per_tree,
    theorem1_delta,
    zcdp_delta,
)
from lumberjack.accounting.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_real,
    check_share,
)

__all__ = ["Guarantee", "PrivacyLeakWarning", "plan", "plan_heavy_hitters", "warn"]

Accounting = Literal["joint", "paper"]
Splits = Literal["guided", "random"]
Unit = Literal["row", "person"]
Method = Literal["sparse", "two-sided", "gaussian", "top-down"]
Leaf = Literal["counts", "majority", "exponential", "mean", "prefixes", "none"]

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
FOREST_ASSUMPTIONS = (COLUMNS_PUBLIC, DECLARED_PUBLIC, FIT_SUCCEEDED)
SEARCH_ASSUMPTIONS = (HEIGHT_PUBLIC, SEARCH_SUCCEEDED)

SUM_BOUND = 2**12  # regression targets lie on a grid from -SUM_BOUND to SUM_BOUND
GUIDED_LEVELS = 6  # from the root down, where splits are chosen; docs/guided.md has the measurements
_CHOICE_PART = 6 / 13  # of a guided structure's budget: 30 % for choices, 35 % for pruning in all
_COUNT_SHARE = 0.25  # of a mean's budget: sums are what its error comes from
_ROWS_PER_THRESHOLD = 20  # with fewer rows than this many thresholds the trees stay stumps
_WEAK_EPSILON, _WEAK_DELTA = 20.0, 0.01  # beyond, a promise is one in form only


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
    """Warn, as of the line outside of this package (and of scikit-learn's decorators) that called."""
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
    accounting : {"joint", "paper"}
        Which theorem prices it; ``theorem`` spells it out.
    method : {"sparse", "two-sided", "gaussian", "top-down"}
        How nodes are compared with the threshold.
    n_estimators, max_depth : int
        Trees, and levels of nodes that are compared in each.
    queries_per_record : int
        m: threshold queries that one record can meet, over all trees.
    threshold_noise : float
        sigma, the noise of those queries.
    cutoff, cut : float or None, int
        Delta and the largest count that never passes; threshold >= cut + rows_per_person + Delta.
        None and -1 when nothing is cut off.
    threshold : float
        tau.
    guided_levels : int
        Levels from the root down on which splits are chosen with an eye to the targets; 0: none.
    choices_per_record : int
        N: such choices that one record takes part in, over all trees.
    choice_exponent, choice_range : float or None
        lambda of the exponential mechanism, and the width of the interval within which one record
        moves the scores of all candidates.
    leaf : {"counts", "majority", "exponential", "mean", "prefixes", "none"}
        What is released besides the nodes: something for each leaf, a count for each heavy prefix,
        or nothing.
    counts_per_record : int
        Noisy counts (or labels) that one record takes part in: its leaf in each tree and, with guided
        splits, its bin in the histogram by which the forest is calibrated. That one has half the
        noise, so it counts four times.
    leaf_noise : float or None
        Standard deviation of a noisy count, or the Gumbel scale of an exponential leaf.
    sum_noise, sum_bound : float or None, int or None
        For means: the noise of a leaf's sum of targets and the largest target, in steps of their grid.
    structure_share : float or None
        Share of the budget for the structure: of mu^2 ("joint") or of epsilon and delta ("paper").
    assumptions : tuple of str
        What the promise rests on, for the data holder to judge.
    caveats : tuple of str
        What breaks the promise. Empty only when it holds without reserve.

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
    accounting: Accounting
    method: Method
    n_estimators: int
    max_depth: int
    queries_per_record: int
    threshold_noise: float
    cutoff: float | None
    cut: int
    threshold: float
    leaf: Leaf
    counts_per_record: int
    leaf_noise: float | None
    structure_share: float | None
    sum_noise: float | None = None
    sum_bound: int | None = None
    guided_levels: int = 0
    choices_per_record: int = 0
    choice_exponent: float | None = None
    choice_range: float | None = None
    assumptions: tuple[str, ...] = FOREST_ASSUMPTIONS
    caveats: tuple[str, ...] = ()

    @property
    def theorem(self) -> str:
        """The theorem that the accounting rests on."""
        if self.accounting == "paper":
            return NOT_PROVED
        if self.guided_levels:
            return (
                "joint bound with adaptive choices, docs/guarantee.md: "
                "E U_N(Z - epsilon) + 1 - Phi(Delta/sigma)^m"
            )
        if self.cutoff is None:
            return "tight Gaussian curve, adaptive composition"
        return "joint bound, docs/guarantee.md: delta_G(epsilon, mu) + 1 - Phi(Delta/sigma)^m"

    @property
    def suggested_rows(self) -> int:
        """Recommended number of rows: with fewer than 20 thresholds trees stay stumps."""
        threshold = min(max(self.threshold, 0.0), 2.0**50)  # a record may claim any number
        return math.ceil(_ROWS_PER_THRESHOLD * threshold)

    @property
    def way_out(self) -> str:
        """What helps a model that learned nothing."""
        return (
            f"What helps: more rows (recommended: at least {self.suggested_rows:,}), a larger epsilon, "
            "or fewer trees."
        )

    @property
    def protected(self) -> str:
        """Who or what may be added or removed: a row, or a person with so many rows."""
        r = self.rows_per_person
        if self.unit == "row":
            return "row"
        return f"person with up to {r:,} rows" if r > 1 else "person (one row of each is used)"

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """What such an epsilon or delta means, where it promises next to nothing."""
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
        >>> dataclasses.replace(promise, threshold=promise.threshold - 1).verify()
        1.0
        """
        try:
            return self._recompute() if self._consistent() else 1.0
        except (TypeError, ValueError, ArithmeticError):
            return 1.0

    def _consistent(self) -> bool:
        trees = check_count("n_estimators", self.n_estimators)
        means = (self.leaf == "mean", self.sum_noise is not None, self.sum_bound is not None)
        if self.leaf not in get_args(Leaf) or any(means) != all(means):
            return False
        if self.unit not in get_args(Unit) or self.neighbours != "add/remove":
            return False
        if self.unit == "row" and self.rows_per_person != 1:
            return False
        forest = self.leaf not in ("prefixes", "none")
        if not {*(FOREST_ASSUMPTIONS if forest else SEARCH_ASSUMPTIONS)} <= {*self.assumptions}:
            return False
        if self.queries_per_record < trees * _queries(self.method, self.max_depth):
            return False
        again = calibration_counts(self.leaf) if self.guided_levels else 0
        if self.counts_per_record < trees * _counts(self.leaf, self.max_depth) + again:
            return False
        if not self._consistent_choices(trees):
            return False
        if self.accounting == "paper" and NOT_PROVED not in self.caveats:
            return False
        if self.method != "sparse" and self.rows_per_person != 1:
            return False
        if self.method == "gaussian":
            return self.cutoff is None and self.cut == -1
        needed = Fraction(self.cut) + self.rows_per_person + Fraction(self.cutoff or 0.0)
        return self.cutoff is not None and self.cut >= 0 and Fraction(self.threshold) >= needed

    def _consistent_choices(self, trees: int) -> bool:
        levels = check_count("guided_levels", self.guided_levels, least=0)
        if levels == 0:
            return (self.choices_per_record, self.choice_exponent, self.choice_range) == (0, None, None)
        return (
            self.accounting == "joint"
            and self.method == "sparse"
            and levels <= self.max_depth
            and self.choices_per_record >= trees * levels
            and check_real("choice_exponent", self.choice_exponent or 0.0) > 0
            and check_real("choice_range", self.choice_range or 0.0) >= score_range(self.leaf)
        )

    def _recompute(self) -> float:
        m, k = self.queries_per_record, self.counts_per_record
        leaf_noise = (
            math.inf
            if self.leaf_noise is None and k == 0
            else check_real("leaf_noise", self.leaf_noise or 0.0)
        )
        if self.leaf == "mean":
            sums = check_real("sum_noise", self.sum_noise or 0.0) / check_count(
                "sum_bound", self.sum_bound or 0
            )
            leaf_noise = 1 / gdp_mu((1, leaf_noise), (1, sums))
        Delta = math.inf if self.cutoff is None else self.cutoff
        if self.accounting == "joint":
            if self.leaf == "exponential":
                return 1.0
            gaussian: dict[str, Any] = {
                "m": m,
                "sigma": self.threshold_noise,
                "Delta": Delta,
                "k": k,
                "leaf_sigma": leaf_noise,
                "rows_per_person": self.rows_per_person,
            }
            if not self.guided_levels:
                return joint_delta(self.epsilon, **gaussian)
            return guided_delta(
                self.epsilon,
                choices=self.choices_per_record,
                exponent=self.choice_exponent or 0.0,
                score_range=self.choice_range or 0.0,
                **gaussian,
            )
        if self.rows_per_person != 1 or self.method != "sparse":
            return 1.0
        structure_epsilon = check_share("structure_share", self.structure_share or 0.0) * self.epsilon
        one = exponential_rho(1 / leaf_noise) if self.leaf == "exponential" else gaussian_rho(leaf_noise)
        return min(
            1.0,
            theorem1_delta(structure_epsilon, m=m, sigma=self.threshold_noise, Delta=Delta)
            + zcdp_delta(self.epsilon - structure_epsilon, k * one),
        )

    def to_json(self) -> str:
        """Return the record as a JSON object, one field a line.

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
        for name, field in fields.items():
            if not _fits(found[name], field.type):
                raise ValueError(f"not a guarantee: {name} must not be {found[name]!r}")
        for name in ("assumptions", "caveats"):
            found[name] = tuple(found[name])
        return cls(**found)

    def __str__(self) -> str:
        plural = "s" if self.n_estimators > 1 else ""
        trees = f"{self.n_estimators} tree{plural} of {self.max_depth} levels, {self.method}"
        thresholds = f"count + noise {self.threshold_noise:.6g} > {self.threshold:.6g}"
        if self.cutoff is not None:
            thresholds += f"; never for counts up to {self.cut} (cut-off {self.cutoff:.6g})"
        promise = f"({self.epsilon:g}, {self.delta:g})-differential privacy"
        lines = [
            f"{promise}, {self.neighbours} a {self.protected}",
            f"  theorem     {self.theorem}",
            f"  structure   {trees}: at most {self.queries_per_record} threshold queries a row",
            f"  thresholds  {thresholds}",
        ]
        if self.guided_levels:
            lines.append(
                f"  choices     {self.guided_levels} guided levels: "
                f"exponent {self.choice_exponent or 0:.6g}, range {self.choice_range or 0:g}, "
                f"{self.choices_per_record} a row"
            )
        if self.leaf_noise is not None:
            kind = "Gumbel scale" if self.leaf == "exponential" else "noise"
            sums = f"; sums {self.sum_noise:.6g}" if self.sum_noise is not None else ""
            noise = f"{kind} {self.leaf_noise:.6g}{sums}"
            lines.append(f"  {self.leaf:<11} {noise}, {self.counts_per_record} a row")
        lines += [
            f"  recomputed  delta = {self.verify():.8g}",
            f"  data        recommended: at least {self.suggested_rows:,} rows",
            *(f"  weak        {weakness}" for weakness in self.weaknesses),
            *(f"  assumption  {assumption}" for assumption in self.assumptions),
            f"  caveats     {'; '.join(self.caveats) or 'none'}",
        ]
        return "\n".join(lines)


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


def _queries(method: Method, height: int) -> int:
    """Threshold queries that one record meets in one tree: every level of it, or a binary search."""
    return height if method == "top-down" else queries_per_tree(height)


def _counts(leaf: Leaf, height: int) -> int:
    """Noisy counts that one record takes part in, in one tree: its leaf, or a prefix on each level."""
    return {"none": 0, "prefixes": height}.get(leaf, 1)


def calibration_counts(leaf: Leaf) -> int:
    """Leaf counts that a guided forest's calibration histogram costs as much as.

    It has half the noise of a leaf, and so the price of four. Leaves that release labels have none.
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
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
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
    check_share("structure_share", structure_share)
    m, counts, levels = k * queries_per_tree(h), k, 0
    found: Calibration
    exponent = None
    if leaf == "exponential" and accounting == "joint":
        raise ValueError('leaf="exponential" needs accounting="paper"; use leaf="majority"')
    if splits == "guided":
        counts, levels = k + calibration_counts(leaf), min(GUIDED_LEVELS, h)
        found = chosen = calibrate_guided(
            epsilon,
            delta,
            m=m,
            choices=k * levels,
            k=counts,
            choice_share=structure_share * _CHOICE_PART,
            leaf_share=1 - structure_share,
            score_range=score_range(leaf),
            rows_per_person=r,
        )
        leaf_noise, exponent = chosen.leaf_sigma, chosen.exponent
    elif accounting == "joint":
        found = calibrate_joint(
            epsilon, delta, m=m, k=k, leaf_share=1 - structure_share, rows_per_person=r
        )
        leaf_noise = found.leaf_sigma
    else:
        if r != 1:
            raise ValueError(
                f'rows_per_person={r} needs accounting="joint": Theorem 1 is for single rows'
            )
        found, rho = calibrate_paper(epsilon, delta, m=m, k=k, structure_share=structure_share)
        leaf_noise = 1 / math.sqrt(8 * rho / k) if leaf == "exponential" else found.leaf_sigma
    sum_noise = None
    if leaf == "mean":
        sum_bound = check_count("sum_bound", SUM_BOUND if sum_bound is None else sum_bound)
        sum_noise = sum_bound * leaf_noise / math.sqrt(1 - _COUNT_SHARE)
        leaf_noise = leaf_noise / math.sqrt(_COUNT_SHARE)
    elif sum_bound is not None:
        raise ValueError(f'sum_bound is for leaf="mean" only, got leaf={leaf!r}')
    tau, cut = _threshold(found, threshold, r)
    guarantee = Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        rows_per_person=r,
        accounting=accounting,
        method="sparse",
        n_estimators=k,
        max_depth=h,
        queries_per_record=m,
        threshold_noise=found.sigma,
        cutoff=found.Delta,
        cut=cut,
        threshold=tau,
        leaf=leaf,
        counts_per_record=counts,
        leaf_noise=leaf_noise,
        structure_share=structure_share,
        sum_noise=sum_noise,
        sum_bound=sum_bound,
        guided_levels=levels,
        choices_per_record=k * levels,
        choice_exponent=exponent,
        choice_range=score_range(leaf) if levels else None,
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

    With ``counts`` every level releases a fresh noisy count of each heavy prefix: height noisy
    counts a record, for half of mu^2. ``dense_nodes`` is the number of nodes of a dense tree
    (method "gaussian"): its default threshold lets an empty node pass with 5 % chance in all.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    h = check_count("height", height)
    _check_option("method", method, get_args(Method))
    leaf: Leaf = "prefixes" if counts else "none"
    m, k = _queries(method, h), _counts(leaf, h)
    cutoff: float | None
    if method == "gaussian":
        sigma, leaf_sigma = calibrate_plain(epsilon, delta, m=m, k=k)
        quiet = sigma * math.sqrt(2 * math.log(max(dense_nodes, 1) / 0.05))
        tau = quiet if threshold is None else _check_threshold(threshold)
        cutoff, cut = None, -1
    else:
        found = calibrate_joint(epsilon, delta, m=m, k=k)
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
        queries_per_record=m,
        threshold_noise=sigma,
        cutoff=cutoff,
        cut=cut,
        threshold=tau,
        leaf=leaf,
        counts_per_record=k,
        leaf_noise=leaf_sigma if counts else None,
        structure_share=0.5 if counts else None,
        assumptions=SEARCH_ASSUMPTIONS,
        caveats=caveats,
    )


def _threshold(found: Calibration, threshold: float | None, r: int) -> tuple[float, int]:
    """The threshold, and the largest count that it allows to drop, without rounding."""
    if threshold is None:
        return found.tau, 0
    tau = _check_threshold(threshold)
    if tau < found.tau:
        raise ValueError(
            f"threshold must be at least {found.tau:.6g} for this budget, got {tau:g}; "
            "leave it out to get the smallest, or raise epsilon or delta"
        )
    return tau, math.floor(Fraction(tau) - r - Fraction(found.Delta))


def _check_threshold(threshold: float) -> float:
    """Refuse thresholds that no table of counts could hold exactly."""
    tau = check_real("threshold", threshold)
    if abs(tau) > 2**50:
        raise ValueError(f"threshold must be a number of records, at most 2^50, got {tau:g}")
    return tau


def _check_option(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
