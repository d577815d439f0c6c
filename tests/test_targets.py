"""Targets: how they are encoded, read and stored."""

import json

import numpy as np
import pytest

from lumberjack.guarantee import SUM_BOUND
from lumberjack.leaves import Counts, Labels, Sums, Weights
from lumberjack.targets import Classes, Numbers


def test_targets_are_bounded_whatever_comes():
    wild = np.array([-1e308, 1e308, 0.0, np.nan])
    with np.errstate(all="ignore"):
        codes = Numbers(-1e308, 1e308).encode(wild)
    assert codes.min() >= -SUM_BOUND  # not by magnitude: the smallest integer has none
    assert codes.max() <= SUM_BOUND


def test_targets_stay_inside_their_grid():
    targets = Numbers(10.0, 30.0)
    codes = targets.encode(np.array([-1e9, 10.0, 20.0, 30.0, 1e9, 25.0]))
    assert codes.tolist() == [-SUM_BOUND, -SUM_BOUND, 0, SUM_BOUND, SUM_BOUND, SUM_BOUND // 2]
    places = (codes / SUM_BOUND)[:, None]
    np.testing.assert_allclose(targets.read(places), [10, 10, 20, 30, 30, 25], atol=0.01)


def test_numbers_stay_inside_all_bounds():
    pooled = np.array([[-3.0], [0.5], [3.0]])
    assert Numbers(10.0, 30.0).read(pooled).tolist() == [10, 25, 30]
    assert Numbers(10.0, 30.0, True, True, (12, 22)).read(pooled).tolist() == [12, 22, 22]


def test_classes_are_read_as_their_leaves_vote():
    pooled = np.array([[0.25, 0.75]])
    for leaf in ("counts", "majority"):
        assert Classes(np.array(["a", "b"]), leaf).read(pooled).tolist() == [[0.25, 0.75]]
    odds = np.array([[np.log(3.0)]])
    np.testing.assert_allclose(Classes(np.array(["a", "b"]), "fitted").read(odds), [[0.25, 0.75]])
    np.testing.assert_allclose(Classes(np.array(["a"]), "fitted").read(odds), [[1.0]])
    logs = np.log([[1.0, 2.0, 5.0]]) + 7
    np.testing.assert_allclose(Classes(np.arange(3), "fitted").read(logs), [[0.125, 0.25, 0.625]])


@pytest.mark.parametrize(
    ("target", "leaves"),
    [
        (Classes(np.arange(3)), Counts(3)),
        (Classes(np.arange(3), "majority"), Labels(3)),
        (Classes(np.arange(3), "exponential"), Labels(3, True)),
        (Classes(np.arange(3), "fitted"), Weights(3)),
        (Classes(np.arange(2), "fitted"), Weights(1)),
        (Numbers(0.0, 1.0), Sums()),
        (Numbers(0.0, 1.0, is_fitted=True), Weights(1)),
    ],
)
def test_a_target_names_what_leaves_hold(target, leaves):
    assert target.leaves == leaves


@pytest.mark.parametrize("labels", [["a", "ä"], [False, True], [1, 2**40], [-0.5, 2.0]])
@pytest.mark.parametrize("leaf", ["counts", "fitted"])
def test_classes_come_back_from_plain_data(labels, leaf):
    target = Classes(np.array(labels), leaf, True)
    again = Classes.from_dict(json.loads(json.dumps(target.to_dict())), leaf, True)
    np.testing.assert_array_equal(again.labels, target.labels)
    assert (again.labels.dtype, again.leaf, again.learned) == (target.labels.dtype, leaf, True)


@pytest.mark.parametrize(("leaf", "limits"), [("mean", None), ("fitted-mean", (0.5, 2.0))])
def test_numbers_come_back_from_plain_data(leaf, limits):
    target = Numbers(-1.5, 7.0, True, leaf == "fitted-mean", limits)
    assert Numbers.from_dict(json.loads(json.dumps(target.to_dict())), leaf, True, limits) == target


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"classes": {"type": "int64", "labels": [1, 0]}, "bounds": None}, "sorted"),
        ({"classes": {"type": "int64", "labels": [False, True]}, "bounds": None}, "of their type"),
        ({"classes": {"type": "bytes", "labels": [0]}, "bounds": None}, "list of labels"),
        ({"classes": {"type": "int64", "labels": [0]}, "bounds": [0, 1]}, "both"),
    ],
)
def test_malformed_classes_are_refused(said, why):
    with pytest.raises(ValueError, match=why):
        Classes.from_dict(said, "counts", False)


@pytest.mark.parametrize("bounds", [[1, 0], [0], [0, True], [0, "1"], [-1e308, 1e308], [0, 1, 2]])
def test_malformed_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match="must be two numbers"):
        Numbers.from_dict({"classes": None, "bounds": bounds}, "mean", False)
    with pytest.raises(ValueError, match="both"):
        Numbers.from_dict({"classes": {}, "bounds": [0, 1]}, "mean", False)
