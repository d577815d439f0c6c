"""What holds for all tests."""

from pathlib import Path

import numba
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
