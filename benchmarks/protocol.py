"""The paper's protocol as data: which data sets, which systems, which cells.

In: choices. Out: a list of ``Cell``: one data set, one system with its settings, one epsilon, one
repetition. A cell's file name follows from what it is, so that two studies share the cells they have
in common. A finished one is run again only when the ``identity`` of its system has changed.
"""

import functools
import hashlib
import inspect
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.baselines import SYSTEMS, Baseline, HeavyHitterForest
from lumberjack import LumberjackClassifier
from lumberjack.datasets import SampleWarning, fetch_acs, fetch_adult
from lumberjack.kinds import Categorical

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
REPETITIONS = 5
FEWER = {0.1: 3, 8.0: 3}  # repetitions at the ends, of the comparison and in its tables
LIMIT = 900.0  # seconds of processor time for one cell

Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Data:
    """A data set of the study: how to get it, and what the paper's table says of it (or None).

    That is: features, categorical features, classes, share of the majority in percent, rows.
    """

    title: str
    fetch: Callable[[], Any]
    trees: int  # of the paper's settings
    paper: tuple[int, int, int, float, int] | None = None


def _acs(task, state="CA", year=2018):
    return lambda: fetch_acs(task, state, year)


DATA = {
    "adult": Data("Adult", fetch_adult, 30, (14, 8, 2, 76.1, 48_842)),
    "income": Data("ACSIncome (CA)", _acs("income"), 50, (10, 4, 2, 58.9, 195_665)),
    "employment": Data("ACSEmployment (CA)", _acs("employment"), 50, (16, 10, 2, 54.4, 378_817)),
    "public_coverage": Data(
        "ACSPublicCoverage (CA)", _acs("public_coverage"), 50, (19, 10, 2, 63.1, 138_554)
    ),
    "travel_time": Data("ACSTravelTime (CA)", _acs("travel_time"), 50, (16, 7, 2, 51.5, 172_508)),
    # Not the paper's, but there where the one above is not.
    "employment_ma": Data(
        "ACSEmployment (MA, 2015–2018)", _acs("employment", "MA", range(2015, 2019)), 50
    ),
}


@dataclass(frozen=True)
class Cell:
    """One run: fit on 80 % of the rows, tune on 10 %, test on 10 %; the split follows ``repetition``."""

    dataset: str
    system: str
    settings: Settings
    epsilon: float | None  # None: not private
    repetition: int
    rows: int | None = None  # so many rows only: for trials

    @property
    def name(self) -> str:
        """File name without its ending."""
        settings = ",".join(f"{k}={v}" for k, v in self.settings) or "default"
        parts = [self.dataset, self.system, settings]
        parts += [f"eps={'inf' if self.epsilon is None else format(self.epsilon, 'g')}"]
        parts += [f"rep={self.repetition}"] + ([f"rows={self.rows}"] if self.rows else [])
        return "__".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON would give it back."""
        return {**asdict(self), "settings": [list(pair) for pair in self.settings]}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> "Cell":
        """Read what ``to_dict`` gave."""
        return cls(**{**found, "settings": tuple((k, v) for k, v in found["settings"])})


def make_system(name: str, settings: Settings) -> Baseline:
    """A fresh system; "heavy-hitters" is the ablations' forest."""
    if name == "heavy-hitters":
        return HeavyHitterForest(**dict(settings))
    return SYSTEMS[name](**dict(settings))


def identity(cell: Cell) -> str:
    """What a result of this cell is valid for; see ``Baseline.identity``."""
    return _identity(cell.system, cell.settings, cell.epsilon)


@functools.cache
def _identity(system: str, settings: Settings, epsilon: float | None) -> str:
    try:
        return make_system(system, settings).identity(epsilon)
    except (
        KeyError,
        TypeError,
        ValueError,
    ) as error:  # such a system cannot be fitted: running the cell says why
        return type(error).__name__


def repetitions_at(epsilon: float | None, most: int = REPETITIONS) -> int:
    """How many repetitions count at an epsilon."""
    return min(most, FEWER.get(epsilon, most)) if epsilon is not None else most


def paper_cells(datasets, systems, epsilons=EPSILONS, repetitions=REPETITIONS, rows=None) -> list[Cell]:
    """The comparison, repetition by repetition, so that an estimate of the time is soon a good one."""
    cells = []
    for repetition in range(repetitions):
        for dataset in datasets:
            for system in systems:
                settings = (("n_estimators", DATA[dataset].trees),) if system == "paper" else ()
                private = SYSTEMS[system].claim != "none"
                for epsilon in epsilons if private else (None,):
                    if repetition < repetitions_at(epsilon, repetitions):
                        cells.append(Cell(dataset, system, settings, epsilon, repetition, rows))
    return cells


@dataclass(frozen=True)
class Line:
    """One line of an ablation's figure: its label and, for each x, a system with settings."""

    label: str
    points: tuple[tuple[float, str, Settings, float], ...]  # x, system, settings, epsilon


@dataclass(frozen=True)
class Ablation:
    """One question, one figure."""

    title: str
    x: str
    lines: tuple[Line, ...]
    logarithmic: bool = True


