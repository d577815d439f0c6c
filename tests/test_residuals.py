"""Sums of residuals: naive walks and sums, closed forms of the residuals, and their bounds."""

import importlib.util
import math
import pickle
import sys

import numpy as np
import pytest
from test_terms import category, number

from lumberjack import grove as groves
from lumberjack import residuals
from lumberjack.columns import coarse_places
from lumberjack.engines.base import Block
from lumberjack.fitting import SCALE
from lumberjack.grove import Grove
from lumberjack.guarantee import SUM_BOUND
from lumberjack.kinds import MISSING, OTHER
from lumberjack.residuals import FARTHEST, Distance, Distances, Odds, Residuals, Softmax
from lumberjack.terms import base_term, column_term, pair_term
from lumberjack.tree import LEAF, Tree

# Residuals of 1 on the fine grid, by how far they move a released sum: multiples of it, at most 4,096.
FINEST = {1: 4096, 2: 4096, 3: 4095, 7: 4095, 16: 4096, 64: 4096, 128: 4096, 1024: 4096, 4096: 4096}
COLUMNS = [number(9, 1, 0), category(12, 2, 1), number(31, 3, 2)]
CATEGORICAL = np.array([False, True, False])
TERMS = [
    base_term(1.0),
    *map(column_term, COLUMNS),
    pair_term(COLUMNS[0], COLUMNS[1]),
    pair_term(COLUMNS[0], COLUMNS[2]),
]


def grove():
    return Grove(tuple(term.tree for term in TERMS), CATEGORICAL)


