"""What a fit learns about a table before it grows trees."""

import datetime as dt
import itertools
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lumberjack import Domain, plan
from lumberjack.domain import complete
from lumberjack.engines.base import Block
from lumberjack.engines.local import LocalRows
from lumberjack.engines.many import ManyRows
from lumberjack.kinds import Cuts, Open
from lumberjack.learning import Task, learn
from lumberjack.noise import Bits
from lumberjack.targets import Classes, Numbers, OpenClasses, OpenNumbers

N = 3000
CLASSES = Classes(np.array([0, 1]))


def columns(seed=0):
    rng = np.random.default_rng(seed)
    days = [dt.datetime(2020, 1, 1) + dt.timedelta(int(d)) for d in rng.integers(0, 900, N)]
    dose = rng.choice([0.5, 2.0, math.inf, -0.25, None], N, p=[0.5, 0.3, 0.1, 0.001, 0.099])
    return {
        "amount": [None if v > 2 else float(v) for v in rng.normal(0, 1, N)],
        "ward": [["A", "B", None, "rare"][i] for i in rng.choice(4, N, p=[0.5, 0.3, 0.199, 0.001])],
        "code": rng.choice([7, 11, 2**60], N, p=[0.6, 0.399, 0.001]).tolist(),
        "large": (2**60 + rng.integers(0, 2**50, N)).tolist(),
        "flag": (rng.random(N) < 0.5).tolist(),
        "seen": [None if i % 17 == 0 else day for i, day in enumerate(days)],
        "dose": dose.tolist(),
        "same": [3.5] * N,
        "none": [None if i else 1.0 for i in range(N)],
    }


def as_rows(given):
    return [list(row) for row in zip(*given.values(), strict=True)]


def as_array(given):
    return np.array(as_rows(given), dtype=object)


CONTAINERS = {
    "pandas": pd.DataFrame,
    "pandas objects": lambda given: pd.DataFrame(given, dtype=object),
    "pandas nullable": lambda given: pd.DataFrame(given).convert_dtypes(),
    "pandas categories": lambda given: pd.DataFrame(given).astype({"ward": "category"}),
    "pandas arrow": lambda given: pa.table(given).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "polars categories": lambda given: pl.DataFrame(given).with_columns(
        pl.col("ward").cast(pl.Categorical)
    ),
    "Arrow": pa.table,
    "Arrow dictionary": lambda given: pa.table(
        {**given, "ward": pa.array(given["ward"]).dictionary_encode()}
    ),
    "list": as_rows,
    "array": as_array,
}
OPEN = {"code": Domain.categorical(), "dose": Domain.categorical()}


def in_blocks(codes, target, cuts=(0, N // 3, N // 3, N)):
    return ManyRows([Block(codes[a:b], target[a:b]) for a, b in itertools.pairwise(cuts)])


def learned(X, given, bits, rows=in_blocks):
    encoded = complete(given, X).read(X)
    promise = plan(8.0, 1e-3, 2, 4, columns=encoded.domain.to_learn(guided=True), target=False)
    data = rows(encoded.codes, np.zeros(len(encoded.codes), np.int32))
    return learn(data, Task(encoded.domain, CLASSES, encoded.labels), promise, bits)


def codes_of(rows):
    return np.concatenate([block.codes for block in rows.blocks])


@pytest.mark.parametrize("name", CONTAINERS)
def test_rows_are_read_in_predict_as_in_training(name):
    given, make = columns(), CONTAINERS[name]
    X = make(given)
    named = {column: OPEN.get(column, Domain.numeric()) for column in given}
    for column in ("ward", "flag"):
        named[column] = Domain.categorical()
    named["seen"] = Domain.numeric(temporal=True)
    declared = Domain(named if name in ("list", "array") else OPEN)
    rows, domain, target = learned(X, declared, Bits(0))
    trained = codes_of(rows)
    for form in ("array", "pandas objects", name):  # whatever holds them when it predicts
        same = CONTAINERS[form]({column: given[column] for column in domain})
        np.testing.assert_array_equal(trained, domain.compact(same))
    assert trained.dtype == np.uint8
    assert target is CLASSES
    seen = {column: len(np.unique(trained[:, j])) for j, column in enumerate(domain)}
    assert (seen["ward"], seen["code"], seen["dose"]) == (4, 3, 4)  # with OTHER and missing
    assert seen["amount"] > 16
    assert domain["ward"].categories == ("A", "B")
    assert domain["code"].categories == (7, 11)
    assert domain["dose"].categories == (0.5, 2)
    assert set(domain["flag"].categories) == {False, True}
    assert isinstance(domain["large"], Cuts)


def test_blocks_in_any_order_are_learned_from_as_one():
    X, given = pd.DataFrame(columns()), Domain(OPEN)
    rows, domain, _ = learned(X, given, Bits(3))
    for seed, cuts in ((0, (0, N)), (1, (0, 1, 2, 2, N)), (2, tuple(range(0, N + 1, 100)))):
        order = np.random.default_rng(seed).permutation(N)
        again, same, _ = learned(X.iloc[order], given, Bits(3), lambda c, t, k=cuts: in_blocks(c, t, k))
        assert same == domain
        np.testing.assert_array_equal(codes_of(again), codes_of(rows)[order])
    _, same, _ = learned(X, given, Bits(3), LocalRows)
    assert same == domain


def test_nothing_learned_is_left_open():
    _, domain, _ = learned(pd.DataFrame(columns()), Domain(OPEN), Bits(1))
    assert not any(isinstance(kind, Open) for kind in domain.kinds)
    assert domain.known == domain.kinds
    assert not domain.inferred
    assert pickle.loads(pickle.dumps(domain)) == domain == Domain.from_dict(domain.to_dict())


def test_a_rare_label_is_left_out_with_its_rows():
    labels = ("A", "B", "C")
    target = np.array([0] * 1500 + [1] * 3 + [2] * 1497, dtype=np.int32)
    domain = Domain({"row": (0, 1)})
    codes = domain.encode(np.linspace(0, 1, N)[:, None])
    promise = plan(8.0, 1e-3, 2, 4, splits="random", columns=(0, 0), target=True)
    task = Task(domain, OpenClasses(labels))
    rows, same, found = learn(in_blocks(codes, target), task, promise, Bits(0))
    assert same == domain
    assert found.labels.tolist() == ["A", "C"]
    kept = target != 1
    np.testing.assert_array_equal(codes_of(rows), codes[kept])
    targets = np.concatenate([block.target for block in rows.blocks])
    np.testing.assert_array_equal(targets, (target[kept] == 2).astype(int))


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1e-3), (0.0, 1e9), (-2000.0, 1.0), (1e6, 1e3)])
def test_the_scale_of_a_target_is_near_its_quantiles(shift, scale):
    """Normal targets: 2 x 1.645 standard deviations to each side of the median."""
    y = np.random.default_rng(0).normal(0, 1, 20_000) * scale + shift
    rows = LocalRows(np.zeros((len(y), 1), dtype=np.uint32), OpenNumbers().encode(y))
    promise = plan(4.0, 1e-6, 2, 4, leaf="mean", columns=(0, 0), target=True)
    changed, _, found = learn(rows, Task(Domain({"a": (3, 3)}), OpenNumbers()), promise, Bits())
    grid = 2.0**-22 * abs(shift)  # of single precision
    assert found.centre == pytest.approx(np.median(y), abs=0.1 * scale + grid)
    assert (found.high - found.low) / 2 == pytest.approx(2 * 1.645 * scale, rel=0.1, abs=4 * grid)
    (target,) = changed.total(lambda block: [block.target])
    assert np.abs(target - found.encode(y)).max() <= 1 + 4096 * grid / scale


