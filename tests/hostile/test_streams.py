"""Standard streams that are closed, full or broken: exit codes, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
PROGRAM = f"{sys.executable} -c 'from lumberjack_program import main; main()'"

NOTHING = ""
CASES = [
    # A result that cannot be delivered is an error of the system, whatever happens to remarks.
    ("predict model.lumberjack data.csv", ">/dev/full", 3, "Error: standard output: No space"),
    ("inspect model.lumberjack --verify", ">&- 2>/dev/full <&-", 3, NOTHING),
    ("--help", ">/dev/full", 3, "Error: standard output: No space"),
    # Lost remarks are no error.
    ("predict none data.csv", "2>/dev/full", 2, NOTHING),
    ("predict model.lumberjack data.csv -o new.csv", "2>&- >&- <&-", 0, NOTHING),
    # No input.
    ("heavy-hitters - --epsilon 1", "<&-", 3, "Error: standard input: Bad file descriptor\n"),
    ("domain data.csv -o new.json", "<&-", 0, "Wrote new.json."),
]  # fmt: skip
EXTRA = [
    (line, f"{stdin} {stdout} {stderr}", None, NOTHING)
    for line in ("inspect model.lumberjack", "train data.csv", "heavy-hitters - --epsilon 1", "demo")
    for stdin in ("</dev/null", "<&-")
    for stdout in (">/dev/null", ">&-", ">/dev/full", ">out")
    for stderr in ("2>&-", "2>/dev/full")
]
ALL = CASES + (EXTRA if os.environ.get("LUMBERJACK_FUZZ") else [])


def shell(line, work):
    return subprocess.run(
        ["bash", "-c", line], cwd=work.folder, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture(autouse=True)
def tidy(work):
    yield
    for name in ("new.csv", "new.json", "out"):
        (work.folder / name).unlink(missing_ok=True)
    assert not list(work.folder.glob(".*"))


@pytest.mark.parametrize(("command", "streams", "code", "said"), ALL)
def test_closed_and_full_streams(work, command, streams, code, said):
    done = shell(f"{PROGRAM} {command} {streams}", work)
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stdout + done.stderr
    assert done.returncode in ((0, 2, 3) if code is None else (code,)), done.stderr
    assert said in done.stderr
    if "-o new.csv" in command:
        assert (work.folder / "new.csv").read_text().count("\n") == 401  # and nothing else is in it


@pytest.mark.parametrize("command", ["predict model.lumberjack data.csv", "inspect model.lumberjack"])
def test_a_broken_pipe(work, command):
    line = f"{PROGRAM} {command} | true; echo ${{PIPESTATUS[0]}}"
    done = shell(line, work)
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_an_endless_domain_file(work):
    """Refused after 64 MiB, in less memory than an endless read would soon take."""
    line = "train data.csv --target back --domain /dev/zero --epsilon 1 -o new.csv"
    done = shell(f"ulimit -v 16000000; timeout 60 {PROGRAM} {line}", work)
    assert (done.returncode, done.stderr) == (2, "Error: not a domain: larger than 64 MiB\n")
