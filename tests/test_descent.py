"""A fit asks what its guarantee prices and no more, and releases functions of noisy sums alone."""

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from descents import (
    DOMAIN,
    TARGETS,
    asked_of,
    blocks,
    event,
    promise,
    table,
    term_shares,
    walk,
    with_event,
    without,
)

from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor, descent
from lumberjack.descent import CellCounts, fit_forest
from lumberjack.engines.base import Block
from lumberjack.engines.local import LocalRows
from lumberjack.engines.many import ManyRows
from lumberjack.kinds import MISSING, OTHER, Cuts, Numeric
from lumberjack.noise import Bits, RoundedGaussian
from lumberjack.targets import Classes


class Recorded(RoundedGaussian):
    """Noise that tells its deviation and how many numbers were drawn."""

    made: ClassVar[list] = []

    def __init__(self, sigma):
        super().__init__(sigma)
        Recorded.made.append(sigma)


@pytest.fixture
def sigmas(monkeypatch):
    monkeypatch.setattr(Recorded, "made", [])
    monkeypatch.setattr(descent, "RoundedGaussian", Recorded)
    return Recorded.made


def squares(grove, sums, n_trees):
    """Largest squared length of the sums of one tree; one leaf of each tree at most may move."""
    parts = [sums[a:b] for a, b in zip(grove.starts[:-1], grove.starts[1:], strict=True)]
    assert len(parts) == n_trees
    assert all(np.count_nonzero(part.any(axis=1)) <= 1 for part in parts)
    return [int((part.astype(object) ** 2).sum()) for part in parts]


@pytest.mark.parametrize("kind", TARGETS)
def test_so_many_steps_are_taken_as_are_priced(kind):
    forest, guarantee, asked = walk(kind)
    steps = event(guarantee, "columns").count, event(guarantee, "pairs").count
    assert len(asked_of(asked, "CellCounts")) == 1
    assert len(asked_of(asked, "Residuals")) == sum(steps)
    assert len(asked_of(asked, "Distances")) == (2 if kind == "number" else 0)
    assert len(asked) == 1 + sum(steps) + (2 if kind == "number" else 0)
    trees = [len(count.grove.trees) for count, *_ in asked_of(asked, "Residuals")]
    assert trees == [5] * steps[0] + [len(forest.trees)] * steps[1]


@pytest.mark.parametrize(("columns", "pairs"), [(1, 1), (3, 7), (41, 2)])
def test_the_number_of_steps_is_the_events(columns, pairs):
    guarantee = with_event(promise("two classes"), "columns", count=columns)
    guarantee, told = with_event(guarantee, "pairs", count=pairs), []
    codes, target = table("two classes", 500)
    fit_forest(
        LocalRows(codes, target),
        DOMAIN,
        TARGETS["two classes"],
        guarantee,
        Bits(0),
        advance=lambda: told.append(1),
    )
    assert len(told) == columns + pairs == guarantee.stages


