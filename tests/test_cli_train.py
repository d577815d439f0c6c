"""Training from files of which nobody declares anything: the same model as in Python."""

import functools
import io
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from lumberjack import (
    Domain,
    LumberjackClassifier,
    LumberjackRegressor,
    cli,
    cli_train,
    load,
    tables,
)
from lumberjack.checking import EYES_ONLY
from lumberjack.io import pack
from lumberjack.kinds import Categorical, Cuts

SEEDED = pytest.mark.filterwarnings("ignore:guarantee has a caveat")


def people(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "hours": rng.integers(0, 80, n) / 4,  # exact in text
            "city": rng.choice(["Bonn", "Kiel", " Trier", "Köln, am Rhein"], n),
            "code": rng.choice([3, 7, 11], n),
            "member": rng.choice(["True", "false"], n),
        }
    )
    frame["income"] = np.where((frame["hours"] > 9) ^ (frame["city"] == "Kiel"), ">50K", "<=50K")
    frame["wage"] = frame["hours"] * 4 + (frame["code"] > 5)
    frame.loc[::17, "hours"] = np.nan
    frame.loc[::23, "city"] = None
    frame.loc[::29, "member"] = None
    frame.loc[7, "city"] = "Zqxville"  # once: no model may know it
    return frame


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in a folder with tables, its noise seeded; gives code, result and remarks."""
    monkeypatch.chdir(tmp_path)
    for name in ("LumberjackClassifier", "LumberjackRegressor"):
        seeded = functools.partial(getattr(cli_train, name), random_state=5)
        monkeypatch.setattr(cli_train, name, seeded)
    frame = people()
    frame.to_csv("t.csv", index=False)
    frame.to_csv("semi.csv", index=False, sep=";")
    pa.parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), "t.parquet")
    people(seed=1).to_csv("others.csv", index=False)

    def command(line):
        capsys.readouterr()
        code = cli.main(line.split())
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return command


@SEEDED
def test_one_label_does_not_change_how_others_are_read(run):
    """As floats, which 1e17 is written as, the first two would be one."""
    labels = [2**53] * 3000 + [2**53 + 1] * 3000 + ["1e17"]
    pd.DataFrame({"x": np.arange(6001) % 7, "y": labels}).to_csv("large.csv", index=False)
    options = "--target y --task classification --epsilon 4 -o large.lumberjack"
    assert run(f"train large.csv {options}")[0] == 0
    assert load("large.lumberjack").classes_.tolist() == [2**53, 2**53 + 1]


READ = {
    "t.csv": lambda: pd.read_csv("t.csv"),
    "t.parquet": lambda: pyarrow.parquet.read_table("t.parquet"),
    "t.parquet by polars": lambda: pl.read_parquet("t.parquet"),
}


@SEEDED
@pytest.mark.parametrize("chunks", ["large", "small"])
@pytest.mark.parametrize("source", READ)
def test_nothing_declared_gives_the_model_of_python(run, monkeypatch, source, chunks):
    if chunks == "small":
        monkeypatch.setattr(tables, "_BLOCK", 4096)
        monkeypatch.setattr(tables, "_ROWS", 777)
    data = source.split()[0]
    code, out, err = run(f"train {data} --target income --epsilon 2 --skip wage --trees 4 -o model")
    assert code == 0, err
    assert "CAVEAT" in out  # the seed
    frame = READ[source]()
    frame = frame.drop("wage", axis=1) if data == "t.csv" else nothing(frame)
    expected = LumberjackClassifier(2.0, n_estimators=4, random_state=5).fit(frame, "income")
    with open("model", "rb") as file:
        found = file.read()
    assert found == pack(expected)
    assert b"Zqx" not in found
    model = load("model")
    assert isinstance(model.domain_["hours"], Cuts)
    assert model.domain_["city"].categories == (" Trier", "Bonn", "Kiel", "Köln, am Rhein")
    assert model.classes_.tolist() == ["<=50K", ">50K"]
    assert "Not declared, read as numbers: 'hours', 'code'" in err
    assert "Not declared, read as categories: 'city', 'member'" in err
    assert "Zqx" not in out + err


def nothing(frame):
    """Without the wage, in pyarrow and polars alike."""
    return frame.select([name for name in people(1).columns if name != "wage"])


@SEEDED
def test_a_number_to_predict_gives_the_model_of_python(run):
    code, _, _ = run("train t.csv --target wage --task regression --epsilon 2 --trees 4 -o model")
    assert code == 0
    expected = LumberjackRegressor(2.0, n_estimators=4, random_state=5)
    expected.fit(pd.read_csv("t.csv"), "wage")
    with open("model", "rb") as file:
        assert file.read() == pack(expected)


@SEEDED
def test_some_columns_may_be_declared(run):
    declared = {"hours": (0, 40), "member": Domain.categorical()}
    Domain({**declared, "income": ["<=50K", ">50K"]}).to_json("d.json")
    line = "train t.csv --target income --domain d.json --epsilon 2 --skip wage --trees 4 -o model"
    assert run(line)[0] == 0
    model = load("model")
    frame = pd.read_csv("t.csv").drop(columns=["income", "wage"])
    expected = LumberjackClassifier(
        2.0, domain=declared, classes=["<=50K", ">50K"], n_estimators=4, random_state=5
    ).fit(frame, pd.read_csv("t.csv")["income"])
    assert model.domain_ == expected.domain_
    assert model.domain_["member"] == Categorical((False, True), missing=True)
    assert (model.predict_proba(frame) == expected.predict_proba(frame)).all()


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
def test_numbers_may_be_classes_so_the_task_is_asked_for(run, tmp_path, data):
    line = f"train {data} --target code --epsilon 4 --trees 4 -o model"
    code, _, err = run(line)
    assert code == 2
    assert err == (
        "Error: the target 'code' holds numbers: say --task classification or --task regression\n"
    )
    assert not (tmp_path / "model").exists()
    assert run(line + " --task classification --force")[0] == 0
    assert load("model").classes_.tolist() == [3, 7, 11]
    assert run(line + " --task regression --force")[0] == 0
    assert isinstance(load("model"), LumberjackRegressor)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("--target income --task regression", "must hold numbers"),
        ("--target income --task regression --classes a,b", "--task regression does not go with --cl"),
        ("--target wage --task classification --bounds 0:9", "--task classification does not go with"),
        ("--target wage --task regression --domain d.json", "declares categories for the target 'wage'"),
        ("--target income --skip income", "the target must not be skipped"),
        ("--target income --skip none", "no column 'none'"),
        ("--target income --accounting paper", "declare all columns"),
    ],
)
def test_contradictions_are_refused(run, tmp_path, more, why):
    Domain({"wage": ["low", "high"]}).to_json("d.json")
    code, _, err = run(f"train t.csv --epsilon 1 -o model {more}")
    assert code == 2
    assert why in err
    assert not (tmp_path / "model").exists()


def test_a_wrong_delimiter_is_guessed(run):
    code, _, err = run("train semi.csv --target income --epsilon 1 -o model")
    assert code == 2
    assert "it has one column only: is ',' the right --delimiter? ';' occurs in its name" in err
    with open("one.csv", "w") as file:
        file.write("income\nyes\n")
    code, _, err = run("train one.csv --target income --epsilon 1 -o model")
    assert code == 2
    assert "no column besides the target; it has one column only" in err


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
def test_predictions_and_scores_of_a_learned_model(run, data):
    assert run(f"train {data} --target income --epsilon 4 --skip wage --trees 4 -o model")[0] == 0
    model, frame = load("model"), people(seed=1)
    features = pd.read_csv("others.csv")[["hours", "city", "code", "member"]]
    if data == "t.parquet":  # there, flags are text
        features["member"] = frame["member"]
    code, out, _ = run("predict model others.csv --proba")
    assert code == 0
    found = pd.read_csv(io.StringIO(out))
    np.testing.assert_allclose(found["p_>50K"], model.predict_proba(features)[:, 1], rtol=1e-12)
    code, out, _ = run("evaluate model others.csv --target income --json")
    assert json.loads(out)["accuracy"] == pytest.approx(model.score(features, frame["income"]))
    assert json.loads(out)["accuracy"] > 0.8


def test_rows_of_unknown_labels_are_left_out_of_scores(run):
    assert run("train t.csv --target income --epsilon 4 --skip wage --trees 4 -o model")[0] == 0
    code, out, err = run("evaluate model others.csv --target income --json")
    frame = people(seed=1)
    frame.loc[len(frame)] = [1.0, "Bonn", 3, "True", "rare", 1.0]
    frame.to_csv("rare.csv", index=False)
    assert run("evaluate model rare.csv --target income --json")[1] == out
    for more in ("", "--epsilon 1"):
        code, out, err = run(f"evaluate model rare.csv --target income {more}")
        assert code == 0
        assert "Rows whose label the model does not know, if any, are left out." in err
        assert "rare" not in out + err
    frame.tail(1).to_csv("rare.csv", index=False)
    code, _, err = run("evaluate model rare.csv --target income")
    assert code == 2
    assert "has no label that the model knows" in err


# What is outside a domain


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
def test_a_domain_is_checked_against_a_file(run, monkeypatch, data):
    monkeypatch.setattr(tables, "_BLOCK", 4096)
    monkeypatch.setattr(tables, "_ROWS", 777)
    Domain({"hours": (0, 10), "city": ["Bonn", "Kiel"], "code": [3, 7, 11]}).to_json("d.json")
    code, out, _ = run(f"domain --check {data} --domain d.json")
    assert code == 0
    frame = people()
    hours, city = frame["hours"], frame["city"]
    outside = {"hours": (hours > 10).mean(), "city": (~city.isin(["Bonn", "Kiel", None])).mean()}
    missing = {"hours": hours.isna().mean(), "city": city.isna().mean(), "code": 0}
    first, _, *rows = out.splitlines()
    assert first == EYES_ONLY
    expected = [[n, f"{outside.get(n, 0):.1%}", f"{missing[n]:.1%}"] for n in missing]
    assert [row.replace(" %", "%").split() for row in rows] == expected
    assert "Zqx" not in out


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
def test_training_reports_values_outside_the_domain_but_does_not_store_them(run, data):
    Domain({"hours": (0, 10), "city": ["Bonn", "Kiel"], "wage": (0, 7)}).to_json("d.json")
    line = f"train {data} --target wage --domain d.json --epsilon 2 --trees 2 -o model --force"
    _, out, err = run(line)
    frame = people()
    (said,) = (text for text in err.splitlines() if text.startswith(EYES_ONLY))
    for name, high in (("hours", 10), ("wage", 7)):
        assert f"'{name}' {(frame[name] > high).mean():.1%}".replace("%", " %") in said
    assert "%" not in out
    with open("model", "rb") as file:
        model = file.read()
    for more in ("--quiet", "--json"):
        assert EYES_ONLY not in run(f"{line} {more}")[2]
    with open("model", "rb") as file:
        assert file.read() == model
    assert run(f"{line} --quiet")[2].count("Warning") == run(f"{line} --quiet")[2].count("\n")
    assert EYES_ONLY not in run("report model")[1] + run("inspect model")[1]


def test_a_check_needs_a_domain(run):
    for line in ("domain --check t.csv", "domain t.csv", "domain t.csv -o d --domain none.json"):
        code, _, err = run(line)
        assert code == 2
        assert "--domain" in err


# The index of a pandas frame


def shuffled(path, name=None, **index):
    """A table of which pandas writes the index as well; its name, and the frame."""
    frame = people().drop(columns="wage").sample(frac=1, random_state=0)
    frame.index.name = name
    frame.to_parquet(path, **index)
    return frame


@SEEDED
@pytest.mark.parametrize("name", [None, "patient"])
def test_the_index_of_a_frame_is_no_feature(run, name):
    frame = shuffled("s.parquet", name)
    shuffled("plain.parquet", index=False)
    column = name or "__index_level_0__"
    assert column in pyarrow.parquet.read_schema("s.parquet").names
    line = "--target income --epsilon 2 --trees 4 -o"
    code, out, err = run(f"train s.parquet {line} model")
    assert code == 0
    assert f"Left out, as the index of a pandas frame: '{column}'" in err
    assert run(f"train plain.parquet {line} other")[0] == 0
    with open("model", "rb") as one, open("other", "rb") as two:
        assert one.read() == two.read()
    assert list(load("model").domain_) == ["hours", "city", "code", "member"]
    for command in ("predict model {}", "evaluate model {} --target income"):
        said = [run(command.format(data)) for data in ("s.parquet", "plain.parquet")]
        assert said[0][0] == 0
        assert said[0] == said[1]
    _, out, _ = run(f"predict model s.parquet --keep {column}")
    assert pd.read_csv(io.StringIO(out))[column].tolist() == frame.index.tolist()


@SEEDED
def test_the_index_of_a_frame_is_used_where_it_is_named(run):
    shuffled("s.parquet", "patient")
    line = "train s.parquet --epsilon 2 --trees 4 -o model --force"
    code, _, err = run(f"{line} --target income --person patient")
    assert (code, "Left out" in err) == (0, False)
    assert load("model").guarantee_.unit == "person"
    assert run(f"{line} --target patient --task regression")[0] == 0
    Domain({"patient": (0, 6000)}).to_json("d.json")
    code, _, err = run(f"{line} --target income --domain d.json")
    assert (code, "patient" in load("model").domain_) == (0, True)
    assert "Left out" not in err


def test_a_domain_file_skips_the_index_of_a_frame(run):
    shuffled("s.parquet")
    code, _, err = run("domain s.parquet -o d.json")
    assert code == 0
    assert "Left out, as the index of a pandas frame: '__index_level_0__'" in err
    with open("d.json") as file:
        columns = {column["name"]: column["type"] for column in json.load(file)["columns"]}
    assert columns["__index_level_0__"] == "skip"
    with open("any.json", "w") as file:
        json.dump({"format": "lumberjack-domain", "version": 2, "columns": [{"pattern": "*"}]}, file)
    for domain in ("d.json", "any.json"):
        line = (
            f"train s.parquet --domain {domain} --target income --epsilon 2 --trees 4 -o model --force"
        )
        assert run(line)[0] == 0
        assert list(load("model").domain_) == ["hours", "city", "code", "member"]


@pytest.mark.parametrize(
    "said",
    [
        b"\xff", b"{", b"[]", b"7", b"{}", b"[" * 100_000,
        b'{"index_columns": 7}', b'{"index_columns": "hours"}', b'{"index_columns": [{"kind": 1}, 7]}',
    ],
)  # fmt: skip
def test_malformed_index_metadata_is_ignored(tmp_path, said):
    table = pa.table({"hours": [1.0]}).replace_schema_metadata({b"pandas": said})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert tables.Table(tmp_path / "t.parquet").index() == []


# Dates that are not ISO


def test_dates_as_the_file_writes_them(run):
    frame = people(2000)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(2000) % 700, unit="D")
    frame["seen"] = days.strftime("%d.%m.%Y")
    frame.loc[::13, "seen"] = None
    frame["income"] = np.where(days > pd.Timestamp("2021-01-15"), "late", "early")
    frame.to_csv("dated.csv", index=False)
    line = "train dated.csv --target income --epsilon 4 --trees 4 --skip wage -o model --force"
    assert run(line)[0] == 0
    assert isinstance(load("model").domain_["seen"], Categorical)
    assert run(f"{line} --date-format %d.%m.%Y")[0] == 0
    model = load("model")
    assert model.domain_["seen"].grid == Domain.numeric(date_format="%d.%m.%Y")
    assert isinstance(model.domain_["city"], Categorical)
    code, out, _ = run("predict model dated.csv --proba")
    assert code == 0
    features = pd.read_csv("dated.csv").drop(columns=["income", "wage"])
    in_text = model.predict_proba(features)
    features["seen"] = days.where(frame["seen"].notna())
    expected = model.predict_proba(features)
    assert (in_text == expected).all()
    np.testing.assert_allclose(pd.read_csv(io.StringIO(out))["p_late"], expected[:, 1], rtol=1e-12)
    assert model.score(features, frame["income"]) > 0.9
    code, _, err = run(f"{line} --date-format %d%d")
    assert code == 2
    assert "a date format is like" in err
