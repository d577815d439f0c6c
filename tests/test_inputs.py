"""What an estimator is given, read row by row and refused without naming a value, row or count."""

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from lumberjack import Domain, inputs
from lumberjack.noise import Bits


def test_frames_are_read_by_column(frame):
    found = inputs.read_table(frame({"a": [1, 2], "b": ["x", "y"]}))
    assert (found.names, rows(found)) == (["a", "b"], [(1, "x"), (2, "y")])
    assert inputs.read_table(found).columns == found.columns


def rows(found):
    return list(zip(*(column.items() for column in found.columns), strict=True))


def test_a_list_is_read_cell_by_cell():
    """A word in one row does not turn the numbers of other rows into text."""
    assert rows(inputs.read_table([[1, 2.5], ["x", None]])) == [(1, 2.5), ("x", None)]
    masked = np.ma.array([[1.0, 2.0]], mask=[[False, True]])
    assert rows(inputs.read_table(masked)) == [(1.0, None)]


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
def test_what_is_not_a_table_is_refused(X, error, said):
    with pytest.raises(error, match=said):
        inputs.read_table(X)


@pytest.mark.parametrize("weights", [[0, 0], [-1, 1], [np.nan, 1], ["x", 1], [1e-13, 1], [1e101]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match=r"^w must"):
        inputs.check_weights("w", weights)
    assert inputs.check_weights("w", (0, 2)).tolist() == [0, 2]


def test_person_ids_are_read_one_by_one():
    assert inputs.read_people([2**53, 2**53 + 1, 2.0, True]) == [2**53, 2**53 + 1, 2, 1]
    assert inputs.read_people(pl.Series([1, 2])) == inputs.read_people(np.array([1.0, 2.0])) == [1, 2]
    for bad in ([1, None], [1, ""], [2, "2"], [[1], [2]], [1, float("nan")]):
        with pytest.raises(ValueError, match="person_ids"):
            inputs.read_people(bad)
    with pytest.raises(TypeError, match="got a single str"):
        inputs.read_people("abc")


def limit(people, r, seed=None):
    return inputs.limit_rows([np.arange(len(people), dtype=np.uint64)], people, r, Bits(seed))


@pytest.mark.parametrize("seed", [None, 3])
def test_nobody_keeps_more_rows_than_allowed(seed):
    people = [*"abbcccdddd"]
    kept = limit(people, 2, seed)
    assert Counter(people[row] for row in kept) == {"a": 1, "b": 2, "c": 2, "d": 2}
    assert kept.tolist() == sorted(kept)


def content_of(values):
    encoded = Domain({"ward": Domain.categorical()}).read([[value] for value in values])
    return inputs.content(encoded.codes[:, 0], encoded.labels["ward"])


def test_rows_kept_of_one_person_depend_on_no_other():
    wards, other = [*"cdef"], [*"abcd"]  # their codes follow from all wards of the table
    one, two = (
        inputs.limit_rows([content_of(values)], people, 2, Bits(1)).tolist()
        for values, people in ((wards, [*"pppp"]), (wards + other, [*"ppppqqqq"]))
    )
    assert one == [row for row in two if row < 4]


@pytest.mark.parametrize("values", [["b", "a", "b"], [True, False, True], [7, -3, 7]], ids=str)
def test_content_of_labels_is_that_of_their_values(values):
    one, two = (inputs.content(c, labels) for labels, c in map(inputs.list_labels, (values, values[:2])))
    assert one.tolist() == [*two.tolist(), two[0]]
    assert one[0] != one[1]


def test_rows_of_a_person_are_chosen_uniformly():
    """Binomial with 1/3 each; alarm rate below 1e-6."""
    times = Counter(int(limit([*"ppp"], 1, seed)[0]) for seed in range(3000))
    assert all(abs(times[row] - 1000) < 5.2 * (3000 * 2 / 9) ** 0.5 for row in range(3))


def test_labels_are_places_in_the_public_set():
    classes = inputs.check_classes(["b", "a"])
    assert inputs.encode_labels(["a", "b", "a"], classes).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="a label that is not in classes") as error:
        inputs.encode_labels(np.array(["secret"]), classes)
    assert "secret" not in str(error.value)
    for bad in ("ab", [], ["a", 1], [None], 3):
        with pytest.raises(ValueError, match="classes must be"):
            inputs.check_classes(bad)


