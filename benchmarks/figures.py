"""The paper's figures: a score against epsilon, one panel a data set; costs; one figure an ablation."""

from pathlib import Path

import numpy as np

from benchmarks import ahead
from benchmarks.baselines import SYSTEMS
from benchmarks.protocol import ABLATED, ABLATIONS, EPSILONS
from benchmarks.results import mean_and_spread, title_of

COLOURS = {
    "lumberjack": "#D55E00",
    "lumberjack-undeclared": "#FF9E4A",
    "lumberjack-counts": "#A65628",
    "paper": "#E69F00",
    "top-down": "#999999",
    "snr": "#009E73",
    "smooth": "#CC79A7",
    "greedy": "#56B4E9",
    "greedy-zcdp": "#2A52BE",
    "diffprivlib": "#0072B2",
    "dp-ebm": "#000000",
    "ebm-newton": "#B22222",
    "lr-bin": "#7B68EE",
    "lr-pairs": "#4B0082",
    "lr-nested": "#008080",
    "naive-bayes": "#9ACD32",
    "random-full": "#BBBBBB",
    "extra-trees": "#666666",
    "random-forest": "#2F4F4F",
    "hist-gradient-boosting": "#708090",
    "decision-tree": "#8B4513",
}
NOTES = {
    "broken": " (privacy claim broken)",
    "reserve": " (claim with a reserve)",
    "none": " (not private)",
}


def draw_all(results, folder: Path) -> set[str]:
    """Draw what there are results for; names of the figures."""
    import matplotlib

    matplotlib.use("Agg")
    drawn = set()
    for key, label in (("accuracy", "accuracy"), ("auc", "AUC")):
        if results.datasets and _comparison(results, key, label, folder / f"{key}.png"):
            drawn.add(key)
        if results.datasets and _means(results, key, label, folder / f"mean-{key}.png"):
            drawn.add(f"mean-{key}")
    if results.datasets and _costs(results, folder / "costs.png"):
        drawn.add("costs")
    for name in ABLATIONS:
        if _ablation(results, name, folder / f"ablation-{name}.png"):
            drawn.add(f"ablation-{name}")
    return drawn


