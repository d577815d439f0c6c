"""Names and labels of a stranger's file in messages: short, and unable to steer a terminal."""

import reprlib
from collections.abc import Iterable

__all__ = ["quote", "quote_all"]

_MOST = 80  # characters of one name
_NAMES = 10

_short = reprlib.Repr()
_short.maxstring = _short.maxlong = _short.maxother = _MOST
quote = _short.repr


def quote_all(names: Iterable[object]) -> str:
    """Some names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - _NAMES} more" if len(listed) > _NAMES else ""
    return ", ".join(map(quote, listed[:_NAMES])) + more
