"""What is predicted in the accuracy benchmark: classes and numbers of the real tables.

In: a name. Out: a table, its target, and what is public about both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from lumberjack import Domain
from lumberjack.datasets import fetch_acs, fetch_adult, fetch_california_housing
from lumberjack.kinds import Numeric


@dataclass(frozen=True)
class Problem:
    """A table with a target: its own, or one of its columns in exchange for it."""

    fetch: Callable[[], Any]
    column: str | None = None  # to predict, in place of the table's own target
    own: Any = None  # what is then public about the table's own target, which becomes a column
    bounds: tuple[float, float] | None = None  # public bounds of a number to predict; None: classes


@dataclass(frozen=True)
class Table:
    """Rows, target (positions of classes, or numbers), and what is public."""

    X: Any
    y: np.ndarray
    domain: Domain
    n_classes: int  # 0: numbers
    bounds: tuple[float, float] | None


INCOME = ["<=50K", ">50K"]
PRICES = (0, 500_001)
PROBLEMS = {
    "adult": Problem(fetch_adult),
    "income": Problem(lambda: fetch_acs("income", "CA")),
    "public_coverage": Problem(lambda: fetch_acs("public_coverage", "CA")),
    "employment": Problem(lambda: fetch_acs("employment", "MA", range(2015, 2019))),
    "occupation": Problem(fetch_adult, "occupation", INCOME),  # 15 classes, some of them rare
    "housing": Problem(fetch_california_housing, bounds=PRICES),
    "age": Problem(fetch_adult, "age", INCOME, bounds=(17, 90)),
    "hours": Problem(fetch_adult, "hours-per-week", INCOME, bounds=(1, 99)),
    "rooms": Problem(fetch_california_housing, "total_rooms", PRICES, (0, 40_000)),  # a heavy tail
    "gain": Problem(fetch_adult, "capital-gain", INCOME, (0, 99_999)),  # nearly always 0
}
FOUR = ("adult", "income", "public_coverage", "employment")  # of two classes; their mean is shown


def load(name: str) -> Table:
    """A table with its target."""
    problem = PROBLEMS[name]
    X, y, domain = problem.fetch()
    X = X.reset_index(drop=True)
    if problem.column is not None:
        own = y.name
        X = X.assign(**{own: np.asarray(y)})
        y = X.pop(problem.column)
        domain = Domain({**{n: domain[n] for n in domain if n in X}, own: problem.own})
    y = np.asarray(y)
    if problem.bounds is not None:
        return Table(X, y.astype(float), domain, 0, problem.bounds)
    found = np.unique(y)
    return Table(X, np.searchsorted(found, y), domain, len(found), None)


def split(table: Table, seed: int, rows: int | None = None):
    """Train and test on 90 and 10 percent, stratified; or train on so many rows of the 90 percent."""
    strata = table.y if table.n_classes else None
    positions = np.arange(len(table.y))
    train, test = train_test_split(positions, test_size=0.1, stratify=strata, random_state=seed)
    if rows is not None and rows < len(train):
        strata = table.y[train] if table.n_classes == 2 else None
        train, _ = train_test_split(train, train_size=rows, stratify=strata, random_state=seed)
    return tuple((table.X.iloc[part], table.y[part]) for part in (train, test))


def numbers(domain: Domain) -> dict[str, Numeric]:
    """Columns that hold numbers, with their ranges."""
    return {name: domain[name] for name in domain if isinstance(domain[name], Numeric)}
