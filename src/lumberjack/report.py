"""What a model promises, for people: the same facts as text, as JSON and as a page.

In: a fitted estimator. Out: a ``Description``, made of released values and public parameters alone, so
that a report is as safe to publish as the model. ``page.py`` turns it into HTML.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lumberjack.accounting import Choices, NoisySums, cutoffs_delta
from lumberjack.anatomy import NOTHING, depths
from lumberjack.domain import Domain
from lumberjack.events import in_words
from lumberjack.guarantee import Guarantee
from lumberjack.legend import (
    LITTLE,
    Entry,
    aligned,
    columns_of,
    fit_in_words,
    in_lines,
    learned_little,
    shares,
    target_of,
)
from lumberjack.quoting import one_line
from lumberjack.released import Fitted, Released, released_by

__all__ = [
    "NOT_COVERED",
    "Description",
    "Part",
    "Report",
    "describe",
]

_FITS = {"columns": "fit of columns", "pairs": "fit of columns and pairs"}
NOT_COVERED = (
    "Everything else computed from the same data: a scaler or encoder fitted before the forest, a "
    "search for good parameters that looked at scores, scores that are published, and every further "
    "model. Each has a price of its own, and prices add up.",
    "Facts about the population. A model that learned that smokers fall ill says so about every smoker, "
    "in the training data or not.",
    "The computer that held the data: its logs, its memory, and how long training took.",
)


class Report(str):
    """Text that a notebook shows line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Part:
    """A part of a whole: what it is, and its share between 0 and 1."""

    name: str
    share: float


