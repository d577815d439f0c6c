"""Model files: the same model comes back, and whatever else comes in is refused."""

import dataclasses
import errno
import hashlib
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hostile.models import put_together, take_apart
from promises import FIELDS
from sklearn.base import clone

import lumberjack.files
from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor, PrivacyLeakWarning, load
from lumberjack.datasets import fetch_adult
from lumberjack.guarantee import NOT_PROVED, SEEDED, Guarantee
from lumberjack.io import TREE_FIELDS
from lumberjack.tree import Tree

GOLDEN = Path(__file__).parent / "golden"
DOMAIN = Domain({"age": (0, 100), "city": ["Bonn", "Kiel", "Trier"], "member": [False, True]})


def classifier(**kwargs):
    settings = {"epsilon": 4.0, "n_estimators": 3, "domain": DOMAIN, "classes": [False, True]}
    return LumberjackClassifier(**{**settings, **kwargs})


@pytest.fixture(scope="module")
def saved(table, tmp_path_factory):
    """A small model file of pruned trees, and the model."""
    X, y = table()
    model = classifier(leaf="counts").fit(X, y == "yes")
    path = tmp_path_factory.mktemp("models") / "model.lumberjack"
    model.save(path)
    return path, model


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    """Bytes of model files of fitted leaves, by kind: the base, three columns and three pairs."""
    (X, y), folder = table(), tmp_path_factory.mktemp("models")
    number = X["age"] + 40 * (y == "yes")
    classifier().fit(X, y == "yes").save(folder / "two")
    classifier(classes=["Bonn", "Kiel", "Trier"]).fit(X, X["city"]).save(folder / "three")
    settings = {"epsilon": 4.0, "n_estimators": 3, "domain": DOMAIN, "y_bounds": (0, 90)}
    LumberjackRegressor(**settings).fit(X, number).save(folder / "number")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def load_bytes(data, tmp_path):
    path = tmp_path / "some.lumberjack"
    path.write_bytes(data)
    return load(path)


# The same model comes back


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes"], ["yes", "no"]),
        (["größer", "ja, 'sicher'"], ("größer", "ja, 'sicher'")),
        ([0, 5], np.array([5, 0])),
        ([-1.5, 2.0], [-1.5, 2.0]),
        ([False, True], [True, False]),
        (["a", "b"], None),
        ([0, 1], None),
        ([False, True], None),
        ([-1.0, 2.0], None),
        ([2**60, 5], None),
    ],
)
@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_labels_of_every_kind_come_back(table, labels, classes, tmp_path):
    X, truth = table()
    y = np.array(labels, dtype=object if labels == ["a", "b"] else None)[(truth == "yes").astype(int)]
    model = classifier(classes=classes).fit(X, y)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.classes_.dtype == model.classes_.dtype
    assert again.guarantee_ == model.guarantee_


@pytest.mark.parametrize(
    "settings",
    [
        {"leaf": "majority"},
        {"leaf": "exponential", "splits": "random", "accounting": "paper"},
        {"leaf": "counts", "feature_weights": [1, 2.5, 0], "threshold": 400.0},
        {"leaf": "counts", "feature_weights": {"age": np.float64(3)}, "structure_share": 0.4},
        {"leaf": "counts", "splits": "random", "class_weight": "balanced"},
        {"class_weight": "balanced", "max_depth": np.int64(7)},
        {"class_weight": {True: 2.0}, "n_estimators": 1},
        {"epsilon": np.float32(2), "n_estimators": np.int64(2), "rows_per_person": 2, "verbose": False},
        {"domain": dict(zip(DOMAIN, DOMAIN.kinds, strict=True))},
        {"domain": None, "n_jobs": 1},
    ],
)
@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_parameters_come_back_and_the_model_can_be_cloned_and_fitted_again(table, settings, tmp_path):
    X, y = table()
    y = y == "yes"
    model = classifier(**settings).fit(X, y)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.apply(X[["member", "city", "age"]]), model.apply(X))
    assert again.guarantee_ == model.guarantee_
    assert again.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    expected, found = model.get_params(), again.get_params()
    if expected["domain"] is not None:
        assert found.pop("domain") == DOMAIN
        expected.pop("domain")
    stored = {k: v for k, v in found.items() if k not in ("n_jobs", "verbose")}
    assert {k: v for k, v in stored.items() if v != expected[k]} == {}
    assert (found["n_jobs"], found["verbose"]) == (None, 0)  # settings of a machine are not stored
    assert clone(again).fit(X, y).score(X, y) > 0.5
    again.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("bounds", [(-3, 120.5), (40, 60), None])
@pytest.mark.parametrize("splits", ["guided", "random"])
@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_a_regressor_comes_back(table, bounds, splits, tmp_path):
    X, _ = table()
    X = X[["city", "age", "member"]].to_numpy(dtype=object)
    domain = {"b": DOMAIN["city"], "a": (0, 100), "c": DOMAIN["member"]}
    model = LumberjackRegressor(4.0, n_estimators=3, domain=domain, y_bounds=bounds, splits=splits)
    model.fit(X, X[:, 1])
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert isinstance(again, LumberjackRegressor)
    assert not hasattr(again, "feature_names_in_")
    assert again.y_bounds == bounds
    assert again.released_.numbers == model.released_.numbers
    assert (again.released_.numbers.limits == bounds) == (splits == "guided" or bounds is None)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    again.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