TABLES = {
    "no rows": lambda codes: codes[:0],
    "one row": lambda codes: codes[:1],
    "constant": lambda codes: np.repeat(codes[:1], 300, axis=0),
    "all missing": lambda codes: np.tile(np.array([[MISSING, OTHER, MISSING, OTHER]], "u4"), (50, 1)),
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("name", TABLES)
def test_steps_are_taken_whatever_the_table(kind, name):
    """A row more or fewer must not decide whether a fit ends early or fails."""
    codes, told, guarantee = TABLES[name](table(kind)[0]), [], promise(kind, 1.0)
    target = np.zeros(len(codes), dtype=np.int32)
    forest = fit_forest(
        LocalRows(codes, target),
        DOMAIN,
        TARGETS[kind],
        guarantee,
        Bits(2),
        advance=lambda: told.append(1),
    )
    assert len(told) == guarantee.stages
    assert all(np.isfinite(v).all() for v in forest.values)


@pytest.mark.parametrize("kind", TARGETS)
def test_one_column_has_no_pairs_and_all_steps(kind):
    domain = Domain({"x": DOMAIN["x"]})
    codes, target = table(kind)
    told, guarantee = [], promise(kind)
    rows = LocalRows(codes[:, :1].copy(), target)
    forest = fit_forest(rows, domain, TARGETS[kind], guarantee, Bits(2), advance=lambda: told.append(1))
    assert len(forest.trees) == 2
    assert len(told) == guarantee.stages


@pytest.mark.parametrize("kind", TARGETS)
def test_noise_costs_no_more_than_is_priced(kind, sigmas):
    """As the real numbers that the floats are: a row is in one leaf of each tree."""
    _, guarantee, asked = walk(kind)
    sizes, stages = sigmas[0], sigmas[1:]
    d = len(list(DOMAIN))
    assert d / Fraction(sizes) ** 2 <= 1 / Fraction(event(guarantee, "sizes").noise) ** 2
    groves = {id(c.grove): c for c, *_ in asked_of(asked, "Residuals")}.values()
    for count, use in zip(groves, ("columns", "pairs"), strict=True):
        priced = event(guarantee, use)
        of_term = sorted(term_shares(count.grove).tolist())
        distinct = sorted({round(s, 9) for s in of_term})
        drawn, stages = stages[: len(distinct)], stages[len(distinct) :]
        # Smallest share first: the largest noise.
        each = dict(zip(distinct, drawn, strict=True))
        spent = sum(1 / Fraction(each[round(s, 9)]) ** 2 for s in of_term)
        assert spent <= 1 / Fraction(priced.noise) ** 2
        assert float(spent) == pytest.approx(1 / priced.noise**2, rel=1e-9)
    assert stages == []


def test_cells_of_any_number_of_columns_cost_no_more_than_one_count(sigmas):
    """Also where the root of that number is rounded down."""
    guarantee = with_event(promise("two classes"), "columns", count=1)
    guarantee = with_event(guarantee, "pairs", count=1)
    noise = Fraction(event(guarantee, "sizes").noise)
    for d in (1, 2, 3, 5, 6, 7, 10, 23, 47):
        sigmas.clear()
        codes = np.zeros((20, d), dtype=np.uint32)
        rows = LocalRows(codes, np.zeros(20, dtype=np.int32))
        domain = Domain({f"x{i}": DOMAIN["y"] for i in range(d)})
        fit_forest(rows, domain, TARGETS["two classes"], guarantee, Bits(0))
        assert d / Fraction(sigmas[0]) ** 2 <= 1 / noise**2
        assert float(d / Fraction(sigmas[0]) ** 2 * noise**2) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("kind", TARGETS)
def test_one_record_moves_one_sum_in_each_tree(kind):
    """On a transcript: tables without one row, or with one more, asked all that the fit asks."""
    codes, target = table(kind)
    more = [np.vstack([codes, row]) for row in ([[3, OTHER, MISSING, 0]], [[MISSING, 4, 0, OTHER]])]
    labels = [np.append(target, y).astype(np.int32) for y in (target.min(), target.max())]
    neighbours = [without(kind, [i]) for i in (0, 17, 1234)]
    neighbours += [(c.astype(np.uint32), t) for c, t in zip(more, labels, strict=True)]
    _, guarantee, asked = walk(kind, neighbours)
    step, uses = 0, ["columns"] * event(guarantee, "columns").count
    for count, sums, others in asked:
        for other in others:
            if isinstance(count, CellCounts):
                for a, b in zip(sums, other, strict=True):
                    assert np.abs(a - b).sum() == 1
            elif type(count).__name__ == "Distances":
                assert abs(sums[0].total - other[0].total) == 1
                both = np.union1d(sums[0].codes, other[0].codes)
                a, b = (dict(zip(f[0].codes, f[0].counts, strict=True)) for f in (sums, other))
                assert sum(abs(a.get(c, 0) - b.get(c, 0)) for c in both) == 1
            else:
                reach = event(guarantee, "columns" if step < len(uses) else "pairs").reach
                moved = squares(count.grove, sums[0] - other[0], len(count.grove.trees))
                assert max(moved) <= reach**2
        step += type(count).__name__ == "Residuals"


@pytest.mark.parametrize("kind", ["two classes", "four classes", "number"])
def test_rows_of_one_person_move_sums_by_so_many_reaches(kind):
    """A step tells at most r^2 times as much of r rows as of one, whatever their leaves."""
    r = 5
    codes, target = table(kind)
    alike = np.flatnonzero((codes[:, 0] == 7) & (target < 1))[:r]
    assert len(alike) == r
    neighbours = [without(kind, rows) for rows in (range(r), alike)]
    _, guarantee, asked = walk(kind, neighbours, rows_per_person=r)
    steps = event(guarantee, "columns").count
    for step, (count, sums, others) in enumerate(asked_of(asked, "Residuals")):
        reach = event(guarantee, "columns" if step < steps else "pairs").reach
        share = np.repeat(term_shares(count.grove), np.diff(count.grove.starts))
        for other in others:
            moved = (sums[0] - other[0]).astype(float)
            assert (share @ (moved**2).sum(axis=1)) <= (r * reach) ** 2 * (1 + 1e-9)
    (_, sums, others), *_ = asked_of(asked, "CellCounts")
    for other in others:
        assert all(np.abs(a - b).sum() == r for a, b in zip(sums, other, strict=True))


@pytest.mark.parametrize("kind", TARGETS)
def test_what_is_released_depends_on_noisy_sums_alone(kind, monkeypatch):
    """Exact sums are higher by 7, and their noise is lower: what is released must not change."""

    class Higher(LocalRows):
        def total(self, count):
            found = super().total(count)
            return found if type(count).__name__ == "Distances" else [sums + 7 for sums in found]

    class Lower(RoundedGaussian):
        def draw(self, *given, **named):
            return super().draw(*given, **named) - 7

    codes, target = table(kind)
    given = DOMAIN, TARGETS[kind], promise(kind), Bits(3)
    expected = fit_forest(LocalRows(codes, target), *given)
    monkeypatch.setattr(descent, "RoundedGaussian", Lower)
    found = fit_forest(Higher(codes, target), *given)
    for one, other in zip(expected.values, found.values, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(expected.trees, found.trees, strict=True):
        np.testing.assert_array_equal(one.cut, other.cut)


def test_clips_are_two_choices_with_the_exponent_that_is_priced(monkeypatch):
    seen = []

    def spy(found, grid, quantile, exponent, bits, key):
        seen.append((quantile.range, exponent, found.total, int(key)))
        return choose(found, grid, quantile, exponent, bits, key)

    choose = descent.choose_place
    monkeypatch.setattr(descent, "choose_place", spy)
    _, guarantee, asked = walk("number")
    priced = event(guarantee, "clips")
    assert priced.score_range == 1.8
    assert [(width, exponent) for width, exponent, *_ in seen] == [(1.8, priced.exponent)] * priced.count
    assert len({key for *_, key in seen}) == 2
    assert [total for *_, total, _ in seen] == [3000, 3000]
    asked_first = [i for i, (count, *_) in enumerate(asked) if type(count).__name__ == "Distances"]
    assert asked_first == [1, 2 + event(guarantee, "columns").count]  # before either stage


def test_forest_holds_expected_sizes_and_weights():
    forest, *_ = walk("four classes")
    for tree, values in zip(forest.trees, forest.values, strict=True):
        assert values.shape == (tree.n_leaves, 5)
        assert (values[:, 0] > 0).all()
        assert np.abs(values[:, 1:]).max() <= 30
        np.testing.assert_array_equal(values[:, 1:] * 2**16 % 1, 0)
    assert len({round(values[:, 0].sum(), 6) for values in forest.values}) == 1


def test_sizes_are_near_the_counts():
    forest, guarantee, asked = walk("two classes", epsilon=20.0)
    ((_, counts, _),) = asked_of(asked, "CellCounts")
    noise = event(guarantee, "sizes").noise * 2
    for exact, values in zip(counts, forest.values[1:], strict=False):
        assert np.abs(exact - values[:, 0]).max() < 8 * noise


@pytest.mark.parametrize("kind", ["two classes", "four classes", "number"])
def test_a_large_budget_finds_an_interaction(kind):
    """x and y decide together: that pair is among the trees, and predictions follow."""
    forest, *_ = walk(kind, epsilon=20.0)
    pairs = [set(tree.feature.tolist()) - {-1} for tree in forest.trees if len(set(tree.feature)) == 3]
    assert {0, 2} in pairs
    codes, target = table(kind, seed=9)
    scores = forest.pool([v[:, 1:] for v in forest.values], codes)
    if kind == "number":
        assert np.corrcoef(scores[:, 0], target)[0, 1] > 0.8
    else:
        said = scores[:, 0] > 0 if kind == "two classes" else scores.argmax(axis=1)
        assert (said == target).mean() > (0.8 if kind == "two classes" else 0.5)


@pytest.mark.parametrize(
    ("epsilon", "rows", "n_estimators"),
    [(0.01, 300, 20), (4.0, 3000, 2), (4.0, 3000, 3), (4.0, 3000, 1)],
)
def test_pairs_follow_from_the_budget_and_the_rows(epsilon, rows, n_estimators):
    """All pairs of the strongest columns, as many as mu times rows carry, and n_estimators allows."""
    codes, target = table("two classes", rows)
    guarantee = promise("two classes", epsilon, n_estimators=n_estimators)
    forest = fit_forest(LocalRows(codes, target), DOMAIN, TARGETS["two classes"], guarantee, Bits(0))
    pairs = event(guarantee, "pairs")
    mu = math.sqrt(pairs.count) * pairs.reach / pairs.noise
    total = forest.values[0][0, 0]
    most = min(mu * total / descent._PER_PAIR, n_estimators * (n_estimators - 1) / 2)
    assert len(forest.trees) - 5 <= most
    assert len(forest.trees) - 5 == {1: 0, 2: 1, 3: 3, 20: 0}[n_estimators]


def test_wide_tables_keep_noise_in_its_tables_at_the_same_price(sigmas):
    """1,500 columns: on the planned grid of residuals every draw would take the slow, exact path."""
    grid = Cuts(Numeric(0, 1), (5,))
    domain = Domain({f"x{i}": grid for i in range(1500)})
    codes = np.random.default_rng(0).integers(0, 2, (40, 1500)).astype(np.uint8) + 2
    guarantee = promise("two classes", 1.0, n_estimators=2)
    guarantee = with_event(with_event(guarantee, "columns", count=1), "pairs", count=1)
    rows, shapes = LocalRows(codes.astype(np.uint8), (codes[:, 0] > 2).astype(np.int32)), []

    class Seen(LocalRows):
        def total(self, count):
            shapes.append(getattr(count, "loss", None))
            return rows.total(count)

    fit_forest(Seen(codes, codes[:, 0]), domain, TARGETS["two classes"], guarantee, Bits(0))
    assert max(sigmas) <= 2**18
    for use, loss, at in (("columns", shapes[1], slice(1, 2)), ("pairs", shapes[2], slice(2, 3))):
        priced = event(guarantee, use)
        assert loss.reach < priced.reach
        least = Fraction(1, 1501)  # of so few rows no pair joins
        expected = Fraction(loss.reach) ** 2 / Fraction(max(sigmas[at])) ** 2
        assert expected <= Fraction(priced.reach) ** 2 / Fraction(priced.noise) ** 2 * least
        assert float(expected) == pytest.approx(
            priced.reach**2 / priced.noise**2 * float(least), rel=1e-9
        )


@pytest.mark.parametrize("kind", TARGETS)
def test_blocks_and_threads_give_the_same_forest(kind):
    codes, target = table(kind)
    given = DOMAIN, TARGETS[kind], promise(kind), Bits(4)
    expected = fit_forest(LocalRows(codes, target), *given)
    order = np.random.default_rng(5).permutation(len(codes))
    for rows, threads in (
        (LocalRows(codes, target), 2),
        (ManyRows(blocks(codes[order], target[order], 1, 0, 999)), 1),
    ):
        found = fit_forest(rows, *given, threads)
        for one, other in zip(expected.values, found.values, strict=True):
            np.testing.assert_array_equal(one, other)


def test_cells_are_counted_one_row_at_a_time():
    codes, target = table("two classes", 400)
    counts = CellCounts(tuple(DOMAIN.known))(Block(codes, target))
    for j, (kind, found) in enumerate(zip(DOMAIN.known, counts, strict=True)):
        expected = [0] * (kind.size + 1)
        for code in codes[:, j].tolist():
            expected[code if code < kind.size else kind.size] += 1
        assert found.tolist() == expected


@pytest.mark.parametrize("use", ["sizes", "columns", "pairs"])
def test_a_guarantee_that_prices_no_steps_is_refused(use):
    guarantee = promise("two classes")
    events = tuple(e for e in guarantee.events if e.use != use)
    with pytest.raises(ValueError, match=use):
        fit_forest(
            LocalRows(*table("two classes", 100)),
            DOMAIN,
            Classes(np.arange(2), "fitted"),
            type(guarantee)(**{**vars(guarantee), "events": events}),
            Bits(0),
        )


@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_estimators_fit_their_leaves_by_default():
    rng = np.random.default_rng(6)
    X = rng.random((4000, 3))
    y = X[:, 0] + (X[:, 1] > 0.5)
    classes = LumberjackClassifier(4.0, random_state=0).fit(X, y > 1)
    numbers = LumberjackRegressor(4.0, random_state=0).fit(X, y)
    assert classes.score(X, y > 1) > 0.93
    assert numbers.score(X, y) > 0.9
    for model in (classes, numbers):
        assert model.guarantee_.verify() <= 1e-6
        assert model.released_.target.leaves.holds == "weights"
        assert model.forest_.trees[0].n_leaves == 1
