"""An audit of fitted leaves: residuals, noise and steps against what the guarantee prices.

Three instruments, and a planted leak for each. *Residuals* of every row by itself, compared with the
reach as integers: exact, no false alarms. *Noise*: all noisy sums of a fit less the exact ones, in units
of the noise that was promised, by Kolmogorov and Smirnov at a false-alarm rate of 1e-6 (seeds are kept).
*Price*: what a neighbouring table would have changed at each step of the same transcript, added up and
compared with the mu^2 of the events: exact again. Last, an attack on released weights of neighbours:
event chosen on one half, counted on the other; 5 standard errors, false alarms below 1e-6.
"""

import math

import numpy as np
import pytest
from descents import (
    DOMAIN,
    TARGETS,
    asked_of,
    event,
    promise,
    table,
    term_shares,
    walk,
    with_event,
    without,
)
from scipy import stats

from lumberjack import Domain, NoisySums, descent, residuals
from lumberjack.accounting import calibrate
from lumberjack.accounting.events import spent
from lumberjack.descent import fit_forest
from lumberjack.engines.local import LocalRows
from lumberjack.fitting import Fit
from lumberjack.noise import Bits, RoundedGaussian
from lumberjack.tree import Forest

KINDS = ["two classes", "four classes", "number"]


# Residuals of each row by itself.
def steps_of(kind):
    """What some steps of a fit ask."""
    found = [count for count, *_ in asked_of(walk(kind)[2], "Residuals")]
    return found[0], found[20], found[-1]


def longest_residual(kind, steps):
    """Largest squared length of a row's residuals over the square of their reach."""
    codes, target = table(kind)
    longest = 0.0
    for count in steps:
        found = count.loss.residuals(scores_of(count, codes), target)
        longest = max(longest, int((found**2).sum(axis=1).max()) / count.loss.reach**2)
    return longest


def scores_of(count, codes):
    """Scores of rows, from the leaf of each in every tree."""
    leaf = Forest(count.grove.trees, (), count.grove.categorical).apply(codes)
    return count.weights[leaf + count.grove.starts[:-1]].sum(axis=1)


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_says_more_than_its_reach(kind):
    assert 0.25 < longest_residual(kind, steps_of(kind)) <= 1