def test_categories_of_every_kind_come_back(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 2000), rng.integers(0, 2, 2000)]).astype(object)
    domain = Domain(
        {"i": Domain.categorical(np.arange(3)), "f": Domain.categorical([0.0, 1.0], missing=True)}
    )
    model = LumberjackClassifier(4.0, n_estimators=2, domain=domain, classes=[0, 1]).fit(X, X[:, 1])
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


def test_learned_columns_of_every_kind_come_back(tmp_path):
    """Text with empty and odd values, numbers and booleans as categories, gaps, infinities and dates."""
    rng, n = np.random.default_rng(0), 4000
    X = pd.DataFrame(
        {
            "text": rng.choice(np.array(["", "größer, 'so'", "\x1b[2J", "x" * 500, None], object), n),
            "mixed": rng.choice(np.array(["a", 7, 2.5, -1, 2**60, None], object), n),
            "flag": rng.choice(np.array([True, False, None], object), n),
            "number": rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 5e-324, 17.25], n),
            "day": pd.Timestamp("1969-12-01") + pd.to_timedelta(rng.integers(0, 60, n), "D"),
            "constant": 5,
        }
    )
    model = LumberjackClassifier(8.0, n_estimators=3).fit(X, X["text"] == "")
    assert model.domain_["mixed"].categories == (-1, 2.5, 7, 2**60, "a")
    assert len(model.domain_["text"].categories) == 4
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for found, kind in zip(again.domain_.known, model.domain_.known, strict=True):
        assert (found, found.learned) == (kind, True)
    again.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


