"""Noise without floating-point holes: rounded Gaussians and threshold coins, sampled exactly.

In: noise parameters, counts, random bits. Out: integers and coins whose distribution is *exactly* the
one that the accounting prices, not one close to it.

How. A uniform number U in [0, 1) is revealed bit by bit and compared with a probability p (a coin)
or with a table of tail probabilities (a Gaussian). The first 63 bits are compared with integers
``lower <= p 2^63 <= upper`` that come from a float table and its error bound; they decide all but
about one draw in 10^11 (coins) or 10^12 / sigma (Gaussians). The rest draw more bits and are settled
with ``mpmath`` at whatever precision it takes, so tails of 1e-300 are as exact as the centre.

Rounding a real Gaussian to the nearest integer and adding it to an integer count is post-processing
of the ideal Gaussian mechanism, so its price needs no correction. A *threshold* must be compared with
the unrounded noise, which is why coins have a table of their own.

Why not OpenDP's discrete Gaussian sampler: it is exact as well, but it takes 10 to 20 microseconds per
draw, and its distribution is not the one priced here. This sampler takes about 0.03 microseconds
(``python -m benchmarks.core`` measures both).
"""

import hashlib
import math
import numbers
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc, erfcinv
from sklearn.utils import check_random_state

from lumberjack.accounting.checks import check_real
from lumberjack.kernels import kernel

__all__ = [
    "BITS",
    "Bits",
    "ExponentialChoice",
    "Purpose",
    "RoundedGaussian",
    "ThresholdCoin",
    "Uniform",
    "below",
    "exact",
    "mix",
    "mix_keys",
    "more_words",
    "passing",
    "seed_from",
    "settle",
]

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]

BITS = 63  # of a 64-bit word; the last bit is a Gaussian's sign
_ONE = 2.0**BITS
_RELATIVE_ERROR = 2.0**-40  # of erfc and of its argument together; tests see less than 2^-44
_REACH = 9.4  # beyond this many sigmas a tail is below 2^-64: left to the exact path
_TABLE_SIGMA = 2**18  # above this a table does not pay; every draw takes the exact path
_FAR = 80.0  # options whose log weight is this far below the best one's are left to the exact path
_BLOCK = 1 << 16
_UNDECIDED = np.iinfo(np.int64).min
_LARGEST_COUNT = 2**52  # counts must be exact as floats


class Purpose(IntEnum):
    """What a draw is for, so that two draws at one node never share seeded bits."""

    THRESHOLD = 1
    COUNT = 2
    SUM = 3
    LABEL = 4
    PERSON = 5
    CANDIDATE = 6
    SPLIT = 7
    CUT = 8
    PLACE = 9


@dataclass(frozen=True)
class Bits:
    """Random bits: the operating system's, or a pure function of (seed, key, purpose, position).

    Parameters
    ----------
    seed : int or None
        None draws from ``os.urandom``. An integer makes every draw repeatable: whoever knows it can
        subtract the noise, so a result drawn this way is not private.

    Formal guarantees
    -----------------
    Unseeded words are independent and uniform as far as the operating system's generator is.
    Seeded words depend on nothing but (seed, key, purpose, position): not on the order of calls.
    """

    seed: int | None = None

    def words(self, size: int, keys: Words | None, purpose: Purpose, position: int = 0) -> Words:
        """Return ``size`` words of 64 bits; ``position`` counts the words that a draw used before."""
        if self.seed is None:
            return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
        if keys is None or len(keys) != size:
            raise ValueError("seeded noise needs one key for each draw")
        digest = hashlib.blake2b(str(self.seed).encode(), digest_size=8, person=b"lumberjack noise")
        state = np.full(size, int.from_bytes(digest.digest(), "little"), dtype=np.uint64)
        for part in (keys, np.uint64(purpose), np.uint64(position)):
            state = mix_keys(state, part)
        return state


def seed_from(random_state: Any) -> int | None:
    """Turn scikit-learn's ``random_state`` into the seed of ``Bits``; None stays None."""
    if random_state is None or isinstance(random_state, numbers.Integral):
        return None if random_state is None else int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    return int(check_random_state(random_state).randint(2**31))


