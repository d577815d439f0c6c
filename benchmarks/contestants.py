"""The models of the accuracy benchmark: ours, rivals with a privacy claim, and scikit-learn's.

In: a name, epsilon, and what is public about a table. Out: an object with ``fit`` and ``predict``, and
``predict_proba`` for classes; or None where there is no such model for the target.
"""

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from benchmarks.baselines import SYSTEMS, LRBinRegressor
from benchmarks.problems import Table, numbers
from lumberjack import LumberjackClassifier, LumberjackRegressor

DELTA = 1e-6
CLASSIFIERS = {  # parameters, and whether columns and classes are declared
    "default": ({}, True),
    "undeclared": ({}, False),
    "counts": ({"leaf": "counts"}, True),
    "random": ({"splits": "random", "leaf": "counts"}, True),
}
REGRESSORS = {  # parameters, and how many times wider y_bounds are than those that are public; 0: none
    "default": ({}, 1),
    "undeclared": ({}, 0),
    "loose-10": ({}, 10),
    "loose-1000": ({}, 1000),
    "random": ({"splits": "random"}, 1),
}
OURS = tuple(dict.fromkeys([*CLASSIFIERS, *REGRESSORS, "paper"]))
RIVALS = ("lr-bin", "lr-pairs", "lr-nested", "ebm-newton", "naive-bayes", "dp-ebm")
NOT_PRIVATE = {  # classifier and regressor
    "extra-trees": (ExtraTreesClassifier, ExtraTreesRegressor),
    "random-forest": (RandomForestClassifier, RandomForestRegressor),
    "hist-gradient-boosting": (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
}
MODELS = (*OURS, *RIVALS, *NOT_PRIVATE)


def make(name: str, epsilon: float, table: Table):
    """A model, to be fitted."""
    if name in NOT_PRIVATE:
        return _not_private(name, table)
    if name == "dp-ebm":
        return _dp_ebm(epsilon, table) if table.n_classes <= 2 else None
    if name in RIVALS:
        return _rival(name, epsilon, table)
    return (_classifier if table.n_classes else _regressor)(name, epsilon, table)


def _classifier(name, epsilon, table):
    known = {"domain": table.domain, "classes": list(range(table.n_classes))}
    if name == "paper":
        return LumberjackClassifier.paper(epsilon, DELTA, n_jobs=1, **known)
    if name not in CLASSIFIERS:
        return None
    given, declared = CLASSIFIERS[name]
    return LumberjackClassifier(epsilon, DELTA, n_jobs=1, **given, **(known if declared else {}))


def _regressor(name, epsilon, table):
    if name not in REGRESSORS:
        return None
    given, times = REGRESSORS[name]
    known = {"domain": table.domain, "y_bounds": widened(table.bounds, times)} if times else {}
    return LumberjackRegressor(epsilon, DELTA, n_jobs=1, **given, **known)


def widened(bounds, times):
    """Bounds around the same middle, so many times as far apart."""
    low, high = bounds
    more = (times - 1) * (high - low) / 2
    return low - more, high + more


class Rival:
    """One of ``benchmarks/baselines``, told at once what is public."""

    def __init__(self, system, *public):
        self.system, self.public = system, public
        self.predict = system.predict
        self.predict_proba = getattr(system, "predict_proba", None)

    def fit(self, X, y):
        self.system.fit(X, y, *self.public, np.random.default_rng())


def _rival(name, epsilon, table):
    if table.n_classes:
        return Rival(SYSTEMS[name](), table.domain, range(table.n_classes), epsilon)
    return Rival(LRBinRegressor(), table.domain, table.bounds, epsilon) if name == "lr-bin" else None


def _not_private(name, table):
    text = [n for n in table.domain if n not in numbers(table.domain)]
    settings = {"random_state": 0}
    if name == "hist-gradient-boosting":
        settings |= {"categorical_features": range(len(text))}
    elif name == "random-forest":
        settings |= {"n_estimators": 300, "min_samples_leaf": 5}
    elif table.n_classes:
        settings |= {"min_samples_leaf": 5}
    model = NOT_PRIVATE[name][0 if table.n_classes else 1](**settings)
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    fill = FunctionTransformer(lambda frame: frame.fillna(-1))
    return make_pipeline(make_column_transformer((encode, text), remainder=fill), model)


def _dp_ebm(epsilon, table):
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    domain, ranges = table.domain, numbers(table.domain)

    def clean(frame):
        """Inside the bounds that it is told; it knows no missing numbers."""
        frame = frame[list(domain)].copy()
        for name in domain:
            if name in ranges:
                low, high = ranges[name].low, ranges[name].high
                frame[name] = frame[name].astype(float).fillna(low).clip(low, high)
            else:
                frame[name] = frame[name].astype(str)
        return frame

    settings = {
        "feature_types": ["continuous" if n in ranges else "nominal" for n in domain],
        "privacy_bounds": {
            i: (ranges[n].low, ranges[n].high) for i, n in enumerate(domain) if n in ranges
        },
        "epsilon": epsilon,
        "delta": DELTA,
        "n_jobs": 1,
    }
    if not table.n_classes:
        low, high = table.bounds
        settings |= {"privacy_target_min": low, "privacy_target_max": high}
    kind = DPExplainableBoostingClassifier if table.n_classes else DPExplainableBoostingRegressor
    return make_pipeline(FunctionTransformer(clean), kind(**settings))
