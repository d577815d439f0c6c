"""Files that appear whole or not at all.

In: a path and bytes. Out: the file, or the old one untouched and an OSError that names it.
"""

import errno
import hashlib
import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_target", "open_to_write"]

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def open_to_write(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that appears whole or not at all: written under another name, synced, renamed.

    A replacement gets the mode and, where the system permits it, the owner of the old file. Devices and
    pipes are written as they are. What ``check_target`` refuses is refused here, too.
    """
    target = Path(os.path.realpath(path))
    check_target(path, overwrite)
    with _named(path):
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        with suppress(OSError):  # a folder may be writable and not readable
            _remove_left_over(target.parent)
        hidden = None
        try:
            while True:
                hidden = target.parent / f"{_prefix()}{os.urandom(6).hex()}.tmp"
                file = open(hidden, "xb", opener=_opener(target))  # noqa: SIM115
                if _is_ours(file.fileno(), hidden):
                    break
                file.close()
            with file:
                _hand_on(target, file.fileno())
                yield file
                file.flush()
                os.fsync(file.fileno())
                check_target(path, overwrite)  # it may have appeared meanwhile
                if fcntl is not None:
                    hidden.replace(target)  # while the lock is held
            if fcntl is None:
                hidden.replace(target)
        except BaseException as error:
            if hidden is not None:
                with suppress(PermissionError):  # Windows, where the file may still be open
                    hidden.unlink(missing_ok=True)
            gone = hidden is None or not hidden.exists()
            if gone and isinstance(error, OSError) and error.errno in _FULL:
                why = f"{error.strerror}; nothing of this file was left behind"
                raise OSError(error.errno, why, os.fspath(path)) from None
            raise
    with suppress(OSError):  # some systems cannot sync a folder; the file is complete nevertheless
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_target(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse a path that ``open_to_write`` could not or should not write."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", os.fspath(path))
    if not target.exists():
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist", os.fspath(path))
    elif target.is_file():
        if not overwrite:
            raise FileExistsError(errno.EEXIST, "exists already", os.fspath(path))
        found = target.stat()
        # Root may write to any file; one without write bits was made read-only on purpose.
        if not (os.access(target, os.W_OK) and found.st_mode & 0o222):
            raise PermissionError(errno.EACCES, "is read-only", os.fspath(path))
        # With several hard links, a replaced file would leave the old content under the other names.
        # Writing in place would change what may be a backup, and a failure would truncate it.
        if found.st_nlink > 1:
            why = f"has {found.st_nlink} names (hard links); delete this one or write to another"
            raise ValueError(f"{path} {why}")
    else:
        return  # a device or a pipe
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "cannot be written to", str(target.parent))


@contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the file's name to errors of the system."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


def _opener(target: Path) -> Any:
    """Creates new files with the umask's mode, and replacements private until ``_hand_on``."""
    mode = 0o600 if target.exists() else 0o666
    return lambda name, flags: os.open(name, flags, mode)


def _hand_on(target: Path, new: int) -> None:
    """Give an open file the owner and the mode of the one that it will replace."""
    if fcntl is None or not target.exists():
        return
    old = target.stat()
    mode = stat.S_IMODE(old.st_mode)
    try:
        os.fchown(new, old.st_uid, old.st_gid)
    except OSError:
        try:
            os.fchown(new, -1, old.st_gid)
        except OSError:
            mode &= ~stat.S_IRWXG  # rights of the old group must not go to another one
    os.fchmod(new, mode)


# Left-over files: a killed process cannot tidy up. The next one does, in the folder where it writes.
# The system releases the locks of a process when it ends, so a file without a lock is left over. In a
# shared folder the locks of other machines may be invisible, so the files of each have their own names.


def _prefix() -> str:
    return f".lumberjack-{hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()}-"


def _lock(file: int) -> None:
    """Hold an open file until it is closed; BlockingIOError if another process does."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_ours(file: int, path: Path) -> bool:
    """Lock a new file; False if another process has just removed it as left over."""
    try:
        _lock(file)
    except BlockingIOError:
        return False
    except OSError:
        pass  # no locks on this disk: no process can mistake it for left over
    return path.exists()


def _remove_left_over(folder: Path) -> None:
    if fcntl is None:  # no lock tells a left-over file from one that is about to be renamed
        return
    for path in folder.glob(_prefix() + "*.tmp"):
        with suppress(OSError):
            # Do not follow links or wait for pipes that somebody else has put here.
            file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                _lock(file)
                path.unlink()
            finally:
                os.close(file)
