"""What a result was made with: commit, versions, processor. No host name, no path, no user."""

import functools
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

PACKAGES = ("lumberjack-dp", "numpy", "scipy", "scikit-learn", "numba", "diffprivlib", "interpret-core")


@functools.cache
def describe() -> dict[str, str]:
    """Commit, versions and machine, as text."""
    versions = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "absent"
    return {
        "commit": _commit(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
    }


def _commit() -> str:
    root = Path(__file__).parent.parent
    # What the report writes is no change of what is measured.
    ours = ["--", "src", "benchmarks", "pyproject.toml"]
    try:
        head = _git(root, "rev-parse", "--short", "HEAD")
        return head + (" with changes" if _git(root, "status", "--porcelain", *ours) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
