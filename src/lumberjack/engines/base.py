"""What an engine does: it adds up integers over encoded rows, wherever they are.

In: counting objects, which say what to count in a block of rows. Out: sums over all blocks. An engine
knows nothing of noise, epsilon or delta; what it returns is private and stays inside ``training``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lumberjack.engines.growth import Table, Work, lay_out, sort_rows
from lumberjack.growing import Growing, Limits, Segments, starts
from lumberjack.kinds import Codes

__all__ = ["Block", "Change", "Count", "Rows", "Size", "Sums", "Tally"]

Sums = list[Any]  # arrays of integers, or other things that add up


class Block:
    """Some rows in memory.

    Attributes
    ----------
    codes : ndarray of unsigned integers, shape (n_rows, n_features)
    target : ndarray of int32, shape (n_rows,)
        The encoded target (``targets``).
    """

    is_all = False  # whether these are all rows of the engine

    def __init__(self, codes: Codes, target: NDArray[np.int32]) -> None:
        self.codes, self.target = codes, target
        self._digits: tuple[Any, Any] = (None, None)

    def __len__(self) -> int:
        return len(self.codes)

    def digits(self, grove: Any, n_threads: int = 1) -> Any:
        """What rows are looked up by in the trees of a ``Grove``; those of the last grove are cached."""
        kept = self._digits  # read once: another thread may replace it
        if kept[0] != grove.key:
            kept = self._digits = grove.key, grove.digits(self.codes, n_threads)
        return kept[1]

    def sort(self, tree: Growing) -> Segments:
        """Which rows are in which node."""
        where, count = sort_rows(self.codes, tree.features, tree.nodes, tree.size)
        start = starts(tree.nodes, count)
        return Segments(np.argsort(start[where], kind="stable").astype(np.int32), start, count)

    def grow(self, tree: Growing, waiting: NDArray[Any], limits: Limits) -> tuple[Growing, Work]:
        """Split waiting nodes, and the nodes below them that are probably large among all rows.

        ``tree`` keeps its counts of all rows; counts of new nodes cover this block only: estimates.
        """
        found, share = self.sort(tree), len(self) / int(tree.nodes.n_rows[0])
        own = tree.nodes._replace(start=found.start, n_rows=found.n_rows)
        own = own._replace(**{n: v[: tree.size].copy() for n, v in own._asdict().items()})
        least = limits._replace(small=max(int(limits.small * share), 1))
        table = Table(self.codes, found.order)
        nodes, size = lay_out(table, tree.features, own, tree.size, waiting, least)
        return Growing(tree.features, nodes, size), Work(size - tree.size, 0, 0, 0)

    def take(self, tree: Growing, nodes: Sequence[int]) -> list["Block"]:
        """The rows of each given node."""
        found = self.sort(tree)
        rows = [found.order[found.start[i] : found.start[i] + found.n_rows[i]] for i in nodes]
        return [Block(self.codes[r], self.target[r]) for r in rows]


class Count(Protocol):
    """A counting object: frozen and picklable, so that it can be sent to where the rows are."""

    def __call__(self, block: Block) -> Sums:
        """What may be added up over blocks, with ``+``."""


class Change(Protocol):
    """Recodes a block of rows, and may drop some: frozen and picklable, too."""

    def __call__(self, block: Block) -> Block:
        """How a row is recoded, and whether it is kept, depends on that row alone."""


class Rows(Protocol):
    """Encoded rows, wherever they are."""

    def total(self, count: Count) -> Sums:
        """Add up the results of a counting object over all blocks."""

    def pick(self, tree: Growing, nodes: Sequence[int]) -> list[Block]:
        """The rows of each given node (each has few), in any order."""

    def sample(self, most: int) -> Block:
        """Some rows, for speed only: at most ``most``, or all rows if they are in one block."""

    def recode(self, change: "Change") -> "Rows":
        """The same rows in new codes, or some of them."""

    def forget(self, tree: Growing) -> None:
        """Drop whatever was kept about a finished tree."""


@dataclass(frozen=True)
class Size:
    """The number of rows."""

    def __call__(self, block: Block) -> Sums:
        """One number."""
        return [np.array([len(block)])]


@dataclass(frozen=True)
class Tally:
    """How many rows are in each node of a tree."""

    tree: Growing

    def __call__(self, block: Block) -> Sums:
        """One array, shape (n_nodes,)."""
        tree = self.tree
        return [sort_rows(block.codes, tree.features, tree.nodes, tree.size)[1]]
