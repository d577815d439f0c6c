"""An attack on neighbouring data: the divergence that can be seen stays below the promise.

Two data sets that differ in one record, many runs on each, and the best event that an adversary can
name: chosen on one half of the runs, counted on the other, so that the estimate is not biased upward.
A deliberately broken variant (threshold lowered by 3) must be caught. Estimates are taken 5 standard
errors towards innocence (or, for the broken one, towards guilt): false-alarm rate below 1e-6.
"""

import math

import numpy as np
import pytest
from promises import changed

from lumberjack.noise import Bits
from lumberjack.paths import read_paths
from lumberjack.planning import plan_heavy_hitters
from lumberjack.prefixes import mark_privately
from lumberjack.search import HEAVY

RUNS = 200_000
EPSILON, DELTA = 0.6, 0.2
HEIGHT = 3


def outputs(rows, promise, seed):
    """Which nodes came out heavy in each of RUNS runs, as one number per run."""
    rows = np.asarray(rows, dtype=np.int64).reshape(-1, HEIGHT - 1)
    # Each run is a tree of its own: its number is the first label, so its root counts all rows.
    paths = np.column_stack([np.repeat(np.arange(RUNS), len(rows)), np.tile(rows, (RUNS, 1))])
    tree = read_paths(paths, HEIGHT, None)
    keys = [
        (np.arange(level.count.size) + (d << 40)).astype(np.uint64)
        for d, level in enumerate(tree.levels)
    ]
    marks = mark_privately(tree.levels, promise, Bits(seed), keys)
    code, run, place = np.zeros(RUNS, dtype=np.int64), np.arange(RUNS), np.zeros(RUNS, dtype=np.int64)
    for depth, (level, mark) in enumerate(zip(tree.levels, marks, strict=True)):
        if depth:  # bits are given by labels: the same prefix has the same bit in both data sets
            run = run[level.parent]
            place = 2 * place[level.parent] + np.array(tree.decode(depth, level.label))
        heavy = mark == HEAVY
        np.add.at(code, run[heavy], 1 << (2**depth - 1 + place[heavy]))
    return code


def divergence(p, q):
    """Lower estimate of max over events of P(event) - e^epsilon Q(event), and its standard error."""
    half = RUNS // 2
    values = np.unique(np.concatenate([p, q]))
    count = lambda x: np.array([np.sum(x == v) for v in values])  # noqa: E731
    event = values[count(p[:half]) > math.exp(EPSILON) * count(q[:half])]
    a, b = np.isin(p[half:], event).mean(), np.isin(q[half:], event).mean()
    error = math.sqrt((a * (1 - a) + math.exp(2 * EPSILON) * b * (1 - b)) / half)
    return a - math.exp(EPSILON) * b, error


def worst(method, lower_threshold_by=0.0):
    """The largest divergence over several neighbours and both directions, less and plus 5 errors."""
    promise = plan_heavy_hitters(EPSILON, DELTA, HEIGHT, method=method)
    promise = changed(promise, threshold=promise.threshold - lower_threshold_by)
    tau = round(promise.threshold)
    bases = {
        "empty": [],
        "at the threshold": [(1, 1)] * tau,
        "just above": [(1, 1)] * (tau + 2),
        "root heavy, path empty": [(0, 0)] * (3 * tau),
        "root at the threshold, path empty": [(0, 0)] * tau,
        "middle at the threshold": [(1, 0)] * tau,
        "at the upper edge": [(1, 1)] * math.floor(promise.threshold + promise.cutoff),
    }
    lows, highs = [], []
    for seed, rows in enumerate(bases.values()):
        without = outputs(rows, promise, 2 * seed) if rows else np.zeros(RUNS, dtype=np.int64)
        having = outputs([*rows, (1, 1)], promise, 2 * seed + 1)
        for p, q in ((without, having), (having, without)):
            estimate, error = divergence(p, q)
            lows.append(estimate - 5 * error)
            highs.append(estimate + 5 * error)
    return max(lows), max(highs)


@pytest.mark.parametrize("method", ["sparse", "two-sided", "top-down"])
def test_no_event_tells_neighbours_apart_better_than_promised(method):
    low, high = worst(method)
    assert low <= DELTA
    assert high > DELTA / 10  # the attack is not vacuous: it sees something


@pytest.mark.parametrize("method", ["sparse", "two-sided", "top-down"])
def test_the_audit_has_teeth(method):
    low, _ = worst(method, lower_threshold_by=3.0)
    assert low > DELTA
