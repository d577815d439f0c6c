"""Data sets with hand-written public domains: ranges and categories from the code books, never the data.

In: a name. Out: ``(X, y, Domain)``. Tables are looked for in the folder named by ``LUMBERJACK_DATA``,
then in the user's cache (``LUMBERJACK_CACHE``), then downloaded from OpenML or the Census Bureau. A file
that holds only a sample is named so in a ``SampleWarning``. ``make_toy`` needs nothing.
"""

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_moons

from lumberjack.datasets import acs
from lumberjack.datasets.codebooks import ADULT, HOUSING, STATES, acs_domain
from lumberjack.datasets.store import LocalFile, SampleWarning, obtain, openml
from lumberjack.domain import Domain

__all__ = ["SampleWarning", "fetch_acs", "fetch_adult", "fetch_california_housing", "make_toy"]

Result = tuple[Any, Any, Domain]


def fetch_adult() -> Result:
    """UCI Adult, 48,842 rows: does a person earn more than 50,000 dollars a year?

    File ``adult.parquet``; otherwise OpenML 1590.

    Examples
    --------
    >>> from lumberjack.datasets import fetch_adult
    >>> X, y, domain = fetch_adult()
    >>> X.shape, list(X.columns) == domain.names, sorted(set(y))
    ((48842, 14), True, ['<=50K', '>50K'])
    """

    def fetch() -> Any:
        frame = openml(1590, [*ADULT, "class"], 48_842)
        return frame.rename(columns={"class": "income"})

    frame = obtain("Adult", [LocalFile("adult.parquet")], "adult.parquet", fetch)
    return frame[ADULT.names], frame["income"], ADULT


def fetch_acs(task: str = "income", state: str = "CA", year: int | Sequence[int] = 2018) -> Result:
    """A prediction task on the American Community Survey, as folktables defines it.

    File ``acs_<task>_<state>_<year>.parquet``; otherwise the Census Bureau's PUMS archive of the state.

    Parameters
    ----------
    task : {"income", "employment", "public_coverage", "travel_time", "mobility"}
    state : str
        Two letters, "PR", or "US" for all (without DC, as in folktables).
    year : int or sequence of int
        From 2014 on, without 2020, which has no one-year file. Several years are put together. From 2019
        on the relationship to the householder has other codes, and the domain follows.

    Examples
    --------
    >>> from lumberjack.datasets import fetch_acs
    >>> fetch_acs("income", "XX")
    Traceback (most recent call last):
        ...
    ValueError: state must be 'US' or the two letters of a state, got 'XX'
    """
    if task not in acs.TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, acs.TASKS))}, got {task!r}")
    if not isinstance(state, str) or state.upper() not in ("US", *STATES):
        raise ValueError(f"state must be 'US' or the two letters of a state, got {state!r}")
    state = state.upper()
    years = tuple(year) if isinstance(year, Iterable) and not isinstance(year, str) else (year,)
    for one in years:
        if not isinstance(one, numbers.Integral) or one < 2014 or one == 2020:
            raise ValueError(f"year must be a number from 2014 on, and not 2020, got {one!r}")
    if not years:
        raise ValueError("year must name at least one year, got none")
    frame = acs.load(task, state, years)
    names = acs.TASKS[task].features
    return frame[names], frame["label"], acs_domain(task, names, state, years)


def fetch_california_housing() -> Result:
    """Median house values of 20,640 Californian census blocks in 1990, for regression.

    File ``california_housing.parquet``; otherwise OpenML 43939.

    Examples
    --------
    >>> from lumberjack.datasets import fetch_california_housing
    >>> X, y, domain = fetch_california_housing()
    >>> X.shape, list(X.columns) == domain.names
    ((20640, 9), True)
    """

    def fetch() -> Any:
        return openml(43_939, [*HOUSING, "median_house_value"], 20_640)

    name = "california_housing.parquet"
    frame = obtain("California housing", [LocalFile(name)], name, fetch)
    return frame[HOUSING.names], frame["median_house_value"], HOUSING


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
