"""Weights from noisy sums: a dense fit of a few steps, densities of Gaussians, and a known model."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from test_terms import category, dominated, number

from lumberjack import fitting
from lumberjack.fitting import SCALE, Fit, Prior, as_integers
from lumberjack.terms import Column, base_term, column_term, pair_term

PRIOR = Prior(0.3, 1)
STEP, BASE, LONGEST = fitting._STEP, fitting._BASE_STEP, fitting._REACH  # tuned, not derived
LATER, BURN, TYPICAL = fitting._AVERAGED, fitting._BURN, (1.5, 0.3, 0.05)


def terms(n_columns, n_pairs=0):
    make = (category, number, dominated)
    columns = [
        make[i % 3](*((3, i) if i % 3 == 2 else (9 if i % 3 else 5, i, i))) for i in range(n_columns)
    ]
    pairs = itertools.islice(itertools.combinations(columns, 2), n_pairs)
    return [base_term(1000.0), *map(column_term, columns), *(pair_term(*p) for p in pairs)]


def started(some, precisions, prior=PRIOR):
    fit = Fit(prior, np.array(precisions, dtype=float))
    fit.join(some)
    fit.begin()
    return fit


def test_weights_in_fixed_point_are_bounded():
    found = as_integers(np.array([0.0, 1.5, -2.25, 1e300, -np.inf, np.inf, np.nan, 0.4 / SCALE]))
    expected = [0, 1.5, -2.25, 30, -30, 30, 0, 0]
    assert found.tolist() == [weight * SCALE for weight in expected]


# A fit in dense matrices, one term at a time, from the formulas in the text.
def matrix(values):
    return np.diag(values) if values.ndim == 1 else values


def design(term):
    """Sums of a term and the weight of each: leaves by themselves 1/2, arrays of sums 1/4."""
    eye = np.eye(len(term.sizes))
    if not term.contrasts:
        return eye, np.ones(len(eye))
    together = np.vstack(term.contrasts)
    return np.vstack([eye, together]), np.repeat([0.5, 0.25], [len(eye), len(together)])


def noise_of(term):
    """Covariance of the weighted least squares estimates of a term of weight 1."""
    X, w = design(term)
    return np.linalg.inv(X.T @ np.diag(w) @ X)


def spends(term):
    return 0.5 + 0.25 * len(term.contrasts) if term.contrasts else 1.0


def shares(some, weights):
    spent = [w * spends(term) for w, term in zip(weights, some, strict=True)]
    return np.array(weights) / sum(spent)


class Dense:
    """All that is known of one term."""

    def __init__(self, term, born=0, prior=PRIOR):
        self.term, self.born = term, born
        self.H = np.diag(np.maximum(term.sizes, 1e-6) * prior.curvature)
        self.K, self.tau = matrix(term.alike[0]), TYPICAL[len(term.columns)]
        self.centred = bool(term.columns) and term.alike[0].ndim == 1
        self.w = self.newton = np.zeros((len(term.sizes), prior.n_outputs))
        self.m, self.precision, self.kept = None, 0.0, []

    def spread(self, precision):
        return self.H + noise_of(self.term) / precision

    def solve(self, to_come):
        """tau^2 K H (H tau^2 K H + R)^-1, R that of an average over most of all steps."""
        signal, H = self.tau**2 * self.K, self.H
        return (
            signal @ H @ np.linalg.inv(H @ signal @ H + self.spread(LATER * (self.precision + to_come)))
        )

    def see(self, noisy, precision):
        X, w = design(self.term)
        g = np.linalg.lstsq(X * np.sqrt(w)[:, None], noisy * np.sqrt(w)[:, None], rcond=None)[0]
        self.m = g if self.m is None else (self.m + g) / 2
        self.newton = self.newton + precision * (self.H @ self.w - g)
        self.precision += precision

    def learn(self):
        if not self.term.columns:
            return
        b, R, found = self.newton / self.precision, self.spread(self.precision), []
        for alike in self.term.alike:
            for tau in fitting._TAUS:
                cov = tau**2 * self.H @ matrix(alike) @ self.H + R
                score = multivariate_normal(cov=cov).logpdf(b.T).sum()
                away = np.log(tau / TYPICAL[len(self.term.columns)])
                found.append((score - away**2 / 2, tau, matrix(alike)))
        best = max(found, key=lambda f: f[0])
        same = [f for f in found if np.array_equal(f[2], best[2])]
        chance = np.array([np.exp(f[0] - best[0]) for f in same])
        self.K = best[2]
        self.tau = float(np.sqrt(chance @ [f[1] ** 2 for f in same] / chance.sum()))

    def move(self, to_come, rate):
        aim = self.solve(to_come) @ (self.H @ self.w - self.m)
        self.w = self.w + (rate if self.term.columns else BASE) * (aim - self.w)
        if self.centred:
            self.w = self.w - np.average(self.w, axis=0, weights=self.term.sizes)


class DenseFit:
    """The same of all terms, with a step that no eigenvalue makes unstable."""

    def __init__(self, precisions):
        self.steps, self.taken, self.each = np.array(precisions, dtype=float), 0, []

    def join(self, some, prior=PRIOR):
        self.each += [Dense(term, self.taken, prior) for term in some]

    def begin(self):
        some = [dense.term for dense in self.each]
        weights = [0.5 if len(term.columns) == 2 else 1.0 for term in some]
        to_come = shares(some, weights) * self.steps[self.taken :].sum()
        for v, dense in enumerate(self.each):
            if dense.term.columns:
                trace = np.trace(dense.solve(to_come[v]) @ dense.H)
                # Powers of two, and the root of how many weights can be told apart.
                weights[v] *= 2.0 ** round(np.log2(max(trace, 0.1)) / 2)
        self.of_term, self.stage = shares(some, weights), self.taken
        self.look()

    def look(self):
        columns = [d for d in self.each if d.term.columns]
        gains = [np.linalg.eigvals(self.fixed(d) @ d.H).real.max() for d in columns]
        self.rate = min(STEP, LONGEST / sum(gains))
        self.held = [(d, self.steps[self.taken :].sum() * s, d.precision) for d, s in self.shared()]

    def shared(self):
        return zip(self.each, self.of_term, strict=True)

    def fixed(self, dense):
        return dense.solve(self.steps[self.taken :].sum() * self.of_term[self.each.index(dense)])

    def take(self, noisy):
        at = 0
        for dense, share in self.shared():
            n = len(design(dense.term)[1])
            dense.see(noisy[at : at + n], self.steps[self.taken] * share)
            at += n
        self.taken += 1
        if self.taken - self.stage in (5, 15, 40):
            for dense in self.each:
                dense.learn()
            self.look()
        for dense, to_come, known in self.held:
            # P stays as it was when it was last looked at.
            dense.precision, now = known, dense.precision
            dense.move(to_come, self.rate)
            dense.precision = now
            if self.taken - dense.born > BURN * (len(self.steps) - dense.born):
                dense.kept.append((self.steps[self.taken - 1], dense.w))

    def weights(self):
        return np.vstack([dense.w for dense in self.each])

    def average(self):
        return [sum(p * w for p, w in d.kept) / sum(p for p, _ in d.kept) for d in self.each]


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("kind", ["number", "category", "yes or no", "number with contrasts", "pair"])
def test_the_first_step_goes_towards_the_posterior_mean(kind, n_outputs):
    term = {
        "number": column_term(number(2, 2)),
        "category": column_term(category(6, 2)),
        "yes or no": column_term(dominated(4)),
        "number with contrasts": column_term(number(20, 2)),
        "pair": pair_term(number(6, 2), category(4, 3, 1)),
    }[kind]
    assert bool(term.contrasts) == (kind in ("yes or no", "number with contrasts"))
    prior, some = Prior(0.3, n_outputs), [base_term(900.0), term]
    fit, dense = started(some, np.full(50, 1 / 400), prior), Dense(term, prior=prior)
    base, share = fit.strategy.of_term
    assert base + share * spends(term) == pytest.approx(1)
    noisy = np.random.default_rng(0).normal(size=(len(fit.strategy.shares), n_outputs)) * 40
    fit.take(noisy)
    dense.see(noisy[1:], 0.0)
    dense.move(50 / 400 * share, STEP)
    np.testing.assert_allclose(fit.weights[1:], dense.w, rtol=1e-6, atol=1e-9)
    # The base is N(0, 1.5^2) before anything is known, so its noisy gradient is shrunk.
    h, variance = 900.0 * 0.3, 400 / (LATER * 50 * base)
    shrunk = 1.5**2 * h / (1.5**2 * h**2 + h + variance)
    np.testing.assert_allclose(fit.weights[0], -BASE * shrunk * noisy[0])


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("n_columns", [1, 4])
def test_two_stages_are_those_of_a_dense_fit(n_columns, n_outputs):
    """Momentum, shares, learning after 5 steps, terms that join later, averages: all of it."""
    rng, prior = np.random.default_rng(n_columns), Prior(0.3, n_outputs)
    precisions = np.repeat([0.02, 0.05], [7, 9])
    more = terms(4, 3)[5:]
    fit, dense = Fit(prior, precisions), DenseFit(precisions)
    for joining, steps in ((terms(n_columns), 7), (more, 9)):
        for one in (fit, dense):
            one.join(joining, *([prior] if one is dense else []))
            one.begin()
        np.testing.assert_allclose(fit.strategy.of_term, dense.of_term, rtol=1e-9)
        for _ in range(steps):
            pull = rng.normal(size=(len(fit.strategy.shares), n_outputs)) * 60
            fit.take(pull)
            dense.take(pull)
            # Power iteration finds the largest eigenvalue to a few digits only.
            assert dense.rate == STEP
            np.testing.assert_allclose(fit.weights, dense.weights(), rtol=1e-5, atol=1e-7)
    for found, expected in zip(fit.average(), dense.average(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_steps_shrink_where_many_trees_correct_the_same_error():
    some, dense = terms(120), DenseFit(np.full(50, 4.0))
    fit = started(some, np.full(50, 4.0))
    dense.join(some)
    dense.begin()
    assert dense.rate < STEP / 1.5  # so the usual step would be too long
    noisy = fit.strategy.sums @ np.sin(np.arange(fit.strategy.sums.shape[1]))[:, None] * 30.0
    fit.take(noisy)
    dense.take(noisy)
    np.testing.assert_allclose(fit.weights, dense.weights(), rtol=0.05, atol=1e-4)
    first = [np.abs(w).max() for w in (fit.weights[1:], dense.weights()[1:])]
    assert first[0] == pytest.approx(first[1], rel=0.05)


@pytest.mark.parametrize("precision", [1e-8, 1e-4, 1.0, 1e6])
def test_shares_follow_the_root_of_what_can_be_told_apart(precision):
    """Rounded to powers of 2; a pair has half of it, the base has 1. Never nothing."""
    some = terms(6, 3)
    fit, dense = started(some, np.full(80, precision)), DenseFit(np.full(80, precision))
    dense.join(some)
    dense.begin()
    found = fit.strategy.of_term / fit.strategy.of_term[0]
    np.testing.assert_allclose(found, dense.of_term / dense.of_term[0], rtol=1e-12)
    np.testing.assert_array_equal(np.log2(found) % 1, 0)
    assert found.min() >= 0.125
    assert len(set(found.tolist())) > 2 or precision < 1e-6
    if precision == 1e-8:  # less than 0.1 weights: the root of a tenth is near a quarter
        np.testing.assert_allclose(found[1:], [0.25] * 6 + [0.125] * 3)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("make", [number, category, dominated])
def test_evidence_is_the_density_of_a_gaussian(n_outputs, make):
    """Up to one constant for all tau and all covariances; noise is independent, or a matrix."""
    rng, term = np.random.default_rng(3), column_term(make(9 if make is number else 5))
    h, n = term.sizes * 0.3, len(term.sizes)
    root = rng.normal(size=(n, n))
    b = rng.normal(size=(n, n_outputs)) * 30
    for spread in (h + 50.0, np.diag(h) + noise_of(term) * 70.0, root @ root.T * 9 + 20 * np.eye(n)):
        kinds = term.alike if spread.ndim == 1 else [a for a in term.alike if a.ndim == 2]
        found, expected = [], []
        for alike in kinds:
            found += fitting._evidence(b, h, spread, alike).tolist()
            for tau in fitting._TAUS:
                cov = tau**2 * np.diag(h) @ matrix(alike) @ np.diag(h) + matrix(spread)
                expected.append(multivariate_normal(cov=cov).logpdf(b.T).sum())
        if found:
            expected = np.array(expected) - expected[0]
            np.testing.assert_allclose(np.array(found) - found[0], expected, atol=1e-6)


def test_joining_leaves_what_was_learned_alone():
    some, rng = terms(3), np.random.default_rng(2)
    fit, same = started(some, np.full(20, 0.1)), started(some, np.full(20, 0.1))
    for _ in range(8):
        noisy = rng.normal(size=(len(fit.strategy.shares), 1)) * 30
        fit.take(noisy)
        same.take(noisy)
    before, now = fit.average(), fit.current()
    fit.join(terms(3, 2)[4:])
    pairs = [np.zeros((len(t.sizes), 1)) for t in fit.terms[4:]]
    for found, expected in ((fit.average(), before + pairs), (fit.current(), now + pairs)):
        assert [w.tolist() for w in found] == [w.tolist() for w in expected]
    assert fit.weights.shape == (sum(len(t.sizes) for t in fit.terms), 1)
    assert any(w.any() for w in now)
    # In the same stage of the others, the next step is as long as ever, and from the same momentum.
    fit.begin()
    same.begin()
    fit.take(np.zeros((len(fit.strategy.shares), 1)))
    same.take(np.zeros((len(same.strategy.shares), 1)))
    for found, expected in zip(fit.current()[:4], same.current(), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.1 * np.abs(expected).max())
    assert not any(w.any() for w in fit.current()[4:])


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_other_units_are_those_of_a_fit_that_had_them_before(factor):
    """Sums of the first step times ``factor``, whose precision is so much smaller."""
    some, rng = terms(4, 2), np.random.default_rng(4)
    fit = started(some, np.full(11, 0.05))
    other = started(some, np.append(0.05 / factor**2, np.full(10, 0.05)))
    noisy = rng.normal(size=(len(fit.strategy.shares), 1)) * 30
    other.strategy = fit.strategy
    fit.take(noisy)
    other.take(noisy * factor)
    fit.rescale(factor)
    other.weights[:] = fit.weights  # what is thought to be likely has no unit, so its step was another
    for one in (fit, other):
        one.begin()
    for _ in range(10):  # tau is learned from all steps: two sums of which one is in another unit
        noisy = rng.normal(size=(len(fit.strategy.shares), 1)) * 30
        fit.take(noisy)
        other.take(noisy)
        np.testing.assert_allclose(fit.weights, other.weights, rtol=1e-9, atol=1e-12)
    for one, two in zip(fit.average(), other.average(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


def test_averages_are_in_the_last_unit():
    some, rng = terms(3), np.random.default_rng(6)
    fit = started(some, np.full(4, 0.05))
    for _ in range(3):
        fit.take(rng.normal(size=(len(fit.strategy.shares), 1)) * 30)
    before = [fit.average(), [w.copy() for w in fit.current()]]
    fit.rescale(2.5)
    for found, expected in zip((fit.average(), fit.current()), before, strict=True):
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, two * 2.5, rtol=1e-12)


@pytest.mark.parametrize(("early", "late"), [(1, 1), (0, 2), (3, 7), (6, 4), (10, 30)])
def test_averages_are_over_later_steps_weighted_by_precision(early, late):
    """Of each term the last 80 % of the steps since it joined, whatever its share."""
    rng, seen = np.random.default_rng(early), []
    precisions = rng.uniform(0.01, 0.3, early + late)
    fit, n_first = Fit(PRIOR, precisions), len(terms(3))
    for joining, steps in ((terms(3), early), (terms(3, 2)[4:], late)):
        fit.join(joining)
        fit.begin()
        for _ in range(steps):
            fit.take(rng.normal(size=(len(fit.strategy.shares), 1)) * 20)
            seen.append([w.copy() for w in fit.current()])
    for v, found in enumerate(fit.average()):
        born = 0 if v < n_first else early
        kept = [i for i in range(early + late) if i + 1 - born > 0.2 * (early + late - born)]
        expected = sum(precisions[i] * seen[i][v] for i in kept) / precisions[kept].sum()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def gradients(some, cells, z, odds):
    """Expected sums of the residual min(e^z, 1) and -min(e^-z, 1), one cell of the table at a time."""
    out = [np.zeros((len(t.sizes), 1)) for t in some]
    for leaf, size in cells:
        score = sum(w[at, 0] for w, at in zip(z, leaf, strict=True))
        chance = 1 / (1 + np.exp(-odds[leaf]))
        residual = (1 - chance) * min(np.exp(score), 1) - chance * min(np.exp(-score), 1)
        for v, at in enumerate(leaf):
            out[v][at] += size * residual
    return np.vstack(out)


def additive(seed=0, rows=1e6):
    """Two columns, independent of each other, whose effects on the log odds add up."""
    rng = np.random.default_rng(seed)
    sizes = [np.append(rng.uniform(1, 3, n), 0.2) for n in (8, 5)]
    sizes = [s / s.sum() * rows for s in sizes]
    columns = [Column(0, number(8).kind, sizes[0]), Column(1, category(4).kind, sizes[1])]
    some = [base_term(rows), *map(column_term, columns)]
    effects = [np.linspace(-1.5, 1.5, 9), rng.normal(size=6) * 0.7]
    cells, odds = [], {}
    for i, j in itertools.product(range(9), range(6)):
        cells.append(((0, i, j), sizes[0][i] * sizes[1][j] / rows))
        odds[0, i, j] = -0.8 + effects[0][i] + effects[1][j]
    return some, cells, odds


def test_a_known_additive_model_is_recovered_without_noise():
    some, cells, odds = additive()
    fit = started(some, np.full(800, 1e6))
    for _ in range(800):
        fit.take(fit.strategy.sums @ gradients(some, cells, fit.current(), odds))
    found = fit.average()
    scores = [sum(w[at, 0] for w, at in zip(found, leaf, strict=True)) for leaf, _ in cells]
    np.testing.assert_allclose(scores, [odds[leaf] for leaf, _ in cells], atol=0.03)


def test_where_noise_hides_everything_weights_stay_near_0():
    rng, fit = np.random.default_rng(5), started(terms(3, 2), np.full(60, 3000.0**-2))
    deviation = 3000.0 / np.sqrt(fit.strategy.shares)[:, None]
    for _ in range(60):
        fit.take(rng.normal(size=deviation.shape) * deviation)
    assert max(np.abs(w).max() for w in fit.average()[1:]) < 0.2


@pytest.mark.parametrize("precision", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("noisy", [0.0, 1e15, -1e15])
def test_weights_stay_finite_and_bounded(noisy, precision):
    fit = started(terms(4, 1), np.full(12, precision))
    for _ in range(12):
        fit.take(np.full((len(fit.strategy.shares), 1), noisy))
        assert (np.abs(fit.weights) <= 30).all()
    assert all((np.abs(w) <= 30).all() for w in fit.average())


def test_thousands_of_categories_need_no_matrix():
    """A matrix of 20,000 categories would need 3.2 GB."""
    term = column_term(category(20_000, 4))
    assert [alike.shape for alike in term.alike] == [(20_002,)]  # missing and other values, too
    fit = started([base_term(term.sizes.sum()), term], np.full(6, 0.0025))
    for _ in range(6):
        fit.take(np.random.default_rng(0).normal(size=(20_003, 1)))
    base, weights = fit.current()
    assert (base.shape, weights.shape) == ((1, 1), (20_002, 1))
    assert abs(term.sizes @ weights[:, 0]) < 1e-9 * term.sizes.sum()
