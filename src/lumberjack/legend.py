"""What a model says about its columns and its target: kind, origin, price, and cuts or categories.

In: what a fit released. Out: an ``Entry`` for each column and for the target, from which reports, pages
and ``inspect`` are written.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lumberjack.accounting import spent
from lumberjack.events import FIT_USES
from lumberjack.guarantee import BOUNDS_INFERRED, CLASSES_INFERRED, Guarantee
from lumberjack.kinds import Categorical, Category, Cuts, Known, Numeric
from lumberjack.quoting import one_line
from lumberjack.released import Released
from lumberjack.targets import Classes, Target
from lumberjack.units import one, several

__all__ = [
    "LITTLE",
    "Entry",
    "Origin",
    "aligned",
    "columns_of",
    "fit_in_words",
    "in_lines",
    "learned_little",
    "shares",
    "spread",
    "target_of",
    "weights_in_words",
]

Origin = Literal["declared", "learned", "read off the data"]

LITTLE = "This model learned next to nothing: its predictions hardly differ between rows."
_LITTLE = 0.1  # of log odds, about 2.5 percentage points, or of the scale of a target
_LETTERS = 80  # of a shortened list
_NAMES = {"class": "classes", "category": "categories"}
_CUTS = 7  # of a shortened list
_FAR = math.asinh(100.0)
_WIDEST = 45  # letters of a name that others are aligned with


@dataclass(frozen=True)
class Entry:
    """A column, or the target.

    Attributes
    ----------
    name : str
    kind : {"number", "date", "category", "class"}
    origin : {"declared", "learned", "read off the data"}
        Where cuts, categories, classes, or place and scale come from; without any of them, the bounds.
    share : float
        Of the budget, between 0 and 1.
    values : tuple
        Cuts in increasing order (of dates, seconds since 1970), categories or classes.
    missing : bool
        Whether a missing value is a category of its own.
    bounds : (float, float) or None
        Of a number: what lies outside counts as one of them.
    inferred : bool
        Whether bounds or categories were read off the data, even if cuts inside were learned.
    scale : (float, float) or None
        Place and scale of a target, where they were learned.
    limits : (float, float) or None
        Declared bounds of predictions, if place and scale were learned nevertheless.
    """

    name: str
    kind: Literal["number", "date", "category", "class"]
    origin: Origin
    share: float = 0.0
    values: tuple[Category, ...] = ()
    missing: bool = False
    bounds: tuple[float, float] | None = None
    inferred: bool = False
    scale: tuple[float, float] | None = None
    limits: tuple[float, float] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the values are cuts."""
        return self.kind in ("number", "date")

    @property
    def cuts(self) -> tuple[float, ...]:
        """The values of a number as such."""
        return tuple(map(float, self.values)) if self.is_cut else ()

    @property
    def is_date(self) -> bool:
        """Whether numbers are seconds since 1970."""
        return self.kind == "date"

    def facts(self) -> str:
        """All but the values, in words."""
        said = _NAMES.get(self.kind, self.kind)
        if self.bounds is not None:
            said += " from {} to {}".format(*several(self.bounds, self.is_date))
            said += " (read off the data)" if self.inferred and self.origin == "learned" else ""
        if self.scale is not None:
            said += ", place {} and scale {}".format(*several(self.scale))
        elif self.is_cut and self.values:
            said += f", {len(self.values):,} cut{'s' * (len(self.values) > 1)}"
        elif self.kind == "category" and self.origin == "learned" and not self.values:
            said = "no category was frequent enough to be released, only missing or not"
        elif not self.is_cut:
            said = f"one of {len(self.values):,} {said}{' or missing' * self.missing}"
        said += f", {self.origin}" + (f" ({self.share:.1%} of the budget)" if self.share else "")
        if self.limits is not None:
            said += "; predictions from {} to {}, declared".format(*several(self.limits))
        return said

    def listed(self) -> list[str]:
        """All values, in words."""
        return several(self.cuts, self.is_date) if self.is_cut else list(map(str, self.values))

    def short(self) -> str:
        """Some of the values: cuts at even distances by rank, the first categories."""
        cuts = self.cuts
        if len(cuts) > _CUTS:
            ranks = np.linspace(0, len(cuts) - 1, _CUTS).round().astype(int)
            return " … ".join(several([cuts[i] for i in ranks], self.is_date))
        said: list[str] = []
        room = _LETTERS
        for value in self.listed():
            room -= len(value)
            if said and room < 0:
                return ", ".join(said) + f" and {len(self.values) - len(said):,} more"
            said.append(value if len(value) <= _LETTERS else f"{value[:_LETTERS]} …")
        return ", ".join(said)

    def in_words(self) -> str:
        """Everything, shortened to a line or two."""
        short = self.short()
        return f"{self.facts()}: {short}" if short else self.facts()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data; dates as text."""
        plain = [_plain(v, self.is_date) if self.is_cut else v for v in self.values]
        bounds = self.bounds and [_plain(v, self.is_date) for v in self.bounds]
        scaled = {} if self.scale is None else dict(zip(("place", "scale"), self.scale, strict=True))
        listed = _NAMES.get(self.kind, "cuts")
        return {
            "name": self.name,
            "kind": self.kind,
            "origin": self.origin,
            "budget_share": self.share,
            **({"range": bounds, "cuts": plain} if self.is_cut else {listed: plain}),
            **({"missing": self.missing} if self.kind == "category" else {}),
            **scaled,
            **({} if self.limits is None else {"limits": list(self.limits)}),
        }


def columns_of(released: Released) -> tuple[Entry, ...]:
    """One entry for each column, in the order of the domain."""
    g = released.guarantee
    prices = shares(g)
    a_number = prices.get("cuts", 0.0) / max(g.numbers_learned, 1)
    a_category = prices.get("categories", 0.0) / max(g.categories_learned, 1)

    def entry(name: str, kind: Known) -> Entry:
        learned = not isinstance(kind, Numeric) and kind.learned
        origin = _origin(learned, kind.inferred)
        if isinstance(kind, Categorical):
            share = a_category if learned else 0.0
            return Entry(name, "category", origin, share, kind.categories, kind.missing)
        grid, edges = (kind.grid, kind.edges) if isinstance(kind, Cuts) else (kind, ())
        bounds = (grid.low, grid.high) if grid.is_bounded else None
        what: Literal["date", "number"] = "date" if kind.temporal else "number"
        share = a_number if learned else 0.0
        return Entry(name, what, origin, share, edges, bounds=bounds, inferred=kind.inferred)

    known = released.domain.known
    return tuple(entry(name, kind) for name, kind in zip(released.domain, known, strict=True))


def target_of(released: Released) -> Entry:
    """The entry of the target."""
    target, prices, caveats = released.target, shares(released.guarantee), released.guarantee.caveats
    said = target.to_dict()
    if isinstance(target, Classes):
        origin, share = _origin(target.learned, CLASSES_INFERRED in caveats), prices.get("classes", 0.0)
        return Entry("target", "class", origin, share, tuple(said["classes"]["labels"]))
    origin, share = _origin(target.learned, BOUNDS_INFERRED in caveats), prices.get("scale", 0.0)
    low, high = said["bounds"]
    scale = (target.centre, target.scale) if target.learned else None
    return Entry(
        "target", "number", origin, share, bounds=(low, high), scale=scale, limits=target.limits
    )


def fit_in_words(released: Released) -> tuple[str, ...]:
    """Which trees a model of fitted leaves has, what was released, and what weights mean."""
    split = [len(tree.columns) for tree in released.forest.trees]
    columns, pairs = split.count(1), split.count(2)
    steps = {use: sum(e.count for e in released.guarantee.events_for(use)) for use in FIT_USES}
    clips = sum(e.count for e in released.guarantee.events_for("clips"))
    several_of = (
        f"{columns:,} tree{'s' * (columns != 1)} of one column and {pairs:,} of a pair of columns"
    )
    said = (
        "Released from the data, with noise: how many rows are in each cell of each column (an interval "
        f"of a number, a category, or missing); and, in {steps['columns']:,} steps on columns and "
        f"{steps['pairs']:,} on columns and pairs, for each leaf, and for groups of leaves of a column, "
        "the sum of how far the predictions of their rows were off (residuals). "
    )
    if clips:
        said += f"Residuals are clipped at {clips:,} limits that were chosen privately. "
    return (
        f"{several_of}, and a single leaf that all rows share. A row is in one leaf of each tree.",
        said + "Sizes and weights of leaves are computed from that, and from nothing else.",
        weights_in_words(released.target),
    )


def learned_little(released: Released) -> bool:
    """Whether scores of fitted leaves hardly vary over rows, as far as released sizes tell."""
    target = released.target
    if not released.guarantee.fits_leaves:
        return False
    variance = 0.0
    for values in released.forest.values:
        share = values[:, :1] / (values[:, 0].sum() or 1.0)
        away = values[:, 1:] - (share * values[:, 1:]).sum(axis=0)
        variance += float((share * away**2).sum())
    unit = 1.0
    if not isinstance(target, Classes):
        unit = target.half_width / (target.scale or math.inf)
    return math.sqrt(variance) * unit < _LITTLE


def weights_in_words(target: Target) -> str:
    """What the weights of fitted leaves mean."""
    if not isinstance(target, Classes):
        place, unit = several((target.centre, target.half_width))
        kept = (
            "" if target.limits is None else " and clipped to {} to {}".format(*several(target.limits))
        )
        return (
            "The weights of a row's leaves add up to a score: the prediction is "
            f"{place} + {unit} times the score{kept}."
        )
    labels = target.labels.tolist()
    if len(labels) == 1:
        return f"There is a single class, {labels[0]}, so weights change nothing."
    if len(labels) == 2:
        return (
            f"The weights of a row's leaves add up to a score: the log odds of {labels[1]} against "
            f"{labels[0]}. At 0 both are equally likely; each 0.7 more doubles the odds of {labels[1]}."
        )
    return (
        "A leaf has a weight for each class. The weights of a row's leaves add up to a score for each "
        "class: each 0.7 more doubles the chance of a class compared with those of the others."
    )


def _origin(learned: bool, inferred: bool) -> Origin:
    return "learned" if learned else "read off the data" if inferred else "declared"


def shares(guarantee: Guarantee) -> dict[str, float]:
    """Share of each use of events in mu^2, in their order; empty where noise is 0 or infinite."""
    prices: dict[str, float] = {}
    for event in guarantee.events:
        prices[event.use] = prices.get(event.use, 0.0) + spent(event)
    whole = sum(prices.values())
    # A file may claim zero or infinite noise: then there is nothing to divide.
    return {use: price / whole for use, price in prices.items()} if 0 < whole < math.inf else {}


def spread(cuts: Sequence[float]) -> NDArray[np.float64]:
    """Where to draw cuts, from 0 to 1: to scale in the middle, compressed far from it.

    The scale is asinh((cut - median) / unit), where the unit is half the interquartile range:
    about linear between them, logarithmic outside. Cuts beyond _FAR are drawn at the end.
    """
    with np.errstate(over="ignore"):
        places = np.clip(cuts, -1e300, 1e300)
        low, middle, high = np.quantile(places, (0.25, 0.5, 0.75))
        places = np.clip(np.arcsinh((places - middle) / ((high - low) / 2 or 1.0)), -_FAR, _FAR)
    width = places[-1] - places[0]
    return np.asarray((places - places[0]) / width if width > 0 else np.full(len(places), 0.5))


def in_lines(entries: Sequence[Entry], most: int | None = None) -> list[str]:
    """One line for each entry; with ``most``, one for the others together."""
    shown = entries[:most]
    lines = aligned([(one_line(entry.name), one_line(entry.in_words())) for entry in shown])
    more = len(entries) - len(shown)
    return [*lines, f"  ... and {more:,} more"] if more else lines


def aligned(rows: list[tuple[str, str]]) -> list[str]:
    """Names and values side by side."""
    width = min(max((len(name) for name, _ in rows), default=0), _WIDEST)
    return [f"  {name:<{width}}  {value}" for name, value in rows]


def _plain(value: Any, temporal: bool) -> Any:
    """A number for JSON; dates and infinite numbers as text."""
    return one(value, temporal) if temporal or not math.isfinite(value) else value
