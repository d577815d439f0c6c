"""The command line, as a person and as a script would use it."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hostile import models as fuzz_models

from lumberjack import Domain, cli, console, load, plan, tables
from lumberjack.anatomy import NOTHING
from lumberjack.guarantee import DOMAIN_INFERRED, NOT_ENFORCED

DOMAIN = Domain(
    {"age": (0, 100), "city": Domain.categorical(["Bonn", "Kiel"], missing=True), "back": ["no", "yes"]}
)


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": rng.integers(0, n // 2, n),
            "age": rng.uniform(0, 100, n).round(2),
            "city": rng.choice(["Bonn", "Kiel", "Atlantis"], n),
        }
    )
    frame["back"] = np.where((frame["age"] > 50) ^ (frame["city"] == "Kiel"), "yes", "no")
    frame.loc[::17, "age"] = np.nan
    frame.loc[::23, "city"] = None
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, a domain and a trained model."""
    here = tmp_path_factory.mktemp("work")
    frame = people()
    frame.to_csv(here / "people.csv", index=False)
    frame.to_parquet(here / "people.parquet", index=False)
    people(seed=1).to_csv(here / "others.csv", index=False)
    DOMAIN.to_json(here / "domain.json")
    assert cli.main([*train_options(here), "-o", str(here / "model.lumberjack")]) == 0
    (here / "linked").write_bytes(b"")
    os.link(here / "linked", here / "its other name")
    os.mkfifo(here / "pipe")
    whole = (here / "people.parquet").read_bytes()
    (here / "foot.parquet").write_bytes(
        whole[:-200] + bytes(b ^ 0x5A for b in whole[-200:-8]) + whole[-8:]
    )
    return here


PROMISE = plan(4, 1e-6, 4, 30, columns=(1, 0), target=False)  # of ``train_options``


def train_options(here, data="people.csv", skip=("--skip", "id")):
    return [
        "train", str(here / data), "--target", "back", "--domain", str(here / "domain.json"),
        "--epsilon", "4", "--trees", "4", "--depth", "30", *skip,
    ]  # fmt: skip


