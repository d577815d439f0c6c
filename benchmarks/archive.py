"""All results behind the page in one file, to be published beside it and gone on with elsewhere.

In: results, by the names of their files. Out: one line of JSON for each, compressed; and back again.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from benchmarks.cell import write

NAME = "results.jsonl.gz"


def pack(found: dict[Path, dict[str, Any]], path: Path) -> None:
    """Write results, the same bytes for the same results."""
    lines = [json.dumps({"file": file.as_posix(), **found[file]}) for file in sorted(found)]
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


def unpack(path: Path, folder: Path) -> int:
    """Put results back where the folder has none of that name; how many these were."""
    n = 0
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        found = json.loads(line)
        file = folder / found.pop("file")
        if not file.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{path} is not an archive of results: it names {file}")
        if not file.exists():
            write(file, found)
            n += 1
    return n
