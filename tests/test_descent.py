"""A fit asks what its guarantee prices and no more, and releases functions of noisy sums alone."""

import itertools
import math
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
from descents import (
    DOMAIN,
    TARGETS,
    asked_of,
    blocks,
    event,
    priced,
    promise,
    table,
    walk,
    with_event,
    without,
)

from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor, NoisySums, descent
from lumberjack.columns import coarse_places
from lumberjack.descent import CellCounts, fit_forest
from lumberjack.engines.base import Block
from lumberjack.engines.local import LocalRows
from lumberjack.engines.many import ManyRows
from lumberjack.fitting import Fit
from lumberjack.kinds import MISSING, OTHER
from lumberjack.noise import Bits, RoundedGaussian
from lumberjack.residuals import Odds
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


@pytest.mark.parametrize("kind", TARGETS)
def test_so_many_steps_are_taken_as_are_priced(kind):
    forest, guarantee, asked, taken = walk(kind)
    assert [step.use for step in taken] == [
        use for use in ("columns", "pairs") for _ in range(event(guarantee, use).count)
    ]
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
@pytest.mark.parametrize("epsilon", [0.02, 4.0])
def test_noise_costs_no_more_than_is_priced(kind, epsilon, sigmas):
    """As the real numbers that the floats are, whatever the leaves of a row: one in each tree."""
    found = walk(kind, epsilon=epsilon)
    d = len(list(DOMAIN))
    assert d / Fraction(sigmas[0]) ** 2 <= 1 / Fraction(event(found.guarantee, "sizes").noise) ** 2
    for step in (found.steps[0], found.steps[-1]):
        most = priced(found.guarantee, step.use)
        assert most * (1 - Fraction(1, 2**38)) < step.dearest() <= most
        assert step.strategy.sums.shape[1] == step.count.grove.starts[-1]
    # Noise is drawn for the first and the last strategy alone: no other was used.
    assert len({id(step.sigma) for step in found.steps}) == 2


