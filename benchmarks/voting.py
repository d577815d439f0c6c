"""How should trees vote? Accuracy and AUC (R2) of the same fitted forests, read in several ways.

    LUMBERJACK_DATA=... python -m benchmarks.voting

Guided forests of 20 trees, delta = 1e-6, three splits, at most 80,000 training rows. Every way but the
last is a function of the leaves alone. The result is in docs/voting.md.
"""

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.accuracy import BOUNDS, DATA, EPSILONS
from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.voting import log_shares, means

TRAIN = 80_000


def raw(power):
    """Noisy shares of single leaves, weighted by a power of their noisy size."""

    def vote(model, leaves):
        total = 0.0
        for tree, counts in enumerate(model.forest_.values):
            positive = np.maximum(counts[leaves[:, tree]], 0.0)
            size = positive.sum(axis=1, keepdims=True)
            total = total + positive / np.maximum(size, 1.0) * size**power
        return total

    return vote


def smoothed(geometric):
    """Shares drawn towards those of the nodes above, averaged over trees in one of two ways."""

    def vote(model, leaves):
        noise = model.guarantee_.leaf_noise
        total = 0.0
        for tree, counts in enumerate(model.forest_.values):
            said = log_shares(model.forest_.trees[tree], counts, noise)[leaves[:, tree]]
            total = total + (said if geometric else np.exp(said) - 0.02)
        return np.exp(total / len(model.forest_.trees)) if geometric else total

    return vote


WAYS = {
    "pooled counts": raw(1.0),
    "shares by size^1/4": raw(0.25),
    "smoothed, mean": smoothed(geometric=False),
    "smoothed, geometric mean": smoothed(geometric=True),
}


def numbers():
    """The same for California housing, where leaves release a count and a sum: R2."""
    X, y, domain = DATA["housing"]()
    X, y = X.reset_index(drop=True), np.asarray(y, dtype=float)
    print("\n| housing, ε | pooled sums over pooled counts | smoothed, mean | and calibrated |")
    print("|---|---|---|---|")
    for epsilon in EPSILONS:
        found = []
        for seed in range(10):
            a, b, ya, yb = train_test_split(X, y, test_size=0.1, random_state=seed)
            model = LumberjackRegressor(epsilon, domain=domain, y_bounds=BOUNDS, n_jobs=2).fit(a, ya)
            leaves, trees = model.apply(b), range(model.n_estimators)
            pooled = sum(model.forest_.values[t][leaves[:, t]] for t in trees)
            smooth = sum(
                means(model.forest_.trees[t], model.forest_.values[t], model.guarantee_.leaf_noise)[
                    leaves[:, t], 0
                ]
                for t in trees
            )
            ways = pooled[:, 1] / np.maximum(pooled[:, 0], 1.0), smooth / len(trees)
            found.append(
                [*(r2_score(yb, model.targets_.decode(way)) for way in ways), model.score(b, yb)]
            )
        print(f"| {epsilon:g} | " + " | ".join(f"{r:.4f}" for r in np.mean(found, axis=0)) + " |")


def main():
    names = [*WAYS, "and calibrated"]
    mean = {name: [] for name in names}
    print("| data | ε | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for data, fetch in DATA.items():
        if data == "housing":
            continue
        X, y, domain = fetch()
        y = np.asarray(y)
        y = (y == np.unique(y)[1]).astype(int)
        for epsilon in EPSILONS:
            found = {name: [] for name in names}
            for seed in range(3):
                a, b, ya, yb = train_test_split(
                    X,
                    y,
                    train_size=min(TRAIN, int(0.9 * len(y))),
                    test_size=0.1,
                    stratify=y,
                    random_state=seed,
                )
                model = LumberjackClassifier(epsilon, domain=domain, classes=[0, 1], n_jobs=2).fit(a, ya)
                leaves = model.apply(b)
                said = {name: way(model, leaves) for name, way in WAYS.items()}
                said["and calibrated"] = model.predict_proba(b)
                for name, votes in said.items():
                    share = votes[:, 1] / np.maximum(votes.sum(axis=1), 1e-300)
                    found[name].append((np.mean((share > 0.5) == yb), roc_auc_score(yb, share)))
            cells = []
            for name in names:
                accuracy, auc = np.mean(found[name], axis=0)
                mean[name].append((accuracy, auc))
                cells.append(f"{accuracy:.4f}, {auc:.4f}")
            print(f"| {data} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)
    cells = ["{:.4f}, {:.4f}".format(*np.mean(mean[name], axis=0)) for name in names]
    print("| mean | | " + " | ".join(cells) + " |")
    numbers()


if __name__ == "__main__":
    main()
