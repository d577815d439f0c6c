"""The two estimators: their parameters, and how each reads its target.

In: a table and a target. Out: a fitted scikit-learn estimator that holds released values only. This
module and ``base``, the part shared by both estimators, are the only ones that know all the others.
"""

import os
from collections.abc import Mapping
from typing import Any, Self, get_args

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from lumberjack.base import Base
from lumberjack.domain import Domain
from lumberjack.guarantee import (
    BOUNDS_INFERRED,
    CLASSES_INFERRED,
    Accounting,
    ClassLeaf,
    Leaf,
    Splits,
    warn,
)
from lumberjack.inputs import (
    check_bounds,
    check_class_weight,
    check_classes,
    feature_weights,
    list_labels,
    read_numbers,
    read_target,
    refuse_unknown,
    unknown_classes,
)
from lumberjack.io import read_model
from lumberjack.progress import with_callbacks
from lumberjack.quoting import bare_all
from lumberjack.released import released_by
from lumberjack.targets import Classes, Learnable, Numbers, OpenClasses, OpenNumbers

__all__ = ["LumberjackClassifier", "LumberjackRegressor", "load"]

Floats = NDArray[np.float64]


class LumberjackClassifier(ClassifierMixin, Base):  # type: ignore[misc]
    """A differentially private random forest for classification.

    Parameters
    ----------
    epsilon, delta : float
        The budget: (epsilon, delta)-differential privacy for adding or removing one row (or person).
    n_estimators : int
        Fitted leaves: number of columns that may form pairs; each pair has a tree. Other leaves: number
        of trees.
    max_depth : int
        Deepest level at which a node may split. Trees stop by themselves where rows are few. Fitted
        leaves do not need it.
    domain : Domain, dict or None
        What is public about the columns. Whatever it leaves open is learned privately: cuts of numbers,
        frequent categories. None leaves everything open but the names and kinds of the columns.
    classes : sequence or None
        The public set of labels. None learns the frequent ones privately; rows with rare
        labels are left out.
    splits : {"guided", "random"}
        How pruned trees are split. "guided": near the root, the exponential mechanism chooses splits
        that tell the targets apart; below, splits are random. "random": all splits ignore the data;
        needs another ``leaf`` than "fitted".
    leaf : {"fitted", "counts", "majority", "exponential"}
        "fitted": there is a tree for each column, and one for each pair of up to ``n_estimators``
        columns, and the weights of all leaves are fitted together, by noisy steps (``descent``).
        Otherwise trees are pruned one by one, and a leaf releases noisy class counts, the noisy
        majority, or a label by the exponential mechanism (only with ``accounting="paper"``).
    accounting : {"joint", "paper"}
        The proved joint bound, or the paper's Theorem 1.
    structure_share : float or None
        Share of the budget spent on the structure, choice of splits included; None: 0.65 (guided), 0.5
        (random) or 0.75 (paper).
    threshold : float or None
        Number of rows above which a node splits; None: the smallest that the budget allows.
    class_weight : None, "balanced" or dict
        Weights of the released votes: post-processing, at no cost in privacy.
    feature_weights : dict, sequence or None
        Public weights by which the columns to split on are drawn.
    rows_per_person : int
        Maximum number of rows per person; above 1 the guarantee is for persons.
    n_jobs : int or None
        Threads.
    random_state : int, RandomState, Generator or None
        None draws noise from the operating system. Anything else makes the result repeatable and not
        private: a PrivacyLeakWarning and a caveat say so.
    verbose : int
        1 prints progress.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    guarantee_ : Guarantee
        The promise, every number behind it, and its caveats.
    forest_ : Forest
        The released trees.
    domain_ : Domain
        What is public about the columns, and what was learned.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each column in what the splits explain, from released values alone.
    n_features_in_, feature_names_in_ : int, ndarray
        Columns seen in ``fit``.

    Notes
    -----
    **Formal guarantees.** All fitted attributes together are (epsilon, delta)-DP as ``guarantee_``
    states, apart from its caveats: what is learned first as ``learning.learn`` states, the structure by
    the joint bound (or Theorem 1), split choices as ``guided.Guide`` states, leaves as
    the functions in ``leaves`` state. With ``accounting="paper"`` nothing is learned first: a domain or
    classes that are not given are read off the data, with a PrivacyLeakWarning and a caveat.

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> X, y, _ = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), model.guarantee_.caveats
    (True, ())
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        n_estimators: int = 20,
        max_depth: int = 100,
        domain: Domain | Mapping[str, Any] | None = None,
        classes: Any = None,
        splits: Splits = "guided",
        leaf: ClassLeaf = "fitted",
        accounting: Accounting = "joint",
        structure_share: float | None = None,
        threshold: float | None = None,
        class_weight: Any = None,
        feature_weights: Any = None,
        rows_per_person: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.domain = domain
        self.classes = classes
        self.splits = splits
        self.leaf = leaf
        self.accounting = accounting
        self.structure_share = structure_share
        self.threshold = threshold
        self.class_weight = class_weight
        self.feature_weights = feature_weights
        self.rows_per_person = rows_per_person
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def paper(cls, epsilon: float, delta: float = 1e-6, n_estimators: int = 30, **kw: Any) -> Self:
        """The paper's settings: depth 100, Theorem 1 with 75 % of the budget, exponential leaves.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> LumberjackClassifier.paper(1.0).accounting
        'paper'
        """
        settings = {
            "max_depth": 100,
            "splits": "random",
            "leaf": "exponential",
            "accounting": "paper",
            "structure_share": 0.75,
        }
        return cls(epsilon, delta, n_estimators=n_estimators, **{**settings, **kw})

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, person_ids: Any = None, **fit_params: Any) -> Self:
        """Train on a table, shape (n_rows, n_columns), and its labels, shape (n_rows,).

        ``person_ids``, shape (n_rows,), says whose row each is: rows beyond ``rows_per_person`` are
        dropped at random, and the guarantee is for persons, even with one row each.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(domain=domain, classes=[0, 1, 2], rows_per_person=2)
        >>> people = [row // 3 for row in range(len(X))]  # three rows each, of which two are used
        >>> model.fit(X, y, person_ids=people).guarantee_.unit
        'person'
        """
        refuse_unknown(fit_params)
        self._fit(X, y, person_ids)
        known = self.classes_.tolist()
        if self.classes is None and (problem := unknown_classes(self.class_weight, known)):
            warn(problem, UserWarning)
        return self

    def _leaf_kind(self) -> Leaf:
        if self.leaf not in get_args(ClassLeaf):
            known = ", ".join(map(repr, get_args(ClassLeaf)))
            raise ValueError(f"leaf must be one of {known}, got {self.leaf!r}")
        check_class_weight(self.class_weight)
        if self.classes is not None:
            labels = check_classes(self.classes).tolist()
            if problem := unknown_classes(self.class_weight, labels):
                raise ValueError(problem)
        return self.leaf

    def _read_target(self, y: Any, caveats: list[str]) -> tuple[Learnable, NDArray[np.int32]]:
        if self.classes is not None:
            target = Classes(check_classes(self.classes), self.leaf)
            return target, target.encode(y)
        labels, encoded = list_labels(y)
        if self._learns:
            return OpenClasses(labels, self.leaf), encoded
        caveats.append(CLASSES_INFERRED)
        return Classes(np.array(labels), self.leaf), encoded

    def _is_open(self) -> bool:
        return self.classes is None

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        return self.released_.classes.labels

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class, shape (n_rows, n_classes).

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> model.predict_proba(X).shape
        (10000, 3)
        """
        return released_by(self).chances(X, self.class_weight, effective_n_jobs(self.n_jobs))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> model.predict([[4.0, 3.0]])  # in the middle of the far blob
        array([2])
        """
        return np.asarray(released_by(self).classes.labels[self.predict_proba(X).argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on a table with labels: exact, so outside the guarantee.

        Examples
        --------
        >>> from lumberjack import LumberjackClassifier
        >>> from lumberjack.datasets import make_toy
        >>> X, y, domain = make_toy()
        >>> model = LumberjackClassifier(2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
        >>> model.score(X, y) > 0.9
        True
        """
        return self._score(accuracy_score, X, read_target(y), sample_weight)


class LumberjackRegressor(RegressorMixin, Base):  # type: ignore[misc]
    """A differentially private random forest for regression.

    Parameters and attributes are those of ``LumberjackClassifier``, without ``classes``, ``leaf`` and
    ``class_weight``.

    Parameters
    ----------
    y_bounds : (low, high) or None
        Public bounds of the target, which is clipped to them. None learns privately a
        range that holds most targets, and clips to it.

    Notes
    -----
    **Formal guarantees.** As for the classifier; a leaf releases a noisy count and a noisy sum of
    targets on an integer grid, priced together.

    Examples
    --------
    >>> import numpy as np
    >>> from lumberjack import LumberjackRegressor
    >>> X = np.random.default_rng(0).uniform(0, 1, (20000, 2))
    >>> model = LumberjackRegressor(epsilon=2.0).fit(X, X.sum(axis=1))
    >>> bool(model.score(X, X.sum(axis=1)) > 0.8), model.guarantee_.caveats
    (True, ())
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        n_estimators: int = 20,
        max_depth: int = 100,
        domain: Domain | Mapping[str, Any] | None = None,
        y_bounds: tuple[float, float] | None = None,
        splits: Splits = "guided",
        accounting: Accounting = "joint",
        structure_share: float | None = None,
        threshold: float | None = None,
        feature_weights: Any = None,
        rows_per_person: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.domain = domain
        self.y_bounds = y_bounds
        self.splits = splits
        self.accounting = accounting
        self.structure_share = structure_share
        self.threshold = threshold
        self.feature_weights = feature_weights
        self.rows_per_person = rows_per_person
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, person_ids: Any = None, **fit_params: Any) -> Self:
        """Train on a table, shape (n_rows, n_columns), and its targets, shape (n_rows,).

        Examples
        --------
        >>> from lumberjack import LumberjackRegressor
        >>> model = LumberjackRegressor(domain={"a": (0, 1)}, y_bounds=(0, 10))
        >>> model.fit([[0.2], [0.8]] * 1000, [2, 8] * 1000).guarantee_.caveats
        ()
        """
        refuse_unknown(fit_params)
        self._fit(X, y, person_ids)
        return self

    def _leaf_kind(self) -> Leaf:
        if self.y_bounds is not None:
            check_bounds(self.y_bounds)
        return "fitted-mean" if self._is_fitted else "mean"

    @property
    def _is_fitted(self) -> bool:
        """Whether leaves are fitted together: always, except with random splits, as in the paper."""
        return bool(self.splits == "guided" and self.accounting == "joint")

    def _read_target(self, y: Any, caveats: list[str]) -> tuple[Learnable, NDArray[np.int32]]:
        values = read_numbers(y)
        if self._is_fitted:
            bounds = None if self.y_bounds is None else check_bounds(self.y_bounds)
            to_learn = OpenNumbers(True, bounds)
            return to_learn, to_learn.encode(values)
        if self.y_bounds is not None:
            target = Numbers(*check_bounds(self.y_bounds))
        elif self._learns:
            return OpenNumbers(), OpenNumbers().encode(values)
        else:
            caveats.append(BOUNDS_INFERRED)
            low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
            target = Numbers(float(low), float(high))
            if not np.isfinite(target.high - target.low):
                raise ValueError("y spans too wide a range; give y_bounds")
        return target, target.encode(values)

    def _is_open(self) -> bool:
        return self.y_bounds is None or self._is_fitted

    @property
    def targets_(self) -> Numbers:
        """The bounds of the target, given or learned."""
        return self.released_.numbers

    def predict(self, X: Any) -> Floats:
        """Mean target of each row's leaves, pooled over trees.

        Examples
        --------
        >>> from lumberjack import LumberjackRegressor
        >>> model = LumberjackRegressor(4.0, domain={"a": (0, 1)}, y_bounds=(0, 10))
        >>> low, high = model.fit([[0.2], [0.8]] * 5000, [2, 8] * 5000).predict([[0.2], [0.8]])
        >>> bool(low < 4), bool(high > 6)
        (True, True)
        """
        return released_by(self).predict(X, effective_n_jobs(self.n_jobs))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² on a table with targets: exact, so outside the guarantee.

        Examples
        --------
        >>> from lumberjack import LumberjackRegressor
        >>> model = LumberjackRegressor(4.0, domain={"a": (0, 1)}, y_bounds=(0, 10))
        >>> model.fit([[0.2], [0.8]] * 5000, [2, 8] * 5000).score([[0.2], [0.8]], [2, 8]) > 0.5
        True
        """
        return self._score(r2_score, X, read_numbers(y), sample_weight)


def load(path: str | os.PathLike[str]) -> LumberjackClassifier | LumberjackRegressor:
    """Read a model that ``save`` wrote.

    Untrusted files are safe to load: nothing in them is executed, and an invalid one raises a
    ValueError.

    Examples
    --------
    >>> import os, tempfile
    >>> from lumberjack import LumberjackClassifier, load
    >>> from lumberjack.datasets import make_toy
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "toy.lumberjack"))
    ...     again = load(os.path.join(folder, "toy.lumberjack"))
    >>> bool((again.predict(X) == model.predict(X)).all()), again.guarantee_ == model.guarantee_
    (True, True)
    """
    stored = read_model(path)
    kind = LumberjackClassifier if stored.kind == "classifier" else LumberjackRegressor
    unknown = sorted(set(stored.parameters) - set(kind().get_params()))
    if unknown:
        raise ValueError(f"{path} has unknown parameters: {bare_all(unknown)}; update Lumberjack")
    model = kind(**stored.parameters)
    try:
        feature_weights(model.feature_weights, stored.released.domain)
        if isinstance(model, LumberjackClassifier):
            check_class_weight(model.class_weight)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not a valid model file: {error}") from None
    model._keep(stored.released)
    return model
