"""Who is ahead: means over data sets, and our systems next to the best rival on each.

In: results. Out: Markdown. Scores that are better when smaller are named in ``SMALLER``.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.baselines import SYSTEMS
from benchmarks.protocol import EPSILONS
from benchmarks.results import Results, label_of, mean_and_spread, table, title_of

DEFAULT = "lumberjack"
OURS = (DEFAULT, "lumberjack-undeclared", "lumberjack-counts", "paper")
PRIVATE = [name for name, system in SYSTEMS.items() if system.claim != "none"]
NOT_PRIVATE = [name for name, system in SYSTEMS.items() if system.claim == "none"]
TITLES = {"accuracy": "accuracy", "auc": "AUC", "brier": "Brier score", "ece": "reliability error"}
SMALLER = ("brier", "ece")


def scores(results: Results, dataset: str, epsilon: float | None, key: str) -> dict[str, float]:
    """Means of the systems that were run, by name; without an epsilon, of those without privacy."""
    names = NOT_PRIVATE if epsilon is None else PRIVATE
    found = {n: mean_and_spread(results.main(dataset, n, epsilon), key) for n in names}
    return {n: summary[0] for n, summary in found.items() if summary is not None}


def best_of(found: dict[str, float], key: str) -> str | None:
    """The name of the best score."""
    pick = min if key in SMALLER else max
    return pick(found, key=lambda n: found[n], default=None)


def means(results: Results, epsilon: float | None, key: str) -> dict[str, float]:
    """Means over all data sets, of the systems with results on every one."""
    each = [scores(results, dataset, epsilon, key) for dataset in results.datasets]
    shared = [n for n in SYSTEMS if each and all(n in found for found in each)]
    return {n: float(np.mean([found[n] for found in each])) for n in shared}


def mean_table(results: Results, key: str) -> str:
    """Systems down, epsilon across: means over all data sets, of systems with results on every one."""
    columns = {epsilon: means(results, epsilon, key) for epsilon in (*EPSILONS, None)}
    rows = []
    for name in SYSTEMS:
        row = [label_of(name)]
        for epsilon, found in columns.items():
            if (epsilon is None) != (name in NOT_PRIVATE):
                row.append("")
            elif name not in found:
                row.append("–")
            else:
                shown = f"{found[name]:.4f}"
                row.append(f"**{shown}**" if name == best_of(found, key) else shown)
        rows.append(row)
    return table(["", *(f"ε = {e:g}" for e in EPSILONS), "not private"], rows)


def gaps(results: Results, key: str) -> Iterator[tuple[str, float, dict[str, float], str]]:
    """For each data set and epsilon all scores, and the best rival."""
    for dataset in results.datasets:
        for epsilon in EPSILONS:
            found = scores(results, dataset, epsilon, key)
            rival = best_of({n: v for n, v in found.items() if n not in OURS}, key)
            if rival is not None and any(n in found for n in OURS):
                yield dataset, epsilon, found, rival


def gap_table(results: Results, key: str) -> str:
    """The best rival for each data set and epsilon, and how far our systems are above it."""
    rows = []
    for dataset, epsilon, found, rival in gaps(results, key):
        ours = [_signed(found[n] - found[rival], key) if n in found else "not run" for n in OURS]
        said = f"{label_of(rival)}, {found[rival]:.4f}"
        rows.append([title_of(results, dataset), f"{epsilon:g}", said, *ours])
    return table(["data", "ε", "best rival", *OURS], rows)


def _signed(gap: float, key: str) -> str:
    behind = gap > 0 if key in SMALLER else gap < 0
    return f"**{gap:+.4f}**" if behind else f"{gap:+.4f}"


def sentence(results: Results, key: str) -> str:
    """In how many cases the default leads, and who is ahead of it where, and by how much."""
    cases = [case for case in gaps(results, key) if DEFAULT in case[2]]
    title = TITLES[key][0].upper() + TITLES[key][1:]
    if not cases:
        return f"{title}: the default was not run."
    led, behind = len(cases), {}
    for dataset, epsilon, found, rival in cases:
        if best_of({DEFAULT: found[DEFAULT], rival: found[rival]}, key) == rival:
            led -= 1
        for name in (n for n in found if n not in OURS):
            if best_of({DEFAULT: found[DEFAULT], name: found[name]}, key) == name:
                where = behind.setdefault((name, dataset), [])
                where.append(f"{epsilon:g} ({found[name] - found[DEFAULT]:+.4f})")
    each = [
        f"{label_of(name)} on {title_of(results, dataset)} at ε = {', '.join(where)}"
        for (name, dataset), where in sorted(behind.items())
    ]
    text = f"{title}: no rival is ahead of the default in {led} of {len(cases)} cases"
    return text + (f"; ahead of it are {'; '.join(each)}." if each else ".")


def missing(results: Results) -> str:
    """Which private systems have no result, on which data sets and at which epsilons."""
    where: dict[str, list[str]] = {}
    for name in PRIVATE:
        lacks = {
            dataset: [e for e in EPSILONS if name not in scores(results, dataset, e, "accuracy")]
            for dataset in results.datasets
        }
        if all(len(each) == len(EPSILONS) for each in lacks.values()):
            where.setdefault("at all", []).append(name)
        elif len({tuple(each) for each in lacks.values()}) == 1:
            for epsilon in next(iter(lacks.values())):
                where.setdefault(f"at ε = {epsilon:g}", []).append(name)
        else:
            for dataset, each in lacks.items():
                for epsilon in each:
                    place = f"on {title_of(results, dataset)} at ε = {epsilon:g}"
                    where.setdefault(place, []).append(name)
    said = "; ".join(f"{place}: {', '.join(names)}" for place, names in where.items())
    return f"Not run {said}." if said else ""
