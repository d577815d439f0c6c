"""Weights from noisy sums: posterior means and evidence against dense formulas, and a known model."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from test_terms import category, number

from lumberjack import fitting
from lumberjack.fitting import SCALE, Fit, Noise, Prior, as_integers, shares
from lumberjack.terms import base_term, column_term, pair_term

PRIOR = Prior(0.3, 1)
STEP, BASE, LONGEST = fitting._STEP, fitting._BASE_STEP, fitting._REACH  # tuned, not derived
LATER = fitting._AVERAGED


def terms(n_columns, n_pairs=0):
    columns = [number(8, i, i) if i % 2 else category(5, i, i) for i in range(n_columns)]
    pairs = itertools.islice(itertools.combinations(columns, 2), n_pairs)
    return [base_term(1000.0), *map(column_term, columns), *(pair_term(*p) for p in pairs)]


@pytest.mark.parametrize(
    ("n_columns", "n_pairs"), [(1, 0), (2, 1), (3, 3), (7, 21), (150, 0), (40, 700)]
)
def test_shares_add_up_to_at_most_one(n_columns, n_pairs):
    """As the real numbers that the floats are."""
    found = shares(terms(n_columns, n_pairs))
    assert 1 - Fraction(1, 2**38) < sum(map(Fraction, found.tolist())) <= 1
    whole = 1 + n_columns + 0.2 * n_pairs
    expected = [1 / whole] + [1 / whole] * n_columns + [0.2 / whole] * n_pairs
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_weights_in_fixed_point_are_bounded():
    found = as_integers(np.array([0.0, 1.5, -2.25, 1e300, -np.inf, 0.4 / SCALE]))
    assert found.tolist() == [0, 3 * SCALE // 2, -9 * SCALE // 4, 30 * SCALE, -30 * SCALE, 0]


def centred(weights, term):
    """Weights minus their mean over rows, as independent ones are after each step."""
    return weights - np.average(weights[:, 0], weights=term.sizes)


def covariance_of(alike):
    return np.diag(alike) if alike.ndim == 1 else alike


def dense(term, tau, variance):
    """tau^2 K H (H tau^2 K H + H + variance)^-1."""
    H, K = np.diag(term.sizes * 0.3), covariance_of(term.alike[0])
    return tau**2 * K @ H @ np.linalg.inv(H @ K @ H * tau**2 + H + variance * np.eye(len(H)))


@pytest.mark.parametrize("make", [number, category])
def test_the_first_step_goes_towards_the_posterior_mean(make):
    some = [base_term(900.0), column_term(make(6, 2))]
    noise = Noise(20.0, 50)
    fit = Fit(some, PRIOR, noise)
    g = np.random.default_rng(0).normal(size=(len(some[1].sizes), 1)) * 40
    fit.take([np.array([[30.0]]), g])
    # Of an average over most of all steps; the column has 1 of 2 shares, and so has the base.
    variance = noise.deviation**2 * 2 / (LATER * noise.steps)
    expected = -STEP * dense(some[1], 0.3, variance) @ g
    if make is category:  # independent weights are centred after the step
        expected = centred(expected, some[1])
    np.testing.assert_allclose(fit.weights[1], expected, rtol=1e-6)
    # The base is N(0, 1.5^2) before anything is known, so its noisy gradient is shrunk.
    h = 900.0 * 0.3
    shrunk = 1.5**2 * h / (1.5**2 * h**2 + h + variance)
    np.testing.assert_allclose(fit.weights[0], -BASE * shrunk * 30.0)


def test_a_pair_moves_less_than_a_column_would():
    some = [base_term(900.0), pair_term(number(6, 2), category(4, 3, 1))]
    fit = Fit(some, PRIOR, Noise(20.0, 50))
    g = np.random.default_rng(1).normal(size=(len(some[1].sizes), 1)) * 40
    fit.take([np.zeros((1, 1)), g])
    variance = 20.0**2 * 6 / (LATER * 50)  # 0.2 of 1.2 shares
    np.testing.assert_allclose(fit.weights[1], -STEP * dense(some[1], 0.05, variance) @ g, rtol=1e-6)


def test_steps_shrink_where_many_trees_correct_the_same_error():
    some = terms(120)
    noise = Noise(0.5, 50)
    fit = Fit(some, PRIOR, noise)
    g = [np.ones((len(t.sizes), 1)) * t.sizes[:, None] for t in some]
    g = [v * np.sign(np.sin(np.arange(len(v))))[:, None] for v in g]
    fit.take(g)
    each = [dense(t, 0.3, noise.deviation**2 * 121 / (LATER * 50)) for t in some[1:]]
    gains = [
        np.abs(np.linalg.eigvals(P @ np.diag(t.sizes * 0.3))).max()
        for P, t in zip(each, some[1:], strict=True)
    ]
    assert LONGEST / sum(gains) < STEP / 1.5  # so the usual step would be too long
    expected = centred(-LONGEST / sum(gains) * each[0] @ g[1], some[1])
    np.testing.assert_allclose(fit.weights[1], expected, rtol=0.05)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("make", [number, category])
def test_evidence_is_the_density_of_a_gaussian(n_outputs, make):
    rng, term = np.random.default_rng(3), column_term(make(5, 1))
    h, spread = term.sizes * 0.3, term.sizes * 0.3 + 50.0
    b = rng.normal(size=(len(h), n_outputs)) * 30
    for alike in term.alike:
        found = fitting._evidence(b, h, spread, alike)
        expected = [
            multivariate_normal(
                cov=tau**2 * np.diag(h) @ covariance_of(alike) @ np.diag(h) + np.diag(spread)
            )
            .logpdf(b.T)
            .sum()
            for tau in fitting._TAUS
        ]
        np.testing.assert_allclose(found - found[0], np.array(expected) - expected[0], atol=1e-6)


def gradients(some, cells, z, odds):
    """Expected sums of the residual min(e^z, 1) and -min(e^-z, 1), one cell of the table at a time."""
    out = [np.zeros((len(t.sizes), 1)) for t in some]
    for leaf, size in cells:
        score = sum(w[at, 0] for w, at in zip(z, leaf, strict=True))
        chance = 1 / (1 + np.exp(-odds[leaf]))
        residual = (1 - chance) * min(np.exp(score), 1) - chance * min(np.exp(-score), 1)
        for v, at in enumerate(leaf):
            out[v][at] += size * residual
    return out


def additive(seed=0, rows=1e6):
    """Two columns, independent of each other, whose effects on the log odds add up."""
    rng = np.random.default_rng(seed)
    sizes = [np.append(rng.uniform(1, 3, n), 0.2) for n in (8, 5)]
    sizes = [s / s.sum() * rows for s in sizes]
    columns = [
        type(number(8))(0, number(8).kind, sizes[0]),
        type(number(8))(1, category(4).kind, sizes[1]),
    ]
    some = [base_term(rows), *map(column_term, columns)]
    effects = [np.linspace(-1.5, 1.5, 9), rng.normal(size=6) * 0.7]
    cells, odds = [], {}
    for i, j in itertools.product(range(9), range(6)):
        cells.append(((0, i, j), sizes[0][i] * sizes[1][j] / rows))
        odds[0, i, j] = -0.8 + effects[0][i] + effects[1][j]
    return some, cells, odds


def fitted(some, cells, odds, steps=800, start=()):
    fit = Fit(some, PRIOR, Noise(1e-3, steps), start)
    for _ in range(steps):
        fit.take(gradients(some, cells, fit.weights, odds))
    return fit.average()


def test_a_known_additive_model_is_recovered_without_noise():
    some, cells, odds = additive()
    found = fitted(some, cells, odds)
    scores = [sum(w[at, 0] for w, at in zip(found, leaf, strict=True)) for leaf, _ in cells]
    np.testing.assert_allclose(scores, [odds[leaf] for leaf, _ in cells], atol=0.03)


def test_a_fit_goes_on_where_another_stopped_and_leaves_it_alone():
    some, cells, odds = additive()
    first = fitted(some, cells, odds)
    kept = [w.copy() for w in first]
    again = fitted(some, cells, odds, steps=3, start=first)
    scores = [sum(w[at, 0] for w, at in zip(again, leaf, strict=True)) for leaf, _ in cells]
    np.testing.assert_allclose(scores, [odds[leaf] for leaf, _ in cells], atol=0.03)
    for w, before in zip(first, kept, strict=True):
        np.testing.assert_array_equal(w, before)


def test_where_noise_hides_everything_weights_stay_near_0():
    some, rng = terms(3, 2), np.random.default_rng(5)
    noise = Noise(3000.0, 60)
    fit = Fit(some, PRIOR, noise)
    deviation = noise.deviation / np.sqrt(shares(some))
    for _ in range(noise.steps):
        fit.take([rng.normal(size=(len(t.sizes), 1)) * s for t, s in zip(some, deviation, strict=True)])
    assert max(np.abs(w).max() for w in fit.average()[1:]) < 0.2


@pytest.mark.parametrize("steps", [1, 2, 5, 10])
def test_the_average_is_over_the_later_steps(steps):
    some, seen = terms(2), []
    fit = Fit(some, PRIOR, Noise(5.0, steps))
    rng = np.random.default_rng(steps)
    for _ in range(steps):
        fit.take([rng.normal(size=(len(t.sizes), 1)) * 20 for t in some])
        seen.append([w.copy() for w in fit.weights])
    kept = [w for taken, w in enumerate(seen, 1) if taken > fitting._BURN * steps]
    for v, found in enumerate(fit.average()):
        np.testing.assert_allclose(found, np.mean([w[v] for w in kept], axis=0))


@pytest.mark.parametrize("noisy", [0.0, 1e15, -1e15])
def test_weights_stay_finite_and_bounded(noisy):
    some = terms(3, 1)
    fit = Fit(some, PRIOR, Noise(1e6, 12))
    for _ in range(12):
        fit.take([np.full((len(t.sizes), 1), noisy) for t in some])
    assert all((np.abs(w) <= 30).all() for w in fit.average())


def test_thousands_of_categories_need_no_matrix():
    """A matrix of 20,000 categories would need 3.2 GB."""
    term = column_term(category(20_000, 4))
    assert [alike.shape for alike in term.alike] == [(20_002,)]  # missing and other values, too
    fit = Fit([base_term(term.sizes.sum()), term], PRIOR, Noise(20.0, 6))
    for _ in range(6):
        fit.take([np.zeros((1, 1)), np.random.default_rng(0).normal(size=(20_002, 1))])
    assert fit.weights[1].shape == (20_002, 1)
    assert abs(term.sizes @ fit.weights[1][:, 0]) < 1e-9 * term.sizes.sum()
