"""Speed, memory and threads against scikit-learn's ExtraTrees: ratios in one run on two cores.

    LUMBERJACK_DATA=... python -m benchmarks.speed [--parts fit predict depth linear memory ...]

Data: the ACS income table of the United States (333,000 rows, 10 columns) and six shuffled copies of it
(2 million rows). Both sides are warm, and ours includes the encoding of the frame; the other side gets
float32 numbers, so it has nothing to encode. The peer is
``ExtraTreesClassifier(n_estimators=20, max_features=1, min_samples_split=int(tau), n_jobs=2)``, or its
regressor; ours has 20 trees of depth 100 at epsilon = 1 and random splits. The part "fitted" is
about the default fit, of nothing declared: against boosting, larger forests and DP-EBM.
Each figure is the best of three runs.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from lumberjack import LumberjackClassifier, LumberjackRegressor, plan
from lumberjack.datasets import fetch_acs
from lumberjack.engines.local import LocalRows
from lumberjack.noise import Bits, ThresholdCoin
from lumberjack.structure import Features, root_keys
from lumberjack.thinning import Thinning
from lumberjack.training import Policy, prune

PARTS = ("fit", "fitted", "predict", "depth", "linear", "memory", "threads", "first", "small", "work")


def best(action, times=3):
    found = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return min(found)


def table(copies=1):
    X, y, domain = fetch_acs("income", "US")
    X = pd.concat([X] * copies, ignore_index=True)
    y = np.tile(np.asarray(y).astype(np.int8), copies)
    order = np.random.default_rng(0).permutation(len(X))
    return X.iloc[order].reset_index(drop=True), y[order], domain


def classifier(domain, **kw):
    splits = {"splits": "random", "leaf": "counts"}
    settings = {**splits, "domain": domain, "classes": [0, 1], "n_jobs": 2, **kw}
    return LumberjackClassifier(1.0, **settings)


def regressor(domain, **kw):
    settings = {"splits": "random", "domain": domain, "y_bounds": (0, 1), "n_jobs": 2, **kw}
    return LumberjackRegressor(1.0, **settings)


def peer(kind, model):
    settings = {"max_features": 1, "min_samples_split": int(model.guarantee_.threshold), "n_jobs": 2}
    return kind(n_estimators=20, **settings)


def show(what, ours, theirs, goal):
    ratio = theirs / ours
    print(f"{what:44} {ours:8.3f} s {theirs:8.3f} s {ratio:7.2f}x   goal {goal}", flush=True)


def fits(parts):
    """Time to fit, and to predict, on both tables."""
    for copies, goal in ((1, "2x"), (6, "5x")):
        X, y, domain = table(copies)
        compare("classifier", classifier(domain), ExtraTreesClassifier, X, y, goal, parts)
        compare("regressor", regressor(domain), ExtraTreesRegressor, X, y, goal, parts)


def twice_as_wide(X):
    """The columns of a table, and all of them once more in another order of rows."""
    order = np.random.default_rng(1).permutation(len(X))
    more = X.iloc[order].reset_index(drop=True).add_suffix(" shuffled")
    return pd.concat([X, more], axis=1)


def peers(is_number):
    """What the default fit is compared with: how each is made, and how much faster it should be."""
    forest = {"n_estimators": 300, "min_samples_leaf": 5, "n_jobs": 2}
    boosting = {"early_stopping": False, "max_iter": 100}
    found = {
        "HistGradientBoosting": (
            (HistGradientBoostingRegressor if is_number else HistGradientBoostingClassifier)(**boosting),
            "2x",
        ),
        "ExtraTrees, 300 trees": (
            (ExtraTreesRegressor if is_number else ExtraTreesClassifier)(**forest),
            "20x",
        ),
    }
    if importlib.util.find_spec("lightgbm"):
        import lightgbm

        kind = lightgbm.LGBMRegressor if is_number else lightgbm.LGBMClassifier
        found["LightGBM"] = kind(n_jobs=2, verbose=-1), "none"
    if importlib.util.find_spec("interpret"):
        from interpret import privacy

        name = f"DPExplainableBoosting{'Regressor' if is_number else 'Classifier'}"
        found["DP-EBM"] = getattr(privacy, name)(), "10x"
    return found


def fitted():
    """Time of the default fit, with nothing declared, against forests, boosting and DP-EBM."""
    for copies, wide in ((1, False), (6, False), (6, True)):
        X, y, _ = table(copies)
        for kind in (LumberjackClassifier, LumberjackRegressor):
            compare_default(kind, twice_as_wide(X) if wide else X, y, 3 if copies == 1 else 1)


def compare_default(kind, X, y, times):
    """Time of the default fit, and of its peers, the best of so many times."""
    plain = np.ascontiguousarray(X.to_numpy(dtype=np.float32))
    kind(1.0, n_jobs=2).fit(X[:2000], y[:2000])
    one, two = (best(lambda n=n: kind(1.0, n_jobs=n).fit(X, y), max(times, 2)) for n in (1, 2))
    is_number = kind is LumberjackRegressor
    for name, (other, goal) in peers(is_number).items():
        other.fit(plain[:2000], y[:2000])
        theirs = best(lambda o=other: o.fit(plain, y), times)
        what = "regressor" if is_number else "classifier"
        show(f"{what}, {len(X):,} x {X.shape[1]}, {name}", two, theirs, goal)
    print(f"  two threads: {one / two:.2f}x one   goal 1.8x", flush=True)


def compare(name, model, kind, X, y, goal, parts):
    plain = np.ascontiguousarray(X.to_numpy(dtype=np.float32))
    model.fit(X[:2000], y[:2000])
    other = peer(kind, model)
    ours, theirs = best(lambda: model.fit(X, y)), best(lambda: other.fit(plain, y))
    if "fit" in parts:
        show(f"fit, {name}, {len(X):,} rows", ours, theirs, goal)
    if "predict" in parts and len(X) < 10**6:
        for method in ("predict", "predict_proba"):
            if hasattr(model, method):
                ours = best(lambda m=method: getattr(model, m)(X))
                theirs = best(lambda m=method: getattr(other, m)(plain))
                show(f"{method}, {name}, {len(X):,} rows", ours, theirs, "1x")


def depths():
    X, y, domain = table()
    times = {}
    for depth in (50, 100, 1000):
        model = classifier(domain, max_depth=depth)
        model.fit(X, y)
        times[depth] = best(lambda m=model: m.fit(X, y))
        print(f"fit, depth {depth:<5} {times[depth]:8.3f} s")
    print(f"depth 1000 over depth 50: {times[1000] / times[50]:.2f}x   goal at most 1.3x", flush=True)


def linear():
    """Time against rows and against trees, as figures and as a picture."""
    X, y, domain = table(6)
    rows = [62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000]
    trees = [5, 10, 20, 40, 80]
    by_rows = [best(lambda n=n: classifier(domain).fit(X[:n], y[:n]), 2) for n in rows]
    some = 250_000
    by_trees = [
        best(lambda k=k: classifier(domain, n_estimators=k).fit(X[:some], y[:some]), 2) for k in trees
    ]
    for n, t in zip(rows, by_rows, strict=True):
        print(f"fit, {n:>9,} rows {t:8.3f} s {t / n * 1e9:8.0f} ns a row")
    for k, t in zip(trees, by_trees, strict=True):
        print(f"fit, {k:>3} trees, {some:,} rows {t:8.3f} s {t / k * 1e3:8.1f} ms a tree")
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=False)
    for ax, x, t, label in ((axes[0], rows, by_rows, "rows"), (axes[1], trees, by_trees, "trees")):
        ax.plot(x, t, "o-", color="#0072B2", label="fit")
        ax.plot(x, np.polyval(np.polyfit(x, t, 1), x), ":", color="#666666", label="straight line")
        ax.set_xlim(0)
        ax.set_ylim(0)
        ax.set_xlabel(label)
        ax.set_ylabel("seconds")
        ax.legend()
    figure.tight_layout()
    out = Path("out")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "speed.png", dpi=120)
    print(f"picture: {out / 'speed.png'}", flush=True)


def threads():
    X, y, domain = table(6)
    times = {n: best(lambda n=n: classifier(domain, n_jobs=n).fit(X, y), 2) for n in (1, 2)}
    print(f"fit, 2 million rows: 1 thread {times[1]:.3f} s, 2 threads {times[2]:.3f} s, ", end="")
    print(f"{times[1] / times[2]:.2f}x   goal 1.7x", flush=True)


def work():
    """What trees cost in units that do not depend on the machine."""
    X, _, domain = table()
    codes, features = domain.encode(X), Features.of(domain)
    promise = plan(1.0, 1e-6, 20, 100, leaf="counts")
    coin = ThresholdCoin(promise.threshold_noise, promise.threshold, cut=promise.cut, largest=len(codes))
    policy = Policy(100, coin, Bits(1), thinning=Thinning(coin, 100))
    rows = LocalRows(codes, np.zeros(len(codes), dtype=np.int32))
    each = [prune(rows, len(codes), features, key, policy)[1].work for key in root_keys(1, 20)]
    nodes, steps, tests, moves = (sum(column) / 20 for column in zip(*each, strict=True))
    n = len(codes)
    print(f"a tree on {n:,} rows: {nodes:,.0f} nodes, {steps / n:.1f} splits passed, ", end="")
    print(f"{tests / n:.0f} comparisons and {moves / n:.2f} moves (4 bytes each) a row", flush=True)


CHILD = """
import json, os, sys, time
import numpy as np
from benchmarks.speed import LumberjackClassifier, classifier, table
def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
what = sys.argv[1]
X, y, domain = table(6 if "memory" in what else 1)
model = classifier(domain) if what in ("memory", "pruned") else LumberjackClassifier(1.0, n_jobs=2)
if "memory" in what:
    model.fit(X[:5000], y[:5000])
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    before = status("VmRSS")
    model.fit(X, y)
    print(json.dumps([before, status("VmHWM"), X.shape[0] * X.shape[1] * 4 / 2**20]))
