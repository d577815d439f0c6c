"""How well a table fits a domain, for the data holder's eyes only.

In: columns, and their kinds. Out: exact shares of values outside, and of missing ones. They are private:
nothing here gets into a model, a report or a page.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.kinds import MISSING, OTHER, Categorical, Cuts, Kind, Open, list_values
from lumberjack.quoting import bare, quote
from lumberjack.values import Column

__all__ = ["EYES_ONLY", "Check", "Share"]

EYES_ONLY = "For the data holder's eyes only: exact shares of private values. Do not publish them."
_MOST = 10  # columns in a summary

Flags = NDArray[np.bool_]


class Share(NamedTuple):
    """Shares of a column's values, from 0 to 1.

    Attributes
    ----------
    outside : float
        Numbers that are clipped to the range; values that are not categories.
    missing : float
    """

    outside: float
    missing: float


class Check:
    """Counts values outside a domain, and missing ones, over all parts of a table."""

    def __init__(self) -> None:
        self._found: dict[str, NDArray[np.int64]] = {}  # rows, values outside, missing values

    def add(self, name: str, kind: Kind, values: Column, place: NDArray[np.int64] | None = None) -> None:
        """Count values of a column: each row's, or distinct ones and each row's ``place`` among them."""
        flags = [np.ones(len(values), dtype=np.bool_), *_look(name, kind, values)]
        sums = [np.count_nonzero(f if place is None else f[place]) for f in flags]
        self._found[name] = self._found.get(name, 0) + np.array(sums)

    @property
    def shares(self) -> Mapping[str, Share]:
        """The shares of each column."""
        each = self._found.items()
        return {name: Share(*(found[1:] / max(found[0], 1)).tolist()) for name, found in each}

    def __repr__(self) -> str:
        shares = self.shares
        width = max(map(len, map(bare, shares)), default=0)
        rows = [
            f"  {bare(name):{width}}  {_percent(share.outside):>8}  {_percent(share.missing):>8}"
            for name, share in shares.items()
        ]
        return "\n".join([EYES_ONLY, f"  {'':{width}}   outside   missing", *rows])

    def summary(self) -> str:
        """The columns with most values outside, and with most missing ones, in one line."""
        parts = [self._largest(field) for field in Share._fields]
        return "; ".join(part for part in parts if part)

    def _largest(self, field: str) -> str:
        found = {name: getattr(share, field) for name, share in self.shares.items()}
        names = sorted((n for n in found if found[n]), key=lambda n: -found[n])
        if not names:
            return ""
        more = f" and {len(names) - _MOST} more columns" if len(names) > _MOST else ""
        return f"{field}: " + ", ".join(f"{quote(n)} {_percent(found[n])}" for n in names[:_MOST]) + more


def _percent(share: float) -> str:
    return "< 0.1 %" if 0 < share < 0.001 else f"{share:.1%}".replace("%", " %")


def _look(name: str, kind: Kind, values: Column) -> tuple[Flags, Flags]:
    """Which values are outside, and which are missing."""
    if isinstance(kind, Categorical | Open):
        codes = np.empty(len(values), dtype=np.uint32)
        if isinstance(kind, Open):
            list_values(name, values, codes)
            return codes == OTHER, codes == MISSING
        replace(kind, missing=True).encode(name, values, codes)
        return codes == OTHER, codes == len(kind.categories)
    grid = kind.grid if isinstance(kind, Cuts) else kind
    numbers = kind.read(name, values)
    return (numbers < grid.low) | (numbers > grid.high), np.isnan(numbers)
