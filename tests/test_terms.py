"""Trees of columns and pairs: leaves by direct binning, sizes and correlations by their definitions."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from lumberjack import Domain
from lumberjack.kinds import CELLS, MISSING, OTHER, Cuts, Numeric
from lumberjack.terms import Column, base_term, column_term, expected_sizes, n_cells, pair_term
from lumberjack.tree import LEAF


def number(n_intervals, seed=0, at=0):
    """A number with so many intervals and a cell for missing values."""
    kind = Cuts(Numeric(0, 1), tuple(i * (CELLS // 1000) for i in range(1, n_intervals)))
    return Column(at, kind, np.random.default_rng(seed).gamma(0.5, 100.0, n_cells(kind)) + 1e-3)


def category(n_values, seed=0, at=0, missing=True):
    kind = Domain.categorical([f"v{i}" for i in range(n_values)], missing=missing)
    return Column(at, kind, np.random.default_rng(seed).gamma(0.5, 100.0, n_cells(kind)) + 1e-3)


def dominated(n_values, at=0, share=0.95):
    """A category whose two largest cells, the last value and all others, hold such a share of rows."""
    kind = Domain.categorical([f"v{i}" for i in range(n_values)])
    sizes = np.full(n_cells(kind), 1e-3)
    sizes[: n_values - 1] = (1 - share) * 1000 / max(n_values - 1, 1)
    sizes[n_values - 1 :] = share * 400, share * 600
    return Column(at, kind, sizes)


def all_codes(column):
    """Every code that a row may have in a column, and the cell it is counted in."""
    size = column.kind.size
    if column.is_number:
        return [*range(size), MISSING], [*range(size), size]
    return [*range(size), OTHER], [*range(size), size]


def leaves(term, *columns):
    """The leaf of each combination of codes."""
    rows = np.array(list(itertools.product(*(all_codes(c)[0] for c in columns))), dtype=np.uint32)
    return term.tree.apply(rows, np.array([not c.is_number for c in columns])).tolist()


@pytest.mark.parametrize("make", [number, category])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 31, 32])
def test_the_leaf_of_a_column_is_the_cell_of_the_code(make, n):
    column = make(n)
    term = column_term(column)
    assert leaves(term, column) == all_codes(column)[1]
    assert term.tree.n_leaves == len(term.sizes) == n_cells(column.kind)
    np.testing.assert_array_equal(term.sizes, column.sizes)


def test_a_category_without_missing_values_has_a_leaf_for_others():
    column = category(3, missing=False)
    assert leaves(column_term(column), column) == [0, 1, 2, 3]


def depth(tree, codes, categorical):
    """Splits above the leaf of a row."""
    node, steps = 0, 0
    while tree.feature[node] != LEAF:
        code, cut = codes[tree.feature[node]], tree.cut[node]
        left = (
            code == cut if categorical else tree.missing_left[node] if code == MISSING else code <= cut
        )
        node, steps = tree.left[node] + (not left), steps + 1
    return steps


@pytest.mark.parametrize("n", [2, 5, 8, 32])
def test_trees_of_numbers_are_balanced(n):
    tree = column_term(number(n)).tree
    assert (
        max(depth(tree, [code], False) for code in [*range(n), MISSING]) <= math.ceil(math.log2(n)) + 1
    )


def test_frequent_values_are_found_first():
    column = category(9, seed=3)
    tree = column_term(column).tree
    by_size = np.argsort(-column.sizes[:-1])
    assert [depth(tree, [code], True) for code in by_size] == list(range(1, len(by_size) + 1))


def test_the_base_is_one_leaf():
    term = base_term(123.0)
    assert (term.tree.n_leaves, term.sizes.tolist(), term.columns) == (1, [123.0], ())
    assert [alike.tolist() for alike in term.alike] == [[[1.0]]]


def groups(column):
    """The group of each code, and the size of each group, by the rule in words."""
    sizes, total = column.sizes.tolist(), math.fsum(column.sizes)
    if not column.is_number:
        largest = sorted(range(len(sizes) - 1), key=lambda i: -sizes[i])[:7]
        found = [largest.index(i) if i in largest else len(largest) for i in range(len(sizes))]
    else:
        *inside, missing = sizes
        inside[0] += missing
        below, sixths = 0.0, []
        for size in inside:
            sixths.append(min(int((below + size / 2) / total * 6), 5))
            below += size
        found = [sorted(set(sixths)).index(s) for s in sixths]
        found.append(found[0])
    members = [[i for i, g in enumerate(found) if g == group] for group in range(max(found) + 1)]
    return found, [math.fsum(sizes[i] for i in m) for m in members]


PAIRS = [
    (number(31, 1), number(12, 2, 1)),
    (number(9, 3), category(20, 4, 1)),
    (category(4, 5), number(2, 6, 1)),
    (category(2, 7), category(30, 8, 1)),
]


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_the_leaf_of_a_pair_is_the_pair_of_groups(pair):
    term = pair_term(*pair)
    (one, sizes), (two, others) = map(groups, pair)
    assert leaves(term, *pair) == [a * len(others) + b for a, b in itertools.product(one, two)]
    assert term.tree.n_leaves == len(sizes) * len(others)
    expected = [a * b / sum(sizes) for a, b in itertools.product(sizes, others)]
    np.testing.assert_allclose(term.sizes, expected, rtol=1e-12)


def test_no_pair_has_more_than_64_leaves():
    assert pair_term(category(500, 1), category(500, 2, 1)).tree.n_leaves == 64
    assert pair_term(number(500, 1), number(500, 2, 1)).tree.n_leaves <= 36


def test_a_constant_column_joins_no_pair():
    assert pair_term(number(1), number(5, at=1)) is None


def covariance(correlation, sizes):
    """Of weights minus their mean over rows, one sum at a time."""
    share = np.asarray(sizes) / np.sum(sizes)
    n = len(share)
    out = np.zeros((n, n))
    for i, j, a, b in itertools.product(range(n), repeat=4):
        out[i, j] += ((i == a) - share[a]) * ((j == b) - share[b]) * correlation(a, b)
    return out


def near(n, length, missing):
    """Correlation of two cells of a number; the cell of missing values is apart."""

    def correlation(a, b):
        if missing and n in (a, b):
            return float(a == b)
        return math.exp(-abs(a - b) / (length * n))

    return correlation


def test_correlations_of_a_number_fall_with_distance():
    column = number(4, seed=9)
    term = column_term(column)
    assert len(term.alike) == 2
    for length, alike in zip((0.5, 1.0), term.alike, strict=True):
        np.testing.assert_allclose(alike, covariance(near(4, length, True), column.sizes), atol=1e-7)


def test_values_of_a_category_are_unrelated():
    column = category(3, seed=9)
    (alike,) = column_term(column).alike
    assert alike.tolist() == [1.0] * 5  # variances; ``Fit`` centres the weights


def test_two_values_that_hold_nearly_all_rows_are_centred_beforehand():
    column = dominated(3)
    (alike,) = column_term(column).alike
    expected = covariance(lambda a, b: float(a == b), column.sizes)
    np.testing.assert_allclose(alike, expected, atol=1e-7)


@pytest.mark.parametrize("n", range(1, 71))
def test_intervals_are_summed_in_halves_and_in_groups(n):
    """By definition, one interval at a time: 2i < n is the first half; its group is floor(i m / n)."""
    found = column_term(number(n)).contrasts
    sizes = [m for m in (4, 8, 16, 32, 64) if m < n]
    assert len(found) == (1 + len(sizes) if n >= 3 else 0)
    for way, m in zip(found, [2, *sizes], strict=False):
        expected = [[0] * (n + 1) for _ in range(m)]
        for i in range(n):
            expected[i * m // n][i] = 1
        if m == 2:
            # Of an odd number the middle interval is in the first half.
            first = [int(2 * i < n) for i in range(n)]
            expected = [[2 * f - 1 for f in first] + [0]]
        assert way.tolist() == expected
        assert all(any(row) for row in expected)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 63])
@pytest.mark.parametrize("share", [0.85, 0.899, 0.901, 0.999])
def test_two_categories_with_nearly_all_rows_are_told_apart(n, share):
    """They are the last value and all others, which is the larger one: 60 % to 40 %."""
    column = dominated(n, share=share)
    expected = [[[0] * (n - 1) + [-1, 1]]] if share > 0.9 or n == 1 else []
    assert [way.tolist() for way in column_term(column).contrasts] == expected


def test_of_equal_categories_the_first_comes_first():
    column = Column(0, Domain.categorical(["a", "b", "c"]), np.array([1.0, 50.0, 1.0, 50.0]))
    (way,) = column_term(column).contrasts
    assert way.tolist() == [[0, 1, 0, -1]]


def test_many_categories_have_no_contrasts():
    """Each leaf's weight would be a row of a matrix."""
    assert column_term(dominated(63)).contrasts != ()
    assert column_term(dominated(64)).contrasts == ()
    assert column_term(dominated(20_000)).contrasts == ()


