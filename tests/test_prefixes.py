import itertools
import math
import pickle
import warnings

import numpy as np
import pytest

from lumberjack import PrivacyLeakWarning, heavy_hitters
from lumberjack.guarantee import ALPHABET_INFERRED, HEIGHT_INFERRED, SEEDED
from lumberjack.planning import plan_heavy_hitters

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def visits():
    return ["/docs/api"] * 3000 + ["/docs/faq"] * 2000 + ["/blog"] * 1500 + ["/private/note"] * 3


@pytest.mark.parametrize("method", ["sparse", "two-sided", "top-down"])
def test_heavy_prefixes_are_found(method):
    found = heavy_hitters(visits(), sep="/", height=4, method=method, counts=True, **BUDGET)
    assert found.prefixes == ["/blog", "/docs", "/docs/api", "/docs/faq"]
    noise = found.guarantee.leaf_noise
    for got, true in zip(found.counts, [1500, 5000, 3000, 2000], strict=True):
        assert abs(got - true) < 8 * noise
        assert type(got) is int
    assert found.guarantee.method == method
    assert found.guarantee.caveats == ()
    assert len(found) == 4


def test_gaussian_asks_about_every_node_of_a_public_tree():
    rng = np.random.default_rng(0)
    paths = np.column_stack([np.zeros(5000, dtype=int), rng.integers(0, 2, 5000)])
    found = heavy_hitters(paths, method="gaussian", alphabet=[0, 1, 2], height=2, counts=True, **BUDGET)
    assert found.prefixes == [(0,), (0, 0), (0, 1)]
    assert found.guarantee.cutoff is None
    assert found.guarantee.caveats == ()
    low = heavy_hitters(paths, method="gaussian", alphabet=[0, 1, 2], height=2, threshold=-1e4, **BUDGET)
    assert set(low.prefixes) == {(a,) for a in range(3)} | set(itertools.product(range(3), repeat=2))


def test_labels_outside_the_alphabet_end_a_path():
    paths = [(0, 9, 0)] * 5000 + [(0, 1, 0)] * 5000
    found = heavy_hitters(paths, method="gaussian", alphabet=[0, 1], height=3, **BUDGET)
    assert found.prefixes == [(0,), (0, 1), (0, 1, 0)]


def test_gaussian_infers_the_alphabet_with_a_caveat():
    with pytest.warns(PrivacyLeakWarning, match="alphabet"):
        found = heavy_hitters([("a",)] * 900, method="gaussian", height=1, **BUDGET)
    assert found.guarantee.caveats == (ALPHABET_INFERRED,)


def test_an_empty_node_may_pass_with_method_gaussian():
    with_noise = [
        heavy_hitters([], method="gaussian", alphabet=range(50), height=1, threshold=0, **BUDGET)
        for _ in range(3)
    ]
    assert all(0 < len(found) < 50 for found in with_noise)


@pytest.mark.parametrize("empty", [[], np.empty((0, 5), dtype=int), np.empty((0, 2)), [()], [""]])
@pytest.mark.parametrize("method", ["sparse", "two-sided", "top-down"])
def test_empty_data_give_an_empty_result(empty, method):
    sep = "/" if isinstance(empty, list) and empty == [""] else None
    found = heavy_hitters(empty, height=5, counts=True, method=method, sep=sep, **BUDGET)
    assert found.prefixes == []
    assert found.counts == []
    assert str(found) == "(no heavy prefixes)"
    assert found.guarantee.verify() <= found.guarantee.delta


def test_inferred_height_is_a_caveat():
    with pytest.warns(PrivacyLeakWarning, match="height"):
        found = heavy_hitters(visits(), sep="/", **BUDGET)
    assert found.guarantee.max_depth == 2
    assert found.guarantee.caveats == (HEIGHT_INFERRED,)
    with pytest.warns(PrivacyLeakWarning, match="height"):
        assert heavy_hitters([], **BUDGET).guarantee.max_depth == 1