def _settings(system: str, given: dict[str, Any]) -> Settings:
    """Without what is the default anyway, so that studies share such cells."""
    kind = HeavyHitterForest if system == "heavy-hitters" else LumberjackClassifier
    default = {k: p.default for k, p in inspect.signature(kind).parameters.items()}
    default |= {"leaf": "counts"}
    return tuple((k, v) for k, v in given.items() if v != default[k])


# The paper's subject: trees that are pruned, and their leaves counted.
def _over_epsilon(label, system="lumberjack-counts", **settings):
    return Line(label, tuple((e, system, _settings(system, settings), e) for e in EPSILONS[1:]))


def _over(name, values, label="default", system="lumberjack-counts", **settings):
    points = ((v, system, _settings(system, {name: v, **settings}), 1.0) for v in values)
    return Line(label, tuple(points))


TREES = (5, 10, 20, 40, 80)
DEPTHS = (10, 30, 100, 300, 1000)
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
ABLATED = ("adult", "income")

ABLATIONS = {
    "heavy-hitters": Ablation(
        "Heavy hitters: sparse, two-sided, top-down",
        "ε",
        tuple(_over_epsilon(m, "heavy-hitters", method=m) for m in ("sparse", "two-sided", "top-down")),
    ),
    "accounting": Ablation(
        "Accounting: joint bound, Theorem 1",
        "ε",
        tuple(
            _over_epsilon(a, splits="random", accounting=a, structure_share=0.5)
            for a in ("joint", "paper")
        ),
    ),
    "trees": Ablation("Number of trees (ε = 1)", "trees", (_over("n_estimators", TREES),)),
    "depth": Ablation(
        "Maximum depth (ε = 1)",
        "maximum depth",
        (
            _over("max_depth", DEPTHS),
            _over("max_depth", DEPTHS, "random splits", splits="random"),
            _over(
                "depth",
                DEPTHS,
                "random splits, top-down heavy hitters",
                "heavy-hitters",
                method="top-down",
            ),
        ),
    ),
    "share": Ablation(
        "Share of the budget for the structure (ε = 1)",
        "structure share",
        (_over("structure_share", SHARES),),
        logarithmic=False,
    ),
    "leaf": Ablation(
        "What a leaf releases",
        "ε",
        (
            _over_epsilon("counts", splits="random", leaf="counts"),
            _over_epsilon("majority", splits="random", leaf="majority"),
            _over_epsilon(
                "exponential (paper accounting)", splits="random", accounting="paper", leaf="exponential"
            ),
        ),
    ),
    "splits": Ablation(
        "Splits: guided, random",
        "ε",
        tuple(_over_epsilon(s, splits=s) for s in ("guided", "random")),
    ),
}


def ablation_cells(names, datasets=ABLATED, repetitions=REPETITIONS, rows=None) -> list[Cell]:
    """All cells of those ablations."""
    cells = [
        Cell(dataset, system, settings, epsilon, repetition, rows)
        for repetition in range(repetitions)
        for dataset in datasets
        for name in names
        for line in ABLATIONS[name].lines
        for _, system, settings, epsilon in line.points
    ]
    return list(dict.fromkeys(cells))


def load(dataset: str, rows: int | None = None) -> tuple[Any, Any, Any, str]:
    """Features, labels, domain, and what sample of the data set this is ("" if all of it)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        X, y, domain = DATA[dataset].fetch()
    samples = {w.message.sample for w in caught if isinstance(w.message, SampleWarning)}
    y = np.asarray(y)
    if rows is not None and rows < len(y):
        X, _, y, _ = train_test_split(X, y, train_size=rows, stratify=y, random_state=0)
        samples.add(f"trial on {rows:,} rows")
    return X.reset_index(drop=True), y, domain, ", ".join(sorted(samples))


def split(X, y, repetition: int):
    """Stratified 80-10-10 split: three (X, y) pairs; another one in each repetition."""
    first = train_test_split(X, y, test_size=0.2, stratify=y, random_state=repetition)
    X_train, X_rest, y_train, y_rest = first
    second = train_test_split(X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=repetition)
    X_tune, X_test, y_tune, y_test = second
    return (X_train, y_train), (X_tune, y_tune), (X_test, y_test)


def fingerprint(X, y, domain) -> str:
    """Tells one table and its domain from another."""
    found = hashlib.blake2b(json.dumps(domain.to_dict()).encode(), digest_size=8)
    found.update(domain.encode(X).tobytes())
    found.update(json.dumps(np.asarray(y).tolist()).encode())
    return found.hexdigest()


def describe(dataset: str, rows: int | None = None) -> dict[str, Any]:
    """A data set's row of the paper's table."""
    X, y, domain, sample = load(dataset, rows)
    _, counts = np.unique(y, return_counts=True)
    return {
        "digest": fingerprint(X, y, domain),
        "features": X.shape[1],
        "categorical": sum(isinstance(kind, Categorical) for kind in domain.kinds),
        "classes": len(counts),
        "majority": 100 * counts.max() / len(y),
        "rows": len(y),
        "sample": sample,
    }
