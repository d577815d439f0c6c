"""Which sums a step of a fit releases, and the share of each in the step's price.

In: terms, and how much each should get. Out: ``Strategy``: from exact sums of leaves to the sums that
are released, and from those, with noise, back to the sums of leaves. No data comes here.

Neighbouring intervals of a number have similar weights, so where noise is large it is their joint sum
that matters. A noisy sum of eight intervals has a noise of its own; eight noisy intervals add up to
sqrt(8) times as much. So the sums of a number's intervals are released one by one and in groups, and
least squares puts them together (the matrix mechanism of Li et al., PODS 2010).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lumberjack.terms import Term

__all__ = ["Strategy", "unit_covariance"]

Floats = NDArray[np.float64]
_ALONE, _TOGETHER = 0.5, 0.25  # of a term with contrasts: leaves by themselves, and each array of sums


@dataclass(frozen=True, eq=False)
class Strategy:
    """The sums of a step.

    Attributes
    ----------
    sums : sparse array of int64, shape (n_sums, n_leaves)
        Each sum as leaves to add up, of all terms one after the other.
    shares : ndarray of shape (n_sums,)
        Share of each sum in the price: its noise has 1/share of the variance that a single sum would.
    estimates : sparse array, shape (n_leaves, n_sums)
        Least squares estimates of the leaves' sums from noisy ones.
    of_term : ndarray of shape (n_terms,)
        Share of a leaf of each term: estimates have the covariance ``unit_covariance`` over this share.

    Formal guarantees
    -----------------
    A row is in one leaf of each term, and so in one sum of leaves by themselves and in one of each way
    to group them. Its shares add up to at most 1. Sums with noise of variance sigma^2 / share cost as
    much together as one sum with noise sigma. All of this is a function of terms and weights alone.
    """

    sums: Any
    shares: Floats
    estimates: Any
    of_term: Floats

    @classmethod
    def of(cls, terms: Sequence[Term], weights: Floats) -> "Strategy":
        """Divide the price of a step over terms, in proportion to ``weights``."""
        spent = math.fsum(w * _spent(term) for term, w in zip(terms, weights, strict=True))
        # Rounded down: what is added up must not exceed 1.
        of_term = weights / spent * (1 - 2.0**-40)
        shares = [_pattern(term) * share for term, share in zip(terms, of_term, strict=True)]
        sums = sparse.block_diag([_sums(term) for term in terms], format="csr", dtype=np.int64)
        estimates = sparse.block_diag([_estimates(term) for term in terms], format="csr")
        return cls(sums, np.concatenate(shares), estimates, of_term)


def _spent(term: Term) -> float:
    """What one row spends in a term of weight 1."""
    return _ALONE + _TOGETHER * len(term.contrasts) if term.contrasts else 1.0


def _pattern(term: Term) -> Floats:
    """Weight of each sum of a term."""
    if not term.contrasts:
        return np.ones(len(term.sizes))
    n_together = sum(map(len, term.contrasts))
    return np.repeat([_ALONE, _TOGETHER], [len(term.sizes), n_together])


def _sums(term: Term) -> Any:
    """Leaves of each sum, shape (n_sums, n_leaves)."""
    alone = sparse.eye_array(len(term.sizes), dtype=np.int64, format="csr")
    return sparse.vstack([alone, *map(sparse.csr_array, term.contrasts)], format="csr")


def unit_covariance(term: Term) -> Floats:
    """Covariance of the estimates of a term of weight 1: a matrix, or its diagonal without contrasts."""
    if not term.contrasts:
        return np.ones(len(term.sizes))
    sums = _sums(term).toarray()
    return np.asarray(np.linalg.inv(sums.T * _pattern(term) @ sums))


def _estimates(term: Term) -> Any:
    """From noisy sums of a term to its leaves."""
    if not term.contrasts:
        return sparse.eye_array(len(term.sizes), format="csr")
    return unit_covariance(term) @ (_sums(term).toarray().T * _pattern(term))