@pytest.mark.parametrize("term", [base_term(3.0), *(pair_term(*pair) for pair in PAIRS)])
def test_base_and_pairs_have_no_contrasts(term):
    assert term.contrasts == ()


CONTRASTED = [number(n) for n in (3, 4, 5, 31, 32, 64)] + [dominated(n) for n in (1, 2, 9)]


@pytest.mark.parametrize("column", CONTRASTED, ids=range(len(CONTRASTED)))
def test_a_leaf_is_in_at_most_one_sum_of_each_array(column):
    """The bound that prices them: one entry of 1 or -1 a leaf and array, none for missing values."""
    found = column_term(column).contrasts
    assert found
    for way in found:
        assert way.dtype == np.int64
        assert way.shape[1] == len(column.sizes)
        assert set(way.ravel().tolist()) <= {-1, 0, 1}
        assert all(np.count_nonzero(leaf) <= 1 for leaf in way.T)
        if column.is_number:
            assert not way[:, -1].any()
            assert way[:, :-1].any(axis=0).all()


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_a_pair_says_nothing_that_its_columns_could_say(pair):
    """Averaged over either column, all weights of the other are 0: so their variance is."""
    (_, sizes), (_, others) = map(groups, pair)
    for alike in pair_term(*pair).alike:
        assert alike.trace() == pytest.approx(len(alike))
        assert np.linalg.eigvalsh(alike).min() > -1e-9
        for fixed in range(len(sizes)):
            mean = np.zeros((len(sizes), len(others)))
            mean[fixed] = np.array(others) / sum(others)
            assert abs(mean.ravel() @ alike @ mean.ravel()) < 1e-6 * alike.max()
        for fixed in range(len(others)):
            mean = np.zeros((len(sizes), len(others)))
            mean[:, fixed] = np.array(sizes) / sum(sizes)
            assert abs(mean.ravel() @ alike @ mean.ravel()) < 1e-6 * alike.max()


