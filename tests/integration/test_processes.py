"""Fits in threads, forked and spawned workers, and cut short."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed

from lumberjack import LumberjackClassifier
from lumberjack.datasets import make_toy

pytestmark = pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
SETTINGS = {
    "pruned": {"splits": "random", "leaf": "counts", "n_estimators": 4, "classes": [0, 1, 2]},
    "fitted": {"n_estimators": 4},
}


def fit(kind, n_jobs=1):
    """Predictions of a seeded fit: the same wherever it runs."""
    X, y, domain = make_toy(2000)
    model = LumberjackClassifier(2.0, domain=domain, n_jobs=n_jobs, random_state=3, **SETTINGS[kind])
    return model.fit(X, y).predict_proba(X)


def send(kind, queue):
    queue.put(fit(kind, n_jobs=2))


@pytest.fixture(scope="module", params=SETTINGS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def expected(kind):
    return fit(kind, n_jobs=2)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing(method, kind, expected):
    """Also forked after this process has run the same kernels in threads."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method} processes")
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=send, args=(kind, queue))
    worker.start()
    found = queue.get(timeout=240)
    worker.join(timeout=60)
    assert worker.exitcode == 0
    np.testing.assert_array_equal(found, expected)


def test_workers_of_joblib(kind, expected):
    for found in Parallel(n_jobs=2, backend="loky")(delayed(fit)(kind) for _ in range(2)):
        np.testing.assert_array_equal(found, expected)


def test_fits_in_several_threads_at_once(kind, expected):
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: fit(kind, n_jobs=2), range(8)):
            np.testing.assert_array_equal(found, expected)


SLOW = """
    import threading, time
    import numpy as np
    from lumberjack import LumberjackClassifier
    rng = np.random.default_rng(0)
    X, y = rng.random((400_000, 8)), rng.integers(0, 2, 400_000)
    domain = {f"c{i}": (0, 1) for i in range(8)}
    settings = dict(domain=domain, classes=[0, 1], splits="random", leaf="counts", n_jobs=2)
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
def test_ctrl_c_stops_soon_and_leaves_no_attributes():
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW)], stdout=subprocess.PIPE, text=True
    )
    killer = threading.Timer(500, process.kill)
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
