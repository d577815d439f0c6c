"""What a fit releases: columns, noisy trees and the guarantee, and how they predict.

In: what ``training`` returns. Out: predictions, importances. Nothing else about the data is kept
anywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lumberjack.accounting import Choices
from lumberjack.anatomy import NOTHING, importances, independent_rows, leaf_sizes, learned_nothing
from lumberjack.domain import Domain, names_of
from lumberjack.guarantee import CLASSES_INFERRED, Guarantee
from lumberjack.inputs import check_class_weight, check_names, read_table, unknown_classes
from lumberjack.kinds import Categorical, Codes
from lumberjack.leaves import Votes
from lumberjack.quoting import quote_all
from lumberjack.targets import Classes, Numbers, Target
from lumberjack.tree import Forest
from lumberjack.values import Columns

__all__ = ["Fitted", "Released", "released_by"]

Floats = NDArray[np.float64]
_CLEAR = 4.0  # with 3, one scale in ten was off by a factor of four or more


class Fitted(Protocol):
    """A fitted estimator."""

    released_: "Released"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters."""


def released_by(model: Fitted) -> "Released":
    """What a fitted estimator holds."""
    check_is_fitted(model)
    return model.released_


@dataclass(frozen=True, eq=False)
class Released:
    """All that a fit releases.

    Attributes
    ----------
    guarantee : Guarantee
        The promise, every number behind it, and its caveats.
    columns : tuple of str or None
        Column names in the order of ``fit``'s table; None if it had no names.
    domain : Domain
        Columns, with what is public about them, or was learned.
    target : Classes or Numbers
    forest : Forest
    """

    guarantee: Guarantee
    columns: tuple[str, ...] | None
    domain: Domain
    target: Target
    forest: Forest

    def __getstate__(self) -> dict[str, Any]:
        """What was released, without what was computed from it since."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def votes(self) -> Votes:
        """What leaves add to a prediction, found once for all calls."""
        return self.target.leaves.vote(self.forest)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns in the order of ``fit``'s table."""
        return tuple(self.domain) if self.columns is None else self.columns

    @property
    def classes(self) -> Classes:
        """The target of a classifier."""
        if not isinstance(self.target, Classes):
            raise TypeError("this model predicts a number and has no classes")
        return self.target

    @property
    def numbers(self) -> Numbers:
        """The target of a regressor."""
        if not isinstance(self.target, Numbers):
            raise TypeError("this model predicts a class and has no bounds")
        return self.target

    @property
    def without_categories(self) -> list[str]:
        """Categorical columns of which no category was frequent enough to be learned."""
        columns = zip(self.domain, self.domain.known, strict=True)
        return [n for n, k in columns if isinstance(k, Categorical) and k.learned and not k.categories]

    @property
    def scale_is_doubtful(self) -> bool:
        """Whether the learned scale of a target may be far off: by released counts, rows are too few.

        A place far above a 90 % quantile is exp(exponent * rows / 10) times as unlikely as one at it.
        """
        found = [e for e in self.guarantee.events_for("scale") if isinstance(e, Choices)]
        if not found or not isinstance(self.target, Numbers) or self.target.limits is not None:
            return False
        rows = float(self.forest.values[0][:, 0].sum())
        return found[-1].exponent * rows / 10 < _CLEAR

    @property
    def learned_nothing(self) -> bool:
        """Whether all rows get the same prediction."""
        return learned_nothing(self.forest, self.target.leaves.holds)

    @property
    def doubts(self) -> list[str]:
        """Warnings for users of the model, from released values alone."""
        found = [f"{NOTHING} {self.guarantee.way_out}"] if self.learned_nothing else []
        if self.without_categories:
            found.append(
                f"no category of {quote_all(self.without_categories)} was frequent enough to be "
                "released; declare dates in text (Domain.numeric(temporal=True)), and leave out ids"
            )
        if self.scale_is_doubtful:
            found.append(
                "too few rows to find the scale of y with this budget, so predictions may be far off; "
                "give y_bounds, or raise epsilon"
            )
        return found

    def encode(self, X: Any) -> Codes:
        """Compact codes of a table to predict for, its columns matched to those of ``fit``."""
        X = read_table(X)
        names = names_of(X)
        if names is None and len(X.columns) != len(self.domain):
            name = f"Lumberjack{self.target.estimator.capitalize()}"
            raise ValueError(
                f"X has {len(X.columns)} features, but {name} is expecting {len(self.domain)} features "
                "as input"
            )
        if names is not None and self.columns is not None:
            check_names(names, list(self.columns))
        elif self.columns is not None:  # an array has the columns in the order of the frame in fit
            X = Columns(None, [X.columns[self.columns.index(name)] for name in self.domain])
        return self.domain.compact(X)

    def apply(self, X: Any, n_threads: int = 1) -> NDArray[np.int32]:
        """Leaf of each row in each tree, shape (n_rows, n_trees)."""
        return self.forest.apply(self.encode(X), n_threads)

    def predict(self, X: Any, n_threads: int = 1) -> Floats:
        """Numbers, shape (n_rows,), or weights of classes (``chances``), shape (n_rows, n_classes)."""
        return self._read(self.encode(X), n_threads)

    def _read(self, codes: Codes, n_threads: int = 1) -> Floats:
        base, leaves = self.votes
        return self.target.read(self.forest.pool(leaves, codes, n_threads) + base)

    def chances(self, X: Any, class_weight: Any = None, n_threads: int = 1) -> Floats:
        """Class probabilities, weighted, shape (n_rows, n_classes)."""
        said = self.predict(X, n_threads) * self.class_weights(class_weight)
        return np.asarray(said / said.sum(axis=1, keepdims=True))

    def class_weights(self, given: Mapping[Any, float] | str | None) -> Floats:
        """Weights of the classes, from a parameter and released counts alone."""
        labels = self.classes.labels
        # A parameter may have been set after fit.
        check_class_weight(given)
        problem = unknown_classes(given, labels.tolist())
        declared = not self.classes.learned and CLASSES_INFERRED not in self.guarantee.caveats
        if problem and declared:
            raise ValueError(problem)
        if given is None:
            return np.ones(len(labels))
        if isinstance(given, Mapping):
            return np.array([float(given.get(c, 1.0)) for c in labels.tolist()])
        total = np.maximum(self._class_totals, 1.0)
        return np.asarray(total.sum() / (len(labels) * total))

    @cached_property
    def _class_totals(self) -> Floats:
        """Rows of each class, or votes for it, estimated from released values.

        For fitted leaves: mean probabilities over rows with independent columns, times the number of
        rows.
        """
        if not self.guarantee.fits_leaves:
            return np.asarray(np.sum([v.sum(axis=0) for v in self.forest.values], axis=0))
        chances = self._read(independent_rows(self.forest))
        return np.asarray(chances.mean(axis=0) * self.forest.values[0][0, 0])

    def leaf_sizes(self) -> Floats | None:
        """Noisy sizes of all leaves; None if leaves release labels only."""
        return leaf_sizes(self.forest, self.target.leaves.holds)

    def importances(self) -> dict[str, float]:
        """Share of each column in what the splits explain, by name."""
        noise = self.target.leaves.noise(self.guarantee)
        shares = importances(self.forest, self.target.leaves.holds, noise)
        return dict(zip(self.domain, shares.tolist(), strict=True))
