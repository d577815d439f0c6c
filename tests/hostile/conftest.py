"""Small files for the command line, whose cells all hold the same odd letters."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lumberjack import Domain, LumberjackClassifier

SECRET = "zqx"


@dataclass(frozen=True)
class Work:
    """A folder with data.csv, data.parquet, domain.json and model.lumberjack."""

    folder: Path
    secret: str
    rounds: int  # how often to try something at random: LUMBERJACK_FUZZ, or few

    def path(self, name):
        return str(self.folder / name)


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "who": [f"{SECRET}-{i}" for i in rng.integers(0, 200, n)],
            "age": rng.uniform(0, 100, n).round(3),
            "city": rng.choice([f"{SECRET}a", f"{SECRET}b"], n),
            "day": rng.choice(["2026-01-31", "2026-02-01T12:30:00"], n),
            "back": rng.choice([f"{SECRET}no", f"{SECRET}yes"], n),
        }
    )
    labels = [f"{SECRET}no", f"{SECRET}yes"]
    domain = {
        "age": (0, 100),
        "city": Domain.categorical([f"{SECRET}a", f"{SECRET}b"], missing=True),
        "day": Domain.numeric(pd.Timestamp("2026-01-01"), pd.Timestamp("2027-01-01")),
    }
    frame.to_csv(folder / "data.csv", index=False)
    frame["day"] = pd.to_datetime(frame["day"], format="ISO8601")
    frame.to_parquet(folder / "data.parquet", index=False)
    Domain({**domain, "back": labels}).to_json(folder / "domain.json")
    model = LumberjackClassifier(4.0, domain=domain, classes=labels, n_estimators=2, max_depth=5)
    model.fit(frame[list(domain)], frame["back"]).save(folder / "model.lumberjack")
    return Work(folder, SECRET, int(os.environ.get("LUMBERJACK_FUZZ", "0")))
