"""Tables and figures from finished cells: ``docs/results.md`` and the files beside it.

In: a folder of results. Out: Markdown, figures and an archive, generated and never written by hand.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import archive, figures
from benchmarks.baselines import SYSTEMS
from benchmarks.cell import data_path, is_current
from benchmarks.protocol import ABLATED, ABLATIONS, DATA, EPSILONS, LIMIT, REPETITIONS, Cell
from benchmarks.runner import path_of

OURS = ("lumberjack", "paper")
ORDERS = ("default ≥ `paper()`", "`paper()` ≥ best other", "default ≥ best other")
CLAIMS = {
    "proved": "holds",
    "reserve": "holds with a reserve",
    "broken": "**broken**",
    "none": "makes none",
}


class Results:
    """Finished cells, by what they are; those of another version of their system are left out."""

    def __init__(self, folder: Path, rows: int | None = None):
        self.rows, self.cells, self.data, self.outdated = rows, {}, {}, 0
        for name in DATA:
            path = data_path(folder, name, rows)
            if path.is_file():
                self.data[name] = json.loads(path.read_text("utf-8"))
        for path in sorted((folder / "cells").glob("*.json")):
            try:
                found = json.loads(path.read_text("utf-8"))
                cell = Cell.from_dict(found["cell"])
            except (ValueError, KeyError, TypeError):
                continue  # not a result: the runner will make it anew
            if cell.rows != rows:
                continue
            if is_current(found, cell, self.data.get(cell.dataset, {})):
                self.cells[cell] = found
            else:
                self.outdated += 1

    def by_file(self) -> dict[Path, dict]:
        """All that the page is made of, by the names of the files in a folder of results."""
        data = {data_path(Path(), name, self.rows): found for name, found in self.data.items()}
        return data | {path_of(Path(), cell): found for cell, found in self.cells.items()}

    @property
    def datasets(self) -> list[str]:
        """Data sets with results, in the order of the protocol."""
        return [n for n in DATA if any(cell.dataset == n for cell in self.cells)]

    def of(self, dataset, system, settings, epsilon) -> list[dict]:
        """Results of all repetitions, in order."""
        cells = [Cell(dataset, system, settings, epsilon, r, self.rows) for r in range(100)]
        return [self.cells[cell] for cell in cells if cell in self.cells]

    def main(self, dataset, system, epsilon) -> list[dict]:
        """Results of the comparison; systems without privacy have one for all epsilon."""
        settings = (("n_estimators", DATA[dataset].trees),) if system == "paper" else ()
        private = SYSTEMS[system].claim != "none"
        return self.of(dataset, system, settings, epsilon if private else None)

    def environments(self, key: str) -> dict[str, list[str]]:
        """Distinct commits, versions or machines of the results, and the systems that ran there."""
        found: dict[str, set[str]] = {}
        for cell, result in self.cells.items():
            if "environment" in result:
                found.setdefault(result["environment"][key], set()).add(cell.system)
        return {place: sorted(found[place]) for place in sorted(found)}


def mean_and_spread(found: list[dict], key: str) -> tuple[float, float, int] | None:
    """Mean, standard deviation (of the sample) and number of the repetitions that were finished."""
    values = [r[key] for r in found if r["status"] == "done"]
    if not values:
        return None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values)


def cell_text(found: list[dict], key: str) -> str:
    """A table's entry: a mean, or why there is none."""
    summary = mean_and_spread(found, key)
    if summary is not None:
        mean, spread, n = summary
        text = f"{mean:.4f} ± {spread:.4f}" if n > 1 else f"{mean:.4f}"
        return text if n == REPETITIONS else f"{text} ({n})"
    for r in found:
        if r["status"] == "cut off" and r.get("started", True):
            return f"> {r['limit']:.0f} s"
    named = [r["status"] for r in found]
    return next((s for s in ("absent", "failed") if s in named), "not run" if named else "–")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def title_of(results: Results, dataset: str) -> str:
    """A data set's name, with "sample" where it is one."""
    sample = results.data.get(dataset, {}).get("sample", "")
    return DATA[dataset].title + (f", {sample}" if sample else "")


