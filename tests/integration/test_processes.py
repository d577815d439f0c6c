"""Fits in threads, forked and spawned workers, without a cache, with progress, and cut short."""

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed

import lumberjack
from lumberjack import LumberjackClassifier
from lumberjack.datasets import make_toy

pytestmark = pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
SETTINGS = {"splits": "random", "n_estimators": 4, "classes": [0, 1, 2], "random_state": 3}


def fit(n_jobs=1, **kw):
    """Predictions of a seeded fit: the same wherever it runs."""
    X, y, domain = make_toy(2000)
    model = LumberjackClassifier(2.0, domain=domain, n_jobs=n_jobs, **{**SETTINGS, **kw})
    return model.fit(X, y).predict_proba(X)


def send(queue):
    queue.put(fit(n_jobs=2))


@pytest.fixture(scope="module")
def expected():
    return fit(n_jobs=2)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing(method, expected):
    """Also forked after this process has run the same kernels in threads."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method} processes")
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=send, args=(queue,))
    worker.start()
    found = queue.get(timeout=240)
    worker.join(timeout=60)
    assert worker.exitcode == 0
    np.testing.assert_array_equal(found, expected)


def test_workers_of_joblib(expected):
    for found in Parallel(n_jobs=2, backend="loky")(delayed(fit)() for _ in range(2)):
        np.testing.assert_array_equal(found, expected)


def test_fits_in_several_threads_at_once(expected):
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: fit(n_jobs=2), range(8)):
            np.testing.assert_array_equal(found, expected)


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


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
        from lumberjack import domain
        load = domain._place_on_grid._cache.load_overload
        def lose(*args):
            found = load(*args)
            shutil.rmtree(numba.config.CACHE_DIR)
            pathlib.Path(numba.config.CACHE_DIR).touch()
            return found
        domain._place_on_grid._cache.load_overload = lose
    """,
    "disk full": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
}


@pytest.mark.parametrize("trouble", BROKEN)
def test_a_broken_cache_does_not_stop_anybody(trouble, tmp_path):
    """One small kernel is run: compiling them all is slow, and each is made by the same function."""
    if trouble == "disk full":
        pytest.importorskip("resource")
    before = textwrap.indent(BROKEN[trouble], "    ").strip()
    done = run(ENCODE.format(before=before), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.stdout, done.stderr) == ("[[1073741824]]\n", "")
    assert not list(tmp_path.rglob("*.nbc"))


def test_damaged_machine_code_is_made_anew(tmp_path):
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


def test_a_package_in_a_zip_file_runs(tmp_path):
    archive = shutil.make_archive(str(tmp_path / "all"), "zip", copy_package(tmp_path / "plain").parent)
    done = run(LAY_PATH, PYTHONPATH=archive, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout == "[2 7 0 1] 0\n", done.stderr


PLAIN = """
    import sys, warnings
    warnings.simplefilter("ignore")
    for name in {hidden}:
        sys.modules[name] = None
    from lumberjack import LumberjackClassifier
    from lumberjack.datasets import make_toy
    X, y, domain = make_toy(1234)
    settings = dict(domain=domain, classes=[0, 1, 2], splits="random", n_estimators=3)
    LumberjackClassifier(2.0, verbose={verbose}, **settings).fit(X, y)
"""


def test_progress_is_plain_lines_where_no_bar_is_installed():
    hidden = ["rich", "rich.progress", "tqdm", "tqdm.auto"]
    done = run(PLAIN.format(hidden=hidden, verbose=1))
    assert done.returncode == 0, done.stderr
    for i in (1, 2, 3):
        assert f"[LumberjackClassifier] tree {i} of 3" in done.stdout
    assert "1234" not in done.stdout + done.stderr


def test_progress_is_silent_by_default():
    done = run(PLAIN.format(hidden=[], verbose=0))
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(("bar", "hidden"), [("rich", []), ("tqdm", ["rich", "rich.progress"])])
def test_progress_is_a_bar_where_one_is_installed(bar, hidden):
    pytest.importorskip(bar)
    done = run(PLAIN.format(hidden=hidden, verbose=1))
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    assert "LumberjackClassifier" in shown
    assert "100%" in shown
    assert "1234" not in shown


def test_compiling_is_announced_once(tmp_path):
    """With an empty cache one line says so, with a warm one none does."""
    code = """
        import numba, numpy as np
        from lumberjack.domain import Domain
        from lumberjack.progress import announce_compilation
        with announce_compilation("Title", 1):
            Domain({"a": (0, 1), "b": ["x"]}).encode(np.array([[0.5, "x"]], dtype=object))
    """
    first, second = (run(code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first.stdout.count("compiling for this machine") == 1, first.stderr
    assert second.stdout == "", second.stderr


SLOW = """
    import threading, time
    import numpy as np
    from lumberjack import LumberjackClassifier
    rng = np.random.default_rng(0)
    X, y = rng.random((400_000, 8)), rng.integers(0, 2, 400_000)
    domain = {f"c{i}": (0, 1) for i in range(8)}
    settings = dict(domain=domain, classes=[0, 1], splits="random", n_jobs=2)
    model = LumberjackClassifier(8.0, n_estimators=500, **settings)
    LumberjackClassifier(8.0, n_estimators=2, **settings).fit(X[:5000], y[:5000])
    print("ready", flush=True)
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        clean = sorted(vars(model)) == sorted(model.get_params())
        print("stopped", time.time(), threading.active_count(), clean)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are sent another way there")
def test_ctrl_c_stops_soon_and_leaves_nothing_behind():
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW)], stdout=subprocess.PIPE, text=True
    )
    killer = threading.Timer(200, process.kill)
    killer.start()
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    sent = time.time()
    process.send_signal(signal.SIGINT)
    said = process.stdout.read()
    process.wait(timeout=60)
    killer.cancel()
    found = re.fullmatch(r"stopped ([\d.]+) (\d+) (\w+)\n", said)
    assert found, said
    assert float(found[1]) - sent < 60  # minutes before the fit would have ended by itself
    assert found[2] == "1"  # threads
    assert found[3] == "True"  # no attribute was left on the model


def test_callbacks_of_scikit_learn_are_told_of_each_tree():
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

    class Recorder:
        def __init__(self):
            self.events = []

        def setup(self, estimator, context):
            self.events.append("setup")

        def on_fit_task_begin(self, estimator, context):
            self.events.append(("begin", context.task_name))

        def on_fit_task_end(self, estimator, context):
            self.events.append(("end", context.task_name))
            return True  # asks to stop, and is not heard

        def teardown(self, estimator, context):
            self.events.append("teardown")

    X, y, domain = make_toy(2000)
    recorder = Recorder()
    model = LumberjackClassifier(2.0, domain=domain, **SETTINGS).set_callbacks(recorder)
    model.fit(X, y)
    tree = [("begin", "tree"), ("end", "tree")]
    assert recorder.events == ["setup", ("begin", "fit"), *tree * 4, ("end", "fit"), "teardown"]
    assert len(model.forest_.trees) == 4