def test_a_model_with_seeded_noise_is_not_saved_by_accident(table, tmp_path):
    model, (X, y) = classifier(random_state=42), table()
    with pytest.warns(PrivacyLeakWarning, match="seeded"):
        model.fit(X, y == "yes")
    with pytest.raises(ValueError, match="allow_seeded=True"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    model.save(tmp_path / "m", allow_seeded=True)
    again = load(tmp_path / "m")
    assert SEEDED in again.guarantee_.caveats
    assert again.random_state is None  # the seed is not stored
    header, _ = take_apart((tmp_path / "m").read_bytes())
    assert "random_state" not in header["parameters"]


def test_the_mark_of_an_inferred_domain_reaches_the_file(table, tmp_path):
    X, y = table()
    with pytest.warns(PrivacyLeakWarning):
        domain = Domain.infer(X)
    with pytest.warns(PrivacyLeakWarning, match="domain inferred"):
        model = classifier(domain=domain).fit(X, y == "yes")
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").domain_.inferred
    domain.to_json(tmp_path / "d.json")
    assert Domain.from_json(tmp_path / "d.json").inferred
    assert not DOMAIN.inferred


def golden(version):
    """What models of a version predicted, and for which rows."""
    expected = json.loads((GOLDEN / f"expected-v{version}.json").read_text("utf-8"))
    if "rows" not in expected:
        return expected, None
    rows = pd.DataFrame(expected["rows"])
    rows["since"] = pd.to_datetime(rows["since"])
    rows["city"] = rows["city"].astype(object).where(rows["city"].notna(), None)
    return expected, rows


@pytest.mark.parametrize("kind", ["classifier", "binary", "regressor"])
def test_files_of_fitted_leaves_load_for_ever(kind):
    """Files of version 5: see ``test_files_of_all_versions_load_for_ever``."""
    expected, rows = golden(5)
    model = load(GOLDEN / f"{kind}-v5.lumberjack")
    assert model.apply(rows).tolist() == expected[kind]["apply"]
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (3.0, 1e-5)
    assert model.guarantee_.verify() <= 1e-5
    assert [len(tree.columns) for tree in model.forest_.trees] == [0] + [1] * 7 + [2] * 6
    if kind == "regressor":
        np.testing.assert_allclose(model.predict(rows), expected[kind]["predict"], rtol=1e-12)
        assert model.y_bounds == (0, 60)
        assert max(expected[kind]["predict"]) == 60 < model.targets_.high
        return
    np.testing.assert_allclose(model.predict_proba(rows), expected[kind]["predict_proba"], rtol=1e-12)
    of_classes = ["größer", "kleiner", "nie"], {"nie": 0.5}
    known = of_classes if kind == "classifier" else ([False, True], None)
    assert (model.classes_.tolist(), model.class_weight) == known


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_files_of_all_versions_load_for_ever(kind, version):
    """The golden files were written once, by the first of their version, and are never written again."""
    expected, rows = golden(version)
    model = load(GOLDEN / f"{kind}-v{version}.lumberjack")
    assert model.apply(rows).tolist() == expected[kind]["apply"]
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (3.0, 1e-5)
    assert model.guarantee_.verify() <= 1e-5
    assert model.guarantee_.guided_levels == (0 if version == 1 else 6)
    if kind == "classifier":
        assert model.classes_.tolist() == expected[kind]["classes"] == ["größer", "kleiner", "nie"]
        np.testing.assert_allclose(
            model.predict_proba(rows), expected[kind]["predict_proba"], rtol=1e-12
        )
        assert (model.class_weight, model.feature_weights) == ({"nie": 0.5}, {"age": 2.0})
    else:
        np.testing.assert_allclose(model.predict(rows), expected[kind]["predict"], rtol=1e-12)
        assert model.y_bounds == ((0, 100) if version < 4 else None)


@pytest.mark.parametrize("kind", ["classifier", "binary", "regressor", "counts", "majority", "means"])
def test_files_of_version_6_load_for_ever(kind, tmp_path):
    """Leaves of all kinds; for the rows of version 5."""
    (expected, _), (_, rows) = golden(6), golden(5)
    path = GOLDEN / f"{kind}-v6.lumberjack"
    model = load(path)
    assert model.apply(rows).tolist() == expected[kind]["apply"]
    assert model.guarantee_.verify() <= model.guarantee_.delta == 1e-5
    if "predict" in expected[kind]:
        np.testing.assert_allclose(model.predict(rows), expected[kind]["predict"], rtol=1e-12)
    else:
        chances = expected[kind]["predict_proba"]
        np.testing.assert_allclose(model.predict_proba(rows), chances, rtol=1e-12)
        assert model.classes_.tolist() == expected[kind]["classes"]
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_field_of_a_tree_is_stored():
    assert [name for name, _ in TREE_FIELDS] == [field.name for field in dataclasses.fields(Tree)]


def test_fields_that_a_later_guarantee_adds_get_their_defaults(saved, tmp_path):
    header, arrays = take_apart(saved[0].read_bytes())
    del header["guarantee"]["neighbours"]
    again = load_bytes(put_together(header, arrays), tmp_path)
    assert again.guarantee_ == saved[1].guarantee_
    assert isinstance(again.guarantee_, Guarantee)


def test_adult_fits_into_a_megabyte(tmp_path, monkeypatch):
    folder = os.environ.get("LUMBERJACK_DATA") or str(Path(__file__).parents[2] / "shared" / "data")
    if not Path(folder, "adult.parquet").is_file():
        pytest.skip("no data: set LUMBERJACK_DATA to the folder with adult.parquet")
    monkeypatch.setenv("LUMBERJACK_DATA", folder)
    X, y, domain = fetch_adult()
    model = LumberjackClassifier(1.0, domain=domain, classes=["<=50K", ">50K"], n_jobs=2).fit(X, y)
    model.save(tmp_path / "adult")
    assert (tmp_path / "adult").stat().st_size < 1_000_000


# Hostile files


class Payload:
    def __reduce__(self):
        return (os.system, ("touch owned",))


def test_pickles_archives_and_other_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("bomb", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("../../etc/passwd", bytes(10**7))
    Path("pickle").write_bytes(pickle.dumps(Payload()))
    Path("empty").write_bytes(b"")
    Path("half").write_bytes(b"lumberjack")
    Path("text").write_text("age,city\n1,Bonn\n")
    for name in ("bomb", "pickle", "empty", "half", "text"):
        with pytest.raises(ValueError, match=f"{name} is not a Lumberjack model file"):
            load(name)
    assert not Path("owned").exists()
    with pytest.raises(FileNotFoundError):
        load("nothing")


def test_every_flipped_bit_is_refused(saved, tmp_path):
    data = saved[0].read_bytes()
    for at in {*range(60), *range(60, len(data), 97), *range(len(data) - 40, len(data))}:
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at % 8)
        with pytest.raises(ValueError, match="model file"):
            load_bytes(bytes(flipped), tmp_path)


def test_a_file_that_is_cut_off_anywhere_is_refused(saved, tmp_path):
    data = saved[0].read_bytes()
    for end in {*range(60), *range(60, len(data), 211), len(data) - 1}:
        with pytest.raises(ValueError, match="model file"):
            load_bytes(data[:end], tmp_path)
    with pytest.raises(ValueError, match="digest"):
        load_bytes(data + b"\0", tmp_path)


def test_a_later_format_asks_for_an_update(saved, tmp_path):
    header, arrays = take_apart(saved[0].read_bytes())
    with pytest.raises(ValueError, match="format 7, this version reads 1 to 6: update"):
        load_bytes(put_together(header, arrays, version=7), tmp_path)


@pytest.mark.parametrize("kind", ["two", "three", "number"])
def test_fitted_leaves_need_the_format_that_knows_them(fitted, tmp_path, kind):
    header, arrays = take_apart(fitted[kind])
    assert struct.unpack_from("<I", fitted[kind], 16) == (6,)
    assert put_together(header, arrays) == fitted[kind]
    load_bytes(fitted[kind], tmp_path)
    with pytest.raises(ValueError, match="format has no fitted leaves"):
        load_bytes(put_together(header, arrays, version=4), tmp_path)


def test_how_labels_vote_is_the_same_in_all_formats(table, tmp_path):
    X, y = table()
    model = classifier(leaf="majority").fit(X, y == "yes")
    model.save(tmp_path / "m")
    header, arrays = take_apart((tmp_path / "m").read_bytes())
    for version in (4, 5, 6):
        again = load_bytes(put_together(header, arrays, version), tmp_path)
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def with_arrays(data, **changes):
    """The file with single numbers changed: ``name=(place, number)``."""
    header, arrays = take_apart(data)
    arrays, place = bytearray(arrays), 0
    for name, kind, shape in header["arrays"]:
        width = np.dtype(kind).itemsize
        if name in changes:
            at, number = changes[name]
            at = place + width * (at % int(np.prod(shape)))
            arrays[at : at + width] = np.array([number]).astype(kind).tobytes()
        place += width * int(np.prod(shape))
    return put_together(header, bytes(arrays))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"left": (0, 0)}, "not a later node"),  # a cycle of one
        ({"left": (1, -1)}, "not a later node"),  # back to the root
        ({"left": (0, 30_000)}, "not a later node"),  # out of the tree
        ({"left": (0, -7)}, "not a later node"),
        ({"left": (0, 3)}, "no parent or several"),
        ({"feature": (0, 3)}, "column that does not exist"),
        ({"feature": (0, -2)}, "column that does not exist"),
        ({"feature": (0, -1)}, "one valid value each"),
        ({"left": (-1, 99)}, "numbered consecutively"),
        ({"missing_left": (0, 2)}, "do not fit"),
        ({"cut": (0, -1)}, "do not fit"),
        ({"nodes": (0, -5)}, "number of trees"),
        ({"nodes": (0, 5)}, "the lengths of its trees"),
    ],
)
def test_arrays_that_are_not_trees_are_refused(saved, tmp_path, changes, why):
    with pytest.raises(ValueError, match=why):
        load_bytes(with_arrays(saved[0].read_bytes(), **changes), tmp_path)


