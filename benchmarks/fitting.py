"""Which constants should a fit have? One changed at a time, on real tables, where noise matters most.

    LUMBERJACK_DATA=... python -m benchmarks.fitting [--first 0] [--splits 4] [--repetitions 2]
        [--settings ...] [--regimes 0.1:0 1:5000]

A regime is an epsilon and a number of rows to train on (0: all). Columns are learned once for each table
and split, with everything declared; then every setting fits the same rows with the same seeds. Shown:
AUC, the mean over the tables and each table's, and the difference from the default with its standard
error over splits. Constants were chosen on splits 0 to 3; --first 4 takes others. docs/fitted.md has
what was measured.
"""

import argparse
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from unittest import mock

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import lumberjack.descent as descent
import lumberjack.events as events
import lumberjack.fitting as fitting
import lumberjack.planning as planning
import lumberjack.strategy as strategy
import lumberjack.terms as terms
import lumberjack.training as training
from benchmarks.problems import FOUR, load
from lumberjack import LumberjackClassifier
from lumberjack.noise import Bits

MOST_TESTED = 30_000


@dataclass(frozen=True)
class Setting:
    """Constants that are replaced: of a module by name, and entries of dictionaries."""

    constants: tuple = ()
    entries: tuple = field(default=())


def _steps(columns, pairs):
    return (events.FIT_STEPS, {"columns": columns, "pairs": pairs})


def _shares(sizes, columns):
    return (planning._FIT_SHARES, {"sizes": sizes, "columns": columns, "pairs": 1 - sizes - columns})


SETTINGS = {
    "default": Setting(),
    "no contrasts": Setting(
        ((terms, "_neighbours", lambda n: ()), (terms, "_two_largest", lambda sizes: ()))
    ),
    "no difference of two categories": Setting(((terms, "_two_largest", lambda sizes: ()),)),
    "equal shares": Setting(((fitting, "_ROOT", 0.0),)),
    "leaves alone have 1/4": Setting(((strategy, "_ALONE", 0.25),)),
    "leaves alone have 1": Setting(((strategy, "_ALONE", 1.0),)),
    "no pairs": Setting(((descent, "_PER_PAIR", 1e18),)),
    "40 for a pair": Setting(((descent, "_PER_PAIR", 40.0),)),
    "160 for a pair": Setting(((descent, "_PER_PAIR", 160.0),)),
    "pairs have 1/4 of a share": Setting(((fitting, "_PAIR_WEIGHT", 0.25),)),
    "pairs have a share": Setting(((fitting, "_PAIR_WEIGHT", 1.0),)),
    "10 and 30 steps": Setting(entries=(_steps(10, 30),)),
    "30 and 90 steps": Setting(entries=(_steps(30, 90),)),
    "30 % for columns": Setting(entries=(_shares(0.05, 0.3),)),
    "10 % for columns": Setting(entries=(_shares(0.05, 0.1),)),
    "10 % for sizes": Setting(entries=(_shares(0.1, 0.18),)),
    "2 % for sizes": Setting(entries=(_shares(0.02, 0.19),)),
    "momentum 0.8": Setting(((fitting, "_MOMENTUM", 0.8),)),
    "steps of 0.2": Setting(((fitting, "_STEP", 0.2),)),
    "all steps averaged": Setting(((fitting, "_BURN", 0.0),)),
    "half the steps averaged": Setting(((fitting, "_BURN", 0.5),)),
    "tau of columns 0.15": Setting(((fitting, "_TYPICAL", (1.5, 0.15, 0.05)),)),
    "tau of columns 0.6": Setting(((fitting, "_TYPICAL", (1.5, 0.6, 0.05)),)),
}


class _LearnedError(Exception):
    """Ends a fit once columns are learned; its argument is what the descent would be given."""


@cache
def _case(name, seed, epsilon, n_rows):
    """What the descent of a fit is given, and encoded rows to test on."""
    table = load(name)
    X, X_test, y, y_test = train_test_split(
        table.X, table.y, test_size=0.2, stratify=table.y, random_state=seed
    )
    n = n_rows or len(y)

    def hand_over(*given):
        raise _LearnedError(given)

    model = LumberjackClassifier(epsilon, domain=table.domain, classes=[0, 1])
    with mock.patch.object(training, "fit_forest", hand_over):
        try:
            model.fit(X[:n], y[:n])
        except _LearnedError as learned:
            (rows, domain, target, guarantee, *_) = learned.args[0]
    kinds = guarantee.numbers_learned, guarantee.categories_learned
    test = domain.compact(X_test[:MOST_TESTED]), y_test[:MOST_TESTED]
    return (rows, domain, target), kinds, test


def measure(name, seed, regime, repetitions):
    """AUC, the mean over repetitions."""
    epsilon, n_rows = regime
    given, kinds, (codes, y) = _case(name, seed, epsilon, n_rows)
    guarantee = planning.plan(epsilon, columns=kinds, target=False)
    found = []
    for repetition in range(repetitions):
        forest = descent.fit_forest(*given, guarantee, Bits(1000 * seed + repetition))
        scores = forest.pool([values[:, 1:] for values in forest.values], codes)[:, 0]
        found.append(roc_auc_score(y, scores))
    return np.mean(found)


def compare(setting, regime, seeds, repetitions):
    """AUC of each table and split, with the constants of a setting."""
    with ExitStack() as stack:
        for module, constant, value in setting.constants:
            stack.enter_context(mock.patch.object(module, constant, value))
        for entries, changed in setting.entries:
            stack.enter_context(mock.patch.dict(entries, changed))
        planning._calibrate.cache_clear()
        found = [[measure(name, seed, regime, repetitions) for seed in seeds] for name in FOUR]
    planning._calibrate.cache_clear()
    return np.array(found)


def _regime(text):
    epsilon, _, rows = text.partition(":")
    return float(epsilon), int(rows or 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="seed of the first split")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--regimes", nargs="*", type=_regime, default=[(0.1, 0), (1.0, 5000)])
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.splits)
    for regime in given.regimes:
        print(f"epsilon {regime[0]:g}, {regime[1] or 'all'} rows; tables: {', '.join(FOUR)}")
        default = compare(SETTINGS["default"], regime, seeds, given.repetitions)
        for name in given.settings:
            same = name == "default"
            found = default if same else compare(SETTINGS[name], regime, seeds, given.repetitions)
            change = (found - default).mean(axis=0)
            error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else 0.0
            tables = "  ".join(f"{auc:.4f}" for auc in found.mean(axis=1))
            print(
                f"{name:32} {found.mean():.4f}  {change.mean():+.4f} ± {error:.4f}  {tables}", flush=True
            )


if __name__ == "__main__":
    main()