def seeded(paths, seed=0, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return heavy_hitters(
            paths, random_state=seed, **{"height": 6, "counts": True, **BUDGET, **kwargs}
        )


def test_seeded_noise_is_repeatable_marked_and_independent_of_row_order():
    rng = np.random.default_rng(5)
    paths = rng.zipf(1.6, (3000, 6)) % 7
    with pytest.warns(PrivacyLeakWarning, match="seeded"):
        first = heavy_hitters(paths, height=6, counts=True, random_state=3, **BUDGET)
    assert first.guarantee.caveats == (SEEDED,)
    assert first == seeded(rng.permutation(paths), 3)
    assert first == seeded([tuple(p) for p in paths.tolist()], 3)
    assert first != seeded(paths, 4)
    assert "3" not in first.guarantee.caveats[0]


def test_nothing_but_prefixes_counts_and_the_public_promise_is_released():
    """Neighbouring data, same noise: nothing else in the released object may differ."""
    paths = [("a", "b")] * 200 + [("c",)] * 150
    one, two = seeded(paths), seeded([*paths, ("zebra", "stripe")])
    assert one.guarantee == two.guarantee
    assert vars(one).keys() == {"prefixes", "counts", "guarantee", "sep"}
    assert b"zebra" not in pickle.dumps(two)
    assert pickle.loads(pickle.dumps(two)) == two


def test_released_labels_are_fresh_objects():
    """It must not show whose object came first, neither in a subclass's attributes nor in a pickle."""

    class Tagged(str):
        def __str__(self):
            return self

    tagged = [Tagged("abc") for _ in range(500)]
    for i, label in enumerate(tagged):
        label.patient = i
    for found in (
        heavy_hitters([(label,) for label in tagged], height=1, **BUDGET).prefixes[0][0],
        heavy_hitters(tagged, height=1, sep="/", **BUDGET).prefixes[0],
    ):
        assert type(found) is str
        assert found == "abc"
    numbers = [10**6 + i for i in (0, 1)]  # integers that Python does not share by itself
    found = heavy_hitters([(numbers[0],)] * 500 + [tuple(numbers)] * 500, height=2, **BUDGET)
    assert found.prefixes == [(numbers[0],), tuple(numbers)]
    assert not {id(label) for path in found.prefixes for label in path} & set(map(id, numbers))
    literal, built = "sparse", "".join(["spa", "rse"])
    one = heavy_hitters([(literal,)] + [(built,)] * 500, height=1, **BUDGET)
    two = heavy_hitters([(built,)] * 500, height=1, **BUDGET)
    assert pickle.dumps(one) == pickle.dumps(two)


def test_an_error_about_the_threshold_does_not_tell_the_height():
    with pytest.raises(ValueError, match="threshold is too small for the height") as caught:
        heavy_hitters([tuple(range(1000))], threshold=60, **BUDGET)
    assert not any(ch.isdigit() for ch in str(caught.value))


def test_alphabets_are_spelled_one_way():
    for alphabet in ([0, 1], np.arange(2), iter([0, 1]), [False, True]):
        with pytest.warns(PrivacyLeakWarning):
            found = heavy_hitters(
                [(0,)] * 900, height=1, method="gaussian", alphabet=alphabet, random_state=0, **BUDGET
            )
        assert found.prefixes == [(0,)]
        assert type(found.prefixes[0][0]) is int


def test_a_height_far_above_the_data_costs_nothing():
    found = heavy_hitters([("a", "b")] * 900, height=10**9, **BUDGET)
    assert found.prefixes == [("a",), ("a", "b")]
    assert found.guarantee.queries_per_record == 30


def test_prefixes_come_sorted_so_their_order_tells_nothing():
    paths = [("b",)] * 400 + [("a", "z")] * 900 + [(2,)] * 300 + [("a", "c")] * 500
    for rows in (paths, paths[::-1]):
        found = heavy_hitters(rows, height=2, **BUDGET)
        assert found.prefixes == [(2,), ("a",), ("a", "c"), ("a", "z"), ("b",)]


def test_tree_is_printed_by_labels_not_by_letters():
    found = heavy_hitters(["/doc"] * 900 + ["/docs/a"] * 900, sep="/", height=2, **BUDGET)
    assert str(found) == "/doc\n/docs\n  /a"
    numbers = heavy_hitters([(1, 2)] * 900, height=2, **BUDGET)
    assert str(numbers) == "1\n  2"


def test_a_larger_threshold_drops_more():
    promise = plan_heavy_hitters(1.0, 1e-6, 3, threshold=1000)
    assert promise.cut > 800
    found = heavy_hitters([("a",)] * 3000 + [("b",)] * 500, height=3, threshold=1000, **BUDGET)
    assert found.prefixes == [("a",)]


class Untouchable:
    """Data that must not be read before the parameters are known to be good."""

    def __iter__(self):
        raise AssertionError("data was read")

    def __array__(self, *args, **kwargs):
        raise AssertionError("data was read")


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, "epsilon must be positive, got 0"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be a number, got NaN"),
        ({"epsilon": "1"}, TypeError, "epsilon must be a number, got '1'"),
        ({"delta": 1}, ValueError, r"delta must lie in \(0, 1\), got 1"),
        ({"delta": 0}, ValueError, r"delta must lie in \(0, 1\), got 0"),
        ({"height": 0}, ValueError, "height must be at least 1, got 0"),
        ({"height": 2.5}, TypeError, "height must be a whole number, got 2.5"),
        ({"threshold": 3}, ValueError, "threshold must be at least .* got 3; leave it out"),
        ({"threshold": math.nan}, ValueError, "threshold must be a number, got NaN"),
        ({"method": "magic"}, ValueError, "method must be one of 'sparse'.* got 'magic'"),
        ({"sep": ""}, ValueError, "sep must be a non-empty string"),
        ({"alphabet": [1]}, ValueError, 'alphabet is for method="gaussian" only'),
        ({"method": "gaussian", "alphabet": [0, 1], "height": 60}, ValueError, 'use method="sparse"'),
        ({"random_state": "x"}, ValueError, "seed"),
        ({"method": "gaussian", "alphabet": [0, None]}, TypeError, "labels must be integers or strings"),
        (
            {"method": "gaussian", "alphabet": [0], "threshold": math.inf},
            ValueError,
            "threshold must be",
        ),
        ({"method": "gaussian", "alphabet": [0], "height": 10**6}, ValueError, 'use method="sparse"'),
        ({"threshold": 1e19}, ValueError, "threshold must be a number of records"),
        ({"height": 10**30}, ValueError, "height must be at most a billion"),
        ({"counts": "yes"}, TypeError, "counts must be True or False, got 'yes'"),
    ],
)
def test_bad_parameters_are_refused_before_data_is_used(kwargs, error, message):
    with pytest.raises(error, match=message):
        heavy_hitters(Untouchable(), **{"height": 4, **BUDGET, **kwargs})


@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_gaussian_refuses_a_tree_too_large_to_ask_about():
    with pytest.raises(ValueError, match='use method="sparse"'):
        heavy_hitters(np.eye(40, dtype=int), method="gaussian", height=40, **BUDGET)