def edited(data, change):
    """The file with all its arrays changed, as a dict of name to array."""
    header, raw = take_apart(data)
    arrays, place = {}, 0
    for name, kind, shape in header["arrays"]:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        arrays[name] = np.frombuffer(raw[place : place + size], kind).reshape(shape).copy()
        place += size
    change(arrays)
    header["arrays"] = [[n, a.dtype.str, list(a.shape)] for n, a in arrays.items()]
    return put_together(header, b"".join(a.tobytes() for a in arrays.values()))


# Trees of ``fitted``: the base (1 leaf), "age" (32 intervals and missing numbers), "city" (three and
# others), "member" (two and others), and the pairs of age and city, age and member, city and member.
LEAVES = [1, 33, 4, 3, 6 * 4, 6 * 3, 4 * 3]


def ends_of(arrays):
    """First node and first leaf of each tree, and last the numbers of all."""
    nodes = np.cumsum([0, *arrays["nodes"]])
    leaves = [int(np.sum(arrays["feature"][:end] < 0)) for end in nodes]
    return nodes, np.array(leaves)


def put_value(tree, leaf, column, value):
    """A lie: one number of the leaves of a tree."""

    def lie(arrays):
        arrays["values"][ends_of(arrays)[1][tree] + leaf, column] = value

    return lie


def add_to_size(tree, amount):
    def lie(arrays):
        arrays["values"][ends_of(arrays)[1][tree], 0] += amount

    return lie


def put_node(tree, node, name, value):
    def lie(arrays):
        arrays[name][ends_of(arrays)[0][tree] + node] = value

    return lie


def rearrange(order):
    """A lie: other trees than a fit makes, or in another order."""

    def lie(arrays):
        nodes, leaves = ends_of(arrays)
        for name, _ in TREE_FIELDS:
            arrays[name] = np.concatenate([arrays[name][nodes[t] : nodes[t + 1]] for t in order])
        arrays["values"] = np.concatenate([arrays["values"][leaves[t] : leaves[t + 1]] for t in order])
        arrays["nodes"] = arrays["nodes"][order]

    return lie


def swap_leaves(tree, a, b):
    """A lie: two leaves change their numbers."""

    def lie(arrays):
        first, end = ends_of(arrays)[0][tree : tree + 2]
        leaf, left = arrays["feature"][first:end] < 0, arrays["left"][first:end]
        one, other = np.flatnonzero(leaf & (left == a)), np.flatnonzero(leaf & (left == b))
        left[one], left[other] = b, a

    return lie


def reorder_cities(arrays):
    """A lie: the sizes of categories change places, but not the order in which they are asked for."""
    leaves = ends_of(arrays)[1]
    sizes = arrays["values"][leaves[2] : leaves[2] + 3, 0]
    sizes[:] = sizes[[1, 2, 0]]


def other_city(arrays):
    """A lie: the first city that a pair asks for is another one."""
    node = ends_of(arrays)[0][6]
    arrays["cut"][node] = (arrays["cut"][node] + 1) % 3


