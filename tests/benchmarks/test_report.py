"""The results page from made-up cells whose numbers are known."""

import json
from pathlib import Path

import pytest

from benchmarks import archive, report
from benchmarks.__main__ import main
from benchmarks.cell import opening, write
from benchmarks.protocol import EPSILONS, Cell
from benchmarks.runner import path_of

pytest.importorskip("matplotlib")


def put(
    folder,
    system,
    accuracies,
    epsilon=1.0,
    dataset="adult",
    settings=(),
    status="done",
    commit="abc1234",
    **more,
):
    if system == "paper":
        settings = (("n_estimators", 30),)
    for repetition, accuracy in enumerate(accuracies):
        cell = Cell(dataset, system, settings, epsilon, repetition)
        measured = {"accuracy": accuracy, "auc": accuracy + 0.05, "fit_seconds": 2.0}
        measured |= {"predict_seconds": 0.5, "peak_bytes": 3_000_000, "model_bytes": 4000}
        found = {
            **opening(cell),
            "status": status,
            **(measured if status == "done" else {}),
            **more,
        }
        found["environment"] = {"commit": commit, "versions": "numpy 2", "machine": "a processor"}
        write(path_of(folder, cell), found)


def put_data(folder, name="adult", **changes):
    found = {"features": 14, "categorical": 8, "classes": 2, "majority": 76.07, "rows": 48_842}
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data" / f"{name}.json").write_text(json.dumps({**found, "sample": "", **changes}))


def page(folder):
    report.write(folder, folder / "docs")
    return (folder / "docs" / "results.md").read_text("utf-8")


def row(text, start, section):
    part = text[text.index(section) :]
    return next(line for line in part.splitlines() if line.startswith(f"| {start}"))


def test_means_and_deviations_are_right(tmp_path):
    put(tmp_path, "lumberjack", [0.80, 0.82, 0.84, 0.86, 0.88])
    put(tmp_path, "snr", [0.7, 0.8])
    put(tmp_path, "greedy", [0.7])
    text = page(tmp_path)
    assert row(text, "greedy", "## Accuracy").split(" | ")[3] == "0.7000 (1)"
    # deviations by hand: sqrt(10 * 0.0004 / 4) and 0.1 / sqrt(2)
    assert row(text, "lumberjack", "## Accuracy").split(" | ")[3] == "0.8400 ± 0.0316"
    assert row(text, "snr", "## Accuracy").split(" | ")[3] == "0.7500 ± 0.0707 (2)"
    assert row(text, "lumberjack", "## AUC").split(" | ")[3] == "0.8900 ± 0.0316"
    assert row(text, "lumberjack", "## Time").split(" | ")[1:] == [
        "2.00 s",
        "0.500 s",
        "3.0 MB",
        "4 kB |",
    ]
    assert "commit: abc1234" in text
    for name in ("accuracy", "auc", "mean-accuracy", "mean-auc", "costs"):
        assert f"results/{name}.png" in text
        assert (tmp_path / "docs" / "results" / f"{name}.png").stat().st_size > 10_000


def test_commits_of_systems_are_listed(tmp_path):
    put(tmp_path, "lumberjack", [0.8])
    put(tmp_path, "paper", [0.8])
    put(tmp_path, "snr", [0.8], commit="def5678")
    text = page(tmp_path)
    assert "- commit: abc1234 (lumberjack, paper); def5678 (snr)\n- versions: numpy 2\n" in text


def test_missing_results_are_explained(tmp_path):
    put(tmp_path, "lumberjack", [0.8])
    put(tmp_path, "diffprivlib", [0, 0], status="cut off", limit=900.0)
    put(tmp_path, "diffprivlib", [0], 2.0, status="cut off", limit=900.0, started=False)
    put(tmp_path, "extra-trees", [0.9], None)
    put(tmp_path, "dp-ebm", [0], status="absent", why="interpret is not installed")
    put(tmp_path, "greedy", [0], status="failed", why="ValueError")
    text = page(tmp_path)
    expected = {"diffprivlib": "> 900 s", "dp-ebm": "absent", "greedy": "failed", "top-down": "not run"}
    for system, entry in expected.items():
        assert row(text, system, "## Accuracy").split(" | ")[3] == entry
    assert row(text, "diffprivlib", "## Accuracy").split(" | ")[4] == "not run"
    assert row(text, "extra-trees", "## Accuracy") == "| extra-trees |  |  |  |  |  |  | 0.9000 (1) |"
    assert "cut off after 900 seconds" in text
    assert row(text, "diffprivlib", "## Time").split(" | ")[1] == "> 900 s"


