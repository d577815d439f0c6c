"""One cell, run and measured in a process of its own.

In: a ``Cell`` as JSON on the command line. Out: one JSON file, written whole or not at all. Times are of
the processor, so that neither a busy machine nor a paused run changes what is measured.
"""

import contextlib
import json
import math
import os
import pickle
import resource
import sys
import threading
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environment, scores
from benchmarks.baselines import SYSTEMS, installed
from benchmarks.protocol import Cell, fingerprint, identity, load, make_system, split
from lumberjack.files import open_to_write


def opening(cell: Cell) -> dict[str, Any]:
    """What every result begins with: which cell it is, and of which system exactly."""
    return {"cell": cell.to_dict(), "identity": identity(cell)}


def data_path(folder: Path, dataset: str, rows: int | None) -> Path:
    """Where it is kept what a data set was like."""
    return folder / "data" / f"{dataset}{f'-{rows}' if rows else ''}.json"


def is_current(found: dict[str, Any], cell: Cell, data: dict[str, Any]) -> bool:
    """Whether a result is this cell's, of its system as it is now and of the data as they are."""
    same = all(found.get(k, data.get(k)) == data.get(k, found.get(k)) for k in ("rows", "digest"))
    return same and opening(cell).items() <= found.items()


def run(cell: Cell) -> dict[str, Any]:
    """Fit, predict and measure; the result as plain data."""
    started = time.monotonic()
    result = {**opening(cell), "environment": environment.describe()}
    known = SYSTEMS.get(cell.system)
    if known is not None and not installed(known):
        return {**result, "status": "absent", "why": f"{known.needs} is not installed"}
    X, y, domain, _ = load(cell.dataset, cell.rows)
    classes = np.unique(y).tolist()
    train, tune, test = split(X, y, cell.repetition)
    # The system's own randomness, never Lumberjack's noise: that comes from the operating system.
    rng = np.random.default_rng([cell.repetition, zlib.crc32(cell.name.encode())])
    model = make_system(cell.system, cell.settings)
    _warm_up(cell, train, domain, classes)
    before = _reset_peak()
    begin = time.process_time()
    model.fit(*train, domain, classes, cell.epsilon, rng, tune)
    fitted = time.process_time()
    said = model.predict(test[0])
    predicted = time.process_time()
    peak = _peak() - before
    shares = model.predict_proba(test[0])
    return {
        **result,
        "status": "done",
        **scores.of_classes(shares, np.searchsorted(classes, test[1])),
        "accuracy": float(np.mean(said == test[1])),
        "fit_seconds": fitted - begin,
        "predict_seconds": predicted - fitted,
        "peak_bytes": max(peak, 0),
        "model_bytes": len(pickle.dumps(model)),
        "rows": len(y),
        "digest": fingerprint(X, y, domain),
        "chosen": getattr(model, "chosen", None),  # by tuning
        "seconds": time.monotonic() - started,
        "cpu_seconds": time.process_time(),  # all of the process, imports included
    }


def _warm_up(cell: Cell, train, domain, classes) -> None:
    """A small fit that imports and compiles what it needs, so that the real one is not timed with it."""
    X, y = few = tuple(part[:200] for part in train)
    trial = make_system(cell.system, cell.settings).trial
    model = make_system(cell.system, tuple({**dict(cell.settings), **trial}.items()))
    # With a budget at which so few rows are enough to learn classes and grow whatever there is.
    epsilon = None if cell.epsilon is None else 50.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it promises next to nothing
        model.fit(X, y, domain, classes, epsilon, np.random.default_rng(0), few).predict(X)


def _reset_peak() -> int:
    """Forget the largest memory so far where the system can, and say what is in use now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    """Largest resident memory in bytes: since the last reset on Linux, since the start elsewhere."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def write(path: Path, found: dict[str, Any]) -> None:
    """Write a result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_write(path) as file:
        file.write(f"{json.dumps(found, indent=1)}\n".encode())


def _die_with_parent() -> None:
    """End this process when the runner, at the other end of stdin, is gone."""

    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


def main(text: str, path: str, limit: str) -> None:
    """Run the cell and write its file; what goes wrong is a result too.

    After ``limit`` seconds of processor time the system ends this process with SIGXCPU.
    """
    _die_with_parent()
    soft = math.ceil(float(limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 60))
    cell = Cell.from_dict(json.loads(text))
    try:
        found = run(cell)
    except Exception as error:
        found = {**opening(cell), "status": "failed", "why": f"{type(error).__name__}: {error}"}
    write(Path(path), found)
    if found["status"] == "failed":
        sys.exit(found["why"])


if __name__ == "__main__":
    main(*sys.argv[1:])
