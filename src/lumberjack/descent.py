"""The training algorithm of fitted leaves: noisy sums over rows, and steps along them.

In: rows in codes of learned columns, and a guarantee with its noise. Out: a forest of one tree for
each column and each chosen pair of columns, whose leaf weights add up. Private sums exist in this
module until noise is added to them:

1. the rows of each cell of all columns are counted once;
2. the first steps fit the weights of columns alone, to find the columns that matter;
3. pairs of those columns join, as many as budget and rows can carry, and all weights are fitted on.

``fitting`` turns noisy sums into weights; ``residuals`` makes the sums; ``strategy`` says which of them
are released.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.accounting import Choices, NoisySums
from lumberjack.columns import NINETIETH, choose_place, coarse_places, coarse_value
from lumberjack.domain import Domain
from lumberjack.engines.base import Rows
from lumberjack.fitting import SCALE, Fit, Prior, as_integers
from lumberjack.grove import Grove
from lumberjack.guarantee import SUM_BOUND, Guarantee
from lumberjack.kinds import Categorical, Known, expand
from lumberjack.noise import Bits, RoundedGaussian, mix_keys
from lumberjack.priors import prior_within
from lumberjack.residuals import FARTHEST, FINE, Distances, Loss, Residuals
from lumberjack.targets import FITTED_SCALES, Target
from lumberjack.terms import (
    Column,
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
_PER_PAIR = 80.0  # mu times rows that a pair needs
# Usual clips: scores leave less than the target's own distances, whose 90 % quantile is its scale.
_USUAL = (SUM_BOUND / FITTED_SCALES / 16, SUM_BOUND / FITTED_SCALES)
_FEWEST = 10.0  # no table is taken to have fewer rows
# Largest noise on the grid of released sums: larger is slower to draw, smaller rounds sums. A grid of
# vectors rounds residuals of single rows, so it must be finer.
_MOST_NOISE, _MOST_OF_VECTORS = 2.0**13, 2.0**17
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
    ``reach`` (``Loss``). What is released of them has noise of variance noise^2 / share, with shares
    that add up to at most 1 for every row (``Strategy``). So a step costs at most (reach / noise)^2,
    whatever the weights and the trees are; both are functions of what was released before. For numbers,
    "clips" prices a choice before each stage (``choose_place``).
    """
    columns, total = _columns(rows, domain, guarantee, bits)
    stages = [_event(guarantee, use) for use in _STAGES]
    # The price of each step: what its noise tells if it released a single sum.
    of_step = np.array([(e.reach / e.noise) ** 2 for e in stages])
    precisions = np.repeat(of_step, [e.count for e in stages])
    # Curvature is that of a loss in its own unit, and depends on neither reach nor clip.
    loss = target.loss(1, 1)
    fit = Fit(Prior(loss.curvature, loss.n_outputs), precisions)
    descent = _Descent(rows, domain, target, guarantee, bits, n_threads, advance)
    fit.join([base_term(total), *map(column_term, columns)])
    unit = descent.run(fit, "columns", 1.0)
    pairs = [pair_term(*(columns[i] for i in pair)) for pair in _choose_pairs(fit, guarantee, total)]
    fit.join([term for term in pairs if term is not None])
    unit = descent.run(fit, "pairs", unit)
    values = [
        np.column_stack([term.sizes, as_integers(w * unit) / SCALE])
        for term, w in zip(fit.terms, fit.average(), strict=True)
    ]
    return Forest(tuple(term.tree for term in fit.terms), tuple(values), _categorical(domain))


def _event(guarantee: Guarantee, use: str) -> NoisySums:
    event = guarantee.event(use)
    if not isinstance(event, NoisySums):
        raise ValueError(f"the guarantee prices no {use}")
    return event


def _on_grid(event: NoisySums, shares: Floats, loss: Loss) -> NoisySums:
    """The event with noise and reach on a grid of fitting size.

    Formal guarantees
    -----------------
    Noise and reach are multiplied by the same power of 2, which is exact in floating point: the price
    stays the same.
    """
    most = _MOST_NOISE if loss.n_outputs == 1 else _MOST_OF_VECTORS
    largest = event.noise / math.sqrt(shares.min())
    finest = FINE // event.reach
    factor = 2 ** min(max(math.floor(math.log2(most / largest)), 0), finest.bit_length() - 1)
    return replace(event, noise=event.noise * factor, reach=event.reach * factor)


