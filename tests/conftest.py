"""What holds for all tests: a table, two models, frames of every library, and which tests are slow."""

from pathlib import Path

import numba
import numpy as np
import pandas as pd
import pytest
from slow import SLOW

from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import make_toy

HERE = Path(__file__).parent


def pytest_configure(config):
    """Without compilation, NumPy warns about intended integer wraparound."""
    if numba.config.DISABLE_JIT:
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


def pytest_collection_modifyitems(items):
    """Mark the tests listed in ``slow``; other slow tests carry the mark themselves."""
    for item in items:
        if item.path.is_relative_to(HERE):
            name = f"{item.path.relative_to(HERE).as_posix()}::{item.name}"
            if name.startswith(SLOW):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def table():
    """Makes a frame with a number, a category and a flag, and labels that follow from them."""

    def make(n=4000, seed=0):
        rng = np.random.default_rng(seed)
        columns = {
            "age": rng.uniform(0, 100, n),
            "city": rng.choice(["Bonn", "Kiel", "Trier"], n),
            "member": rng.random(n) < 0.5,
        }
        labels = np.where((columns["age"] > 50) ^ (columns["city"] == "Kiel"), "yes", "no")
        return pd.DataFrame(columns), labels

    return make


@pytest.fixture(scope="session")
def toy():
    """A classifier of the toy data, with its rows and labels."""
    X, y, domain = make_toy(5000)
    return LumberjackClassifier(4.0, domain=domain, classes=[0, 1, 2]).fit(X, y), X, y


@pytest.fixture(scope="session")
def mixed():
    """A regressor of numbers and a category, with its rows and targets."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"c": rng.choice(["u", "v"], 5000), "a": rng.uniform(0, 1, 5000), "b": rng.uniform(-1, 1, 5000)}
    )
    domain = {"a": (0, 1), "b": (-1, 1), "c": ["u", "v"]}
    y = frame["a"] + (frame["c"] == "v")
    return LumberjackRegressor(8.0, domain=domain, y_bounds=(0, 2)).fit(frame, y), frame, y


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def frame(request):
    """Makes a frame of each library from a dict of columns."""
    library = pytest.importorskip(request.param)
    return library.table if request.param == "pyarrow" else library.DataFrame
