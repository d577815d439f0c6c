"""Heavy hitters in trees: which prefixes do many records share?

In: paths and a budget. Out: the prefixes whose counts exceed a threshold, found by the paper's
MarkHeavyHitters (Algorithm 1) with GaussianSparseThreshold (Algorithm 2), and the guarantee.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.accounting.checks import check_count
from lumberjack.guarantee import (
    ALPHABET_INFERRED,
    HEIGHT_INFERRED,
    SEEDED,
    Guarantee,
    Method,
    warn,
)
from lumberjack.noise import Bits, RoundedGaussian, ThresholdCoin, Words, seed_from
from lumberjack.paths import Label, Level, Path, PrefixTree, make_level, plain_label, read_paths
from lumberjack.planning import plan_heavy_hitters
from lumberjack.search import HEAVY, mark_heavy_hitters, search_order, top_down_order

__all__ = ["HeavyHitters", "heavy_hitters"]

Integers = NDArray[np.int64]
Marks = NDArray[np.int8]

_DENSE_LIMIT = 10**7


@dataclass(frozen=True)
class HeavyHitters:
    """What ``heavy_hitters`` releases; it holds nothing else about the data.

    Attributes
    ----------
    prefixes : list of tuple or of str
        The heavy prefixes, sorted. All shorter prefixes of a heavy prefix are in the list as well.
    counts : list of int or None
        A noisy count for each prefix, or None when ``counts=False``.
    guarantee : Guarantee
        The promise behind them.
    sep : str or None
        What separates the labels of a prefix, as given.

    Examples
    --------
    >>> from lumberjack import heavy_hitters
    >>> found = heavy_hitters([("a", "b")] * 3000, height=2, epsilon=1, delta=1e-6)
    >>> found.prefixes, found.counts, found.guarantee.caveats
    ([('a',), ('a', 'b')], None, ())
    """

    prefixes: list[Path]
    counts: list[int] | None
    guarantee: Guarantee
    sep: str | None = None

    def __len__(self) -> int:
        return len(self.prefixes)

    def __str__(self) -> str:
        if not self.prefixes:
            return "(no heavy prefixes)"
        shown: list[str] = []
        above: list[Path] = []
        for i, prefix in enumerate(self.prefixes):
            while above and not self._below(prefix, above[-1]):
                above.pop()
            rest = prefix[len(above[-1]) :] if above else prefix
            text = rest if isinstance(rest, str) else "/".join(map(str, rest))
            # A label may hold line breaks, and must not look like two prefixes.
            text = "".join(c if c.isprintable() else "\ufffd" for c in text)
            number = "" if self.counts is None else f"  {self.counts[i]:,}"
            shown.append("  " * len(above) + text + number)
            above.append(prefix)
        return "\n".join(shown)

    def _below(self, prefix: Path, above: Path) -> bool:
        if isinstance(prefix, str) and isinstance(above, str):
            return prefix.startswith(above + (self.sep or ""))
        return prefix[: len(above)] == above


def heavy_hitters(
    paths: Any,
    *,
    epsilon: float,
    delta: float,
    height: int | None = None,
    threshold: float | None = None,
    method: Method = "sparse",
    counts: bool = False,
    sep: str | None = None,
    alphabet: Sequence[Label] | None = None,
    random_state: Any = None,
) -> HeavyHitters:
    """Find the prefixes that many paths share, with differential privacy.

    Parameters
    ----------
    paths : array of shape (n, height), sequence of tuples, or sequence of str
        One path for each record: rows of integers, tuples of integers and strings, or strings to be
        split at ``sep``.
        Tuples and strings may differ in depth. A record counts for all prefixes of its path.
    epsilon, delta : float
        The budget, for adding or removing one path.
    height : int or None
        Maximum length of a path; longer paths are cut. It must be public: None reads it from the data,
        with a PrivacyLeakWarning and a caveat.
    threshold : float or None
        tau: prefixes of about this many records or more are found. None: the smallest that the budget
        allows.
    method : {"sparse", "two-sided", "gaussian", "top-down"}
        "sparse" is the paper's; "two-sided" never misclassifies by more than its cut-off plus 1;
        "gaussian" asks about every node of a small public tree, empty ones too; "top-down" is the
        baseline that asks about every level.
    counts : bool
        Also release a noisy count for each heavy prefix, within the same budget.
    sep : str or None
        What separates the labels of string paths. A leading separator belongs to the first label.
    alphabet : sequence of labels or None
        The public labels, for method "gaussian" only; other labels end a path. None reads them from
        the data, with a PrivacyLeakWarning and a caveat.
    random_state : int, RandomState, Generator or None
        None draws noise from the operating system. Anything else makes the result repeatable and
        not private: a PrivacyLeakWarning and a caveat say so.

    Returns
    -------
    HeavyHitters
        ``prefixes``, ``counts`` and ``guarantee``.

    Formal guarantees
    -----------------
    (epsilon, delta)-DP under adding or removing one path, by the joint bound with m the query bound
    of the method and, with ``counts``, ``height`` noisy counts per record. Prefixes come out sorted,
    so their order tells nothing. An empty prefix is never released except by "gaussian".

    Examples
    --------
    >>> from lumberjack import heavy_hitters
    >>> visits = ["/docs/api"] * 3000 + ["/docs/faq"] * 2000 + ["/private/note"]
    >>> heavy_hitters(visits, sep="/", height=2, epsilon=1, delta=1e-6).prefixes
    ['/docs', '/docs/api', '/docs/faq']
    """
    height = None if height is None else check_count("height", height)
    if sep is not None and (not isinstance(sep, str) or not sep):
        raise ValueError(f"sep must be a non-empty string, got {sep!r}")
    if not isinstance(counts, bool):
        raise TypeError(f"counts must be True or False, got {counts!r}")
    if alphabet is not None and method != "gaussian":
        raise ValueError(f'alphabet is for method="gaussian" only, got method={method!r}')
    bits = Bits(seed_from(random_state))
    caveats = ((HEIGHT_INFERRED,) if height is None else ()) + (
        (SEEDED,) if bits.seed is not None else ()
    )

    def promise(height: int, caveats: tuple[str, ...] = caveats, nodes: int = 0) -> Guarantee:
        planned = plan_heavy_hitters(
            epsilon,
            delta,
            height,
            method=method,
            counts=counts,
            threshold=threshold,
            dense_nodes=nodes,
        )
        return replace(planned, caveats=caveats)

    promise(height or 1)  # refuses bad parameters before data is read
    labels = None if alphabet is None else [plain_label(label) for label in alphabet]
    if labels is not None:
        _dense_size(len(labels), height or 1)
    tree = read_paths(paths, height, sep)
    if height is None:
        height = max(1, len(tree.levels))
        try:
            promise(height)
        except ValueError:  # its message would reveal the height
            raise ValueError(
                "threshold is too small for the height of these paths; give height="
            ) from None
    if method == "gaussian":
        caveats += (ALPHABET_INFERRED,) if labels is None else ()
        tree, n_nodes = _dense(tree, height, labels)
        guarantee = promise(height, caveats, n_nodes)
    else:
        guarantee = promise(height)
    for problem in (*guarantee.weaknesses, *(f"guarantee has a caveat: {text}" for text in caveats)):
        warn(problem)

    keys = None if bits.seed is None else tree.keys()
    marks = mark_privately(tree.levels, guarantee, bits, keys)
    heavy = [np.flatnonzero(mark == HEAVY) for mark in marks]
    found = tree.prefixes(heavy)
    noisy = _noisy_counts(guarantee, tree, heavy, bits, keys) if counts else None
    canonical = sorted(range(len(found)), key=lambda i: [(isinstance(v, str), v) for v in found[i]])
    return HeavyHitters(
        [tree.join(found[i]) for i in canonical],
        None if noisy is None else [noisy[i] for i in canonical],
        guarantee,
        sep,
    )


def mark_privately(
    levels: list[Level], guarantee: Guarantee, bits: Bits, keys: Sequence[Words] | None = None
) -> list[Marks]:
    """Mark every node with the noise of ``guarantee``: Algorithm 1 around Algorithm 2.

    Formal guarantees
    -----------------
    The marks of one tree are private at the price that ``guarantee`` states for its threshold
    queries. "two-sided" answers "yes" without noise from threshold + cutoff + 1 on.
    """
    sure = None
    if guarantee.method == "two-sided":
        sure = math.ceil(Fraction(guarantee.threshold) + Fraction(guarantee.cutoff or 0.0) + 1)
    coin = ThresholdCoin(
        guarantee.threshold_noise,
        guarantee.threshold,
        cut=guarantee.cut,
        sure=sure,
        largest=max((int(level.count.max(initial=0)) for level in levels), default=0),
    )

    def check_threshold(level: int, nodes: Integers) -> NDArray[np.bool_]:
        return coin.draw(levels[level].count[nodes], bits, None if keys is None else keys[level][nodes])

    order = top_down_order if guarantee.method == "top-down" else search_order
    return mark_heavy_hitters(levels, order(guarantee.max_depth, len(levels)), check_threshold)


def _noisy_counts(
    guarantee: Guarantee,
    tree: PrefixTree,
    heavy: list[Integers],
    bits: Bits,
    keys: Sequence[Words] | None,
) -> list[int]:
    """A fresh noisy count of each heavy node, level by level.

    Formal guarantees
    -----------------
    A record is in at most ``height`` heavy nodes, one per level, each with noise ``leaf_noise``.
    """
    noise = RoundedGaussian(guarantee.leaf_noise or math.inf)
    out: list[int] = []
    for depth, nodes in enumerate(heavy):
        some = None if keys is None else keys[depth][nodes]
        out += (tree.levels[depth].count[nodes] + noise.draw(len(nodes), bits, some)).tolist()
    return out


def _dense(tree: PrefixTree, height: int, labels: Sequence[Label] | None) -> tuple[PrefixTree, int]:
    """The full tree over a public alphabet: every node with its count, empty ones included."""
    if labels is None:
        seen = [tree.decode(d, np.unique(level.label)) for d, level in enumerate(tree.levels)]
        labels = [label for level in seen for label in level]
    labels = sorted(set(labels), key=lambda v: (isinstance(v, str), v))
    width = len(labels)
    n_nodes = _dense_size(width, height)
    place = {label: i for i, label in enumerate(labels)}
    levels: list[Level] = []
    where = np.zeros(1, dtype=np.int64)  # dense positions of the sparse level above; -1: outside
    for depth in range(height):
        size = width ** (depth + 1)
        counts = np.zeros(size, dtype=np.int64)
        if depth < len(tree.levels):
            level = tree.levels[depth]
            code = np.array([place.get(v, -1) for v in tree.decode(depth, level.label)], dtype=np.int64)
            above = where[level.parent]
            where = np.where((above < 0) | (code < 0), -1, above * width + code)
            counts[where[where >= 0]] = level.count[where >= 0]
        index = np.arange(size)
        levels.append(make_level(index // max(width, 1), index % max(width, 1), counts, width**depth))
    dense = PrefixTree(levels, lambda _, codes: [labels[c] for c in codes.tolist()], tree.join)
    return dense, n_nodes


def _dense_size(width: int, height: int) -> int:
    """Number of nodes of the full tree; refused if there are too many to ask about each."""
    if height > 1000 or height * math.log(max(width, 1)) > math.log(_DENSE_LIMIT):
        raise ValueError(
            f'method="gaussian" would ask about more than {_DENSE_LIMIT:,} nodes; use method="sparse"'
        )
    return sum(width**depth for depth in range(1, height + 1))