ONE, COMBINED = "a leaf for each cell of its column", "a leaf for each combination"
PAIRS, SIZES = "those of all pairs of some columns", "sizes of leaves are not those of its columns"
WEIGHTS, SUM = "sizes and weights that a fit could have", "do not add up to all rows"
FITTED_LIES = {
    "a weight of half a step": (put_value(1, 3, 1, 2.0**-17), WEIGHTS),
    "a weight beyond the largest": (put_value(1, 3, 1, 30 + 2.0**-16), WEIGHTS),
    "a weight far below": (put_value(4, 0, 1, -31.0), WEIGHTS),
    "a weight that is not a number": (put_value(4, 0, 1, np.nan), "one valid value each"),
    "an infinite weight": (put_value(0, 0, 1, np.inf), "one valid value each"),
    "a negative size": (put_value(1, 3, 0, -0.5), WEIGHTS),
    "a size that is not a number": (put_value(1, 3, 0, np.nan), "one valid value each"),
    "an infinite size": (put_value(0, 0, 0, np.inf), "one valid value each"),
    "more rows in a column": (add_to_size(1, 1.0), SUM),
    "more rows in all": (add_to_size(0, 1.0), SUM),
    "more rows in a pair": (add_to_size(4, 1.0), SIZES),
    "no rows at all": (put_value(0, 0, 0, 0.0), "a single leaf with all rows"),
    "no base": (rearrange([1, 2, 3, 4, 5, 6]), "number of trees|a single leaf"),
    "the base last": (rearrange([1, 2, 3, 4, 5, 6, 0]), "a single leaf with all rows"),
    "columns in another order": (rearrange([0, 1, 3, 2, 4, 5, 6]), ONE),
    "a column twice": (rearrange([0, 1, 2, 2, 4, 5, 6]), ONE),
    "a column too few": (rearrange([0, 1, 2]), "number of trees"),
    "two bases": (rearrange([0, 0, 1, 2, 3, 4, 5]), ONE),
    "pairs in another order": (rearrange([0, 1, 2, 3, 5, 4, 6]), PAIRS),
    "a pair twice": (rearrange([0, 1, 2, 3, 4, 5, 5]), PAIRS),
    "a pair too few": (rearrange([0, 1, 2, 3, 4, 5]), PAIRS),
    "a pair too many": (rearrange([0, 1, 2, 3, 4, 5, 6, 6]), "number of trees"),
    "a column as a pair": (rearrange([0, 1, 2, 3, 2]), PAIRS),
    "a base as a pair": (rearrange([0, 1, 2, 3, 0]), PAIRS),
    "cells swapped": (swap_leaves(1, 4, 20), ONE),
    "missing numbers swapped": (swap_leaves(1, 0, 32), ONE),
    "cities swapped": (swap_leaves(2, 0, 1), ONE),
    "others swapped": (swap_leaves(2, 0, 3), ONE),
    "combinations swapped": (swap_leaves(4, 0, 1), COMBINED),
    "other cities": (reorder_cities, f"{ONE}|{SIZES}|{COMBINED}"),
    "missing numbers elsewhere": (put_node(1, 0, "missing_left", 0), ONE),
    "missing numbers in a high group": (put_node(4, 0, "missing_left", 0), COMBINED),
    "a flag that has no meaning": (put_node(2, 0, "missing_left", 1), ONE),
    "a cut elsewhere": (put_node(1, 0, "cut", 3), ONE),
    "a cut beyond": (put_node(1, 0, "cut", 31), ONE),
    "a cut of a group beyond": (put_node(4, 0, "cut", 31), COMBINED),
    "another column": (put_node(1, 0, "feature", 1), ONE),
    "a third column": (put_node(5, 0, "feature", 1), PAIRS),
    "another group": (other_city, COMBINED),
}


@pytest.mark.parametrize("kind", ["two", "three", "number"])
@pytest.mark.parametrize("name", FITTED_LIES)
def test_trees_that_no_fit_makes_are_refused(fitted, tmp_path, kind, name):
    lie, why = FITTED_LIES[name]
    trees = load_bytes(edited(fitted[kind], lambda arrays: None), tmp_path).forest_.trees
    assert [tree.n_leaves for tree in trees] == LEAVES
    with pytest.raises(ValueError, match=why):
        load_bytes(edited(fitted[kind], lie), tmp_path)


def test_fewer_pairs_are_let_in(fitted, tmp_path):
    """How many there are depends on the number of rows: none, or all of some columns."""
    for order in ([0, 1, 2, 3], [0, 1, 2, 3, 5], [0, 1, 2, 3, 6]):
        model = load_bytes(edited(fitted["two"], rearrange(order)), tmp_path)
        assert [tree.n_leaves for tree in model.forest_.trees] == [LEAVES[i] for i in order]


def test_pairs_of_more_columns_than_promised_are_refused(fitted, tmp_path):
    header, arrays = take_apart(fitted["two"])
    for claim in (header["guarantee"], header["parameters"]):
        claim["n_estimators"] = 2
    with pytest.raises(ValueError, match="number of trees is not that of the guarantee"):
        load_bytes(put_together(header, arrays), tmp_path)


def test_sizes_that_differ_in_the_last_bits_are_let_in(fitted, tmp_path):
    """Sums of floats are not the same everywhere."""

    def nudge(arrays):
        sizes = arrays["values"][ends_of(arrays)[1][4] :, 0]
        sizes[:] = np.nextafter(sizes, np.inf)

    load_bytes(edited(fitted["two"], nudge), tmp_path)


def test_columns_of_every_shape_come_back(tmp_path):
    """One value, one interval, one category, none that is frequent, many, cuts that were given."""
    rng, n = np.random.default_rng(0), 3000
    X = pd.DataFrame(
        {
            "flat": rng.choice([5.0, np.nan], n),
            "cut": rng.uniform(0, 1, n),
            "one": "a",
            "rare": [f"id {i}" for i in range(n)],
            "many": rng.integers(0, 300, n),
        }
    )
    domain = {
        "flat": Domain.numeric(5, 5),
        "cut": Domain.numeric(0, 1),
        "one": ["a"],
        "rare": Domain.categorical(),
        "many": Domain.categorical(range(300)),
    }
    model = LumberjackClassifier(4.0, domain=domain, classes=[False, True])
    with pytest.warns(UserWarning, match="no category of 'rare'"):
        model.fit(X, (X["cut"] > 0.5) ^ (X["many"] < 100))
    assert [t.n_leaves for t in model.forest_.trees[1:6]] == [2, 33, 2, 2, 301]
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_tree_for_a_range_of_endless_cells_is_refused_soon(fitted, tmp_path):
    """Cells of an uncut range are not leaves; nothing is allocated for each of them."""
    header, arrays = take_apart(fitted["two"])
    header["domain"] = DOMAIN.to_dict()
    header["guarantee"].update(numbers_learned=0, cut_levels=0)
    header["guarantee"]["events"] = [e for e in header["guarantee"]["events"] if e["use"] != "cuts"]
    with pytest.raises(ValueError, match=ONE):
        load_bytes(put_together(header, arrays), tmp_path)


