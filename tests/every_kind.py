"""A table with every kind of column, for models that are written in other languages."""

import datetime as dt
import math

import numpy as np
import pandas as pd

from lumberjack import Domain, LumberjackClassifier

DOMAIN = Domain(
    {
        "age": (0, 100),
        "income": (-1e6, 1e6),
        "constant": (3, 3),
        "city": Domain.categorical([f"city {i}" for i in range(80)] + ["Köln"], missing=True),
        "ward": ["A", "B", "C", ""],
        "code": Domain.categorical([3, 7, 11, 2.5, -1, 2**40], missing=True),
        "digit": list(range(10)),
        "member": [False, True],
        "seen": (dt.date(2020, 1, 1), dt.date(2026, 1, 1)),
    }
)


def table(n=6000, seed=0):
    """Every kind of column, with missing, unknown and out-of-range values, and values on the grid."""
    rng = np.random.default_rng(seed)
    age = rng.integers(-10, 120, n) + rng.choice([0, 0.5, 1e-13, -1e-13], n)
    days = rng.integers(-100, 2400, n)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "income": rng.choice([math.inf, -math.inf, 0.0, np.nan, 5e5, -3.25], n),
            "constant": rng.normal(3, 1, n),
            "city": rng.choice(np.array([*DOMAIN["city"].categories, "Atlantis", "", None], object), n),
            "ward": rng.choice(np.array(["A", "B", "C", "", "?", None, 5], object), n),
            "code": rng.choice([3, 7, 11, 2.5, -1, 2**40, 4, 0, np.nan, math.inf], n),
            "digit": rng.integers(-2, 14, n),
            "member": rng.choice(np.array([True, False, None], object), n),
            "seen": [None if d % 17 == 0 else dt.date(2020, 1, 1) + dt.timedelta(int(d)) for d in days],
        }
    )
    score = np.nan_to_num(frame["age"]) / 50 + (frame["ward"] == "A") + (frame["digit"] > 4)
    return frame, score.to_numpy() + rng.normal(0, 0.3, n)


# Learned in a model of an undeclared table: what ``table`` has, but text and numbers apart.
PARTLY = Domain({name: DOMAIN[name] for name in ("age", "constant")})


def undeclared(n=6000, seed=0):
    """The same table, as one that needs no domain."""
    frame, score = table(n, seed)
    wards = [w if isinstance(w, str) else None for w in frame["ward"]]
    huge = np.random.default_rng(seed).choice([1e300, -1e300, 5e-324, 1e-40, -0.0, 0.0, 16777217.0], n)
    return frame.assign(ward=wards, huge=huge), score


def classifier(**kw):
    given = {"n_estimators": 7, "classes": ["x", "y", "z"], "domain": DOMAIN, **kw}
    return LumberjackClassifier(epsilon=8.0, **given)


def labels(score):
    return np.array(["x", "y", "z"])[np.digitize(score, [1.0, 2.0])]
