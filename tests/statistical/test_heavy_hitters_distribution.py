"""The output distribution of heavy hitters against exact enumeration of the paper's Algorithm 1.

Every unordered rooted tree of up to 7 nodes, with several sets of counts. The enumeration lives in
``reference.py`` and shares no code with the library. False-alarm rate 1e-6 in all; seeds are kept.
"""

import math

import numpy as np
import pytest
import reference
from scipy import stats

from lumberjack import PrivacyLeakWarning, ThresholdQueries, heavy_hitters
from lumberjack.guarantee import Guarantee
from lumberjack.noise import Bits
from lumberjack.paths import make_level
from lumberjack.prefixes import mark_privately
from lumberjack.search import HEAVY

RUNS = 10_000
SIGMA, TAU, CUT, DELTA = 2.0, 6.0, 1, 3.5
SHAPES = [shape for size in range(1, 8) for shape in reference.rooted_trees(size)]
ALARM = 1e-6 / (len(SHAPES) * 9)


def promise(method, height):
    """A record with the noise of this test; what it costs does not matter here."""
    return Guarantee(
        epsilon=1.0,
        delta=0.5,
        unit="row",
        rows_per_person=1,
        accounting="joint",
        method=method,
        n_estimators=1,
        max_depth=height,
        leaf="none",
        structure_share=None,
        events=(
            ThresholdQueries(height, SIGMA, None, TAU, -1)
            if method == "gaussian"
            else ThresholdQueries(height, SIGMA, DELTA, TAU, CUT),
        ),
    )


def probability(method, count):
    if method != "gaussian" and count <= CUT:
        return 0.0
    if method == "two-sided" and count >= TAU + DELTA + 1:
        return 1.0
    return float(stats.norm.sf((TAU - count) / SIGMA))


def copies(root, method):
    """RUNS independent trees side by side: one call of the library is RUNS runs. Names by level."""
    levels, names, layer = [], [], [root]
    places = {root.name: 0}
    n_parents, width_above = 1, 0
    while layer:
        keep = [n for n in layer if n.count > 0 or method == "gaussian"]
        if not keep:
            break
        index = np.tile(np.arange(RUNS), (len(keep), 1)).T
        parent = np.array([places[n.name] for n in keep]) + index * width_above
        count = np.tile([n.count for n in keep], RUNS)
        levels.append(make_level(parent.reshape(-1), np.zeros(count.size, dtype=int), count, n_parents))
        names.append([n.name for n in keep])
        children = [(i, c) for i, n in enumerate(keep) for c in n.children]
        places = {c.name: i for i, c in children}
        layer = [c for _, c in children]
        width_above, n_parents = len(keep), RUNS * len(keep)
    return levels, names


def outcomes(root, method, height, seed):
    levels, names = copies(root, method)
    keys = [
        (np.arange(level.count.size) + (d << 40)).astype(np.uint64) for d, level in enumerate(levels)
    ]
    marks = mark_privately(levels, promise(method, height), Bits(seed), keys)
    code = np.zeros(RUNS, dtype=np.int64)
    for mark, row in zip(marks, names, strict=True):
        heavy = (mark.reshape(RUNS, len(row)) == HEAVY).astype(np.int64)
        code += heavy @ (1 << np.array(row))
    values, counts = np.unique(code, return_counts=True)
    return {
        frozenset(i for i in range(10) if v >> i & 1): c for v, c in zip(values, counts, strict=True)
    }


def matches(observed, exact):
    assert math.isclose(sum(exact.values()), 1.0, rel_tol=1e-9)
    assert not set(observed) - {o for o, p in exact.items() if p > 0}
    order = sorted(exact, key=exact.get)
    expected = np.array([exact[o] for o in order]) * RUNS
    seen = np.array([observed.get(o, 0) for o in order], dtype=float)
    rare = expected < 10
    expected = np.append(expected[~rare], expected[rare].sum())
    seen = np.append(seen[~rare], seen[rare].sum())
    if expected[-1] < 1e-9:
        expected, seen = expected[:-1], seen[:-1]
    if len(expected) == 1:
        return True
    return stats.chisquare(seen, expected * RUNS / expected.sum()).pvalue > ALARM