@pytest.fixture
def run(capsys, folder, monkeypatch):
    """Run a command inside the folder; returns the exit code, the result, and the remarks."""
    monkeypatch.chdir(folder)

    def command(line, *more):
        capsys.readouterr()
        code = cli.main([*line.split(), *map(str, more)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return command


# Help and plans


def test_every_command_explains_itself(run):
    commands = [
        "demo",
        "plan",
        "domain",
        "train",
        "predict",
        "evaluate",
        "report",
        "heavy-hitters",
        "inspect",
    ]
    code, out, _ = run("--help")
    assert code == 0
    assert "Exit codes: 0 done" in out
    for name in commands:
        assert name in out
        code, text, _ = run(f"{name} --help")
        assert code == 0
        assert len(text) > 200
    assert run("--version")[1].startswith("lumberjack ")


def test_plan_says_what_a_budget_buys(run):
    code, out, _ = run("plan --epsilon 0.5 --trees 10 --leaf counts --json")
    found, expected = json.loads(out), plan(0.5, 1e-6, 10, leaf="counts")
    assert code == 0
    listed = {event["use"]: event for event in found["guarantee"]["events"]}
    assert listed["structure"]["threshold"] == expected.threshold == found["threshold"]
    assert listed["cuts"]["count"] == 10 * 5
    assert found["suggested_rows"] == expected.suggested_rows
    assert [row["epsilon"] for row in found["table"]] == [0.1, 0.25, 0.5, 1, 2, 4, 8]
    code, out, _ = run("plan --epsilon 3 --regression --rows-per-person 2")
    assert code == 0
    assert "3 <-" in out
    assert f"{plan(3, 1e-6, leaf='fitted-mean', rows_per_person=2).suggested_rows:,}" in out
    code, out, _ = run("plan --epsilon 3 --regression --splits random")
    assert code == 0
    assert f"{plan(3, 1e-6, leaf='mean', splits='random').suggested_rows:,}" in out
    assert "rows to split a node" in out.replace("\n", " ") or "split a node" in out


def test_plan_of_fitted_leaves_says_what_steps_and_cells_have(run):
    """Noise of cells of 20 columns, and of a step whose sums move by 1; JSON without infinities."""
    code, out, _ = run("plan --epsilon 0.5 --json")
    found = json.loads(out, parse_constant=pytest.fail)
    assert code == 0
    events = {event["use"]: event for event in found["guarantee"]["events"]}
    assert found["size_noise"] == pytest.approx(events["sizes"]["noise"] * 20**0.5)
    assert found["step_noise"] == pytest.approx(events["pairs"]["noise"] / events["pairs"]["reach"])
    assert found["steps"] == {"columns": 20, "pairs": 60}
    assert found["category_threshold"] == events["categories"]["threshold"]
    assert found["suggested_rows"] == plan(0.5).suggested_rows
    assert [row["epsilon"] for row in found["table"]] == [0.1, 0.25, 0.5, 1, 2, 4, 8]
    code, out, _ = run("plan --epsilon 0.5")
    assert code == 0
    for said in ("name a", "noise of a", "all", "20 steps on columns and 60 on columns and pairs", "<-"):
        assert said in out
    for said in ("split a node", "stumps", "levels", "calibration"):
        assert said not in out


@pytest.mark.parametrize(
    ("options", "leaf"),
    [
        ("", "fitted"),
        ("--splits guided", "fitted"),
        ("--splits guided --leaf counts", "counts"),
        ("--splits random", "counts"),
        ("--splits random --leaf majority", "majority"),
        ("--accounting paper", "counts"),
        ("--accounting paper --leaf exponential", "exponential"),
        ("--regression", "fitted-mean"),
        ("--regression --splits random", "mean"),
        ("--regression --accounting paper", "mean"),
        ("--structure-share 0.4 --leaf counts", "counts"),
        ("--depth 7", "fitted"),
    ],
)
def test_leaf_follows_from_the_other_options(run, options, leaf):
    code, out, _ = run(f"plan --json {options}")
    assert code == 0
    assert json.loads(out)["guarantee"]["leaf"] == leaf


def test_the_demo_writes_files_that_the_other_commands_read(run, tmp_path):
    code, out, _ = run("demo -o", tmp_path / "demo")
    assert code == 0
    assert "Accuracy on fresh data: 9" in out
    assert "caveats     none" in out
    assert run("inspect", tmp_path / "demo" / "toy.lumberjack", "--verify")[0] == 0
    code, out, _ = run(
        "evaluate",
        tmp_path / "demo/toy.lumberjack",
        tmp_path / "demo/toy.csv",
        "--target",
        "shape",
        "--json",
    )
    assert json.loads(out)["accuracy"] > 0.9
    assert (tmp_path / "demo/toy.html").read_text("utf-8").startswith("<!doctype html>")
    code, _, err = run("demo -o", tmp_path / "demo")
    assert code == 2
    assert "--force" in err


# Domains


def test_a_domain_template_reads_no_row(run, tmp_path):
    data = tmp_path / "data.csv"
    data.write_bytes(b"age,city\n" + bytes(range(256)))  # rows that nobody could read
    code, _, err = run("domain", data, "-o", tmp_path / "d.json", "--no-ask")
    assert code == 0
    assert "Left open, to be learned privately: 'age', 'city'" in err
    columns = json.loads((tmp_path / "d.json").read_text())["columns"]
    assert [c["name"] for c in columns] == ["age", "city"]
    code, _, err = run("domain", data, "-o", tmp_path / "d.json")
    assert code == 2
    assert "exists already; --force" in err


def test_a_parquet_schema_gives_types(run, tmp_path):
    frame = pd.DataFrame(
        {
            "n": [1.5],
            "b": [True],
            "t": ["x"],
            "d": pd.to_datetime(["2020-01-01"]),
            "c": pd.Categorical(["u"]),
        }
    )
    frame.to_parquet(tmp_path / "f.parquet")
    given = [
        "--range",
        "n=-1.5:2",
        "--categories",
        "t=x,y",
        "--range",
        "d=2020-01-01:2021-01-01T10:30:00",
    ]
    assert (
        run("domain", tmp_path / "f.parquet", "-o", tmp_path / "d.json", "--skip", "c", *given)[0] == 0
    )
    domain = Domain.from_json(tmp_path / "d.json")
    assert (domain["n"].low, domain["n"].high) == (-1.5, 2)
    assert domain["b"].categories == (False, True)
    assert domain["t"].categories == ("x", "y")
    assert (domain["d"].temporal, domain["d"].high) == (True, 1609497000)
    assert not domain.inferred


@pytest.mark.parametrize("data", ["people.csv", "people.parquet"])
def test_a_domain_from_data_is_marked_and_so_is_the_model(run, tmp_path, data):
    line = f"domain {data} --from-data --target back --skip id -o"
    code, _, err = run(line, tmp_path / "d.json")
    assert code == 0
    assert "NOT private" in err
    domain = Domain.from_json(tmp_path / "d.json")
    assert domain.inferred
    assert set(domain["city"].categories) == {"Atlantis", "Bonn", "Kiel"}
    assert 99 < domain["age"].high <= 100
    code, out, err = run(
        "train",
        data,
        "--target",
        "back",
        "--domain",
        tmp_path / "d.json",
        "--epsilon",
        2,
        "-o",
        tmp_path / "m",
    )
    assert code == 0
    assert "CAVEAT" in out
    assert "Warning: guarantee has a caveat: domain inferred" in err
    assert load(tmp_path / "m").guarantee_.caveats == (DOMAIN_INFERRED,)  # the classes are learned


# Training


@pytest.mark.parametrize("data", ["people.csv", "people.parquet"])
def test_training_gives_a_model_without_caveats(run, folder, tmp_path, data):
    code, out, err = run(" ".join(train_options(folder, data)), "-o", tmp_path / "m", "--json")
    assert code == 0
    assert json.loads(out)["guarantee"]["caveats"] == []
    model = load(tmp_path / "m")
    assert model.guarantee_ == PROMISE
    assert model.domain_.names == ["age", "city"]
    frame = people(seed=2)
    assert model.score(frame[["age", "city"]], frame["back"]) > 0.8
    assert err == ""  # no bars without a terminal


def test_remarks_name_undeclared_columns_and_never_rows(run, folder, tmp_path):
    code, out, err = run(" ".join(train_options(folder, skip=())), "-o", tmp_path / "m")
    assert code == 0
    assert "Not declared, read as numbers: 'id'" in err
    assert "3000" not in out + err
    assert "3,000" not in out + err


def test_a_weak_promise_is_warned_of_once(run, folder, tmp_path):
    line = train_options(folder)
    line[line.index("--epsilon") + 1] = "30"
    _, _, err = run(" ".join(line), "-o", tmp_path / "m")
    assert err.count("Warning: epsilon = 30 is almost no protection") == 1


def test_bars_on_a_terminal(run, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, _, err = run(" ".join(train_options(folder)), "-o", tmp_path / "m")
    assert code == 0
    assert "Reading" in err
    assert "steps" in err
    line = [*train_options(folder), "--leaf", "counts"]
    _, _, err = run(" ".join(line), "-o", tmp_path / "n")
    assert "trees" in err


def test_persons_are_protected_when_their_column_is_named(run, folder, tmp_path):
    line = " ".join(train_options(folder)) + " --rows-per-person 2"
    assert run(line, "-o", tmp_path / "m", "--person", "id")[0] == 0
    assert load(tmp_path / "m").guarantee_.caveats == ()
    assert load(tmp_path / "m").guarantee_.unit == "person"
    _, out, _ = run(line, "-o", tmp_path / "n")
    assert NOT_ENFORCED in load(tmp_path / "n").guarantee_.caveats
    assert NOT_ENFORCED in out


def test_regression_by_range_or_by_bounds(run, tmp_path):
    Domain({"age": (0, 100), "back": ["no", "yes"]}).to_json(tmp_path / "d.json")
    frame = people().dropna()
    frame.to_csv(tmp_path / "p.csv", index=False)
    line = "train {} --target age --domain {} --epsilon 4 --trees 4 -o {}"
    assert run(line.format(tmp_path / "p.csv", tmp_path / "d.json", tmp_path / "m"))[0] == 0
    assert load(tmp_path / "m").y_bounds == (0, 100)
    code, _, _ = run(
        line.format(tmp_path / "p.csv", tmp_path / "d.json", tmp_path / "n"), "--bounds=-5:120"
    )
    assert code == 0
    assert load(tmp_path / "n").y_bounds == (-5, 120)
    for more in ([], ["--epsilon", "5"]):
        code, out, _ = run(
            "evaluate", tmp_path / "m", tmp_path / "p.csv", "--target", "age", "--json", *more
        )
        assert code == 0
        assert json.loads(out)["mean_absolute_error"] < 40
    code, out, _ = run("predict", tmp_path / "m", tmp_path / "p.csv")
    assert float(out.splitlines()[1]) <= 100


@pytest.mark.parametrize("labels", [["0", "1"], ["true", "false"], ["1", "x"]])
def test_labels_that_nobody_declared_are_learned(run, tmp_path, labels):
    frame = people().assign(back=lambda f: np.where(f["back"] == "yes", *labels))
    frame.to_csv(tmp_path / "p.csv", index=False)
    Domain({"age": (0, 100)}).to_json(tmp_path / "d.json")
    line = "train {} --target back --domain {} --epsilon 4 --trees 4 -o {}"
    line = line.format(tmp_path / "p.csv", tmp_path / "d.json", tmp_path / "m")
    code, out, _ = run(line, "--task", "classification")
    assert code == 0
    assert "caveats     none" in out
    meant = {"0": 0, "1": 1, "true": True, "false": False}
    text = "x" in labels
    assert set(load(tmp_path / "m").classes_.tolist()) == {v if text else meant[v] for v in labels}


def test_training_ends_with_what_was_released(run, folder, tmp_path):
    _, out, _ = run(" ".join(train_options(folder)), "-o", tmp_path / "m")
    forest = load(tmp_path / "m").forest_
    leaves = sum(tree.n_leaves for tree in forest.trees)
    assert leaves > 8
    first, *_, last = out.splitlines()
    assert first == "(4, 1e-06)-differential privacy, add/remove a row"
    pairs = len(forest.trees) - 3  # a leaf for all rows, two columns, and at most one pair of them
    assert 0 <= pairs <= 1
    split = f"(2 of a column, {pairs} of a pair of columns)"
    assert last.startswith(f"Released: {3 + pairs} trees {split} with {leaves:,} leaves in all, up to ")
    assert "recomputed  delta = " in out
    assert "theorem" not in out
    assert NOTHING not in out
    out = run("inspect", tmp_path / "m")[1]
    assert f"{leaves:,} leaves" in out
    assert "the log odds of yes against no" in out
    found = json.loads(run("inspect", tmp_path / "m", "--json")[1])["released"]
    assert (found["trees"], found["of_columns"], found["of_pairs"]) == (3 + pairs, 2, pairs)


def test_a_model_that_learned_nothing_says_so(run, folder, tmp_path):
    people(5).to_csv(tmp_path / "few.csv", index=False)  # 5 rows pass a threshold with less than delta
    line = [*train_options(folder, tmp_path / "few.csv"), "--leaf", "counts"]
    code, out, _ = run(" ".join(line), "-o", tmp_path / "m")
    assert code == 0
    assert "Released: 4 trees with 4 leaves in all, up to 0 levels deep" in out
    assert NOTHING in out
    promise = plan(4, 1e-6, 4, 30, columns=(1, 0), target=False, leaf="counts")
    assert f"at least {promise.suggested_rows:,}), a larger epsilon, or fewer trees." in out
    code, out, _ = run(" ".join(line), "-o", tmp_path / "n", "--json")
    expected = {"trees": 4, "leaves": 4, "depth": 0, "learned_nothing": True}
    assert json.loads(out)["released"] == expected


@pytest.mark.parametrize("missing", ["", "NA", "NaN", "null", " None ", None, float("nan")])
def test_rows_without_a_person_are_refused(run, folder, tmp_path, missing):
    """They would be one person, and all but a few of their rows dropped."""
    frame = people(200).assign(id=7.5 if isinstance(missing, float) else "p")
    frame["id"] = frame["id"].astype(object if missing is None else frame["id"].dtype)
    frame.loc[[3, 5], "id"] = missing
    files = ["p.parquet"] if missing is None or missing != missing else ["p.parquet", "p.csv"]
    pa.parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "p.parquet")
    frame.to_csv(tmp_path / "p.csv", index=False)
    for name in files:
        line = train_options(folder, tmp_path / name)
        code, _, err = run(" ".join(line), "-o", tmp_path / "m", "--person", "id")
        assert code == 2
        assert "the column of persons, 'id', has missing values" in err


# Reports, heavy hitters, inspection


def test_reports_as_page_text_and_data(run, tmp_path):
    code, out, _ = run("report model.lumberjack")
    assert code == 0
    assert out.startswith("Privacy report: (4, 1e-06)-differential privacy")
    assert run("report model.lumberjack -o", tmp_path / "r.html")[0] == 0
    assert "<!doctype html>" in (tmp_path / "r.html").read_text("utf-8")
    code, out, _ = run("report model.lumberjack --json")
    assert json.loads(out)["holds"] is True
    assert run("report model.lumberjack -o", tmp_path / "r.html")[0] == 2


def test_heavy_hitters_from_lines_tables_and_pipes(run, tmp_path, monkeypatch):
    lines = ["/shop/axe"] * 2000 + ["/help"] * 1000 + ["/account/4711", ""]
    (tmp_path / "paths.txt").write_text("\n".join(lines))
    pd.DataFrame({"path": lines}).to_csv(tmp_path / "paths.csv", index=False)
    options = ["--epsilon", "1", "--height", "2", "--json"]
    for source in (["paths.txt"], ["paths.csv", "--column", "path"], ["-"]):
        stream = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
        monkeypatch.setattr("sys.stdin", stream)
        named = [source[0] if source[0] == "-" else tmp_path / source[0], *source[1:]]
        code, out, _ = run("heavy-hitters", *named, *options)
        assert code == 0
        assert json.loads(out)["prefixes"] == ["/help", "/shop", "/shop/axe"]
        assert json.loads(out)["guarantee"]["caveats"] == []
    code, out, _ = run("heavy-hitters", tmp_path / "paths.txt", "--epsilon", 1, "--counts")
    assert "CAVEAT" in out
    assert "/shop  2,0" in out or "/shop  1,9" in out
    assert run("heavy-hitters", tmp_path / "paths.csv", *options)[0] == 2
    assert run("heavy-hitters", tmp_path / "none.txt", *options)[0] == 2


@pytest.mark.parametrize("breaks", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\r"])
def test_only_a_newline_ends_a_record(run, tmp_path, breaks):
    """Otherwise one line could hold any number of records."""
    lines = ["a/b"] * 500 + [f"mine{breaks}" * 3000]
    options = ["--epsilon", "1", "--height", "2", "--json"]
    for ending in ("\n", "\r\n"):
        (tmp_path / "paths.txt").write_text("\ufeff" + ending.join([*lines, "", ""]), newline="")
        code, out, _ = run("heavy-hitters", tmp_path / "paths.txt", *options)
        assert code == 0
        assert json.loads(out)["prefixes"] == ["a", "a/b"]


def test_only_a_newline_ends_a_row_of_one_column(run, tmp_path):
    """pandas writes a lone carriage return without quotes, and Arrow takes it for the end of a row."""
    mine = "\r".join(["mine"] * 3000)
    options = ["--column", "path", "--epsilon", "1", "--height", "1", "--json"]
    (tmp_path / "p.csv").write_text(f"path\na/b\n{mine}\n", newline="")
    code, out, err = run("heavy-hitters", tmp_path / "p.csv", *options)
    assert (code, out) == (2, "")
    assert "a carriage return that is neither quoted nor before a newline" in err
    for ending in ("\n", "\r\n"):
        lines = ["path", *["a/b"] * 500, f'"{mine}"', '"two\nlines"', "", ""]
        (tmp_path / "q.csv").write_text(ending.join(lines), newline="")
        code, out, _ = run("heavy-hitters", tmp_path / "q.csv", *options)
        assert (code, json.loads(out)["prefixes"]) == (0, ["a"])


def test_inspection_finds_a_promise_that_does_not_hold(run, folder, tmp_path):
    code, out, _ = run("inspect model.lumberjack --verify")
    assert code == 0
    assert "The promise holds" in out
    header, arrays = fuzz_models.take_apart((folder / "model.lumberjack").read_bytes())
    for event in header["guarantee"]["events"]:
        if event["use"] in ("columns", "pairs"):
            event["noise"] /= 2
    (tmp_path / "liar").write_bytes(fuzz_models.put_together(header, arrays))
    code, _, err = run("inspect", tmp_path / "liar", "--verify")
    assert code == 4
    assert "does NOT hold" in err
    code, out, _ = run("inspect", tmp_path / "liar", "--verify", "--json")
    assert (code, json.loads(out)["holds"]) == (4, False)
    assert run("inspect", tmp_path / "liar")[0] == 0


def test_inspection_says_what_was_learned_of_each_column(run):
    """Of golden files: by what is known of the tables that they were trained on."""
    golden = Path(__file__).parent / "golden"
    code, out, _ = run("inspect", golden / "classifier-v4.lumberjack")
    assert code == 0
    said = {line.split()[0]: line for line in out.splitlines() if line.startswith("  ")}
    assert "number from 0 to 100, 31 cuts, learned (1.3% of the budget): 2" in said["age"]
    assert "date, 31 cuts, learned" in said["since"]
    assert re.search(r": 200\d-\d\d-\d\d … .* … 202\d-\d\d-\d\d$", said["since"])
    assert (
        "one of 3 categories or missing, learned (2.5% of the budget): Bonn, Köln, Ulm" in said["city"]
    )
    assert said["ward"].endswith("one of 3 categories, declared: A, B, C")
    assert "3 classes, learned (1.0% of the budget): größer, kleiner, nie" in said["target"]
    assert (
        "number from -28.6 to 134, place 52.7 and scale 40.6, learned"
        in (run("inspect", golden / "regressor-v4.lumberjack")[1])
    )
    code, out, _ = run("inspect --json", golden / "classifier-v4.lumberjack")
    found = {column["name"]: column for column in json.loads(out)["columns"]}
    assert found["ward"] == {
        "name": "ward",
        "kind": "category",
        "origin": "declared",
        "budget_share": 0,
        "categories": ["A", "B", "C"],
        "missing": False,
    }
    assert json.loads(out)["target"]["classes"] == ["größer", "kleiner", "nie"]
    assert [found[name]["origin"] for name in ("age", "pay", "city", "since")] == ["learned"] * 4
    assert len(found["since"]["cuts"]) == 31
    assert found["since"]["cuts"][0] < "2003" < found["since"]["cuts"][-1]
    assert json.loads(run("report --json", golden / "classifier-v4.lumberjack")[1])["columns"] == list(
        found.values()
    )


def test_names_in_untrusted_files_cannot_control_the_terminal(run, folder, tmp_path):
    header, arrays = fuzz_models.take_apart((folder / "model.lumberjack").read_bytes())
    header["guarantee"]["caveats"] = ["\x1b[2Jgone\x9b31m"]
    (tmp_path / "refused").write_bytes(fuzz_models.put_together(header, arrays))
    code, out, err = run("inspect", tmp_path / "refused")
    assert code == 2
    assert not set(out + err) & {"\x1b", "\x9b"}
    header["guarantee"]["caveats"] = ["gone [red]markup[/red]"]
    header["domain"]["columns"][0]["name"] = "\x1b[2Jage\x9b31m"
    header["parameters"]["domain"]["columns"][0]["name"] = "\x1b[2Jage\x9b31m"
    header["columns"][0] = "\x1b[2Jage\x9b31m"
    (tmp_path / "evil").write_bytes(fuzz_models.put_together(header, arrays))
    for line in ("inspect", "report"):
        for more in ([], ["--json"]):
            code, out, err = run(line, tmp_path / "evil", *more)
            assert code == 0
            assert "gone" in out
            assert "[red]markup[/red]" in out
            assert not set(out + err) & {"\x1b", "\x9b"}


# What a person can get wrong

TRAIN = "train people.csv --target back --domain domain.json --skip id --epsilon 1"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("train none.csv --target back --domain domain.json --epsilon 1 -o new", "none.csv"),
        ("train people.csv --target rear --domain domain.json --epsilon 1 -o new", "no column 'rear'"),
        ("train people.csv --target back --domain none.json --epsilon 1 -o new", "none.json"),
        ("train people.csv --target back --domain people.csv --epsilon 1 -o new", "not a domain"),
        ("train people.csv --target back --domain domain.json -o new", "--epsilon"),
        ("train people.csv --target back --domain domain.json --epsilon -1 -o new", "epsilon must be"),
        ("train people.csv --target back --domain domain.json --epsilon one -o new", "--epsilon"),
        ("TRAIN --delta 7 -o new", "delta must lie"),
        ("TRAIN --trees 0 -o new", "n_estimators"),
        ("TRAIN -o no/where", "no/where: its folder does not exist"),
        ("TRAIN -o .", "is a folder"),
        ("TRAIN -o linked --force", "2 names"),
        ("domain people.csv -o linked --force", "2 names"),
        ("train pipe --target back --domain domain.json --epsilon 1 -o new", "a pipe or a device"),
        ("predict model.lumberjack /dev/zero", "a pipe or a device"),
        ("heavy-hitters /dev/zero --epsilon 1", "a line of more than 512 KiB"),
        ("evaluate model.lumberjack foot.parquet --target back", "foot.parquet is not a Parquet file"),
        ("TRAIN -o model.lumberjack", "--force"),
        ("TRAIN --classes yes -o new", "a label"),
        ("TRAIN --classes a --bounds 0:1 -o new", "give one"),
        ("TRAIN --bounds 9 -o new", "LOW:HIGH"),
        ("TRAIN --bounds 0:1 -o new", "must hold numbers"),
        ("train people.csv --target city --domain domain.json --epsilon 1 -o new", "missing values"),
        ("TRAIN --person age -o new", "--person"),
        ("TRAIN --person who -o new", "no column 'who'"),
        ("TRAIN --leaf no -o new", "--leaf"),
        ("train model.lumberjack --target back --domain domain.json --epsilon 1 -o new", "CSV|column"),
        ("predict people.csv model.lumberjack", "people.csv is not a Lumberjack model file"),
        ("predict model.lumberjack people.csv --keep age", "--keep"),
        ("predict model.lumberjack people.csv --keep none", "no column 'none'"),
        ("evaluate model.lumberjack people.csv --target age", "predicts from"),
        ("evaluate model.lumberjack people.csv --target id", "not among the classes"),
        ("evaluate model.lumberjack people.csv --target back --epsilon 0", "epsilon must be"),
        ("report people.csv -o new", "not a Lumberjack model"),
        ("inspect none", "none"),
        ("plan --epsilon 0", "epsilon must be"),
        ("plan --leaf exponential", "accounting"),
        ("plan --leaf fitted --splits random", "use leaf="),
        ("plan --leaf fitted --accounting paper", "fitted leaves need accounting"),
        ("plan --structure-share 0.5", "structure_share is for trees that are pruned"),
        ("plan --regression --leaf counts", "--leaf is for classes"),
        ("TRAIN --leaf fitted --splits random -o new", "use leaf="),
        ("TRAIN --structure-share 0.5 -o new", "structure_share is for trees that are pruned"),
        ("train people.csv --target age --domain domain.json --epsilon 1 --leaf counts -o new",
         "--leaf is for classes"),
        ("domain people.csv -o new --range age", "NAME="),
        ("domain people.csv -o new --range age=5", "LOW:HIGH"),
        ("domain people.csv -o new --range age=9:5", "low <= high"),
        ("domain people.csv -o new --range aeg=0:5", "no column 'aeg'"),
        ("heavy-hitters people.csv --epsilon 1", "--column"),
        ("fell", "fell"),
    ],
)  # fmt: skip
def test_mistakes_end_in_one_clear_line_and_no_file(run, folder, line, why):
    before = sorted(folder.iterdir())
    code, out, err = run(line.replace("TRAIN", TRAIN))
    assert code == 2
    assert out == ""
    assert re.search(why, err)
    assert len([text for text in err.splitlines() if text.startswith("Error:")]) == 1
    assert err.splitlines()[-1].startswith("Error:")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("age,city,back\n", "has no rows"),
        ("age,city,age\n1,Bonn,2\n", "columns 1 and 3 have the same name"),
        ("age,city,back\n1,Bonn,yes\n2,secret\n", "more or fewer fields"),
        ("age,city,back\n1,Bonn,yes\nsecret,Bonn,no\n", "column 'age' must hold numbers"),
        ("age,city,back\n1,Bonn,yes\n2,Kiel,secret\n", "not among the classes"),
        ("age,city,back\n1,Bonn,yes\n2,Kiel,\n", "missing values"),
        ("age;city;back\n1;Bonn;yes\n", "right --delimiter"),
    ],
)
def test_malformed_files_are_explained_without_quoting_them(run, folder, tmp_path, text, why):
    (tmp_path / "bad.csv").write_text(text)
    options = [
        "--target",
        "back",
        "--domain",
        folder / "domain.json",
        "--epsilon",
        1,
        "-o",
        tmp_path / "m",
    ]
    code, _, err = run("train", tmp_path / "bad.csv", *options)
    assert code == 2
    assert why in err
    assert "secret" not in err
    assert not re.search(r"line \d", err)
    if "--locate" in err:
        _, _, err = run("train", tmp_path / "bad.csv", *options, "--locate")
        assert "line 3" in err
        assert "secret" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize(
    ("length", "why"),
    [
        (200_000, "more or fewer fields than the header, line 3"),
        (600_000, "more or fewer fields than the header, line 3"),
        (2_000_000, "longer than 512 KiB; is a quote never closed?, line 2"),
    ],
)
def test_a_long_field_does_not_hide_where_a_row_is_bad(run, folder, tmp_path, length, why):
    before = csv.field_size_limit()
    (tmp_path / "long.csv").write_text(f"age,city,back\n1,{'x' * length},yes\n2,secret\n")
    code, _, err = run(
        " ".join(train_options(folder, tmp_path / "long.csv", ())), "-o", "new", "--locate"
    )
    assert code == 2
    assert why in err
    assert csv.field_size_limit() == before


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize("name", [b"\xff.csv", b"\xff.parquet"])
def test_file_names_need_not_be_unicode(run, folder, tmp_path, name):
    data, out = tmp_path / os.fsdecode(name), tmp_path / os.fsdecode(b"out-" + name)
    data.write_bytes((folder / f"people{data.suffix}").read_bytes())
    assert run("predict model.lumberjack", data, "-o", out)[0] == 0
    code, _, err = run("predict model.lumberjack", data, "-o", out)
    assert code == 2
    assert "exists already" in err