def _mix(x: Any) -> Any:
    """Spread every bit over the word (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


mix: Callable[[Any], np.uint64] = kernel(_mix)  # for one word; ``_mix`` itself takes arrays


def mix_keys(above: Words, below: Words | np.uint64) -> Words:
    """Key of a node, from its parent's key and a number that tells it from its siblings."""
    with np.errstate(over="ignore"):
        mixed = _mix(above ^ _mix(below + np.uint64(0x9E3779B97F4A7C15)))
    return np.asarray(mixed, dtype=np.uint64)


def certified_bounds(p: NDArray[np.float64]) -> tuple[Words, Words]:
    """Integers with lower <= true p * 2^63 <= upper, for p known to a relative 2^-40 (or 1e-300)."""
    lower = p * (_ONE * (1 - _RELATIVE_ERROR))  # conversion to integers rounds down
    upper = np.minimum(p * (_ONE * (1 + _RELATIVE_ERROR)) + 1, _ONE)
    return lower.astype(np.uint64), upper.astype(np.uint64)


def _tail_table(
    size: int,
    scale: float,
    argument: Callable[[Integers], NDArray[np.floating]],
    factor: float = 1.0,
) -> tuple[Words, Words]:
    """Bounds of factor * erfc(argument(i) / scale), i < size, block by block to stay in cache.

    ``argument`` must round at most once: its relative error is part of ``_RELATIVE_ERROR``.
    """
    lower, upper = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.uint64)
    for block in _blocks(size):
        i = np.arange(block.start, block.stop)
        lower[block], upper[block] = certified_bounds(factor * erfc(argument(i) / scale))
    return lower, upper


class RoundedGaussian:
    """round(N(0, sigma^2)), sampled exactly.

    The magnitude exceeds x with probability S(x) = erfc((x + 1/2) / (sigma sqrt 2)); it is the
    smallest x with U >= S(x). The sign is a bit of its own.

    Parameters
    ----------
    sigma : float
        Standard deviation before rounding, positive and finite. Taken as the exact binary fraction
        that the float is.

    Formal guarantees
    -----------------
    Each draw has probability exactly Phi((x + 1/2)/sigma) - Phi((x - 1/2)/sigma) of being x, for
    every integer x, given uniform bits. Added to an integer count of sensitivity 1 it is
    1/sigma-GDP: rounding commutes with adding an integer, so the release is post-processing of the
    real Gaussian mechanism. Running time depends on the draw, never on a count.
    """

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma = _check_sigma(sigma)
        size = math.ceil(_REACH * sigma) + 2 if sigma <= _TABLE_SIGMA else 0
        lower, self._upper = _tail_table(size, sigma * math.sqrt(2), lambda x: x + 0.5)
        # The scan below stops at the first x that is not surely exceeded: keep the bound monotone.
        self._lower = np.minimum.accumulate(lower)
        # Where that scan may start, for each value of the first 16 bits.
        bucket_end = np.arange(1, 2**16 + 1, dtype=np.uint64) << np.uint64(BITS - 16)
        self._start = size - np.searchsorted(self._lower[::-1], bucket_end)

    def draw(
        self, size: int, bits: Bits, keys: Words | None = None, purpose: Purpose = Purpose.COUNT
    ) -> Integers:
        """Draw ``size`` integers. ``keys``, shape (size,), identify the draws when bits are seeded."""
        out = np.empty(size, dtype=np.int64)
        for block in _blocks(size):
            some = None if keys is None else keys[block]
            words = bits.words(block.stop - block.start, some, purpose)
            _scan(words, self._lower, self._upper, self._start, out[block])
            for i in np.flatnonzero(out[block] == _UNDECIDED):
                more = more_words(bits, some, int(i), purpose)
                out[block.start + i] = _settle_gaussian(self.sigma, int(words[i]), more)
        return out


class _Coins(NamedTuple):
    """Chances of passing, as ``_toss`` reads them: row i is for count cut + 1 + i."""

    cut: int
    sure: int
    top: int
    lower: Words
    upper: Words


