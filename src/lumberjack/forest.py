"""The two estimators: validate, plan, run an engine, keep what it released.

In: a table and a target. Out: a fitted scikit-learn estimator that holds released values only. This is
the one file that knows all the others.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from lumberjack.domain import Codes, Domain, columns_of
from lumberjack.engines.local import prune
from lumberjack.guarantee import (
    BOUNDS_INFERRED,
    CLASSES_INFERRED,
    DOMAIN_INFERRED,
    NOT_ENFORCED,
    SEEDED,
    Accounting,
    Guarantee,
    Leaf,
    PrivacyLeakWarning,
    plan,
)
from lumberjack.leaves import Targets, noisy_counts, noisy_labels, noisy_sums, pool, votes
from lumberjack.noise import (
    Bits,
    ExponentialChoice,
    Purpose,
    RoundedGaussian,
    ThresholdCoin,
    Words,
    mix_keys,
    seed_from,
)
from lumberjack.paths import hash_label
from lumberjack.structure import Features, root_keys
from lumberjack.tree import Forest, Tree

__all__ = ["LumberjackClassifier", "LumberjackRegressor"]

Floats = NDArray[np.float64]
Release = Callable[[NDArray[np.int32], int, Words], Floats]
_BLOCK = 1 << 16


class _Lumberjack(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share: the way from a table to a released forest."""

    def _plan(self, leaf: Leaf) -> Guarantee:
        """Check every parameter, and calibrate, before any data is read."""
        if self.splits not in ("guided", "random"):
            raise ValueError(f"splits must be 'guided' or 'random', got {self.splits!r}")
        if self.splits == "guided":
            raise ValueError('splits="guided" is not available yet; use splits="random"')
        if self.domain is not None and not isinstance(self.domain, Domain | Mapping):
            raise TypeError(f"domain must be a Domain, a dict or None, got {type(self.domain).__name__}")
        return plan(
            self.epsilon,
            self.delta,
            self.n_estimators,
            self.max_depth,
            accounting=self.accounting,
            leaf=leaf,
            structure_share=self.structure_share,
            threshold=self.threshold,
            rows_per_person=self.rows_per_person,
        )

    def _read(self, X: Any) -> Any:
        """A frame as it is; anything else as a 2-D array."""
        names, _ = columns_of(X) if hasattr(X, "columns") or hasattr(X, "column_names") else (None, [])
        if names is not None:
            return X
        return check_array(X, dtype=None, ensure_all_finite=False, estimator=self)

    def _learn_columns(self, X: Any) -> tuple[Domain, Features, list[str]]:
        """The domain, given or inferred, and scikit-learn's attributes about columns."""
        names, columns = columns_of(X)
        self.n_features_in_ = len(columns)
        if hasattr(self, "feature_names_in_"):
            delattr(self, "feature_names_in_")
        if names is not None:
            self.feature_names_in_: NDArray[Any] = np.array(names, dtype=object)
        caveats = []
        if self.domain is None:
            domain, private = Domain._infer(X)
            caveats = [DOMAIN_INFERRED] if private else []
        else:
            domain = self.domain if isinstance(self.domain, Domain) else Domain(self.domain)
        return domain, Features.of(domain, self._weights(domain)), caveats

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
        weights = np.asarray(given, dtype=float)
        if weights.shape != (len(domain),) or not np.all(np.isfinite(weights) & (weights >= 0)):
            raise ValueError("feature_weights must hold one number of at least 0 for each column")
        if weights.sum() == 0:
            raise ValueError("feature_weights must not all be 0")
        return weights

    def _grow(
        self,
        codes: Codes,
        features: Features,
        guarantee: Guarantee,
        bits: Bits,
        release: Release,
    ) -> Forest:
        """Prune every tree, in threads, and release its leaves."""
        coin = ThresholdCoin(
            guarantee.threshold_noise, guarantee.threshold, cut=guarantee.cut, largest=len(codes)
        )

        def one(key: np.uint64) -> tuple[Tree, Floats]:
            tree, keys = prune(codes, features, key, guarantee.max_depth, coin, bits)
            return tree, release(tree.apply(codes, features.categorical), tree.n_leaves, keys)

        roots = root_keys(bits.seed, guarantee.n_estimators)
        with ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as pool_of_threads:
            grown = []
            for done, result in enumerate(pool_of_threads.map(one, roots), start=1):
                grown.append(result)
                if self.verbose:
                    print(f"[{type(self).__name__}] tree {done} of {guarantee.n_estimators}")
        return Forest(tuple(t for t, _ in grown), tuple(v for _, v in grown), features.categorical)

    def _finish(self, guarantee: Guarantee, domain: Domain, forest: Forest, caveats: list[str]) -> None:
        for caveat in caveats:
            warnings.warn(f"not private without reserve: {caveat}", PrivacyLeakWarning, stacklevel=3)
        self.guarantee_ = dataclasses.replace(guarantee, caveats=guarantee.caveats + tuple(caveats))
        self.domain_ = domain
        self.forest_ = forest

    def _leaves(self, X: Any) -> NDArray[np.int32]:
        check_is_fitted(self)
        X = self._read(X)
        names, columns = columns_of(X)
        if names is None and len(columns) != self.n_features_in_:
            raise ValueError(
                f"X has {len(columns)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        if names is not None and hasattr(self, "feature_names_in_"):
            _check_names(names, list(self.feature_names_in_))
        return self.forest_.apply(self.domain_.encode(X))

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Leaf of each row in each tree, shape (n_rows, n_estimators)."""
        return self._leaves(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _encode(domain: Domain, X: Any) -> Codes:
    codes = domain.encode(X)
    if not len(codes):
        raise ValueError("X must have at least one row")
    return codes


def _check_names(names: list[str], fitted: list[str]) -> None:
    missing, surplus = sorted(set(fitted) - set(names)), sorted(set(names) - set(fitted))
    if missing or surplus:
        message = "The feature names should match those that were passed during fit.\n"
        if surplus:
            message += "Feature names unseen at fit time:\n" + "".join(f"- {n}\n" for n in surplus)
        if missing:
            message += "Feature names seen at fit time, yet now missing:\n"
            message += "".join(f"- {n}\n" for n in missing)
        raise ValueError(message)


def _refuse(fit_params: dict[str, Any]) -> None:
    """Explain why weights of single rows are not offered; anything else is unknown."""
    if "sample_weight" in fit_params:
        raise TypeError(
            "sample_weight is not supported: a row that counts twice would need twice the noise; "
            "use class_weight, or repeat rows and set rows_per_person"
        )
    if fit_params:
        raise TypeError(f"fit got unexpected arguments: {', '.join(sorted(fit_params))}")


def _check_lengths(n: int, **others: Any) -> None:
    for name, values in others.items():
        if len(values) != n:
            raise ValueError(f"X and {name} have different numbers of rows")


def _limit_rows(codes: Codes, target: NDArray[Any], person_ids: Any, r: int, bits: Bits) -> NDArray[Any]:
    """Rows to keep so that nobody has more than ``r``: a random choice for each person.

    Formal guarantees
    -----------------
    The rows kept of one person depend on that person's rows alone, so adding or removing a person
    changes at most ``r`` of all kept rows.
    """
    people = np.asarray(person_ids).reshape(-1).tolist()
    number: dict[Any, int] = {}
    person = np.array([number.setdefault(p, len(number)) for p in people], dtype=np.int64)
    keys = None
    if bits.seed is not None:  # by what a row holds, never by where it stands
        keys = np.array([hash_label(p) for p in number], dtype=np.uint64)[person]
        for column in (*codes.T, np.unique(target, return_inverse=True)[1]):
            keys = mix_keys(keys, column.astype(np.uint64))
    lots = bits.words(len(person), keys, Purpose.PERSON)
    order = np.lexsort((lots, person))
    sorted_person = person[order]
    first = np.searchsorted(sorted_person, sorted_person)
    return np.sort(order[np.arange(len(order)) - first < r])


class LumberjackClassifier(ClassifierMixin, _Lumberjack):  # type: ignore[misc]
    """A differentially private random forest for classification.

    Parameters
    ----------
    epsilon, delta : float
        The budget: (epsilon, delta)-differential privacy for adding or removing one row (or person).
    n_estimators : int
        Number of trees.
    max_depth : int
        Deepest level at which a node may split. Trees stop by themselves where rows are few.
    domain : Domain, dict or None
        Public ranges and categories of the columns. None infers them, with a PrivacyLeakWarning.
    classes : sequence or None
        The public set of labels. None infers it, with a PrivacyLeakWarning.
    splits : {"random", "guided"}
        How splits are chosen: at random, without looking at the data. "guided" is not available yet.
    leaf : {"counts", "majority", "exponential"}
        What a leaf releases: noisy class counts, the noisy majority, or a label by the exponential
        mechanism (only with ``accounting="paper"``).
    accounting : {"joint", "paper"}
        The proved joint bound, or the paper's Theorem 1.
    structure_share : float or None
        Share of the budget spent on the structure; None: 0.5 (joint) or 0.75 (paper).
    threshold : float or None
        Rows from which a node splits; None: the smallest that the budget allows.
    class_weight : None, "balanced" or dict
        Weights of the released votes: post-processing, at no cost in privacy.
    feature_weights : dict, sequence or None
        Public chances of the columns to be split on.
    rows_per_person : int
        Most rows that one person owns; above 1 the guarantee is for persons.
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
        The domain in use.
    n_features_in_, feature_names_in_ : int, ndarray
        Columns seen in ``fit``.

    Notes
    -----
    **Formal guarantees.** All fitted attributes together are (epsilon, delta)-DP as ``guarantee_``
    states, apart from its caveats: the structure by the joint bound (or Theorem 1), leaves as the
    functions in ``leaves`` state.

    Examples
    --------
    >>> from lumberjack import Domain, LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
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
        splits: Literal["random", "guided"] = "random",
        leaf: Literal["counts", "majority", "exponential"] = "counts",
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
        """The paper's settings: depth 100, Theorem 1 with 75 % of the budget, exponential leaves."""
        settings = {
            "max_depth": 100,
            "splits": "random",
            "leaf": "exponential",
            "accounting": "paper",
            "structure_share": 0.75,
        }
        return cls(epsilon, delta, n_estimators=n_estimators, **{**settings, **kw})

    def fit(self, X: Any, y: Any, person_ids: Any = None, **fit_params: Any) -> Self:
        """Train on a table, shape (n_rows, n_columns), and its labels, shape (n_rows,).

        ``person_ids``, shape (n_rows,), says whose row each is: rows beyond ``rows_per_person`` are
        dropped at random.
        """
        _refuse(fit_params)
        if self.leaf not in ("counts", "majority", "exponential"):
            raise ValueError(f"leaf must be 'counts', 'majority' or 'exponential', got {self.leaf!r}")
        guarantee = self._plan(self.leaf)
        self._check_class_weight()
        bits = Bits(seed_from(self.random_state))
        X = self._read(X)
        domain, features, caveats = self._learn_columns(X)
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None")
        labels = column_or_1d(np.asarray(y), warn=True)
        self.classes_, target = _encode_labels(labels, self.classes)
        caveats += [CLASSES_INFERRED] if self.classes is None else []
        codes = _encode(domain, X)
        _check_lengths(len(codes), y=target)
        if person_ids is not None:
            _check_lengths(len(codes), person_ids=person_ids)
            keep = _limit_rows(codes, target, person_ids, self.rows_per_person, bits)
            codes, target = codes[keep], target[keep]
        elif self.rows_per_person > 1:
            caveats.append(NOT_ENFORCED)
        caveats += [SEEDED] if bits.seed is not None else []
        n_classes = len(self.classes_)
        noise: RoundedGaussian | ExponentialChoice
        if self.leaf == "exponential":
            noise = ExponentialChoice(1 / (guarantee.leaf_noise or 0.0))
        else:
            noise = RoundedGaussian(guarantee.leaf_noise or 0.0)

        def release(leaf_of_row: NDArray[np.int32], n_leaves: int, keys: Words) -> Floats:
            cell = leaf_of_row.astype(np.int64) * n_classes + target
            counts = np.bincount(cell, minlength=n_leaves * n_classes).reshape(n_leaves, n_classes)
            if self.leaf == "counts" and isinstance(noise, RoundedGaussian):
                return noisy_counts(counts, noise, bits, keys)
            return noisy_labels(counts, noise, bits, keys)

        forest = self._grow(codes, features, guarantee, bits, release)
        self._finish(guarantee, domain, forest, caveats)
        return self

    def _check_class_weight(self) -> None:
        given = self.class_weight
        if given is None or (isinstance(given, str) and given == "balanced"):
            return
        if not isinstance(given, Mapping):
            raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {given!r}")
        if not all(np.isfinite(w) and w >= 0 for w in given.values()):
            raise ValueError("class_weight must hold numbers of at least 0")

    def _class_weights(self) -> Floats:
        """Weights of the classes, from parameters and released counts alone."""
        n_classes = len(self.classes_)
        if self.class_weight is None:
            return np.ones(n_classes)
        if isinstance(self.class_weight, Mapping):
            return np.array([float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist()])
        total = np.maximum(self._released_totals(), 1.0)
        return np.asarray(total.sum() / (n_classes * total))

    def _released_totals(self) -> Floats:
        """Noisy counts (or votes) of each class over all leaves and trees."""
        return np.asarray(np.sum([v.sum(axis=0) for v in self.forest_.values], axis=0))

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class, shape (n_rows, n_classes)."""
        leaves = self._leaves(X)
        weights = self._class_weights()
        prior = np.maximum(self._released_totals(), 1.0)
        prior = prior / prior.sum()
        if self.leaf == "counts":
            said = pool([votes(v) for v in self.forest_.values], leaves)
            tie = prior  # no vote left after noise: what the whole forest says
        else:
            said = pool(self.forest_.values, leaves)
            # Leaf majorities lean towards the frequent class, so a tie speaks for the rare one.
            tie = (1 - prior) / max(len(prior) - 1, 1)
        said = (said + 1e-3 * len(self.forest_.trees) * tie) * weights
        return np.asarray(said / said.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def _encode_labels(labels: NDArray[Any], classes: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The sorted label set and each row's place in it; errors name no value."""
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("Input y contains NaN.")
    if labels.dtype.kind == "O" and any(v is None or v != v for v in labels.tolist()):
        raise ValueError("Input y contains NaN.")
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError("Input y contains infinity or a value too large.")
    check_classification_targets(labels)
    known = np.unique(labels if classes is None else np.asarray(classes))
    if labels.dtype.kind != known.dtype.kind and (labels.dtype.kind in "US") != (
        known.dtype.kind in "US"
    ):
        labels = labels.astype(object)
    place = {label: i for i, label in enumerate(known.tolist())}
    found = [place.get(label, -1) for label in labels.tolist()]
    target = np.array(found, dtype=np.int64)
    if (target < 0).any():
        raise ValueError("y has a label that is not in classes; add it or leave those rows out")
    return known, target


class LumberjackRegressor(RegressorMixin, _Lumberjack):  # type: ignore[misc]
    """A differentially private random forest for regression.

    Parameters and attributes are those of ``LumberjackClassifier``, without ``classes``, ``leaf`` and
    ``class_weight``.

    Parameters
    ----------
    y_bounds : (low, high) or None
        Public bounds of the target, which is clipped to them. None infers them, with a
        PrivacyLeakWarning.

    Notes
    -----
    **Formal guarantees.** As for the classifier; a leaf releases a noisy count and a noisy sum of
    targets on an integer grid, priced together.

    Examples
    --------
    >>> import numpy as np
    >>> from lumberjack import LumberjackRegressor
    >>> X = np.random.default_rng(0).uniform(0, 1, (20000, 2))
    >>> model = LumberjackRegressor(epsilon=2.0, domain={"a": (0, 1), "b": (0, 1)}, y_bounds=(0, 2))
    >>> bool(model.fit(X, X.sum(axis=1)).score(X, X.sum(axis=1)) > 0.8)
    True
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
        splits: Literal["random", "guided"] = "random",
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

    def fit(self, X: Any, y: Any, person_ids: Any = None, **fit_params: Any) -> Self:
        """Train on a table, shape (n_rows, n_columns), and its targets, shape (n_rows,)."""
        _refuse(fit_params)
        guarantee = self._plan("mean")
        bounds = None if self.y_bounds is None else _check_bounds(self.y_bounds)
        bits = Bits(seed_from(self.random_state))
        X = self._read(X)
        domain, features, caveats = self._learn_columns(X)
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None")
        values = column_or_1d(np.asarray(y), warn=True)
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError("y must hold numbers") from None
        if not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity.")
        if bounds is None:
            caveats.append(BOUNDS_INFERRED)
        codes = _encode(domain, X)
        _check_lengths(len(codes), y=values)
        self.targets_ = Targets(*(bounds or (float(values.min()), float(values.max()))))
        target = self.targets_.encode(values)
        if person_ids is not None:
            _check_lengths(len(codes), person_ids=person_ids)
            keep = _limit_rows(codes, target, person_ids, self.rows_per_person, bits)
            codes, target = codes[keep], target[keep]
        elif self.rows_per_person > 1:
            caveats.append(NOT_ENFORCED)
        caveats += [SEEDED] if bits.seed is not None else []
        noise = RoundedGaussian(guarantee.leaf_noise or 0.0), RoundedGaussian(guarantee.sum_noise or 0.0)

        def release(leaf_of_row: NDArray[np.int32], n_leaves: int, keys: Words) -> Floats:
            counts = np.bincount(leaf_of_row, minlength=n_leaves)
            sums = np.zeros(n_leaves, dtype=np.int64)
            np.add.at(sums, leaf_of_row, target)
            return noisy_sums(sums, counts, noise, bits, keys)

        forest = self._grow(codes, features, guarantee, bits, release)
        self._finish(guarantee, domain, forest, caveats)
        return self

    def predict(self, X: Any) -> Floats:
        """Mean target of each row's leaves, pooled over trees."""
        check_is_fitted(self)
        pooled = pool(self.forest_.values, self._leaves(X))
        everything = sum(v.sum(axis=0) for v in self.forest_.values)
        prior = float(everything[1] / everything[0]) if everything[0] >= 1 else 0.0
        # A pooled count that noise alone could make tells nothing: the mean of all rows instead.
        floor = (self.guarantee_.leaf_noise or 0.0) * len(self.forest_.trees) ** 0.5
        count = pooled[:, 0]
        means = np.where(count > floor, pooled[:, 1] / np.maximum(count, max(floor, 1.0)), prior)
        return self.targets_.decode(means)


def _check_bounds(bounds: Any) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"y_bounds must be a (low, high) pair of numbers, got {bounds!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"y_bounds must be finite with low < high, got ({low:g}, {high:g})")
    return low, high
