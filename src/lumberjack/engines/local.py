"""All rows in one block of memory: the fast engine.

A tree's rows stay sorted by node from one count to the next, so a count reads each node's rows in
place, and random levels are grown many at a time (``growth``).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.engines.base import Block, Change, Count, Sums
from lumberjack.engines.growth import Table, Work, grow, place
from lumberjack.growing import Growing, Limits, Segments, starts
from lumberjack.kinds import Codes

__all__ = ["LocalRows"]


class _Whole(Block):
    """All rows, and their order in each tree."""

    is_all = True

    def __init__(self, codes: Codes, target: NDArray[np.int32]) -> None:
        super().__init__(codes, target)
        self.orders: dict[int, tuple[NDArray[np.int32], int]] = {}

    def sort(self, tree: Growing) -> Segments:
        """See ``Block.sort``: rows are moved only at new splits."""
        nodes, size = tree.nodes, tree.size
        if tree.key not in self.orders:
            self.orders[tree.key] = np.arange(len(self), dtype=np.int32), 1
        order, sorted_to = self.orders[tree.key]
        nodes.start[:size] = starts(nodes, nodes.n_rows[:size])
        place(Table(self.codes, order), tree.features, nodes, sorted_to, size)
        self.orders[tree.key] = order, size
        return Segments(order, nodes.start[:size], nodes.n_rows[:size])

    def grow(self, tree: Growing, waiting: NDArray[Any], limits: Limits) -> tuple[Growing, Work]:
        """Split waiting nodes, and all nodes below them that ``limits`` allow."""
        order = self.sort(tree).order
        table = Table(self.codes, order)
        grown = grow(table, tree.features, tree.nodes, tree.size, waiting, limits)
        self.orders[tree.key] = order, grown.size
        return Growing(tree.features, grown.nodes, grown.size), grown.work


class LocalRows:
    """Rows in memory.

    Parameters
    ----------
    codes : ndarray of unsigned integers, shape (n_rows, n_features)
    target : ndarray of int32, shape (n_rows,)
    """

    def __init__(self, codes: Codes, target: NDArray[np.int32]) -> None:
        self._block = _Whole(codes, target)

    def total(self, count: Count) -> Sums:
        """See ``base.Rows``."""
        return count(self._block)

    def pick(self, tree: Growing, nodes: Sequence[int]) -> list[Block]:
        """See ``base.Rows``."""
        return self._block.take(tree, nodes)

    def sample(self, most: int) -> Block:
        """All rows: they are in one block."""
        return self._block

    def recode(self, change: Change) -> "LocalRows":
        """See ``base.Rows``."""
        block = change(self._block)
        return LocalRows(block.codes, block.target)

    def forget(self, tree: Growing) -> None:
        """Drop the row order of a finished tree."""
        self._block.orders.pop(tree.key, None)
