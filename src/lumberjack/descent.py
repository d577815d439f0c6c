"""The training algorithm of fitted leaves: noisy sums over rows, and steps along them.

In: rows in codes of learned columns, and a guarantee with its noise. Out: a forest of one tree for
each column and each chosen pair of columns, whose leaf weights add up. Private sums exist in this
module until noise is added to them:

1. the rows of each cell of all columns are counted once;
2. the weights of columns are fitted alone, to find the columns that matter;
3. pairs of those columns join, as many as budget and rows can carry, and all weights are fitted.

``fitting`` turns noisy sums into weights; ``residuals`` makes the sums.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.accounting import Choices, NoisySums
from lumberjack.columns import NINETIETH, choose_place, coarse_places, coarse_value
from lumberjack.domain import Domain
from lumberjack.engines.base import Rows
from lumberjack.fitting import SCALE, Fit, Noise, Prior, as_integers, shares
from lumberjack.guarantee import Guarantee
from lumberjack.kinds import Categorical, Known, expand
from lumberjack.noise import Bits, RoundedGaussian, mix_keys
from lumberjack.residuals import FARTHEST, Distances, Grove, Residuals
from lumberjack.targets import Target
from lumberjack.terms import (
    Column,
    Term,
    base_term,
    column_term,
    expected_sizes,
    n_cells,
    pair_term,
)
from lumberjack.tree import Forest

__all__ = ["CellCounts", "fit_forest"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SIZES = np.uint64(0x512E5)  # keys of the noise of cell sizes, and of the steps of each stage
_CLIPS = np.uint64(0xC11B5)
_STAGES = {"columns": np.uint64(0x57A6E1), "pairs": np.uint64(0x57A6E2)}
_PER_PAIR = 75.0  # mu times rows that a pair needs
_FEWEST = 10.0  # no table is taken to have fewer rows
_QUICK = 2.0**18  # largest noise that is drawn from a table (``RoundedGaussian``)
_ROUNDED = 1 + 2.0**-40  # more than what rounding takes from a variance


class CellCounts(NamedTuple):
    """A counting object: rows of each cell of all columns (``terms.Column``), one array for each column.

    Attributes
    ----------
    kinds : tuple
        The columns.
    """

    kinds: tuple[Known, ...]

    def __call__(self, block: Any) -> list[Integers]:
        """One array for each column, shape (n_cells,)."""
        out = []
        for j, kind in enumerate(self.kinds):
            cells = np.minimum(expand(block.codes[:, j]), np.uint32(kind.size))
            out.append(np.bincount(cells, minlength=n_cells(kind)))
        return out


def fit_forest(
    rows: Rows,
    domain: Domain,
    target: Target,
    guarantee: Guarantee,
    bits: Bits,
    n_threads: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> Forest:
    """Fit the leaves of all columns, and of pairs of columns, together.

    Returns
    -------
    Forest
        The values of a leaf are its expected number of rows and its weights.

    Formal guarantees
    -----------------
    Three noisy sums of ``guarantee`` price all that is released. "sizes": a row is in one cell of each
    of d columns, whose noise has d times the variance of the event's. "columns" and "pairs": in each
    step, whose number is fixed, a row changes in each tree one sum, or one vector of sums, by at most
    ``reach`` (``Loss``), and tree v has noise of variance noise^2 / a_v with shares a_v that add up to
    at most 1 (``fitting.shares``). So a step costs at most (reach / noise)^2, whatever the weights and
    the trees are; both are functions of what was released before. For numbers, "clips" prices a choice
    before each stage (``choose_place``).
    """
    columns, total = _columns(rows, domain, guarantee, bits)
    terms: list[Term] = [base_term(total), *map(column_term, columns)]
    stage = _Stage(rows, domain, target, guarantee, bits, n_threads, advance)
    weights = stage.fit(terms, "columns", ())
    for pair in _choose_pairs(terms, weights, guarantee, total):
        term = pair_term(*(columns[i] for i in pair))
        if term is not None:
            terms.append(term)
    weights = stage.fit(terms, "pairs", weights)
    values = [
        np.column_stack([term.sizes, as_integers(w) / SCALE])
        for term, w in zip(terms, weights, strict=True)
    ]
    return Forest(tuple(term.tree for term in terms), tuple(values), _categorical(domain))


def _event(guarantee: Guarantee, use: str) -> NoisySums:
    event = guarantee.event(use)
    if not isinstance(event, NoisySums):
        raise ValueError(f"the guarantee prices no {use}")
    return event


def _quick(event: NoisySums, of_term: Floats) -> NoisySums:
    """The event on a coarser grid of residuals, where the noise of a term is slow to draw otherwise.

    Formal guarantees
    -----------------
    Noise and reach are halved together, which is exact in floating point: the price stays the same.
    """
    largest = 1 / math.sqrt(of_term.min())
    while event.reach % 2 == 0 and event.noise * largest > _QUICK:
        event = replace(event, noise=event.noise / 2, reach=event.reach // 2)
    return event


def _categorical(domain: Domain) -> NDArray[np.bool_]:
    return np.array([isinstance(kind, Categorical) for kind in domain.known])


def _columns(rows: Rows, domain: Domain, guarantee: Guarantee, bits: Bits) -> tuple[list[Column], float]:
    """All columns with the expected sizes of their cells, and the expected number of rows."""
    counts = rows.total(CellCounts(tuple(domain.known)))
    noise = _event(guarantee, "sizes").noise * math.sqrt(len(counts) * _ROUNDED)
    draw = RoundedGaussian(noise)
    noisy = []
    for j, exact in enumerate(counts):
        keys = _keys(mix_keys(np.array([_SIZES]), np.uint64(j)), len(exact))
        noisy.append((exact + draw.draw(len(exact), bits, keys)).astype(np.float64))
    # All columns have the same total. Too high an estimate would make noise look like data, so it is
    # lowered by its standard deviation.
    spread = noise * math.sqrt(sum(map(len, noisy))) / len(noisy)
    total = max(float(np.mean([c.sum() for c in noisy])) - spread, _FEWEST)
    sizes = [expected_sizes(c, noise, total) for c in noisy]
    each = zip(domain.known, sizes, strict=True)
    return [Column(j, kind, size) for j, (kind, size) in enumerate(each)], total


def _keys(key: Any, n: int) -> Any:
    return mix_keys(np.repeat(key, n), np.arange(n, dtype=np.uint64))


def _choose_pairs(
    terms: Sequence[Term], weights: Sequence[Floats], guarantee: Guarantee, total: float
) -> list[tuple[int, int]]:
    """All pairs of the columns whose weights vary most over rows, as many as can be fitted."""
    event = _event(guarantee, "pairs")
    mu = math.sqrt(event.count) * event.reach / event.noise
    most = min(mu * total / _PER_PAIR, guarantee.n_estimators * (guarantee.n_estimators - 1) / 2)
    n_columns = math.floor((1 + math.sqrt(1 + 8 * most)) / 2)
    strength = [
        float((term.sizes / term.sizes.sum()) @ (w**2).sum(axis=1))
        for term, w in zip(terms[1:], weights[1:], strict=True)
    ]
    strongest = np.argsort(-np.array(strength), kind="stable")[:n_columns]
    return list(itertools.combinations(sorted(strongest.tolist()), 2))


class _Stage(NamedTuple):
    """What all steps share."""

    rows: Rows
    domain: Domain
    target: Target
    guarantee: Guarantee
    bits: Bits
    n_threads: int
    advance: Callable[[], None]

    def fit(self, terms: Sequence[Term], use: str, start: Sequence[Floats]) -> list[Floats]:
        """Weights of all terms, after the steps of one event."""
        event = _quick(_event(self.guarantee, use), shares(terms))
        grove = Grove(tuple(term.tree for term in terms), _categorical(self.domain))
        clip = self._clip(grove, start, use) if self.guarantee.event("clips") else 0
        loss = self.target.loss(event.reach, clip)
        size, scale = (int(grove.starts[-1]), loss.n_outputs), loss.unit
        noise = _StepNoise.of(event.noise, shares(terms), grove.starts, loss.n_outputs, _STAGES[use])
        prior = Prior(loss.curvature, loss.n_outputs)
        deviation = Noise(event.noise / event.reach, event.count)
        fit = Fit(terms, prior, deviation, [w / scale for w in start])
        for step in range(event.count):
            weights = as_integers(np.concatenate(fit.weights) * scale)
            (sums,) = self.rows.total(Residuals(grove, weights, loss, self.n_threads))
            noisy = (sums + noise.draw(step, self.bits).reshape(size)) / event.reach
            fit.take(np.split(noisy, grove.starts[1:-1]))
            self.advance()
        return [w * scale for w in fit.average()]

    def _clip(self, grove: Grove, start: Sequence[Floats], use: str) -> int:
        """A 90 % quantile of the distances of scores from targets.

        Formal guarantees
        -----------------
        That of ``choose_place``: a choice of range 1.8, one for each stage.
        """
        (event,) = self.guarantee.events_for("clips")
        assert isinstance(event, Choices)
        weights = np.zeros((int(grove.starts[-1]), 1), dtype=np.int64)
        known = np.concatenate([as_integers(w) for w in start]) if start else weights[:0]
        weights[: len(known)] = known
        (found,) = self.rows.total(Distances(grove, weights, self.n_threads))
        key = mix_keys(np.array([_CLIPS]), _STAGES[use])[0]
        grid = coarse_places(np.array([1.0, FARTHEST])).tolist()
        place = choose_place(found, (grid[0], grid[1]), NINETIETH, event.exponent, self.bits, key)
        return math.ceil(coarse_value(place))


class _StepNoise(NamedTuple):
    """Noise of all sums of a step: few distributions, each for the leaves of several trees."""

    drawn: tuple[tuple[RoundedGaussian, Integers], ...]  # and the places of its sums
    keys: Any  # of each sum

    @classmethod
    def of(
        cls, noise: float, of_term: Floats, starts: Integers, n_outputs: int, key: np.uint64
    ) -> "_StepNoise":
        """Noise for sums of shape (n_leaves, n_outputs), in which each term has its share."""
        n = int(starts[-1]) * n_outputs
        term = np.repeat(np.arange(len(of_term)), np.diff(starts) * n_outputs)
        drawn = []
        for share in sorted(set(of_term.tolist())):
            places = np.flatnonzero(of_term[term] == share)
            drawn.append((RoundedGaussian(noise / math.sqrt(share)), places))
        return cls(tuple(drawn), _keys(np.array([key]), n))

    def draw(self, step: int, bits: Bits) -> Integers:
        """Noise of one step, shape (n_sums,)."""
        out = np.empty(len(self.keys), dtype=np.int64)
        keys = mix_keys(self.keys, np.uint64(step))
        for gaussian, places in self.drawn:
            out[places] = gaussian.draw(len(places), bits, keys[places])
        return out