def data_table(results: Results) -> str:
    """The paper's table of data sets, beside what was used here."""
    rows = []
    for name, data in DATA.items():
        found = results.data.get(name)
        if found is None:
            continue
        if "absent" in found:
            rows.append([data.title, *["–"] * 5, "not available here, not run"])
            continue
        ours = (found["features"], found["categorical"], found["classes"])
        ours += (round(found["majority"], 1), found["rows"])
        if data.paper is None:
            verdict = "not a data set of the paper"
        elif found["sample"]:
            verdict = f"{found['sample']}; the paper has {data.paper[4]:,} rows, {data.paper[3]} %"
            if ours[:3] != data.paper[:3]:
                verdict += f"; **differs**: the paper has {data.paper[:3]}"
        else:
            verdict = (
                "as in the paper" if ours == data.paper else f"**differs**: the paper has {data.paper}"
            )
        rows.append([data.title, *map(str, ours[:3]), f"{ours[3]} %", f"{ours[4]:,}", verdict])
    return table(["data", "features", "categorical", "classes", "majority", "rows", "check"], rows)


def score_table(results: Results, dataset: str, key: str) -> str:
    """One data set: systems down, epsilon across, and a column for those that are not private."""
    rows = []
    for name, system in SYSTEMS.items():
        if system.claim == "none":
            text = cell_text(results.main(dataset, name, None), key)
            rows.append([name, *[""] * len(EPSILONS), text])
        else:
            said = (cell_text(results.main(dataset, name, e), key) for e in EPSILONS)
            rows.append([label_of(name), *said, ""])
    return table(["", *(f"ε = {e:g}" for e in EPSILONS), "not private"], rows)


def label_of(system: str) -> str:
    """A system's name, with a word of warning where its privacy claim is broken."""
    return system + (" (claim broken)" if SYSTEMS[system].claim == "broken" else "")


def order_verdict(better, worse) -> str:
    """Whether a mean is at least another, within one standard deviation (the larger of the two)."""
    if better is None or worse is None:
        return "–"
    gap, spread = better[0] - worse[0], max(better[1], worse[1])
    if gap >= 0:
        return f"yes (+{gap:.4f})"
    return f"within one s.d. ({gap:.4f})" if -gap <= spread else f"**no** ({gap:.4f})"


def orders(results: Results) -> Iterator[tuple[str, float, str, list[str]]]:
    """For each data set and epsilon the best other private system, and whether each order holds."""
    others = [n for n, s in SYSTEMS.items() if s.claim != "none" and n not in OURS]
    for dataset in results.datasets:
        for epsilon in EPSILONS:
            default, paper = (
                mean_and_spread(results.main(dataset, name, epsilon), "accuracy") for name in OURS
            )
            found = {n: mean_and_spread(results.main(dataset, n, epsilon), "accuracy") for n in others}
            found = {n: summary for n, summary in found.items() if summary is not None}
            if default is None and paper is None:
                continue
            best = max(found, key=lambda n: found[n][0], default=None)
            rest = f"{label_of(best)}, {found[best][0]:.4f}" if best else "–"
            pairs = ((default, paper), (paper, found.get(best)), (default, found.get(best)))
            yield dataset, epsilon, rest, [order_verdict(*pair) for pair in pairs]


def order_table(results: Results) -> str:
    """Is default Lumberjack >= paper() >= every private baseline?"""
    rows = [
        [title_of(results, dataset), f"{epsilon:g}", verdicts[0], rest, *verdicts[1:]]
        for dataset, epsilon, rest, verdicts in orders(results)
    ]
    head = ["data", "ε", ORDERS[0], "best other", *ORDERS[1:]]
    return table(head, rows)


