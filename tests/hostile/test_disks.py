"""Full disks: one line that names the file, the old file untouched, and nothing left behind."""

import os
import subprocess
from contextlib import suppress

import pytest

from lumberjack import cli


@pytest.fixture
def disk(tmp_path):
    """A disk with room for nothing but what is on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if done.returncode:
        pytest.skip(f"only root can make a small disk: {done.stderr.strip()}")
    try:
        (folder / "old.csv").write_bytes(b"old")
        with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def commands(work):
    train = ["train", work.path("data.csv"), "--target", "back", "--domain", work.path("domain.json")]
    model = work.path("model.lumberjack")
    yield [*train, "--epsilon", "4"], "m"
    yield ["predict", model, work.path("data.csv"), "--keep", "who", "--force"], "old.csv"
    yield ["predict", model, work.path("data.csv")], "new.parquet"
    yield ["report", model], "new.html"
    yield ["domain", work.path("data.csv"), "--no-ask"], "new.json"


def test_a_full_disk(work, disk, capsys):
    before = {path.name: path.stat().st_size for path in disk.iterdir()}
    for line, name in commands(work):
        capsys.readouterr()
        assert cli.main([*line, "-o", str(disk / name)]) == 3
        said = capsys.readouterr().err
        why = "No space left on device; nothing of this file was left behind"
        assert said == f"Error: {disk / name}: {why}\n"
        assert {path.name: path.stat().st_size for path in disk.iterdir()} == before
    assert (disk / "old.csv").read_bytes() == b"old"


def test_a_disk_that_fills_up_after_some_files_names_the_one_that_failed(work, disk, capsys):
    (disk / "filler").write_bytes(bytes(4096))
    os.truncate(disk / "filler", 0)
    assert cli.main(["demo", "-o", str(disk / "demo")]) == 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("nothing of this file was left behind")
    for path in (disk / "demo").iterdir():
        assert str(path) not in said
        assert not path.name.startswith(".")