def _rounded(sums: Integers, loss: Loss) -> Integers:
    """Sums of residuals in steps of the released grid.

    Formal guarantees
    -----------------
    A row that moves a sum by at most ``reach * step`` moves the result by at most ``reach``.
    """
    return (sums + loss.step // 2) // loss.step


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


def _choose_pairs(fit: Fit, guarantee: Guarantee, total: float) -> list[tuple[int, int]]:
    """All pairs of the columns whose weights vary most over rows, as many as can be fitted."""
    event = _event(guarantee, "pairs")
    mu = math.sqrt(event.count) * event.reach / event.noise
    most = min(mu * total / _PER_PAIR, guarantee.n_estimators * (guarantee.n_estimators - 1) / 2)
    n_columns = math.floor((1 + math.sqrt(1 + 8 * most)) / 2)
    strength = [
        float((term.sizes / term.sizes.sum()) @ (w**2).sum(axis=1))
        for term, w in zip(fit.terms[1:], fit.current()[1:], strict=True)
    ]
    strongest = np.argsort(-np.array(strength), kind="stable")[:n_columns]
    return list(itertools.combinations(sorted(strongest.tolist()), 2))


class _Descent(NamedTuple):
    """What all steps share."""

    rows: Rows
    domain: Domain
    target: Target
    guarantee: Guarantee
    bits: Bits
    n_threads: int
    advance: Callable[[], None]

    def run(self, fit: Fit, use: str, unit: float) -> float:
        """Take the steps of one event; ``unit`` is that of the weights so far.

        Returns
        -------
        float
            The unit of weights from here on.
        """
        grove = Grove(tuple(term.tree for term in fit.terms), _categorical(self.domain))
        weights, clips = as_integers(fit.weights * unit), self.guarantee.event("clips")
        clip = self._clip(grove, weights, use) if clips else 0
        loss: Loss = self.target.loss(1, clip)
        fit.rescale(unit / loss.unit)
        fit.begin()
        event = _on_grid(_event(self.guarantee, use), fit.strategy.shares, loss)
        loss = self.target.loss(event.reach, clip)
        noise = _StepNoise.of(event.noise, fit.strategy.shares, loss.n_outputs, _STAGES[use])
        for step in range(event.count):
            weights = as_integers(fit.weights * loss.unit)
            (sums,) = self.rows.total(Residuals(grove, weights, loss, self.n_threads))
            released = _rounded(fit.strategy.sums @ sums, loss) + noise.draw(step, self.bits)
            fit.take(released / event.reach)
            self.advance()
        return loss.unit

    def _clip(self, grove: Grove, weights: Integers, use: str) -> int:
        """A 90 % quantile of the distances of scores from targets.

        Formal guarantees
        -----------------
        That of ``choose_place``: a choice of range 1.8, one for each stage.
        """
        (event,) = self.guarantee.events_for("clips")
        assert isinstance(event, Choices)
        (found,) = self.rows.total(Distances(grove, weights, self.n_threads))
        key = mix_keys(np.array([_CLIPS]), _STAGES[use])[0]
        first, last, low, high = coarse_places(np.array([1.0, FARTHEST, *_USUAL])).tolist()
        prior = prior_within((first, last), low, high)
        place = choose_place(found, (first, last), NINETIETH, event.exponent, self.bits, key, prior)
        return math.ceil(coarse_value(place))


class _StepNoise(NamedTuple):
    """Noise of all sums of a step: few distributions, each for many sums."""

    drawn: tuple[tuple[RoundedGaussian, Integers], ...]  # and the places of its draws
    keys: Any  # of each draw
    n_outputs: int

    @classmethod
    def of(cls, noise: float, shares: Floats, n_outputs: int, key: np.uint64) -> "_StepNoise":
        """Noise for sums of shape (n_sums, n_outputs), each with its share, shape (n_sums,)."""
        each = np.repeat(shares, n_outputs)
        drawn = [
            (RoundedGaussian(noise / math.sqrt(share)), np.flatnonzero(each == share))
            for share in sorted(set(shares.tolist()))
        ]
        return cls(tuple(drawn), _keys(np.array([key]), len(each)), n_outputs)

    def draw(self, step: int, bits: Bits) -> Integers:
        """Noise of one step, shape (n_sums, n_outputs)."""
        out = np.empty(len(self.keys), dtype=np.int64)
        keys = mix_keys(self.keys, np.uint64(step))
        for gaussian, places in self.drawn:
            out[places] = gaussian.draw(len(places), bits, keys[places])
        return out.reshape(-1, self.n_outputs)
