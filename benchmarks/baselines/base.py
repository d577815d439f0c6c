"""What every compared system looks like, and the public domain as plain numbers.

In: a frame, labels, the public domain, the public classes, epsilon and a generator. Out: class scores.
"""

import hashlib
from typing import Any, Literal

import numpy as np

from lumberjack.kinds import Categorical, Numeric

Claim = Literal["proved", "reserve", "broken", "none"]
DELTA = 1e-6  # for the systems that need one


class Baseline:
    """One system: ``fit`` on raw rows, then ``predict`` and ``predict_proba``.

    Attributes
    ----------
    name : str
        As in the tables.
    claim : {"proved", "reserve", "broken", "none"}
        Whether its (epsilon, delta)-DP claim holds: it does, it does with a reserve that the docstring
        names, its proof is wrong, or it makes none. Neighbours differ by one row, added or removed.
    reason : str
        One line on the claim, for the results.
    settings : str
        One line on the settings, for the results.
    version : int
        To be raised with every change of what the system predicts: its finished cells are run again.
    """

    name = ""
    claim: Claim = "none"
    reason = ""
    settings = ""
    version = 1
    needs = ""  # package that must be installed
    trial: dict[str, Any] = {}  # noqa: RUF012  # settings for a quick fit, before the one that is timed

    def identity(self, epsilon) -> str:
        """What a result is valid for: it changes when the system may predict something else."""
        return str(self.version)

    def fit(self, X, y, domain, classes, epsilon, rng, validation=None):
        """Train; ``validation`` is (X, y) of the validation split, for systems that are tuned on it."""
        self.domain = domain
        self.classes = np.sort(np.asarray(classes))
        target = np.searchsorted(self.classes, np.asarray(y))
        if validation is not None:
            validation = validation[0], np.searchsorted(self.classes, np.asarray(validation[1]))
        self._fit(X, target, epsilon, rng, validation)
        return self

    def predict_proba(self, X):
        """Scores of the classes, shape (n_rows, n_classes), each row adding up to 1."""
        scores = self._scores(X)
        total = scores.sum(axis=1, keepdims=True)
        return np.where(total > 0, scores / np.where(total > 0, total, 1.0), 1 / scores.shape[1])

    def predict(self, X):
        """Class with the largest score."""
        return self.classes[self.predict_proba(X).argmax(axis=1)]


def digest(*parts) -> str:
    """A short name for arrays and numbers, the same whatever the last digits are."""
    text = repr([np.round(np.asarray(part, dtype=float), 6).tolist() for part in parts])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def values_of(X, domain):
    """The rows as numbers, shape (n_rows, n_features).

    Numbers are clipped to their range (a missing one is its middle), categories become 0, 1, ... in the
    order of the domain, and unknown ones the last of them.
    """
    codes = domain.encode(X)
    out = np.empty(codes.shape)
    for j, (name, kind) in enumerate(zip(domain, domain.kinds, strict=True)):
        if isinstance(kind, Categorical):
            out[:, j] = np.minimum(codes[:, j], kind.size - 1)
        else:
            column = X[:, j] if isinstance(X, np.ndarray) else X[name].to_numpy()
            column = column.astype(float)
            middle = (kind.low + kind.high) / 2
            out[:, j] = np.clip(np.where(np.isnan(column), middle, column), kind.low, kind.high)
    return out


def bounds_of(domain):
    """Lowest and highest value of each column of ``values_of``."""
    low = [kind.low if isinstance(kind, Numeric) else 0 for kind in domain.kinds]
    high = [kind.high if isinstance(kind, Numeric) else kind.size - 1 for kind in domain.kinds]
    return np.array(low, dtype=float), np.array(high, dtype=float)


def is_categorical(domain):
    """Which columns are categorical, shape (n_features,)."""
    return np.array([isinstance(kind, Categorical) for kind in domain.kinds])


def gumbel_choice(exponents, rng):
    """The exponential mechanism: one index, with probability proportional to exp(exponents)."""
    return int(np.argmax(exponents + rng.gumbel(size=len(exponents))))
