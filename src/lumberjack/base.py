"""What classifier and regressor share: the way from a table to a released forest.

In: parameters and a table. Out: a guarantee, encoded rows, and what ``training`` releases. The two
estimators are in ``forest``; what leaves release, and how it is read, is in ``leaves`` and ``targets``.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from lumberjack.accounting.checks import check_real
from lumberjack.domain import Domain, complete, names_of, read_off
from lumberjack.engines.local import LocalRows
from lumberjack.events import FITTED
from lumberjack.files import open_to_write
from lumberjack.guarantee import (
    DOMAIN_INFERRED,
    NOT_ENFORCED,
    SEEDED,
    Guarantee,
    Leaf,
    Unit,
    warn,
)
from lumberjack.inputs import (
    as_domain,
    check_feature_weights,
    check_lengths,
    content,
    encode_rows,
    feature_weights,
    limit_rows,
    read_people,
    read_table,
    split_target,
)
from lumberjack.io import pack
from lumberjack.learning import Task
from lumberjack.noise import Bits, seed_from
from lumberjack.planning import plan
from lumberjack.progress import CallbackSupportMixin, announcing_compilation, watch
from lumberjack.quoting import reading
from lumberjack.released import Released, released_by
from lumberjack.report import Report, describe
from lumberjack.targets import Learnable, OpenClasses
from lumberjack.training import train
from lumberjack.tree import Forest

__all__ = ["Base"]

Floats = NDArray[np.float64]


class Base(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share: the way from a table to a released forest."""

    def plan(self, unit: Unit | None = None) -> Guarantee:
        """Check every parameter, and say what ``fit`` will promise; no data needed.

        This is exact if ``domain`` names every column. What must be learned about others is not counted,
        and without a domain ten columns of numbers and ten of categories are assumed, as by ``plan``.
        ``unit="person"`` is what ``fit`` promises when it is given ``person_ids``.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier, plan
        >>> LumberjackClassifier(epsilon=2.0).plan() == plan(2.0)
        True
        """
        if self.splits not in ("guided", "random"):
            raise ValueError(f"splits must be 'guided' or 'random', got {self.splits!r}")
        if self.domain is not None and not isinstance(self.domain, Domain | Mapping):
            raise TypeError(f"domain must be a Domain, a dict or None, got {type(self.domain).__name__}")
        domain = None if self.domain is None else as_domain(self.domain)
        check_feature_weights(self.feature_weights)
        if self.feature_weights is not None and self._leaf_kind() in FITTED:
            raise ValueError(
                "feature_weights apply to random splits, which fitted leaves do not have: "
                "leave them out, or use pruned trees"
            )
        if self.n_jobs is not None:
            check_real("n_jobs", self.n_jobs)
            effective_n_jobs(self.n_jobs)
        return self._plan(domain, unit)

    def _plan(self, domain: Domain | None, unit: Unit | None) -> Guarantee:
        """What ``fit`` will promise for the columns of a domain."""
        return plan(
            self.epsilon,
            self.delta,
            self.n_estimators,
            self.max_depth,
            splits=self.splits,
            accounting=self.accounting,
            leaf=self._leaf_kind(),
            structure_share=self.structure_share,
            threshold=self.threshold,
            rows_per_person=self.rows_per_person,
            unit=unit,
            columns=None if domain is None else domain.to_learn(self.splits == "guided"),
            target=self._learns and self._is_open(),
        )

    @property
    def _learns(self) -> bool:
        """Whether what is open is learned privately: the paper's accounting has no price for it."""
        return bool(self.accounting == "joint")

    def _is_open(self) -> bool:
        """Whether classes, or bounds of the target, were not given."""
        raise NotImplementedError

    def _leaf_kind(self) -> Leaf:
        """Check the parameters about the target; returns what a leaf releases."""
        raise NotImplementedError

    @announcing_compilation
    def _fit(self, X: Any, y: Any, person_ids: Any) -> None:
        """Read a table, train on it, keep what was released."""
        unit: Unit | None = None if person_ids is None else "person"
        self.plan(unit)  # bad parameters are refused before data is touched
        bits = Bits(seed_from(self.random_state))
        X, y = split_target(X, y)
        X = read_table(X)
        domain, caveats = self._find_domain(X)
        guarantee = self._plan(domain, unit)
        target, labels = self._read_target(y, caveats)
        encoded = encode_rows(domain, X)
        codes = encoded.codes
        check_lengths(len(codes), y=labels)
        if person_ids is not None:
            people = read_people(person_ids)
            check_lengths(len(codes), person_ids=people)
            named = [encoded.labels.get(name, ()) for name in domain]
            named.append(target.labels if isinstance(target, OpenClasses) else ())
            values = map(content, [*codes.T, labels], named)
            keep = limit_rows(values, people, self.rows_per_person, bits)
            codes, labels = codes[keep], labels[keep]
        elif self.rows_per_person > 1:
            caveats.append(NOT_ENFORCED)
        caveats += [] if bits.seed is None else [SEEDED]
        for caveat in caveats:
            warn(f"guarantee has a caveat: {caveat}")
        task = Task(domain, target, encoded.labels, feature_weights(self.feature_weights, domain))
        with watch(self, guarantee.stages, "step" if guarantee.fits_leaves else "tree") as advance:
            rows, threads = LocalRows(codes, labels), effective_n_jobs(self.n_jobs)
            trained = train(rows, task, guarantee, bits, threads, advance)
        guarantee = dataclasses.replace(guarantee, caveats=guarantee.caveats + tuple(caveats))
        names = names_of(X)
        released = Released(guarantee, None if names is None else tuple(names), *trained)
        for doubt in released.doubts:
            warn(doubt, UserWarning)
        self._keep(released)

    def _read_target(self, y: Any, caveats: list[str]) -> tuple[Learnable, NDArray[np.int32]]:
        """The target and its encoded values; adds to ``caveats`` where needed."""
        raise NotImplementedError

    def _find_domain(self, X: Any) -> tuple[Domain, list[str]]:
        """The domain as given, with all other columns as read, and its caveats.

        The paper's accounting learns nothing: there, a domain that was not given is inferred.
        """
        domain = None if self.domain is None else as_domain(self.domain)
        if self._learns:
            domain = complete(domain, X)
        elif domain is None:
            domain = read_off(X)
        return domain, [DOMAIN_INFERRED] if domain.inferred else []

    def _keep(self, released: Released) -> None:
        """Keep what was released, all at once: a failed fit changes nothing."""
        self.released_ = released
        self.n_features_in_ = len(released.domain)
        if released.columns is not None:
            self.feature_names_in_ = np.array(released.columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _score(
        self, metric: Callable[..., float], X: Any, truth: NDArray[Any], sample_weight: Any
    ) -> float:
        """Compare predictions with the truth, exactly; errors reveal less than scikit-learn's."""
        predicted = self.predict(X)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        check_lengths(len(predicted), y=truth, **weights)
        with reading("y" if sample_weight is None else "y or sample_weight"):
            return float(metric(truth, predicted, **weights))

    def predict(self, X: Any) -> NDArray[Any]:
        """Prediction for each row, shape (n_rows,)."""
        raise NotImplementedError

    @property
    def guarantee_(self) -> Guarantee:
        """The promise, every number behind it, and its caveats."""
        return self.released_.guarantee

    @property
    def domain_(self) -> Domain:
        """The domain in use."""
        return self.released_.domain

    @property
    def forest_(self) -> Forest:
        """The released trees."""
        return self.released_.forest

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Leaf of each row in each tree, shape (n_rows, n_trees).

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> model.apply(X).shape  # trees: the base, two columns, and their pair
        (10000, 4)
        """
        return released_by(self).apply(X, effective_n_jobs(self.n_jobs))

    @property
    def feature_importances_(self) -> Floats:
        """Share of each column of ``fit``'s table in what the splits explain, shape (n_features,).

        From released leaf values alone: post-processing, at no cost in privacy. Fitted leaves: how much
        the weights of a column's tree vary over rows, and half of that of each pair it is in. Other
        leaves: the decrease of Gini impurity, or of squared error, as in scikit-learn. All zero where
        noise hides everything.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> model.feature_importances_.shape
        (2,)
        """
        released = released_by(self)
        shares = released.importances()
        return np.array([shares[name] for name in released.names])

    def save(self, path: str | os.PathLike[str], *, allow_seeded: bool = False) -> None:
        """Write the model to a file that ``load`` reads: no pickle, the same bytes for the same model.

        An existing file is replaced atomically. A model with seeded noise is refused, as
        whoever knows the seed can remove the noise; ``allow_seeded=True`` writes it (without the seed).

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(os.path.join(folder, "toy.lumberjack"))
        ...     os.listdir(folder)
        ['toy.lumberjack']
        """
        released = released_by(self)
        if SEEDED in released.guarantee.caveats and not allow_seeded:
            raise ValueError(
                "this model has seeded noise (random_state) and is not safe to publish; fit it with "
                "random_state=None, or say allow_seeded=True"
            )
        data = pack(self)
        with open_to_write(path) as file:
            file.write(data)

    def privacy_report(self) -> Report:
        """What is promised, how, and what is not, as text that notebooks show line by line.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> print(model.privacy_report().splitlines()[0])
        Privacy report: (2, 1e-06)-differential privacy for every row
        """
        return describe(self).text()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