class ThresholdCoin:
    """The answer to "count + N(0, sigma^2) > threshold", sampled exactly and without any noise.

    A count q passes with probability p(q) = 1 - Phi((threshold - q)/sigma).

    Parameters
    ----------
    sigma, threshold : float
        Noise and threshold, taken as the exact binary fractions that they are.
    cut : int
        Counts up to here never pass.
    sure : int or None
        Counts from here on always pass (the two-sided variant); None: no such count.
    largest : int
        The largest count that may be asked about: it sizes the table.

    Formal guarantees
    -----------------
    For each query independently: "yes" has probability 0 for q <= cut, 1 for q >= sure, and exactly
    p(q) otherwise, given uniform bits. That is the paper's Algorithm 2, whose price is
    ``accounting.joint_delta`` when threshold >= cut + 1 + Delta.
    """

    def __init__(
        self, sigma: float, threshold: float, *, cut: int, largest: int, sure: int | None = None
    ) -> None:
        self.sigma, self.threshold = _check_sigma(sigma), check_real("threshold", threshold)
        if not abs(threshold) <= _LARGEST_COUNT or not 0 <= largest <= _LARGEST_COUNT:
            raise ValueError(
                f"threshold and largest must be at most 2^52, got {threshold:g}, {largest:g}"
            )
        self.cut, self.largest = int(cut), int(largest)
        self.sure = np.iinfo(np.int64).max if sure is None else int(sure)
        # From here on "no" is rarer than 2^-64, and the last row serves all larger counts.
        certain = math.ceil(threshold + _REACH * sigma) + 1
        top, first = max(self.cut + 1, min(int(largest), certain)), self.cut + 1
        lower, upper = _tail_table(
            top - self.cut, sigma * math.sqrt(2), lambda i: threshold - (i + first), 0.5
        )
        self._table = _Coins(self.cut, self.sure, top, lower, upper)

    def draw(self, counts: Integers, bits: Bits, keys: Words | None = None) -> NDArray[np.bool_]:
        """Toss one coin for each count, shape (n,). ``keys`` identify the coins when bits are seeded."""
        counts = _check_counts(counts, self.largest)
        out = np.empty(len(counts), dtype=np.int8)
        for block in _blocks(len(counts)):
            some = None if keys is None else keys[block]
            words = bits.words(block.stop - block.start, some, Purpose.THRESHOLD)
            _toss(words, counts[block], self._table, out[block])
            for i in np.flatnonzero(out[block] == 2):
                more = more_words(bits, some, int(i), Purpose.THRESHOLD)
                q = int(counts[block.start + i])
                passes = _settle_coin(self.sigma, self.threshold, q, int(words[i]), more)
                out[block.start + i] = passes
        return out.astype(np.bool_)


