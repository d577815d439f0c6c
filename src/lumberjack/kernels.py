"""How hot loops are compiled: Numba, without the GIL, cached on disk where a folder is writable."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile ``function`` on first use; keep the machine code on disk if that is possible."""
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # Numba finds no writable place for its cache, and says so at import
        return cast(F, numba.njit(nogil=True)(function))
