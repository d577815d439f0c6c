"""The protocol, its cells, and how they are run: on a small made-up table in place of Adult."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import cell as one_cell
from benchmarks import environment, protocol, runner
from benchmarks.__main__ import main
from benchmarks.baselines import SYSTEMS, packages, random_trees
from benchmarks.protocol import EPSILONS, Cell, identity
from lumberjack import LumberjackClassifier
from lumberjack.datasets import acs, store
from lumberjack.datasets.codebooks import ADULT
from lumberjack.kinds import Categorical

SNR = Cell("adult", "snr", (), 1.0, 0)
FORESTS = ("lumberjack", "lumberjack-undeclared", "lumberjack-counts")
OURS = (*FORESTS, "paper", "top-down")  # what a change of the library may change
ENDLESS = [Cell("adult", "greedy", (("n_trees", 10**6),), 1.0, r) for r in range(4)]


@pytest.fixture
def adult(tmp_path, monkeypatch):
    """400 random rows in the domain of Adult, whose label is the sex."""
    rng = np.random.default_rng(0)
    columns = {}
    for name in ADULT:
        kind = ADULT[name]
        if isinstance(kind, Categorical):
            columns[name] = rng.choice(kind.categories, 400)
        else:
            columns[name] = rng.integers(int(kind.low), int(kind.high) + 1, 400)
    columns["income"] = np.where(columns["sex"] == "Male", ">50K", "<=50K")
    pd.DataFrame(columns).to_parquet(tmp_path / "adult.parquet")
    monkeypatch.setenv("LUMBERJACK_DATA", str(tmp_path))
    return tmp_path


class Silent:
    def __init__(self):
        self.seen = []

    def show(self, done, left, last):
        self.seen.append((done, left, last))

    def end(self):
        pass


def go(cells, folder, **options):
    return runner.run(cells, folder, **{"jobs": 2, "progress": Silent(), **options})


def test_the_protocol_is_the_papers():
    assert protocol.EPSILONS == (0.1, 0.5, 1, 2, 4, 8)  # the paper's, and a small one
    cells = protocol.paper_cells(["adult", "income"], list(protocol.SYSTEMS))
    # Three repetitions at both ends of epsilon; once for all epsilons without privacy.
    private = sum(system.claim != "none" for system in protocol.SYSTEMS.values())
    assert (private, len(protocol.SYSTEMS)) == (16, 21)
    assert len(cells) == 2 * (16 * (4 * 5 + 2 * 3) + 5 * 5)
    at_the_ends = {c.repetition for c in cells if c.epsilon in (0.1, 8)}
    assert at_the_ends == {0, 1, 2}
    assert {c.repetition for c in cells if c.epsilon in (0.5, None)} == {0, 1, 2, 3, 4}
    assert len(protocol.paper_cells(["adult"], ["snr"], repetitions=2)) == 6 * 2
    assert len({c.name for c in cells}) == len(cells)
    paper = {c.dataset: dict(c.settings) for c in cells if c.system == "paper"}
    assert paper == {"adult": {"n_estimators": 30}, "income": {"n_estimators": 50}}
    assert {c.settings for c in cells if c.system in FORESTS} == {()}
    assert [c.repetition for c in cells] == sorted(c.repetition for c in cells)


def test_every_ablation_asked_for_is_there():
    points = {n: [p for line in a.lines for p in line.points] for n, a in protocol.ABLATIONS.items()}
    methods = {protocol.make_system(*p[1:3]).method for p in points["heavy-hitters"]}
    assert methods == {"sparse", "two-sided", "top-down"}

    def given(name, key):
        return {getattr(protocol.make_system(*p[1:3])._make(1.0), key) for p in points[name]}

    assert given("accounting", "accounting") == {"joint", "paper"}
    assert {p[0] for p in points["depth"]} >= {10, 1000}
    assert given("trees", "n_estimators") == set(protocol.TREES)
    assert given("splits", "splits") == {"guided", "random"}
    assert set(points) == {"heavy-hitters", "accounting", "trees", "depth", "share", "leaf", "splits"}
    for name in points:
        for c in protocol.ablation_cells([name], ["adult"], 1):
            protocol.make_system(c.system, c.settings)
            assert Cell.from_dict(json.loads(json.dumps(c.to_dict()))) == c
    shared = set(protocol.ablation_cells(["splits", "trees"])) & set(
        protocol.paper_cells(protocol.ABLATED, ["lumberjack-counts"])
    )
    assert len(shared) == 2 * (4 * 5 + 3)  # counted leaves at an epsilon are run once for all studies


def test_the_split_is_80_10_10_stratified_and_another_each_time():
    X, y = pd.DataFrame({"i": range(1000)}), np.arange(1000) % 4 == 0
    seen = []
    for repetition in range(2):
        parts = protocol.split(X, y, repetition)
        assert [len(part[1]) for part in parts] == [800, 100, 100]
        assert [int(part[1].sum()) for part in parts] == [200, 25, 25]
        rows = np.concatenate([part[0]["i"] for part in parts])
        assert sorted(rows) == list(range(1000))
        seen.append(set(parts[2][0]["i"]))
    assert seen[0] != seen[1]


def test_a_cell_measures_what_it_says(adult):
    found = one_cell.run(Cell("adult", "decision-tree", (), None, 0))
    assert (found["status"], found["accuracy"], found["auc"]) == (
        "done",
        1.0,
        1.0,
    )  # the label is a column
    assert (found["brier"], found["ece"]) == (0.0, 0.0)
    assert found["rows"] == 400
    for key in ("fit_seconds", "predict_seconds", "model_bytes", "seconds"):
        assert found[key] > 0
    assert found["cell"] == Cell("adult", "decision-tree", (), None, 0).to_dict()


def test_every_system_is_warm_before_it_is_measured(adult, monkeypatch):
    """Else imports and compiling would be taken for its costs."""
    smooth, seen = SYSTEMS["smooth"], []
    fit = smooth.fit

    def watched(self, X, *rest):
        seen.append((len(X), self.n_trees))
        return fit(self, X, *rest)

    monkeypatch.setattr(smooth, "fit", watched)
    monkeypatch.setattr(smooth, "trial", {"n_trees": 2})
    one_cell.run(Cell("adult", "smooth", (), 1.0, 0))
    assert seen == [(200, 2), (320, 30)]


def test_nothing_declared_is_warmed_up_too(adult):
    found = one_cell.run(Cell("adult", "lumberjack-undeclared", (), 8.0, 0))  # 200 rows of 400 first
    assert found["status"] == "done"


def test_peak_memory_counts_what_comes_after_the_reset():
    big = np.ones(30_000_000)  # 240 MB, gone before the measurement
    del big
    before = one_cell._reset_peak()
    small = np.ones(5_000_000)
    del small
    if Path("/proc/self/clear_refs").exists():
        assert 35e6 < one_cell._peak() - before < 120e6


def test_data_sets_are_described_as_the_paper_does(adult):
    found = protocol.describe("adult")
    assert [found[k] for k in ("features", "categorical", "classes", "rows")] == [14, 8, 2, 400]
    assert found["sample"] == ""
    assert protocol.describe("adult", 100)["sample"] == "trial on 100 rows"


def test_only_the_processor_of_the_machine_is_recorded():
    text = json.dumps(environment.describe())
    assert os.uname().nodename not in re.findall(r"[\w.-]+", text)
    assert str(Path.home()) not in text
    assert str(Path.cwd()) not in text
    assert "cores" in text


def test_a_finished_cell_is_not_run_twice_and_a_failed_one_is(adult):
    folder = adult / "out"
    wrong = Cell("adult", "smooth", (("nonsense", 1),), 1.0, 0)
    assert go([SNR, wrong], folder) == {"done": 1, "failed": 1}
    before = runner.path_of(folder, SNR).stat().st_mtime_ns
    assert "nonsense" in runner.read(folder, wrong)["why"]
    assert go([SNR, wrong], folder) == {"finished before": 1, "failed": 1}
    assert runner.path_of(folder, SNR).stat().st_mtime_ns == before


def test_an_invalid_result_file_is_replaced(adult):
    path = runner.path_of(adult / "out", SNR)
    path.parent.mkdir(parents=True)
    path.write_text('{"cell": {"dataset": "ad')
    assert go([SNR], adult / "out") == {"done": 1}
    other = {**runner.read(adult / "out", SNR), "cell": ENDLESS[0].to_dict()}
    path.write_text(json.dumps(other))  # the result of another cell
    assert runner.read(adult / "out", SNR) is None


@pytest.fixture
def forgetful():
    """Identities are looked up afresh, before and after."""
    protocol._identity.cache_clear()
    yield protocol._identity.cache_clear
    protocol._identity.cache_clear()


def test_a_change_of_a_default_outdates_the_librarys_cells_and_no_others(forgetful, monkeypatch):
    cells = [Cell("adult", name, (), e, 0) for name in SYSTEMS for e in EPSILONS]
    before = {cell: identity(cell) for cell in cells}
    forgetful()
    assert {cell: identity(cell) for cell in cells} == before  # fits are seeded: the same each time
    forgetful()
    monkeypatch.setitem(LumberjackClassifier.__init__.__kwdefaults__, "max_depth", 90)
    changed = {cell.system for cell in cells if identity(cell) != before[cell]}
    assert changed == {
        "lumberjack-counts"
    }  # paper() states its depth, the others have none or their own


def test_a_change_of_the_noise_outdates_cells_at_every_epsilon(forgetful, monkeypatch):
    cells = [Cell("adult", name, (), e, 0) for name in OURS for e in EPSILONS]
    before = {cell: identity(cell) for cell in cells}
    assert len(set(before.values())) == len(cells)
    forgetful()
    for module, name in ((packages, "DELTA"), (random_trees, "DELTA")):
        monkeypatch.setattr(module, name, 2e-6)
    assert not any(identity(cell) == before[cell] for cell in cells)


def test_an_outdated_result_is_as_good_as_none(adult, forgetful, monkeypatch):
    folder = adult / "out"
    assert go([SNR], folder) == {"done": 1}
    assert runner.read(folder, SNR)["identity"] == "1"
    forgetful()
    monkeypatch.setattr(SYSTEMS["snr"], "version", 2)
    assert runner.read(folder, SNR) is None
    assert not runner.finished(runner.read(folder, SNR), limit=1.0)


def test_a_result_on_other_data_is_outdated(adult):
    words = ["run", "--dataset", "adult", "--system", "snr", "--epsilon", "1", "--repetitions", "1"]
    words += ["--jobs", "1", "--folder", str(adult / "out")]
    assert main(words) == 0
    frame = pd.read_parquet(adult / "adult.parquet")
    frame[:300].to_parquet(adult / "adult.parquet")
    assert runner.read(adult / "out", SNR)["rows"] == 400  # nobody has looked at the data yet
    main([*words, "--dry-run"])
    assert runner.read(adult / "out", SNR) is None
    assert main(words) == 0
    assert runner.read(adult / "out", SNR)["rows"] == 300
    frame[100:400].to_parquet(adult / "adult.parquet")  # as many, but others
    main([*words, "--dry-run"])
    assert runner.read(adult / "out", SNR) is None


def test_after_two_timeouts_a_system_is_skipped(adult):
    folder = adult / "out"
    assert go(ENDLESS, folder, limit=2.0, jobs=1) == {"cut off": 2, "left out": 2}
    assert [runner.read(folder, c)["started"] for c in ENDLESS] == [True, True, False, False]
    assert runner.read(folder, ENDLESS[0])["limit"] == 2.0
    assert go(ENDLESS, folder, limit=1.0, jobs=1) == {"finished before": 4}
    assert not runner.finished(runner.read(folder, ENDLESS[0]), limit=10)  # more time: try again


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_killing_the_runner_loses_the_running_cell_only_and_leaves_no_process(adult):
    folder = adult / "out"
    program = (
        "import json, sys; from pathlib import Path; from benchmarks import runner; "
        "from benchmarks.protocol import Cell; cells = map(Cell.from_dict, json.loads(sys.argv[2])); "
        "runner.run(list(cells), Path(sys.argv[1]), jobs=1)"
    )
    root = Path(protocol.__file__).parent.parent
    cells = json.dumps([SNR.to_dict(), ENDLESS[0].to_dict()])
    process = subprocess.Popen([sys.executable, "-c", program, str(folder), cells], cwd=root)
    slow = str(runner.path_of(folder, ENDLESS[0]))
    try:
        _until(lambda: processes_with(slow))
        assert runner.read(folder, SNR)["status"] == "done"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    try:
        _until(lambda: not processes_with(slow), seconds=20)
    finally:
        for left in processes_with(slow):  # only if this test fails: it would run for ever
            os.kill(int(left.parent.name), signal.SIGKILL)
    assert [p.name for p in (folder / "cells").iterdir()] == [f"{SNR.name}.json"]
    assert go([SNR], folder) == {"finished before": 1}


def processes_with(text):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if text.encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


def _until(happens, seconds=60):
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def test_the_estimate_is_that_of_similar_cells():
    estimate = runner.Estimate()
    assert estimate.total([SNR], 1) is None
    estimate.add(ENDLESS[0], 100.0)
    assert estimate.seconds(SNR) == 100.0  # nothing closer is known
    estimate.add(Cell("income", "snr", (), 1.0, 0), 10.0)
    assert estimate.seconds(SNR) == 10.0
    estimate.add(SNR, 2.0)
    estimate.add(Cell("adult", "snr", (), 8.0, 3), 4.0)
    assert estimate.seconds(Cell("adult", "snr", (), 2.0, 1)) == 3.0
    assert estimate.total([SNR, ENDLESS[1]], jobs=2) == (3.0 + 100.0) / 2
    estimate.add(SNR, 3600.0)  # somebody paused the run
    assert estimate.seconds(SNR) == 4.0
    assert [runner.span(s) for s in (None, 12, 600, 7200)] == [
        "an unknown time",
        "12 s",
        "10 min",
        "2.0 h",
    ]


def test_the_estimate_knows_what_is_in_the_folder(tmp_path):
    for repetition, seconds in enumerate((10.0, 20.0)):
        done = Cell("adult", "snr", (), 1.0, repetition)
        found = {"cell": done.to_dict(), "status": "done", "seconds": seconds}
        one_cell.write(runner.path_of(tmp_path, done), found)
    trial = Cell("adult", "snr", (), 1.0, 0, rows=10)
    found = {"cell": trial.to_dict(), "status": "done", "seconds": 999.0}
    one_cell.write(runner.path_of(tmp_path, trial), found)
    cut = {"cell": ENDLESS[0].to_dict(), "status": "cut off", "limit": 50.0}
    one_cell.write(runner.path_of(tmp_path, ENDLESS[0]), cut)
    estimate = runner.Estimate.of(tmp_path, None)
    assert [estimate.seconds(cell) for cell in (SNR, ENDLESS[1])] == [15.0, 50.0]
    assert estimate.knows(Cell("adult", "snr", (), 8.0, 4))
    assert not estimate.knows(Cell("income", "snr", (), 1.0, 0))
    busy = {"cell": SNR.to_dict(), "status": "done", "seconds": 99.0, "cpu_seconds": 3.0}
    one_cell.write(runner.path_of(tmp_path, SNR), busy)  # processor time, where it is known
    assert runner.Estimate.of(tmp_path, None).seconds(SNR) == (3.0 + 20.0) / 2


def test_progress_goes_up_and_says_how_long(adult, capsys):
    shown = Silent()
    go([SNR], adult / "out", progress=shown)
    assert [(done, left) for done, left, _ in shown.seen] == [(0, None), (1, 0.0)]
    assert "done" in shown.seen[-1][2]
    runner.Progress(4, sys.stderr).show(1, 90.0, "x")
    assert "[#######-----------------------] 1/4 cells, about 2 min left  x" in capsys.readouterr().err


def test_the_command_runs_and_resumes(adult, capsys, monkeypatch):
    monkeypatch.setenv("LUMBERJACK_CACHE", str(adult / "cache"))
    monkeypatch.setattr(acs, "CENSUS", "http://127.0.0.1:9")  # nobody answers there
    monkeypatch.setattr(store, "PAUSE", 0.0)
    words = ["run", "--dataset", "adult", "travel_time", "--system", "snr", "--epsilon", "1", "2"]
    words += ["--repetitions", "1", "--jobs", "2", "--folder", str(adult / "out")]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "snr: 2 to run, an unknown time (a guess from other systems)" in said
    assert "2 cells, 2 to run" in said
    assert main(words) == 0
    said = capsys.readouterr()
    assert "2 done" in said.out
    assert "travel_time is left out" in said.err
    assert main(words) == 0
    assert "2 finished before" in capsys.readouterr().out
    (adult / "adult.parquet").unlink()
    monkeypatch.setattr(store, "OPENML", "http://127.0.0.1:9")
    assert main(words) == 0
    assert "adult is left out" in capsys.readouterr().err
    assert runner.read(adult / "out", SNR)["status"] == "done"  # and still described
    assert '"rows": 400' in (adult / "out" / "data" / "adult.json").read_text()
    with pytest.raises(SystemExit):
        main(["run", "--epsilon", "-1"])
    assert "epsilon must be positive, got -1" in capsys.readouterr().err
