"""Progress of long work: a bar if Rich or tqdm is installed, plain lines otherwise.

In: the number of steps, and a call after each step. Out: a bar or lines. They show steps, which are
public, and never anything about the data.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from numba.core import event

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class _NoContext:
        """Stands in for scikit-learn's callback context, without listeners."""

        def subcontext(self, **kw: Any) -> "_NoContext":
            return self

        def call_on_fit_task_begin(self, **kw: Any) -> None: ...

        def call_on_fit_task_end(self, **kw: Any) -> None: ...

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin if the installed version has none."""

        def _init_callback_context(self, **kw: Any) -> _NoContext:
            return _NoContext()

    F = TypeVar("F", bound=Callable[..., Any])

    def with_callbacks(method: F) -> F:
        """Stands in for scikit-learn's decorator."""
        return method


__all__ = [
    "CallbackSupportMixin",
    "announce_compilation",
    "announcing_compilation",
    "progress",
    "watch",
    "with_callbacks",
]

M = TypeVar("M", bound=Callable[..., Any])


class Advance(Protocol):
    """What ``progress`` yields: call it once for each step done."""

    def __call__(self) -> None:
        """One more step is done."""


def _installed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


@contextmanager
def progress(title: str, unit: str, total: int, verbose: int) -> Iterator[Advance]:
    """Show how many of ``total`` steps are done; ``verbose=0`` shows nothing."""
    if not verbose:
        yield lambda: None
        return
    if (rich := _installed("rich.progress")) is not None:
        with rich.Progress() as shown:
            task = shown.add_task(f"{title} ({unit}s)", total=total)
            yield lambda: shown.advance(task)
        return
    if (tqdm := _installed("tqdm.auto")) is not None:
        with tqdm.tqdm(total=total, desc=title, unit=unit) as bar:
            yield lambda: bar.update() and None
        return
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        print(f"[{title}] {unit} {done} of {total}", flush=True)

    yield advance


class _Announcement(event.Listener):  # type: ignore[misc]
    """Say once that compiling has begun."""

    def __init__(self, title: str) -> None:
        self.title, self.said = title, False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            print(f"[{self.title}] compiling for this machine, once (some seconds) ...", flush=True)

    def on_end(self, event: Any) -> None:
        """Do nothing: one line is enough."""


@contextmanager
def announce_compilation(title: str, verbose: int) -> Iterator[None]:
    """Print a line if Numba has to compile something in here, rather than load it from its cache."""
    if not verbose:
        yield
        return
    with event.install_listener("numba:compile", _Announcement(title)):
        yield


def announcing_compilation(method: M) -> M:
    """Let a method of an estimator print that line, as its parameter ``verbose`` says."""

    @wraps(method)
    def announcing(self: Any, *args: Any, **kwargs: Any) -> Any:
        with announce_compilation(type(self).__name__, self.verbose):
            return method(self, *args, **kwargs)

    return cast(M, announcing)


@contextmanager
def watch(estimator: Any, total: int, unit: str = "tree") -> Iterator[Advance]:
    """Show progress of a fit of ``total`` trees or steps, and tell scikit-learn's callbacks of each.

    A callback's request to stop is ignored: the number of trees or steps is public and paid for.
    """
    title = type(estimator).__name__
    context = estimator._init_callback_context(max_subtasks=total)
    context.call_on_fit_task_begin(estimator=estimator)
    with progress(title, unit, total, estimator.verbose) as bar:

        def advance() -> None:
            task = context.subcontext(task_name=unit)
            task.call_on_fit_task_begin(estimator=estimator)
            task.call_on_fit_task_end(estimator=estimator)
            bar()

        yield advance
    context.call_on_fit_task_end(estimator=estimator)
