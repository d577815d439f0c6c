"""Forests of every kind are what they were: seeded noise, so any change of the draws shows.

Pruned trees are bit for bit the same. Weights of fitted leaves come from linear algebra, whose last bits
differ from machine to machine: their trees are the same, and their weights are close.


``python tests/test_golden.py`` rewrites the golden file after an intended change.
"""

import hashlib
import json
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor

GOLDEN = Path(__file__).parent / "golden" / "forests.json"
CITIES = ["Bonn", "Kiel", "Trier"]
DOMAIN = Domain(
    {
        "age": (0, 100),
        "city": Domain.categorical(CITIES, missing=True),
        "member": [False, True],
        "dose": (-1.0, 1.0),
        "ward": Domain.categorical(range(40)),
    }
)


def table(n=6000):
    """Rows from Python's own generator, whose stream does not change from version to version."""
    rng = random.Random(14)
    rows = []
    for _ in range(n):
        age, city = rng.random() * 110 - 5, rng.choice([*CITIES, "Ulm", None])
        rows.append([age if rng.random() < 0.9 else None, city, rng.random() < 0.5, rng.gauss(0, 1)])
        rows[-1].append(int(rng.random() * 45))
    frame = pd.DataFrame(rows, columns=list(DOMAIN))
    risk = (frame["age"].fillna(20) > 50).astype(int) + (frame["city"] == "Kiel") + (frame["ward"] < 9)
    return frame, risk.to_numpy()


SEED = {"n_estimators": 6, "domain": DOMAIN, "random_state": 5}
CLASSES = [0, 1, 2, 3]


def classifier(**kwargs):
    return LumberjackClassifier(4.0, **{**SEED, "leaf": "counts", "classes": CLASSES, **kwargs})


def regressor(**kwargs):
    return LumberjackRegressor(4.0, **{**SEED, "y_bounds": (0, 3), **kwargs})


def fitted(**kwargs):
    return LumberjackClassifier(4.0, **{**SEED, "classes": CLASSES, **kwargs})


class GuidedMeans(LumberjackRegressor):
    """A regressor whose trees are guided and pruned, as all were before leaves were fitted."""

    _is_fitted = False


def guided_means(**kwargs):
    return GuidedMeans(4.0, **{**SEED, "y_bounds": (0, 3), **kwargs})


PAPER = {"accounting": "paper", "splits": "random"}
KINDS = {
    "guided": classifier(),
    "guided majority": classifier(leaf="majority"),
    "guided weights": classifier(feature_weights={"age": 3.0, "city": 0.0}),
    "random": classifier(splits="random", n_estimators=3),
    "random majority": classifier(splits="random", leaf="majority"),
    "random threshold": classifier(splits="random", threshold=300.0, max_depth=7),
    "paper": classifier(leaf="exponential", **PAPER),
    "paper counts": classifier(**PAPER),
    "regression": guided_means(),
    "random regression": regressor(splits="random"),
    "persons": classifier(rows_per_person=3),
    "regression persons": guided_means(rows_per_person=2),
    "two classes": classifier(classes=["no", "yes"]),
    "one person a row": classifier(rows_per_person=1, splits="random"),
    "fitted": fitted(),
    "fitted two classes": fitted(classes=["no", "yes"]),
    "fitted learned": fitted(domain=None, classes=None),
    "fitted alone": fitted(n_estimators=1),
    "fitted regression": regressor(),
    "fitted regression learned": regressor(domain=None, y_bounds=None),
    "fitted persons": fitted(rows_per_person=3),
    "fitted regression persons": regressor(rows_per_person=2),
}


def fit(kind):
    X, y = table()
    people = np.arange(len(X)) // 4 if "person" in kind else None
    if "two classes" in kind:
        y = np.where(y > 1, "yes", "no")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KINDS[kind].fit(X, y, person_ids=people)


def digest(forest, with_values):
    """Of all splits, and of all released values."""
    found = hashlib.sha256()
    for tree, values in zip(forest.trees, forest.values, strict=True):
        for array, kind in (
            (tree.feature, "<i4"),
            (tree.cut, "<u4"),
            (tree.missing_left, "<u1"),
            (tree.left, "<i4"),
            (values, "<f8"),
        )[: None if with_values else -1]:
            found.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return found.hexdigest()


def describe(model):
    """Leaves and digest; of fitted ones also expected rows, how far each tree's weights are from 0, and
    the bounds of a number.
    """
    forest, is_fitted = model.forest_, model.guarantee_.fits_leaves
    leaves = sum(tree.n_leaves for tree in forest.trees)
    found = {"leaves": leaves, "sha256": digest(forest, not is_fitted)}
    if is_fitted:
        sizes, weights = zip(*((v[:, 0], v[:, 1:]) for v in forest.values), strict=True)
        squares = [(n @ w**2) / n.sum() for n, w in zip(sizes, weights, strict=True)]
        found["rows"] = float(sizes[0][0])
        found["weights"] = [np.round(np.sqrt(s), 6).tolist() for s in squares]
    if is_fitted and isinstance(model, LumberjackRegressor):
        found["bounds"] = [model.targets_.low, model.targets_.high]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_forests_are_what_they_were(kind):
    expected = json.loads(GOLDEN.read_text("utf-8"))[kind]
    found = describe(fit(kind))
    for name in ("rows", "weights"):
        assert (name in found) == (name in expected) == kind.startswith("fitted")
        np.testing.assert_allclose(found.pop(name, 0), expected.pop(name, 0), rtol=1e-9, atol=1e-3)
    assert found == expected


if __name__ == "__main__":
    found = {kind: describe(fit(kind)) for kind in KINDS}
    json.dump(found, sys.stdout if "-" in sys.argv else GOLDEN.open("w", encoding="utf-8"), indent=1)
