"""Check that the sdist in dist holds the tracked files, the wheel the package, and both nothing else.

In: what make dist has built, and the git checkout. Out: the hashes of both files, or the differences.
"""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = {"src/lumberjack/py.typed", "conftest.py", "Makefile", "LICENSE", "requirements-oldest.txt"}


def tracked() -> set[str]:
    """Files that git tracks and that exist, relative to the root."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)  # noqa: S607
    if listing.returncode:
        raise SystemExit(f"make dist needs a git checkout: {listing.stderr.strip()}")
    return {name for name in listing.stdout.split("\0") if name and (ROOT / name).exists()}


def one(pattern: str) -> Path:
    """The only file in dist with such a name."""
    found = sorted((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"expected one dist/{pattern}, found {len(found)}")
    return found[0]


def compare(name: str, found: set[str], expected: set[str]) -> bool:
    """Print the differences; True if there are none."""
    for file in sorted(found - expected):
        print(f"{name}: {file} does not belong there", file=sys.stderr)
    for file in sorted(expected - found):
        print(f"{name}: {file} is missing", file=sys.stderr)
    return found == expected


def main() -> int:
    """Compare both archives with what git tracks."""
    files = tracked()
    sdist, wheel = one("*.tar.gz"), one("*.whl")
    with tarfile.open(sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive if not member.isdir()}
    with zipfile.ZipFile(wheel) as archive:
        installed = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {name.removeprefix("src/") for name in files if name.startswith("src/")}
    good = compare(sdist.name, packed - {"PKG-INFO"}, files)
    good &= compare(wheel.name, installed, package)
    good &= compare("this repository", files & NEEDED, NEEDED)
    for path in (sdist, wheel):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