def test_leads_over_the_best_rival_are_listed(tmp_path):
    put(tmp_path, "lumberjack", [0.85, 0.85], 0.5)
    put(tmp_path, "paper", [0.82, 0.82], 0.5)
    put(tmp_path, "snr", [0.83, 0.83], 0.5)
    put(tmp_path, "lumberjack", [0.84, 0.86], 1.0)
    put(tmp_path, "lr-pairs", [0.86, 0.86], 1.0)
    put(tmp_path, "smooth", [0.90, 0.90], 1.0)
    put(tmp_path, "extra-trees", [0.99], None)  # not private: next to nobody
    text = page(tmp_path)
    part = text[text.index("**Accuracy above the best rival**") :]
    half, one = (line.split(" | ") for line in part.splitlines()[4:6])
    assert half == ["| Adult", "0.5", "snr, 0.8300", "+0.0200", "not run", "not run", "**-0.0100** |"]
    assert one[2:4] == ["smooth (claim broken), 0.9000", "**-0.0500**"]
    said = "- Accuracy: no rival is ahead of the default in 1 of 2 cases; ahead of it are lr-pairs on "
    assert said + "Adult at ε = 1 (+0.0100); smooth (claim broken) on Adult at ε = 1 (+0.0500)." in text
    assert "Not run at ε = 0.1: lumberjack, paper, snr, smooth, lr-pairs; " in text
    assert "at all: lumberjack-undeclared, lumberjack-counts, top-down, greedy, " in text


def test_means_are_of_systems_with_results_on_all_data_sets(tmp_path):
    for dataset, accuracy in (("adult", 0.8), ("income", 0.7)):
        put(tmp_path, "lumberjack", [accuracy], dataset=dataset)
        put(tmp_path, "lr-bin", [accuracy + 0.01], dataset=dataset)
        put(tmp_path, "decision-tree", [accuracy], None, dataset=dataset)
    put(tmp_path, "snr", [0.9])
    text = page(tmp_path)
    part = "**Mean accuracy over 2 data sets**"
    assert row(text, "lumberjack", part) == "| lumberjack | – | – | 0.7500 | – | – | – |  |"
    assert row(text, "lr-bin", part) == "| lr-bin | – | – | **0.7600** | – | – | – |  |"
    assert row(text, "snr", part) == "| snr | – | – | – | – | – | – |  |"
    assert row(text, "decision-tree", part).endswith("|  | **0.7500** |")


def test_all_systems_are_compared_on_the_same_repetitions(tmp_path):
    put(tmp_path, "snr", [0.7, 0.8, 0.9, 0.1, 0.1], 8.0)  # three count there
    assert row(page(tmp_path), "snr", "## Accuracy").split(" | ")[6] == "0.8000 ± 0.1000"


def test_calibration_is_shown_where_it_was_measured(tmp_path):
    put(tmp_path, "lumberjack", [0.8] * 5, brier=0.15, ece=0.01)
    put(tmp_path, "lr-pairs", [0.8] * 5, brier=0.14, ece=0.02)
    put(tmp_path, "snr", [0.8] * 5)
    put(tmp_path, "extra-trees", [0.8] * 5, None, brier=0.1, ece=0.05)
    text = page(tmp_path)
    assert row(text, "lumberjack", "## Calibration").split(" | ")[3] == "0.1500 / 0.0100"
    assert row(text, "snr", "## Calibration").split(" | ")[3] == "not measured"
    assert row(text, "extra-trees", "## Calibration").endswith("| 0.1000 / 0.0500 |")
    brier, ece = (n for n in text.splitlines() if n.startswith(("- Brier", "- Reliability")))
    assert brier.endswith("0 of 1 cases; ahead of it are lr-pairs on Adult at ε = 1 (-0.0100).")
    assert ece.endswith("no rival is ahead of the default in 1 of 1 cases.")


def test_data_sets_are_checked_against_the_paper_and_samples_named(tmp_path):
    put(tmp_path, "lumberjack", [0.8], dataset="income")
    put_data(tmp_path)
    income = {"features": 10, "categorical": 4, "majority": 58.9, "rows": 89_958}
    put_data(tmp_path, "income", **income, sample="46 % sample")
    put_data(tmp_path, "public_coverage", features=3)
    (tmp_path / "data" / "travel_time.json").write_text('{"absent": true}')
    text = page(tmp_path)
    assert row(text, "Adult", "## Data sets").endswith("| 76.1 % | 48,842 | as in the paper |")
    assert "46 % sample; the paper has 195,665 rows" in row(text, "ACSIncome", "## Data sets")
    assert "**differs**" in row(text, "ACSPublicCoverage", "## Data sets")
    assert "not available here" in row(text, "ACSTravelTime", "## Data sets")
    assert "**ACSIncome (CA), 46 % sample**" in text


