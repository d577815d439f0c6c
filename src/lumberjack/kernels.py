"""How hot loops are compiled: Numba, without the GIL, cached on disk where a folder is writable."""

import contextlib
import hashlib
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache

F = TypeVar("F", bound=Callable[..., Any])

# Without a check for zero at each division, loops that divide run on several numbers at a time. (A loop
# also compiles faster than one array assigned to another: that takes a second, for its error message.)
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile ``function`` on first use; keep the machine code on disk if that is possible."""
    compiled = numba.njit(**_OPTIONS)(function)
    if not numba.config.DISABLE_JIT:
        compiled._cache = _Cache(function)
    return cast(F, compiled)


class _Names(CompileResultCacheImpl):  # type: ignore[misc]
    """Keeps machine code under a name that tells versions of a kernel apart.

    Machine code contains the kernels that a kernel calls and the constants that it reads, also those of
    other files. But Numba checks only the kernel's own file for changes, so after an upgrade a fit could
    use outdated noise.
    """

    def __init__(self, function: Any) -> None:
        self._digest = _digest(function)
        super().__init__(function)

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return str(super().get_filename_base(f"{fullname}-{self._digest}", abiflags))


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, made on first use. Its failures cost time, but never make a fit fail.

    Examples: no folder is writable, the disk is full, a folder disappears, a file is truncated.
    """

    _impl_class = _Names

    def __init__(self, function: Any) -> None:
        self._function: Any = function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Kept machine code, or None."""
        with contextlib.suppress(Exception):
            if self._function is not None:  # by now all that the kernel uses is defined
                super().__init__(self._function)
                self._function = None
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, if that is possible."""
        with contextlib.suppress(Exception):
            super().save_overload(sig, data)


@cache
def _digest(function: Any) -> str:
    """Tells two versions of a kernel apart: its byte code, and all that it reads of its module."""
    # Two versions of Numba may share a folder, and cannot read each other's machine code.
    given = numba.__version__, _OPTIONS, function.__defaults__
    digest = hashlib.blake2b(repr(given).encode(), digest_size=6)
    pending = [function.__code__]
    while pending:
        code = pending.pop()
        digest.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
        pending += [part for part in code.co_consts if isinstance(part, CodeType)]
        digest.update(repr([p for p in code.co_consts if not isinstance(p, CodeType)]).encode())
        for name in code.co_names:
            value = function.__globals__.get(name)
            if name in function.__globals__ and getattr(value, "py_func", value) is not function:
                digest.update(_describe(value).encode())
    return digest.hexdigest()


def _describe(value: Any) -> str:
    """A global as a kernel sees it: another kernel, a function, a module, a type, or a constant."""
    if hasattr(value, "py_func"):
        return _digest(value.py_func)
    if isinstance(value, FunctionType):  # an overload does the same, with the same constants
        return _digest(value)
    if isinstance(value, np.ndarray):
        return value.tobytes().hex()
    return f"{getattr(value, '__name__', value)!r} {getattr(value, '_fields', None)!r}"
