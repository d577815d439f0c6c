"""Which sums a step releases: prices as fractions, least squares densely, noise by simulation."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse, stats
from test_terms import category, dominated, number

from lumberjack.strategy import Strategy, unit_covariance
from lumberjack.terms import base_term, column_term, pair_term

NUMBERS = [column_term(number(n, n)) for n in range(1, 33)]
CATEGORIES = [column_term(category(n, n)) for n in (1, 2, 3, 7, 63, 64, 2_000, 20_000)]
YES_NO = [column_term(dominated(n)) for n in (1, 2, 5, 40)]
PAIRS = [
    pair_term(*pair)
    for pair in itertools.combinations([number(32, 1), category(9, 2, 1), dominated(3, 2), number(3)], 2)
]
TERMS = {
    "base": [base_term(900.0)],
    **{f"number of {n}": [NUMBERS[n - 1]] for n in (1, 2, 3, 4, 5, 8, 9, 17, 31, 32)},
    "category": [CATEGORIES[2]],
    "yes or no": [YES_NO[1]],
    "pair": [PAIRS[0]],
    "numbers": NUMBERS,
    "categories": CATEGORIES,
    "all": [base_term(900.0), *NUMBERS, *CATEGORIES, *YES_NO, *PAIRS],
    "many": [base_term(900.0), *NUMBERS * 12, *YES_NO * 30, *PAIRS * 100],
}


def weights_of(terms, kind):
    """Weights as a fit sets them, or any others."""
    if kind == "equal":
        return np.ones(len(terms))
    rng = np.random.default_rng(len(terms))
    if kind == "powers of 2":
        return 2.0 ** rng.integers(-3, 6, len(terms))
    return rng.gamma(0.3, 1.0, len(terms)) + 1e-9


def spent_by_leaf(strategy):
    """Shares of the sums a row of each leaf is in, times its squared coefficient, as exact fractions."""
    table = sparse.csc_array(strategy.sums)
    shares = [Fraction(s) for s in strategy.shares.tolist()]
    out = []
    for a, b in itertools.pairwise(table.indptr):
        entries = zip(table.indices[a:b].tolist(), table.data[a:b].tolist(), strict=True)
        out.append(sum((shares[at] * int(value) ** 2 for at, value in entries), Fraction(0)))
    return out


@pytest.mark.parametrize("kind", ["equal", "powers of 2", "any"])
@pytest.mark.parametrize("name", TERMS)
def test_no_row_spends_more_than_the_whole_price(name, kind):
    """The worst row is in the most expensive leaf of every term. Nothing to speak of is left unused."""
    terms = TERMS[name]
    strategy = Strategy.of(terms, weights_of(terms, kind))
    spent, at, worst = spent_by_leaf(strategy), 0, Fraction(0)
    for term in terms:
        worst += max(spent[at : at + len(term.sizes)])
        at += len(term.sizes)
    assert at == len(spent)
    assert 1 - Fraction(1, 2**38) < worst <= 1


@pytest.mark.parametrize("name", TERMS)
def test_every_leaf_is_released_by_itself(name):
    """So nothing that the sums of several leaves leave out is lost, e.g. rows without a value."""
    terms = TERMS[name]
    strategy = Strategy.of(terms, np.ones(len(terms)))
    table = sparse.csr_array(strategy.sums)
    single = table[np.diff(table.indptr) == 1]
    assert set(single.indices.tolist()) == set(range(table.shape[1]))
    assert set(table.data.tolist()) <= {-1, 1}
    assert table.dtype == np.int64
    assert strategy.shares.shape == (table.shape[0],)
    assert strategy.of_term.shape == (len(terms),)


@pytest.mark.parametrize("name", TERMS)
def test_estimates_are_unbiased(name):
    """Estimates from sums without noise are the sums of leaves: the product is the identity."""
    strategy = Strategy.of(TERMS[name], weights_of(TERMS[name], "any"))
    away = strategy.estimates @ strategy.sums - sparse.eye_array(strategy.sums.shape[1])
    assert abs(away).max() < 1e-12


@pytest.mark.parametrize("name", TERMS)
def test_the_covariance_of_estimates_is_the_closed_form(name):
    """E diag(1 / share) E^T, one term at a time, and no covariance across terms."""
    terms = [t for t in TERMS[name] if len(t.sizes) < 3000]
    strategy = Strategy.of(terms, weights_of(terms, "any"))
    estimates = sparse.csr_array(strategy.estimates)
    found = sparse.csr_array(estimates @ sparse.diags_array(1 / strategy.shares) @ estimates.T)
    at, inside = 0, 0.0
    for term, share in zip(terms, strategy.of_term, strict=True):
        unit, end = unit_covariance(term), at + len(term.sizes)
        expected = (np.diag(unit) if unit.ndim == 1 else unit) / share
        block = found[at:end, at:end].toarray()
        np.testing.assert_allclose(block, expected, atol=1e-9 / share)
        inside, at = inside + np.abs(block).sum(), end
    assert abs(found).sum() == pytest.approx(inside)


def test_estimates_are_those_of_least_squares():
    """Weighted least squares, solved for one vector of noisy sums."""
    terms = [column_term(number(13, 5)), column_term(dominated(4))]
    strategy = Strategy.of(terms, np.array([1.0, 2.0]))
    noisy = np.random.default_rng(0).normal(size=strategy.shares.shape)
    root = np.sqrt(strategy.shares)
    expected = np.linalg.lstsq(strategy.sums.toarray() * root[:, None], noisy * root, rcond=None)[0]
    np.testing.assert_allclose(strategy.estimates @ noisy, expected, atol=1e-9)


def test_simulated_noise_has_the_covariance_that_is_said():
    """Whitened estimates of 20,000 draws are standard normal, two-sided at 1e-6 each, seed kept."""
    terms, n = [column_term(number(9, 3)), column_term(dominated(2)), column_term(category(6))], 20_000
    strategy = Strategy.of(terms, np.array([1.0, 0.5, 2.0]))
    rng, sigma = np.random.default_rng(7), 3.0
    draws = rng.normal(size=(len(strategy.shares), n)) * sigma / np.sqrt(strategy.shares)[:, None]
    found, at = strategy.estimates @ draws, 0
    for term, share in zip(terms, strategy.of_term, strict=True):
        unit, end = unit_covariance(term), at + len(term.sizes)
        covariance = (np.diag(unit) if unit.ndim == 1 else unit) * sigma**2 / share
        white = np.linalg.solve(np.linalg.cholesky(covariance), found[at:end])
        # Sums of squares are chi-squared; products of two rows are nearly normal, of variance n.
        least, most = stats.chi2.ppf([5e-7, 1 - 5e-7], n)
        squares = white @ white.T
        assert (squares.diagonal() > least).all()
        assert (squares.diagonal() < most).all()
        others = squares[np.triu_indices(len(squares), 1)]
        assert np.abs(others).max() < stats.norm.isf(5e-7) * np.sqrt(n)
        at = end


def variance_of(sums, term):
    """Variance of sums of a term's estimates, if its leaves' shares add up to 1, and noise is 1."""
    strategy = Strategy.of([term], np.ones(1))
    covariance = unit_covariance(term) / strategy.of_term[0]
    return np.einsum("ij,jk,ik->i", sums, covariance, sums)


@pytest.mark.parametrize("n", [3, 9, 16, 31, 32])
def test_the_sum_of_a_group_has_less_noise_than_its_leaves_add_up_to(n):
    """Less than their released sums; of large groups, less than leaves with all of the price would."""
    term = column_term(number(n, 1))
    single = Fraction(1, 2) + Fraction(
        len(term.contrasts), 4
    )  # of a row's whole price, over 1/2 for one
    for way in term.contrasts:
        leaves = np.abs(way).sum(axis=1)
        found = variance_of(way, term)
        assert (found < float(2 * single) * leaves - 1e-9).all()
        assert (found < 0.95 * leaves)[leaves >= 6].all()


@pytest.mark.parametrize("n", [2, 5, 40])
def test_the_difference_of_two_large_categories_has_less_noise(n):
    term = column_term(dominated(n))
    (difference,) = term.contrasts
    # 0.75 of weight for two leaves; a quarter of it, twice over, joins the half that they have alone.
    (found,) = variance_of(difference, term)
    assert found == pytest.approx(0.75 * 2 / (0.5 + 2 * 0.25))
    assert found < 2 * 0.8


def test_thousands_of_categories_stay_sparse():
    """A matrix of 20,000 by 20,000 numbers would need 3.2 GB."""
    terms = [base_term(9.0), CATEGORIES[-1], CATEGORIES[-2]]
    strategy = Strategy.of(terms, np.ones(3))
    n = 1 + 20_002 + 2_002
    assert strategy.sums.shape == strategy.estimates.shape == (n, n)
    assert strategy.sums.nnz == strategy.estimates.nnz == n
    assert unit_covariance(CATEGORIES[-1]).tolist() == [1.0] * 20_002


def test_prices_are_divided_in_proportion_to_weights():
    """What a row spends in a term: 1.5 a unit for 32 intervals, 0.75 for two categories, else 1."""
    terms = [base_term(9.0), NUMBERS[31], YES_NO[0], NUMBERS[0], PAIRS[0]]
    weights = np.array([1.0, 2.0, 4.0, 0.25, 0.5])
    strategy = Strategy.of(terms, weights)
    whole = 1.0 + 2.0 * 1.5 + 4.0 * 0.75 + 0.25 + 0.5
    np.testing.assert_allclose(strategy.of_term, weights / whole, rtol=1e-11)
    alone, halves, groups = 0.5 * 2 / whole, 0.25 * 2 / whole, 0.25 * 2 / whole
    expected = [1 / whole] + [alone] * 33 + [halves] + [groups] * (4 + 8 + 16)
    np.testing.assert_allclose(strategy.shares[: len(expected)], expected, rtol=1e-11)
