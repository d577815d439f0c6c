"""The command line: which module has which command, and how one is run.

A command imports what it needs, so only the module of the one that is asked for is imported; help and
completion need them all. Exit codes: see ``options``.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated

import typer

from lumberjack.console import result, run, show
from lumberjack.options import app

__all__ = ["app", "main"]

_MODULES = {
    "domain": "cli_domain",
    "train": "cli_train",
    "predict": "cli_tables",
    "evaluate": "cli_tables",
    "inspect": "cli_models",
    "report": "cli_models",
    "plan": "cli_plan",
    "heavy-hitters": "cli_search",
    "demo": "cli_demo",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""

    def command() -> None:
        given = sys.argv[1:] if arguments is None else list(arguments)
        if "_LUMBERJACK_COMPLETE" in os.environ:  # a shell asks what may come next
            _import_commands(_MODULES)
            app(prog_name="lumberjack")
        asked = [word for word in given if not word.startswith("-")][:1]
        _import_commands(asked if asked and asked[0] in _MODULES else _MODULES)
        # Not app(), which handles Ctrl-C and broken pipes in its own way.
        program = typer.main.get_command(app)
        with result():  # --help writes there
            context = program.make_context("lumberjack", given)
        with context:
            program.invoke(context)

    return run(command)


def _import_commands(names: Iterable[str]) -> None:
    """Let modules register these commands."""
    for name in names:
        import_module(f"lumberjack.{_MODULES[name]}")


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
