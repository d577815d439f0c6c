"""How good probabilities of classes are: accuracy, AUC, Brier score, and how reliable they are.

In: probabilities of rows, and the position of each row's true class. Out: plain numbers.
"""

import numpy as np
from sklearn.metrics import roc_auc_score

BINS = 10  # of about equal numbers of rows


def of_classes(shares, target) -> dict[str, float]:
    """All scores of probabilities, shape (n_rows, n_classes); ``target`` holds positions of classes."""
    n_classes = shares.shape[1]
    if n_classes == 2:
        auc = roc_auc_score(target == 1, shares[:, 1])
    else:
        auc = roc_auc_score(target, shares, multi_class="ovr", labels=np.arange(n_classes))
    return {
        "accuracy": float(np.mean(shares.argmax(axis=1) == target)),
        "auc": float(auc),
        "brier": brier(shares, target),
        "ece": reliability_error(shares, target),
    }


def brier(shares, target) -> float:
    """Half the mean squared distance from the truth: of two classes, that of either one."""
    return float(np.mean(((shares - np.eye(shares.shape[1])[target]) ** 2).sum(axis=1)) / 2)


def reliability_error(shares, target) -> float:
    """Expected calibration error: how far what is said is from what happens, over bins of rows.

    Of two classes it is about the second one, of more about the class that is predicted. Rows of equal
    probability share a bin.
    """
    if shares.shape[1] == 2:
        said, right = shares[:, 1], target == 1
    else:
        said, right = shares.max(axis=1), shares.argmax(axis=1) == target
    cuts = np.unique(np.quantile(said, np.arange(1, BINS) / BINS))
    bins = np.searchsorted(cuts, said, side="left")
    gaps = np.bincount(bins, weights=said - right)
    return float(np.abs(gaps).sum() / len(said))