def test_broken_claims_are_shown_wherever_a_system_is(tmp_path):
    put(tmp_path, "smooth", [0.8])
    text = page(tmp_path)
    assert "smooth (claim broken)" in row(text, "smooth", "## Accuracy")
    assert "**broken**" in row(text, "smooth", "## What the privacy claims are worth")
    from benchmarks.figures import NOTES

    assert "broken" in NOTES["broken"]


def test_each_ablation_has_a_figure_and_a_sentence(tmp_path):
    for method, accuracy in (("sparse", 0.84), ("two-sided", 0.83), ("top-down", 0.80)):
        for epsilon in EPSILONS:
            settings = (("method", method),) if method != "sparse" else ()  # its default
            put(tmp_path, "heavy-hitters", [accuracy] * 2, epsilon, settings=settings)
    for k, accuracy in ((5, 0.80), (10, 0.83), (40, 0.82)):
        put(tmp_path, "lumberjack-counts", [accuracy], settings=(("n_estimators", k),))
    for share in (0.1, 0.9):
        put(tmp_path, "lumberjack-counts", [0.83], settings=(("structure_share", share),))
    put(tmp_path, "lumberjack-counts", [0.81], settings=(("splits", "random"),))
    text = page(tmp_path)
    said = (
        "On Adult at ε = 1: sparse 0.8400 ± 0.0000, two-sided 0.8300 ± 0.0000, top-down 0.8000 ± 0.0000."
    )
    assert said in text
    assert "accuracy is best at 10 with 0.8300 and worst at 5 with 0.8000." in text
    assert "On Adult (default) accuracy is 0.8300 wherever it was tried." in text
    assert "On Adult at ε = 1: random 0.8100 ± 0.0000; not run: guided." in text
    assert "Not run yet." in text
    for name in ("heavy-hitters", "trees", "splits"):
        assert (tmp_path / "docs" / "results" / f"ablation-{name}.png").exists()
    assert "ablation-accounting.png" not in text


def test_outdated_results_are_left_out_and_counted(tmp_path):
    put(tmp_path, "snr", [0.7, 0.9])
    put(tmp_path, "greedy", [0.6])
    path = path_of(tmp_path, Cell("adult", "snr", (), 1.0, 1))
    path.write_text(json.dumps({**json.loads(path.read_text()), "identity": "of another day"}))
    assert report.write(tmp_path, tmp_path / "docs").endswith("2 cells, 1 outdated ones left out")
    assert row(page(tmp_path), "snr", "## Accuracy").split(" | ")[3] == "0.7000 (1)"


def test_trials_and_results_do_not_mix(tmp_path):
    put(tmp_path, "snr", [0.7])
    trial = Cell("adult", "snr", (), 2.0, 0, rows=100)
    write(path_of(tmp_path, trial), {**opening(trial), "status": "cut off", "limit": 1.0})
    assert len(report.Results(tmp_path).cells) == 1
    report.write(tmp_path, tmp_path / "docs", rows=100)
    assert "A trial on 100 rows" in (tmp_path / "docs" / "results.md").read_text("utf-8")


def test_published_results_give_the_same_page_elsewhere(tmp_path, capsys):
    put_data(tmp_path)
    put(tmp_path, "lumberjack", [0.80, 0.82])
    put(tmp_path, "snr", [0.7], status="cut off", limit=900.0)
    text, published = page(tmp_path), tmp_path / "docs" / "results" / archive.NAME
    elsewhere = tmp_path / "elsewhere"
    put(elsewhere, "lumberjack", [0.9])  # what is there already stays
    words = ["restore", "--archive", str(published), "--folder", str(elsewhere)]
    assert main(words) == 0
    assert "3 results restored" in capsys.readouterr().out  # of 4: data, two cells and a cut-off
    again = page(elsewhere)
    assert row(again, "lumberjack", "## Accuracy").split(" | ")[3] == "0.8600 ± 0.0566 (2)"
    path_of(elsewhere, Cell("adult", "lumberjack", (), 1.0, 0)).unlink()
    assert main(words) == 0
    assert page(elsewhere) == text
    assert (elsewhere / "docs" / "results" / archive.NAME).read_bytes() == published.read_bytes()


def test_an_archive_writes_nowhere_else(tmp_path):
    archive.pack({Path("../outside.json"): {}}, tmp_path / "bad.gz")
    with pytest.raises(ValueError, match="not an archive"):
        archive.unpack(tmp_path / "bad.gz", tmp_path / "inside")
    assert not (tmp_path / "outside.json").exists()