def order_sentences(results: Results) -> str:
    """How often each order holds."""
    said = []
    for i, order in enumerate(ORDERS):
        each = [verdicts[i] for *_, verdicts in orders(results) if verdicts[i] != "–"]
        held, close = (sum(v.startswith(start) for v in each) for start in ("yes", "within"))
        said.append(f"{order}: {held} of {len(each)}, {close} more within one standard deviation")
    private = [n for n, s in SYSTEMS.items() if s.claim != "none"]
    missing = [
        f"{name} on {title_of(results, dataset)}"
        for dataset in results.datasets
        for name in private
        if not any(mean_and_spread(results.main(dataset, name, e), "accuracy") for e in EPSILONS)
    ]
    without = f" Not in it, for lack of results: {', '.join(missing)}." if missing else ""
    return f"{'; '.join(said)}.{without}"


def size(n: float) -> str:
    """Bytes in words."""
    return f"{n / 1e6:.1f} MB" if n >= 1e6 else f"{n / 1e3:.0f} kB"


def cost_table(results: Results, dataset: str) -> str:
    """Fit and predict time, memory and size of each system, at epsilon = 1."""
    rows = []
    for name in SYSTEMS:
        found = results.main(dataset, name, 1.0)
        summaries = [
            mean_and_spread(found, key)
            for key in ("fit_seconds", "predict_seconds", "peak_bytes", "model_bytes")
        ]
        if None in summaries:
            rows.append([name, cell_text(found, "accuracy"), "", "", ""])
            continue
        fit, predict, peak, stored = (summary[0] for summary in summaries)
        rows.append([name, f"{fit:.2f} s", f"{predict:.3f} s", size(peak), size(stored)])
    return table(["", "fit", "predict the test split", "peak memory", "model"], rows)


def claim_table() -> str:
    """What each system's privacy claim is worth."""
    rows = [[n, CLAIMS[s.claim], s.reason, s.settings] for n, s in SYSTEMS.items()]
    return table(["system", "its (ε, δ) claim", "because", "settings"], rows)


def ablation_points(results: Results, name: str, dataset: str) -> dict[str, list[tuple]]:
    """For each line of an ablation its finished points (x, mean, spread)."""
    lines = {}
    for line in ABLATIONS[name].lines:
        points = []
        for x, system, settings, epsilon in line.points:
            summary = mean_and_spread(results.of(dataset, system, settings, epsilon), "accuracy")
            if summary is not None:
                points.append((x, *summary[:2]))
        if points:
            lines[line.label] = points
    return lines


def ablation_sentence(results: Results, name: str) -> str:
    """What an ablation found, in one sentence."""
    said = []
    for dataset in ABLATED:
        lines = ablation_points(results, name, dataset)
        if not lines:
            continue
        title = title_of(results, dataset)
        if ABLATIONS[name].x == "ε":
            at = {label: p for label, points in lines.items() for p in points if p[0] == 1.0}
            values = ", ".join(f"{label} {p[1]:.4f} ± {p[2]:.4f}" for label, p in at.items())
            said.append(f"on {title} at ε = 1: {values}")
        else:
            for label, points in lines.items():
                best, worst = (pick(points, key=lambda p: p[1]) for pick in (max, min))
                if best[1] == worst[1]:
                    said.append(f"on {title} ({label}) accuracy is {best[1]:.4f} wherever it was tried")
                    continue
                said.append(
                    f"on {title} ({label}) accuracy is best at {best[0]:g} with {best[1]:.4f} and worst "
                    f"at {worst[0]:g} with {worst[1]:.4f}"
                )
    wanted = {line.label for line in ABLATIONS[name].lines}
    seen = {label for dataset in ABLATED for label in ablation_points(results, name, dataset)}
    if seen and wanted - seen:
        said.append(f"not run: {', '.join(sorted(wanted - seen))}")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if said else "Not run yet."


