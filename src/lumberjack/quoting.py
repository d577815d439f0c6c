"""Names and labels of untrusted files in messages: short, and unable to control a terminal."""

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["CONTROL", "bare", "bare_all", "one_line", "quote", "quote_all", "reading"]

# A name in an untrusted file must not control a terminal or reverse the text around it: control
# characters, line separators and characters that change the direction of writing are replaced.
CONTROL = {
    code: "\ufffd"
    for code in (*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\n\t"
}

_MOST = 80  # characters of one name
_NAMES = 10

_short = reprlib.Repr()
_short.maxstring = _short.maxlong = _short.maxother = _MOST
quote = _short.repr


def bare(name: str) -> str:
    """A name without quotation marks, unless it is long or could control a terminal."""
    return name if name.isprintable() and len(name) <= _MOST else quote(name)


def one_line(text: str) -> str:
    """Text for a terminal in one line, so that it cannot fake another line of output."""
    return text.translate({**CONTROL, ord("\n"): "\ufffd"})


def quote_all(names: Iterable[object]) -> str:
    """Some names, and how many more there are."""
    return _some(map(quote, names))


def bare_all(names: Iterable[str]) -> str:
    """Some names without quotation marks, and how many more there are."""
    return _some(map(bare, names))


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMES} more" if len(listed) > _NAMES else ""
    return ", ".join(listed[:_NAMES]) + more


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Refuse what another library cannot convert, without its words, which may quote a cell."""
    try:
        yield
    except BaseException as error:
        panic = type(error).__name__ == "PanicException"  # of polars, which is no Exception
        if isinstance(error, MemoryError) or not (isinstance(error, Exception) or panic):
            raise
        raise ValueError(f"{what} holds values that cannot be read") from None
