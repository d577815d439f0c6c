"""An attack on what is learned about columns: neighbouring tables, and the cuts and values they release.

All of a budget is spent on one query, and its worst tables are tried: one record more on one side of a
cut, or of a target's quantile; a value that nobody has, or about as many as its threshold. Event chosen
on one half, counted on the other; 5 standard errors: false alarms below 1e-6. Noise is seeded.
"""

import dataclasses
import math

import numpy as np
import pytest
from promises import plain

from lumberjack import Choices, Domain, ThresholdQueries
from lumberjack.accounting import calibrate
from lumberjack.columns import NINETIETH, CodeCounts, Quantile, choose_place
from lumberjack.engines.local import LocalRows
from lumberjack.kinds import CELLS, Numeric
from lumberjack.learning import Learner
from lumberjack.noise import Bits, ExponentialChoice

RUNS = 8_000
EPSILON, DELTA = 0.5, 0.1
GRID = Numeric(0, 1)


def promised(event, rows):
    """A guarantee that spends everything on one event."""
    events = calibrate(EPSILON, DELTA, [((event,), 1.0)], rows)
    return dataclasses.replace(plain(1.0, 1e-6), events=events, rows_per_person=rows, cut_levels=1)


def divergence(p, q):
    """The most that an event tells, chosen on one half of the runs: less 5 errors, and as seen."""
    half, found = RUNS // 2, []
    for one, two in ((p, q), (q, p)):
        values = np.unique(np.concatenate([one, two]))
        seen = [np.array([np.sum(x[:half] == v) for v in values]) for x in (one, two)]
        event = values[seen[0] > math.exp(EPSILON) * seen[1]]
        a, b = (np.isin(x[half:], event).mean() for x in (one, two))
        error = math.sqrt((a * (1 - a) + math.exp(2 * EPSILON) * b * (1 - b)) / half)
        most = a - math.exp(EPSILON) * b
        found.append((most - 5 * error, most))
    return np.max(found, axis=0)


def assert_kept(worst):
    """No event tells more than promised, and the attack sees something."""
    low, estimate = worst
    assert low <= DELTA
    assert estimate > DELTA / 20


# Cuts. Values lie at both ends and in the middle, so a cut is in one half or in the other.
ENDS = (0, CELLS // 2, CELLS - 1)


def cuts(sizes, promise):
    """Whether the cut is in the lower half, for each of RUNS columns."""
    codes = np.repeat(np.array(ENDS, dtype=np.uint32), sizes)[:, None]
    rows, bits = LocalRows(codes, np.zeros(len(codes), dtype=np.int32)), Bits(sum(sizes))
    learner = Learner(rows, promise, bits)
    found = [learner.cuts(0, str(run), GRID).places for run in range(RUNS)]
    return np.array(found)[:, 0] <= ENDS[1]


def worst_cuts(rows=1):
    promise = promised(Choices(1, 1.0, 1.0, use="cuts"), rows)
    tables = [((n, 6, 8), (n + rows, 6, 8)) for n in (7, 8)]
    return np.max([divergence(cuts(one, promise), cuts(two, promise)) for one, two in tables], axis=0)


@pytest.mark.parametrize("rows", [1, 3])
def test_cuts_keep_their_promise(rows):
    assert_kept(worst_cuts(rows))


def twice_as_far(quantile, exponent):
    """Scores that move by twice the range that is priced: -|left - right|."""
    return ExponentialChoice(2 * exponent / (quantile.below + quantile.above))


def test_a_range_of_2_priced_as_1_is_caught(monkeypatch):
    monkeypatch.setattr(Quantile, "choice", twice_as_far)
    assert worst_cuts()[0] > DELTA


# The scale of a target: values at 0 and 100, so many that a place between them is as far below the
# quantile as one beyond is above it, and a record at 200 that makes one worse and the other better.
def places(sizes, exponent):
    """Beyond which values the place of each of RUNS targets is."""
    found, grid = CodeCounts(np.array([0, 100, 200], dtype=np.uint32), np.array(sizes)), (0, 200)
    bits, keys = Bits(sum(sizes)), np.arange(RUNS, dtype=np.uint64)
    draws = [choose_place(found, grid, NINETIETH, exponent, bits, key) for key in keys]
    return np.searchsorted([0, 100, 200], draws)


def worst_places():
    (event,) = calibrate(EPSILON, DELTA, [((Choices(1, 1.0, 1.8, use="scale"),), 1.0)])
    tables = [((n, 5, 0), (n, 5, 1)) for n in (14, 20, 26)]
    found = [divergence(places(a, event.exponent), places(b, event.exponent)) for a, b in tables]
    return np.max(found, axis=0)


def test_quantiles_keep_their_promise():
    assert_kept(worst_places())


def test_a_quantile_priced_as_a_median_is_caught(monkeypatch):
    monkeypatch.setattr(
        Quantile, "choice", lambda q, e: ExponentialChoice(1.8 * e / (q.below + q.above))
    )
    assert worst_places()[0] > DELTA


# Categories and classes: one value for each run.
def released(n, promise):
    """Whether each of RUNS values that n rows have is released."""
    codes = np.repeat(np.arange(RUNS, dtype=np.uint32), n)[:, None]
    learner = Learner(LocalRows(codes, np.zeros(len(codes), dtype=np.int32)), promise, Bits(n))
    found = learner.categories(0, "value", range(RUNS)) if n else Domain.categorical([], missing=True)
    return np.isin(np.arange(RUNS), found.categories)


def worst_values(rows=1, lower_by=0.0):
    promise = promised(ThresholdQueries(1, 1.0, 0.0, 0.0, use="categories"), rows)
    (event,) = promise.events
    event = dataclasses.replace(event, threshold=event.threshold - lower_by)
    promise = dataclasses.replace(promise, events=(event,))
    sizes = (0, 1, round(event.threshold) - 1, round(event.threshold))
    found = [divergence(released(n, promise), released(n + rows, promise)) for n in sizes]
    return np.max(found, axis=0)


@pytest.mark.parametrize("rows", [1, 3])
def test_released_values_keep_their_promise(rows):
    assert_kept(worst_values(rows))


def test_a_value_released_below_its_threshold_is_caught():
    assert worst_values(lower_by=2.0)[0] > DELTA
