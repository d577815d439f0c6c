"""Runs cells, several at a time, each in a process of its own; goes on where it was stopped.

In: cells and a folder. Out: one file a cell. Stopping the runner at any point, by whatever signal, loses
no more than the cells that are just running.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.cell import data_path, is_current, opening, write
from benchmarks.protocol import LIMIT, Cell

CUT_OFF_AFTER = (
    2  # cells of one system on one data set that ran out of time, before the rest is left out
)
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA")


def path_of(folder: Path, cell: Cell) -> Path:
    """Where a cell's result is."""
    return folder / "cells" / f"{cell.name}.json"


def read(folder: Path, cell: Cell) -> dict | None:
    """A cell's result, or None if there is none that is readable, this cell's, and not outdated."""
    try:
        found = json.loads(path_of(folder, cell).read_text("utf-8"))
        about = data_path(folder, cell.dataset, cell.rows)
        data = json.loads(about.read_text("utf-8")) if about.is_file() else {}
        return found if is_current(found, cell, data) else None
    except (OSError, ValueError, AttributeError):
        return None


def finished(found: dict | None, limit: float) -> bool:
    """Whether a cell need not be run: a failure is tried again, a cut-off with more time too."""
    if found is None or found["status"] == "failed":
        return False
    if found["status"] == "cut off":
        return found["limit"] >= limit
    return found["status"] == "done"


@dataclass
class Estimate:
    """How long cells take: as their likes did."""

    seen: dict = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, rows: int | None) -> "Estimate":
        """What all results in a folder tell, for cells of so many rows."""
        estimate = cls()
        for path in (folder / "cells").glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found = json.loads(path.read_text("utf-8"))
                cell = Cell.from_dict(found["cell"])
                if cell.rows == rows and found["status"] in ("done", "cut off"):
                    each = (found.get(key) for key in ("cpu_seconds", "seconds", "limit"))
                    estimate.add(cell, next(seconds for seconds in each if seconds is not None))
        return estimate

    @staticmethod
    def _likes(cell: Cell) -> tuple:
        """From the most to the least similar."""
        return _kind(cell), (cell.dataset, cell.system), cell.system, ""

    def add(self, cell: Cell, seconds: float) -> None:
        """Remember a finished cell."""
        for key in self._likes(cell):
            self.seen.setdefault(key, []).append(seconds)

    def seconds(self, cell: Cell) -> float | None:
        """The median of the most similar cells, so that a pause does not count; None without any."""
        known = [key for key in self._likes(cell) if key in self.seen]
        return float(np.median(self.seen[known[0]])) if known else None

    def knows(self, cell: Cell) -> bool:
        """Whether a cell of this system on this data set was run."""
        return self._likes(cell)[1] in self.seen

    def total(self, cells: list[Cell], jobs: int) -> float | None:
        """Seconds for all of those cells, so many at a time."""
        each = [self.seconds(cell) for cell in cells]
        return None if None in each else sum(each) / jobs


def span(seconds: float | None) -> str:
    """A time in words."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """A bar on a terminal, a line a cell elsewhere."""

    def __init__(self, total: int, stream=sys.stderr):
        self.total, self.stream, self.terminal = total, stream, stream.isatty()

    def show(self, done: int, left: float | None, last: str) -> None:
        """Say how far it is, and how long it will take."""
        filled = 30 * done // max(self.total, 1)
        bar = "#" * filled + "-" * (30 - filled)
        text = f"[{bar}] {done}/{self.total} cells, about {span(left)} left"
        if self.terminal:
            self.stream.write(f"\r\x1b[K{text}  {last}"[:160])
        else:
            self.stream.write(f"{text}  {last}\n")
        self.stream.flush()

    def end(self) -> None:
        """Leave the bar's line."""
        if self.terminal:
            self.stream.write("\n")


def run(cells: list[Cell], folder: Path, *, jobs: int, limit: float = LIMIT, progress=None) -> Counter:
    """Run what is not finished; how many cells ended in which way."""
    job = _Run(cells, folder, jobs, limit, progress or Progress(len(cells)))
    try:
        job.go()
    finally:
        for process in job.running:
            _kill(process)
    return job.ended


class _Run:
    """The state of a run: what waits, what runs, how things ended."""

    def __init__(self, cells, folder, jobs, limit, progress):
        self.folder, self.jobs, self.limit, self.progress = folder, jobs, limit, progress
        self.waiting: list[Cell] = []
        self.running: dict[subprocess.Popen, tuple[Cell, float]] = {}
        self.estimate = Estimate.of(folder, cells[0].rows if cells else None)
        self.cut, self.ended = Counter(), Counter()
        self.total, self.last = len(cells), ""
        for cell in cells:
            found = read(folder, cell)
            if not finished(found, limit):
                self.waiting.append(cell)
                continue
            self.cut[_kind(cell)] += found["status"] == "cut off"
            self.ended["finished before"] += 1

    def go(self) -> None:
        """Until nothing is left."""
        self._show()
        while self.waiting or self.running:
            while self.waiting and len(self.running) < self.jobs:
                self._begin(self.waiting.pop(0))
            over = [process for process in self.running if process.poll() is not None]
            for process in over:
                self._end(process)
                self._show()
            if not over:
                time.sleep(0.05)
        self.progress.end()

    def _begin(self, cell: Cell) -> None:
        if self.cut[_kind(cell)] < CUT_OFF_AFTER:
            self.running[_start(cell, self.folder, self.limit)] = cell, time.monotonic()
        else:
            write(path_of(self.folder, cell), _cut_off(cell, self.limit, started=False))
            self.ended["left out"] += 1

    def _end(self, process: subprocess.Popen) -> None:
        cell, since = self.running.pop(process)
        if process.returncode == -signal.SIGXCPU:
            write(path_of(self.folder, cell), _cut_off(cell, self.limit, started=True))
            self.cut[_kind(cell)] += 1
        found = read(self.folder, cell) or {
            "status": "failed",
            "why": "the process died, or the code changed",
        }
        took = time.monotonic() - since
        self.estimate.add(cell, took)
        self.ended[found["status"]] += 1
        why = f" ({found['why']})" if "why" in found else ""
        self.last = f"{cell.name}: {found['status']}{why}, {span(took)}"

    def _show(self) -> None:
        left = [*self.waiting, *(cell for cell, _ in self.running.values())]
        self.progress.show(
            self.total - len(left), self.estimate.total(left, self.jobs) if left else 0.0, self.last
        )


def _kind(cell: Cell) -> tuple:
    return cell.dataset, cell.system, cell.settings


def _cut_off(cell: Cell, limit: float, *, started: bool) -> dict:
    return {**opening(cell), "status": "cut off", "limit": limit, "started": started}


def _start(cell: Cell, folder: Path, limit: float) -> subprocess.Popen:
    """A process for one cell: one thread, a session of its own, and a pipe that tells it of our end."""
    path = path_of(folder, cell)
    path.unlink(missing_ok=True)
    threads = {f"{name}_NUM_THREADS": "1" for name in _THREADS}
    words = [json.dumps(cell.to_dict()), str(path.absolute()), str(limit)]
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.cell", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, **threads},
        start_new_session=True,
    )


def _kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
