"""What an estimator is given, read row by row and refused without a word about the data."""

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from lumberjack import inputs
from lumberjack.noise import Bits


def test_frames_stay_as_they_are(frame):
    X = frame({"a": [1, 2]})
    assert inputs.read_table(X) is X


def test_a_list_is_read_cell_by_cell():
    """A word in one row does not turn the numbers of other rows into text."""
    assert inputs.read_table([[1, 2.5], ["x", None]]).tolist() == [[1, 2.5], ["x", None]]
    masked = np.ma.array([[1.0, 2.0]], mask=[[False, True]])
    assert inputs.read_table(masked).tolist() == [[1.0, None]]


@pytest.mark.parametrize(
    ("X", "error", "said"),
    [
        (sparse.eye(3), TypeError, "dense data is required"),
        (np.zeros(3), ValueError, "Expected 2D array, got a 1D array"),
        (np.zeros((3, 0)), ValueError, "0 feature"),
        (np.zeros((3, 1), dtype=complex), ValueError, "Complex data not supported"),
        (3, TypeError, "2-D array, got int"),
        (pd.DataFrame(index=[0, 1]), ValueError, "0 feature"),
    ],
    ids=str,
)
def test_what_is_no_table(X, error, said):
    with pytest.raises(error, match=said):
        inputs.read_table(X)


@pytest.mark.parametrize("weights", [[0, 0], [-1, 1], [np.nan, 1], ["x", 1], [1e-13, 1], [1e101]])
def test_weights_are_refused(weights):
    with pytest.raises(ValueError, match=r"^w must"):
        inputs.check_weights("w", weights)
    assert inputs.check_weights("w", (0, 2)).tolist() == [0, 2]


def test_people_are_plain_values_one_by_one():
    assert inputs.read_people([2**53, 2**53 + 1, 2.0, True]) == [2**53, 2**53 + 1, 2, 1]
    assert inputs.read_people(pl.Series([1, 2])) == inputs.read_people(np.array([1.0, 2.0])) == [1, 2]
    for bad in ([1, None], [1, ""], [2, "2"], [[1], [2]], [1, float("nan")]):
        with pytest.raises(ValueError, match="person_ids"):
            inputs.read_people(bad)
    with pytest.raises(TypeError, match="got a single str"):
        inputs.read_people("abc")


def limit(people, r, seed=None):
    codes = np.arange(len(people), dtype=np.uint32)[:, None]
    return inputs.limit_rows(codes, np.zeros(len(people)), people, r, Bits(seed))


@pytest.mark.parametrize("seed", [None, 3])
def test_nobody_keeps_more_rows_than_allowed(seed):
    people = [*"abbcccdddd"]
    kept = limit(people, 2, seed)
    assert Counter(people[row] for row in kept) == {"a": 1, "b": 2, "c": 2, "d": 2}
    assert kept.tolist() == sorted(kept)


def test_rows_kept_of_one_person_depend_on_no_other():
    codes = np.arange(8, dtype=np.uint32)[:, None]
    one = inputs.limit_rows(codes[:4], np.zeros(4), [*"aaaa"], 2, Bits(1))
    two = inputs.limit_rows(codes, np.zeros(8), [*"aaaabbbb"], 2, Bits(1))
    assert one.tolist() == [row for row in two if row < 4]


def test_rows_of_a_person_are_chosen_alike_often():
    """Binomial with 1/3 each; alarm rate below 1e-6."""
    times = Counter(int(limit([*"ppp"], 1, seed)[0]) for seed in range(3000))
    assert all(abs(times[row] - 1000) < 5.2 * (3000 * 2 / 9) ** 0.5 for row in range(3))


def test_labels_are_places_in_the_public_set():
    classes = inputs.check_classes(["b", "a"])
    known, target = inputs.encode_labels(np.array(["a", "b", "a"]), classes)
    assert (known.tolist(), target.tolist()) == (["a", "b"], [0, 1, 0])
    with pytest.raises(ValueError, match="a label that is not in classes") as error:
        inputs.encode_labels(np.array(["secret"]), classes)
    assert "secret" not in str(error.value)
    for bad in ("ab", [], ["a", 1], [None], 3):
        with pytest.raises(ValueError, match="classes must be"):
            inputs.check_classes(bad)


def test_bounds_are_finite_and_in_order():
    assert inputs.check_bounds((0, 1)) == (0.0, 1.0)
    for bad in ((1, 0), (0, np.inf), (0,), "ab", (0, 0)):
        with pytest.raises(ValueError, match="y_bounds must be"):
            inputs.check_bounds(bad)
