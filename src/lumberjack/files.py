"""Files that appear whole or not at all.

In: a path and bytes. Out: the file, or the old one untouched and an OSError.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["open_to_write", "refuse_existing"]


@contextmanager
def open_to_write(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that appears whole or not at all: written under another name, synced, renamed.

    Devices and pipes are written as they are. Without ``overwrite`` an existing file is refused.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        if target.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
        with target.open("wb") as file:
            yield file
        return
    refuse_existing(path, overwrite)
    hidden = target.with_name(f".{target.name[:100]}.{os.urandom(6).hex()}.tmp")
    try:
        with hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        refuse_existing(path, overwrite)
        hidden.replace(target)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # some systems cannot sync a folder; the file is complete all the same
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def refuse_existing(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse to replace a file, unless that was asked for."""
    if not overwrite and Path(path).is_file():
        raise FileExistsError(f"{path} exists already")