@pytest.mark.parametrize(
    ("kind", "keys", "value", "why"),
    [
        ("two", ["estimator"], "regressor", "does not fit the guarantee"),
        ("number", ["estimator"], "classifier", "does not fit the guarantee"),
        ("two", ["guarantee", "leaf"], "counts", "no fit could have|does not fit"),
        ("two", ["guarantee", "leaf"], "fitted-mean", "no fit could have|does not fit"),
        ("number", ["guarantee", "leaf"], "fitted", "no fit could have|does not fit"),
        ("number", ["guarantee", "leaf"], "mean", "no fit could have|does not fit"),
        ("two", ["guarantee", "method"], "sparse", "does not fit the guarantee"),
        ("two", ["guarantee", "accounting"], "paper", "accounting is not that of the guarantee"),
        ("two", ["guarantee", "structure_share"], 0.5, "no pruned trees"),
        ("two", ["parameters", "structure_share"], 0.5, "structure_share is not that"),
        ("two", ["parameters", "threshold"], 400.0, "threshold is not that"),
        ("two", ["parameters", "splits"], "random", "splits is not that"),
        ("two", ["parameters", "leaf"], "counts", "leaf is not that"),
        ("two", ["parameters", "feature_weights"], {"age": 2.0}, "no pruned trees"),
        ("number", ["parameters", "feature_weights"], [1, 1, 1], "no pruned trees"),
        ("two", ["classes", "labels"], [False], "classes are not those of its parameters"),
        ("three", ["classes", "labels"], ["Bonn", "Kiel"], "one valid value each"),
        ("number", ["parameters", "y_bounds"], [90, 0], "low < high"),
        ("number", ["parameters", "y_bounds"], "wide", "y_bounds must be"),
        ("number", ["bounds"], None, "not a valid"),
        ("number", ["guarantee", "events", 1, "count"], 0, "no fit could have"),
    ],
)
def test_headers_that_contradict_fitted_leaves_are_refused(fitted, tmp_path, kind, keys, value, why):
    with pytest.raises(ValueError, match=why):
        load_bytes(change(fitted[kind], keys, value), tmp_path)


def test_a_fitted_number_without_a_learned_scale_is_refused(fitted, tmp_path):
    header, arrays = take_apart(fitted["number"])
    kept = [event for event in header["guarantee"]["events"] if event["use"] != "scale"]
    header["guarantee"]["events"] = kept
    with pytest.raises(ValueError, match="bounds are not learned"):
        load_bytes(put_together(header, arrays), tmp_path)


def test_the_paper_s_accounting_has_no_fitted_leaves(fitted, tmp_path):
    header, arrays = take_apart(fitted["two"])
    header["parameters"]["accounting"] = header["guarantee"]["accounting"] = "paper"
    header["guarantee"]["caveats"] = [NOT_PROVED]
    with pytest.raises(ValueError, match="does not price fitted leaves"):
        load_bytes(put_together(header, arrays), tmp_path)


@pytest.mark.parametrize("number", [0.5, -1.0, np.nan])
@pytest.mark.parametrize("kind", ["classifier", "binary", "regressor"])
def test_fitted_leaves_have_no_calibration(tmp_path, kind, number):
    """Files of version 5 had a place for it."""

    def lie(arrays):
        arrays["calibration"] = arrays["calibration"].astype(float)
        arrays["calibration"][0, 0] = number

    with pytest.raises(ValueError, match="calibration is not that"):
        load_bytes(edited((GOLDEN / f"{kind}-v5.lumberjack").read_bytes(), lie), tmp_path)