class ExponentialChoice:
    """One of several options, with probability proportional to weight * exp(exponent * score), exactly.

    Parameters
    ----------
    exponent : float
        Positive and finite, taken as the exact binary fraction that it is.

    Formal guarantees
    -----------------
    Each row chooses option c with probability exactly weight_c exp(exponent * score_c) / sum, given
    uniform bits. Weights are public. If one record moves the integer scores of all options within an
    interval of width w, the choice is (exponent * w)-bounded-range; with class counts as scores w = 1,
    which is exponent^2/8-zCDP (``accounting.exponential_rho``).
    """

    def __init__(self, exponent: float) -> None:
        self.exponent = check_real("exponent", exponent)
        if not 0 < exponent < 1e6:
            raise ValueError(f"exponent must be positive and finite, got {exponent:g}")

    def draw(
        self,
        scores: Integers,
        bits: Bits,
        keys: Words | None = None,
        *,
        weights: NDArray[np.float64] | None = None,
        purpose: Purpose = Purpose.LABEL,
    ) -> Integers:
        """Choose a column for each row of ``scores``, shape (n, n_options).

        ``weights``, of the same shape, are taken as the exact fractions that they are; the largest of
        each row must be above 1e-200. None: equal weights.
        """
        weights = np.ones(scores.shape) if weights is None else weights
        if not (weights.max(axis=1, initial=0.0) > 1e-200).all():
            raise ValueError("each row needs a weight that floats hold exactly, above 1e-200")
        least = np.iinfo(np.int64).min
        most = np.where(weights > 0, scores, least).max(axis=1, keepdims=True)
        gap = np.where(weights > 0, scores - most, 0).astype(np.float64)
        weight = weights * np.exp(self.exponent * gap)
        below = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
        # exp(-x) has relative error x 2^-52 and x e^-x < 1: each weight adds far less than 2^-40.
        slack = scores.shape[1] * _RELATIVE_ERROR
        lower = np.maximum(below - slack, 0.0) * _ONE
        upper = (below + slack) * _ONE + 1
        upper[:, -1] = np.inf  # the last option ends at 1: a U that close is settled exactly
        words = bits.words(len(scores), keys, purpose)
        u = (words >> np.uint64(1)).astype(np.float64)[:, None]  # rounding is far below the slack
        choice = (u >= lower).sum(axis=1)
        for i in np.flatnonzero((u >= lower).sum(axis=1) != (u >= upper).sum(axis=1)):
            more = more_words(bits, keys, int(i), purpose)
            options = np.flatnonzero(weights[i] > 0)
            found = _settle_choice(
                self.exponent,
                scores[i, options].tolist(),
                weights[i, options].tolist(),
                int(words[i]),
                more,
            )
            choice[i] = options[found]
        return np.asarray(choice, dtype=np.int64)

    def draw_one(
        self, scores: Integers, weights: Integers, bits: Bits, key: Words | None, purpose: Purpose
    ) -> int:
        """Choose one of many options, as ``draw`` does from one row; weights are integers, some above 0.

        Only options near the best are considered, unless the random bits fall where others could matter.
        """
        options = np.flatnonzero(weights > 0)
        gap = (scores[options] - scores[options].max()).astype(np.float64)
        close = self.exponent * gap > -_FAR
        near = options[close]
        sizes = weights[near] * np.exp(self.exponent * gap[close])
        below = np.cumsum(sizes)
        # Each size has relative error below 2^-45, their n - 1 additions below n 2^-52 together, and all
        # other options weigh at most e^-80 each, times their weight.
        others = float(weights[options].sum()) * math.exp(-_FAR)
        slack = 2.0**-43 + len(near) * 2.0**-51 + others / below[-1]
        below /= below[-1]
        word = int(bits.words(1, key, purpose)[0])
        u = float(word >> 1) / _ONE
        first = int(np.searchsorted(below + slack, u, "right"))
        last = int(np.searchsorted(below - slack, u, "right"))
        if first == last < len(near):
            return int(near[first])
        more = more_words(bits, key, 0, purpose)
        scored, weighed = scores[options].tolist(), weights[options].tolist()
        return int(options[_settle_choice(self.exponent, scored, weighed, word, more)])


@kernel
def _scan(words: Words, lower: Words, upper: Words, start: Integers, out: Integers) -> None:
    for i in range(len(words)):
        u = words[i] >> np.uint64(1)
        x = start[u >> np.uint64(47)]
        while x < len(lower) and u < lower[x]:  # U < S(x) for certain: the magnitude exceeds x
            x += 1
        if x == len(lower) or u < upper[x]:
            out[i] = _UNDECIDED
        else:
            out[i] = -x if words[i] & np.uint64(1) else x


@kernel
def _toss(words: Words, counts: Integers, coins: _Coins, out: NDArray[np.int8]) -> None:
    for i in range(len(words)):
        q = counts[i]
        if q <= coins.cut:
            out[i] = 0
        elif q >= coins.sure:
            out[i] = 1
        else:
            row = min(q, coins.top) - coins.cut - 1
            u = words[i] >> np.uint64(1)
            if u < coins.lower[row]:
                out[i] = 1
            elif u >= coins.upper[row]:
                out[i] = 0
            else:
                out[i] = 2


class _Exact(threading.local):
    """A multi-precision context for each thread: mpmath's global one is shared, precision and all."""

    def __init__(self) -> None:
        self.mp = mpmath.mp.clone()


exact = _Exact()


class Uniform(NamedTuple):
    """A uniform number in [0, 1) as far as it is revealed: in [value, value + 1) / 2^length."""

    value: int
    length: int

    def below(self, p: Any) -> bool | None:
        """Whether the number is below a probability, or None while its bits do not decide.

        A comparison needs a margin of 2^-32 of the last bit, far above the error of mpmath.
        """
        mp = exact.mp
        edge, slack = p * mp.mpf(2) ** self.length, mp.mpf(2) ** -32
        if self.value + 1 <= edge - slack:
            return True
        return False if self.value >= edge + slack else None


T = TypeVar("T")


