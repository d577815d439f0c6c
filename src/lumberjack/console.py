"""What all commands share: output, progress, warnings, and errors in one line instead of a traceback.

Results go to standard output, everything else to standard error. Bars show only on a terminal.
"""

import hashlib
import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from lumberjack.files import open_to_write
from lumberjack.guarantee import Guarantee, PrivacyLeakWarning
from lumberjack.quoting import CONTROL, quote_all

__all__ = [
    "BUG",
    "GONE",
    "NOT_HELD",
    "STOPPED",
    "SYSTEM",
    "WRONG",
    "bar",
    "fingerprint",
    "print_caveats",
    "print_guarantee",
    "print_json",
    "print_rows",
    "remarks",
    "result",
    "run",
    "say",
    "say_left_out",
    "show",
    "to_json",
    "watched",
    "write",
]

WRONG, SYSTEM, NOT_HELD, BUG = 2, 3, 4, 70
STOPPED, GONE = 128 + 2, 128 + 13  # by Ctrl-C, or as the reader of the output has gone; 143 by SIGTERM

_UsageError: Any = typer.BadParameter.__base__  # of Click, which newer versions of Typer contain


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # what Rich is handling; by itself it would end the program


def _console(stderr: bool = False) -> Console:
    """A new console each time: tests and pipes replace the streams. Names from files are not markup."""
    return _Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def result() -> Iterator[None]:
    """Name standard output in errors about writing to it."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, "standard output") from None
        raise


def say(text: str, style: str = "") -> None:
    """A remark for the person at the terminal; nothing depends on whether it arrives."""
    with suppress(OSError):
        _console(stderr=True).print(Text(text.translate(CONTROL), style=style))


def say_left_out(index: Sequence[str]) -> None:
    """Which columns are not used because they are the index of a pandas frame."""
    if index:
        say(f"Left out, as the index of a pandas frame: {quote_all(index)}")


def show(text: str, style: str = "") -> None:
    """A part of the result."""
    with result():
        _console().print(Text(text.translate(CONTROL), style=style))


def print_json(value: Any) -> None:
    """The result for a script."""
    with result():
        print(json.dumps(value, indent=2))


def print_rows(head: list[str], rows: list[list[str]], title: str | None = None) -> None:
    """The result as a table; numbers to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for i, name in enumerate(head):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(Text(cell.translate(CONTROL)) for cell in row))
    with result():
        _console().print(table, soft_wrap=False)


def print_guarantee(guarantee: Guarantee, *, short: bool = False) -> None:
    """The promise, with its caveats in red; in short: without theorem and noise."""
    lines = str(guarantee).splitlines()
    if short:
        lines = [lines[0], f"  recomputed  delta = {guarantee.verify():.8g}"]
    show("\n".join(line for line in lines if not line.startswith("  caveats")))
    print_caveats(guarantee.caveats)


def print_caveats(caveats: Sequence[str]) -> None:
    """What breaks a promise, in red."""
    for caveat in caveats:
        show(f"  CAVEAT      {caveat}", "bold red")
    if not caveats:
        show("  caveats     none", "green")


@contextmanager
def bar(text: str) -> Iterator[Callable[[float], None]]:
    """A progress bar: call the yielded function with the share done, between 0 and 1."""
    if not watched():
        yield lambda part: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    with Progress(*columns, console=_console(stderr=True), transient=True) as shown:
        task = shown.add_task(text, total=1.0)
        yield lambda part: shown.update(task, completed=part)


def watched() -> bool:
    """Whether stderr is a terminal."""
    return _console(stderr=True).is_terminal


@contextmanager
def remarks() -> Iterator[None]:
    """Send standard output to stderr: progress of a fit is not a part of the result."""
    with redirect_stdout(sys.stderr):
        yield


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
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an encoding without Greek must not fail the command
            stream.reconfigure(errors="replace")
    code = 0
    with warnings.catch_warnings(), _signals():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", PrivacyLeakWarning)  # each once in a command
        warnings.showwarning = lambda message, *_, **__: say(f"Warning: {message}", "yellow")
        try:
            try:
                command()
            finally:
                with result():
                    sys.stdout.flush()  # here, where a broken pipe is handled
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            code = _end(error)
    for stream in (sys.stdout, sys.stderr):
        _let_go(stream)
    return code


def _open_streams() -> None:
    """Open closed standard streams on the null device: no file may get their descriptors later.

    Reading input and writing results fail as before; remarks are lost.
    """
    for name, flags in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def _let_go(stream: Any) -> None:
    """Drop what a stream cannot write; otherwise Python would retry at exit, and print an error."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _signals() -> Iterator[None]:
    """Unwind on signals that would end the process at once, so that files are tidied up."""

    def stop(number: int, _: Any) -> None:
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # nohup
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(error: BaseException) -> int:
    """Say how a command ended; returns the exit code."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else WRONG if error.code else 0
        if code > 128:
            say("Stopped.")
        return code
    if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
        say("Stopped.")
        return STOPPED
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe
        return GONE
    if isinstance(error, _UsageError):
        with suppress(OSError):
            error.show()
        return WRONG
    text, code = _explain(error)
    say(f"Error: {text}", "bold red")
    return code


def _explain(error: BaseException) -> tuple[str, int]:
    """One line, and the exit code."""
    if isinstance(error, MemoryError):
        return "not enough memory", SYSTEM
    if isinstance(error, FileExistsError):
        return f"{_what(error)}; --force replaces it", WRONG
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return _what(error), WRONG
    if isinstance(error, OSError):
        return _what(error), SYSTEM
    if isinstance(error, typer.Abort):
        return "an answer is missing", WRONG
    if isinstance(error, RecursionError):
        return "the input is nested too deeply", WRONG
    # Messages of other libraries may quote the data.
    foreign = isinstance(error, UnicodeError) or type(error).__module__.partition(".")[0] == "pyarrow"
    if isinstance(error, ValueError | TypeError | ArithmeticError) and not foreign:
        return " ".join(str(error).split()) or type(error).__name__, WRONG
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    place = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    return f"a bug in Lumberjack, please report it: {type(error).__name__} at {place}", BUG


def _what(error: OSError) -> str:
    if error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
