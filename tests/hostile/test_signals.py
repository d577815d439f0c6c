"""Signals at random moments: no hidden file is left, and exit codes say what happened."""

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from lumberjack import cli
from lumberjack.files import open_to_write

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are sent another way there")
CONTEXT = None if os.name == "nt" else multiprocessing.get_context("forkserver")


def command(line, ready):
    """In a process that has imported everything, to have moments of work only."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        ready.set()
        code = cli.main(line)
    except KeyboardInterrupt:  # before or after the command
        code = 130
    os._exit(code)


def start(line):
    CONTEXT.set_forkserver_preload(["lumberjack.cli"])
    ready = CONTEXT.Event()
    process = CONTEXT.Process(target=command, args=(line, ready))
    process.start()
    assert ready.wait(120)
    return process


def lines(work, folder):
    train = ["train", work.path("data.csv"), "--target", "back", "--domain", work.path("domain.json")]
    yield [*train, "--epsilon", "4", "--trees", "30", "--force", "-o", str(folder / "m")]
    for name in ("p.csv", "p.parquet"):
        predict = ["predict", work.path("model.lumberjack"), str(folder.parent / "long.csv"), "--proba"]
        yield [*predict, "--keep", "who", "--force", "-o", str(folder / name)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_at_random_moments(work, tmp_path, number):
    folder = tmp_path / "out"
    folder.mkdir()
    head, *rows = (work.folder / "data.csv").read_text().splitlines(keepends=True)
    (tmp_path / "long.csv").write_text(head + "".join(rows * 25))
    rng = random.Random(int(number))
    codes = []
    for line in lines(work, folder):
        for _ in range(2):  # the second time, all machine code is there
            began = time.monotonic()
            process = start(line)
            process.join()
            assert process.exitcode == 0
            took = time.monotonic() - began
        (whole,) = folder.iterdir()
        size = whole.stat().st_size
        for _ in range(work.rounds // 10 or 3):
            whole.unlink(missing_ok=True)
            process = start(line)
            process.join(rng.uniform(0, took))
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
            process.join(120)
            codes.append(process.exitcode)
            assert process.exitcode in (0, 128 + number, -number)  # the last: before the command began
            left = [path.name for path in folder.iterdir()]
            assert left in ([], [whole.name])
            if left and whole.name != "m":
                assert whole.stat().st_size == size
        whole.unlink(missing_ok=True)
    assert 128 + number in codes


def test_ctrl_c_while_importing(tmp_path):
    """A slow package stands in for Lumberjack's own."""
    (tmp_path / "lumberjack").mkdir()
    (tmp_path / "lumberjack" / "__init__.py").write_text(
        "import time\nprint('importing', flush=True)\nwhile True:\n    time.sleep(1)\n"
    )
    import lumberjack_program

    shutil.copy(lumberjack_program.__file__, tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", "from lumberjack_program import main; main()"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "Stopped.\n"
    assert process.returncode == 130


def test_ctrl_c_while_a_module_runs_as_the_program(tmp_path):
    """``python -m lumberjack`` imports the package first: here NumPy's stand-in takes its time."""
    (tmp_path / "numpy.py").write_text(
        "import time\nprint('importing', flush=True)\nwhile True:\n    time.sleep(1)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "lumberjack", "plan"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "Stopped.\n"
    assert process.returncode == 130


def hold(path, ready, go):
    with open_to_write(path) as file:
        file.write(b"whole")
        file.flush()
        ready.set()
        go.wait(120)


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    events = [(CONTEXT.Event(), CONTEXT.Event()) for _ in range(2)]
    writers = [
        CONTEXT.Process(target=hold, args=(tmp_path / name, *pair))
        for name, pair in zip(("killed", "living"), events, strict=True)
    ]
    for writer, (ready, _) in zip(writers, events, strict=True):
        writer.start()
        assert ready.wait(120)
    hidden = set(tmp_path.iterdir())
    assert len(hidden) == 2
    os.kill(writers[0].pid, signal.SIGKILL)
    writers[0].join(60)
    (tmp_path / ".lumberjack-00000000-1.tmp").write_bytes(b"another machine's")
    with open_to_write(tmp_path / "new") as file:
        file.write(b"new")
    assert len(hidden & set(tmp_path.iterdir())) == 1
    events[1][1].set()
    writers[1].join(60)
    assert (tmp_path / "living").read_bytes() == b"whole"
    assert sorted(os.listdir(tmp_path)) == [".lumberjack-00000000-1.tmp", "living", "new"]


def write_often(folder, number, times):
    for _ in range(times):
        with open_to_write(folder / f"{number}") as file:
            file.write(b"%d" % number)


def test_many_writers_in_one_folder(tmp_path):
    """None removes the file of another as left over, not even at the moment when it appears."""
    writers = [CONTEXT.Process(target=write_often, args=(tmp_path, i, 150)) for i in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        str(i): b"%d" % i for i in range(4)
    }
