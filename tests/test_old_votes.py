"""How forests of old model files vote, against a plain recursion, and what becomes of their files."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hostile.models import put_together, take_apart
from scipy.special import logit

from lumberjack import load, plan
from lumberjack.export import to_onnx, to_shap
from lumberjack.guarantee import SUM_BOUND
from lumberjack.old_votes import OldClasses, OldNumbers, log_odds, log_shares, means, read_odds
from lumberjack.tree import LEAF, Tree

GOLDEN = Path(__file__).parent / "golden"
UNCHANGED = {2: [[1.0, 1.0, 0.0]], 3: [[1.0, 1.0, 0.0]] * 3, 6: [[1.0, 1.0, 0.0]] * 6}


def random_tree(rng, n_splits):
    """A tree of random shape: leaves are split one after the other, nodes numbered level by level."""
    children, leaves = {0: None}, [0]
    for _ in range(n_splits):
        node = leaves.pop(rng.integers(len(leaves)))
        children[node] = [len(children), len(children) + 1]
        for child in children[node]:
            children[child] = None
            leaves.append(child)
    feature = np.array([LEAF if children[i] is None else 0 for i in range(len(children))], np.int32)
    left = np.array([0 if c is None else c[0] for c in children.values()], dtype=np.int32)
    left[feature == LEAF] = rng.permutation(int((feature == LEAF).sum()))
    zeros = np.zeros(len(feature))
    return Tree(feature, zeros.astype(np.uint32), zeros.astype(bool), left)


def naive_shares(tree, counts, weight):
    """From the definition: sums of leaves, and shares shrunk towards the parent's."""
    out = np.empty_like(counts)

    def total(node):
        if tree.feature[node] == LEAF:
            return counts[tree.left[node]]
        return total(tree.left[node]) + total(tree.left[node] + 1)

    def down(node, prior):
        positive = np.maximum(total(node), 0)
        share = (positive + weight * prior) / (positive.sum() + weight)
        if tree.feature[node] == LEAF:
            out[tree.left[node]] = share
        else:
            down(tree.left[node], share)
            down(tree.left[node] + 1, share)

    down(0, np.full(counts.shape[1], 1 / counts.shape[1]))
    return out


def naive_means(tree, sums, weight):
    out = np.empty((len(sums), 1))

    def total(node):
        if tree.feature[node] == LEAF:
            return sums[tree.left[node]]
        return total(tree.left[node]) + total(tree.left[node] + 1)

    def down(node, prior):
        count, value = total(node)
        mean = np.clip((value + weight * prior) / (max(count, 0) + weight), -SUM_BOUND, SUM_BOUND)
        if tree.feature[node] == LEAF:
            out[tree.left[node], 0] = mean
        else:
            down(tree.left[node], mean)
            down(tree.left[node] + 1, mean)

    down(0, 0.0)
    return out


@pytest.mark.parametrize("n_splits", [0, 1, 7, 60])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_leaves_are_shrunk_towards_their_parents(n_splits, n_classes):
    rng = np.random.default_rng(n_splits)
    tree = random_tree(rng, n_splits)
    counts = np.round(rng.normal(10, 30, (n_splits + 1, n_classes)))
    expected = np.log(naive_shares(tree, counts, 10.0) + 0.02)
    np.testing.assert_allclose(log_shares(tree, counts, 20.0), expected, rtol=1e-12)
    sums = np.column_stack([counts[:, 0], np.round(rng.normal(0, 60_000, n_splits + 1))])
    np.testing.assert_allclose(means(tree, sums, 20.0), naive_means(tree, sums, 5.0), rtol=1e-9)


def test_without_noise_shares_are_those_of_the_leaves():
    tree = random_tree(np.random.default_rng(0), 4)
    counts = np.arange(10.0).reshape(5, 2) + 1
    said = np.exp(log_shares(tree, counts, 1e-9)) - 0.02
    np.testing.assert_allclose(said, counts / counts.sum(axis=1, keepdims=True), rtol=1e-6)


