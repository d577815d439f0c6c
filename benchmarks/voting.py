"""How should trees vote? Noisy class proportions of a leaf, weighted by a power of its noisy size.

    LUMBERJACK_DATA=... python -m benchmarks.voting

Power 0 averages proportions, power 1 pools counts. Accuracy and AUC of the same fitted forests (joint
accounting, 20 trees, delta = 1e-6) under each, over three splits. The result is in docs/voting.md.
"""

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.accuracy import DATA, EPSILONS
from lumberjack import LumberjackClassifier

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
TRAIN = 80_000  # at most: enough to tell the powers apart


def vote(values, leaves, power):
    total = 0.0
    for tree, counts in enumerate(values):
        positive = np.maximum(counts[leaves[:, tree]], 0.0)
        size = positive.sum(axis=1, keepdims=True)
        total = total + positive / np.maximum(size, 1.0) * size**power
    return total


def main():
    mean = {power: [] for power in POWERS}
    print("| data | eps | " + " | ".join(f"power {p:g}" for p in POWERS) + " |")
    print("|---|---|" + "---|" * len(POWERS))
    for name, fetch in DATA.items():
        X, y, domain = fetch()
        y = np.asarray(y)
        y = (y == np.unique(y)[1]).astype(int)
        for epsilon in EPSILONS:
            found = {power: [] for power in POWERS}
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
                for power in POWERS:
                    said = vote(model.forest_.values, leaves, power)
                    score = said[:, 1] / np.maximum(said.sum(axis=1), 1e-9)
                    found[power].append(
                        (np.mean((said[:, 1] > said[:, 0]) == yb), roc_auc_score(yb, score))
                    )
            cells = []
            for power in POWERS:
                accuracy, auc = np.mean(found[power], axis=0)
                mean[power].append((accuracy, auc))
                cells.append(f"{accuracy:.4f}, {auc:.4f}")
            print(f"| {name} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)
    cells = ["{:.4f}, {:.4f}".format(*np.mean(mean[power], axis=0)) for power in POWERS]
    print("| mean | | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
