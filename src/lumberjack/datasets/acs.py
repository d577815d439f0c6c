"""Prediction tasks on the American Community Survey, as folktables defines them (Ding et al. 2021).

In: a task, a state and a year. Out: features (0 where not applicable) and a 0/1 label, from a local file
or from the person files of the Census Bureau's PUMS archives.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lumberjack.datasets.codebooks import STATES
from lumberjack.datasets.store import (
    BadDownloadError,
    LocalFile,
    cached,
    download,
    obtain,
    pandas_with_parquet,
    read_zipped_csv,
)

__all__ = ["TASKS", "load"]

CENSUS = "https://www2.census.gov/programs-surveys/acs/data/pums"


@dataclass(frozen=True)
class Task:
    """Which persons, which features, and what is to be predicted.

    Attributes
    ----------
    columns : str
        The features, separated by spaces.
    keep : callable
        Mask of the persons of a frame that take part.
    label : callable
        Mask of those whose label is 1.
    needs : tuple of str
        Columns that ``keep`` and ``label`` read besides the features.
    """

    columns: str
    keep: Callable[[Any], Any]
    label: Callable[[Any], Any]
    needs: tuple[str, ...]

    @property
    def features(self) -> list[str]:
        """Names of the features, in the order of folktables."""
        return self.columns.split()


TASKS = {
    "income": Task(
        "AGEP COW SCHL MAR OCCP POBP RELP WKHP SEX RAC1P",
        lambda f: (f["AGEP"] > 16) & (f["PINCP"] > 100) & (f["WKHP"] > 0) & (f["PWGTP"] >= 1),
        lambda f: f["PINCP"] > 50_000,
        ("PINCP", "PWGTP"),
    ),
    "employment": Task(
        "AGEP SCHL MAR RELP DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM SEX RAC1P",
        lambda f: f["AGEP"] >= 0,
        lambda f: f["ESR"] == 1,
        ("ESR",),
    ),
    "public_coverage": Task(
        "AGEP SCHL MAR SEX DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM PINCP ESR ST FER RAC1P",
        lambda f: (f["AGEP"] < 65) & (f["PINCP"] <= 30_000),
        lambda f: f["PUBCOV"] == 1,
        ("PUBCOV",),
    ),
    "travel_time": Task(
        "AGEP SCHL MAR SEX DIS ESP MIG RELP RAC1P PUMA ST CIT OCCP JWTR POWPUMA POVPIP",
        lambda f: (f["AGEP"] > 16) & (f["PWGTP"] >= 1) & (f["ESR"] == 1),
        lambda f: f["JWMNP"] > 20,
        ("PWGTP", "ESR", "JWMNP"),
    ),
    "mobility": Task(
        "AGEP SCHL MAR SEX DIS ESP CIT MIL ANC NATIVITY RELP DEAR DEYE DREM RAC1P GCL COW ESR WKHP "
        "JWMNP PINCP",
        lambda f: (f["AGEP"] > 18) & (f["AGEP"] < 35),
        lambda f: f["MIG"] == 1,
        ("MIG",),
    ),
}

_COLUMNS = sorted({name for task in TASKS.values() for name in (*task.features, *task.needs)})
_NOW_CALLED = {"RELSHIPP": "RELP", "JWTRNS": "JWTR", "STATE": "ST"}  # from 2019 and 2023 on

# Files that people have under other names than acs_<task>_<state>_<year>.parquet.
_OTHER_FILES = {
    ("income", "CA", 2018): LocalFile("acs_income_ca_2018_sub.parquet", "46 % sample"),
    ("income", "US", 2018): LocalFile("acs_income_us_2018_20pct.parquet", "20 % sample"),
    ("public_coverage", "CA", 2018): LocalFile("acs_public_coverage_ca_2018_sub.parquet", "40 % sample"),
    **{
        ("employment", "MA", year): LocalFile("acs_employment_ma_2015_2018.parquet")
        for year in range(2015, 2019)
    },
}


def load(task: str, state: str, years: tuple[int, ...]) -> Any:
    """Features and ``label`` of one task and state, in those years."""
    frames = []
    for year in years:
        frames.append(_load_year(task, state, year))
    return frames[0] if len(frames) == 1 else pandas_with_parquet().concat(frames, ignore_index=True)


def _load_year(task: str, state: str, year: int) -> Any:
    named = LocalFile(f"acs_{task}_{state.lower()}_{year}.parquet")
    others = [_OTHER_FILES[task, state, year]] if (task, state, year) in _OTHER_FILES else []
    frame = obtain(
        f"ACS {task}, {state} {year}",
        [named, *others],
        f"acs_{task}_{state.lower()}_{year}.parquet",
        lambda: _prepare(task, _persons(state, year)),
    )
    if "YEAR" in frame.columns:
        frame = frame[frame["YEAR"] == year].reset_index(drop=True)
    return frame[[*TASKS[task].features, "label"]]


def _prepare(task: str, persons: Any) -> Any:
    """The rows and columns of a task; what is not applicable becomes 0, as folktables does."""
    made = TASKS[task]
    lacking = sorted({*made.features, *made.needs} - set(persons.columns))
    if lacking:
        raise BadDownloadError(f"the archive lacks the columns {', '.join(lacking)}")
    persons = persons[np.asarray(made.keep(persons), dtype=bool)]
    frame = persons[made.features].fillna(0).astype("int32")
    return frame.assign(label=made.label(persons).astype("int8")).reset_index(drop=True)


def _persons(state: str, year: int) -> Any:
    """All persons of a state, or of all states but DC, which folktables leaves out of its "US" too."""
    if state == "US":
        every = [_persons(s, year) for s in STATES if s != "DC"]
        return pandas_with_parquet().concat(every, ignore_index=True)
    return cached(f"acs_persons_{state.lower()}_{year}.parquet", lambda: _download_persons(state, year))


def _download_persons(state: str, year: int) -> Any:
    with download(f"{CENSUS}/{year}/1-Year/csv_p{state.lower()}.zip") as path:
        frame = read_zipped_csv(path, [*_COLUMNS, *_NOW_CALLED])
    return frame.rename(columns={old: new for old, new in _NOW_CALLED.items() if new not in frame})
