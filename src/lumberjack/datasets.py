"""Data sets with hand-written public domains: ranges and categories from the code books, never the data.

In: a name. Out: ``(X, y, Domain)``. Files are looked for in the folder named by ``LUMBERJACK_DATA``;
``make_toy`` needs nothing.

Sources of the domains: the description of the UCI Adult data set; the code book of the American
Community Survey PUMS 2014-2018 (US Census Bureau) with the feature sets of folktables (Ding et al.
2021); the description of the StatLib housing data (Pace and Barry 1997).
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_moons

from lumberjack.domain import Domain

__all__ = ["fetch_acs", "fetch_adult", "fetch_california_housing", "make_toy"]

ADULT = Domain(
    {
        "age": (17, 90),
        "workclass": [
            "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
            "Without-pay", "Never-worked", "?",
        ],
        "fnlwgt": (10_000, 1_500_000),
        "education": [
            "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc",
            "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool",
        ],
        "education-num": (1, 16),
        "marital-status": [
            "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
            "Married-spouse-absent", "Married-AF-spouse",
        ],
        "occupation": [
            "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
            "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
            "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv", "Armed-Forces",
            "?",
        ],
        "relationship": ["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"],
        "race": ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
        "sex": ["Female", "Male"],
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 5_000),
        "hours-per-week": (1, 99),
        "native-country": [
            "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
            "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran",
            "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal",
            "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia",
            "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador",
            "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands", "?",
        ],
    }
)  # fmt: skip


def _codes(low: int, high: int) -> Any:
    return Domain.categorical(list(range(low, high + 1)))


_ACS = {
    "COW": (1, 9),
    "SCHL": (0, 24),
    "MAR": _codes(1, 5),
    "OCCP": (0, 9999),
    "POBP": (1, 554),
    "RELP": _codes(0, 17),
    "WKHP": (1, 99),
    "SEX": _codes(1, 2),
    "RAC1P": _codes(1, 9),
    "DIS": _codes(1, 2),
    "ESP": (0, 8),
    "CIT": _codes(1, 5),
    "MIG": (0, 3),
    "MIL": (0, 4),
    "ANC": _codes(1, 4),
    "NATIVITY": _codes(1, 2),
    "DEAR": _codes(1, 2),
    "DEYE": _codes(1, 2),
    "DREM": (0, 2),
    "ESR": (0, 6),
    "ST": _codes(1, 56),
    "FER": (0, 2),
}

_TASKS = {
    "income": "AGEP COW SCHL MAR OCCP POBP RELP WKHP SEX RAC1P",
    "employment": "AGEP SCHL MAR RELP DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM SEX RAC1P",
    "public_coverage": (
        "AGEP SCHL MAR SEX DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM PINCP ESR ST FER RAC1P"
    ),
}

# What the tasks' own filters say about their rows: adults with an income, or people under 65 who earn
# at most 30,000 dollars.
_FILTERED: dict[str, dict[str, Any]] = {
    "income": {"AGEP": (17, 99)},
    "employment": {"AGEP": (0, 99)},
    "public_coverage": {"AGEP": (0, 64), "PINCP": (-19_998, 30_000)},
}

_STATES = {"CA": 6, "MA": 25}

_ACS_FILES = {
    ("income", "CA", 2018): "acs_income_ca_2018_sub.parquet",
    ("income", "US", 2018): "acs_income_us_2018_20pct.parquet",
    ("employment", "MA", 2018): "acs_employment_ma_2015_2018.parquet",
    ("public_coverage", "CA", 2018): "acs_public_coverage_ca_2018_sub.parquet",
}

HOUSING = Domain(
    {
        "longitude": (-125.0, -114.0),
        "latitude": (32.0, 42.0),
        "housing_median_age": (1, 52),
        "total_rooms": (0, 40_000),
        "total_bedrooms": (0, 7_000),
        "population": (0, 40_000),
        "households": (0, 7_000),
        "median_income": (0.0, 15.0),
        "ocean_proximity": ["<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"],
    }
)

Result = tuple[Any, Any, Domain]


def fetch_adult() -> Result:
    """UCI Adult, 48,842 rows: does a person earn more than 50,000 dollars a year?

    Examples
    --------
    >>> from lumberjack.datasets import fetch_adult
    >>> try:
    ...     X, y, domain = fetch_adult()
    ... except FileNotFoundError as error:  # says where the file is looked for
    ...     print("LUMBERJACK_DATA" in str(error))
    ... else:
    ...     print(list(X.columns) == domain.names)
    True
    """
    frame = _load("adult.parquet")
    return frame[ADULT.names], frame["income"], ADULT


def fetch_acs(task: str = "income", state: str = "CA", year: int = 2018) -> Result:
    """A prediction task on the American Community Survey, as folktables defines it.

    Parameters
    ----------
    task : {"income", "employment", "public_coverage"}
    state : str
        Two letters, or "US".
    year : int

    Examples
    --------
    >>> from lumberjack.datasets import fetch_acs
    >>> fetch_acs("weather")
    Traceback (most recent call last):
        ...
    ValueError: task must be one of 'income', 'employment', 'public_coverage', got 'weather'
    """
    if task not in _TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, _TASKS))}, got {task!r}")
    if (task, state, year) not in _ACS_FILES:
        there = "; ".join(f"{t}, {s}, {y}" for t, s, y in _ACS_FILES)
        raise ValueError(f"no file is known for {task}, {state}, {year}; there is {there}")
    frame = _load(_ACS_FILES[task, state, year])
    known = {**_ACS, **_FILTERED[task]}
    if state in _STATES:
        known["ST"] = Domain.categorical([_STATES[state]])
    names = _TASKS[task].split()
    return frame[names], frame["label"], Domain({name: known[name] for name in names})


def fetch_california_housing() -> Result:
    """Median house values of 20,640 Californian census blocks in 1990, for regression.

    Examples
    --------
    >>> from lumberjack.datasets import fetch_california_housing
    >>> try:
    ...     X, y, domain = fetch_california_housing()
    ... except FileNotFoundError as error:
    ...     print("LUMBERJACK_DATA" in str(error))
    ... else:
    ...     print(list(X.columns) == domain.names)
    True
    """
    frame = _load("california_housing.parquet")
    return frame[HOUSING.names], frame["median_house_value"], HOUSING


def _load(name: str) -> Any:
    folder = os.environ.get("LUMBERJACK_DATA")
    path = Path(folder or ".") / name
    if not folder or not path.is_file():
        raise FileNotFoundError(
            f"{name} was not found; set the variable LUMBERJACK_DATA to the folder that holds it"
            + (f" (it is {folder!r} now)" if folder else "")
        )
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "reading data sets needs pandas and pyarrow: install the extra 'data'"
        ) from None
    return pd.read_parquet(path)


def make_toy(
    n: int = 10_000, *, scale: float = 1.0, random_state: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64], Domain]:
    """The paper's toy example: two moons, and a far blob whose distance stretches the ranges.

    Parameters
    ----------
    n : int
        Rows: 55 % in the first moon, 40 % in the second, 5 % in the blob.
    scale : float
        Ranges are [0, 5 scale] and [0, 4 scale]; the paper has 1, 10 and 1000.
    random_state : int
        Seed of the data (not of any noise).

    Examples
    --------
    >>> from lumberjack.datasets import make_toy
    >>> X, y, domain = make_toy(1000)
    >>> X.shape, sorted(set(y.tolist())), domain["x"].high
    ((1000, 2), [0, 1, 2], 5.0)
    """
    upper, blob = int(0.55 * n), int(0.05 * n)
    moons, moon = make_moons((upper, n - upper - blob), noise=0.1, random_state=random_state)
    bounds = np.array([5.0, 4.0]) * scale
    outliers, _ = make_blobs(blob, centers=[bounds - 1], cluster_std=0.2, random_state=random_state)
    X = np.clip(np.vstack([moons + np.array([1.5, 1.0]), outliers]), 0, bounds)
    y = np.concatenate([moon, np.full(blob, 2)]).astype(np.int64)
    order = np.random.RandomState(random_state).permutation(n)
    return X[order], y[order], Domain({"x": (0.0, bounds[0]), "y": (0.0, bounds[1])})