def test_there_are_as_many_shapes_as_known():
    """1, 1, 2, 4, 9, 20, 48: the number of rooted trees (OEIS A000081)."""
    assert [len(reference.rooted_trees(n)) for n in range(1, 8)] == [1, 1, 2, 4, 9, 20, 48]


def depth(shape):
    return 1 + max((depth(child) for child in shape), default=0)


@pytest.mark.parametrize("method", ["sparse", "two-sided", "gaussian", "top-down"])
@pytest.mark.parametrize("index", range(len(SHAPES)))
def test_every_small_tree(index, method):
    rng = np.random.default_rng(1000 * index + len(method))
    shape = SHAPES[index]
    height = depth(shape)
    root = reference.build(shape)
    repeats = {"sparse": 4, "two-sided": 2, "gaussian": 1, "top-down": 2}[method]
    for repeat in range(repeats):
        for node in root.walk():
            node.own = int(rng.choice([0, 1, 2, 4, 6]))

        def run(tree, check, extra=repeat % 2):
            if method == "top-down":
                reference.mark_top_down(tree, check)
            else:  # a public height above the tree's own: the levels below are empty
                reference.mark_heavy_hitters(tree, height + extra, check)

        exact = reference.output_distribution(root, run, lambda q: probability(method, q))
        observed = outcomes(
            root, method, height + (repeat % 2 if method != "top-down" else 0), seed=repeat
        )
        assert matches(observed, exact)


@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_the_public_function_end_to_end():
    """Paths in, prefixes out, noise from the operating system; each run under a label of its own."""
    rows = [(0,)] * 2 + [(0, 0)] * 3 + [(0, 1, 0)] * 4 + [(0, 1, 1)] * 3
    paths = [(copy, *row) for copy in range(RUNS) for row in rows]
    found = heavy_hitters(paths, epsilon=3.0, delta=0.1, height=4)
    promised = found.guarantee
    root = reference.Node(name=0, children=[reference.Node(name=1, own=2)])
    low, high = reference.Node(name=2, own=3), reference.Node(name=3)
    high.children = [reference.Node(name=4, own=4), reference.Node(name=5, own=3)]
    root.children[0].children = [low, high]
    names = {(): 0, (0,): 1, (0, 0): 2, (0, 1): 3, (0, 1, 0): 4, (0, 1, 1): 5}

    def chance(q):
        return (
            0.0
            if q <= promised.cut
            else float(stats.norm.sf((promised.threshold - q) / promised.threshold_noise))
        )

    exact = reference.output_distribution(
        root, lambda tree, check: reference.mark_heavy_hitters(tree, 4, check), chance
    )
    sets = [set() for _ in range(RUNS)]
    for prefix in found.prefixes:
        sets[prefix[0]].add(names[prefix[1:]])
    observed = {}
    for heavy in map(frozenset, sets):
        observed[heavy] = observed.get(heavy, 0) + 1
    assert len(exact) > 10
    assert matches(observed, exact)


def test_noisy_counts_are_the_counts_plus_rounded_gaussian_noise():
    paths = [(i, j) for i in range(100) for j in range(20) for _ in range(300)]
    with pytest.warns(PrivacyLeakWarning):
        found = heavy_hitters(paths, epsilon=1.0, delta=1e-6, height=2, counts=True, random_state=1)
    assert len(found.prefixes) == 2100
    noise = np.array(found.counts) - np.array([6000 if len(p) == 1 else 300 for p in found.prefixes])
    sigma = found.guarantee.leaf_noise
    jitter = np.random.default_rng(0).uniform(-0.5, 0.5, len(noise))
    exact = stats.norm.cdf((noise + jitter) / sigma)  # uniform up to the step of rounding
    assert stats.kstest(exact, "uniform").pvalue > 1e-6
