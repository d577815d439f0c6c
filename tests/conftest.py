"""What holds for all tests: a small table, frames of every library, and which tests are slow."""

from pathlib import Path

import numba
import numpy as np
import pandas as pd
import pytest
from slow import SLOW

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


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def frame(request):
    """Makes a frame of each library from a dict of columns."""
    library = pytest.importorskip(request.param)
    return library.table if request.param == "pyarrow" else library.DataFrame
