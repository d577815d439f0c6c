"""The paper's experiments from the command line: ``python -m benchmarks run``, report and restore."""

import argparse
import os
import sys
from pathlib import Path

from benchmarks import archive, protocol, report, runner
from benchmarks.baselines import SYSTEMS, installed
from benchmarks.cell import data_path, write


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run what is not finished yet")
    run.add_argument("--dataset", nargs="+", choices=protocol.DATA, default=list(protocol.DATA))
    run.add_argument("--system", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    run.add_argument("--epsilon", nargs="+", type=_positive, default=list(protocol.EPSILONS))
    run.add_argument("--repetitions", type=int, default=protocol.REPETITIONS)
    run.add_argument(
        "--ablation",
        nargs="*",
        choices=protocol.ABLATIONS,
        help="ablations instead of the comparison; without names: all",
    )
    run.add_argument("--rows", type=int, help="so many rows only, for a trial")
    run.add_argument("--jobs", type=int, default=os.cpu_count(), help="cells at a time")
    run.add_argument(
        "--limit", type=float, default=protocol.LIMIT, help="seconds of processor time for one cell"
    )
    run.add_argument("--fresh", action="store_true", help="run finished cells again, too")
    run.add_argument("--dry-run", action="store_true", help="only say what there is to do")
    write = commands.add_parser("report", help="tables and figures of what is finished")
    write.add_argument("--output", type=Path, default=Path("docs"), help="folder of results.md")
    write.add_argument("--rows", type=int, help="report a trial on so many rows")
    restore = commands.add_parser("restore", help="go on from the published results")
    restore.add_argument(
        "--archive", type=Path, default=Path("docs/results") / archive.NAME, help="file of a report"
    )
    for command in (run, write, restore):
        command.add_argument("--folder", type=Path, default=Path("out/bench"), help="where results are")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"epsilon must be positive, got {text}")
    return value


def _available(datasets, folder: Path, rows: int | None) -> list[str]:
    """Data sets that are there; what each is goes to a file, what is not there is said.

    Where one was there before and is not now, its results stay valid.
    """
    there = []
    for name in datasets:
        path = data_path(folder, name, rows)
        try:
            found = protocol.describe(name, rows)
            there.append(name)
        except (FileNotFoundError, ImportError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            if path.is_file():
                continue
            found = {"absent": True}
        write(path, found)
    return there


def main(words=None) -> int:
    """Run a command; 0 when all cells ended well."""
    given = _parser().parse_args(words)
    if given.command == "report":
        print(report.write(given.folder, given.output, given.rows))
        return 0
    if given.command == "restore":
        print(f"{given.folder}: {archive.unpack(given.archive, given.folder)} results restored")
        return 0
    if given.ablation is None:
        datasets = _available(given.dataset, given.folder, given.rows)
        systems = [name for name in given.system if installed(SYSTEMS[name])]
        for name in set(given.system) - set(systems):
            needs = SYSTEMS[name].needs
            print(f"{name} is left out: {needs} is not installed (extra 'bench')", file=sys.stderr)
        cells = protocol.paper_cells(datasets, systems, given.epsilon, given.repetitions, given.rows)
    else:
        wanted = [name for name in protocol.ABLATED if name in given.dataset]
        datasets = _available(wanted, given.folder, given.rows)
        names = given.ablation or list(protocol.ABLATIONS)
        cells = protocol.ablation_cells(names, datasets, given.repetitions, given.rows)
    if given.dry_run:
        return _tell(cells, given)
    if given.fresh:
        for cell in cells:
            runner.path_of(given.folder, cell).unlink(missing_ok=True)
    try:
        ended = runner.run(cells, given.folder, jobs=given.jobs, limit=given.limit)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130
    print("; ".join(f"{count} {how}" for how, count in sorted(ended.items())) or "nothing to do")
    return 1 if ended.get("failed") else 0


def _tell(cells, given) -> int:
    """How much is to do, and how long it takes if cells take as long as their likes did."""
    estimate = runner.Estimate.of(given.folder, given.rows)
    todo = [c for c in cells if not runner.finished(runner.read(given.folder, c), given.limit)]
    for system in dict.fromkeys(cell.system for cell in todo):
        its = [cell for cell in todo if cell.system == system]
        known = all(estimate.knows(cell) for cell in its)
        guess = "" if known else " (a guess from other systems)"
        print(f"{system}: {len(its)} to run, {runner.span(estimate.total(its, 1))}{guess}")
    left = estimate.total(todo, given.jobs)
    print(f"{len(cells)} cells, {len(todo)} to run, about {runner.span(left)} with {given.jobs} jobs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