@pytest.mark.parametrize("kind", ["two classes", "four classes", "number"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_sums_are_on_a_grid_whose_noise_can_be_drawn(kind, epsilon):
    """As fine as noise of 2^13 allows, of vectors 2^17, but no finer than residuals are."""
    found, most = walk(kind, epsilon=epsilon), 2.0 ** (17 if kind == "four classes" else 13)
    for step in (found.steps[0], found.steps[-1]):
        reach, largest = step.count.loss.reach, step.sigma.max()
        assert reach in [2**i for i in range(13)]
        assert largest <= most or reach == 1
        assert largest > most / 2 or reach == 4096
        assert reach * step.count.loss.step == (reach if kind == "four classes" else 4096)


@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("reach", [1, 3, 64, 1000, 4096])
@pytest.mark.parametrize("noise", [1e-3, 0.7, 123.4, 8191.9, 1e9])
def test_grids_keep_noise_over_reach_exactly(noise, reach, n_outputs):
    """As fractions. The grid of released sums is no finer than that of residuals."""
    given = NoisySums(7, noise, reach, use="pairs")
    for least in (1.0, 0.3, 1e-7):
        found = descent._on_grid(given, np.array([least, 1.0]), Shape(n_outputs, 1, 1))
        assert Fraction(found.noise) / found.reach == Fraction(noise) / reach
        assert (found.count, found.use) == (7, "pairs")
        assert isinstance(found.reach, int)
        assert reach <= found.reach <= 4096


class Shape(NamedTuple):
    """What a loss says of its residuals."""

    n_outputs: int
    reach: int
    step: int


def test_rounding_moves_no_sum_further_than_its_reach():
    """All sums and all moves of small grids, and moves that are on the edge of large ones."""
    for reach, step in itertools.product(range(1, 5), range(1, 8)):
        most = reach * step
        sums = np.arange(-2 * most - 3, 2 * most + 4)
        before = descent._rounded(sums, Shape(1, reach, step))
        assert (2 * np.abs(before * step - sums) <= step).all()  # to the nearest
        for moved in range(-most, most + 1):
            after = descent._rounded(sums + moved, Shape(1, reach, step))
            assert np.abs(after - before).max() <= reach
        # One step more, and a row could say more.
        for moved in (-most - 1, most + 1):
            after = descent._rounded(sums + moved, Shape(1, reach, step))
            assert np.abs(after - before).max() == reach + 1
    for reach in (1, 2, 512, 4096):
        loss = Odds(reach)
        sums = np.concatenate([np.arange(-9000, 9000), np.array([2**50, -(2**50)])])
        for moved in (4096, -4096):
            after = descent._rounded(sums + moved, loss)
            assert np.abs(after - descent._rounded(sums, loss)).max() == reach


def test_persons_move_rounded_sums_by_their_rows_reaches():
    """r rows in leaves of their own or together: rounding adds nothing to r times the reach."""
    reach, step, rng = 2, 5, np.random.default_rng(0)
    loss, sums = Shape(1, reach, step), np.arange(-40, 41)
    for r in (2, 3, 7):
        for _ in range(300):
            moves = rng.integers(-reach * step, reach * step + 1, r)
            after = descent._rounded(sums + moves.sum(), loss)
            assert np.abs(after - descent._rounded(sums, loss)).max() <= r * reach


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
def test_one_record_moves_one_sum_of_each_way_to_group_leaves(kind):
    """On a transcript: tables without one row, or with one more, asked all that the fit asks."""
    codes, target = table(kind)
    more = [np.vstack([codes, row]) for row in ([[3, OTHER, MISSING, 0]], [[MISSING, 4, 0, OTHER]])]
    labels = [np.append(target, y).astype(np.int32) for y in (target.min(), target.max())]
    neighbours = [without(kind, [i]) for i in (0, 1234)]
    neighbours += [(c.astype(np.uint32), t) for c, t in zip(more, labels, strict=True)]
    found = walk(kind, neighbours)
    for count, sums, others in found.asked:
        for other in others:
            if isinstance(count, CellCounts):
                for a, b in zip(sums, other, strict=True):
                    assert np.abs(a - b).sum() == 1
            elif type(count).__name__ == "Distances":
                assert abs(sums[0].total - other[0].total) == 1
                both = np.union1d(sums[0].codes, other[0].codes)
                a, b = (dict(zip(f[0].codes, f[0].counts, strict=True)) for f in (sums, other))
                assert sum(abs(a.get(c, 0) - b.get(c, 0)) for c in both) == 1
    for step in found.steps[::7]:
        here, reach, grove = step.released(step.sums), step.count.loss.reach, step.count.grove
        for other in step.others:
            leaves = np.flatnonzero((step.sums - other).any(axis=1))
            assert len(set(np.searchsorted(grove.starts, leaves, side="right"))) == len(leaves)
            moved = here - step.released(other)
            assert ((moved**2).sum(axis=1) <= reach**2).all()
            assert step.price(moved) <= priced(found.guarantee, step.use)


@pytest.mark.parametrize("kind", ["two classes", "four classes", "number"])
def test_what_is_released_is_added_up_and_then_rounded(kind, monkeypatch):
    """Exactly, if noise is 0: on a grid that is much coarser than that of residuals."""
    draw = descent._StepNoise.draw
    monkeypatch.setattr(descent._StepNoise, "draw", lambda *given: 0 * draw(*given))
    for step in walk(kind, epsilon=0.05).steps[::11]:
        exact = step.released(step.sums)
        np.testing.assert_array_equal(step.taken * step.count.loss.reach, exact)
        assert step.count.loss.step > 4 or kind == "four classes"
        assert exact.any()


@pytest.mark.parametrize("kind", ["two classes", "four classes", "number"])
def test_rows_of_one_person_move_sums_by_so_many_reaches(kind):
    """A step tells at most r^2 times as much of r rows as of one, whatever their leaves."""
    r = 5
    codes, target = table(kind)
    alike = np.flatnonzero((codes[:, 0] == 7) & (target < 1))[:r]
    assert len(alike) == r
    found = walk(kind, [without(kind, rows) for rows in (range(r), alike)], rows_per_person=r)
    for step in found.steps[::7]:
        here = step.released(step.sums)
        for other in step.others:
            moved = here - step.released(other)
            assert step.price(moved) <= r**2 * priced(found.guarantee, step.use)
    (_, sums, others), *_ = asked_of(found.asked, "CellCounts")
    for other in others:
        assert all(np.abs(a - b).sum() == r for a, b in zip(sums, other, strict=True))


@pytest.mark.parametrize("kind", TARGETS)
def test_what_is_released_depends_on_noisy_sums_alone(kind, monkeypatch):
    """Exact sums are higher, and their noise is lower by as much: what is released must not change.

    Each leaf has 7 steps of the grid more, and so sums of several leaves have 7 for each, with signs.
    """

    class Higher(LocalRows):
        def total(self, count):
            found = super().total(count)
            if type(count).__name__ == "Distances":
                return found
            return [sums + 7 * (count.loss.step if hasattr(count, "loss") else 1) for sums in found]

    class Lower(RoundedGaussian):
        def draw(self, *given, **named):
            return super().draw(*given, **named) - 7

    draw, begin, begun = descent._StepNoise.draw, Fit.begin, []

    def lower(noise, step, bits):
        coefficients = np.asarray(begun[-1].sums.sum(axis=1))
        return draw(noise, step, bits) + 7 - 7 * coefficients[:, None]

    codes, target = table(kind)
    given = DOMAIN, TARGETS[kind], promise(kind), Bits(3)
    expected = fit_forest(LocalRows(codes, target), *given)
    monkeypatch.setattr(descent, "RoundedGaussian", Lower)
    monkeypatch.setattr(descent._StepNoise, "draw", lower)
    monkeypatch.setattr(Fit, "begin", lambda fit: begin(fit) or begun.append(fit.strategy))
    found = fit_forest(Higher(codes, target), *given)
    for one, other in zip(expected.values, found.values, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(expected.trees) == len(found.trees)
    for one, other in zip(expected.trees, found.trees, strict=True):
        for field in ("feature", "cut", "missing_left", "left"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def test_clips_are_two_choices_with_the_exponent_that_is_priced(monkeypatch):
    seen, priors = [], []

    def spy(found, grid, quantile, exponent, bits, key, prior):
        seen.append((quantile.range, exponent, found.total, int(key)))
        priors.append(prior)
        return choose(found, grid, quantile, exponent, bits, key, prior)

    choose = descent.choose_place
    monkeypatch.setattr(descent, "choose_place", spy)
    _, guarantee, asked, _ = walk("number")
    priced = event(guarantee, "clips")
    assert priced.score_range == 1.8
    assert [(width, exponent) for width, exponent, *_ in seen] == [(1.8, priced.exponent)] * priced.count
    assert len({key for *_, key in seen}) == 2
    assert [total for *_, total, _ in seen] == [3000, 3000]
    asked_first = [i for i, (count, *_) in enumerate(asked) if type(count).__name__ == "Distances"]
    assert asked_first == [1, 2 + event(guarantee, "columns").count]  # before either stage
    # Weights of clips are public: from a sixteenth of the learned scale, an eighth of half the target's
    # width, up to it. The grid of targets has 4096 steps on each side.
    for prior in priors:
        usual = [int(coarse_places(np.array([x]))[0]) for x in (4096 / 8 / 16, 4096 / 8)]
        heavy = prior.weights > prior.weights.min()
        assert [prior.edges[:-1][heavy].tolist(), prior.edges[1:][heavy].tolist()] == [
            [usual[0]],
            [usual[1] + 1],
        ]


def test_forest_holds_expected_sizes_and_weights():
    forest, *_ = walk("four classes")
    for tree, values in zip(forest.trees, forest.values, strict=True):
        assert values.shape == (tree.n_leaves, 5)
        assert (values[:, 0] > 0).all()
        assert np.abs(values[:, 1:]).max() <= 30
        np.testing.assert_array_equal(values[:, 1:] * 2**16 % 1, 0)
    assert len({round(values[:, 0].sum(), 6) for values in forest.values}) == 1


def test_sizes_are_near_the_counts():
    forest, guarantee, asked, _ = walk("two classes", epsilon=20.0)
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
