"""How should trees vote? Accuracy and AUC of the same pruned forests, read in several ways.

    LUMBERJACK_DATA=... python -m benchmarks.voting

Guided forests of 20 trees, delta = 1e-6, three splits, at most 80,000 training rows. Every way is a
function of the leaves alone. The result is in docs/voting.md.
"""

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.problems import FOUR, PROBLEMS
from lumberjack import LumberjackClassifier
from lumberjack.old_votes import log_shares

EPSILONS = (0.5, 1.0, 4.0)
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


def geometric(model, leaves):
    """Shares drawn towards those of the nodes above, and their geometric mean: files up to version 5."""
    noise, total = model.guarantee_.leaf_noise, 0.0
    for number, (tree, counts) in enumerate(zip(model.forest_.trees, model.forest_.values, strict=True)):
        total = total + log_shares(tree, counts, noise)[leaves[:, number]]
    return np.exp(total / len(model.forest_.trees))


WAYS = {
    "pooled counts": raw(1.0),
    "shares by size^1/4": raw(0.25),
    "smoothed, geometric mean": geometric,
}


def main():
    names = ["mean of shares", *WAYS]
    mean = {name: [] for name in names}
    print("| data | ε | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for data in FOUR:
        X, y, domain = PROBLEMS[data].fetch()
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
                model = LumberjackClassifier(
                    epsilon, domain=domain, classes=[0, 1], leaf="counts", n_jobs=2
                ).fit(a, ya)
                leaves = model.apply(b)
                said = {name: way(model, leaves) for name, way in WAYS.items()}
                said["mean of shares"] = model.predict_proba(b)
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


if __name__ == "__main__":
    main()
