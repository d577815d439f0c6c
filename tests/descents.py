"""Walks of a fit along one transcript, and what a neighbouring table would have said at each step."""

import dataclasses
import math

import numpy as np

from lumberjack import Domain, plan
from lumberjack.descent import fit_forest
from lumberjack.engines.base import Block
from lumberjack.engines.local import LocalRows
from lumberjack.kinds import CELLS, MISSING, OTHER, Cuts, Numeric
from lumberjack.noise import Bits
from lumberjack.targets import Classes, Numbers

# Cuts that are given, so that nothing is learned before the fit.
DOMAIN = Domain(
    {
        "x": Cuts(Numeric(0, 1), tuple(i * CELLS // 12 for i in range(1, 12))),
        "c": Domain.categorical(["a", "b", "c", "d"], missing=True),
        "y": Cuts(Numeric(0, 1), tuple(i * CELLS // 7 for i in range(1, 7))),
        "constant": Domain.categorical(["only"]),
    }
)
TARGETS = {
    "one class": Classes(np.array(["a"]), "fitted"),
    "two classes": Classes(np.array([0, 1]), "fitted"),
    "four classes": Classes(np.arange(4), "fitted"),
    "number": Numbers(-1.0, 1.0, is_fitted=True),
}


def promise(kind, epsilon=4.0, **options):
    leaf = "fitted-mean" if kind == "number" else "fitted"
    return plan(epsilon, 1e-6, leaf=leaf, columns=(0, 0), target=leaf == "fitted-mean", **options)


def table(kind, n=3000, seed=0):
    """Codes with all kinds of cells, and targets that follow from them."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, k.size, n) for k in DOMAIN.known]).astype(np.uint32)
    codes[rng.random(n) < 0.1, 0] = MISSING
    codes[rng.random(n) < 0.1, 1] = OTHER
    effect = (codes[:, 0] < 6) * 1.0 + (codes[:, 1] == 2) - 2 * (codes[:, 2] < 3) * (codes[:, 0] > 5)
    if kind == "number":
        place = np.clip(effect * 900 + rng.normal(0, 600, n), -4096, 4096)
        return codes, np.rint(place).astype(np.int32)
    n_classes = len(TARGETS[kind].labels)
    drawn = np.floor((effect + 2 + rng.normal(0, 0.7, n)) / 4 * n_classes)
    return codes, np.clip(drawn, 0, n_classes - 1).astype(np.int32)


class Walked(LocalRows):
    """Rows that also tell what other tables would have said, asked the same."""

    def __init__(self, codes, target, others=()):
        super().__init__(codes, target)
        self.others, self.asked = [LocalRows(*other) for other in others], []

    def total(self, count):
        found = super().total(count)
        self.asked.append((count, found, [other.total(count) for other in self.others]))
        return found


def walk(kind, neighbours=(), seed=1, **options):
    """The forest, the guarantee, and all that was asked: (counting object, sums, sums of neighbours)."""
    codes, target = table(kind)
    rows = Walked(codes, target, neighbours)
    guarantee = promise(kind, **options)
    forest = fit_forest(rows, DOMAIN, TARGETS[kind], guarantee, Bits(seed))
    return forest, guarantee, rows.asked


def without(kind, rows):
    """The table without some rows."""
    codes, target = table(kind)
    kept = ~np.isin(np.arange(len(codes)), rows)
    return codes[kept], target[kept]


def asked_of(asked, name):
    return [(count, sums, others) for count, sums, others in asked if type(count).__name__ == name]


def event(guarantee, use):
    (found,) = [e for e in guarantee.events if e.use == use]
    return found


def term_shares(grove):
    """Share of each tree in the price of a step, from how many columns it splits on, in words."""
    weight = {0: 1.0, 1: 1.0, 2: 0.2}
    found = [weight[len(set(tree.feature.tolist()) - {-1})] for tree in grove.trees]
    return np.array(found) / math.fsum(found)


def blocks(codes, target, *sizes):
    ends = np.cumsum([0, *sizes])
    return [Block(codes[a:b], target[a:b]) for a, b in zip(ends, [*ends[1:], len(codes)], strict=True)]


def with_event(guarantee, use, **changes):
    """The guarantee with one event changed."""
    events = [dataclasses.replace(e, **changes) if e.use == use else e for e in guarantee.events]
    return dataclasses.replace(guarantee, events=tuple(events))