@dataclass(frozen=True)
class Description:
    """All that a report says.

    Attributes
    ----------
    guarantee : Guarantee
    recomputed : float
        Delta, recomputed from the guarantee alone.
    estimator : {"classifier", "regressor"}
    target : Entry
    columns : tuple of Entry
    domain : Domain
    budget, failure : tuple of Part
        Where the budget went, and what delta consists of.
    importance : tuple of Part
        Columns, the most important first.
    deepest, leaves : tuple of int
        Depth and number of leaves of each released tree.
    sizes : tuple of float or None
        Noisy sizes of all leaves, or None where leaves release labels only. Of fitted leaves: those of
        single columns, whose rows were counted.
    size_noise : float
        Standard deviation of the noise in such a size.
    fit : tuple of str
        Of fitted leaves: trees, what was released, and the meaning of weights, in words.
    learned_nothing : bool
        Whether all rows get the same prediction.
    learned_little : bool
        Whether predictions of fitted leaves hardly differ between rows.
    fingerprint : str or None
        SHA-256 of the model file.
    """

    guarantee: Guarantee
    recomputed: float
    estimator: str
    target: Entry
    columns: tuple[Entry, ...]
    domain: Domain
    budget: tuple[Part, ...]
    failure: tuple[Part, ...]
    importance: tuple[Part, ...]
    deepest: tuple[int, ...]
    leaves: tuple[int, ...]
    sizes: tuple[float, ...] | None
    size_noise: float
    learned_nothing: bool
    learned_little: bool = False
    fit: tuple[str, ...] = ()
    fingerprint: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the recomputed delta keeps the promise."""
        return self.recomputed <= self.guarantee.delta

    @property
    def unit(self) -> str:
        """Who is protected."""
        return self.guarantee.protected

    @property
    def promise(self) -> str:
        """The guarantee in one line."""
        g = self.guarantee
        return f"({g.epsilon:g}, {g.delta:g})-differential privacy for every {self.unit}"

    def in_words(self) -> list[str]:
        """The guarantee in plain words."""
        g = self.guarantee
        bounded = min(max(g.epsilon, 0.0), 700.0)  # beyond, floats overflow and nothing is promised
        factor, sure = math.exp(bounded), 1 / (1 + math.exp(-bounded))
        said = [
            f"Take the training data with and without one {self.unit}. Whatever anybody concludes from "
            "this model, now or later and with any other knowledge, is at most "
            f"{factor:.4g} times as likely with that {g.unit} as without, or the other way round, apart "
            f"from a chance of {g.delta:g}.",
            f"So whoever gave even odds that a certain {g.unit} was in the data can become at most "
            f"{sure:.1%} sure of it by studying the model, apart from that chance.",
        ]
        if g.unit == "row":
            said.append(
                "The promise is for single rows. Somebody with several rows in the data is protected "
                "less; rows_per_person makes the promise one for persons."
            )
        return said

    def in_numbers(self) -> list[tuple[str, str]]:
        """Names and values of what the promise rests on."""
        g = self.guarantee
        rows = [
            ("ε (epsilon)", f"{g.epsilon:g}"),
            ("δ (delta)", f"{g.delta:g}"),
            ("δ recomputed", f"{self.recomputed:.8g}"),
            ("neighbours", f"{g.neighbours} one {self.unit}"),
            ("theorem", g.theorem),
        ]
        if g.fits_leaves:
            most = f"{g.n_estimators} columns" if g.n_estimators > 1 else "no columns"
            rows.append(("trees", f"one for each column, and one for each pair of at most {most}"))
            rows.append(
                ("a leaf releases", "sums of residuals, step by step; its weights follow from them")
            )
        elif g.method != "composed":
            rows.append(("trees, levels", f"{g.n_estimators}, at most {g.max_depth}"))
            rows.append(("a leaf releases", g.leaf))
        if g.guided_levels:
            rows.append(("levels whose splits are chosen", f"{g.guided_levels}"))
        return rows + [("priced", in_words(event)) for event in g.events]

    def noise_in_words(self) -> str:
        """The noise against the leaf sizes."""
        if self.sizes == () or (self.learned_nothing and not self.fit):
            return "Every tree is a single leaf, so there are no leaf sizes to compare with the noise."
        if self.sizes is None:
            return "Leaves release a label and no size, so there is nothing to compare."
        sizes = np.array(self.sizes)
        clear = float(np.mean(sizes > 2 * self.size_noise))
        middle = max(float(np.median(sizes)), 0.0)
        if self.fit:
            return (
                f"Half of the cells of columns hold more than about {middle:,.0f} rows; the noise of "
                f"such a size has standard deviation {self.size_noise:,.1f}. {clear:.0%} of the cells "
                "are larger than twice that. Weights of small cells are drawn towards those of their "
                "neighbours, or towards 0."
            )
        return (
            f"Half of the leaves hold more than about {middle:,.0f} rows; the noise of such a size has "
            f"standard deviation {self.size_noise:,.1f}. {clear:.0%} of the leaves are larger than "
            "twice that. Leaves of many trees are pooled, which averages noise out."
        )

    def trees_in_words(self) -> list[str]:
        """Depths and leaf counts of the released trees, and what fitted leaves hold."""
        shape = (
            f"{_plural(len(self.leaves), 'tree')}. Leaves per tree: {_spread(self.leaves)}. "
            f"Depth: {_spread(self.deepest)}."
        )
        return [shape, *self.fit]

    @property
    def nothing(self) -> str:
        """What to say of a model that learned nothing, or next to nothing."""
        return NOTHING if self.learned_nothing else LITTLE if self.learned_little else ""

    @property
    def what_matters(self) -> str:
        """What importances are shares of."""
        if self.fit:
            return "how much the weights of its leaves vary over rows"
        return "what the splits explain (decrease of impurity)"

    def how_to_verify(self) -> list[tuple[str, str]]:
        """Ways to check the promise without trusting this report: what to do, and with what."""
        ways = [
            ("At a terminal; the exit code is 4 if it fails.", "lumberjack inspect MODEL --verify"),
            (
                "In Python; the number must be at most δ.",
                "import lumberjack; lumberjack.load('MODEL').guarantee_.verify()",
            ),
        ]
        if self.fingerprint is not None:
            ways.append(("That this is the file described: its SHA-256.", self.fingerprint))
        return ways

    def text(self) -> Report:
        """The report as plain text."""
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        lines = [f"Privacy report: {self.promise}", ""]
        lines += [f"CAVEAT: {caveat}" for caveat in self.guarantee.caveats] or ["No caveats."]
        lines += [f"WEAK: {weakness}" for weakness in self.guarantee.weaknesses]
        lines += [f"{self.nothing} {self.guarantee.way_out}"] if self.nothing else []
        lines += [f"Recomputed: delta = {self.recomputed:.8g}, the promise {verdict}."]
        lines += ["", "In words", *(f"  {line}" for line in self.in_words())]
        lines += ["", "In numbers", *aligned(self.in_numbers())]
        lines += ["", "What it assumes", *(f"  - {line}" for line in self.guarantee.assumptions)]
        lines += ["", "What it does not cover", *(f"  - {line}" for line in NOT_COVERED)]
        lines += ["", "Where the budget went", *_bars(self.budget)]
        lines += ["", "What delta consists of", *_bars(self.failure)] if self.failure else []
        lines += ["", "Noise and leaf sizes", f"  {self.noise_in_words()}"]
        lines += ["", "Importance of columns, from released values", *_bars(self.importance[:20])]
        lines += ["", "Trees", *(f"  {line}" for line in self.trees_in_words())]
        lines += ["", f"Columns{' (INFERRED FROM THE DATA)' if self.domain.inferred else ''}"]
        lines += in_lines(self.columns)
        lines += ["", "Target", *in_lines([self.target])]
        lines += ["", "How to verify"]
        for what, how in self.how_to_verify():
            lines += [f"  {what}", f"    {how}"]
        return Report("\n".join(map(one_line, lines)))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "promise": self.promise,
            "holds": self.holds,
            "recomputed_delta": self.recomputed,
            "guarantee": asdict(self.guarantee),
            "estimator": self.estimator,
            "budget": {part.name: part.share for part in self.budget},
            "delta_parts": {part.name: part.share for part in self.failure},
            "importance": {part.name: part.share for part in self.importance},
            "depth": list(self.deepest),
            "leaves": list(self.leaves),
            "size_noise": self.size_noise,
            "fit": list(self.fit),
            "learned_nothing": self.learned_nothing,
            "learned_little": self.learned_little,
            "columns": [entry.to_dict() for entry in self.columns],
            "target": self.target.to_dict(),
            "domain": self.domain.to_dict(),
            "sha256": self.fingerprint,
        }


def describe(model: Fitted, fingerprint: str | None = None) -> Description:
    """Gather all facts about a fitted estimator."""
    released = released_by(model)
    g, forest = released.guarantee, released.forest
    ranked = sorted(released.importances().items(), key=lambda pair: -pair[1])
    sizes, noise = _sizes(released)
    return Description(
        guarantee=g,
        recomputed=g.verify(),
        estimator=released.target.estimator,
        target=target_of(released),
        columns=columns_of(released),
        domain=released.domain,
        budget=_budget(g),
        failure=_failure(g),
        importance=tuple(Part(name, share) for name, share in ranked),
        deepest=tuple(int(depths(tree).max()) for tree in forest.trees),
        leaves=tuple(tree.n_leaves for tree in forest.trees),
        sizes=sizes,
        size_noise=noise,
        learned_nothing=released.learned_nothing,
        learned_little=learned_little(released),
        fit=fit_in_words(released) if g.fits_leaves else (),
        fingerprint=fingerprint,
    )


def _sizes(released: Released) -> tuple[tuple[float, ...] | None, float]:
    """Sizes of leaves whose rows were counted, and the standard deviation of their noise."""
    g = released.guarantee
    if g.fits_leaves:
        each = zip(released.forest.trees, released.forest.values, strict=True)
        found = [v[:, 0] for tree, v in each if len(tree.columns) == 1]
        noise = max((e.noise for e in g.events_for("sizes") if isinstance(e, NoisySums)), default=0.0)
        # All columns share the price of one.
        return tuple(np.concatenate(found or [np.zeros(0)]).tolist()), noise * math.sqrt(
            len(released.domain)
        )
    sizes = released.leaf_sizes()
    leaves = released.target.leaves
    leaf_noise, _ = leaves.noise(g)
    # A size is one noisy count, or the sum of one for each class.
    counted = leaves.n_values if leaves.holds == "counts" else 1
    return None if sizes is None else tuple(sizes.tolist()), leaf_noise * math.sqrt(counted)


def _budget(g: Guarantee) -> tuple[Part, ...]:
    """Shares of mu^2 ("joint", "zcdp") or of epsilon ("paper")."""
    leaves = "contents of the leaves"
    structure = "pruning of the trees" if g.guided_levels else "structure of the trees"
    if g.accounting == "paper" or len(g.events) == 1:
        share = 1.0 if g.structure_share is None else g.structure_share
        return Part("structure of the trees", share), Part(leaves, 1 - share)
    names = {
        "categories": "categories of columns",
        "classes": "classes",
        "cuts": "cuts of numbers",
        "scale": "place and scale of the target",
        "structure": structure,
        "splits": "choice of splits",
        "calibration": "calibration",
        "clips": "clips of residuals",
        "sizes": "sizes of cells of columns",
        **{use: f"{said}, {_steps(g, use)} steps" for use, said in _FITS.items()},
    }
    parts: dict[str, float] = {}
    for use, share in shares(g).items():
        name = names.get(use, leaves)
        parts[name] = parts.get(name, 0.0) + share
    return tuple(Part(name, share) for name, share in parts.items())


def _steps(g: Guarantee, use: str) -> int:
    return sum(event.count for event in g.events_for(use))


def _failure(g: Guarantee) -> tuple[Part, ...]:
    """What delta is made of, as shares of the promised one; the paper's theorem does not split."""
    cut = cutoffs_delta(g.events, g.rows_per_person)
    if g.accounting == "paper" or cut == 0 or g.delta <= 0:
        return ()
    noise = max(g.verify() / g.delta - cut / g.delta, 0.0)
    chosen = any(isinstance(event, Choices) for event in g.events)
    tails = "tails of the noise" if chosen else "tails of the Gaussian noise"
    parts = Part(tails, noise), Part("cut-off of small counts", cut / g.delta)
    return (*parts, Part("not used", max(1 - noise - cut / g.delta, 0.0)))


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _spread(numbers: tuple[int, ...]) -> str:
    return f"{min(numbers):,} to {max(numbers):,}, median {float(np.median(numbers)):,.0f}"


def _bars(parts: tuple[Part, ...]) -> list[str]:
    return aligned([(p.name, f"{p.share:6.1%} {'#' * round(30 * min(p.share, 1))}") for p in parts])
