"""How the error of heavy hitters grows with the height of the tree: sqrt(log h) against sqrt(h).

    python -m benchmarks.height

Two hundred paths, along each of which the count falls evenly from 2 tau to 0, so that every height has
nodes at every distance from the threshold. The error is the paper's alpha: the largest |count - tau|
of a node that is Heavy below tau or Light above it; the mean over five runs is printed.
"""

from pathlib import Path

import numpy as np

from lumberjack.noise import Bits
from lumberjack.paths import make_level
from lumberjack.planning import plan_heavy_hitters
from lumberjack.prefixes import mark_privately
from lumberjack.search import HEAVY

HEIGHTS = [8, 16, 32, 64, 128, 256, 512, 1024]
METHODS = ["sparse", "top-down"]
EPSILON, DELTA = 1.0, 1e-6
PATHS, RUNS = 200, 5


def falling_paths(height, tau):
    index = np.arange(PATHS)
    counts = np.linspace(2 * tau, 1, height).round().astype(np.int64)
    full = [np.full(PATHS, count) for count in counts]
    first = make_level(np.zeros(PATHS, dtype=np.int64), index, full[0], 1)
    return [first, *(make_level(index, index, count, PATHS) for count in full[1:])]


def largest_error(levels, promise):
    marks = mark_privately(levels, promise, Bits())
    error = 0.0
    for level, mark in zip(levels, marks, strict=True):
        wrong = (mark == HEAVY) != (level.count > promise.threshold)
        error = max(error, float(np.abs(level.count - promise.threshold)[wrong].max(initial=0.0)))
    return error


def measure():
    """Threshold and error for each method and height."""
    rows = []
    for height in HEIGHTS:
        for method in METHODS:
            promise = plan_heavy_hitters(EPSILON, DELTA, height, method=method)
            levels = falling_paths(height, promise.threshold)
            errors = [largest_error(levels, promise) for _ in range(RUNS)]
            rows.append((height, method, promise.threshold, float(np.mean(errors))))
    return rows


def plot(rows, path):
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharex=True, layout="constrained")
    colours = {"sparse": "#0072B2", "top-down": "#D55E00"}
    growth = {
        "sparse": ("√(1 + log₂ h)", lambda h: np.sqrt(1 + np.log2(h))),
        "top-down": ("√h", np.sqrt),
    }
    for column, axis, title in [(2, axes[0], "smallest threshold τ"), (3, axes[1], "largest error α")]:
        for method in METHODS:
            h = np.array([r[0] for r in rows if r[1] == method], dtype=float)
            y = np.array([r[column] for r in rows if r[1] == method])
            axis.plot(h, y, "o-", color=colours[method], label=method)
            name, shape = growth[method]
            axis.plot(h, y[0] * shape(h) / shape(h[0]), ":", color=colours[method], label=name)
        axis.set(
            xscale="log", yscale="log", xlabel="height h of the tree", ylabel="records", title=title
        )
        axis.set_xticks(HEIGHTS, [str(height) for height in HEIGHTS])
        axis.set_yticks([25, 50, 100, 200, 400, 800], ["25", "50", "100", "200", "400", "800"])
        axis.minorticks_off()
        axis.legend(frameon=False)
    figure.suptitle(
        f"Heavy hitters at ε = {EPSILON:g}, δ = {DELTA:g}: one binary search a path, or every level"
    )
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)


def main():
    rows = measure()
    print(f"\nError against height at epsilon = {EPSILON:g}, delta = {DELTA:g}:\n")
    print("height   sparse: tau  error    top-down: tau  error")
    for sparse, baseline in zip(rows[::2], rows[1::2], strict=True):
        (height, _, *ours), (_, _, *theirs) = sparse, baseline
        print(f"{height:6}   {ours[0]:11.0f} {ours[1]:6.0f}    {theirs[0]:13.0f} {theirs[1]:6.0f}")
    try:
        path = Path("out/heavy_hitters.png")
        plot(rows, path)
        print(f"\nPicture: {path}")
    except ImportError:
        print("\nNo picture: Matplotlib is not installed (extra 'plot').")


if __name__ == "__main__":
    main()