def rows(n, seed=0, n_classes=2):
    """Codes of all kinds, and targets."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, c.kind.size, n) for c in COLUMNS]).astype(np.uint32)
    codes[rng.random(codes.shape) < 0.1] = MISSING
    codes[:, 1] = np.where(codes[:, 1] == MISSING, OTHER, codes[:, 1])
    return Block(codes, rng.integers(0, n_classes, n).astype(np.int32))


def naive_leaf(tree, codes):
    """The leaf of one row, one split after the other."""
    node = 0
    while tree.feature[node] != LEAF:
        f, cut = tree.feature[node], int(tree.cut[node])
        code = int(codes[f])
        if CATEGORICAL[f]:
            left = code == cut
        else:
            left = bool(tree.missing_left[node]) if code == MISSING else code <= cut
        node = int(tree.left[node]) + (not left)
    return int(tree.left[node])


def naive_leaves(block):
    starts = np.cumsum([0] + [term.tree.n_leaves for term in TERMS])
    return [
        [int(start) + naive_leaf(t.tree, row) for t, start in zip(TERMS, starts, strict=False)]
        for row in block.codes
    ]


def weights_of(n_outputs, seed=0, scale=1.0):
    n = sum(term.tree.n_leaves for term in TERMS)
    rng = np.random.default_rng(seed)
    return np.rint(rng.normal(0, scale, (n, n_outputs)) * SCALE).astype(np.int64)


def naive_odds(score, target, reach):
    """The residual of the middle of a cell of 1/128, in integers as Python rounds them."""
    z = min(max(math.floor(score * 128 / SCALE + 0.5), -2048), 2048) / 128
    return round(reach * min(math.exp(z), 1)) if target == 0 else -round(reach * min(math.exp(-z), 1))


def naive_distance(score, target, reach, clip):
    away, most = score - target * 16, clip * 16
    return int(math.copysign(min(abs(away), most) * reach // most, away))


def naive_softmax(scores, target, reach):
    share = [math.exp((s - max(scores)) / SCALE) for s in scores]
    r = [v / sum(share) - (k == target) for k, v in enumerate(share)]
    norm = math.sqrt(sum(v * v for v in r))
    return [v / max(norm, 1) * reach for v in r]


def naive_sums(block, weights, residual):
    """Residuals of each row added to each of its leaves."""
    out = [[0] * weights.shape[1] for _ in weights]
    for leaf, target in zip(naive_leaves(block), block.target.tolist(), strict=True):
        score = [sum(int(weights[v, k]) for v in leaf) for k in range(weights.shape[1])]
        for v in leaf:
            out[v] = [a + b for a, b in zip(out[v], residual(score, target), strict=True)]
    return out


@pytest.mark.parametrize("reach", [1, 7, 1024])
def test_sums_of_odds(reach):
    block, weights = rows(400), weights_of(1, 1)
    (found,) = Residuals(grove(), weights, Odds(reach))(block)
    expected = naive_sums(block, weights, lambda z, y: [naive_odds(z[0], y, FINEST[reach])])
    assert found.tolist() == expected
    assert np.any(found)


@pytest.mark.parametrize(("reach", "clip"), [(1, 2), (16, 9216), (1024, 301)])
def test_sums_of_distances(reach, clip):
    block, weights = rows(400), weights_of(1, 2, 0.3)
    block.target = np.random.default_rng(3).integers(-SUM_BOUND, SUM_BOUND, 400).astype(np.int32)
    (found,) = Residuals(grove(), weights, Distance(reach, clip))(block)
    expected = naive_sums(block, weights, lambda z, y: [naive_distance(z[0], y, FINEST[reach], clip)])
    assert found.tolist() == expected


@pytest.mark.parametrize(("n_classes", "reach"), [(3, 1024), (5, 16)])
def test_sums_of_softmax(n_classes, reach):
    """Within one unit a row and class: chances are rounded, towards 0."""
    block, weights = rows(200, n_classes=n_classes), weights_of(n_classes, 4)
    (found,) = Residuals(grove(), weights, Softmax(reach, n_classes))(block)
    expected = naive_sums(block, weights, lambda z, y: naive_softmax(z, y, reach))
    size = naive_sums(block, weights[:, :1], lambda z, y: [1])
    # A cell of 1/128 of a score moves a chance by less than 0.01 of itself; rounding by less than 1.
    slack = np.array(size) * (1.02 + 0.01 * reach)
    assert (np.abs(found - np.array(expected)) <= slack).all()


def alone(loss, scores, target, n_outputs=1):
    """The residual of a row with such scores."""
    score = np.array(scores, dtype=np.int64).reshape(1, n_outputs)
    return loss.residuals(score, np.array([target], dtype=np.int32))[0].tolist()


@pytest.mark.parametrize("reach", FINEST)
@pytest.mark.parametrize("kind", [Odds, lambda reach: Distance(reach, 100)])
def test_residuals_are_finer_than_what_is_released(kind, reach):
    """Whatever is released, residuals of rows have some 4,096 steps; sums are divided to get there."""
    loss = kind(reach)
    assert loss.step * reach == FINEST[reach]
    assert isinstance(loss.step, int)
    assert (Softmax(reach, 3).step, Softmax(reach, 3).reach) == (1, reach)


def test_a_reach_beyond_the_fine_grid_is_kept():
    assert [kind.step for kind in (Odds(5000), Distance(10**6, 3))] == [1, 1]


@pytest.mark.parametrize("reach", [1, 2, 64, 1024])
def test_odds_follow_the_closed_form(reach):
    """Half a fine step of rounding, and half a cell of the score (1/256)."""
    for score in np.random.default_rng(0).integers(-15 * SCALE, 15 * SCALE, 500).tolist():
        z = score / SCALE
        first, second = alone(Odds(reach), score, 0)[0], alone(Odds(reach), score, 1)[0]
        assert abs(first - 4096 * min(math.exp(z), 1)) <= 0.5 + 4096 / 250
        assert abs(second + 4096 * min(math.exp(-z), 1)) <= 0.5 + 4096 / 250


def test_the_mean_residual_is_0_at_the_log_odds():
    for z in np.linspace(-3, 3, 25):
        score, p = round(z * 128) * 512, 1 / (1 + math.exp(-round(z * 128) / 128))
        mean = (1 - p) * alone(Odds(1024), score, 0)[0] + p * alone(Odds(1024), score, 1)[0]
        assert abs(mean) <= 0.5


SCORES = [0, 1, -1, SCALE, -SCALE, 16 * SCALE, -16 * SCALE, 2**40, -(2**40)]


@pytest.mark.parametrize("reach", FINEST)
def test_no_residual_of_two_classes_exceeds_its_reach(reach):
    """Every cell of the table, and scores beyond it."""
    table = residuals._odds_table(FINEST[reach])
    assert np.abs(table).max() == FINEST[reach]
    assert (table[:, 0] >= 0).all()
    assert (table[:, 1] <= 0).all()
    for score in [*SCORES, *range(-(2**20), 2**20 + 1, 2**9)]:
        for y in (0, 1):
            assert abs(alone(Odds(reach), score, y)[0]) <= FINEST[reach] <= 4096


@pytest.mark.parametrize("reach", [1, 3, 128, 1024])
@pytest.mark.parametrize("clip", [1, 2, 777, 9216])
def test_no_residual_of_a_number_exceeds_its_reach(reach, clip):
    edges = [clip * 16 + more for more in (-1, 0, 1)]
    for score in [*SCORES, *edges, *(-edge for edge in edges)]:
        for target in (-SUM_BOUND, -1, 0, 1, SUM_BOUND):
            found = alone(Distance(reach, clip), score, target)[0]
            assert found == naive_distance(score, target, FINEST[reach], clip)
            assert abs(found) <= FINEST[reach]


@pytest.mark.parametrize("n_outputs", [2, 3, 50, 5000])
@pytest.mark.parametrize("reach", [1, 2, 3, 128, 1024])
def test_no_vector_of_several_classes_is_longer_than_its_reach(reach, n_outputs):
    """Compared as integers. The longest are those of rows that are surely another class."""
    rng, longest = np.random.default_rng(n_outputs), 0
    sure = np.zeros(n_outputs, dtype=np.int64)
    sure[1] = 2**40
    cases = [(sure, 0), (sure, 1), (np.zeros(n_outputs, dtype=np.int64), 0), (-sure, 1)]
    for scale in (0.1, 1.0, 5.0, 40.0):
        for _ in range(20):
            z = np.rint(rng.normal(0, scale, n_outputs) * SCALE).astype(np.int64)
            cases += [(z, int(z.argmin())), (z, int(z.argmax())), (z, 0)]
    for scores, target in cases:
        found = alone(Softmax(reach, n_outputs), scores, target, n_outputs)
        square = sum(v * v for v in found)
        assert square <= reach**2
        longest = max(longest, square)
    assert longest > (0.9 * reach - 2) * reach  # the bound is nearly used


def test_one_row_changes_one_leaf_of_each_tree():
    block, starts = rows(200, n_classes=2), grove().starts
    weights = weights_of(1, 6)
    for loss in (Odds(256), Distance(64, 500)):
        (whole,) = Residuals(grove(), weights, loss)(block)
        for without in range(0, 200, 17):
            kept = np.arange(200) != without
            (rest,) = Residuals(grove(), weights, loss)(Block(block.codes[kept], block.target[kept]))
            for v in range(len(TERMS)):
                moved = (whole - rest)[starts[v] : starts[v + 1]]
                assert np.count_nonzero(moved) <= 1
                assert np.abs(moved).max() <= loss.reach * loss.step


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_sums_do_not_depend_on_blocks_and_threads(n_threads, monkeypatch):
    monkeypatch.setattr(residuals, "_WORTH_THREADS", 0)
    block = rows(1001, n_classes=4)
    weights, loss = weights_of(4, 7), Softmax(512, 4)
    (expected,) = Residuals(grove(), weights, loss)(block)
    order = np.random.default_rng(8).permutation(1001)
    parts = [order[:1], order[1:1], order[1:700], order[700:]]
    found = sum(
        Residuals(grove(), weights, loss, n_threads)(Block(block.codes[p], block.target[p]))[0]
        for p in parts
    )
    np.testing.assert_array_equal(found, expected)


STUMP = Tree(np.array([LEAF]), np.array([0]), np.array([False]), np.array([0]))


def test_sums_have_64_bits():
    """So many rows of one leaf that 32 bits would overflow."""
    n = 2**22
    block = Block(np.zeros((n, 1), dtype=np.uint8), np.zeros(n, dtype=np.int32))
    (found,) = Residuals(Grove((STUMP,), CATEGORICAL), np.array([[2**22]]), Odds(1024))(block)
    assert found.tolist() == [[4 * 1024 * n]]  # in steps of 1/4


def test_scores_of_thousands_of_trees_do_not_overflow():
    width = 3000
    many, weights = Grove((STUMP,) * width, CATEGORICAL), np.full((width, 1), 30 * SCALE)

    def says(weights, target):
        block = Block(np.zeros((1, 3), dtype=np.uint32), np.array([target], dtype=np.int32))
        return Residuals(many, weights, Odds(1024))(block)[0]

    assert (says(weights, 0) == 4 * 1024).all()
    assert (says(-weights, 1) == -4 * 1024).all()
    assert (says(weights, 1) == 0).all()  # e^-90000: a row that is sure to be of its class


def test_a_block_keeps_the_digits_of_the_last_trees_only():
    block, first, second = rows(50), grove(), Grove((TERMS[1].tree,), CATEGORICAL)
    one = block.digits(first)
    assert block.digits(first) is one
    assert block.digits(second).shape == (1, 50)
    np.testing.assert_array_equal(block.digits(first), one)


@pytest.fixture
def processes(monkeypatch):
    """``grove`` as two other processes import it."""
    found = []
    for name in ("one_process", "another_process"):
        spec = importlib.util.spec_from_file_location(name, groves.__file__)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        found.append(module)
    return found


def test_a_block_that_another_process_used_does_not_keep_its_digits(processes):
    """Cells of other trees are beyond the sums: they would be added up out of bounds."""
    one, another = processes
    block = rows(50)
    block.digits(one.Grove(tuple(term.tree for term in TERMS), CATEGORICAL))
    sent, small = pickle.loads(pickle.dumps(block)), another.Grove((TERMS[1].tree,), CATEGORICAL)
    np.testing.assert_array_equal(sent.digits(small), small.digits(block.codes))


def test_threads_with_other_trees_do_not_change_what_a_block_says():
    class Shared(Block):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "_digits" and value[0] == first.key:
                self.digits(second)

    first, second = grove(), Grove((TERMS[1].tree,), CATEGORICAL)
    block = Shared(rows(50).codes, rows(50).target)
    np.testing.assert_array_equal(block.digits(first), first.digits(block.codes))


def test_distances_are_counted_one_row_at_a_time():
    block, weights = rows(500), weights_of(1, 9, 0.2)
    block.target = np.random.default_rng(10).integers(-SUM_BOUND, SUM_BOUND, 500).astype(np.int32)
    (found,) = Distances(grove(), weights)(block)
    far = []
    for leaf, target in zip(naive_leaves(block), block.target.tolist(), strict=True):
        away = abs(sum(int(weights[v, 0]) for v in leaf) - target * 16) // 16
        far.append(float(min(max(away, 1), FARTHEST)))
    codes, counts = np.unique(coarse_places(np.array(far)), return_counts=True)
    assert found.codes.tolist() == codes.tolist()
    assert found.counts.tolist() == counts.tolist()
    assert found.total == 500


def test_distances_of_no_rows_add_up_with_others():
    block, weights = rows(20), weights_of(1, 9)
    (none,), (some,) = (Distances(grove(), weights)(b) for b in (rows(0), block))
    assert none.total == 0
    assert (none + some).counts.tolist() == some.counts.tolist()


def test_distances_are_on_the_grid_whatever_the_scores():
    block = rows(1)
    grid = coarse_places(np.array([1.0, FARTHEST])).tolist()
    n = int(grove().starts[-1])
    for weight in (0, 30 * SCALE, -30 * SCALE):
        for target in (-SUM_BOUND, 0, SUM_BOUND):
            block.target[:] = target
            (found,) = Distances(grove(), np.full((n, 1), weight, dtype=np.int64))(block)
            assert grid[0] <= found.codes[0] <= grid[1]


def test_units_are_where_residuals_saturate():
    assert (Odds(8).unit, Softmax(8, 3).unit) == (1.0, 1.0)
    clip = 1000
    unit = Distance(64, clip).unit
    assert alone(Distance(64, clip), round(unit * SCALE), 0) == [4096]
    assert alone(Distance(64, clip), round(unit * SCALE * 0.98), 0)[0] < 4096