def test_log_odds_and_unchanged_curves_give_shares_back():
    rng = np.random.default_rng(1)
    for n_classes in (2, 3, 6):
        shares = rng.dirichlet(np.ones(n_classes), 50)
        np.testing.assert_allclose(log_odds(np.log(shares)), logit(shares), rtol=1e-9, atol=1e-12)
        read = read_odds(np.log(shares), np.array(UNCHANGED[n_classes]))
        np.testing.assert_allclose(read, shares, rtol=1e-9)
    assert read_odds(np.zeros((3, 1)), np.array([[1.0, 1.0, 0.0]])).tolist() == [[1.0]] * 3


def test_curves_bend_log_odds():
    """a log p - b log(1 - p) + c for each class against the others, then all scaled to a sum of 1."""
    p = np.array([[0.2, 0.5, 0.3], [0.7, 0.2, 0.1]])
    curves = np.array([[1.5, 0.5, 0.1], [1.0, 1.0, 0.0], [0.8, 1.2, -0.3]])
    odds = curves[:, 0] * np.log(p) - curves[:, 1] * np.log(1 - p) + curves[:, 2]
    bent = 1 / (1 + np.exp(-odds))
    expected = bent / bent.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(read_odds(np.log(p), curves), expected, rtol=1e-12)


# Files


def golden(kind):
    """A model of a file of version 5, what it predicted when it was written, and for which rows."""
    rows = pd.DataFrame(json.loads((GOLDEN / "expected-v5.json").read_text("utf-8"))["rows"])
    rows["since"] = pd.to_datetime(rows["since"])
    rows["city"] = rows["city"].astype(object).where(rows["city"].notna(), None)
    expected = json.loads((GOLDEN / "expected-counted-v5.json").read_text("utf-8"))[kind]
    return load(GOLDEN / f"{kind}-v5.lumberjack"), expected, rows


def predicted(model, rows):
    rows = rows[model.feature_names_in_.tolist()]
    return model.predict_proba(rows) if hasattr(model, "classes_") else model.predict(rows)


OLD = ["classifier-v1", "regressor-v1", "classifier-v2", "regressor-v2", "classifier-v3", "regressor-v3",
       "classifier-v4", "regressor-v4", "counts-v5", "random-v5", "means-v5"]  # fmt: skip


@pytest.mark.parametrize("kind", ["counts", "random", "means"])
def test_files_of_counted_leaves_load_for_ever(kind):
    """Files of version 5: guided with curves, random without, and numbers."""
    model, expected, rows = golden(kind)
    assert model.apply(rows).tolist() == expected["apply"]
    said = expected["predict" if kind == "means" else "predict_proba"]
    np.testing.assert_allclose(predicted(model, rows), said, rtol=1e-12)
    promise = model.guarantee_
    assert promise.verify() <= promise.delta == 1e-5
    assert [event.count for event in promise.events_for("calibration")] == [1] * (kind == "counts")
    parts = [part for part in model.privacy_report().splitlines() if part.startswith("  calibration")]
    assert len(parts) == (kind == "counts")


@pytest.mark.parametrize("name", OLD)
def test_old_models_are_saved_as_version_5_and_say_the_same(name, tmp_path):
    model, (_, _, rows) = load(GOLDEN / f"{name}.lumberjack"), golden("counts")
    model.save(tmp_path / "again")
    data = (tmp_path / "again").read_bytes()
    assert struct.unpack_from("<I", data, 16) == (5,)
    again = load(tmp_path / "again")
    np.testing.assert_array_equal(predicted(again, rows), predicted(model, rows))
    assert again.guarantee_ == model.guarantee_
    again.save(tmp_path / "and again")
    assert (tmp_path / "and again").read_bytes() == data
    if name.endswith("v5"):
        assert data == (GOLDEN / f"{name}.lumberjack").read_bytes()


