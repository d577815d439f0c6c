"""``python -m lumberjack``: the command line."""

from lumberjack_program import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
