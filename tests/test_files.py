"""Files that appear whole or not at all: modes, owners, links, and what is refused."""

import errno
import os
import stat

import pytest

from lumberjack import files
from lumberjack.files import open_to_write


def write(path, data=b"new"):
    with open_to_write(path) as file:
        file.write(data)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(b"old")
    return path


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o666, 0o755])
def test_a_replaced_file_keeps_its_mode(old, bits):
    old.chmod(bits)
    write(old)
    assert (old.read_bytes(), mode(old)) == (b"new", bits)


def test_a_replaced_file_is_never_more_open_on_the_way(old):
    old.chmod(0o600)
    with open_to_write(old) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_mode_of_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == 0o666 & ~umask


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_replaced_file_keeps_its_owner(old):
    os.chown(old, 1234, 2345)
    write(old)
    assert (old.stat().st_uid, old.stat().st_gid) == (1234, 2345)


def test_group_rights_are_dropped_if_the_group_changes(old, monkeypatch):
    def refused(*_):
        raise PermissionError

    old.chmod(0o664)
    monkeypatch.setattr(files.os, "fchown", refused)
    write(old)
    assert mode(old) == 0o604


def test_a_read_only_file_is_refused_to_root_as_well(old):
    old.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        write(old)
    assert (old.read_bytes(), mode(old)) == (b"old", 0o444)


def test_a_file_with_several_names_is_refused(old, tmp_path):
    os.link(old, tmp_path / "backup")
    with pytest.raises(ValueError, match="has 2 names"):
        write(old)
    assert old.samefile(tmp_path / "backup")
    assert old.read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 2


def test_a_name_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("ü" * 127)
    write(path)
    assert path.read_bytes() == b"new"


def test_a_file_that_appears_meanwhile_is_kept(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(FileExistsError), open_to_write(path, overwrite=False) as file:  # noqa: PT012
        file.write(b"new")
        path.write_bytes(b"somebody else's")
    assert path.read_bytes() == b"somebody else's"
    assert os.listdir(tmp_path) == ["file"]


def test_errors_name_the_file(tmp_path):
    with pytest.raises(OSError, match="/dev/full"):
        write("/dev/full")
    with pytest.raises(FileNotFoundError, match="folder does not exist"):
        write(tmp_path / "no" / "file")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write(tmp_path)


def test_errors_say_nothing_was_left_behind_only_if_true(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError

    for unlinked, left in ((True, 0), (False, 1)):
        if not unlinked:
            monkeypatch.setattr(files.Path, "unlink", refused)
        with pytest.raises(OSError, match="No space left") as caught, open_to_write(tmp_path / "new"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        assert ("left behind" in str(caught.value)) == unlinked
        assert caught.value.filename == str(tmp_path / "new")
        assert len(os.listdir(tmp_path)) == left


def test_files_are_replaced_where_there_are_no_locks_owners_or_modes(old, monkeypatch):
    """As on Windows, where an open file cannot be renamed."""
    monkeypatch.setattr(files, "fcntl", None)
    for name in ("fchown", "fchmod", "O_NOFOLLOW", "O_NONBLOCK"):
        monkeypatch.delattr(os, name, raising=False)
    opened = []

    def rename(path, target):
        assert opened[-1].closed
        os.replace(path, target)

    monkeypatch.setattr(type(old), "replace", rename)
    for data in (b"new", b"newer"):
        with open_to_write(old) as file:
            opened.append(file)
            file.write(data)
        assert old.read_bytes() == data
    with pytest.raises(RuntimeError), open_to_write(old):
        raise RuntimeError
    assert [path.name for path in old.parent.iterdir()] == ["old"]
    assert old.read_bytes() == b"newer"
