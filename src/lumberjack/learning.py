"""What a fit learns before it grows trees: frequent values, cuts of numbers, classes, a target's scale.

In: rows with codes of 32 bits, and the open parts of their description. Out: the same rows in compact
codes, and a description in which nothing is open. Everything in it was chosen with priced noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.accounting import Choices, ThresholdQueries
from lumberjack.columns import (
    MEDIAN,
    NINETIETH,
    CodeCounts,
    Frequencies,
    Quantile,
    choose_cuts,
    choose_place,
    coarse_value,
    frequent_values,
    name_key,
    prior_of_scale,
)
from lumberjack.declared import as_given
from lumberjack.domain import Domain
from lumberjack.engines.base import Block, Rows, Size
from lumberjack.guarantee import Guarantee
from lumberjack.kinds import (
    OTHER,
    Categorical,
    Category,
    Codes,
    Cuts,
    Known,
    Numeric,
    Open,
    code_type,
    compact,
    values_at,
)
from lumberjack.noise import Bits, ThresholdCoin, mix_keys
from lumberjack.priors import PlacePrior
from lumberjack.targets import Classes, Learnable, Numbers, OpenClasses, OpenNumbers, Target

__all__ = ["Learned", "Task", "learn"]

_TARGET = np.uint64(0x7A26E7)  # key of the noise about the target


@dataclass(frozen=True)
class Task:
    """What is to be predicted, from which columns.

    Attributes
    ----------
    domain : Domain
        What is public about the columns.
    target : Classes, Numbers, OpenClasses or OpenNumbers
    labels : dict of str to tuple
        The values that the codes of an open column stand for: private.
    weights : ndarray or None
        Public weights for drawing the column of a random split.
    """

    domain: Domain
    target: Learnable
    labels: Mapping[str, tuple[Category, ...]] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Recode:
    """A change of rows: 32-bit codes become compact codes of learned columns; the target is recoded too.

    Attributes
    ----------
    kinds : tuple
        What each column is, after learning.
    tables : tuple
        For an open column, the new code of each old one, and last that of a missing value; else None.
    target : ndarray, Numbers or None
        New codes of the labels (-1: the row is left out), or how to read a number; None: unchanged.
    """

    kinds: tuple[Known, ...]
    tables: tuple[NDArray[np.uint32] | None, ...]
    target: NDArray[np.int32] | Numbers | None

    @property
    def changes_nothing(self) -> bool:
        """Whether rows stay what they are: places of given ranges, and codes of given categories."""
        unchanged = self.target is None and all(table is None for table in self.tables)
        cut = any(isinstance(kind, Cuts) and kind.learned for kind in self.kinds)
        return unchanged and not cut and code_type(self.kinds).itemsize == 4

    def __call__(self, block: Block) -> Block:
        """Recode each row by itself."""
        target, kept = block.target, np.ones(len(block), dtype=np.bool_)
        if isinstance(self.target, Numbers):
            target = self.target.encode(values_at(target.view(np.uint32)))
        elif self.target is not None:
            target = self.target[target]
            kept = target >= 0
        codes = np.empty(block.codes.shape, dtype=code_type(self.kinds))
        for j, (kind, table) in enumerate(zip(self.kinds, self.tables, strict=True)):
            codes[:, j] = compact(self._column(kind, table, block.codes[:, j]), codes.dtype)
        return Block(codes, target) if kept.all() else Block(codes[kept], target[kept])

    @staticmethod
    def _column(kind: Known, table: NDArray[np.uint32] | None, codes: Codes) -> NDArray[np.uint32]:
        if table is not None:
            out = table[np.minimum(codes, len(table) - 1)]
            out[codes == OTHER] = OTHER
            return np.asarray(out)
        if isinstance(kind, Cuts) and kind.learned:  # given cuts were applied when rows were read
            codes = codes.copy()
            kind.recode(codes)
        return codes


class Learned(NamedTuple):
    """A task with nothing left open.

    Attributes
    ----------
    rows : Rows
        In compact codes; without the rows whose label was not released.
    domain : Domain
    target : Classes or Numbers
    """

    rows: Rows
    domain: Domain
    target: Target


def learn(rows: Rows, task: Task, guarantee: Guarantee, bits: Bits) -> Learned:
    """Learn what a task leaves open.

    Formal guarantees
    -----------------
    A record is in one threshold query for each open column and one for open classes
    (``frequent_values``), in one choice for each level of the cuts of each number (``choose_cuts``), and
    in two for place and scale of a target. ``guarantee`` prices all of them. How a row is recoded, and
    whether it is kept, depends on that row and on released values alone, so one record remains one
    record.
    """
    learner, cutting = Learner(rows, guarantee, bits), guarantee.cuts_numbers
    kinds, labels = {name: as_given(task.domain[name]) for name in task.domain}, task.labels
    for j, (name, kind) in enumerate(kinds.items()):
        if isinstance(kind, Open):
            kinds[name] = learner.categories(j, name, labels[name])
    target: Target
    change: NDArray[np.int32] | Numbers | None = None
    if isinstance(task.target, OpenClasses):
        target, change = learner.classes(task.target)
    for j, (name, kind) in enumerate(kinds.items()):
        if isinstance(kind, Numeric) and kind.is_to_cut(cutting):
            kinds[name] = learner.cuts(j, name, kind)
    if isinstance(task.target, OpenNumbers):
        target = change = learner.scale(task.target)
    elif not isinstance(task.target, OpenClasses):
        target = task.target
    domain = Domain(kinds)
    tables = [
        _new_codes(labels[n], k) if n in labels else None
        for n, k in zip(domain, domain.known, strict=True)
    ]
    recode = Recode(tuple(domain.known), tuple(tables), change)
    rows = rows if recode.changes_nothing else rows.recode(recode)
    return Learned(rows, domain, target)


def _new_codes(labels: Sequence[Category], kind: Known) -> NDArray[np.uint32]:
    """The code of each label in a column, and last that of a missing value."""
    assert isinstance(kind, Categorical)
    place = {category: code for code, category in enumerate(kind.categories)}
    return np.array([place.get(label, OTHER) for label in labels] + [kind.absent], dtype=np.uint32)


@dataclass(frozen=True)
class Learner:
    """Queries rows, one question after the other, with the noise that the guarantee prices."""

    rows: Rows
    guarantee: Guarantee
    bits: Bits

    def categories(self, column: int, name: str, labels: Sequence[Category]) -> Categorical:
        """The frequent values of an open column; a missing value is one more category.

        Formal guarantees
        -----------------
        That of ``frequent_values``. The category of missing values is there whatever the rows hold.
        """
        (found,) = self.rows.total(Frequencies(column))
        chosen = frequent_values(found, labels, self._coin("categories"), self.bits, name_key(name))
        return Categorical(chosen, missing=True, learned=True)

    def classes(self, target: OpenClasses) -> tuple[Classes, NDArray[np.int32]]:
        """The frequent labels, and the new code of each label; -1 for others.

        Formal guarantees
        -----------------
        That of ``frequent_values``. Only labels are released; the codes stay private.
        """
        labels = target.labels
        (found,) = self.rows.total(Frequencies())
        chosen = frequent_values(found, labels, self._coin("classes"), self.bits, _TARGET)
        place = {label: code for code, label in enumerate(chosen)}
        return target.close(list(chosen)), np.array([place.get(v, -1) for v in labels], dtype=np.int32)

    def cuts(self, column: int, name: str, grid: Numeric) -> Cuts:
        """The cuts of a number.

        Formal guarantees
        -----------------
        That of ``choose_cuts``.
        """
        (found,) = self.rows.total(Frequencies(column))
        exponent, levels = self._exponents("cuts")[0], self.guarantee.cut_levels
        places = choose_cuts(found, grid, levels, exponent, self.bits, name_key(name))
        return Cuts(grid, places, learned=True)

    def scale(self, target: OpenNumbers) -> Numbers:
        """The bounds of a target: its median, and a 90 % quantile of the distances from it.

        Formal guarantees
        -----------------
        A record takes part in two ``choose_place``, of ranges 1 and 1.8. A distance depends on its own
        record and on the median, which was released.
        """
        of_median, of_distance = self._exponents("scale")
        (found,) = self.rows.total(Frequencies())
        place = self._place(found, MEDIAN, of_median, target.prior)
        centre = float(values_at(place))
        (found,) = self.rows.total(Frequencies(distance_from=centre))
        place = self._place(found, NINETIETH, of_distance, prior_of_scale(centre))
        scale = coarse_value(place)
        return target.close(centre, scale)

    def _place(self, found: CodeCounts, quantile: Quantile, exponent: float, prior: PlacePrior) -> int:
        key = mix_keys(np.array([_TARGET]), np.uint64(quantile.below))[0]
        grid = (prior.first, prior.last)
        return choose_place(found, grid, quantile, exponent, self.bits, key, prior)

    def _coin(self, use: str) -> ThresholdCoin:
        largest = int(self.rows.total(Size())[0][0])
        for event in self.guarantee.events_for(use):
            if isinstance(event, ThresholdQueries):
                return ThresholdCoin(event.noise, event.threshold, cut=event.cut, largest=largest)
        raise ValueError(f"the guarantee prices no {use}")

    def _exponents(self, use: str) -> list[float]:
        found = [e.exponent for e in self.guarantee.events_for(use) if isinstance(e, Choices)]
        if not found:
            raise ValueError(f"the guarantee prices no {use}")
        return found
