"""An audit of fitted leaves: residuals, noise and steps against what the guarantee prices.

Instruments, and planted leaks for each. *Residuals* of every row by itself, compared with the reach as
integers: exact, no false alarms. *Noise*: all noisy sums of a fit less the exact ones, in units of the
noise that was promised, by Kolmogorov and Smirnov at a false-alarm rate of 1e-6 (seeds are kept), leaves
and sums of several leaves apart. *Price*: the noise of all sums that a row may be in, and what a
neighbouring table would have changed at each step of the same transcript, added up and compared with the
mu^2 of the events: exact again. Last, an attack on released weights of neighbours:
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
    priced,
    promise,
    table,
    walk,
    with_event,
    without,
)
from scipy import stats

from lumberjack import Domain, NoisySums, descent, residuals, strategy
from lumberjack.accounting import calibrate
from lumberjack.accounting.events import spent
from lumberjack.descent import fit_forest
from lumberjack.engines.local import LocalRows
from lumberjack.noise import Bits, RoundedGaussian
from lumberjack.tree import Forest

KINDS = ["two classes", "four classes", "number"]


# Residuals of each row by itself.
def steps_of(kind):
    """What some steps of a fit ask."""
    found = [step.count for step in walk(kind).steps]
    return found[0], found[20], found[-1]


def longest_residual(kind, steps):
    """Largest squared length of a row's residuals over the square of what sums may move by."""
    codes, target = table(kind)
    longest = 0.0
    for count in steps:
        found = count.loss.residuals(scores_of(count, codes), target)
        bound = (count.loss.reach * count.loss.step) ** 2
        longest = max(longest, int((found**2).sum(axis=1).max()) / bound)
    return longest


def scores_of(count, codes):
    """Scores of rows, from the leaf of each in every tree."""
    leaf = Forest(count.grove.trees, (), count.grove.categorical).apply(codes)
    return count.weights[leaf + count.grove.starts[:-1]].sum(axis=1)


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_says_more_than_its_reach(kind):
    assert 0.25 < longest_residual(kind, steps_of(kind)) <= 1


def test_a_residual_that_escapes_by_one_fine_step_in_a_thousand_rows_is_seen(monkeypatch):
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
def noise_of_steps(kind):
    """What was added to each sum in units of the noise that is promised: leaves, and several leaves."""
    found = walk(kind, seed=11)
    alone, together = [], []
    for step in found.steps:
        use = event(found.guarantee, step.use)
        added = step.taken - step.released(step.sums) / step.count.loss.reach
        scaled = added * use.reach / use.noise * np.sqrt(step.strategy.shares)[:, None]
        single = np.abs(step.strategy.sums.toarray()).sum(axis=1) == 1
        # A group of one interval has the share of a group.
        single &= np.arange(len(single)) < np.flatnonzero(single).max() + 1
        alone.append(scaled[single].ravel())
        together.append(scaled[~single].ravel())
    return np.concatenate(alone), np.concatenate(together)


def too_little(monkeypatch, factor, which):
    """Draw less noise for sums of single leaves, or for those of several."""
    draw, begin, begun = descent._StepNoise.draw, descent.Fit.begin, []

    def leaky(noise, step, bits):
        size = np.abs(begun[-1].sums.toarray()).sum(axis=1)
        where = (size == 1) if which == "leaves" else (size > 1)
        drawn = draw(noise, step, bits)
        return np.where(where[:, None], np.rint(drawn * factor).astype(np.int64), drawn)

    monkeypatch.setattr(descent._StepNoise, "draw", leaky)
    monkeypatch.setattr(descent.Fit, "begin", lambda fit: begin(fit) or begun.append(fit.strategy))


@pytest.mark.parametrize("kind", KINDS)
def test_every_sum_has_the_noise_that_is_promised(kind):
    for found in noise_of_steps(kind):
        assert len(found) > 1000
        assert stats.kstest(found, "norm").pvalue > 1e-6


@pytest.mark.parametrize("which", ["leaves", "contrasts"])
@pytest.mark.parametrize("factor", [0.5, 0.7])
def test_too_little_noise_is_seen(factor, which, monkeypatch):
    too_little(monkeypatch, factor, which)
    seen = [stats.kstest(found, "norm").pvalue < 1e-6 for found in noise_of_steps("two classes")]
    assert seen == [which == "leaves", which == "contrasts"]


def overpaid(kind="two classes"):
    """What the noise of a step gives away of a row in the dearest leaves, over its price: 1 is right."""
    found = walk(kind)
    return max(step.dearest() / priced(found.guarantee, step.use) for step in found.steps[::59])


