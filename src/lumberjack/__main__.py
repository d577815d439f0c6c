"""``lumberjack`` and ``python -m lumberjack``: the command line, or how to install it."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from lumberjack.cli import main as run
    except ImportError as error:
        print(f"The command line needs {error.name}: pip install 'lumberjack-dp[cli]'", file=sys.stderr)
        sys.exit(3)
    sys.exit(run())


if __name__ == "__main__":
    main()