def test_fitted_leaves_of_old_files_are_saved_as_the_newest_version(tmp_path):
    """They vote as new ones do."""
    model, (_, _, rows) = load(GOLDEN / "classifier-v5.lumberjack"), golden("counts")
    model.save(tmp_path / "again")
    assert struct.unpack_from("<I", (tmp_path / "again").read_bytes(), 16) == (6,)
    np.testing.assert_array_equal(predicted(load(tmp_path / "again"), rows), predicted(model, rows))


@pytest.mark.parametrize("kind", ["counts", "means"])
def test_old_votes_are_not_exported(kind):
    model, _, _ = golden(kind)
    assert isinstance(model.released_.target, OldClasses if kind == "counts" else OldNumbers)
    for export in (to_onnx, to_shap):
        with pytest.raises(ValueError, match="file of format 5 or before"):
            export(model)
    assert len(to_shap(model, "counts")["trees"]) == 5


def stored(kind):
    return take_apart((GOLDEN / f"{kind}-v5.lumberjack").read_bytes())


def load_bytes(data, tmp_path):
    (tmp_path / "some").write_bytes(data)
    return load(tmp_path / "some")


@pytest.mark.parametrize("use", ["splits", "calibration"])
def test_an_old_model_cannot_be_relabelled_as_cheaper(tmp_path, use):
    header, arrays = stored("counts")
    header["guarantee"]["events"] = [e for e in header["guarantee"]["events"] if e["use"] != use]
    with pytest.raises(ValueError, match=r"contradicts itself|no fit could have"):
        load_bytes(put_together(header, arrays, 5), tmp_path)


def test_a_new_file_has_no_histogram_and_no_curves(tmp_path):
    header, arrays = stored("counts")
    with pytest.raises(ValueError, match="arrays of a forest"):
        load_bytes(put_together(header, arrays, 6), tmp_path)
    name, kind, shape = header["arrays"].pop()
    assert name == "calibration"
    arrays = arrays[: -int(np.prod(shape)) * np.dtype(kind).itemsize]
    with pytest.raises(ValueError, match="histogram is priced but not used"):
        load_bytes(put_together(header, arrays, 6), tmp_path)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e-9, 100.0, -1.0])
def test_curves_that_no_fit_could_have_are_refused(tmp_path, number):
    header, arrays = stored("counts")
    assert header["arrays"][-1] == ["calibration", "<f8", [3, 3]]
    arrays = arrays[:-72] + np.float64(number).tobytes() + arrays[-64:]
    with pytest.raises(ValueError, match="calibration is out of range"):
        load_bytes(put_together(header, arrays, 5), tmp_path)


@pytest.mark.parametrize("kind", ["random", "means"])
def test_unpriced_curves_are_refused(tmp_path, kind):
    header, arrays = stored(kind)
    name, stored_as, _ = header["arrays"][-1]
    size = np.dtype(stored_as).itemsize
    arrays = arrays[:-size] + np.array([1]).astype(stored_as).tobytes()  # shifts all that is predicted
    assert name == "calibration"
    with pytest.raises(ValueError, match="calibration is not that of the guarantee"):
        load_bytes(put_together(header, arrays, 5), tmp_path)


def test_records_of_old_forests_are_recomputed_with_their_histogram():
    """Without it the same record promises more than it spends; with less noise it promises nothing."""
    promise = golden("counts")[0].guarantee_
    assert promise == type(promise).from_json(promise.to_json())
    cheaper = replace(promise, events=promise.events[:-1])
    assert cheaper.verify() < promise.verify() <= promise.delta
    assert promise.events[-1].noise == promise.events[-2].noise / 2
    for claim in ({"noise": promise.events[-2].noise}, {"count": 0}, {"reach": 2}):
        changed = replace(promise.events[-1], **claim)
        assert replace(promise, events=(*promise.events[:-1], changed)).verify() == 1.0
    new = plan(3.0, 1e-5, leaf="counts")
    assert replace(new, events=(*new.events, promise.events[-1])).verify() == 1.0
