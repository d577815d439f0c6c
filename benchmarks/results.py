"""Finished cells of the experiments, by what they are, and how tables show them.

In: a folder of results. Out: means, deviations, and the words for what is missing.
"""

import json
from pathlib import Path

import numpy as np

from benchmarks.baselines import SYSTEMS
from benchmarks.cell import data_path, is_current
from benchmarks.protocol import DATA, Cell, repetitions_at
from benchmarks.runner import path_of


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
        """Results of the comparison; systems without privacy have one for all epsilon.

        Only the repetitions that count at this epsilon, so that all systems have met the same rows.
        """
        settings = (("n_estimators", DATA[dataset].trees),) if system == "paper" else ()
        epsilon = epsilon if SYSTEMS[system].claim != "none" else None
        found = self.of(dataset, system, settings, epsilon)
        return [r for r in found if r["cell"]["repetition"] < repetitions_at(epsilon)]

    def environments(self, key: str) -> dict[str, list[str]]:
        """Distinct commits, versions or machines of the results, and the systems that ran there."""
        found: dict[str, set[str]] = {}
        for cell, result in self.cells.items():
            if "environment" in result:
                found.setdefault(result["environment"][key], set()).add(cell.system)
        return {place: sorted(found[place]) for place in sorted(found)}


def mean_and_spread(found: list[dict], key: str) -> tuple[float, float, int] | None:
    """Mean, standard deviation (of the sample) and number of the repetitions that were finished."""
    values = [r[key] for r in found if r["status"] == "done" and key in r]
    if not values:
        return None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values)


def cell_text(found: list[dict], key: str) -> str:
    """A table's entry: a mean, or why there is none."""
    summary = mean_and_spread(found, key)
    if summary is not None:
        mean, spread, n = summary
        text = f"{mean:.4f} ± {spread:.4f}" if n > 1 else f"{mean:.4f}"
        return text if n == repetitions_at(found[0]["cell"]["epsilon"]) else f"{text} ({n})"
    for r in found:
        if r["status"] == "cut off" and r.get("started", True):
            return f"> {r['limit']:.0f} s"
    named = [r["status"] for r in found]
    if "done" in named:
        return "not measured"
    return next((s for s in ("absent", "failed") if s in named), "not run")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def title_of(results: Results, dataset: str) -> str:
    """A data set's name, with "sample" where it is one."""
    sample = results.data.get(dataset, {}).get("sample", "")
    return DATA[dataset].title + (f", {sample}" if sample else "")


def label_of(system: str) -> str:
    """A system's name, with a word of warning where its privacy claim is broken."""
    return system + (" (claim broken)" if SYSTEMS[system].claim == "broken" else "")
