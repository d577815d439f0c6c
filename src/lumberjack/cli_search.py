"""The command that searches prefixes that many paths share."""

import codecs
import dataclasses
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer

from lumberjack import tables
from lumberjack.console import bar, print_guarantee, print_json, show
from lumberjack.guarantee import Method
from lumberjack.options import Delimiter, Delta, Epsilon, Json, app
from lumberjack.prefixes import heavy_hitters

__all__ = ["heavy_hitters_command"]

_LINE = 2**19  # bytes in a line of paths; a file with longer lines is not text


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
    """Lines that are not blank. Only a newline ends one, so that no record becomes several."""
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
