"""Accuracy, AUC and calibration on real data, or R2: means over 90-10 splits, with new noise each time.

    LUMBERJACK_DATA=... python -m benchmarks.accuracy [--splits 5] [--rows 5000] [--data adult ...]
        [--epsilons 0.5 1 4] [--models default lr-pairs ...] [--jobs 2] [--output out/accuracy.jsonl]

delta = 1e-6. Compared on the same splits: the default (leaves fitted together) with declared columns
and with nothing declared, counted leaves, random splits, ``paper()`` with 30 trees, linear models,
boosted trees and naive Bayes of ``benchmarks/baselines``, DP-EBM of ``interpret-core`` with its defaults
and the same bounds (extra ``bench``), and scikit-learn's forests and gradient boosting without privacy.
For numbers also bounds of the target that are 10 and 1,000 times too wide.

Every fit is a line of JSON in the output. A stopped run goes on where it was; a fit is repeated when
the sources that it depends on have changed. ``python -m benchmarks.accuracy --print`` runs nothing.
"""

import argparse
import functools
import hashlib
import importlib.util
import json
import multiprocessing
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.metrics import r2_score

from benchmarks import contest, contestants, problems, scores
from benchmarks.contestants import MODELS, NOT_PRIVATE, OURS, RIVALS
from benchmarks.toy import SCALES, train

ROOT = Path(__file__).parent.parent
EPSILONS = (0.5, 1.0, 4.0)
DATA = (*problems.FOUR, "occupation", "housing", "age", "rooms")


@dataclass(frozen=True)
class Task:
    """One fit: a model on a table at an epsilon, with one split."""

    data: str
    model: str
    epsilon: float | None  # None: not private
    seed: int
    rows: int | None = None  # to train on; None: all


@functools.cache
def sources(model: str) -> str:
    """A short name for the sources that a model's scores depend on."""
    benchmarks = ROOT / "benchmarks"
    paths = [benchmarks / f"{name}.py" for name in ("contestants", "problems", "scores")]
    if model in OURS:
        paths += sorted((ROOT / "src" / "lumberjack").rglob("*.py"))
    elif model in RIVALS:
        names = ("base", "bayes", "boosting", "cells", "linear")
        paths += [benchmarks / "baselines" / f"{name}.py" for name in names]
    found = hashlib.blake2b(digest_size=8)
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


@functools.lru_cache(maxsize=1)
def _table(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return problems.load(name)


def run(task: Task) -> dict | None:
    """Fit and measure; None if there is no such model for the target."""
    table = _table(task.data)
    model = contestants.make(task.model, task.epsilon, table)
    if model is None:
        return None
    (X, y), (X_test, y_test) = problems.split(table, task.seed, task.rows)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
        except ValueError:  # no class is frequent enough to be learned
            if task.model != "undeclared" or not table.n_classes:
                raise
            model = None
    took = time.process_time() - begin
    if table.n_classes:
        found = scores.of_classes(_shares(model, X_test, table.n_classes), y_test)
    else:
        found = {"r2": float(r2_score(y_test, model.predict(X_test)))}
    return {**asdict(task), "sources": sources(task.model), **found, "fit_seconds": took}


def _shares(model, X, n_classes):
    """Probabilities of all classes, shape (n_rows, n_classes): 0 for those that were not learned."""
    if model is None:
        return np.full((len(X), n_classes), 1 / n_classes)
    said = model.predict_proba(X)
    known = getattr(model, "classes_", None)
    if known is None or len(known) == n_classes:
        return said
    shares = np.zeros((len(said), n_classes))
    shares[:, np.asarray(known)] = said
    return shares


def tasks_of(arguments) -> list[Task]:
    """All fits, split by split, so that a stopped run has seen every model; tables one after another."""
    out = []
    for data in arguments.data:
        for seed in range(arguments.first, arguments.first + arguments.splits):
            for model in arguments.models:
                for epsilon in (None,) if model in NOT_PRIVATE else arguments.epsilons:
                    out.append(Task(data, model, epsilon, seed, arguments.rows))
    return out


def read(path: Path) -> dict[Task, dict]:
    """Fits of an output that are not outdated. The last line may be half of one."""
    found = {}
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            record = json.loads(line)
            task = Task(**{key: record[key] for key in Task.__dataclass_fields__})
        except (ValueError, KeyError, TypeError):
            continue
        if record.get("sources") == sources(task.model):
            found[task] = record
    return found


def run_all(tasks, path: Path, jobs: int) -> int:
    """Run what the output lacks, several fits at a time, each in one thread; how many failed."""
    done = read(path)
    waiting = [task for task in tasks if task not in done]
    failed = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    with (
        mock.patch.dict(os.environ, threads),
        path.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(jobs, mp_context=spawn) as pool,
    ):
        if file.tell():
            file.write("\n")  # what was written last may be half a line
        running = {pool.submit(run, task): task for task in waiting}
        try:
            for n, future in enumerate(as_completed(running), 1):
                error = future.exception()
                if error is None and (record := future.result()) is not None:
                    file.write(json.dumps(record) + "\n")
                    file.flush()
                failed += error is not None
                how = f": {type(error).__name__}: {error}" if error else ""
                print(f"{n}/{len(waiting)} {running[future]}{how}", file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _there(name: str) -> bool:
    """Whether a table can be had; said if not."""
    try:
        _table(name)
    except FileNotFoundError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return False
    return True


def toy():
    for scale in SCALES:
        _, models = train(scale)
        for name, (_, accuracy) in models.items():
            print(f"{f'toy, ranges x{scale}':16} {name:35} {accuracy:.4f}", flush=True)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="seed of the first split")
    parser.add_argument("--rows", type=int, help="train on so many rows of each split")
    parser.add_argument("--data", nargs="*", default=DATA, choices=[*problems.PROBLEMS, "toy"])
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="fits at a time")
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "accuracy.jsonl")
    parser.add_argument("--print", action="store_true", help="only print what there is")
    given = parser.parse_args(words)
    if "dp-ebm" in given.models and importlib.util.find_spec("interpret") is None:
        print("DP-EBM is left out: interpret-core is not installed (pip install 'interpret-core<0.8')")
        given.models = [m for m in given.models if m != "dp-ebm"]
    if "toy" in given.data:
        toy()
        given.data = [name for name in given.data if name != "toy"]
    given.data = [name for name in given.data if _there(name)]
    tasks = tasks_of(given)
    failed = 0 if given.print else run_all(tasks, given.output, given.jobs)
    found = read(given.output)
    print(contest.tables([found[task] for task in tasks if task in found]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
