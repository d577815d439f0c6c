"""What should be learned about columns, and for how much? One setting changed at a time, on real tables.

    LUMBERJACK_DATA=... python -m benchmarks.columns [--splits 3] [--rows 0 5000] [--settings ...]

Every setting runs the library itself, priced as the library prices it: on other tables (numbers moved
or bent), with other declarations, or with one of its constants replaced. Shown: accuracy / AUC, the
mean over the tables of two classes, and R2 of California housing. The result is in docs/columns.md.
"""

import argparse
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from unittest import mock

import numpy as np
from sklearn.metrics import r2_score

import lumberjack.planning
from benchmarks import scores
from benchmarks.problems import FOUR, PRICES, PROBLEMS
from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor
from lumberjack.datasets import SampleWarning
from lumberjack.kinds import CELLS, Cuts, Numeric

EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
MOST_TESTED = 20_000
DATA = (*FOUR, "housing")


def tight(domain):
    """Ranges, categories and classes that were known."""
    return domain


def tight_bins(domain):
    """Nothing is left to learn about numbers: 64 equal bins of a tight range."""
    bins = tuple(i * CELLS // 64 for i in range(1, 64))
    return _with_numbers(domain, lambda kind: Cuts(kind, bins))


def loose(domain):
    """Ranges that are 1,000 times too wide."""

    def widened(kind):
        more = 499.5 * (kind.high - kind.low)
        return Numeric(kind.low - more, kind.high + more)

    return _with_numbers(domain, widened)


def kinds(domain):
    """Which columns hold numbers, and no more."""
    return Domain(
        {n: Numeric() if isinstance(domain[n], Numeric) else Domain.categorical() for n in domain}
    )


def _with_numbers(domain, change):
    return Domain(
        {n: change(domain[n]) if isinstance(domain[n], Numeric) else domain[n] for n in domain}
    )


def years(column):
    """From 2000 to 2010."""
    return 2000 + 10 * (column - column.min()) / ((column.max() - column.min()) or 1)


def millions(column):
    return column * 1e6


def bent(column):
    """Through exp: what was even is skewed by many orders of magnitude."""
    return np.exp(column / (column.std() or 1))


def coarse(column):
    """What codes of 16 bits would hold of a single-precision float."""
    bits = column.astype(np.float32).to_numpy().view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(float)


@dataclass(frozen=True)
class Setting:
    """What is declared (None: nothing), what is done to numbers, and constants that are replaced."""

    declare: object = None
    bounds: tuple | None = None  # of the prices of houses
    change: tuple = ()
    constants: dict = field(default_factory=dict)


SETTINGS = {
    "nothing declared": Setting(),
    "all declared, tight": Setting(tight, PRICES),
    "all declared, 64 equal bins": Setting(tight_bins, PRICES),
    "all declared, ranges 1,000 times too wide": Setting(loose, PRICES),
    "kinds declared": Setting(kinds),
    "numbers from 2000 to 2010": Setting(change=(years,)),
    "numbers times 10⁶": Setting(change=(millions,)),
    "numbers through exp": Setting(change=(bent,)),
    "places of 16 bits": Setting(change=(coarse,)),
    "places of 16 bits, 2000 to 2010": Setting(change=(years, coarse)),
    **{f"{n} levels": Setting(constants={"CUT_LEVELS": n}) for n in (3, 4, 6, 7, 8)},
    **{f"{s:.0%} for cuts": Setting(constants={"_CUT_SHARE": s}) for s in (0.02, 0.1)},
    **{f"{s:.0%} for categories": Setting(constants={"_CATEGORY_SHARE": s}) for s in (0.02, 0.1)},
    "3% for classes": Setting(constants={"_CLASS_SHARE": 0.03}),
    **{f"{s:.0%} for a target's scale": Setting(constants={"_SCALE_SHARE": s}) for s in (0.01, 0.1)},
}


def moved(frame, change):
    """The table with all its numbers changed, and nothing else."""
    if not change:
        return frame
    columns = {name: frame[name].astype(float) for name in frame.select_dtypes("number")}
    for step in change:
        columns = {name: step(column) for name, column in columns.items()}
    return frame.assign(**columns)


def model_of(setting, epsilon, domain, regression):
    known = {"domain": setting.declare(domain) if setting.declare else None, "n_jobs": 1}
    if regression:
        return LumberjackRegressor(epsilon, y_bounds=setting.bounds, **known)
    return LumberjackClassifier(epsilon, classes=[0, 1] if setting.bounds else None, **known)


def measure(setting, name, n_rows, n_splits):
    """Accuracy and AUC (or R2) for each epsilon, the mean over splits."""
    X, y, domain = PROBLEMS[name].fetch()
    X, y, regression = moved(X.reset_index(drop=True), setting.change), np.asarray(y), name == "housing"
    y = y.astype(float) if regression else (y == np.unique(y)[1]).astype(int)
    found = np.zeros((n_splits, len(EPSILONS), 1 if regression else 2))
    with ExitStack() as stack:
        for constant, value in setting.constants.items():
            stack.enter_context(mock.patch.object(lumberjack.planning, constant, value))
        for seed, (i, epsilon) in product(range(n_splits), enumerate(EPSILONS)):
            order = np.random.default_rng(seed).permutation(len(y))
            test, train = np.split(order, [min(len(y) // 10, MOST_TESTED)])
            train = train[: n_rows or None]
            model = model_of(setting, epsilon, domain, regression)
            found[seed, i] = _score(
                model, (X.iloc[train], y[train]), (X.iloc[test], y[test]), regression
            )
    return found.mean(axis=0)


def _score(model, train, test, regression):
    """Accuracy and AUC, or R2; where classes are too rare to be learned, no better than a guess."""
    (X, y), (X_test, y_test) = train, test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
            if regression:
                return [r2_score(y_test, model.predict(X_test))]
            found = scores.of_classes(model.predict_proba(X_test), y_test)
            return found["accuracy"], found["auc"]
        except (ValueError, IndexError):  # no class, or just one
            assert not regression
            return 0.5, 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="*", default=[0, 5_000], help="to train on; 0: all")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--tables", nargs="*", default=list(DATA), choices=list(DATA))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SampleWarning)
    for size in arguments.rows:
        rows = f"{size:,} rows" if size else "all rows"
        print(f"| {rows} | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " | "
              + " | ".join(f"R², ε = {e:g}" for e in EPSILONS) + " |")  # fmt: skip
        print("|---|" + "---|" * (2 * len(EPSILONS)), flush=True)
        for name in arguments.settings:
            tables = [measure(SETTINGS[name], data, size, arguments.splits) for data in arguments.tables]
            classes = [t for t in tables if t.shape[1] == 2] or [np.full((len(EPSILONS), 2), np.nan)]
            numbers = [t for t in tables if t.shape[1] == 1] or [np.full((len(EPSILONS), 1), np.nan)]
            cells = [f"{a:.4f} / {b:.4f}" for a, b in np.mean(classes, axis=0)]
            cells += ["< −1" if r < -1 else f"{r:.4f}" for (r,) in np.mean(numbers, axis=0)]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