def test_a_scale_is_found_where_budget_is_small():
    """Beyond the quantile scores fall slowly: its share is such that a miss has a chance below 1e-8."""
    y = np.random.default_rng(0).normal(0, 1, 20_000)
    rows = LocalRows(np.zeros((len(y), 1), dtype=np.uint32), OpenNumbers().encode(y))
    promise = plan(0.25, 1e-6, 20, leaf="mean", columns=(0, 0), target=True)
    task = Task(Domain({"a": (3, 3)}), OpenNumbers())
    for _ in range(100):
        _, _, found = learn(rows, task, promise, Bits())
        assert 1 < (found.high - found.low) / 4 < 3  # the 90 % quantile is 1.645


@pytest.mark.parametrize(
    ("values", "shares", "low", "high"),
    [
        ([0, 1], [0.6, 0.4], -2.25, 2.25),
        ([7], [1.0], 7, 7),
        ([1, 2, 3], [0.3, 0.4, 0.3], -0.25, 4.25),
    ],
    ids=["yes or no", "constant", "ratings"],
)
@pytest.mark.filterwarnings("ignore:nearly all targets")
def test_the_scale_of_targets_that_share_values(values, shares, low, high):
    """With little noise the median is a value, and the quantile of distances ends the place of one.

    A distance of 1 is in the place from 1 to 9/8: there are eight from one power of two to the next.
    """
    y = np.repeat(np.array(values, dtype=float), [round(20_000 * share) for share in shares])
    rows = LocalRows(np.zeros((len(y), 1), dtype=np.uint32), OpenNumbers().encode(y))
    promise = plan(4.0, 1e-6, 2, 4, leaf="mean", columns=(0, 0), target=True)
    _, _, found = learn(rows, Task(Domain({"a": (3, 3)}), OpenNumbers()), promise, Bits())
    assert (found.low, found.high) == (low, high)


def test_a_target_without_a_scale_is_warned_of():
    with pytest.warns(UserWarning, match="nearly all targets"):
        assert OpenNumbers().close(7.0, 0.0) == Numbers(7.0, 7.0, learned=True)


def test_what_was_learned_may_be_given_again(frame):
    """As the domain of another fit: rows are read alike, and nothing is left to pay for."""
    X = frame(columns())
    first, domain, _ = learned(X, None, Bits(0))
    assert domain.to_learn(guided=True) == (0, 0)
    again, same, _ = learned(X, domain, Bits(1))
    assert same == domain
    assert not any(getattr(kind, "learned", False) for kind in same.kinds)
    for one, two in zip(first.blocks, again.blocks, strict=True):
        np.testing.assert_array_equal(one.codes, two.codes)
