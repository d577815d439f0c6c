"""Checks of numeric arguments: each error names the argument, its value and a way out."""

import math
import numbers


def check_real(name: str, value: float) -> float:
    """Return value as a float; refuse what is not a number, and NaN."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number below 1e308, got a larger one") from None
    if math.isnan(number):
        raise ValueError(f"{name} must be a number, got NaN")
    return number


def check_epsilon(
    value: float, *, name: str = "epsilon", allow_zero: bool = False, allow_infinity: bool = False
) -> float:
    """Refuse an epsilon that promises nothing or cannot be kept."""
    value = check_real(name, value)
    if value < 0 or (value == 0 and not allow_zero):
        raise ValueError(f"{name} must be {'at least 0' if allow_zero else 'positive'}, got {value:g}")
    if value > 1e6 and not (value == math.inf and allow_infinity):
        limit = "finite" if value == math.inf else "at most a million"
        raise ValueError(f"{name} must be {limit}, got {value:g}; choose a value between 0.01 and 10")
    return value


def check_delta(
    value: float, *, name: str = "delta", allow_zero: bool = False, allow_one: bool = False
) -> float:
    """Refuse a delta outside (0, 1), or its closure where asked."""
    value = check_real(name, value)
    low, high = "[" if allow_zero else "(", "]" if allow_one else ")"
    if value < 0 or value > 1 or (value == 0 and not allow_zero) or (value == 1 and not allow_one):
        raise ValueError(f"{name} must lie in {low}0, 1{high}, got {value:g}; 1e-6 is usual")
    if 0 < value < 1e-300:
        raise ValueError(f"{name} must be at least 1e-300, got {value:g}; 1e-6 is usual")
    return value


def check_nonnegative(name: str, value: float) -> float:
    """Refuse negative numbers and NaN; 0 and inf are left to the caller."""
    value = check_real(name, value)
    if value < 0:
        raise ValueError(f"{name} must be at least 0, got {value:g}")
    return value


def check_count(name: str, value: int, *, least: int = 1) -> int:
    """Refuse what is not a whole number from ``least`` to a billion."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r} of type {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if value > 10**9:
        raise ValueError(f"{name} must be at most a billion, got a larger one")
    return int(value)


def check_share(name: str, value: float) -> float:
    """Refuse a share of the budget outside (0, 1)."""
    value = check_real(name, value)
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value:g}")
    return value
