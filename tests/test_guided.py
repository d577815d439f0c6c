"""Split choices: sensitivity by exhaustion, scores by fractions, candidates by hand."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from lumberjack import Domain
from lumberjack.engines.base import Block
from lumberjack.growing import Growing, plant
from lumberjack.guarantee import SUM_BOUND
from lumberjack.guided import (
    Gini,
    Guide,
    Variance,
    _candidates,
    _of_squares,
    _of_sum,
    _offer,
    offered_share,
)
from lumberjack.kinds import MISSING, OTHER, Cuts, Numeric, compact
from lumberjack.noise import Bits
from lumberjack.structure import Features, Room, root_keys, root_room

FALSE_ALARM = 1e-6


def counts_of(n_classes, most):
    return [np.array(c) for c in itertools.product(range(most + 1), repeat=n_classes)]


def exact_side(counts):
    """256 sum n_c^2 / n, rounded down."""
    n = int(sum(counts))
    return 0 if n == 0 else math.floor(256 * Fraction(int(sum(int(c) ** 2 for c in counts)), n))


@pytest.mark.parametrize(("n_classes", "most"), [(1, 40), (2, 30), (3, 9), (4, 5)])
def test_one_record_moves_the_score_of_every_split_by_at_most_one(n_classes, most):
    """All sides of all small tables: adding a record changes one side, by -256 to 256 steps."""
    seen = set()
    for side in counts_of(n_classes, most):
        before = exact_side(side)
        assert before == _of_squares(int((side**2).sum()), int(side.sum()))
        for label in range(n_classes):
            after = exact_side(side + np.eye(n_classes, dtype=int)[label])
            seen.add(after - before)
    assert min(seen) >= -256
    assert max(seen) == 256  # the bound is reached: a first row in an empty side


def test_one_record_moves_scores_of_large_sides_by_at_most_one():
    rng = np.random.default_rng(0)
    for _ in range(20_000):
        n = int(2 ** rng.uniform(1, 30))
        counts = rng.multinomial(n, rng.dirichlet(np.full(3, 0.3)))
        assert _of_squares(int((counts**2).sum()), n) == exact_side(counts)
        label = rng.integers(3)
        change = exact_side(counts + np.eye(3, dtype=int)[label]) - exact_side(counts)
        assert -256 <= change <= 256


def test_a_record_moves_scores_of_numbers_within_an_interval_of_width_one():
    """For each target: the changes over all sides of up to 12 rows, and over large random ones."""
    rng = np.random.default_rng(1)
    sides = [(n, y) for n in range(1, 13) for y in range(0, 256 * n + 1, max(n // 2, 1))]
    for _ in range(3000):
        n = int(2 ** rng.uniform(1, 30))
        sides.append((n, int(rng.integers(256 * n + 1))))
    n, y = np.array([(0, 0), *sides]).T
    before = np.array([_of_sum(int(b), int(a)) for a, b in zip(n, y, strict=True)])
    exact = [
        0 if a == 0 else math.floor(Fraction(int(b) ** 2, 256 * int(a)))
        for a, b in zip(n, y, strict=True)
    ]
    np.testing.assert_array_equal(before, exact)
    for target in (0, 1, 2, 63, 127, 128, 129, 200, 255, 256):
        after = np.array([_of_sum(int(b) + target, int(a) + 1) for a, b in zip(n, y, strict=True)])
        change = after - before
        assert change.max() - change.min() <= 256, target
        # The interval of the proof, which holds for all sides at once.
        low = min(0, 2 * target - 256)
        assert low <= change.min() <= change.max() <= low + 256


def make_tree(domain):
    features = Features.of(domain)
    nodes = plant(np.uint64(0), 0)._replace(
        key=np.zeros(4, dtype=np.uint64),
        up=np.array([-1, 0, 0, 1], dtype=np.int32),
        feature=np.full(4, -1, dtype=np.int32),
        cut=np.zeros(4, dtype=np.int64),
    )
    return features, nodes


def root(features):
    """The room at the root."""
    room = Room(*np.zeros((2, len(features.sizes)), dtype=np.uint32))
    root_room(features, room)
    return room


CUTS = 20
DOMAIN = Domain(
    {
        "age": Cuts(Numeric(0, 64), tuple(range(1, CUTS + 1))),
        "job": ["a", "b", "c"],
        "income": Cuts(Numeric(), (2**31 + 5,)),
        "constant": (3, 3),
    }
)


def offering(features, wanted, missing_left=None):
    """A root key under which exactly these columns are offered, and the offer."""
    for key in range(20_000):
        offer = _offer(features, np.uint64(key), root(features), 0.5)
        if list(np.flatnonzero(np.diff(offer.first))) == wanted and (
            missing_left in (None, offer.missing_left)
        ):
            return np.uint64(key), offer
    raise AssertionError("no such key")


def list_candidates(domain, codes, target, n_classes, wanted, missing_left=False):
    features, nodes = make_tree(domain)
    _, offer = offering(features, wanted, missing_left)
    rows = np.arange(len(codes), dtype=np.int32)
    score = Gini(n_classes) if n_classes else Variance()
    few = compact(codes, np.dtype(np.uint8))  # the same counts, from codes of one byte
    bins = score.count(few, rows, offer, target)
    np.testing.assert_array_equal(bins, score.count(codes, rows, offer, target))
    bins = score.count(codes, rows, offer, target)
    feature, cut, weight, left, total = _candidates(features, offer, bins, nodes, 0, root(features))
    return feature, cut, score.score(left, total), weight


def choose(guide, codes, target, tree, bits):
    """What the root chooses when it has these rows."""
    room, offer = guide.offer(tree, 0)
    (bins,) = guide.ask(tree, [0], [offer])(Block(codes, target))
    return guide.choose(bins, tree, 0, (room, offer), bits)


def side_scores(left, target, n_classes):
    """The score of a split by counting rows on each side."""
    out = 0
    for side in (left, ~left):
        if n_classes:
            out += exact_side(np.bincount(target[side], minlength=n_classes))
        elif side.any():
            y = int(((target[side] + SUM_BOUND) // 32).sum())
            out += math.floor(Fraction(y * y, 256 * int(side.sum())))
    return out


@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize("missing_left", [True, False])
def test_scores_of_all_candidates_are_those_of_their_sides(n_classes, missing_left):
    rng = np.random.default_rng(2)
    n = 500
    age = rng.integers(0, CUTS + 1, n).astype(np.uint32)
    age[:40] = MISSING
    job = rng.choice([0, 1, 2, OTHER], n)
    income = rng.integers(0, 2, n)
    codes = np.column_stack([age, job, income, np.zeros(n)]).astype(np.uint32)
    if n_classes:
        target = rng.integers(0, n_classes, n).astype(np.int32)
    else:
        target = rng.integers(-SUM_BOUND, SUM_BOUND + 1, n).astype(np.int32)
    feature, cut, score, weight = list_candidates(DOMAIN, codes, target, n_classes, [0, 1], missing_left)
    assert sorted(set(feature)) == [0, 1]
    np.testing.assert_array_equal(cut[feature == 1], [0, 1, 2])
    np.testing.assert_array_equal(cut[feature == 0], np.arange(CUTS))
    for f, c, s in zip(feature, cut, score, strict=True):
        left = codes[:, f] == c if f == 1 else codes[:, f] <= c
        if f == 0:
            left = np.where(codes[:, 0] == MISSING, missing_left, left)
        assert s == side_scores(left.astype(bool), target, n_classes)
    # Columns are alike: equal weight in all, shared out among their candidates.
    assert weight[feature == 0].sum() == pytest.approx(weight[feature == 1].sum())
    assert len(set(weight[feature == 0])) == 1


def test_what_is_offered_is_public_and_has_room():
    features = Features.of(DOMAIN)
    keys = root_keys(3, 4000)
    offered = np.array([np.diff(_offer(features, k, root(features), 0.5).first) > 0 for k in keys])
    assert not offered[:, 3].any()  # a constant cannot be split
    # Each with chance 1/sqrt(4), independently: 4000 draws, 5 standard deviations.
    assert np.all(np.abs(offered[:, :3].mean(axis=0) - 0.5) < 5 * 0.5 / math.sqrt(4000))
    assert abs(np.corrcoef(offered[:, :3].T)[0, 1]) < 0.08
    weighted = Features.of(DOMAIN, np.array([1.0, 0.0, 3.0, 1.0]))
    never = [np.diff(_offer(weighted, k, root(features), 0.5).first)[1] for k in keys[:200]]
    assert not any(never)


def test_about_the_square_root_of_all_columns_is_offered():
    assert offered_share(4) == 0.5
    assert offered_share(1) == 1.0


def test_candidates_keep_to_what_ancestors_left():
    features, nodes = make_tree(DOMAIN)
    nodes.feature[0], nodes.cut[0] = 1, 2  # the root split on job = c; node 2 is on its other side
    room = root(features)
    room.last[1] = 2
    room.first[0] = CUTS // 2
    key, offer = offering(features, [0, 1], False)
    codes = np.zeros((1, 4), dtype=np.uint32)
    bins = Gini(2).count(codes, np.zeros(1, np.int32), offer, np.zeros(1, np.int32))
    feature, cut, *_ = _candidates(features, offer, bins, nodes, 2, room)
    assert set(cut[feature == 1]) == {0, 1}
    assert cut[feature == 0].tolist() == list(range(CUTS // 2, CUTS))
    room.last[1] = 1  # one category left: no room for a split
    assert np.diff(_offer(features, key, room, 0.5).first)[1] == 0


@pytest.mark.parametrize("n_classes", [2, 0])
def test_choices_have_the_probabilities_of_the_exponential_mechanism(n_classes):
    """Expected frequencies from fractions and mpmath's exponential; chi-square at 1e-6."""
    rng = np.random.default_rng(4)
    n, draws, exponent = 60, 20_000, 0.15
    codes = np.column_stack(
        [rng.integers(0, CUTS + 1, n), rng.integers(0, 3, n), rng.integers(0, 2, n), np.zeros(n)]
    ).astype(np.uint32)
    target = (codes[:, 0] > CUTS // 2).astype(np.int32)
    if n_classes == 0:
        target = (target * 2 - 1) * SUM_BOUND
    features = Features.of(DOMAIN)
    key, offer = offering(features, [0, 1])
    tree = Growing(features, plant(key, n), 1)
    score = Gini(n_classes) if n_classes else Variance()
    guide = Guide(score, exponent, 6)
    picked = [choose(guide, codes, target, tree, Bits(None)) for _ in range(draws)]
    assert {choice.missing_left for choice in picked} == {offer.missing_left}
    for f, c, missing_left, n_left in picked[:50]:
        side = codes[:, f] == c if f == 1 else codes[:, f] <= c
        assert n_left == side.sum(), missing_left  # no number is missing here
    weight = {}
    for f, options in ((0, range(CUTS)), (1, range(3))):
        for c in options:
            side = codes[:, f] == c if f == 1 else codes[:, f] <= c
            worth = side_scores(side, target, n_classes) / 256
            weight[f, int(c)] = math.exp(exponent * worth) / len(options)
    total = sum(weight.values())
    seen = dict.fromkeys(weight, 0)
    for f, c, *_ in picked:
        seen[f, c] += 1
    expected = np.array([draws * w / total for w in weight.values()])
    found = np.array(list(seen.values()))
    common = expected >= 5
    found = np.append(found[common], found[~common].sum())
    expected = np.append(expected[common], expected[~common].sum() or 1e-300)
    if expected[-1] < 1e-9:
        found, expected = found[:-1], expected[:-1]
    statistic = ((found - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(FALSE_ALARM, len(found) - 1)
    # Twice the exponent must be noticed, or this test is vacuous.
    sharper = Guide(score, 2 * exponent, 6)
    other = [choose(sharper, codes, target, tree, Bits(None))[:2] for _ in range(draws)]
    counts = np.array([other.count(option) for option in weight])[common]
    assert ((counts - expected[: common.sum()]) ** 2 / expected[: common.sum()]).sum() > chi2.isf(
        FALSE_ALARM, common.sum() - 1
    )


def test_a_node_without_candidates_chooses_nothing():
    domain = Domain({"constant": (3, 3), "one": ["a"]})
    guide, codes = Guide(Gini(2), 1.0, 6), np.zeros((3, 2), dtype=np.uint32)
    for key in range(20):
        tree = Growing(Features.of(domain), plant(np.uint64(key), 3), 1)
        assert choose(guide, codes, np.zeros(3, dtype=np.int32), tree, Bits(None)) is None


def test_seeded_choices_depend_on_the_node_and_nothing_else():
    rng = np.random.default_rng(6)
    codes = (rng.integers(0, 3, (50, 4)) % [CUTS, 3, 2, 1]).astype(np.uint32)
    target = rng.integers(0, 2, 50).astype(np.int32)
    features, guide = Features.of(DOMAIN), Guide(Gini(2), 0.01, 6)
    tree = Growing(features, plant(offering(features, [0, 1])[0], 50), 1)
    first = choose(guide, codes, target, tree, Bits(7))
    assert first == choose(guide, codes[::-1].copy(), target[::-1].copy(), tree, Bits(7))
    assert len({choose(guide, codes, target, tree, Bits(s)) for s in range(40)}) > 5
