from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumberjack.paths import read_paths


def naive(paths, height=None):
    """Count every prefix of every path, one by one."""
    return Counter(p[:d] for p in map(tuple, paths) for d in range(1, len(p[:height]) + 1))


def spelled(tree):
    chosen = [np.arange(len(level.count)) for level in tree.levels]
    counts = [c for level in tree.levels for c in level.count.tolist()]
    return dict(zip(tree.prefixes(chosen), counts, strict=True))


def check_shape(tree):
    above = 1
    for level in tree.levels:
        assert np.all(np.diff(level.parent) >= 0)
        assert len(level.first_child) == above + 1
        for p in range(above):
            assert np.array_equal(level.children(np.array([p])), np.flatnonzero(level.parent == p))
        above = len(level.count)


labels = st.one_of(
    st.integers(-3, 3), st.sampled_from(["a", "b", "", "é"]), st.integers(2**70, 2**70 + 1)
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(labels, max_size=6).map(tuple), max_size=30), st.none() | st.integers(1, 7))
def test_tuples_of_any_depth(paths, height):
    tree = read_paths(paths, height, None)
    assert spelled(tree) == naive(paths, height)
    check_shape(tree)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_arrays_of_any_width_of_labels(data):
    n, h = data.draw(st.integers(0, 30)), data.draw(st.integers(1, 9))
    pools = [
        data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3)) for _ in range(h)
    ]
    rows = [[data.draw(st.sampled_from(pool)) for pool in pools] for _ in range(n)]
    array = np.array(rows, dtype=np.int64).reshape(n, h)
    tree = read_paths(array, None, None)
    assert spelled(tree) == naive([tuple(r) for r in rows])
    check_shape(tree)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64, bool])
def test_integer_types(dtype):
    rng = np.random.default_rng(0)
    array = rng.integers(0, 2, (500, 70)).astype(dtype)
    array[:, 3:] = array[:, :1]
    assert spelled(read_paths(array, None, None)) == naive(array.astype(int).tolist())


def test_unsigned_64_bits_and_wide_levels():
    array = np.array([[2**64 - 1, 5], [2**64 - 1, 6], [0, 5]], dtype=np.uint64)
    assert spelled(read_paths(array, None, None))[(2**64 - 1,)] == 2


def test_many_wide_levels_need_several_sorts():
    rng = np.random.default_rng(1)
    array = rng.choice([7, 10**6, 2**31, -(2**40)], size=(400, 12), p=[0.7, 0.1, 0.1, 0.1])
    assert spelled(read_paths(array, None, None)) == naive(array.tolist())


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ("a/b", ("a", "b")),
        ("/a/b", ("/a", "b")),
        ("/", ("/",)),
        ("a/", ("a", "")),
        ("a//b", ("a", "", "b")),
        ("//a", ("/", "a")),
        ("", ()),
    ],
)
def test_strings(path, labels):
    tree = read_paths([path], None, "/")
    assert spelled(tree) == naive([labels])
    if labels:
        assert tree.join(labels) == path


def test_strings_are_cut_at_the_height():
    assert spelled(read_paths(["a/b/c/d", "a/b"], 2, "/")) == {("a",): 2, ("a", "b"): 2}


def test_frames(frame):
    words = frame({"x": ["a", "a"], "y": ["b", "c"]})
    assert spelled(read_paths(words, None, None)) == naive([("a", "b"), ("a", "c")])
    numbers = frame({"x": [1, 1], "y": [2, 3]})
    assert spelled(read_paths(numbers, None, None)) == naive([(1, 2), (1, 3)])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_series(library):
    lib = pytest.importorskip(library)
    assert spelled(read_paths(lib.Series(["a/b"]), None, "/")) == naive([("a", "b")])


def test_arrow_strings():
    pa = pytest.importorskip("pyarrow")
    assert spelled(read_paths(pa.array(["a/b", "a"]), None, "/")) == naive([("a", "b"), ("a",)])


def test_equal_labels_have_one_spelling():
    first = spelled(read_paths([(True,), (1,), (np.int8(1),), (np.str_("1"),)], None, None))
    assert first == {(1,): 3, ("1",): 1}
    assert all(type(label) in (int, str) for (label,) in first)


def test_keys_name_the_path_not_the_row():
    paths = [("a", 1), ("b", 1), ("a", 2)]

    def keyed(paths):
        tree = read_paths(paths, None, None)
        nodes = [np.arange(len(level.count)) for level in tree.levels]
        return dict(zip(tree.prefixes(nodes), np.concatenate(tree.keys()).tolist(), strict=True))

    keys = keyed(paths)
    assert keys == keyed(paths[::-1])
    assert len(set(keys.values())) == 5


@pytest.mark.parametrize(
    ("paths", "sep", "message"),
    [
        (["secret"], None, "say what separates"),
        ("secret", "/", "single str"),
        (17, None, "single int"),
        ([("secret",)], "/", "must all be strings"),
        ([("secret", 1.5)], None, "integers or strings"),
        ([("secret", None)], None, "integers or strings"),
        ([17], None, "tuple of integers and strings"),
        ([17, (1, 2)], None, "tuple of integers and strings"),
        (np.ma.masked_array([[1]], mask=[[True]]), None, "masked"),
        (np.array([[0.5]]), None, "dtype float64"),
        (np.zeros((2, 2, 2), dtype=int), None, "3-D"),
        (np.array([1, 2]), None, "1-D"),
    ],
)
def test_wrong_kinds_are_refused_without_naming_a_value(paths, sep, message):
    with pytest.raises(TypeError, match=message) as caught:
        read_paths(paths, None, sep)
    assert "secret" not in str(caught.value)
    assert "17" not in str(caught.value)
