"""Tables and figures from finished cells: ``docs/results.md`` and the files beside it.

In: a folder of results. Out: Markdown, figures and an archive, generated and never written by hand.
"""

from pathlib import Path

from benchmarks import ahead, archive, figures
from benchmarks.baselines import SYSTEMS
from benchmarks.protocol import ABLATED, ABLATIONS, DATA, EPSILONS, FEWER, LIMIT, REPETITIONS
from benchmarks.results import Results, cell_text, label_of, mean_and_spread, table, title_of

CLAIMS = {
    "proved": "holds",
    "reserve": "holds with a reserve",
    "broken": "**broken**",
    "none": "makes none",
}


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


def score_table(results: Results, dataset: str, *keys: str) -> str:
    """One data set: systems down, epsilon across, and a column for those that are not private."""
    rows = []
    for name, system in SYSTEMS.items():
        if system.claim == "none":
            text = scores_text(results.main(dataset, name, None), keys)
            rows.append([name, *[""] * len(EPSILONS), text])
        else:
            said = (scores_text(results.main(dataset, name, e), keys) for e in EPSILONS)
            rows.append([label_of(name), *said, ""])
    return table(["", *(f"ε = {e:g}" for e in EPSILONS), "not private"], rows)


def scores_text(found: list[dict], keys: tuple[str, ...]) -> str:
    """One score with its deviation, or the means of several."""
    each = [mean_and_spread(found, key) for key in keys]
    if len(keys) == 1 or None in each:
        return cell_text(found, keys[0])
    return " / ".join(f"{summary[0]:.4f}" for summary in each)


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
        return _picture(name, drawn)

    parts = ["# Results", *_opening(results), "## Data sets", data_table(results)]
    parts += _ahead(results, drawn)
    for key, title in (("accuracy", "Accuracy"), ("auc", "AUC")):
        parts += [f"## {title}", *picture(key)]
        for dataset in results.datasets:
            parts += [f"**{title_of(results, dataset)}**", score_table(results, dataset, key)]
    parts += _calibration(results)
    parts += [
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


def _picture(name: str, drawn: set[str]) -> list[str]:
    return [f"![{name}](results/{name}.png)"] if name in drawn else []


def _ahead(results: Results, drawn: set[str]) -> list[str]:
    """Who leads: means over data sets, then each data set."""
    parts = [
        "## Who is ahead",
        "`lumberjack` is the default with public ranges, categories and classes, "
        "`lumberjack-undeclared` the default with nothing declared, `lumberjack-counts` the default "
        'before (`leaf="counts"`), '
        "and `paper` the paper's settings. All other private systems are rivals; top-down is this "
        "library's own forest with the naive heavy hitters. Differences are of means over the same "
        "splits; they order what was seen and are no test of significance.",
        *(f"- {ahead.sentence(results, key)}" for key in ("accuracy", "auc")),
        ahead.missing(results),
    ]
    for key in ("accuracy", "auc"):
        title = ahead.TITLES[key]
        parts += [
            f"**Mean {title} over {len(results.datasets)} data sets** (only systems that were run on "
            "all of them; bold: the highest with a privacy claim, and the highest without)",
            *_picture(f"mean-{key}", drawn),
            ahead.mean_table(results, key),
            f"**{title[0].upper()}{title[1:]} above the best rival** (bold: behind it)",
            ahead.gap_table(results, key),
        ]
    return [part for part in parts if part]


def _calibration(results: Results) -> list[str]:
    """Brier scores and reliability errors."""
    parts = [
        "## Calibration",
        "Brier score / reliability error, both better when smaller. The Brier score is the mean squared "
        "distance of probabilities from the truth. The reliability error is that of ten bins with about "
        "equal numbers of rows: how far, on average, the mean probability of a bin is from the share "
        "that is true. *Not measured*: run before these were recorded; `run --fresh` runs a system "
        "again. What forests of labels say are shares of trees.",
        *(f"- {ahead.sentence(results, key)}" for key in ahead.SMALLER),
    ]
    for dataset in results.datasets:
        parts += [f"**{title_of(results, dataset)}**", score_table(results, dataset, *ahead.SMALLER)]
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
        f"Mean ± standard deviation over {REPETITIONS} repetitions ({_fewer()}; a number in brackets: "
        "fewer than that), each with its own stratified 80-10-10 split and new noise; δ = 10⁻⁶ where "
        "there is one. No setting of Lumberjack is chosen for a data set or an ε; its defaults were "
        "settled in studies that had tables of the same sources among others "
        "([columns](columns.md), [fitted leaves](fitted.md), [guided splits](guided.md), "
        "[votes](voting.md)).",
        f"All {len(results.cells):,} results are in [one file](results/{archive.NAME}), a line of JSON "
        "each; `python -m benchmarks restore` unpacks it, and `make bench` then goes on from there.",
        "\n".join(f"- {key}: {_places(results, key)}" for key in ("commit", "versions", "machine")),
    ]


def _fewer() -> str:
    return ", ".join(f"{count} at ε = {epsilon:g}" for epsilon, count in FEWER.items())


def _places(results: Results, key: str) -> str:
    """Where results were made; where in several, which systems in which."""
    found = results.environments(key)
    if len(found) > 1:
        return "; ".join(f"{place} ({', '.join(systems)})" for place, systems in found.items())
    return next(iter(found), "–")


def _limits(results: Results) -> str:
    limits = {r["limit"] for r in results.cells.values() if r["status"] == "cut off"} or {LIMIT}
    return " or ".join(f"{limit:g}" for limit in sorted(limits))