@pytest.mark.parametrize("n", [90_000, 200_000])
def test_many_small_leaves_ask_for_no_more_memory_than_their_size(fitted, tmp_path, n):
    """A category of many values, whose tree is made again to compare."""
    header, _ = take_apart(fitted["two"])
    header["domain"] = Domain({"city": [f"{i:x}" for i in range(n)]}).to_dict()
    header["parameters"]["domain"] = header["domain"]
    header["columns"] = ["city"]
    header["guarantee"].update(numbers_learned=0, cut_levels=0)
    header["guarantee"]["events"] = [e for e in header["guarantee"]["events"] if e["use"] != "cuts"]

    def fill(arrays):
        size = 2 * n + 1
        node = np.arange(size)
        leaf = (node % 2 == 1) | (node == size - 1)
        feature, left = np.where(leaf, -1, 0), np.where(leaf, node // 2, node + 1)
        left[-1] = n
        arrays["nodes"] = np.array([1, size], "<i4")
        arrays["feature"] = np.array([-1, *feature], "<i2")
        arrays["cut"] = np.array([0, *np.where(leaf, 0, node // 2)], "<i4")
        arrays["missing_left"] = np.zeros(size + 1, "<i2")
        arrays["left"] = np.array([0, *left], "<i4")
        arrays["values"] = np.zeros((n + 2, 2), "<i4")
        arrays["values"][:, 0] = [n, *[1] * n, 0]

    data = edited(put_together(header, take_apart(fitted["two"])[1]), fill)
    tracemalloc.start()
    try:
        if n < 100_000:
            load_bytes(data, tmp_path)
        else:
            with pytest.raises(ValueError, match="far more memory"):
                load_bytes(data, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 10 * len(data) + 33 * 2**20


def change(data, keys, value):
    header, arrays = take_apart(data)
    place = header
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return put_together(header, arrays)


@pytest.mark.parametrize(
    ("keys", "value", "why"),
    [
        (["arrays", 0, 2], [2**62], "longer than the file"),
        (["arrays", 5, 2], [2**40, 2**40], "longer than the file"),
        (["arrays", 1, 2], [3], "holds more than its header says"),
        (["arrays", 1, 1], "|O", "an invalid type"),
        (["arrays", 1, 1], "<f8", "longer than the file"),
        (["arrays", 1, 2], [-1], "an invalid type or shape"),
        (["arrays", 1, 2], [True], "an invalid type or shape"),
        (["arrays", 1, 0], "../../etc/passwd", "arrays of a forest"),
        (["extra"], 1, "missing or unknown fields"),
        (["estimator"], "os.system", "does not fit the guarantee"),
        (["estimator"], "regressor", "does not fit the guarantee"),
        (["guarantee", "epsilon"], 0.1, "epsilon is not that of the guarantee"),
        (["guarantee", "n_estimators"], 10**9, "number of trees"),
        (["parameters", "random_state"], 0, "not a plain value"),
        (["parameters", "n_jobs"], 10**6, "not a plain value"),
        (["parameters", "leaf"], [1], "not a plain value"),
        (["parameters", "hook"], "os.system", "unknown parameters: hook"),
        (["parameters", "class_weight"], [[True, "x"]], "pairs of a label and a number"),
        (["parameters", "class_weight"], "heavy", "class_weight must be"),
        (["parameters", "feature_weights"], {"none": 1}, "outside the domain"),
        (["parameters", "feature_weights"], ["x"], "must be numbers"),
        (["columns"], ["age", "city"], "columns are not those"),
        (["columns"], ["age", "city", "age"], "columns are not those"),
        (["classes", "labels"], [True, False], "not sorted"),
        (["classes", "labels"], [False], "one valid value each"),
        (["classes", "type"], "object_", "list of labels"),
        (["domain", "columns", 0, "low"], 1e308, "finite bounds"),
        (["domain", "columns", 0, "name"], "\ud800", "not Unicode"),
        (["domain", "extra"], 1, "not in canonical form"),
    ],
)
def test_headers_that_contradict_the_file_are_refused(saved, tmp_path, keys, value, why):
    with pytest.raises(ValueError, match=why):
        load_bytes(change(saved[0].read_bytes(), keys, value), tmp_path)


def test_a_tree_deeper_than_promised_is_refused(saved, tmp_path):
    """Depth is what the number of queries, and so the price, rests on."""
    header, arrays = take_apart(saved[0].read_bytes())
    header["guarantee"]["max_depth"] = header["parameters"]["max_depth"] = 3
    with pytest.raises(ValueError, match="deeper than the guarantee says"):
        load_bytes(put_together(header, arrays), tmp_path)


def with_header(text, arrays=b""):
    body = struct.pack("<16sII", b"lumberjack model", 1, len(text)) + text + arrays
    return body + hashlib.sha256(body).digest()


MILLION = 10**6


@pytest.mark.parametrize(
    "text",
    [
        b"[" * MILLION,
        b"[" + b"[]," * MILLION + b"[]]",
        b"{" + b",".join(b'"%d":{}' % i for i in range(200_000)) + b"}",
        b'["' + b"\\ud83d\\ude00" + b"a" * MILLION + b'"]',
        b"9" * MILLION,
        b"[" + b"-9," * MILLION + b"1]",
        b'{"a":1,"a":1}',
        b"NaN",
        b"\xff\xfe",
        b"",
    ],
    ids=[
        "deep",
        "lists",
        "objects",
        "wide text",
        "long number",
        "numbers",
        "twice",
        "nan",
        "bytes",
        "none",
    ],
)
def test_headers_that_ask_for_too_much_are_refused_in_little_memory(text, tmp_path):
    data = with_header(text)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="not a valid model file"):
            load_bytes(data, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 10 * len(data) + 33 * 2**20


def test_labels_and_trees_that_multiply_memory_are_refused(saved, tmp_path):
    data = saved[0].read_bytes()
    labels = sorted(["x" * 20_000, *(f"{i:04d}" for i in range(5000))])
    bomb = change(data, ["classes"], {"type": "str", "labels": labels})
    header, _ = take_apart(data)
    n = 200_000
    for entry, shape in zip(header["arrays"], [[n], [n], [n], [n], [n], [n, 2]], strict=True):
        entry[1], entry[2] = "<i2", shape
    header["guarantee"]["n_estimators"] = header["parameters"]["n_estimators"] = n
    arrays = [
        np.ones(n),
        -np.ones(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.ones(2 * n),
    ]
    trees = put_together(header, b"".join(a.astype("<i2").tobytes() for a in arrays))
    for hostile in (bomb, trees):
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="far more memory"):
                load_bytes(hostile, tmp_path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= 10 * len(hostile) + 33 * 2**20


def test_a_large_valid_file_needs_less_than_ten_times_its_size(saved, tmp_path):
    """One long tree: the shape in which the checks need most memory for a node."""
    header, _ = take_apart(saved[0].read_bytes())
    splits = 300_000
    n = 2 * splits + 1
    feature = np.tile([0, -1], splits + 1)[:n]
    feature[-1] = -1
    node = np.arange(n)
    left = np.where(feature < 0, (node - 1) // 2, node + 1)
    left[-1] = splits
    zeros = np.zeros(n)
    arrays = [np.array([n]), feature, zeros, zeros, left, np.ones((splits + 1, 2))]
    kinds = ["<i4", "<i2", "<i2", "<i2", "<i4", "<i2"]
    header["arrays"] = [
        [entry[0], kind, list(a.shape)]
        for entry, kind, a in zip(header["arrays"], kinds, arrays, strict=True)
    ]
    for name, value in {"n_estimators": 1, "max_depth": 10**6}.items():
        header["guarantee"][name] = header["parameters"][name] = value
    raw = b"".join(a.astype(kind).tobytes() for kind, a in zip(kinds, arrays, strict=True))
    data = put_together(header, raw)
    tracemalloc.start()
    try:
        model = load_bytes(data, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.forest_.trees[0].n_leaves == splits + 1
    assert peak <= 10 * len(data)


# Writing


def test_a_full_disk_leaves_the_old_file_and_no_other(saved, tmp_path, monkeypatch):
    path = tmp_path / "model.lumberjack"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lumberjack.files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        saved[1].save(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_while_writing_leaves_nothing(tmp_path):
    def interrupted():
        with lumberjack.files.open_to_write(tmp_path / "file") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_saving_replaces_a_file_and_follows_a_link(saved, tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    saved[1].save(link)
    assert link.is_symlink()
    assert target.read_bytes() == saved[0].read_bytes()
    with pytest.raises(IsADirectoryError):
        saved[1].save(tmp_path)
    with pytest.raises(FileNotFoundError):
        saved[1].save(tmp_path / "no" / "model")


def test_devices_are_written_as_they_are(saved):
    saved[1].save("/dev/null")
    with pytest.raises(OSError, match="No space"):
        saved[1].save("/dev/full")


def loaded_with(data, tmp_path, **guarantee):
    header, arrays = take_apart(data)
    for name in guarantee.keys() & FIELDS.keys():
        kind, uses, n, field = FIELDS[name]
        events = header["guarantee"]["events"]
        found = [e for e in events if e["kind"] == kind.kind and e["use"] in uses]
        found[n][field] = guarantee.pop(name)
    header["guarantee"].update(guarantee)
    for name in set(guarantee) & set(header["parameters"]):
        header["parameters"][name] = guarantee[name]
    return load_bytes(put_together(header, arrays), tmp_path)


@pytest.mark.parametrize(
    "claim",
    [
        {"leaf": "none", "counts_per_record": 0},  # leaves that nobody pays for
        {"leaf": "prefixes"},
        {"method": "gaussian", "cutoff": None, "cut": -1},
        {"leaf": "majority"},  # but its leaves hold counts
        {"method": "composed"},
        {"events": []},
        {"events": "all"},
        {"queries_per_record": -1},
        {"counts_per_record": 2**62},
        {"threshold_noise": -1.0},
        {"leaf_noise": -1.0},
        {"cutoff": -1.0},
        {"threshold": 1e308},
        {"choice_exponent": 0.0},
        {"choice_range": -2.0},
        {"delta": 5e-324},
    ],
)
def test_absurd_or_contradictory_claims_are_refused(saved, tmp_path, claim):
    with pytest.raises(ValueError, match="not a valid model file"):
        loaded_with(saved[0].read_bytes(), tmp_path, **claim)


def test_parameters_that_the_guarantee_is_about_must_be_there(saved, tmp_path):
    for name in ("epsilon", "leaf", "max_depth"):
        header, arrays = take_apart(saved[0].read_bytes())
        del header["parameters"][name]
        with pytest.raises(ValueError, match="lacks parameters"):
            load_bytes(put_together(header, arrays), tmp_path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["columns"], "ab"),
        (["columns"], {"a": 1}),
        (["parameters", "feature_weights"], [10**400, 1, 1]),
    ],
)
def test_headers_of_the_wrong_kind_are_refused(saved, tmp_path, keys, value):
    with pytest.raises(ValueError, match="not a valid model file"):
        load_bytes(change(saved[0].read_bytes(), keys, value), tmp_path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["parameters", "splits"], "random"),
        (["parameters", "splits"], "junk"),
        (["guarantee", "events", 1, "count"], -1),
        (["guarantee", "events", 1, "count"], 0),
        (["guarantee", "events", 1, "kind"], "noisy sums"),
        (["guarantee", "events"], {}),
        (["guarantee", "rows_per_person"], 2**40),
        (["guarantee", "events", 1, "exponent"], None),
        (["guarantee", "events", 1, "count"], 2**60),
    ],
)
def test_guided_files_that_contradict_themselves_are_refused(saved, tmp_path, place, value):
    with pytest.raises(ValueError, match="guarantee"):
        load_bytes(change(saved[0].read_bytes(), place, value), tmp_path)


def test_a_guided_model_cannot_be_relabelled_as_cheaper(saved, tmp_path):
    header, arrays = take_apart(saved[0].read_bytes())
    header["guarantee"]["events"] = [e for e in header["guarantee"]["events"] if e["use"] != "splits"]
    with pytest.raises(ValueError, match="splits is not that"):
        load_bytes(put_together(header, arrays), tmp_path)


def test_splits_beyond_a_column_are_refused(table, tmp_path):
    """SHAP would read far outside its arrays: the cut of a number as the place of a category."""
    X, _ = table()
    model = classifier(domain={"age": (0, 100)}, leaf="counts").fit(
        X[["age"]], (X["age"] > 50).to_numpy()
    )
    model.save(tmp_path / "m")
    header, arrays = take_apart((tmp_path / "m").read_bytes())
    small = [{"name": "age", "type": "categorical", "categories": ["a"], "missing": False}]
    header["domain"] = {**header["domain"], "version": 1, "columns": small}
    version = struct.unpack_from("<I", (tmp_path / "m").read_bytes(), 16)[0]
    with pytest.raises(ValueError, match="splits where its column has no values"):
        load_bytes(put_together(header, arrays, version), tmp_path)
