"""Exact laziness: small subtrees need not be grown, and the distribution of trees stays the same.

In: the threshold coin and the height. Out: for a subtree of few rows, a random set of places where a
query may pass. The set is almost always empty, and then the subtree need not be grown.

How. A node of q rows passes its query with chance p(q), which is tiny for small q. Take a subtree whose
top node has n rows. Give it a *slot* for each of its rows on each of its levels with queries, and make
each slot a candidate with chance p^ = max over q <= n of 1 - (1 - p(q))^(1/q), independently. A node
owns the slots of its rows on its level, so it has a candidate with chance 1 - (1 - p^)^q >= p(q); if a
node with a candidate is accepted with chance p(q) / (1 - (1 - p^)^q), it passes with chance exactly
p(q). Nodes own different slots, so they pass independently. That is the distribution of one coin for
each node. The number of candidates in the whole subtree is binomial and nearly always 0. It does not
depend on the shape of the subtree below its top node, so it is drawn before anything below is grown.

The draws are exact, like those in ``noise``: p^ is rounded up to a float and taken as that float's exact
value, and draws that 63 bits do not decide are settled with mpmath.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erfc

from lumberjack.noise import (
    BITS,
    Bits,
    Integers,
    Purpose,
    ThresholdCoin,
    Uniform,
    Words,
    exact,
    more_words,
    passing,
    settle,
)

__all__ = ["Thinning"]

_RARE = 2.0**-10  # chance of a candidate below which a subtree is left asleep
_SLACK = 1 + 2.0**-30  # far above the error of the floats that it multiplies


class Thinning:
    """Candidates for passing queries in subtrees of few rows.

    Parameters
    ----------
    coin : ThresholdCoin
        The threshold queries.
    height : int
        Number of levels with queries.

    Attributes
    ----------
    small : int
        Nodes of fewer rows are left asleep. Only speed depends on it.

    Formal guarantees
    -----------------
    For a subtree grown along the candidates that ``draw`` gives, with ``accepts`` asked once for each
    node that owns one and "no" elsewhere, the answers are distributed exactly as those of ``coin``,
    one for each node, independently.
    """

    def __init__(self, coin: ThresholdCoin, height: int) -> None:
        self.coin = coin
        limit = min(coin.largest, max(math.ceil(coin.threshold), coin.cut)) + 1
        q = np.arange(limit + 1, dtype=np.float64)
        p = 0.5 * erfc((coin.threshold - q) / (coin.sigma * math.sqrt(2)))
        p[: coin.cut + 1] = 0.0
        self._passes = p
        with np.errstate(divide="ignore"):
            slot = -np.expm1(np.log1p(-p[1:]) / q[1:])
        # chances[n]: p^ of a subtree of n rows. 1e-300 is above any chance that floats may round to 0.
        chances = np.maximum.accumulate(np.concatenate([[0.0], slot])) * _SLACK
        self.chances = np.where(q > coin.cut, np.maximum(chances, 1e-300), 0.0)
        often = self.chances * q * height > _RARE
        self.small = max(int(np.argmax(often)) if often.any() else len(q), 1)

    def draw(
        self, counts: Integers, levels: Integers, bits: Bits, keys: Words | None
    ) -> list[tuple[int, list[int]]]:
        """Candidates in sleeping subtrees.

        Parameters
        ----------
        counts, levels : ndarray of shape (n,)
            Rows at the top of each subtree, fewer than ``small``, and its levels.

        Returns
        -------
        list of (which, slots)
            Subtrees that have candidates, and their slots, numbered level by level: slot
            j * count + i is row i on level j below the top.
        """
        words = bits.words(len(counts), keys, Purpose.CANDIDATE)
        # The sum of the slots' chances bounds the chance of any candidate: a larger U has none.
        limit = np.minimum(self.chances[counts] * counts * levels * _SLACK, 1.0) * 2.0**BITS
        maybe = np.flatnonzero((words >> np.uint64(1)) <= limit.astype(np.uint64))
        out = []
        for i in maybe[counts[maybe] > self.coin.cut]:
            more = more_words(bits, keys, int(i), Purpose.CANDIDATE)
            n_slots = int(counts[i]) * int(levels[i])
            found = _binomial(n_slots, self.chances[counts[i]], int(words[i]), more)
            if found:
                out.append((int(i), _distinct(n_slots, found, more)))
        return out

    def accepts(self, count: int, most: int, bits: Bits, keys: Words) -> bool:
        """Whether a node of ``count`` rows that owns a candidate passes; its top has ``most`` rows."""
        if count <= self.coin.cut:
            return False
        word = int(bits.words(1, keys, Purpose.THRESHOLD)[0])
        more = more_words(bits, keys, 0, Purpose.THRESHOLD)
        owns = -math.expm1(count * math.log1p(-self.chances[most]))
        u, chance = (word >> 1) / 2.0**BITS, float(self._passes[count]) / owns
        if abs(u - chance) > chance * 2.0**-30 + 2.0**-50:  # far above the error of these floats
            return u < chance
        slot, mp = float(self.chances[most]), exact.mp

        def decide(u: Uniform) -> bool | None:
            passes = passing(self.coin.sigma, self.coin.threshold, count)
            return u.below(passes / (1 - (1 - mp.mpf(slot)) ** count))

        return settle(word, more, decide, _bits_below(slot))


def _bits_below(p: float) -> int:
    """Bits of precision with which 1 - p keeps 128 significant bits of p."""
    return 128 - math.frexp(p)[1]


def _binomial(n: int, p: float, word: int, more: Callable[[], int]) -> int:
    """Successes in n trials: the smallest j with U >= P(more than j), exactly."""
    mp = exact.mp

    def decide(u: Uniform) -> int | None:
        chance = mp.mpf(float(p))
        term = upto = (1 - chance) ** n
        for j in range(n + 1):
            more_than_j = u.below(1 - upto)
            if more_than_j is False or j == n:
                return j
            if more_than_j is None:
                return None
            term *= chance * (n - j) / ((1 - chance) * (j + 1))
            upto += term
        return None

    return settle(word, more, decide, _bits_below(p))


def _distinct(n: int, k: int, more: Callable[[], int]) -> list[int]:
    """k different numbers below n, sorted; every set of k is equally likely."""
    chosen: set[int] = set()
    while len(chosen) < k:
        word = more()
        if word < 2**64 // n * n:
            chosen.add(word % n)
    return sorted(chosen)