def as_list(values):
    return list(values)


def as_objects(values):
    return np.array(values, dtype=object)


@pytest.mark.parametrize("form", [as_list, as_objects, lambda v: pd.Series(v, dtype=object)])
@pytest.mark.parametrize(
    ("y", "stray"),
    [
        ([0, 1], 2.0),
        ([0, 1], 2**62),
        ([0.0, 1.0], 3),
        ([-0.0, 1], 0.0),
        (["0", "1"], "a long label"),
        ([False, True], np.True_),
        ([np.int8(0), np.uint64(1)], 0.0),
    ],
)
def test_one_label_does_not_change_the_spelling_of_others(form, y, stray):
    expected = [False, True] if isinstance(y[0], bool) else ["0", "1"] if y[0] == "0" else [0, 1]
    for values in (y, [*y, stray], [stray, *y]):
        labels, codes = inputs.list_labels(form(values))
        assert [labels[code] for code in codes] == values
        spelt = [label for label in labels if label in y]
        assert [(type(v), v) for v in spelt] == [(type(v), v) for v in expected]


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "Int64", "category", "object"])
def test_labels_do_not_depend_on_their_dtype(dtype):
    labels, codes = inputs.list_labels(pd.Series([7, 3, 7], dtype=dtype))
    assert (labels, codes.tolist()) == ((3, 7), [1, 0, 1])
    assert {type(label) for label in labels} == {int}


@pytest.mark.parametrize(
    ("y", "error", "said"),
    [
        ([0, 1, "secret"], TypeError, "labels of one kind"),
        ([True, 8417], TypeError, "mixes booleans"),
        ([0, 8417.5], ValueError, "Unknown label type: continuous"),
        ([0, None], ValueError, "contains NaN"),
        (np.array([0, np.nan]), ValueError, "contains NaN"),
        ([0, np.inf], ValueError, r"below 2\^63"),
        ([0, 2**63], ValueError, r"below 2\^63"),
        ([0, 8417 * 10**5000], ValueError, r"below 2\^63"),
        (["a", "secret\ud800"], ValueError, "UTF-8"),
        ([0, b"secret"], TypeError, "cannot be categories; make them numbers or text"),
        ([0, [8417]], TypeError, "cannot be categories; make them numbers or text"),
        (np.array(["2026-01-01"], dtype="M8[D]"), TypeError, "dates or durations; make them classes"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(y, error, said):
    if isinstance(y, list) and [8417] in y:
        y = pd.Series(y, dtype=object)
    with pytest.raises(error, match=said) as caught:
        inputs.list_labels(y)
    assert "secret" not in str(caught.value)
    assert "8417" not in str(caught.value)


@pytest.mark.parametrize("read", [inputs.list_labels, inputs.read_numbers])
@pytest.mark.parametrize("form", [np.asarray, pd.Series, pl.Series], ids=["numpy", "pandas", "polars"])
@pytest.mark.parametrize("dtype", ["M8[us]", "m8[us]"])
def test_a_target_of_dates_is_refused_with_a_way_out(read, form, dtype):
    y = form(np.array([1_775_000_000, 8417], dtype=dtype))
    with pytest.raises(
        TypeError, match=r"^y holds dates .* \(text\) or numbers, like seconds since 1970$"
    ):
        read(y)


def test_bounds_are_finite_and_in_order():
    assert inputs.check_bounds((0, 1)) == (0.0, 1.0)
    for bad in ((1, 0), (0, np.inf), (0,), "ab", (0, 0)):
        with pytest.raises(ValueError, match="y_bounds must be"):
            inputs.check_bounds(bad)
