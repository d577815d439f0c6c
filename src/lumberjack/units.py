"""Numbers and dates as people read them: dates as dates, whole numbers in full.

In: numbers of a column; for dates, seconds since 1970 (UTC). Out: text.
"""

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["number", "one", "several"]

_WHOLE = 10.0**15  # whole numbers from here on are written with an exponent
_CALENDAR = 2.0**53  # seconds that no calendar reaches


def number(value: float, digits: int = 9) -> str:
    """A number; whole ones in full, others with ``digits`` significant digits.

    Examples
    --------
    >>> from lumberjack.units import number
    >>> number(1234567890.0), number(0.25), number(1e300)
    ('1234567890', '0.25', '1e+300')
    """
    if abs(value) < _WHOLE and float(value).is_integer():
        return str(int(value))
    whole = 10 ** (digits - 1) <= abs(value) < _WHOLE
    return f"{value:.0f}" if whole else f"{value:.{digits}g}"


def one(value: float, temporal: bool = False, step: str = "s") -> str:
    """A number or a date of a column; ``step`` is the finest unit that a date shows, "s" or "D".

    Parts of a second round up: whole seconds below the date are just those below the value.
    """
    if not temporal:
        return number(value)
    if not abs(value) < _CALENDAR:
        return f"{value:g} seconds after 1970"
    moment = np.datetime64(math.ceil(value), "s")
    return str(moment.astype(f"datetime64[{step}]")).replace("T", " ")


def several(values: Sequence[float], temporal: bool = False) -> list[str]:
    """Numbers or dates, as short as possible while distinct.

    Examples
    --------
    >>> from lumberjack.units import several
    >>> several([0.123456, 17.0, 17.3, 8524731.0])
    ['0.123', '17', '17.3', '8524731']
    """
    said: list[str] = []
    for digits in (3, 4, 5, 6, 7, 8, 9, 17):
        if temporal:
            said = [one(value, True, "D" if digits == 3 else "s") for value in values]
        else:
            said = [number(value, digits) for value in values]
        if len(set(said)) == len(set(values)):
            break
    return said