def test_running_out_of_memory_is_not_called_a_damaged_file(run, monkeypatch):
    def full(*_, **__):
        raise pa.ArrowMemoryError("malloc of size 640 failed")

    monkeypatch.setattr(tables.pq, "ParquetFile", full)
    code, _, err = run("predict model.lumberjack people.parquet")
    assert (code, err) == (3, "Error: not enough memory\n")


def test_long_names_are_cut(run, tmp_path):
    name = "n" * 500
    (tmp_path / "long.csv").write_text(f"{name},age,city,{'m' * 500}\n")
    code, _, err = run("domain", tmp_path / "long.csv", "-o", tmp_path / "d.json", "--no-ask")
    assert code == 0
    assert "nnn" in err
    assert len(err) < 400
    (tmp_path / "many.csv").write_text(",".join(f"c{i}" for i in range(1000)) + "\n")
    _, _, err = run("domain", tmp_path / "many.csv", "-o", tmp_path / "e.json", "--no-ask")
    assert "'c9' and 990 more" in err


def test_text_in_another_encoding_and_broken_parquet(run, folder, tmp_path):
    (tmp_path / "latin.csv").write_bytes("age,city,back\n1,Köln,yes\n".encode("latin-1"))
    whole = (folder / "people.parquet").read_bytes()
    third = len(whole) // 3
    hole = whole[:third] + bytes(third) + whole[2 * third :]
    (tmp_path / "half.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "hole.parquet").write_bytes(hole)
    for name, why in (("latin.csv", "UTF-8"), ("half.parquet", "Parquet"), ("hole.parquet", "damaged")):
        skip = () if name == "latin.csv" else ("--skip", "id")
        code, _, err = run(" ".join(train_options(folder, tmp_path / name, skip)), "-o", tmp_path / "m")
        assert code == 2
        assert why in err


def test_a_full_disk_has_a_code_of_its_own(run, folder):
    code, _, err = run(" ".join(train_options(folder)), "-o", "/dev/full")
    assert code == 3
    assert err.splitlines()[-1] == "Error: /dev/full: No space left on device"
    assert run("predict model.lumberjack people.csv -o /dev/full")[0] == 3
    assert run("report model.lumberjack -o /dev/full")[0] == 3
    assert run("report model.lumberjack -o /dev/null")[0] == 0


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "Stopped."),
        (MemoryError(), 3, "not enough memory"),
        (pa.ArrowMemoryError("secret"), 3, "not enough memory"),
        (BrokenPipeError(), 141, ""),
        (SystemExit(143), 143, "Stopped."),
        (OSError(5, "Input/output error", "f"), 3, "f: Input/output error"),
        (RecursionError("secret"), 2, "nested too deeply"),
        (KeyError("secret"), 70, "a bug in Lumberjack, please report it: KeyError at"),
        (pa.ArrowInvalid("secret"), 70, "ArrowInvalid at console.py"),
        (UnicodeDecodeError("utf-8", b"secret", 0, 1, "secret"), 70, "UnicodeDecodeError at"),
        (PermissionError(13, "Permission denied", "f"), 3, "f: Permission denied"),
        (ValueError("two\nlines"), 2, "two lines"),
    ],
)
def test_exit_codes_and_messages_of_errors(error, code, said, capsys):
    def command():
        raise error

    assert console.run(command) == code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == (code != 141)
    assert "secret" not in err


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch, capsys):
    from lumberjack import __main__

    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setitem(sys.modules, "lumberjack.cli", None)
    with pytest.raises(SystemExit) as left:
        __main__.main()
    assert left.value.code == 3
    assert "pip install 'lumberjack-dp[cli]'" in capsys.readouterr().err


def test_the_installed_program_and_a_reader_that_stops_early(folder):
    """The real thing, once: a pipe that closes, and a terminal that knows no Greek."""
    program = Path(sys.executable).with_name("lumberjack")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    line = (
        f"{program} predict model.lumberjack people.csv | head -n 2; {program} report model.lumberjack"
    )
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("prediction\n")
    assert "(4, 1e-06)-differential privacy" in done.stdout
    assert done.stderr == ""
    assert done.returncode == 0
