"""The command that writes a domain file."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lumberjack.console import bar, say, say_left_out, show, write
from lumberjack.declared import HEAD, SKIP, Answer, load_codebook, load_json, parse_labels, read_declared
from lumberjack.domain import Domain
from lumberjack.files import check_target
from lumberjack.options import DataFile, DateFormat, Delimiter, DomainFile, Force, Locate, Skip, app
from lumberjack.quoting import quote_all
from lumberjack.reading import Source
from lumberjack.tables import Table
from lumberjack.template import infer, left_open, parse_bounds, read_domain, template, to_text
from lumberjack.values import check_date_format
from lumberjack.wizard import Wizard

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
    codebook: Annotated[
        Path | None,
        typer.Option(
            help="A code book: CSV with the headings column, kind, low, high, values, format.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    skip: Skip = None,
    ask: Annotated[
        bool | None,
        typer.Option("--ask/--no-ask", help="Ask for what is not given. Default: on a terminal."),
    ] = None,
    from_data: Annotated[
        bool,
        typer.Option("--from-data", help="Read it all off the data. NOT private; the file is marked."),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Print how well the file fits a --domain. For your eyes only."),
    ] = False,
    domain: DomainFile = None,
    date_format: DateFormat = None,
    delimiter: Delimiter = ",",
    locate: Locate = False,
    force: Force = False,
) -> None:
    """Write a domain file from the names and types of a file's columns.

    The domain is what you know about the columns before looking: ranges and categories from a code book
    or from common sense. It becomes public with the model. All of it may stay open: lumberjack train
    learns privately what is not declared. On a terminal each column is asked about in one line, where
    Enter leaves it open; after an interruption the same command resumes. Only the file's schema is read,
    no row, unless --from-data says so. The target's categories are the classes, its range the bounds of
    a regression. Nulls in the file can be filled in by hand.

    With --check and --domain nothing is written: all rows are read and compared with the domain.
    """
    table = Table(data, delimiter, locate)
    if check:
        _check(table, domain)
        return
    if output is None or domain is not None:
        raise ValueError("say which file to write, with -o; or give --domain and --check")
    check_target(output, force)
    if date_format is not None:
        check_date_format(date_format)
    table.check_columns([*(skip or []), *([target] if target else [])])
    if table.hint:
        say(f"{table.path}: {table.hint}", "yellow")
    index = [name for name in table.index() if name != target]
    given = (
        dict.fromkeys(index, SKIP) | _from_codebook(table, codebook) | dict.fromkeys(skip or [], SKIP)
    )
    for name, text in _pairs(ranges, "--range", table):
        given[name] = parse_bounds(text, date_format)
    for name, text in _pairs(categories, "--categories", table):
        given[name] = Domain.categorical(parse_labels(text.split(",")))
    draft = output.with_name(output.name + ".draft")
    asking = not from_data and (sys.stdin.isatty() if ask is None else ask)
    if asking:
        waiting = {name: kind for name, kind in table.types().items() if name not in given}
        given |= _ask(waiting, draft, date_format)
    found = _from_data(table, target, given) if from_data else template(table.types(), given)
    write(output, to_text(found).encode(), force)
    if asking:
        draft.unlink(missing_ok=True)
    say(f"Wrote {output}.")
    say_left_out([name for name in index if given[name] == SKIP])
    if open_columns := left_open(found):
        say("Left open, to be learned privately: " + quote_all(open_columns))


def _check(table: Table, path: Path | None) -> None:
    """Print shares of values outside a domain."""
    domain, _ = read_domain(path, table)
    if domain is None:
        raise ValueError("--check needs a file that declares something: --domain")
    with bar("Reading") as done:
        show(str(Source(table, domain).check(done)))


def _from_codebook(table: Table, path: Path | None) -> dict[str, Answer]:
    """What a code book says about the file's columns."""
    if path is None:
        return {}
    names = table.names()
    index = table.index()  # patterns do not match it
    fit = [name for name in names if name not in index]
    declared = read_declared({**HEAD, **load_codebook(path)}, fit).columns
    if surplus := [name for name in declared if name not in names]:
        say("In the code book, but not in the file: " + quote_all(surplus))
    return {name: kind for name, kind in declared.items() if kind is not None and name in names}


def _from_data(table: Table, target: str | None, given: Mapping[str, Answer]) -> dict[str, Any]:
    """What the data say, and which columns to leave out."""
    skipped = [name for name, kind in given.items() if kind == SKIP]
    with bar("Reading") as done:
        found = infer(table, [n for n in table.names() if n not in skipped], target, done).to_dict()
    say(
        "Warning: ranges and categories were read off the data and are NOT private. The file is "
        "marked, and every model trained with it will say so.",
        "bold yellow",
    )
    out = template(dict.fromkeys(skipped, "unknown"), given)["columns"]
    return {**found, "version": HEAD["version"], "columns": [*found["columns"], *out]}


def _ask(types: Mapping[str, str], draft: Path, date_format: str | None) -> Mapping[str, Answer]:
    """Ask about columns; answers are kept in a file as they come, so that nothing is asked twice."""
    answers: dict[str, Answer] = {}
    if draft.exists():
        try:
            found = read_declared(load_json(draft)).columns
        except ValueError:
            raise ValueError(f"{draft} is damaged; delete it to start over") from None
        answers = {name: answer for name, answer in found.items() if name in types}
        say(f"Resuming after {len(answers)} answers in {draft}; delete it to start over.")

    def keep(answers: Mapping[str, Answer]) -> None:
        write(draft, to_text(template(dict.fromkeys(answers, "unknown"), answers)).encode(), True)

    try:
        return Wizard(_prompt, say, keep, date_format, answers).run(types)
    except typer.Abort:
        say(f"Answers are kept in {draft}: run the same command again to resume.")
        raise


def _prompt(text: str) -> str:
    return str(typer.prompt(text, default="", show_default=False, err=True))


def _pairs(options: list[str] | None, option: str, table: Table) -> list[tuple[str, str]]:
    pairs = []
    for text in options or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{option} must be NAME=..., got {text!r}")
        pairs.append((name, value))
    table.check_columns([name for name, _ in pairs])
    return pairs