def _panels(n: int):
    """A figure with so many panels, two to a row: more could not be read on a page."""
    from matplotlib import pyplot as plt

    rows, columns = -(-n // 2), min(n, 2)
    size = 4.4 * columns + 0.4, 3.4 * rows + 1.2
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[n:]:
        axis.remove()
    return figure, axes.flat[:n]


def _save(figure, path: Path, n_columns: int) -> None:
    from matplotlib import pyplot as plt

    shown = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=n_columns, fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _comparison(results, key: str, label: str, path: Path) -> bool:
    figure, axes = _panels(len(results.datasets))
    found = False
    for axis, dataset in zip(axes, results.datasets, strict=True):
        for name, system in SYSTEMS.items():
            style = {"color": COLOURS[name], "label": name + NOTES.get(system.claim, "")}
            if system.claim == "none":
                summary = mean_and_spread(results.main(dataset, name, None), key)
                if summary is not None:
                    axis.axhline(summary[0], linestyle=":", **style)
                continue
            points = [(e, mean_and_spread(results.main(dataset, name, e), key)) for e in EPSILONS]
            points = [(e, s[0], s[1]) for e, s in points if s is not None]
            if points:
                found = True
                wide = 2.2 if name == "lumberjack" else 1.2
                axis.errorbar(*zip(*points, strict=True), marker="o", ms=3, capsize=2, lw=wide, **style)
        if key == "accuracy" and "majority" in results.data.get(dataset, {}):
            share, (low, high) = results.data[dataset]["majority"] / 100, axis.get_ylim()
            if share > low - (high - low) / 2:  # a line far below would press all others together
                axis.axhline(share, color="#DDDDDD", label="majority class", zorder=0)
        axis.set_xscale("log", base=2)
        axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axis.set_title(title_of(results, dataset), fontsize=9)
        axis.set_xlabel("ε")
    for axis in axes[::2]:
        axis.set_ylabel(label)
    _save(figure, path, 3)
    return found


def _means(results, key: str, label: str, path: Path) -> bool:
    """Means over data sets against epsilon, from about the default's lowest on, lest others press it."""
    figure, (axis,) = _panels(1)
    lines = {}
    for epsilon in EPSILONS:
        for name, mean in ahead.means(results, epsilon, key).items():
            lines.setdefault(name, []).append((epsilon, mean))
    lowest = min((mean for _, mean in lines.get(ahead.DEFAULT, [])), default=None)
    for name, points in lines.items():
        style = {"color": COLOURS[name], "label": name + NOTES.get(SYSTEMS[name].claim, "")}
        wide, dash = (2.2, "-") if name in ahead.OURS else (1.2, "--")
        axis.plot(*zip(*points, strict=True), dash, marker="o", ms=3, lw=wide, **style)
    for name, mean in ahead.means(results, None, key).items():
        axis.axhline(mean, linestyle=":", color=COLOURS[name], label=f"{name} (not private)")
    if lowest is not None:
        axis.set_ylim(bottom=lowest - 0.02)
    axis.set_xscale("log", base=2)
    axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    axis.set_xlabel("ε")
    axis.set_ylabel(f"mean {label} over {len(results.datasets)} data sets")
    figure.set_size_inches(7.2, 6.4)
    _save(figure, path, 3)
    return bool(lines)


COSTS = {
    "fit_seconds": ("fit, seconds", 1.0),
    "predict_seconds": ("predict the test split, seconds", 1.0),
    "peak_bytes": ("peak memory, MB", 1e6),
    "model_bytes": ("model, MB", 1e6),
}


def _costs(results, path: Path) -> bool:
    """Time, memory and size at epsilon = 1: a line a system, a mark a data set."""
    figure, axes = _panels(len(COSTS))
    names = list(SYSTEMS)[::-1]
    found = False
    for axis, (key, (label, unit)) in zip(axes, COSTS.items(), strict=True):
        for i, dataset in enumerate(results.datasets):
            each = {n: mean_and_spread(results.main(dataset, n, 1.0), key) for n in names}
            points = [(s[0] / unit, names.index(n)) for n, s in each.items() if s is not None]
            if points:
                found = True
                title = title_of(results, dataset)
                axis.plot(*zip(*points, strict=True), "o^sDvP"[i % 6], color=f"C{i}", label=title, ms=5)
        axis.set_xscale("log")
        low, high = np.log10(axis.get_xlim())
        decades = 10.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
        axis.set_xticks(decades, [f"{x:g}" for x in decades])
        axis.minorticks_off()
        axis.set_ylim(-0.5, len(names) - 0.5)
        axis.set_yticks(
            range(len(names)), names if key in ("fit_seconds", "peak_bytes") else [""] * len(names)
        )
        axis.grid(axis="y", color="#EEEEEE")
        axis.set_xlabel(label)
    _save(figure, path, 2)
    return found


def _ablation(results, name: str, path: Path) -> bool:
    from benchmarks.report import ablation_points

    ablation = ABLATIONS[name]
    lines = {dataset: ablation_points(results, name, dataset) for dataset in ABLATED}
    lines = {dataset: found for dataset, found in lines.items() if found}
    if not lines:
        return False
    figure, axes = _panels(len(lines))
    labels = [line.label for line in ablation.lines]
    for axis, (dataset, found) in zip(axes, lines.items(), strict=True):
        for label, points in found.items():
            colour = f"C{labels.index(label)}"
            axis.errorbar(
                *zip(*points, strict=True), marker="o", ms=3, capsize=2, color=colour, label=label
            )
        if ablation.logarithmic:
            axis.set_xscale("log")
        ticks = sorted({p[0] for points in found.values() for p in points})
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.minorticks_off()
        axis.set_title(title_of(results, dataset), fontsize=9)
        axis.set_xlabel(ablation.x)
    axes[0].set_ylabel("accuracy")
    figure.suptitle(ablation.title, fontsize=10)
    _save(figure, path, 3)
    return True
