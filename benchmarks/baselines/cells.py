"""Rows as one-hot cells: bins of numbers, categories, and pairs of columns.

In: rows as numbers (``values_of``) and the public domain. Out: the cell of each row in each group of
cells, and sums over them. Bins are public, or cut by noisy histograms whose price the caller names.
"""

import math
from dataclasses import dataclass

import numpy as np

from lumberjack.kernels import kernel
from lumberjack.kinds import Categorical

BINS = 32  # of equal width, for a number
WIDE = 200  # a number with a larger range has as many bins on a signed logarithmic scale, too
COARSE = 6  # noisy quantile groups of a number
SCALES = (2, 4, 8, 16, 32)  # numbers of noisy quantile groups, each within those before
FOLDED = 12  # codes of a category with more values: the most frequent ones, and one for the rest
BLOCK = 4096  # rows at a time, so that their cells stay in the processor's cache


@dataclass(frozen=True)
class Coding:
    """Codes of a column's values: ``table[i]`` for a value that i of the sorted cuts do not exceed."""

    column: int
    cuts: np.ndarray
    table: np.ndarray

    @property
    def size(self):
        return int(self.table.max()) + 1

    def codes(self, values):
        """Codes of rows, shape (n_rows,)."""
        return self.table[np.searchsorted(self.cuts, values[:, self.column], side="right")]


def cut_at(column, cuts):
    """A code for each interval between those cuts."""
    cuts = np.unique(np.asarray(cuts, dtype=float))
    return Coding(column, cuts, np.arange(len(cuts) + 1))


def even_bins(column, kind):
    """A code a category, or BINS bins of equal width."""
    if isinstance(kind, Categorical):
        return cut_at(column, np.arange(1, kind.size))
    return cut_at(column, np.linspace(kind.low, kind.high, BINS + 1)[1:-1])


def log_bins(column, kind):
    """BINS bins of equal width on the scale sign(x) log(1 + |x|)."""
    ends = np.array([kind.low, kind.high])
    ends = np.sign(ends) * np.log1p(np.abs(ends))
    even = np.linspace(*ends, BINS + 1)[1:-1]
    return cut_at(column, np.sign(even) * np.expm1(np.abs(even)))


def public_codings(domain):
    """One coding a column, and a second one for numbers of a wide range."""
    out = []
    for j, kind in enumerate(domain.kinds):
        out.append(even_bins(j, kind))
        if not isinstance(kind, Categorical) and kind.high - kind.low > WIDE:
            out.append(log_bins(j, kind))
    return out


def histograms(values, domain, mu, rng):
    """For each column: its finest coding, its kind, and noisy counts of its codes where they are needed.

    They are for numbers and for categories with many values. A row is in one cell of each histogram.
    Noise sqrt(histograms) / mu makes all of them together mu-GDP.
    """
    fine = []
    for j, kind in enumerate(domain.kinds):
        cuts = [c.cuts for c in public_codings(domain) if c.column == j]
        fine.append((cut_at(j, np.concatenate(cuts)), kind))
    to_learn = [not isinstance(kind, Categorical) or kind.size > FOLDED for _, kind in fine]
    noise = math.sqrt(sum(to_learn)) / mu
    for (coding, kind), needed in zip(fine, to_learn, strict=True):
        counts = None
        if needed:
            counts = np.bincount(coding.codes(values), minlength=coding.size)
            counts = counts + rng.normal(scale=noise, size=coding.size)
        yield coding, kind, counts


def coarse(coding, kind, counts):
    """Few codes for a column: noisy quantiles of a number, the frequent ones of many categories."""
    if counts is None:
        return coding
    return fold(coding, counts) if isinstance(kind, Categorical) else cut_at_quantiles(coding, counts)


def coarse_codings(values, domain, mu, rng):
    """One coding a column, of few codes; for the price of ``histograms``."""
    return [coarse(*found) for found in histograms(values, domain, mu, rng)]


def nested_codings(coding, kind, counts):
    """A number's noisy quantiles on all SCALES, from halves to the finest; a category as it is."""
    if isinstance(kind, Categorical):
        return [coding]
    return [cut_at_quantiles(coding, counts, size) for size in SCALES]


def cut_at_quantiles(coding, counts, most=COARSE):
    """At most so many intervals of about equal counts, which may be negative."""
    below = np.maximum.accumulate(np.cumsum(counts))
    goals = below[-1] * np.arange(1, most) / most
    last = np.searchsorted(below, goals)  # bin of each group with which its goal is reached
    return cut_at(coding.column, coding.cuts[last[last < len(coding.cuts)]])


def fold(coding, counts):
    """The FOLDED - 1 largest counts keep a code of their own."""
    table = np.full(coding.size, FOLDED - 1)
    table[np.argsort(-counts)[: FOLDED - 1]] = np.arange(FOLDED - 1)
    return Coding(coding.column, coding.cuts, table)


class OneHot:
    """Rows as vectors of norm 1, with one weight in each group of cells and 0 elsewhere.

    Parameters
    ----------
    groups : list of tuple of Coding
        A group has a cell for each combination of codes; the empty tuple is one cell for all rows.
    weights : array-like, shape (n_groups,)
        What a row has in its cell, up to a common factor.
    """

    def __init__(self, groups, weights):
        self.groups = groups
        self.sizes = [math.prod(coding.size for coding in group) for group in groups]
        weights = np.asarray(weights, dtype=float)
        self.weight = np.repeat(weights / np.linalg.norm(weights), self.sizes)[:, None]

    def cells(self, values):
        """Cell of each row in each group, counted through, shape (n_rows, n_groups)."""
        out = np.empty((len(values), len(self.groups)), dtype=np.min_scalar_type(len(self.weight)))
        codes = {id(coding): coding.codes(values) for group in self.groups for coding in group}
        first = 0
        for g, (group, size) in enumerate(zip(self.groups, self.sizes, strict=True)):
            cell = np.zeros(len(values), dtype=np.int64)
            for coding in group:
                cell = cell * coding.size + codes[id(coding)]
            out[:, g] = first + cell
            first += size
        return out

    def scores(self, cells, w):
        """Products of rows and weights ``w``, shape (n_rows, n_outputs)."""
        return _gather(cells, self.weight * w)

    def gradient(self, cells, w, residual):
        """Sum over rows of their vector times ``residual(scores, rows)``, of the shape of ``w``."""
        out, scaled = np.zeros(w.shape), self.weight * w
        for i in range(0, len(cells), BLOCK):
            rows = slice(i, i + BLOCK)
            _scatter(cells[rows], residual(_gather(cells[rows], scaled), rows), out)
        return self.weight * out


@kernel
def _gather(cells, w):
    """Sum of the rows of ``w`` that each row's cells name."""
    n, width = cells.shape
    out = np.empty((n, w.shape[1]))
    for i in range(n):
        for k in range(w.shape[1]):
            total = 0.0
            for j in range(width):
                total += w[cells[i, j], k]
            out[i, k] = total
    return out


@kernel
def _scatter(cells, given, out):
    """Add what each row is given to its cells: the transpose of ``_gather``."""
    n, width = cells.shape
    for i in range(n):
        for k in range(out.shape[1]):
            for j in range(width):
                out[cells[i, j], k] += given[i, k]
