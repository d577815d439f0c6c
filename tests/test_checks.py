"""Refusals of numbers: the argument, its value and the way out."""

import math
import re

import numpy as np
import pytest

from lumberjack.accounting import checks


@pytest.mark.parametrize(
    ("check", "error", "said"),
    [
        (lambda: checks.check_real("x", "1"), TypeError, "x must be a number, got '1' of type str"),
        (lambda: checks.check_real("x", True), TypeError, "x must be a number, got True of type bool"),
        (lambda: checks.check_real("x", math.nan), ValueError, "x must be a number, got NaN"),
        (lambda: checks.check_epsilon(-1), ValueError, "epsilon must be positive, got -1"),
        (lambda: checks.check_epsilon(0), ValueError, "epsilon must be positive, got 0"),
        (lambda: checks.check_epsilon(math.inf), ValueError, "epsilon must be finite, got inf"),
        (lambda: checks.check_epsilon(2e6), ValueError, "at most a million, got 2e+06"),
        (lambda: checks.check_delta(0), ValueError, "delta must lie in (0, 1), got 0"),
        (lambda: checks.check_delta(1, allow_zero=True), ValueError, "delta must lie in [0, 1), got 1"),
        (lambda: checks.check_delta(1e-301), ValueError, "delta must be at least 1e-300"),
        (lambda: checks.check_nonnegative("x", -1e-9), ValueError, "x must be at least 0, got -1e-09"),
        (lambda: checks.check_count("x", 1.0), TypeError, "x must be a whole number, got 1.0"),
        (lambda: checks.check_count("x", True), TypeError, "x must be a whole number, got True"),
        (lambda: checks.check_count("x", 0), ValueError, "x must be at least 1, got 0"),
        (lambda: checks.check_count("x", 10**9 + 1), ValueError, "x must be at most a billion"),
        (lambda: checks.check_share("x", 1), ValueError, "x must lie strictly between 0 and 1, got 1"),
    ],
)
def test_bad_numbers_are_refused(check, error, said):
    with pytest.raises(error, match=re.escape(said)):
        check()


def test_good_numbers_are_returned():
    """Numbers of any library come back as Python's own; edges only where asked."""
    assert type(checks.check_real("x", np.float32(0.5))) is float
    assert type(checks.check_count("x", np.int8(3))) is int
    assert checks.check_epsilon(0, allow_zero=True) == 0
    assert checks.check_epsilon(math.inf, allow_infinity=True) == math.inf
    assert checks.check_delta(1, allow_one=True) == 1
    assert checks.check_delta(0, allow_zero=True) == 0
    assert checks.check_count("x", 0, least=0) == 0
    assert checks.check_share("x", 0.25) == 0.25
