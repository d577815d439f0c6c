"""The command line: each command reads its options, calls the library, and shows what came out.

Here are the commands that need no table; ``cli_domain``, ``cli_train`` and ``cli_tables`` have the
others. Exit codes: see ``options``.
"""

import codecs
import csv
import dataclasses
import io
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer

from lumberjack import cli_domain, cli_tables, cli_train, datasets, tables
from lumberjack.accounting import NoisySums, ThresholdQueries
from lumberjack.console import (
    NOT_HELD,
    bar,
    fingerprint,
    print_guarantee,
    print_json,
    print_released,
    print_rows,
    released,
    remarks,
    result,
    run,
    say,
    show,
    to_json,
    watched,
    write,
)
from lumberjack.domain import Domain
from lumberjack.files import check_target
from lumberjack.forest import LumberjackClassifier, load
from lumberjack.guarantee import Guarantee, Leaf, Method
from lumberjack.heavy_hitters import heavy_hitters
from lumberjack.io import pack
from lumberjack.legend import columns_of, in_lines, target_of, weights_in_words
from lumberjack.options import (
    LEAF_OF_NUMBERS,
    AccountingOption,
    Delimiter,
    Delta,
    Depth,
    Epsilon,
    Force,
    Json,
    LeafOption,
    ModelFile,
    RowsPerPerson,
    Share,
    SplitsOption,
    Trees,
    app,
)
from lumberjack.page import render
from lumberjack.planning import plan
from lumberjack.quoting import one_line
from lumberjack.report import describe

__all__ = ["app", "cli_domain", "cli_tables", "cli_train", "main"]

_LINE = 2**19  # bytes in a line of paths; what is longer is no text file
_SHOWN = 50  # columns that ``inspect`` shows in words; --json has all


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""

    def command() -> None:
        if "_LUMBERJACK_COMPLETE" in os.environ:  # a shell asks what may come next
            app(prog_name="lumberjack")
        # Not app(), which handles Ctrl-C and broken pipes in its own way.
        program = typer.main.get_command(app)
        given = sys.argv[1:] if arguments is None else list(arguments)
        with result():  # --help writes there
            context = program.make_context("lumberjack", given)
        with context:
            program.invoke(context)

    return run(command)


def _version(wanted: bool) -> None:
    if wanted:
        show(f"lumberjack {version('lumberjack-dp')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the demo's data, domain, model and report."),
    ] = None,
    force: Force = False,
) -> None:
    """Train on generated data and show what comes out; needs no file.

    With -o the data, the domain, the model and its report are written to a folder to play with.
    """
    X, y, domain = datasets.make_toy(n=10_000)
    names = ["toy.csv", "toy.json", "toy.lumberjack", "toy.html"]
    files = [] if output is None else [output / name for name in names]
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    for file in files:
        check_target(file, force)
    model = LumberjackClassifier(
        2.0, 1e-6, domain=domain, classes=[0, 1, 2], n_jobs=-1, verbose=int(watched())
    )
    with remarks():
        model.fit(X, y)
    fresh, truth, _ = datasets.make_toy(n=10_000, random_state=1)
    show("Two moons and a far blob, 10,000 generated rows, at (2, 1e-6)-differential privacy.")
    show(f"Accuracy on fresh data: {model.score(fresh, truth):.1%}\n")
    print_guarantee(model.guarantee_)
    if not files:
        show(
            "\nlumberjack demo -o demo/ writes the data, the domain, the model and a report to try out."
        )
        return
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["x", "y", "shape"])
    rows.writerows([f"{a:.6f}", f"{b:.6f}", c] for (a, b), c in zip(X.tolist(), y.tolist(), strict=True))
    public = Domain({**{n: domain[n] for n in domain}, "shape": Domain.categorical([0, 1, 2])})
    write(files[0], text.getvalue().encode(), force)
    write(files[1], to_json(public.to_dict()), force)
    write(files[2], pack(model), force)
    write(files[3], render(describe(model, fingerprint(files[2]))).encode(), force)
    show("\nWritten: " + ", ".join(map(str, files)))
    show(f"Try: lumberjack inspect {files[2]} --verify")
    options = f"--target shape --domain {files[1]} --epsilon 1 -o my.lumberjack"
    show(f"     lumberjack train {files[0]} {options}")


