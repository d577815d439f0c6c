"""How should splits be guided? One setting changed at a time, on many tables and budgets.

    LUMBERJACK_DATA=... python -m benchmarks.guided [--rows 40000] [--splits 2] [--settings ...]

Every setting runs the library itself, priced as the library prices it, with one of its constants
replaced. Shown: AUC (one class against the others), the mean over tables and splits for
each epsilon, and each table at epsilon = 1.
The result is in docs/guided.md.
"""

import argparse
import math
from contextlib import nullcontext
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import lumberjack.guided
import lumberjack.planning
import lumberjack.training
from lumberjack import Domain, LumberjackClassifier
from lumberjack.datasets import fetch_acs, fetch_adult
from lumberjack.guided import Guide

EPSILONS = (0.1, 1.0, 8.0)


def noisy_adult():
    """Adult and 20 columns that mean nothing."""
    X, y, domain = fetch_adult()
    rng = np.random.default_rng(5)
    more = pd.DataFrame(rng.random((len(X), 20)), columns=[f"noise{i}" for i in range(20)])
    columns = {name: domain[name] for name in domain}
    return pd.concat([X, more], axis=1), y, Domain({**columns, **dict.fromkeys(more, (0, 1))})


def occupations():
    """Seven classes: the occupation of the people in Adult, the rarer ones put together."""
    X, _, domain = fetch_adult()
    frequent = X["occupation"].value_counts().index[:6]
    y = X["occupation"].where(X["occupation"].isin(frequent), "other").fillna("other")
    kept = [name for name in domain if name != "occupation"]
    return X[kept], y, Domain({name: domain[name] for name in kept})


def synthetic(n, n_columns, seed):
    def make():
        X, y = make_classification(
            n, n_columns, n_informative=5, flip_y=0.05, n_clusters_per_class=2, random_state=seed
        )
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(n_columns)])
        return frame, y, Domain(dict.fromkeys(frame.columns, (-10, 10)))

    return make


def rare():
    """One row in twenty is positive."""
    X, y, domain = fetch_acs("income", "CA")
    keep = np.random.default_rng(3).random(len(X)) < 0.12
    return X, (np.asarray(y).astype(bool) & keep).astype(int), domain


TABLES = {
    "adult": fetch_adult,
    "income": lambda: fetch_acs("income", "CA"),
    "public_coverage": lambda: fetch_acs("public_coverage", "CA"),
    "employment": lambda: fetch_acs("employment", "MA"),
    "adult+noise": noisy_adult,
    "occupations": occupations,
    "rare": rare,
    "synthetic10": synthetic(20_000, 10, 2),
    "synthetic30": synthetic(50_000, 30, 1),
}


class Sloped(Guide):
    """A larger exponent deeper down, where fewer rows decide; the squares add up to the same."""

    slope = 1.0

    def choose(self, bins, tree, node, offered, bits):
        weights = 2.0 ** (self.slope * np.arange(self.levels))
        factor = math.sqrt(weights[tree.nodes.level[node]] / weights.mean())
        steeper = Guide(self.score, self.exponent * factor, self.levels)
        return steeper.choose(bins, tree, node, offered, bits)


def constant(module, name, value):
    return mock.patch.object(module, name, value)


def share(choice, pruning):
    """Of mu^2, for choices and for pruning; the rest is for leaves."""
    return constant(lumberjack.planning, "_CHOICE_PART", choice / (choice + pruning)), {
        "structure_share": choice + pruning
    }


def settings():
    """Name of each setting: what it replaces, and parameters."""
    levels = {
        f"{n} guided levels": (constant(lumberjack.planning, "GUIDED_LEVELS", n), {}) for n in (2, 4, 8)
    }
    shares = {
        f"shares {c:g}/{p:g}/{1 - c - p:g}": share(c, p)
        for c, p in ((0.15, 0.35), (0.2, 0.4), (0.4, 0.3), (0.5, 0.25), (0.3, 0.25), (0.3, 0.45))
    }
    offered = {
        name: (constant(lumberjack.guided, "offered_share", value), {})
        for name, value in {
            "half of the columns": lambda n: 0.5,
            "all columns": lambda n: 1.0,
            "half of sqrt": lambda n: 0.5 / math.sqrt(n),
        }.items()
    }
    nothing = nullcontext()
    return {
        "default": (nothing, {}),
        "random splits": (nothing, {"splits": "random"}),
        **levels,
        **shares,
        **offered,
        "10 trees": (nothing, {"n_estimators": 10}),
        "40 trees": (nothing, {"n_estimators": 40}),
        "depth 31": (nothing, {"max_depth": 31}),
        "exponents rise with depth": (constant(lumberjack.training, "Guide", Sloped), {}),
    }


def measure(fetch, epsilon, parameters, n_rows, seed):
    X, y, domain = fetch()
    y = np.asarray(y)
    a, b, ya, yb = train_test_split(
        X, y, train_size=min(n_rows, int(0.9 * len(X))), test_size=min(20_000, int(0.1 * len(X))),
        random_state=seed, stratify=y,
    )  # fmt: skip
    shared = {"domain": domain, "leaf": "counts", "n_jobs": 2, **parameters}
    model = LumberjackClassifier(epsilon, classes=np.unique(y), **shared).fit(a, ya)
    chances = model.predict_proba(b)
    if chances.shape[1] == 2:
        return roc_auc_score(yb, chances[:, 1])
    return np.mean([roc_auc_score(yb == c, chances[:, i]) for i, c in enumerate(model.classes_)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--settings", nargs="*", default=list(settings()))
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    arguments = parser.parse_args()
    loaded = {name: TABLES[name]() for name in arguments.tables}
    tables = {name: (lambda found=found: found) for name, found in loaded.items()}
    print("| setting | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " | mean | "
          + " | ".join(f"{n}, ε = 1" for n in tables) + " |")  # fmt: skip
    print("|---|" + "---|" * (len(EPSILONS) + 1 + len(tables)), flush=True)
    for name in arguments.settings:
        change, parameters = settings()[name]
        with change:
            found = np.array(
                [
                    [
                        np.mean([
                            measure(fetch, e, parameters, arguments.rows, s)
                            for s in range(arguments.splits)
                        ])
                        for e in EPSILONS
                    ]
                    for fetch in tables.values()
                ]
            )  # fmt: skip
        cells = [*found.mean(axis=0), found.mean(), *found[:, 1]]
        print(f"| {name} | " + " | ".join(f"{c:.4f}" for c in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
