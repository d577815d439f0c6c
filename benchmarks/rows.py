"""How much data a budget needs: accuracy and AUC on Adult, trained on fewer and fewer rows.

    LUMBERJACK_DATA=... python -m benchmarks.rows

Prints Markdown tables for docs/choosing.md: the mean over five random train-test splits, first with
nothing declared, then with public ranges, categories and classes.
"""

import numpy as np
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from lumberjack import LumberjackClassifier, plan
from lumberjack.datasets import fetch_adult

ROWS = (1000, 2000, 5000, 10_000, 20_000, 40_000)
BUDGETS = (0.5, 1, 4)


def measure(epsilon, n, declared, repetitions=5):
    """Mean accuracy and AUC of models trained on ``n`` rows."""
    X, y, domain = fetch_adult()
    scores = []
    for seed in range(repetitions):
        train, test, y_train, y_test = train_test_split(
            X, y, train_size=n, test_size=8000, stratify=y, random_state=seed
        )
        known = {"domain": domain, "classes": sorted(set(y))} if declared else {}
        model = LumberjackClassifier(epsilon, n_jobs=1, **known)
        said = model.fit(train, y_train).predict_proba(test)
        right = accuracy_score(y_test, model.classes_[said.argmax(axis=1)])
        # A model that learned one class only ranks nothing.
        auc = (
            roc_auc_score(y_test == model.classes_[-1], said[:, -1]) if len(model.classes_) > 1 else 0.5
        )
        scores.append((right, auc))
    return np.mean(scores, axis=0)


def main():
    """Print the tables."""
    for declared in (False, True):
        print("| rows |" + "".join(f" ε = {e:g} |" for e in BUDGETS))
        print("|---|" + "---|" * len(BUDGETS))
        for n in ROWS:
            found = [measure(epsilon, n, declared) for epsilon in BUDGETS]
            print(
                f"| {n:,} |" + "".join(f" {right:.3f}, {auc:.3f} |" for right, auc in found), flush=True
            )
        suggested = [f"{plan(e, 1e-6).suggested_rows:,}" for e in BUDGETS]
        print("| `plan` suggests |" + "".join(f" {s} |" for s in suggested) + "\n")


if __name__ == "__main__":
    main()
