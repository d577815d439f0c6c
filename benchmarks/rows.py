"""How much data a budget needs: learning curves on real tables, from 1,000 rows to all.

    LUMBERJACK_DATA=... python -m benchmarks.rows [--splits 5] [--data adult income] [--jobs 2]

The default with nothing declared and with everything declared, counted leaves and the two strongest
rivals, on the same splits, delta = 1e-6. Writes the tables into docs/choosing.md and the picture beside
it. A stopped run goes on where it was; ``--print`` runs nothing and writes what there is.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks.accuracy import ROOT, Task, read, run_all
from lumberjack import plan

ROWS = (1000, 2000, 5000, 10_000, 20_000, 40_000, None)  # None: all
EPSILONS = (0.5, 1.0, 4.0)
MODELS = {
    "undeclared": "default, nothing declared",
    "default": "default, all declared",
    "counts": '`leaf="counts"`, all declared',
    "lr-pairs": "`lr-pairs`, all declared",
    "lr-nested": "`lr-nested`, all declared",
}
GOAL = "hist-gradient-boosting"  # without privacy, on all rows: what could be learned
LEVELS = (0.8, 0.9, 0.95)  # of the way from a guess to that
TITLES = {"adult": "Adult", "income": "ACSIncome (CA)"}
PAGE = ROOT / "docs" / "choosing.md"
PICTURE = "learning_curve.png"
BLOCK = "<!-- learning curve -->\n", "<!-- end of learning curve -->\n"

Scores = dict[tuple, tuple[float, float]]


def tasks_of(data, splits) -> list[Task]:
    """All fits."""
    out = [
        Task(name, model, epsilon, seed, rows)
        for name in data
        for seed in range(splits)
        for rows in ROWS
        for model in MODELS
        for epsilon in EPSILONS
    ]
    return out + [Task(name, GOAL, None, seed) for name in data for seed in range(splits)]


def means(records) -> Scores:
    """Mean accuracy and AUC over splits, by table, model, epsilon and rows."""
    found = {}
    for task, record in records.items():
        key = task.data, task.model, task.epsilon, task.rows
        found.setdefault(key, []).append((record["accuracy"], record["auc"]))
    return {key: tuple(map(float, np.mean(values, axis=0))) for key, values in found.items()}


def curve_table(scores: Scores, data: str, epsilon: float) -> str:
    """Accuracy and AUC: rows down, models across."""
    lines = [
        f"| ε = {epsilon:g} | " + " | ".join(MODELS.values()) + " |",
        "|---" * (len(MODELS) + 1) + "|",
    ]
    for rows in ROWS:
        each = (scores.get((data, model, epsilon, rows)) for model in MODELS)
        cells = ["not run" if pair is None else "{:.3f}, {:.3f}".format(*pair) for pair in each]
        lines.append(f"| {f'{rows:,} rows' if rows else 'all'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def first_rows(scores: Scores, place: tuple, level: float) -> str:
    """The fewest rows, of those tried, from which on AUC is that far from 0.5 towards the goal's."""
    data, model, epsilon = place
    tried = [(rows, scores.get((data, model, epsilon, rows))) for rows in ROWS]
    goal = scores.get((data, GOAL, None, None))
    if goal is None or any(pair is None for _, pair in tried):
        return "not run"
    needed = None
    for rows, (_, auc) in reversed(tried):
        if auc < 0.5 + level * (goal[1] - 0.5):
            break
        needed = f"{rows:,}" if rows else "all"
    return needed or "more"


def need_table(scores: Scores, data: str) -> str:
    """How many rows each model needs for a share of what could be learned."""
    models = list(MODELS)
    lines = [
        "| ε | of what can be learned | "
        + " | ".join(MODELS[m] for m in models)
        + " | `plan` suggests |",
        "|---" * (len(models) + 3) + "|",
    ]
    for epsilon in EPSILONS:
        for level in LEVELS:
            cells = [first_rows(scores, (data, model, epsilon), level) for model in MODELS]
            suggested = f"{plan(epsilon, 1e-6).suggested_rows:,}" if level == LEVELS[0] else ""
            lines.append(f"| {epsilon:g} | {level:.0%} | " + " | ".join(cells) + f" | {suggested} |")
    return "\n".join(lines)


def block(scores: Scores, data, splits: int) -> str:
    """What stands in the page: a picture, the rows that are needed, and the curves."""
    parts = [f"![AUC against rows]({PICTURE})"]
    for name in data:
        title = TITLES[name]
        parts += [f"**{title}: how many rows do I need?**", need_table(scores, name)]
    first = data[0]
    parts.append(
        f"**{TITLES[first]}: accuracy, AUC**, mean of {splits} splits; *all* is nine tenths of the table"
    )
    parts += [curve_table(scores, first, epsilon) for epsilon in EPSILONS]
    return "\n\n".join(parts) + "\n"


def put(text: str, page: Path) -> None:
    """Replace what stands between the marks of the page."""
    before, rest = page.read_text("utf-8").split(BLOCK[0])
    _, after = rest.split(BLOCK[1])
    page.write_text(f"{before}{BLOCK[0]}{text}{BLOCK[1]}{after}", "utf-8")


def draw(scores: Scores, data, path: Path) -> None:
    """AUC against rows: a row of panels a table, a column an epsilon, a line a model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shape = len(data), len(EPSILONS)
    size = 3.2 * shape[1] + 0.4, 2.7 * shape[0] + 0.8
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, sharey="row", layout="constrained")
    for name, line in zip(data, axes, strict=True):
        for epsilon, axis in zip(EPSILONS, line, strict=True):
            _lines(axis, scores, name, epsilon)
            axis.set_xscale("log")
            axis.set_xticks([r for r in ROWS if r], [f"{r // 1000}k" for r in ROWS if r])
            axis.minorticks_off()
            axis.set_title(f"{TITLES[name]}, ε = {epsilon:g}", fontsize=9)
        line[0].set_ylabel("AUC")
    for axis in axes[-1]:
        axis.set_xlabel("rows")
    shown = dict(zip(*reversed(axes[0][0].get_legend_handles_labels()), strict=True))
    if shown:
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _lines(axis, scores: Scores, data: str, epsilon: float) -> None:
    for i, (model, label) in enumerate(MODELS.items()):
        points = [(r, scores.get((data, model, epsilon, r))) for r in ROWS if r]
        points = [(r, pair[1]) for r, pair in points if pair is not None]
        if points:
            style = {"marker": "o^sDv"[i], "ms": 3, "color": f"C{i}", "label": label.replace("`", "")}
            axis.plot(*zip(*points, strict=True), **style)
    if (data, GOAL, None, None) in scores:
        goal = scores[data, GOAL, None, None][1]
        axis.axhline(goal, color="#888", ls=":", label="gradient boosting, not private, all rows")


def main(words=None) -> int:
    """Run what is missing, and write page and picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", nargs="+", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="fits at a time")
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "rows.jsonl")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--print", action="store_true", help="only write what there is")
    given = parser.parse_args(words)
    tasks = tasks_of(given.data, given.splits)
    failed = 0 if given.print else run_all(tasks, given.output, given.jobs)
    found = read(given.output)
    scores = means({task: found[task] for task in tasks if task in found})
    put(block(scores, given.data, given.splits), given.page)
    draw(scores, given.data, given.page.parent / PICTURE)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
