"""Walks of a fit along one transcript, and what a neighbouring table would have said at each step."""

import dataclasses
import itertools
from fractions import Fraction
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy import sparse

from lumberjack import Domain, descent, plan
from lumberjack.descent import fit_forest
from lumberjack.engines.base import Block
from lumberjack.engines.local import LocalRows
from lumberjack.fitting import Fit
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


class Step(NamedTuple):
    """What a step asked, and what it released."""

    use: str
    count: Any  # the counting object
    sums: Any  # of the residuals of each leaf, exact
    others: list  # the same of neighbours
    strategy: Any
    sigma: Any  # of the noise of each released sum, on the grid of ``loss.reach``
    taken: Any  # the noisy sums, in residuals

    def released(self, sums):
        """Sums of leaves as they are released, without noise: added up, and then rounded."""
        step, whole = self.count.loss.step, [[int(v) for v in row] for row in sums]
        out = []
        for row in self.strategy.sums.toarray().tolist():
            inside = [(c, leaf) for c, leaf in zip(row, whole, strict=True) if c]
            added = [sum(c * leaf[k] for c, leaf in inside) for k in range(len(whole[0]))]
            out.append([(v + step // 2) // step for v in added])
        return np.array(out)

    def price(self, moved):
        """mu^2 of sums that move by so much, as a fraction of the floats that were used."""
        squares = (moved.astype(object) ** 2).sum(axis=1)
        each = zip(squares.tolist(), self.sigma.tolist(), strict=True)
        return sum((int(d) / Fraction(s) ** 2 for d, s in each if d), Fraction(0))

    def dearest(self):
        """mu^2 of a row that moves each of its sums by ``reach``, in the dearest leaf of each tree."""
        table, worst = sparse.csc_array(self.strategy.sums), Fraction(0)
        each = [1 / Fraction(s) ** 2 for s in self.sigma.tolist()]
        for first, end in itertools.pairwise(self.count.grove.starts):
            prices = []
            for leaf in range(first, end):
                at = slice(table.indptr[leaf], table.indptr[leaf + 1])
                entries = zip(table.indices[at].tolist(), table.data[at].tolist(), strict=True)
                prices.append(sum(each[i] * int(c) ** 2 for i, c in entries))
            worst += max(prices)
        return worst * self.count.loss.reach**2


class Walk(NamedTuple):
    """The forest, the guarantee, all that was asked as (counting object, sums, sums of neighbours)."""

    forest: Any
    guarantee: Any
    asked: list
    steps: list


def walk(kind, neighbours=(), seed=1, guarantee=None, **options):
    """A fit, and what was asked and released on its way."""
    codes, target = table(kind)
    rows = Walked(codes, target, neighbours)
    guarantee = promise(kind, **options) if guarantee is None else guarantee
    begun, sigmas, taken = [], [], []
    begin, take, noise_of = Fit.begin, Fit.take, descent._StepNoise.of

    def spy_begin(fit):
        begin(fit)
        begun.append(fit.strategy)

    def spy_take(fit, noisy):
        taken.append((len(begun) - 1, noisy.copy()))
        take(fit, noisy)

    def spy_noise(*given):
        found = noise_of(*given)
        sigma = np.full(len(found.keys), np.nan)
        for gaussian, places in found.drawn:
            assert np.isnan(sigma[places]).all()
            sigma[places] = gaussian.sigma
        sigma = sigma.reshape(-1, found.n_outputs)
        assert (sigma == sigma[:, :1]).all()  # all parts of a vector, and none without noise
        sigmas.append(sigma[:, 0])
        return found

    with (
        mock.patch.object(Fit, "begin", spy_begin),
        mock.patch.object(Fit, "take", spy_take),
        mock.patch.object(descent._StepNoise, "of", spy_noise),
    ):
        forest = fit_forest(rows, DOMAIN, TARGETS[kind], guarantee, Bits(seed))
    residuals = asked_of(rows.asked, "Residuals")
    steps = [
        Step(
            ("columns", "pairs")[stage], count, sums, [other for (other,) in others],
            begun[stage], sigmas[stage], noisy,
        )
        for (count, (sums,), others), (stage, noisy) in zip(residuals, taken, strict=True)
    ]  # fmt: skip
    return Walk(forest, guarantee, rows.asked, steps)


def priced(guarantee, use):
    """mu^2 of one step, as a fraction of the floats of the guarantee."""
    found = event(guarantee, use)
    return Fraction(found.reach) ** 2 / Fraction(found.noise) ** 2


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


def blocks(codes, target, *sizes):
    ends = np.cumsum([0, *sizes])
    return [Block(codes[a:b], target[a:b]) for a, b in zip(ends, [*ends[1:], len(codes)], strict=True)]


def with_event(guarantee, use, **changes):
    """The guarantee with one event changed."""
    events = [dataclasses.replace(e, **changes) if e.use == use else e for e in guarantee.events]
    return dataclasses.replace(guarantee, events=tuple(events))
