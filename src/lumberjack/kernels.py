"""How hot loops are compiled: Numba, without the GIL, cached on disk where a folder is writable."""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _digest_of_sources() -> str | None:
    """Tells one version of the package from another, by all of its code; None if it cannot be read."""
    folder = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=6)
    try:
        paths = sorted(path for path in folder.rglob("*.py") if path.is_file())
        for path in paths:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    except OSError:
        return None
    return digest.hexdigest() if paths else None  # none in a zip


_SOURCES = _digest_of_sources()


def kernel(function: F) -> F:
    """Compile ``function`` on first use; keep the machine code on disk if that is possible.

    Kernels contain the kernels that they call, of other files too, but Numba looks only at the file of
    ``function`` to see whether what it kept is outdated: after an upgrade it could go on with old noise.
    So the name under which it keeps the code says of which sources it is. Whoever runs other code than
    these sources (constants changed from outside, byte code older than its source) must keep machine
    code elsewhere: set NUMBA_CACHE_DIR.
    """
    if _SOURCES is not None:
        function.__qualname__ += f"-{_SOURCES}"
        # Numba says so at once if it finds no writable place.
        with contextlib.suppress(RuntimeError):
            return cast(F, numba.njit(cache=True, nogil=True)(function))
    return cast(F, numba.njit(nogil=True)(function))