@pytest.mark.parametrize(("noise", "total"), [(30.0, 400.0), (5.0, 1000.0), (80.0, 50.0)])
def test_expected_sizes_are_posterior_means(noise, total):
    noisy = np.array([-60.0, -3.0, 0.0, 20.0, 150.0, 300.0])
    prior = total / len(noisy)

    def mean(c):
        # Relative to the density's largest value, so that nothing underflows.
        top = max(c - noise**2 / prior, 0.0)
        log = lambda x: -x / prior - (x - c) ** 2 / (2 * noise**2)  # noqa: E731
        weight = lambda x: math.exp(log(x) - log(top))  # noqa: E731
        end = top + 40 * noise
        points = [top] if top else None
        all_of_it = quad(weight, 0, end, points=points, epsabs=0, limit=400)[0]
        return quad(lambda x: x * weight(x), 0, end, points=points, epsabs=0, limit=400)[0] / all_of_it

    expected = np.array([mean(c) for c in noisy])
    found = expected_sizes(noisy, noise, total)
    np.testing.assert_allclose(found, expected * total / expected.sum(), rtol=1e-6)
    assert found.sum() == pytest.approx(total)


def test_expected_sizes_are_positive_whatever_the_noise_did():
    found = expected_sizes(np.array([-1e9, 0.0, 1e9]), 1.0, 100.0)
    assert (found > 0).all()
    assert np.isfinite(found).all()
