"""Compiled code on disk: kept, outdated, damaged, or without a writable folder."""

import shutil
import textwrap
from pathlib import Path

import pytest
from processes import run

import lumberjack
from lumberjack import kernels, kinds, tree

ENCODE = """
    import numpy as np
    from lumberjack import Domain
    {before}
    print(Domain({{"a": (0, 1)}}).encode(np.array([[0.5]])))
"""
BROKEN = {
    # Numba refuses to cache where it finds no writable folder.
    "no place": "from numba.core import caching; caching.CacheImpl._locator_classes = []",
    "folder lost on the way": """if True:
        import numba, pathlib, shutil
        from lumberjack import kinds
        load = kinds._place_on_grid._cache.load_overload
        def lose(*args):
            found = load(*args)
            shutil.rmtree(numba.config.CACHE_DIR)
            pathlib.Path(numba.config.CACHE_DIR).touch()
            return found
        kinds._place_on_grid._cache.load_overload = lose
    """,
    "disk full": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
}


@pytest.mark.parametrize("trouble", BROKEN)
def test_kernels_run_without_a_working_cache(trouble, tmp_path):
    """One small kernel is run: compiling them all is slow, and each is made by the same function."""
    if trouble == "disk full":
        pytest.importorskip("resource")
    before = textwrap.indent(BROKEN[trouble], "    ").strip()
    done = run(ENCODE.format(before=before), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.stdout, done.stderr) == ("[[1073741824]]\n", "")
    assert not list(tmp_path.rglob("*.nbc"))


def test_damaged_machine_code_is_recompiled(tmp_path):
    done = run(ENCODE.format(before=""), NUMBA_CACHE_DIR=str(tmp_path))
    kept = [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]
    assert len(kept) == 2, done.stderr
    for damage in (b"", b"\x80\x04garbage", kept[0].read_bytes()[:-30]):
        for path in kept:
            path.write_bytes(damage)
        done = run(ENCODE.format(before=""), NUMBA_CACHE_DIR=str(tmp_path))
        assert (done.stdout, done.stderr) == ("[[1073741824]]\n", "")


LAY_PATH = """
    import numpy as np
    from lumberjack.tree import lay_path
    paths = np.zeros((1, 4), dtype=np.uint32)
    lay_path(paths, 0, 2, 7, True, False, 1)
    print(paths[0], sum(lay_path.stats.cache_hits.values()))
"""


def copy_package(folder):
    source, ignore = Path(lumberjack.__file__).parent, shutil.ignore_patterns("__pycache__")
    return shutil.copytree(source, folder / "lumberjack", ignore=ignore)


def test_machine_code_is_kept_until_what_it_contains_changes(tmp_path):
    """``tree.lay_path`` contains ``structure.interval``, of another file, and nothing of ``report``."""
    copy = copy_package(tmp_path)
    here = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def change(file, old, new):
        text = (copy / file).read_text("utf-8")
        assert old in text
        (copy / file).write_text(text.replace(old, new), "utf-8")
        return run(LAY_PATH, **here).stdout

    assert run(LAY_PATH, **here).stdout == "[2 7 0 1] 0\n"
    assert run(LAY_PATH, **here).stdout == "[2 7 0 1] 1\n"
    assert change("report.py", "import math", "import math  # changed") == "[2 7 0 1] 1\n"
    old, new = "return np.uint32(cut), np.uint32(0)", "return np.uint32(cut), np.uint32(5)"
    assert change("structure.py", old, new) == "[2 7 5 1] 0\n"
    assert change("structure.py", new, old) == "[2 7 0 1] 1\n"  # both are kept, each under its name
    assert change("structure.py", "np.uint32(MISSING), np", "np.uint32(LEFT), np") == "[2 7 0 1] 0\n"


def test_names_tell_constants_of_overloads_apart(monkeypatch):
    """Kernels read codes less ``kinds._SHIFT``, by a function of another file that is overloaded."""
    monkeypatch.setattr(kernels, "_digest", kernels._digest.__wrapped__)
    walk = getattr(tree.walk, "py_func", tree.walk)
    before = kernels._digest(walk)
    monkeypatch.setattr(kinds, "_SHIFT", kinds._SHIFT + 1)
    assert kernels._digest(walk) != before


def test_a_package_in_a_zip_file_runs(tmp_path):
    archive = shutil.make_archive(str(tmp_path / "all"), "zip", copy_package(tmp_path / "plain").parent)
    done = run(LAY_PATH, PYTHONPATH=archive, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout == "[2 7 0 1] 0\n", done.stderr
