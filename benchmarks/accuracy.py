"""Accuracy and AUC on real data: mean over five stratified 90-10 splits, with new noise each time.

    LUMBERJACK_DATA=... python -m benchmarks.accuracy [--splits 5] [--data adult income ...]
        [--epsilons 0.5 1 4] [--models default random ...]

delta = 1e-6. Compared on the same splits: the default (leaves fitted together) with declared columns
and with nothing declared, the former default (guided splits, counted leaves), random splits,
``paper()`` with 30 trees, DP-EBM of ``interpret-core`` with its defaults and the same bounds (extra
``bench``), linear models and boosted trees of ``benchmarks/baselines``, and scikit-learn's forests
and gradient boosting without privacy.
"""

import argparse
import importlib.util
import warnings

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
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from benchmarks.baselines import SYSTEMS, LRBinRegressor
from benchmarks.toy import SCALES, train
from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import fetch_acs, fetch_adult, fetch_california_housing
from lumberjack.kinds import Numeric

DATA = {
    "adult": fetch_adult,
    "income": lambda: fetch_acs("income", "CA"),
    "public_coverage": lambda: fetch_acs("public_coverage", "CA"),
    "employment": lambda: fetch_acs("employment", "MA", range(2015, 2019)),
    "housing": fetch_california_housing,
}
EPSILONS = (0.5, 1.0, 4.0)
RIVALS = ("lr-bin", "lr-pairs", "ebm-newton")
NOT_PRIVATE = {  # classifier and regressor
    "extra-trees": (ExtraTreesClassifier, ExtraTreesRegressor),
    "random-forest": (RandomForestClassifier, RandomForestRegressor),
    "hist-gradient-boosting": (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
}
OURS = {  # parameters of the classifier; the regressor has no leaf
    "default": {},
    "undeclared": {},
    "counts": {"leaf": "counts"},
    "random": {"splits": "random", "leaf": "counts"},
}
MODELS = (*OURS, "paper", "dp-ebm", *RIVALS, *NOT_PRIVATE)
BOUNDS = (0, 500_001)  # of the prices


def make(name, epsilon, domain, regression):
    """One of MODELS, to be fitted; None if it is for classes only."""
    target = {"y_bounds": BOUNDS} if regression else {"classes": [0, 1]}
    shared = {"domain": domain, "n_jobs": 2, **target}
    kind = LumberjackRegressor if regression else LumberjackClassifier
    if name in OURS:
        given = {k: v for k, v in OURS[name].items() if not (regression and k == "leaf")}
        if regression and name == "counts":
            return None
        return kind(epsilon, **given, **({"n_jobs": 2} if name == "undeclared" else shared))
    if name == "paper":
        return None if regression else LumberjackClassifier.paper(epsilon, **shared)
    if name == "dp-ebm":
        return dp_ebm(epsilon, domain, regression)
    if name in RIVALS:
        system = SYSTEMS[name] if not regression else LRBinRegressor if name == "lr-bin" else None
        return system and Rival(system(), domain, BOUNDS if regression else [0, 1], epsilon)
    return not_private(name, domain, regression)


class Rival:
    """One of ``benchmarks/baselines``, told at once what is public."""

    def __init__(self, system, *public):
        self.system, self.public = system, public
        self.predict, self.predict_proba = system.predict, system.predict_proba

    def fit(self, X, y):
        self.system.fit(X, y, *self.public, np.random.default_rng())


def not_private(name, domain, regression):
    text = [n for n in domain if not isinstance(domain[n], Numeric)]
    settings = {"random_state": 0}
    if name == "hist-gradient-boosting":
        settings |= {"categorical_features": range(len(text))}
    elif name == "random-forest":
        settings |= {"n_estimators": 300, "min_samples_leaf": 5, "n_jobs": 2}
    else:
        settings |= {"n_jobs": 2} if regression else {"min_samples_leaf": 5, "n_jobs": 2}
    model = NOT_PRIVATE[name][regression](**settings)
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    fill = FunctionTransformer(lambda frame: frame.fillna(-1))
    return make_pipeline(make_column_transformer((encode, text), remainder=fill), model)


def dp_ebm(epsilon, domain, regression):
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    numeric = {n: domain[n] for n in domain if isinstance(domain[n], Numeric)}

    def clean(frame):
        """Inside the bounds that it is told; it knows no missing numbers."""
        frame = frame[list(domain)].copy()
        for name in domain:
            if name in numeric:
                low, high = numeric[name].low, numeric[name].high
                frame[name] = frame[name].astype(float).fillna(low).clip(low, high)
            else:
                frame[name] = frame[name].astype(str)
        return frame

    settings = {
        "feature_types": ["continuous" if n in numeric else "nominal" for n in domain],
        "privacy_bounds": {
            i: (domain[n].low, domain[n].high) for i, n in enumerate(domain) if n in numeric
        },
        "epsilon": epsilon,
        "delta": 1e-6,
        "n_jobs": 1,
    }
    if regression:
        settings |= {"privacy_target_min": BOUNDS[0], "privacy_target_max": BOUNDS[1]}
    kind = DPExplainableBoostingRegressor if regression else DPExplainableBoostingClassifier
    return make_pipeline(FunctionTransformer(clean), kind(**settings))


def score(model, train, test, regression):
    (X, y), (X_test, y_test) = train, test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    if regression:
        return [r2_score(y_test, model.predict(X_test))]
    positive = model.predict_proba(X_test)[:, 1]
    return np.mean(model.predict(X_test) == y_test), roc_auc_score(y_test, positive)


def folds(name, n_splits, first=0):
    """Domain, and (train, test) of each split."""
    X, y, domain = DATA[name]()
    X, y = X.reset_index(drop=True), np.asarray(y)
    regression = name == "housing"
    y = y.astype(float) if regression else (y == np.unique(y)[1]).astype(int)
    found = []
    for seed in range(first, first + n_splits):
        a, b, ya, yb = train_test_split(
            X, y, test_size=0.1, stratify=None if regression else y, random_state=seed
        )
        found.append(((a, ya), (b, yb)))
    return domain, found


def compare(name, arguments):
    regression = name == "housing"
    domain, splits = folds(name, arguments.splits, arguments.first)
    for epsilon in arguments.epsilons:
        for label in arguments.models:
            if label in NOT_PRIVATE and epsilon != arguments.epsilons[-1]:
                continue  # they have no epsilon
            model = make(label, epsilon, domain, regression)
            if model is None:
                continue
            found = np.array([score(model, *fold, regression) for fold in splits])
            cells = [f"{m:.4f} ± {s:.4f}" for m, s in zip(found.mean(0), found.std(0), strict=True)]
            shown = "-" if label in NOT_PRIVATE else f"{epsilon:g}"
            cells = ["", *cells] if regression else cells
            print(
                f"{name:16} {shown:>4}  {label:22} " + "   ".join(f"{c:15}" for c in cells), flush=True
            )


def toy():
    for scale in SCALES:
        _, models = train(scale)
        for name, (_, accuracy) in models.items():
            print(f"{f'toy, ranges x{scale}':16} {name:35} {accuracy:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="seed of the first split")
    parser.add_argument("--data", nargs="*", default=[*DATA, "toy"], choices=[*DATA, "toy"])
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    arguments = parser.parse_args()
    if "dp-ebm" in arguments.models and importlib.util.find_spec("interpret") is None:
        print("DP-EBM is left out: interpret-core is not installed (pip install 'interpret-core<0.8')")
        arguments.models = [m for m in arguments.models if m != "dp-ebm"]
    print(
        f"{'data':16} {'eps':>4}  {'model':22} {'accuracy':15}   {'AUC':15}   R2 (housing: last column)"
    )
    for name in arguments.data:
        toy() if name == "toy" else compare(name, arguments)


if __name__ == "__main__":
    main()
