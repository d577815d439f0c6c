"""The command that writes a domain file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from lumberjack.console import bar, say, show, to_json, write
from lumberjack.domain import Domain
from lumberjack.files import check_target
from lumberjack.options import DataFile, Delimiter, DomainFile, Force, Locate, Skip, app
from lumberjack.quoting import quote_all
from lumberjack.reading import Source
from lumberjack.tables import Table
from lumberjack.template import ask_column, infer, parse_bounds, parse_labels, template, to_fill_in

__all__ = ["domain_command"]


@app.command("domain")
def domain_command(
    data: DataFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The domain file to write (.json).")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column that will be predicted.")] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", help="NAME=LOW:HIGH, numbers or dates. May be repeated."),
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option("--categories", help="NAME=a,b,c. May be repeated.")
    ] = None,
    skip: Skip = None,
    ask: Annotated[
        bool | None,
        typer.Option("--ask/--no-ask", help="Ask for what is not given. Default: on a terminal."),
    ] = None,
    from_data: Annotated[
        bool, typer.Option("--from-data", help="Read it off the data. NOT private; the file is marked.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Print how well the file fits a --domain. For your eyes only."),
    ] = False,
    domain: DomainFile = None,
    delimiter: Delimiter = ",",
    locate: Locate = False,
    force: Force = False,
) -> None:
    """Write a domain file from the names and types of a file's columns.

    The domain is what you know about the columns before looking: ranges and categories from a code book
    or from common sense. It becomes public with the model. Only the file's schema is read, no row,
    unless --from-data says so. Include the column to predict: its categories are the classes, its
    range the bounds of a regression. What stays open is null in the file and can be filled in by hand.
    With --check and --domain, nothing is written: all rows are read and compared with the domain.
    """
    table = Table(data, delimiter, locate)
    if check:
        _check(table, domain)
        return
    if output is None or domain is not None:
        raise ValueError("say which file to write, with -o; or give --domain and --check")
    check_target(output, force)
    types = {name: kind for name, kind in table.types().items() if name not in (skip or [])}
    table.check_columns([*(skip or []), *([target] if target else [])])
    given = {name: parse_bounds(text) for name, text in _pairs(ranges, "--range", table)}
    for name, text in _pairs(categories, "--categories", table):
        given[name] = Domain.categorical(parse_labels(text))
    if from_data:
        with bar("Reading") as done:
            found = infer(table, list(types), target, done).to_dict()
        say(
            "Warning: ranges and categories were read off the data and are NOT private. The file is "
            "marked, and every model trained with it will say so.",
            "bold yellow",
        )
    else:
        if sys.stdin.isatty() if ask is None else ask:
            say("Answer from public knowledge, not by looking at the data.")
            for name in [name for name in types if name not in given]:
                answer = ask_column(name, types[name], _prompt, lambda text: say(text, "red"))
                if answer is None:
                    types = {other: kind for other, kind in types.items() if other != name}
                else:
                    given[name] = answer
        found = template(types, given)
    write(output, to_json(found), force)
    say(f"Wrote {output}.")
    open_columns = to_fill_in(found)
    if open_columns:
        say("Still to be filled in: " + quote_all(open_columns), "yellow")


def _check(table: Table, domain: Path | None) -> None:
    """Print shares of values outside a domain."""
    if domain is None:
        raise ValueError("--check needs a file to compare with: --domain")
    source = Source(table, Domain.from_json(domain))
    with bar("Reading") as done:
        show(str(source.check(done)))


def _prompt(text: str, default: str | None) -> str:
    return str(typer.prompt(text, default=default, err=True))


def _pairs(options: list[str] | None, option: str, table: Table) -> list[tuple[str, str]]:
    pairs = []
    for text in options or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{option} is NAME=..., got {text!r}")
        pairs.append((name, value))
    table.check_columns([name for name, _ in pairs])
    return pairs
