"""Rows in many blocks, of any size and in any order: the plain engine.

It keeps nothing between counts, so each count looks up the nodes of its rows again. ``local`` is faster
if all rows are in one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from lumberjack.engines.base import Block, Change, Count, Sums
from lumberjack.growing import Growing

__all__ = ["ManyRows"]


@dataclass(frozen=True)
class ManyRows:
    """Blocks of rows, one after the other.

    Attributes
    ----------
    blocks : sequence of Block
    """

    blocks: Sequence[Block]

    def total(self, count: Count) -> Sums:
        """See ``base.Rows``."""
        return [reduce(add, each) for each in zip(*map(count, self.blocks), strict=True)]

    def pick(self, tree: Growing, nodes: Sequence[int]) -> list[Block]:
        """See ``base.Rows``."""
        found = zip(*(block.take(tree, nodes) for block in self.blocks), strict=True)
        return [_join(parts) for parts in found]

    def sample(self, most: int) -> Block:
        """The first rows of each block."""
        each = max(most // len(self.blocks), 1)
        return _join([Block(b.codes[:each], b.target[:each]) for b in self.blocks])

    def recode(self, change: Change) -> "ManyRows":
        """See ``base.Rows``."""
        return ManyRows([change(block) for block in self.blocks])

    def forget(self, tree: Growing) -> None:
        """Nothing was kept."""


def _join(blocks: Sequence[Block]) -> Block:
    return Block(np.concatenate([b.codes for b in blocks]), np.concatenate([b.target for b in blocks]))