else:
    start, busy = time.perf_counter(), time.process_time()
    model.fit(X[:20000], y[:20000])
    print(json.dumps([time.perf_counter() - start, time.process_time() - busy]))
"""


def child(what, **environment):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, what],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def memory():
    for what in ("memory", "memory, default"):
        before, peak, encoded = child(what)
        added = peak - before
        print(
            f"2 million rows, {what}: encoded table {encoded:.0f} MB, fit adds {added:.0f} MB, ", end=""
        )
        print(f"{added / encoded:.2f} times the encoded table   goal under 3", flush=True)


def first():
    for what in ("default", "pruned"):
        with tempfile.TemporaryDirectory() as folder:
            cold = child(what, NUMBA_CACHE_DIR=folder)
            warm = min(child(what, NUMBA_CACHE_DIR=folder) for _ in range(3))
        print(f"first fit of a process (20,000 rows), {what}: ", end="")
        print(
            f"{cold[0]:.1f} s cold, {warm[0]:.2f} s warm ({cold[1]:.1f} and {warm[1]:.2f} s of CPU)",
            end="",
        )
        print(f"   goal {8 if what == 'default' else 30} s, 1 s", flush=True)


def processor_time(action, times=3):
    """Least processor time of a call: what a person waits for on a machine that is not busy."""
    found = []
    for _ in range(times):
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return min(found)


def in_a_process(*arguments, times=3, **environment):
    """Least processor time of a Python process, its own start included."""
    found = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def small():
    """What a small table waits for: the start, the calibration of the noise, a small fit, one row."""

    def say(what, seconds, goal):
        print(f"{what:44} {seconds:8.4f} s of CPU   goal {goal}", flush=True)

    plans = {
        "classifier": {},
        "regressor": {"leaf": "fitted-mean"},
        "classifier, pruned trees": {"leaf": "counts"},
        "regressor, pruned trees": {"leaf": "mean"},
        "paper": {"accounting": "paper"},
    }
    say("import lumberjack", in_a_process("-c", "import lumberjack"), 0.5)
    say("lumberjack plan", in_a_process("-m", "lumberjack", "plan", "--epsilon", "1"), 1.2)
    plan(2.0)
    epsilons = iter(np.linspace(1, 1.001, 1000).tolist())  # each is calibrated once
    for name, settings in plans.items():
        found = processor_time(lambda s=settings: plan(next(epsilons), **s))
        say(f"calibration, {name}", found, 0.1)
    X, y, _ = table()
    for name, make in (("classifier", LumberjackClassifier), ("regressor", LumberjackRegressor)):
        some = X[:5000], y[:5000]
        make(1.0).fit(*some)
        say(f"fit, {name}, 5,000 rows", processor_time(lambda m=make, s=some: m(1.0).fit(*s)), 0.25)
    model = LumberjackClassifier(1.0).fit(X[:20_000], y[:20_000])
    array = LumberjackClassifier(1.0).fit(X[:20_000].to_numpy(dtype=float), y[:20_000])
    peer = ExtraTreesClassifier(n_estimators=len(model.forest_.trees)).fit(X[:20_000], y[:20_000])
    row, values = X[:1], X[:1].to_numpy(dtype=float)
    for name, one, given in (("a frame", model, row), ("an array", array, values)):
        ours = best(lambda m=one, r=given: m.predict_proba(r), 200)
        theirs = best(lambda r=row: peer.predict_proba(r), 20)
        what = f"predict_proba, one row of {name}"
        print(
            f"{what:44} {1e3 * ours:7.3f} ms {1e3 * theirs:7.3f} ms {theirs / ours:7.2f}x   goal 0.3 ms"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parts = parser.parse_args().parts
    print(f"{'':44} {'ours':>10} {'ExtraTrees':>10} {'faster':>8}")
    if "fit" in parts or "predict" in parts:
        fits(parts)
    for name, part in (
        ("fitted", fitted),
        ("depth", depths),
        ("linear", linear),
        ("memory", memory),
        ("threads", threads),
        ("first", first),
        ("small", small),
        ("work", work),
    ):
        if name in parts:
            part()


if __name__ == "__main__":
    main()
