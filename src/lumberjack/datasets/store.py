"""Where tables come from: a local folder, then the user's cache, then their public homes.

In: names of files, and a function that downloads. Out: a pandas frame. A file enters the cache whole,
checked and in one step, or not at all: it is written beside its place and renamed.

The public addresses are untested: tests use a stand-in server that answers as their documentation says.
"""

import hashlib
import http.client
import importlib.util
import json
import os
import re
import tempfile
import time
import urllib.error
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from lumberjack.files import open_to_write

__all__ = [
    "BadDownloadError",
    "LocalFile",
    "SampleWarning",
    "cached",
    "download",
    "obtain",
    "openml",
    "pandas_with_parquet",
    "read_arff",
    "read_zipped_csv",
]

OPENML = "https://www.openml.org/api/v1/json/data"
TIMEOUT = 30.0  # seconds without a byte
DEADLINE = 1800.0  # seconds for one file in all
ATTEMPTS = 3
PAUSE = 1.0  # seconds before the second attempt; doubles
_CHUNK = 1 << 16

# Errors after which another attempt may succeed.
_PASSING = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


class SampleWarning(UserWarning):
    """The table that was read is only a sample of the data set.

    Attributes
    ----------
    sample : str
        What it is, as "46 % sample".

    Examples
    --------
    >>> from lumberjack.datasets import SampleWarning
    >>> SampleWarning("this is a 46 % sample of the table", "46 % sample").sample
    '46 % sample'
    """

    def __init__(self, message: str, sample: str = "sample") -> None:
        super().__init__(message)
        self.sample = sample


class BadDownloadError(OSError):
    """What arrived is not what was sent: cut short, or with another checksum or form."""


@dataclass(frozen=True)
class LocalFile:
    """A file that may lie in the folder ``LUMBERJACK_DATA``.

    Attributes
    ----------
    name : str
    sample : str
        "" for a whole data set, otherwise what part of it the file holds.
    """

    name: str
    sample: str = ""


def obtain(title: str, local: list[LocalFile], name: str, fetch: Callable[[], Any]) -> Any:
    """The table from the first place that has it.

    Parameters
    ----------
    title : str
        What to call the data set in messages.
    local : list of LocalFile
        Files to look for in the folder ``LUMBERJACK_DATA``, best first.
    name : str
        Name of the file in the cache.
    fetch : callable
        Downloads, checks and parses; its result is cached.
    """
    pandas = pandas_with_parquet()
    folder = os.environ.get("LUMBERJACK_DATA")
    for file in local:
        path = Path(folder or ".") / file.name
        if folder and path.is_file():
            if file.sample:
                text = f"{file.name} is only a sample of {title}: {file.sample}"
                warnings.warn(SampleWarning(text, file.sample), stacklevel=5)  # the caller of fetch_acs
            return pandas.read_parquet(path)
    try:
        return cached(name, fetch)
    except (OSError, http.client.HTTPException, ValueError) as error:
        names = " or ".join(file.name for file in local)
        where = f" (it is {folder!r} now)" if folder else ""
        raise FileNotFoundError(
            f"{title} was not found: {names} is not in a local folder, nothing is cached, and the "
            f"download failed ({error}); set the variable LUMBERJACK_DATA to the folder that holds "
            f"the file{where}, or try again with a network"
        ) from error


def cached(name: str, fetch: Callable[[], Any]) -> Any:
    """The table of that name in the cache; if there is none, ``fetch()``, which is then kept."""
    path = cache_folder() / name
    if path.is_file():
        try:
            return pandas_with_parquet().read_parquet(path)
        except (OSError, ValueError):  # damaged on the disk: as if it were not there
            pass
    frame = fetch()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_to_write(path) as file:
            frame.to_parquet(file)
    except OSError as error:
        warnings.warn(f"{name} is not kept in the cache: {error}", stacklevel=2)
    return frame


