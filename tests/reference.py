"""Independent oracles: formulas in 60 digits, and the paper's Algorithm 1 word for word."""

from dataclasses import dataclass, field

import mpmath as mp
import numpy as np
from scipy import stats

DIGITS = 60


def gaussian_delta(epsilon, mu):
    with mp.workdps(DIGITS + 340):
        epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def cutoff_delta(m, sigma, Delta, r=1):
    with mp.workdps(DIGITS):
        sigma, Delta = mp.mpf(sigma), mp.mpf(Delta)
        return 1 - min(mp.ncdf(Delta / sigma) ** m, mp.ncdf((Delta + r - 1) / sigma) ** (r * m))


def joint_delta(epsilon, m, sigma, Delta, k=0, leaf_sigma=mp.inf, r=1):
    with mp.workdps(DIGITS):
        mu = r * mp.sqrt(m / mp.mpf(sigma) ** 2 + (k / mp.mpf(leaf_sigma) ** 2 if k else 0))
        return gaussian_delta(epsilon, mu) + cutoff_delta(m, sigma, Delta, r)


def choices_delta(epsilon, mu, ranges):
    """E U(Z - epsilon), from below, for (N, eta) in the order in which they are asked.

    The recursion with y on a grid of a part of the smallest range, and t on that grid; other ranges are
    rounded down to it.
    """
    least = min(eta for _, eta in ranges)
    h = least / min(range(16, 41), key=lambda s: max((eta / least * s + 1e-9) % 1 for _, eta in ranges))
    # 14 standard deviations of all losses, and 2 of the largest ranges
    spread = np.sqrt(sum(n * eta**2 for n, eta in ranges))
    far = int((7 * spread + 2 * max(eta for _, eta in ranges)) / h) + 1
    y = h * np.arange(-far, far + 1)
    now = np.maximum(-np.expm1(-y), 0.0)
    for count, eta in reversed(ranges):
        wide = int(eta / h + 1e-9)
        # U_j = U_0 where no loss can lead below 0
        above = -np.expm1(-(y[-1] + h * np.arange(1, wide + 1)))
        for _ in range(count):
            padded = np.concatenate([np.zeros(wide), now, above])
            up, down = padded[wide:], padded[: len(now) + wide]
            best = now
            for i in range(wide + 1):
                p = (np.expm1(wide * h) - np.expm1(i * h)) / np.expm1(wide * h)
                best = np.maximum(best, p * up[i : i + len(now)] + (1 - p) * down[i : i + len(now)])
            now = best
    z = np.linspace(-12, 12, 200_001)
    place = mu * mu / 2 + mu * z - epsilon
    reached = np.where(place > y[-1], -np.expm1(-place), np.interp(place, y, now, left=0.0))
    return float(np.trapezoid(reached * stats.norm.pdf(z), z))


def events_delta(epsilon, events, r=1):
    """Delta of the events of a record, as its JSON has them, in the order in which they are asked.

    From below where there are choices, otherwise exact. Also the share of it by which a bound may be
    larger.
    """
    squares, quiet, ranges = mp.mpf(0), mp.mpf(1), []
    for e in events:
        if e["kind"] == "choices":
            ranges.append((e["count"], r * e["exponent"] * e["score_range"]))
            continue
        squares += e["count"] * (mp.mpf(e.get("reach", 1)) / e["noise"]) ** 2
        if e.get("cutoff") is not None:
            quiet *= 1 - cutoff_delta(e["count"], e["noise"], e["cutoff"], r)
            assert e["threshold"] >= e["cut"] + r + e["cutoff"] - 1e-9
    mu = r * mp.sqrt(squares)
    if not ranges:
        return gaussian_delta(epsilon, mu) + 1 - quiet, 1e-9
    # A bound rounds ranges up to multiples of one step, and this rounds them down.
    above = 0.02 if len({eta for _, eta in ranges}) == 1 else 0.08
    return choices_delta(epsilon, float(mu), ranges) + float(1 - quiet), above


def theorem1_delta(epsilon, m, sigma, Delta):
    """Every j, as the paper prints it."""
    with mp.workdps(DIGITS):
        epsilon, sigma = mp.mpf(epsilon), mp.mpf(sigma)
        p = mp.ncdf(mp.mpf(Delta) / sigma)
        best = 1 - p**m
        for j in range(1, m + 1):
            gamma = (m - j) * mp.log(p)
            mu = mp.sqrt(j) / sigma
            best = max(
                best,
                1 - p ** (m - j) + p ** (m - j) * gaussian_delta(epsilon - gamma, mu),
                gaussian_delta(epsilon + gamma, mu),
            )
        return best