@pytest.mark.parametrize("kind", KINDS)
def test_all_sums_of_a_row_cost_one_step(kind):
    assert 1 - 1e-9 < overpaid(kind) <= 1


def test_contrasts_that_are_not_priced_are_seen(monkeypatch):
    monkeypatch.setattr(strategy, "_spent", lambda term: 0.5 if term.contrasts else 1.0)
    assert overpaid() > 1


def test_one_contrast_that_is_not_priced_is_seen(monkeypatch):
    spent = strategy._spent
    monkeypatch.setattr(strategy, "_spent", lambda term: max(spent(term) - 0.25, 0.75))
    assert overpaid() > 1


def test_a_row_in_two_groups_of_an_array_is_seen(monkeypatch):
    sums = strategy._sums

    def overlapping(term):
        found = sums(term).tolil()
        if len(term.contrasts) > 1:
            found[len(term.sizes) + 1, :] = 1  # the first of four groups gets all leaves
        return found.tocsr()

    monkeypatch.setattr(strategy, "_sums", overlapping)
    assert overpaid() > 1


def test_a_coefficient_of_two_is_seen(monkeypatch):
    sums = strategy._sums
    monkeypatch.setattr(strategy, "_sums", lambda term: sums(term) * (1 + (len(term.contrasts) == 1)))
    assert overpaid() > 1


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
    found = walk(kind, [without(kind, list(some)) for some in rows])
    guarantee = guarantee_of(found.guarantee)
    whole = sum(spent(e) for e in guarantee.events if isinstance(e, NoisySums))
    total = np.zeros(len(rows))
    for _, sums, others in asked_of(found.asked, "CellCounts"):
        sigma = event(guarantee, "sizes").noise * math.sqrt(len(sums))
        for n, other in enumerate(others):
            total[n] += sum(((a - b) ** 2).sum() for a, b in zip(sums, other, strict=True)) / sigma**2
    for step in found.steps:
        here = step.released(step.sums)
        for n, other in enumerate(step.others):
            total[n] += step.price(here - step.released(other))
    return total.max() / whole


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
    found = walk("two classes")
    paid = sum(event(found.guarantee, use).count for use in ("columns", "pairs"))
    return len(asked_of(found.asked, "Residuals")) - paid


@pytest.mark.parametrize("leaky", ["", "columns", "pairs"])
def test_a_step_that_is_not_priced_is_seen(leaky, monkeypatch):
    honest = descent._event

    def one_more(guarantee, use):
        count = honest(guarantee, use).count + (use == leaky)
        return honest(with_event(guarantee, use, count=count), use)

    monkeypatch.setattr(descent, "_event", one_more)
    assert steps_not_priced() == bool(leaky)


# An attack on released weights: one column, one step in each stage, so that many fits can be made.
EPSILON, DELTA, RUNS = 1.0, 0.1, 600
COLUMN = Domain({"c": ["canary", "others"]})


def small_promise():
    guarantee = with_event(promise("two classes", 1.0), "columns", count=1)
    guarantee = with_event(guarantee, "pairs", count=1)
    parts = [((event(guarantee, use),), share) for use, share in
             (("sizes", 0.1), ("columns", 0.45), ("pairs", 0.45))]  # fmt: skip
    for found in calibrate(EPSILON, DELTA, parts):
        guarantee = with_event(guarantee, found.use, noise=found.noise)
    return guarantee


def released(n_canaries, guarantee, seed):
    """All values that are released, of many fits, shape (n_runs, n_values)."""
    codes = np.array([[0]] * n_canaries + [[1]] * 5, dtype=np.uint32)
    target = (codes[:, 0] == 0).astype(np.int32)
    rows, found = LocalRows(codes, target), []
    for run in range(RUNS):
        forest = fit_forest(rows, COLUMN, TARGETS["two classes"], guarantee, Bits(seed * RUNS + run))
        found.append(np.concatenate([values.ravel() for values in forest.values]))
    return np.array(found)


def worst_weights(factor=1.0):
    """A linear discriminant of all values, and an event of it, both from the first half of all fits."""
    guarantee, half = small_promise(), RUNS // 2
    if factor != 1.0:
        for use in ("sizes", "columns", "pairs"):
            guarantee = with_event(guarantee, use, noise=event(guarantee, use).noise * factor)
    pair = released(0, guarantee, 1), released(1, guarantee, 2)
    within = sum(np.cov(values[:half].T) for values in pair)
    way = np.linalg.pinv(within) @ (pair[1][:half].mean(axis=0) - pair[0][:half].mean(axis=0))
    pair = tuple(values @ way for values in pair)
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


def test_weights_with_too_little_noise_are_seen():
    assert worst_weights(0.25) > DELTA
