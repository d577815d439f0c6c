"""Forests of every kind are bit for bit what they were: seeded noise, so any change of the draws shows.

``python tests/test_golden.py`` writes the golden file anew, where a change is meant.
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


def classifier(**kwargs):
    settings = {"n_estimators": 6, "domain": DOMAIN, "classes": [0, 1, 2, 3], "random_state": 5}
    return LumberjackClassifier(4.0, **{**settings, **kwargs})


def regressor(**kwargs):
    settings = {"n_estimators": 6, "domain": DOMAIN, "y_bounds": (0, 3), "random_state": 5}
    return LumberjackRegressor(4.0, **{**settings, **kwargs})


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
    "regression": regressor(),
    "random regression": regressor(splits="random"),
    "persons": classifier(rows_per_person=3),
    "regression persons": regressor(rows_per_person=2),
    "two classes": classifier(classes=["no", "yes"]),
    "one person a row": classifier(rows_per_person=1, splits="random"),
}


def fit(kind):
    X, y = table()
    people = np.arange(len(X)) // 4 if "person" in kind else None
    if kind == "two classes":
        y = np.where(y > 1, "yes", "no")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KINDS[kind].fit(X, y, person_ids=people)


def digest(forest):
    """Of all splits and all released values."""
    found = hashlib.sha256()
    for tree, values in zip(forest.trees, forest.values, strict=True):
        for array, kind in (
            (tree.feature, "<i4"),
            (tree.cut, "<u4"),
            (tree.missing_left, "<u1"),
            (tree.left, "<i4"),
            (values, "<f8"),
        ):
            found.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_forests_are_what_they_were(kind):
    expected = json.loads(GOLDEN.read_text("utf-8"))[kind]
    forest = fit(kind).forest_
    leaves = sum(tree.n_leaves for tree in forest.trees)
    assert {"leaves": leaves, "sha256": digest(forest)} == expected


if __name__ == "__main__":
    found = {}
    for kind in KINDS:
        forest = fit(kind).forest_
        leaves = sum(tree.n_leaves for tree in forest.trees)
        found[kind] = {"leaves": leaves, "sha256": digest(forest)}
    json.dump(found, sys.stdout if "-" in sys.argv else GOLDEN.open("w", encoding="utf-8"), indent=1)