def zcdp_delta(epsilon, rho):
    with mp.workdps(DIGITS):
        epsilon, rho = mp.mpf(epsilon), mp.mpf(rho)
        x = 1 + (epsilon - rho) / (2 * rho)
        return 2 * mp.exp(-((epsilon - rho) ** 2) / (4 * rho)) / (x + mp.sqrt(x**2 + 4 / (mp.pi * rho)))


@dataclass
class Node:
    """A node with the records that end here; ``count`` includes those below."""

    own: int = 0
    children: list["Node"] = field(default_factory=list)
    mark: str | None = None
    name: int = -1

    @property
    def count(self):
        return self.own + sum(child.count for child in self.children)

    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()

    def at(self, depth):
        return [self] if depth == 0 else [n for c in self.children for n in c.at(depth - 1)]


def mark_heavy_hitters(root, height, check, parents=None):
    """Algorithm 1 of the paper, phase by phase, on the subtree of ``height`` layers below ``root``."""
    if parents is None:
        parents = {id(c): n for n in root.walk() for c in n.children}
    middle = height // 2
    for u in root.at(middle):  # Phase 1
        if u.mark is not None:
            continue
        if check(u):
            node = u
            while node is not None:
                node.mark = "heavy"
                node = parents.get(id(node))
        else:
            for node in u.walk():
                node.mark = "light"
    if height >= 3:  # Phase 2
        for v in root.at(middle + 1):
            if v.mark != "light":
                mark_heavy_hitters(v, height - middle - 1, check, parents)
    if height >= 2:  # Phase 3
        mark_heavy_hitters(root, middle, check, parents)


def mark_top_down(root, check):
    """The baseline: ask a node, and its children only if it passed."""
    root.mark = "heavy" if check(root) else "light"
    for child in root.children:
        if root.mark == "heavy":
            mark_top_down(child, check)


class _AnswersMissingError(Exception):
    pass


def output_distribution(root, run, probability):
    """Exact probability of each set of heavy nodes, by following every sequence of answers."""
    found: dict[frozenset, float] = {}
    pending = [((), 1.0)]
    while pending:
        answers, weight = pending.pop()
        for node in root.walk():
            node.mark = None
        script = iter(answers)
        asked = []

        def check(node, script=script, asked=asked):
            asked.append(node)
            for answer in script:
                return answer
            raise _AnswersMissingError

        try:
            run(root, check)
        except _AnswersMissingError:
            p = probability(asked[-1].count)
            pending += [((*answers, a), weight * w) for a, w in ((True, p), (False, 1 - p)) if w > 0]
            continue
        heavy = frozenset(node.name for node in root.walk() if node.mark == "heavy")
        found[heavy] = found.get(heavy, 0.0) + weight
    return found


def rooted_trees(size):
    """All unordered rooted trees with ``size`` nodes, as nested sorted tuples."""

    def forests(total, largest):
        """Multisets of trees with ``total`` nodes, each at most ``largest`` in (size, shape) order."""
        if total == 0:
            yield ()
            return
        for first in range(total, 0, -1):
            for shape in rooted_trees(first):
                if (first, shape) <= largest:
                    for rest in forests(total - first, (first, shape)):
                        yield (shape, *rest)

    if size == 1:
        return [()]
    return sorted(set(forests(size - 1, (size, ((),) * size))))


def build(shape):
    """A tree of that shape; nodes are named in breadth-first order."""
    root = Node(children=[build(child) for child in shape])
    layer, name = [root], 0
    while layer:
        for node in layer:
            node.name, name = name, name + 1
        layer = [child for node in layer for child in node.children]
    return root


def same_distribution(one, two):
    """Chi-square test that two counters come from one distribution, rare outcomes put together."""
    outcomes = [o for o in one | two if one[o] + two[o] >= 20]
    rows = [
        [c[o] for o in outcomes] + [sum(c.values()) - sum(c[o] for o in outcomes)] for c in (one, two)
    ]
    cells = np.array(rows)
    return stats.chi2_contingency(cells[:, cells.sum(axis=0) > 0]).pvalue
