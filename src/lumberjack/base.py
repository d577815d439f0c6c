"""What classifier and regressor share: the way from a table to a released forest.

In: parameters and a table. Out: a guarantee, encoded rows, released trees. The estimators themselves,
what their leaves release and how those are read, are in ``forest``.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lumberjack.accounting.checks import check_real
from lumberjack.anatomy import learned_nothing
from lumberjack.domain import Codes, Domain, columns_of
from lumberjack.engines.local import LocalRows
from lumberjack.files import open_to_write
from lumberjack.guarantee import (
    DOMAIN_INFERRED,
    NOT_ENFORCED,
    SEEDED,
    Guarantee,
    Leaf,
    Unit,
    plan,
    warn,
)
from lumberjack.inputs import (
    as_domain,
    check_lengths,
    check_names,
    check_weights,
    limit_rows,
    read_people,
    read_table,
)
from lumberjack.io import pack
from lumberjack.noise import Bits
from lumberjack.progress import CallbackSupportMixin, announce_compilation, progress
from lumberjack.report import Report, describe, importance_of
from lumberjack.structure import Features
from lumberjack.targets import Target
from lumberjack.training import train
from lumberjack.tree import Forest

__all__ = ["Base"]

Floats = NDArray[np.float64]


class Base(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share: the way from a table to a released forest."""

    def _plan(self, leaf: Leaf, unit: Unit | None = None) -> Guarantee:
        """Check every parameter, and calibrate, before any data is read."""
        if self.splits not in ("guided", "random"):
            raise ValueError(f"splits must be 'guided' or 'random', got {self.splits!r}")
        if self.domain is not None and not isinstance(self.domain, Domain | Mapping):
            raise TypeError(f"domain must be a Domain, a dict or None, got {type(self.domain).__name__}")
        if self.domain is not None:
            self._weights(as_domain(self.domain))
        if self.n_jobs is not None:
            check_real("n_jobs", self.n_jobs)
            effective_n_jobs(self.n_jobs)
        return plan(
            self.epsilon,
            self.delta,
            self.n_estimators,
            self.max_depth,
            splits=self.splits,
            accounting=self.accounting,
            leaf=leaf,
            structure_share=self.structure_share,
            threshold=self.threshold,
            rows_per_person=self.rows_per_person,
            unit=unit,
        )

    def _columns(self, X: Any) -> tuple[dict[str, Any], Domain, Features, list[str]]:
        """scikit-learn's attributes about columns, and the domain, given or inferred."""
        names, columns = columns_of(X)
        learned: dict[str, Any] = {"n_features_in_": len(columns)}
        if names is not None:
            learned["feature_names_in_"] = np.array(names, dtype=object)
        caveats = []
        if self.domain is None:
            domain, private = Domain._infer(X)
            caveats = [DOMAIN_INFERRED] if private else []
        else:
            domain = as_domain(self.domain)
            caveats = [DOMAIN_INFERRED] if domain.inferred else []
        return learned, domain, Features.of(domain, self._weights(domain)), caveats

    def _weights(self, domain: Domain) -> Floats | None:
        given = self.feature_weights
        if given is None:
            return None
        if isinstance(given, Mapping):
            unknown = sorted(set(given) - set(domain))
            if unknown:
                raise ValueError(
                    f"feature_weights names columns outside the domain: {', '.join(unknown)}"
                )
            given = [given.get(name, 1.0) for name in domain]
        weights = check_weights("feature_weights", given)
        if len(weights) != len(domain):
            raise ValueError("feature_weights must hold one number for each column")
        return weights

    def _limit(
        self, codes: Codes, target: NDArray[np.int32], person_ids: Any, bits: Bits, caveats: list[str]
    ) -> tuple[Codes, NDArray[np.int32]]:
        """Rows that may be used, so that nobody has too many; reserves join the caveats."""
        if person_ids is not None:
            people = read_people(person_ids)
            check_lengths(len(codes), person_ids=people)
            keep = limit_rows(codes, target, people, self.rows_per_person, bits)
            codes, target = codes[keep], target[keep]
        elif self.rows_per_person > 1:
            caveats.append(NOT_ENFORCED)
        if bits.seed is not None:
            caveats.append(SEEDED)
        return codes, target

    def _train(
        self,
        codes: Codes,
        encoded: NDArray[np.int32],
        target: Target,
        guarantee: Guarantee,
        bits: Bits,
        features: Features,
    ) -> dict[str, Any]:
        """Grow, release and calibrate a forest; fitted attributes."""
        rows, threads = LocalRows(codes, encoded), effective_n_jobs(self.n_jobs)
        with self._watch() as advance:
            forest, curves = train(rows, features, target, guarantee, bits, threads, advance)
        return {"forest_": forest, "calibration_": curves}

    @contextmanager
    def _watch(self) -> Iterator[Callable[[], None]]:
        """Show progress, and tell scikit-learn's callbacks of each tree.

        A callback that asks to stop is not heard: the number of trees is public and paid for.
        """
        title, total = type(self).__name__, self.n_estimators
        context = self._init_callback_context(max_subtasks=total)
        context.call_on_fit_task_begin(estimator=self)
        with (
            announce_compilation(title, self.verbose),
            progress(title, "tree", total, self.verbose) as bar,
        ):

            def advance() -> None:
                task = context.subcontext(task_name="tree")
                task.call_on_fit_task_begin(estimator=self)
                task.call_on_fit_task_end(estimator=self)
                bar()

            yield advance
        context.call_on_fit_task_end(estimator=self)

    def _finish(self, guarantee: Guarantee, caveats: list[str], **learned: Any) -> None:
        """Keep what was released, all at once: a fit that failed has changed nothing."""
        for caveat in caveats:
            warn(f"guarantee has a caveat: {caveat}")
        if learned_nothing(learned["forest_"]):
            warn(
                "the model learned nothing: every tree is a single leaf, so all rows get the same "
                f"prediction; at least {guarantee.suggested_rows:,} rows are recommended for this "
                "budget: get more, raise epsilon, or take fewer trees",
                UserWarning,
            )
        if hasattr(self, "feature_names_in_") and "feature_names_in_" not in learned:
            delattr(self, "feature_names_in_")
        learned["guarantee_"] = dataclasses.replace(
            guarantee, caveats=guarantee.caveats + tuple(caveats)
        )
        for name, value in learned.items():
            setattr(self, name, value)

    def _encode(self, X: Any) -> Codes:
        """Codes of a table to predict for, its columns matched to those of ``fit``."""
        check_is_fitted(self)
        X = read_table(X)
        names, columns = columns_of(X)
        if names is None and len(columns) != self.n_features_in_:
            raise ValueError(
                f"X has {len(columns)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        fitted = list(getattr(self, "feature_names_in_", []))
        if names is not None and fitted:
            check_names(names, fitted)
        elif fitted:  # an array has the columns in the order of the frame in fit
            X = X[:, [fitted.index(name) for name in self.domain_]]
        codes: Codes = self.domain_.encode(X)
        return codes

    def _pool(self, target: Target, X: Any) -> Floats:
        """What the trees say about each row, added up."""
        codes = self._encode(X)
        forest: Forest = self.forest_
        said = target.say(forest, self.guarantee_)
        return forest.pool(said, codes, effective_n_jobs(self.n_jobs))

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Leaf of each row in each tree, shape (n_rows, n_estimators).

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> model.apply(X).shape
        (10000, 20)
        """
        codes = self._encode(X)
        forest: Forest = self.forest_
        return forest.apply(codes, effective_n_jobs(self.n_jobs))

    @property
    def feature_importances_(self) -> Floats:
        """Share of each column of ``fit``'s table in what the splits explain, shape (n_features,).

        The decrease of Gini impurity, or of squared error, as in scikit-learn, but from released leaf
        values alone: post-processing, at no cost in privacy. All zero where noise hides everything.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> model.feature_importances_.shape
        (2,)
        """
        check_is_fitted(self)
        shares = dict(zip(self.domain_, importance_of(self.forest_, self.guarantee_), strict=True))
        return np.array([shares[name] for name in getattr(self, "feature_names_in_", shares)])

    def save(self, path: str | os.PathLike[str], *, allow_seeded: bool = False) -> None:
        """Write the model to a file that ``load`` reads: no pickle, the same bytes for the same model.

        An existing file is replaced, at once and as a whole. A model with seeded noise is refused, as
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
        check_is_fitted(self)
        if SEEDED in self.guarantee_.caveats and not allow_seeded:
            raise ValueError(
                "this model has seeded noise (random_state) and is not safe to publish; fit it with "
                "random_state=None, or say allow_seeded=True"
            )
        data = pack(self)
        with open_to_write(path) as file:
            file.write(data)

    def privacy_report(self) -> Report:
        """What is promised, how, and what is not, as text for people; prints as it should read.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> print(model.privacy_report().splitlines()[0])
        Privacy report: (2, 1e-06)-differential privacy for every row
        """
        check_is_fitted(self)
        return describe(self).text()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