def settle(
    word: int, more: Callable[[], int], decide: Callable[[Uniform], T | None], precision: int = 128
) -> T:
    """The exact path: decide by a uniform number, whose first 63 bits are in ``word``.

    Probabilities are computed with ``precision`` more bits than the number has. If its bits do not
    decide, the number gets another 64; each round is needed with chance < 2^-30.
    """
    u = Uniform(word >> 1, BITS)
    while True:
        with exact.mp.workprec(u.length + precision):
            found = decide(u)
        if found is not None:
            return found
        u = Uniform((u.value << 64) | more(), u.length + 64)


def _settle_gaussian(sigma: float, word: int, more: Callable[[], int]) -> int:
    x = settle(word, more, lambda u: _magnitude(sigma, u))
    return -x if word & 1 else x


def _magnitude(sigma: float, u: Uniform) -> int | None:
    """Smallest x with U >= S(x), or None while U's bits do not decide."""
    mp = exact.mp
    scale = mp.mpf(sigma) * mp.sqrt(2)

    def tail(x: int) -> Any:
        return mp.erfc((x + mp.mpf(0.5)) / scale)

    def exceeds(x: int) -> bool:
        return x < 0 or u.below(tail(x)) is True

    first = u.value / 2**u.length
    # If the float is 0, erfc(y) <= exp(-y^2) gives a first guess.
    guess = float(erfcinv(first)) if first > 0 else math.sqrt(u.length * math.log(2))
    low = high = round(guess * math.sqrt(2) * sigma)
    step = 1
    while not exceeds(low):
        low, step = low - step, 2 * step
    step = 1
    while exceeds(high):
        high, step = high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high if u.below(tail(high)) is False else None


def _settle_coin(sigma: float, threshold: float, q: int, word: int, more: Callable[[], int]) -> bool:
    def decide(u: Uniform) -> bool | None:
        return u.below(passing(sigma, threshold, q))

    return settle(word, more, decide)


def passing(sigma: float, threshold: float, q: int) -> Any:
    """Chance that q + N(0, sigma^2) exceeds the threshold, at the current precision of mpmath."""
    mp = exact.mp
    return mp.erfc((mp.mpf(threshold) - q) / (mp.mpf(sigma) * mp.sqrt(2))) / 2


def _settle_choice(
    exponent: float, scores: list[int], weights: list[float], word: int, more: Callable[[], int]
) -> int:
    mp, most, last = exact.mp, max(scores), len(scores) - 1

    def decide(u: Uniform) -> int | None:
        sizes = [
            mp.mpf(weight) * mp.exp(mp.mpf(exponent) * (score - most))
            for score, weight in zip(scores, weights, strict=True)
        ]
        total, below = mp.fsum(sizes), mp.mpf(0)
        for c, weight in enumerate(sizes):
            first, below = below / total, below + weight
            above = c == 0 or u.below(first) is False
            if above and (c == last or u.below(below / total) is True):
                return c
        return None

    return settle(word, more, decide)


def below(bound: int, bits: Bits, key: Words | None, purpose: Purpose) -> int:
    """A uniform integer from 0 to bound - 1, exactly, for a bound of at most 2^63."""
    position, most = 0, 2**64 - 2**64 % bound  # words from here on would favour small numbers
    while True:
        word = int(bits.words(1, key, purpose, position)[0])
        if word < most:
            return word % bound
        position += 1


def more_words(bits: Bits, keys: Words | None, i: int, purpose: Purpose) -> Callable[[], int]:
    """Words 1, 2, ... of draw i, whose word 0 did not decide."""
    key = None if keys is None else keys[i : i + 1]
    position = 0

    def more() -> int:
        nonlocal position
        position += 1
        return int(bits.words(1, key, purpose, position)[0])

    return more


def _blocks(size: int) -> list[slice]:
    return [slice(s, min(s + _BLOCK, size)) for s in range(0, size, _BLOCK)]


def _check_sigma(sigma: float) -> float:
    sigma = check_real("sigma", sigma)
    if not 1e-9 <= sigma <= 1e15:
        raise ValueError(f"sigma must lie between 1e-9 and 1e15, got {sigma:g}")
    return sigma


def _check_counts(counts: Integers, largest: int) -> Integers:
    counts = np.asarray(counts)
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise ValueError("counts must be a one-dimensional array of integers; round or cast them first")
    if counts.size and counts.min() < 0:
        raise ValueError("counts must not be negative")
    if counts.size and counts.max() > largest:
        raise ValueError("counts must not exceed largest")
    return counts.astype(np.int64, copy=False)
