"""Progress in words or as a bar, and for the callbacks of scikit-learn."""

import pytest
from processes import run

from lumberjack import LumberjackClassifier
from lumberjack.datasets import make_toy
from lumberjack.progress import progress

PLAIN = """
    import sys, warnings
    warnings.simplefilter("ignore")
    for name in {hidden}:
        sys.modules[name] = None
    from lumberjack import LumberjackClassifier
    from lumberjack.datasets import make_toy
    X, y, domain = make_toy(1234)
    settings = dict(domain=domain, classes=[0, 1, 2], n_estimators=3, **{settings})
    LumberjackClassifier(2.0, verbose={verbose}, **settings).fit(X, y)
"""


PRUNED = {"splits": "random", "leaf": "counts"}


@pytest.mark.parametrize(
    ("settings", "unit", "total"), [({}, "step", 80), (PRUNED, "tree", 3)], ids=["fitted", "pruned"]
)
@pytest.mark.slow
def test_progress_is_plain_lines_where_no_bar_is_installed(settings, unit, total):
    """Steps of a fit, 20 and 60; or trees."""
    hidden = ["rich", "rich.progress", "tqdm", "tqdm.auto"]
    done = run(PLAIN.format(hidden=hidden, verbose=1, settings=settings))
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if "compiling" not in line]
    assert said == [f"[LumberjackClassifier] {unit} {i + 1} of {total}" for i in range(total)]
    assert "1234" not in done.stdout + done.stderr


@pytest.mark.slow
def test_progress_is_silent_by_default():
    done = run(PLAIN.format(hidden=[], verbose=0, settings={}))
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(("bar", "hidden"), [("rich", []), ("tqdm", ["rich", "rich.progress"])])
@pytest.mark.slow
def test_progress_is_a_bar_where_one_is_installed(bar, hidden):
    pytest.importorskip(bar)
    done = run(PLAIN.format(hidden=hidden, verbose=1, settings={}))
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    assert "LumberjackClassifier" in shown
    assert "step" in shown
    assert "100%" in shown
    assert "1234" not in shown


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_fit_announces_compiling_before_its_first_kernel(tmp_path):
    """The noise is calibrated first, by a kernel too."""
    code = PLAIN.format(hidden=["rich", "tqdm"], verbose=1, settings={})
    done = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.stdout.startswith("[LumberjackClassifier] compiling for this machine"), done.stderr
    assert done.stdout.count("compiling") == 1


@pytest.mark.parametrize(
    ("settings", "unit", "total"), [({}, "step", 80), (PRUNED, "tree", 4)], ids=["fitted", "pruned"]
)
def test_callbacks_of_scikit_learn_are_told_of_each_step(settings, unit, total):
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
            return True  # asks to stop, and is ignored

        def teardown(self, estimator, context):
            self.events.append("teardown")

    X, y, domain = make_toy(2000)
    recorder = Recorder()
    model = LumberjackClassifier(2.0, domain=domain, n_estimators=4, classes=[0, 1, 2], **settings)
    model.set_callbacks(recorder).fit(X, y)
    each = [("begin", unit), ("end", unit)]
    assert recorder.events == ["setup", ("begin", "fit"), *each * total, ("end", "fit"), "teardown"]
    assert model.guarantee_.stages == total


def test_lines_count_the_steps(monkeypatch, capsys):
    monkeypatch.setattr("lumberjack.progress._installed", lambda module: None)
    with progress("Title", "step", 2, verbose=1) as advance:
        assert capsys.readouterr().out == ""
        advance()
        assert capsys.readouterr().out == "[Title] step 1 of 2\n"
        advance()
        assert capsys.readouterr().out == "[Title] step 2 of 2\n"


def test_verbose_0_prints_nothing(capsys):
    with progress("Title", "step", 2, verbose=0) as advance:
        advance()
    assert capsys.readouterr() == ("", "")
