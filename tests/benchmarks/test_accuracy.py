"""The accuracy benchmark: its tables from known scores, its targets, and resuming it."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks import accuracy, contest, contestants, problems, rows
from benchmarks.accuracy import Task
from benchmarks.problems import Problem
from lumberjack import Domain

DOMAIN = Domain({"a": ["x", "y"], "b": (0.0, 10.0)})


def frame(n=300):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice(["x", "y"], n), "b": rng.uniform(0, 10, n)})
    y = pd.Series(np.where(X["b"] > 5, "yes", "no"), name="says")
    return X, y, DOMAIN


@pytest.fixture
def small(monkeypatch):
    """300 rows under two names: their own target, and one of their columns."""
    known = {"adult": Problem(frame), "housing": Problem(frame, "b", ["no", "yes"], (0.0, 10.0))}
    monkeypatch.setattr(problems, "PROBLEMS", known)
    accuracy._table.cache_clear()
    yield
    accuracy._table.cache_clear()


# tables


def record(data, model, epsilon, seed, auc, **more):
    found = {"data": data, "model": model, "epsilon": epsilon, "seed": seed, "rows": None}
    return {**found, "accuracy": auc - 0.1, "auc": auc, "brier": 1 - auc, "ece": 0.01, **more}


def line(text, *words):
    return next(row for row in text.splitlines() if all(word in row for word in words))


def test_means_deviations_and_leads():
    found = []
    for i, data in enumerate(problems.FOUR):
        for seed in (0, 1):
            found.append(record(data, "default", 1.0, seed, 0.80 + 0.02 * seed))
            found.append(record(data, "lr-pairs", 1.0, seed, 0.78 + 0.02 * seed + 0.01 * i))
            found.append(record(data, "lr-bin", 1.0, seed, 0.70))
            found.append(record(data, "extra-trees", None, seed, 0.9))
    text = contest.tables(found)
    assert "accuracy 0.7100 ± 0.0100  AUC 0.8100 ± 0.0100" in line(text, "adult", "default")
    assert "AUC 0.8050 ± 0.0100" in line(text, "mean of four", "lr-pairs")  # .78 + .01 * 1.5 + .01
    lead = text[text.index("best rival") :]
    assert line(lead, "mean of four", "AUC").split()[-4:] == ["lr-pairs", "0.8050", "default", "+0.0050"]
    assert line(lead, "adult", "AUC").split()[-1] == "+0.0200"
    assert line(lead, "employment", "AUC").split()[-1] == "-0.0100"
    assert line(lead, "employment", "Brier").split()[-1] == "-0.0100"  # its Brier score is larger
    apart = text[text.index("Without privacy") : text.index("best rival")]
    assert "AUC 0.9000" in line(apart, "adult", "extra-trees")
    assert "extra-trees" not in lead


def test_a_mean_needs_all_four_tables_with_equally_many_splits():
    found = [record(data, "default", 1.0, 0, 0.8) for data in problems.FOUR]
    assert "mean of four" in contest.tables(found)
    assert "mean of four" not in contest.tables(found[:3])
    assert "mean of four" not in contest.tables([*found, record("adult", "default", 1.0, 1, 0.8)])
    assert contest.tables([]) == "no results"


def test_without_rivals_ours_are_compared_with_each_other():
    found = [
        {"data": "rooms", "model": model, "epsilon": 1.0, "seed": 0, "rows": 5000, "r2": r2}
        for model, r2 in (("default", 0.5), ("undeclared", -4e60), ("loose-10", 0.495))
    ]
    text = contest.tables(found)
    assert "R2 < -10 ± 0.0000" in line(text, "rooms", "5,000 rows", "undeclared")
    assert line(text, "default 0.5000").endswith("undeclared < -10  loose-10 -0.0050")


# targets


def test_a_column_is_predicted_in_exchange_for_the_target(small):
    table = problems.load("housing")
    X, y, _ = frame()
    assert list(table.X) == ["a", "says"]
    assert list(table.domain) == ["a", "says"]
    assert table.domain["says"].categories == ("no", "yes")
    assert table.y.tolist() == X["b"].tolist()
    assert table.X["says"].tolist() == y.tolist()
    own = problems.load("adult")
    assert (own.n_classes, own.y.tolist()) == (2, (X["b"] > 5).astype(int).tolist())


def test_splits_are_stratified_and_rows_are_drawn_from_the_training_part(small):
    table = problems.load("adult")
    (X, y), (X_test, y_test) = problems.split(table, 3)
    few, _ = problems.split(table, 3, rows=50)
    assert (len(X), len(X_test), len(few[0])) == (270, 30, 50)
    assert set(few[0].index) < set(X.index)
    assert not set(X.index) & set(X_test.index)
    assert y.mean() == pytest.approx(y_test.mean(), abs=0.02)
    again, _ = problems.split(table, 4, rows=50)
    assert set(few[0].index) != set(again[0].index)


def test_loose_bounds_have_the_same_middle():
    assert contestants.widened((10.0, 20.0), 1) == (10.0, 20.0)
    assert contestants.widened((10.0, 20.0), 10) == (-35.0, 65.0)


@pytest.mark.parametrize("data", ["adult", "housing"])
def test_every_model_fits_and_is_scored(small, data):
    keys = {"accuracy", "auc", "brier", "ece"} if data == "adult" else {"r2"}
    ran = []
    for model in set(contestants.MODELS) - {"dp-ebm"}:
        epsilon = None if model in contestants.NOT_PRIVATE else 8.0
        found = accuracy.run(Task(data, model, epsilon, 0))
        if found is not None:
            ran.append(model)
            assert keys <= set(found)
    if data == "adult":
        assert set(contestants.MODELS) - set(ran) == {"dp-ebm", "loose-10", "loose-1000"}
    else:
        assert {"default", "undeclared", "loose-10", "loose-1000", "lr-bin", "random"} < set(ran)


def test_a_model_without_classes_scores_as_even_odds(small):
    found = accuracy.run(Task("adult", "undeclared", 0.01, 0))
    assert (found["auc"], found["brier"]) == (0.5, 0.25)


# resuming


def test_a_stopped_run_resumes(small, tmp_path, monkeypatch):
    monkeypatch.setattr(accuracy, "ProcessPoolExecutor", Here)
    path = tmp_path / "out.jsonl"
    tasks = [Task("adult", "lr-bin", 8.0, seed) for seed in (0, 1)]
    assert accuracy.run_all(tasks[:1], path, 1) == 0
    first = path.read_text()
    path.write_text(first + '{"data": "adult", "mod')  # stopped while it wrote
    assert accuracy.run_all(tasks, path, 1) == 0
    assert path.read_text().startswith(first)
    assert list(accuracy.read(path)) == tasks
    wrong = Task("no such table", "lr-bin", 8.0, 0)
    assert accuracy.run_all([*tasks, wrong], path, 1) == 1
    assert len(accuracy.read(path)) == 2


def test_a_fit_of_other_sources_is_outdated(small, tmp_path):
    task, path = Task("adult", "lr-bin", 8.0, 0), tmp_path / "out.jsonl"
    found = accuracy.run(task)
    path.write_text(json.dumps(found) + "\n" + json.dumps({**found, "seed": 1, "sources": "others"}))
    assert list(accuracy.read(path)) == [task]
    assert accuracy.sources("default") != accuracy.sources("lr-bin")


class Here:
    """A pool of this very process."""

    def __init__(self, jobs, mp_context):
        from concurrent.futures import ThreadPoolExecutor

        self.pool = ThreadPoolExecutor(1)

    def __enter__(self):
        return self.pool

    def __exit__(self, *error):
        self.pool.shutdown()


# how much data is needed


def curves(aucs):
    """Scores of Adult at epsilon = 1 with 0.9 as the goal."""
    found = {("adult", "default", 1.0, r): (0.8, auc) for r, auc in zip(rows.ROWS, aucs, strict=True)}
    return found | {("adult", rows.GOAL, None, None): (0.85, 0.9)}


def test_rows_that_are_needed():
    place = "adult", "default", 1.0
    found = curves([0.5, 0.83, 0.81, 0.83, 0.85, 0.87, 0.89])
    assert rows.first_rows(found, place, 0.8) == "10,000"  # 0.82 from there on: 5,000 fell back
    assert rows.first_rows(found, place, 0.9) == "40,000"
    assert rows.first_rows(found, place, 0.95) == "all"
    assert rows.first_rows(found, place, 0.99) == "more"
    del found["adult", "default", 1.0, 2000]
    assert rows.first_rows(found, place, 0.8) == "not run"


def test_the_page_is_changed_between_its_marks_only(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n" + rows.BLOCK[0] + "old\n" + rows.BLOCK[1] + "after\n", "utf-8")
    assert (
        rows.main(
            ["--print", "--page", str(page), "--output", str(tmp_path / "none"), "--data", "adult"]
        )
        == 0
    )
    text = page.read_text("utf-8")
    assert text.startswith("before\n" + rows.BLOCK[0])
    assert text.endswith(rows.BLOCK[1] + "after\n")
    assert "old" not in text
    assert "| 1,000 rows | not run | not run | not run | not run | not run |" in text
    rows.put(rows.block(curves([0.5, 0.6, 0.7, 0.8, 0.85, 0.87, 0.89]), ["adult"], 5), page)
    assert "| 40,000 rows | not run | 0.800, 0.870 | not run | not run | not run |" in page.read_text(
        "utf-8"
    )
    assert (tmp_path / rows.PICTURE).stat().st_size > 10_000


def test_means_are_over_splits():
    found = {Task("adult", "counts", 4.0, seed, 1000): {"accuracy": a, "auc": b} for seed, a, b in
             ((0, 0.7, 0.8), (1, 0.8, 0.9))}  # fmt: skip
    assert rows.means(found) == {("adult", "counts", 4.0, 1000): pytest.approx((0.75, 0.85))}


def test_the_page_in_the_documentation_has_the_marks():
    text = rows.PAGE.read_text("utf-8")
    assert text.count(rows.BLOCK[0]) == text.count(rows.BLOCK[1]) == 1
