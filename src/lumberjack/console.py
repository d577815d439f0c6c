"""What all commands share: output, progress, warnings, and errors in one line instead of a traceback.

Results go to standard output, everything else to standard error. Bars show only on a terminal.
"""

import errno
import hashlib
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from lumberjack.files import open_to_write, refuse_existing
from lumberjack.guarantee import Guarantee, PrivacyLeakWarning
from lumberjack.report import CONTROL

__all__ = [
    "NOT_HELD",
    "STOPPED",
    "SYSTEM",
    "WRONG",
    "bar",
    "check_output",
    "fingerprint",
    "print_guarantee",
    "print_json",
    "print_rows",
    "remarks",
    "run",
    "say",
    "show",
    "to_json",
    "watched",
    "write",
]

STOPPED, WRONG, SYSTEM, NOT_HELD = 1, 2, 3, 4


def _console(stderr: bool = False) -> Console:
    """Made anew each time: tests and pipes exchange the streams. Names from files are no markup."""
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def say(text: str, style: str = "") -> None:
    """A remark for the person at the terminal."""
    _console(stderr=True).print(Text(text.translate(CONTROL), style=style))


def show(text: str, style: str = "") -> None:
    """A part of the result."""
    _console().print(Text(text.translate(CONTROL), style=style))


def print_json(value: Any) -> None:
    """The result for a script."""
    print(json.dumps(value, indent=2))


def print_rows(head: list[str], rows: list[list[str]], title: str | None = None) -> None:
    """The result as a table; numbers to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for i, name in enumerate(head):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(Text(cell.translate(CONTROL)) for cell in row))
    console = _console()
    console.print(table, soft_wrap=False)


def print_guarantee(guarantee: Guarantee) -> None:
    """The promise, with its caveats in red."""
    lines = str(guarantee).splitlines()
    show("\n".join(line for line in lines if not line.lstrip().startswith("caveats")))
    if guarantee.caveats:
        for caveat in guarantee.caveats:
            show(f"  CAVEAT      {caveat}", "bold red")
    else:
        show("  caveats     none", "green")


@contextmanager
def bar(text: str) -> Iterator[Callable[[float], None]]:
    """A progress bar: call what it gives with the part that is done, between 0 and 1."""
    if not watched():
        yield lambda part: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    with Progress(*columns, console=_console(stderr=True), transient=True) as shown:
        task = shown.add_task(text, total=1.0)
        yield lambda part: shown.update(task, completed=part)


def watched() -> bool:
    """Whether somebody sees standard error: a terminal."""
    return _console(stderr=True).is_terminal


@contextmanager
def remarks() -> Iterator[None]:
    """What a fit with ``verbose=1`` shows is a remark, not a part of the result."""
    with redirect_stdout(sys.stderr):
        yield


def check_output(path: Path, force: bool) -> None:
    """Refuse a file that cannot be written, before hours of work go into it."""
    refuse_existing(path, force)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK) and not path.exists():
        raise PermissionError(f"{path.parent} cannot be written to")


def fingerprint(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def to_json(value: Any) -> bytes:
    """A JSON file that people may edit."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def write(path: Path, data: bytes, force: bool) -> None:
    """Write a file, whole or not at all."""
    with open_to_write(path, overwrite=force) as file:
        file.write(data)


def run(command: Callable[[], Any]) -> int:
    """Run a command; whatever a person can get wrong ends in one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no Greek still gets its answer
            stream.reconfigure(errors="replace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PrivacyLeakWarning)
        warnings.showwarning = lambda message, *_, **__: say(f"Warning: {message}", "yellow")
        try:
            try:
                command()
            finally:
                sys.stdout.flush()  # here, where a reader that has gone can be dealt with
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else STOPPED if error.code else 0
        except KeyboardInterrupt:
            say("Stopped.")
            return STOPPED
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return STOPPED
        except (OSError, MemoryError, ValueError, TypeError, ArithmeticError) as error:
            text, code = _explain(error)
            say(f"Error: {text}", "bold red")
            return code
    return 0


def _explain(error: Exception) -> tuple[str, int]:
    """One line, and the exit code."""
    if isinstance(error, MemoryError):
        return "not enough memory", SYSTEM
    if isinstance(error, FileExistsError):
        return f"{_what(error)}; --force replaces it", WRONG
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return _what(error), WRONG
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return ("the disk is full; nothing was left behind" if full else _what(error)), SYSTEM
    return " ".join(str(error).split()) or type(error).__name__, WRONG


def _what(error: OSError) -> str:
    if error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