def cache_folder() -> Path:
    """The user's cache: ``LUMBERJACK_CACHE``, or a folder in the usual place."""
    if named := os.environ.get("LUMBERJACK_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "lumberjack"


@contextmanager
def download(url: str, *, md5: str | None = None) -> Iterator[Path]:
    """A temporary file with what ``url`` holds, checked; it is gone after the block.

    Parameters
    ----------
    url : str
    md5 : str or None
        The publisher's checksum, where there is one. It guards against damage, not against forgery.
    """
    if not url.startswith(("https://", "http://")):
        raise BadDownloadError(f"not a web address: {url}")
    with tempfile.TemporaryDirectory(prefix="lumberjack-") as folder:
        path = Path(folder) / "download"
        for attempt in range(ATTEMPTS):
            try:
                _transfer(url, path, md5)
                break
            except urllib.error.HTTPError as error:
                if error.code < 500 or attempt == ATTEMPTS - 1:
                    raise
            except (*_PASSING, BadDownloadError):
                if attempt == ATTEMPTS - 1:
                    raise
            time.sleep(PAUSE * 2**attempt)
        yield path


def _transfer(url: str, path: Path, md5: str | None) -> None:
    """One attempt, byte by byte: length and checksum must agree with what was announced."""
    started = time.monotonic()
    seen, digest = 0, hashlib.md5(usedforsecurity=False)
    request = urllib.request.Request(url, headers={"User-Agent": "lumberjack-dp"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer, path.open("wb") as file:  # noqa: S310
        announced = answer.headers.get("Content-Length")
        while chunk := answer.read1(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            seen += len(chunk)
            if time.monotonic() - started > DEADLINE:
                raise BadDownloadError(f"{url} took longer than {DEADLINE:g} seconds")
    if announced is not None and int(announced) != seen:
        raise BadDownloadError(f"{url} was cut short: {seen} of {announced} bytes")
    if md5 is not None and digest.hexdigest() != md5.lower():
        raise BadDownloadError(f"{url} does not have the checksum that its publisher states")


def openml(data_id: int, columns: Iterable[str], rows: int) -> Any:
    """A table of OpenML, checked against the checksum in its description and its known shape."""
    with download(f"{OPENML}/{data_id}") as path:
        try:
            described = json.loads(path.read_bytes())["data_set_description"]
            url, md5 = described["url"], described["md5_checksum"]
        except (ValueError, KeyError, TypeError):
            raise BadDownloadError(f"OpenML describes data set {data_id} in an unknown way") from None
    with download(url, md5=md5) as path:
        frame = read_arff(path.read_text("utf-8"))
    missing = sorted(set(columns) - set(frame.columns))
    if missing or len(frame) != rows:
        raise BadDownloadError(
            f"{url} has {len(frame)} rows instead of {rows}"
            if not missing
            else f"{url} lacks the columns {', '.join(missing)}"
        )
    return frame


_ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|\S+)\s+(.+)""", re.IGNORECASE)


def read_arff(text: str) -> Any:
    """A dense ARFF table as a frame: numbers as numbers (missing: NaN), the rest as text."""
    pandas = pandas_with_parquet()
    head, *rest = re.split(r"(?im)^\s*@data\s*$", text, maxsplit=1)
    found = [m for line in head.splitlines() if (m := _ATTRIBUTE.match(line.strip()))]
    if not rest or not found:
        raise BadDownloadError("not an ARFF file")
    names = [m[1].strip("'\"") for m in found]
    rows = "\n".join(line for line in rest[0].splitlines() if line.strip() and line[0] != "%")
    frame = pandas.read_csv(
        StringIO(rows),
        header=None,
        names=names,
        index_col=False,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        quotechar='"' if '"' in rows else "'",
    )
    for name, m in zip(names, found, strict=True):
        if m[2].strip().lower().split("[")[0] in ("numeric", "real", "integer"):
            frame[name] = pandas.to_numeric(frame[name].replace("?", None))
        else:
            frame[name] = frame[name].str.strip()
    return frame


def read_zipped_csv(path: Path, wanted: Iterable[str]) -> Any:
    """Those of the ``wanted`` columns that the only CSV file of an archive has."""
    pandas = pandas_with_parquet()
    wanted = set(wanted)
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # the archives' only checksum: their CRCs
                raise BadDownloadError("the archive is damaged")
            members = [n for n in archive.namelist() if n.lower().endswith(".csv")]
            if len(members) != 1:
                raise BadDownloadError(f"the archive holds {len(members)} CSV files instead of one")
            with archive.open(members[0]) as file:
                # Codes, weights and top-coded incomes are all below 2^24: exact as float32.
                return pandas.read_csv(file, usecols=lambda name: name in wanted, dtype="float32")
    except zipfile.BadZipFile:
        raise BadDownloadError("what was downloaded is not an archive") from None


def pandas_with_parquet() -> Any:
    """pandas with pyarrow, which it needs for Parquet files; both are optional."""
    if not all(importlib.util.find_spec(name) for name in ("pandas", "pyarrow")):
        raise ImportError("reading data sets needs pandas and pyarrow: install the extra 'data'")
    import pandas

    return pandas
