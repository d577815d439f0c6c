"""The ``lumberjack`` program: the command line, or how to install it.

Outside the package, whose import takes a second or two, so that Ctrl-C during it ends in one line, too.
"""

import contextlib
import os
import signal
import sys
from typing import Any

__all__ = ["main", "stop_on_interrupt"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    stop_on_interrupt()
    try:
        from lumberjack.cli import main as run
    except ImportError as error:
        print(f"The command line needs {error.name}: pip install 'lumberjack-dp[cli]'", file=sys.stderr)
        sys.exit(3)
    sys.exit(run())


def stop_on_interrupt() -> None:
    """End on Ctrl-C in one line while there is nothing to tidy up: at the start and the end."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)


def _stop(number: int, _: Any) -> None:
    """Not an exception: imports of other packages swallow those, or turn them into others."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            os.write(2, b"Stopped.\n")
    os._exit(128 + number)
