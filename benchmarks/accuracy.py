"""Accuracy and AUC of the forest on real data: mean over five stratified 90-10 splits.

    LUMBERJACK_DATA=... python -m benchmarks.accuracy [--splits 5] [--data adult income ...]

delta = 1e-6; a new split and new noise each time. Compared: ``paper()`` (30 trees), the joint accounting
(20 trees), and scikit-learn's ExtraTrees without privacy.
"""

import argparse

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from benchmarks.toy import SCALES, train
from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import fetch_acs, fetch_adult, fetch_california_housing
from lumberjack.domain import Numeric

DATA = {
    "adult": fetch_adult,
    "income": lambda: fetch_acs("income", "CA"),
    "public_coverage": lambda: fetch_acs("public_coverage", "CA"),
    "employment": lambda: fetch_acs("employment", "MA", range(2015, 2019)),
}
OTHERS = ("housing", "toy")
EPSILONS = (0.5, 1.0, 4.0)


def models(epsilon, domain, classes):
    shared = {"domain": domain, "classes": classes, "n_jobs": 2}
    return {
        "paper": LumberjackClassifier.paper(epsilon, **shared),
        "joint": LumberjackClassifier(epsilon, **shared),
    }


def not_private(domain, forest):
    text = [n for n in domain if not isinstance(domain[n], Numeric)]
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(make_column_transformer((encode, text), remainder="passthrough"), forest)


def scores(model, train, test):
    (X, y), (X_test, y_test) = train, test
    model.fit(X, y)
    positive = model.predict_proba(X_test)[:, 1]
    return np.mean(model.predict(X_test) == y_test), roc_auc_score(y_test, positive)


def show(name, epsilon, model, found):
    found = np.array(found)
    (accuracy, auc), (spread, auc_spread) = found.mean(0), found.std(0)
    print(f"{name:16} {epsilon:>4}  {model:12} {accuracy:.4f} ± {spread:.4f}", end="")
    print(f"   {auc:.4f} ± {auc_spread:.4f}", flush=True)


def classification(name, n_splits):
    X, y, domain = DATA[name]()
    y = np.asarray(y)
    y = (y == np.unique(y)[1]).astype(int)
    folds = []
    for seed in range(n_splits):
        a, b, ya, yb = train_test_split(X, y, test_size=0.1, stratify=y, random_state=seed)
        folds.append(((a, ya), (b, yb)))
    for epsilon in EPSILONS:
        for label in ("paper", "joint"):
            found = [scores(models(epsilon, domain, [0, 1])[label], *fold) for fold in folds]
            show(name, epsilon, label, found)
    trees = ExtraTreesClassifier(100, min_samples_leaf=5, n_jobs=2, random_state=0)
    show(name, "-", "extra-trees", [scores(not_private(domain, trees), *fold) for fold in folds])


def regression(n_splits):
    X, y, domain = fetch_california_housing()
    X, y = X.reset_index(drop=True), np.asarray(y, dtype=float)
    for epsilon in EPSILONS:
        found = []
        for seed in range(n_splits):
            a, b, ya, yb = train_test_split(X, y, test_size=0.1, random_state=seed)
            model = LumberjackRegressor(epsilon, domain=domain, y_bounds=(0, 500_001), n_jobs=2).fit(
                a, ya
            )
            found.append(r2_score(yb, model.predict(b)))
        print(
            f"{'housing (R2)':16} {epsilon:>4}  {'joint':12} {np.mean(found):.4f} ± {np.std(found):.4f}",
            flush=True,
        )
    found = []
    for seed in range(n_splits):
        a, b, ya, yb = train_test_split(X.fillna(-1), y, test_size=0.1, random_state=seed)
        forest = not_private(domain, ExtraTreesRegressor(100, n_jobs=2, random_state=0)).fit(a, ya)
        found.append(r2_score(yb, forest.predict(b)))
    print(f"{'housing (R2)':16} {'-':>4}  {'extra-trees':12} {np.mean(found):.4f} ± {np.std(found):.4f}")


def toy():
    for scale in SCALES:
        _, models = train(scale)
        for name, (_, accuracy) in models.items():
            print(f"{f'toy, ranges x{scale}':16} {name:35} {accuracy:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", nargs="*", default=[*DATA, *OTHERS], choices=[*DATA, *OTHERS])
    arguments = parser.parse_args()
    print(f"{'data':16} {'eps':>4}  {'model':12} {'accuracy':17} {'AUC'}")
    for name in arguments.data:
        if name == "housing":
            regression(arguments.splits)
        elif name == "toy":
            toy()
        else:
            classification(name, arguments.splits)


if __name__ == "__main__":
    main()