def test_a_residual_that_escapes_by_one_unit_in_a_thousand_rows_is_seen(monkeypatch):
    codes, target = table("two classes")
    count = steps_of("two classes")[-1]
    score = scores_of(count, codes)[:, 0]
    cell = np.clip((score + 256) // 512, -2048, 2048) + 2048
    # The rarest score of a row whose residual is at its bound.
    bound = (target == 0) & (cell > 2048)
    found, n = np.unique(cell[bound], return_counts=True)
    assert n.min() <= len(codes) / 1000
    rarest = found[n.argmin()]
    whole = residuals._odds_table

    def leaky(reach):
        values = whole(reach).copy()
        values[rarest, 0] += 1
        return values

    assert longest_residual("two classes", [count]) <= 1
    monkeypatch.setattr(residuals, "_odds_table", leaky)
    assert longest_residual("two classes", [count]) > 1


# Noise of all noisy sums of a fit.
def noise_of_steps(kind, monkeypatch, factor=1.0):
    """What was added to each sum, divided by the noise that the guarantee promises."""

    class Less(RoundedGaussian):
        def __init__(self, sigma):
            super().__init__(sigma * factor)

    taken, take = [], Fit.take
    monkeypatch.setattr(descent, "RoundedGaussian", Less)
    monkeypatch.setattr(Fit, "take", lambda fit, noisy: taken.append(noisy) or take(fit, noisy))
    _, guarantee, asked = walk(kind, seed=11)
    steps, found = event(guarantee, "columns").count, []
    for step, (count, (sums,), _) in enumerate(asked_of(asked, "Residuals")):
        priced = event(guarantee, "columns" if step < steps else "pairs")
        share = np.repeat(term_shares(count.grove), np.diff(count.grove.starts))[:, None]
        added = np.concatenate(taken[step]) - sums / count.loss.reach
        found.append((added * priced.reach / priced.noise * np.sqrt(share)).ravel())
    assert len(taken) == step + 1
    return np.concatenate(found)


@pytest.mark.parametrize("kind", KINDS)
def test_every_sum_has_the_noise_that_is_promised(kind, monkeypatch):
    found = noise_of_steps(kind, monkeypatch)
    assert len(found) > 4000
    assert stats.kstest(found, "norm").pvalue > 1e-6


@pytest.mark.parametrize("factor", [0.5, 0.9])
def test_too_little_noise_is_seen(factor, monkeypatch):
    found = noise_of_steps("two classes", monkeypatch, factor)
    assert stats.kstest(found, "norm").pvalue < 1e-6


def cells_less_exact(monkeypatch, factor=1.0):
    """The same for the rows of all cells, over many fits of which only this is looked at."""

    class Less(RoundedGaussian):
        def __init__(self, sigma):
            super().__init__(sigma * factor)

    seen, sized = [], descent.expected_sizes
    monkeypatch.setattr(descent, "RoundedGaussian", Less)
    monkeypatch.setattr(descent, "expected_sizes", lambda c, *a: seen.append(c) or sized(c, *a))
    guarantee = with_event(with_event(promise("two classes"), "columns", count=1), "pairs", count=1)
    codes, target = table("two classes", 50)
    exact = [np.bincount(np.minimum(codes[:, j], k.size), minlength=k.size + 1)
             for j, k in enumerate(DOMAIN.known)]  # fmt: skip
    for seed in range(60):
        fit_forest(LocalRows(codes, target), DOMAIN, TARGETS["two classes"], guarantee, Bits(seed))
    added = np.concatenate(seen) - np.tile(np.concatenate(exact), 60)
    # Rounded to integers; spread over its cell it is a Gaussian again, up to its rounding.
    spread = np.random.default_rng(0).uniform(-0.5, 0.5, len(added))
    return (added + spread) / event(guarantee, "sizes").noise / math.sqrt(len(DOMAIN))


def test_cells_have_the_noise_that_is_promised(monkeypatch):
    assert stats.kstest(cells_less_exact(monkeypatch), "norm").pvalue > 1e-6


def test_cells_with_half_the_noise_are_seen(monkeypatch):
    assert stats.kstest(cells_less_exact(monkeypatch, 0.5), "norm").pvalue < 1e-6


# The price of all that a neighbour changes on one transcript.
def overspent(kind, guarantee_of=lambda found: found, rows=((0,), (5,), (2718,))):
    """mu^2 of the largest change over mu^2 of all noisy sums in the guarantee; at most 1 is right."""
    _, guarantee, asked = walk(kind, [without(kind, list(some)) for some in rows])
    guarantee = guarantee_of(guarantee)
    priced = sum(spent(e) for e in guarantee.events if isinstance(e, NoisySums))
    total = np.zeros(len(rows))
    steps = event(guarantee, "columns").count
    for _, sums, others in asked_of(asked, "CellCounts"):
        sigma = event(guarantee, "sizes").noise * math.sqrt(len(sums))
        for n, other in enumerate(others):
            total[n] += sum(((a - b) ** 2).sum() for a, b in zip(sums, other, strict=True)) / sigma**2
    for step, (count, (sums,), others) in enumerate(asked_of(asked, "Residuals")):
        use = event(guarantee, "columns" if step < steps else "pairs")
        share = np.repeat(term_shares(count.grove), np.diff(count.grove.starts))
        for n, (other,) in enumerate(others):
            moved = ((sums - other).astype(float) ** 2).sum(axis=1)
            total[n] += share @ moved / use.noise**2
    return total.max() / priced


@pytest.mark.parametrize("kind", KINDS)
def test_a_neighbour_changes_no_more_than_is_priced(kind):
    assert 0.05 < overspent(kind) <= 1


def test_the_price_is_reached_by_a_row_that_is_always_wrong():
    """A row in a cell of its own whose label all others contradict: nothing is paid in vain."""
    codes, target = table("two classes")
    wrong = np.flatnonzero(target != (codes[:, 0] < 6))
    assert overspent("two classes", rows=[(i,) for i in wrong[:200:20]]) > 0.6


def steps_not_priced():
    """Steps are counted, whatever they say."""
    _, guarantee, asked = walk("two classes")
    priced = event(guarantee, "columns").count + event(guarantee, "pairs").count
    return len(asked_of(asked, "Residuals")) - priced


@pytest.mark.parametrize("leaky", ["", "columns", "pairs"])
def test_a_step_that_is_not_priced_is_seen(leaky, monkeypatch):
    honest = descent._event

    def one_more(guarantee, use):
        count = honest(guarantee, use).count + (use == leaky)
        return honest(with_event(guarantee, use, count=count), use)

    monkeypatch.setattr(descent, "_event", one_more)
    assert steps_not_priced() == bool(leaky)


# An attack on released weights: one column, one step in each stage, so that many fits can be made.
EPSILON, DELTA, RUNS = 1.0, 0.1, 1_200
COLUMN = Domain({"c": ["canary", "others"]})


def small_promise():
    guarantee = with_event(promise("two classes", 1.0), "columns", count=1)
    guarantee = with_event(guarantee, "pairs", count=1)
    parts = [((event(guarantee, use),), share) for use, share in
             (("sizes", 0.1), ("columns", 0.1), ("pairs", 0.8))]  # fmt: skip
    for priced in calibrate(EPSILON, DELTA, parts):
        guarantee = with_event(guarantee, priced.use, noise=priced.noise)
    return guarantee


def weights(n_canaries, guarantee, seed):
    """Released score of the canary: the weights of its leaf and of the base."""
    codes = np.array([[0]] * n_canaries + [[1]] * 5, dtype=np.uint32)
    target = (codes[:, 0] == 0).astype(np.int32)
    rows, found = LocalRows(codes, target), []
    for run in range(RUNS):
        forest = fit_forest(rows, COLUMN, TARGETS["two classes"], guarantee, Bits(seed * RUNS + run))
        found.append(forest.values[0][0, 1] + forest.values[1][0, 1])
    return np.array(found)


def worst_weights(factor=1.0):
    guarantee, half = small_promise(), RUNS // 2
    if factor != 1.0:
        for use in ("sizes", "columns", "pairs"):
            guarantee = with_event(guarantee, use, noise=event(guarantee, use).noise * factor)
    pair = weights(0, guarantee, 1), weights(1, guarantee, 2)
    edges = np.quantile(np.concatenate([w[:half] for w in pair]), np.linspace(0, 1, 33)[1:-1])
    one, two = (np.searchsorted(edges, w) for w in pair)
    found = []
    for p, q in ((one, two), (two, one)):
        seen = [np.bincount(x[:half], minlength=32) for x in (p, q)]
        told = np.flatnonzero(seen[0] > math.exp(EPSILON) * seen[1])
        a, b = (np.isin(x[half:], told).mean() for x in (p, q))
        error = math.sqrt((a * (1 - a) + math.exp(2 * EPSILON) * b * (1 - b)) / half)
        found.append((a - math.exp(EPSILON) * b) - 5 * error)
    return max(found)


def test_released_weights_keep_the_promise():
    assert worst_weights() <= DELTA


def test_weights_with_a_quarter_of_the_noise_are_seen():
    assert worst_weights(0.25) > DELTA