@app.command("plan")
def plan_command(
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    trees: Trees = 20,
    depth: Depth = 100,
    regression: Annotated[bool, typer.Option("--regression", help="Predict a number.")] = False,
    leaf: LeafOption = None,
    splits: SplitsOption = None,
    accounting: AccountingOption = "joint",
    structure_share: Share = None,
    rows_per_person: RowsPerPerson = 1,
    as_json: Json = False,
) -> None:
    """Say what noise and thresholds a budget buys; no data needed."""
    if regression and leaf is not None:
        raise ValueError(LEAF_OF_NUMBERS)
    kind: Leaf | None = leaf
    if regression:
        kind = "mean" if splits == "random" or accounting == "paper" else "fitted-mean"

    def promise(epsilon: float) -> Guarantee:
        return plan(
            epsilon,
            delta,
            trees,
            depth,
            splits=splits,
            accounting=accounting,
            leaf=kind,
            structure_share=structure_share,
            rows_per_person=rows_per_person,
        )

    chosen = promise(epsilon)
    others = [promise(e) for e in sorted({0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, epsilon})]
    if as_json:
        table = [_brief(g) for g in others]
        print_json({"guarantee": dataclasses.asdict(chosen), **_brief(chosen), "table": table})
        return
    print_guarantee(chosen)
    show("")
    head, row, title, said = _of_fit(chosen) if chosen.fits_leaves else _of_trees(chosen)
    rows = [
        [
            f"{g.epsilon:g}" + (" <-" if g.epsilon == chosen.epsilon else ""),
            *row(g),
            f"{g.suggested_rows:,}",
        ]
        for g in others
    ]
    print_rows(["epsilon", *head, "rows needed"], rows, title=f"What delta = {delta:g} buys {title}")
    show(said)


# Names of columns, a row of a guarantee, the end of a title, and what it all means.
_Table = tuple[list[str], Callable[[Guarantee], list[str]], str, str]


def _of_trees(chosen: Guarantee) -> _Table:
    """What a budget buys for pruned trees."""
    head = ["rows to split a node", "its noise", "rows in a leaf (about)", "leaf noise"]

    def row(g: Guarantee) -> list[str]:
        return [
            f"{g.threshold:,.0f} rows",
            f"{g.threshold_noise:,.1f}",
            f"{g.threshold / 2:,.0f}",
            f"{g.leaf_noise or 0:,.2f}",
        ]

    said = (
        f"With fewer than about {chosen.suggested_rows:,} rows the trees stay stumps: raise epsilon, or "
        "take fewer trees. A leaf is a child of a split node and too small to be split itself: it holds "
        "about half of the rows that a split needs. The noise of its count should be far below that."
    )
    return head, row, f"with {chosen.n_estimators} trees", said


def _of_fit(chosen: Guarantee) -> _Table:
    """What a budget buys for leaves that are fitted together."""
    columns, pairs = (_brief(chosen)["steps"][use] for use in ("columns", "pairs"))
    head = ["rows to name a category", "noise of a cell's rows", "noise of a step", "of all steps"]

    def row(g: Guarantee) -> list[str]:
        found = _brief(g)
        named = found["category_threshold"]
        return [
            "-" if named is None else f"{named:,.0f}",
            f"{found['size_noise']:,.1f}",
            f"{found['step_noise']:,.1f}",
            f"{found['step_noise'] / math.sqrt(pairs):,.1f}",
        ]

    n = _n_columns(chosen)
    said = (
        f"With fewer than about {chosen.suggested_rows:,} rows the model knows little beyond what most "
        "rows are like: raise epsilon, or leave columns out. A category with fewer rows than shown has "
        "no name in the model and counts as other. Cells are categories, intervals of numbers, and "
        "missing values. There is a tree for each column, and one for each pair of up to "
        f"{chosen.n_estimators} columns. Their weights are fitted in {columns} steps on columns and "
        f"{pairs} on columns and pairs. In a step a row adds at most 1 to a sum of each tree; all trees "
        f"share the noise that is shown, for one of the last {pairs} steps and for their average."
    )
    return head, row, f"with {n} columns", said


def _n_columns(g: Guarantee) -> int:
    """Columns that a plan is for: those of which something is learned, as no others are known to it."""
    return max(g.numbers_learned + g.categories_learned, 1)


def _brief(g: Guarantee) -> dict[str, Any]:
    if g.fits_leaves:
        of = {event.use: event for event in g.events}
        sums = {use: event for use, event in of.items() if isinstance(event, NoisySums)}
        named = of.get("categories")
        return {
            "epsilon": g.epsilon,
            "category_threshold": named.threshold if isinstance(named, ThresholdQueries) else None,
            "size_noise": sums["sizes"].noise * math.sqrt(_n_columns(g)),
            "step_noise": sums["pairs"].noise / sums["pairs"].reach,
            "steps": {use: sums[use].count for use in ("columns", "pairs")},
            "suggested_rows": g.suggested_rows,
        }
    return {
        "epsilon": g.epsilon,
        "threshold": g.threshold,
        "threshold_noise": g.threshold_noise,
        "leaf_size": g.threshold / 2,
        "leaf_noise": g.leaf_noise,
        "suggested_rows": g.suggested_rows,
    }