def write(folder: Path, output: Path, rows: int | None = None) -> str:
    """Write results.md and its figures; the path of the page."""
    results = Results(folder, rows)
    pictures = output / "results"
    pictures.mkdir(parents=True, exist_ok=True)
    drawn = figures.draw_all(results, pictures)
    archive.pack(results.by_file(), pictures / archive.NAME)
    page = output / "results.md"
    page.write_text("\n\n".join(_page(results, drawn)) + "\n", "utf-8")
    outdated = f", {results.outdated} outdated ones left out" if results.outdated else ""
    return f"{page}: {len(results.cells)} cells{outdated}"


def _page(results: Results, drawn: set[str]) -> list[str]:
    def picture(name: str) -> list[str]:
        return [f"![{name}](results/{name}.png)"] if name in drawn else []

    parts = ["# Results", *_opening(results), "## Data sets", data_table(results)]
    for key, title in (("accuracy", "Accuracy"), ("auc", "AUC")):
        parts += [f"## {title}", *picture(key)]
        for dataset in results.datasets:
            parts += [f"**{title_of(results, dataset)}**", score_table(results, dataset, key)]
    parts += [
        "## Does the order hold?",
        "Default Lumberjack ≥ `paper()` ≥ every other private system, in mean accuracy, within one "
        "standard deviation of a single run (the larger of the two): *yes* where the mean is at least "
        "as large, *no* where it is smaller by more. That orders what was seen; it is no test of "
        "significance. top-down is this library's own forest with the naive heavy hitters.",
        order_sentences(results),
        order_table(results),
        "## Time, memory and size",
        "Processor time at ε = 1, one thread. Fitting includes tuning where there is any; memory is "
        "what fitting and predicting added to the process at its peak; size is that of the pickle. "
        f"A run is cut off after {_limits(results)} seconds; where two of a system on a data set were, "
        "the rest is not run. Each process has imported and compiled what it needs, in a small fit, "
        "before it is measured.",
        *picture("costs"),
    ]
    for dataset in results.datasets:
        parts += [f"**{title_of(results, dataset)}**", cost_table(results, dataset)]
    parts += [
        "## What the privacy claims are worth",
        "For neighbours that differ by one row, added or removed. Systems without δ promise more with "
        "the same ε: they are marked by δ = 0.",
        claim_table(),
        "## Ablations",
    ]
    for name, ablation in ABLATIONS.items():
        parts += [
            f"### {ablation.title}",
            *picture(f"ablation-{name}"),
            ablation_sentence(results, name),
        ]
    return parts


def _opening(results: Results) -> list[str]:
    trial = []
    if results.rows:
        trial = [
            f"**A trial on {results.rows:,} rows of each data set: it shows the form, not the results.**"
        ]
    return [
        "Generated by `python -m benchmarks report` from what `make bench` ran, never by hand.",
        *trial,
        f"Mean ± standard deviation over {REPETITIONS} repetitions (a number in brackets: fewer), each "
        "with its own stratified 80-10-10 split and new noise; δ = 10⁻⁶ where there is one. No setting "
        "of Lumberjack is chosen for a data set or an ε; its defaults were settled in studies that had "
        "tables of the same sources among others ([guided splits](guided.md), [votes](voting.md)).",
        f"All {len(results.cells):,} results are in [one file](results/{archive.NAME}), a line of JSON "
        "each; `python -m benchmarks restore` unpacks it, and `make bench` then goes on from there.",
        "\n".join(f"- {key}: {_places(results, key)}" for key in ("commit", "versions", "machine")),
    ]


def _places(results: Results, key: str) -> str:
    """Where results were made; where in several, which systems in which."""
    found = results.environments(key)
    if len(found) > 1:
        return "; ".join(f"{place} ({', '.join(systems)})" for place, systems in found.items())
    return next(iter(found), "–")


def _limits(results: Results) -> str:
    limits = {r["limit"] for r in results.cells.values() if r["status"] == "cut off"} or {LIMIT}
    return " or ".join(f"{limit:g}" for limit in sorted(limits))