@app.command()
def report(
    model: ModelFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The HTML page to write; default: print text.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the privacy report of a model: one HTML page without scripts, or text."""
    if output is not None:
        check_target(output, force)
    found = describe(load(model), fingerprint(model))
    if output is not None:
        write(output, render(found).encode("utf-8"), force)
        say(f"Wrote {output}.")
    if as_json:
        print_json(found.to_dict())
    elif output is None:
        show(found.text())


@app.command("heavy-hitters")
def heavy_hitters_command(
    paths: Annotated[
        str,
        typer.Argument(help="A text file with a path in each line, a table, or - for standard input."),
    ],
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    sep: Annotated[str, typer.Option(help="What separates the steps of a path.")] = "/",
    height: Annotated[
        int | None,
        typer.Option(help="Maximum steps of a path, public. Default: read off the data (a caveat)."),
    ] = None,
    counts: Annotated[bool, typer.Option("--counts", help="Release noisy counts as well.")] = False,
    method: Annotated[
        Literal["sparse", "two-sided", "top-down"], typer.Option(help="How prefixes are searched.")
    ] = "sparse",
    threshold: Annotated[float | None, typer.Option(help="Records needed to show a prefix.")] = None,
    column: Annotated[
        str | None, typer.Option(help="The column of paths, when the file is a .csv or .parquet table.")
    ] = None,
    delimiter: Delimiter = ",",
    as_json: Json = False,
) -> None:
    """Find the prefixes that many paths share, privately."""
    chosen: Method = method
    options: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "height": height, "threshold": threshold, "method": chosen,
        "counts": counts, "sep": sep,
    }  # fmt: skip
    heavy_hitters([], **{**options, "height": height or 1})  # refuses bad options before data is read
    found = heavy_hitters(_paths(paths, column, delimiter), **options)
    if as_json:
        print_json(
            {
                "prefixes": found.prefixes,
                "counts": found.counts,
                "guarantee": dataclasses.asdict(found.guarantee),
            }
        )
        return
    show(str(found))
    show("")
    print_guarantee(found.guarantee)


def _paths(source: str, column: str | None, delimiter: str) -> list[str]:
    if column is not None:
        table = tables.Table(Path(source), delimiter)
        with bar("Reading") as done:
            chunks = [chunk[column].listed() for chunk in table.chunks([], [column], done)]  # type: ignore[union-attr]
        return [str(path) for chunk in chunks for path in chunk if path is not None and path != ""]
    if Path(source).suffix.lower() in (".csv", ".parquet", ".pq"):
        raise ValueError(f"{source} is a table: say which column holds the paths, with --column")
    with ExitStack() as opened:
        if source == "-":
            file, name = sys.stdin.buffer, "standard input"
        else:
            file, name = opened.enter_context(Path(source).open("rb")), source
        return list(_lines(file, name))


def _lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Lines that are not blank. Only a newline ends one, lest one record turn into many."""
    mark = codecs.BOM_UTF8
    try:
        for raw in iter(lambda: file.readline(_LINE + 1), b""):
            if len(raw) > _LINE:
                raise ValueError(f"{name} has a line of more than {_LINE // 2**10} KiB")
            line = raw.removeprefix(mark).removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            mark = b""
            if line.strip():
                yield line
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not a text file in UTF-8") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None


@app.command()
def inspect(
    model: ModelFile,
    verify: Annotated[
        bool, typer.Option("--verify", help="Recompute delta; exit code 4 if the promise does not hold.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the guarantee and the caveats of a model file, and what it says of its columns."""
    loaded = load(model)
    g: Guarantee = loaded.guarantee_
    delta = g.verify()
    holds = delta <= g.delta
    if as_json:
        print_json(
            {
                "estimator": type(loaded).__name__,
                "released": released(loaded.released_),
                "holds": holds,
                "recomputed_delta": delta,
                "guarantee": dataclasses.asdict(g),
                "columns": [entry.to_dict() for entry in columns_of(loaded.released_)],
                "target": target_of(loaded.released_).to_dict(),
                "domain": loaded.domain_.to_dict(),
                "sha256": fingerprint(model),
            }
        )
    else:
        show(f"{type(loaded).__name__}, {len(loaded.domain_)} columns")
        print_released(loaded.released_)
        print_guarantee(g)
        if g.fits_leaves:
            show("\n".join(["Weights", f"  {one_line(weights_in_words(loaded.released_.target))}"]))
        show("\n".join(["Target", *in_lines([target_of(loaded.released_)])]))
        show("\n".join(["Columns", *in_lines(columns_of(loaded.released_), _SHOWN)]))
        if verify and holds:
            show(f"The promise holds: delta recomputed {delta:.8g}, promised {g.delta:g}.", "green")
    if verify and not holds:
        say(
            f"The promise does NOT hold: delta recomputed {delta:.8g}, promised {g.delta:g}.", "bold red"
        )
        raise typer.Exit(NOT_HELD)
