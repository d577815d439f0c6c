"""Commands that use a model on a table: predictions as in the library, and scores with their price."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import test_cli
from sklearn.metrics import roc_auc_score
from test_cli import people, train_options

from lumberjack import load, tables
from lumberjack.guarantee import NOT_ENFORCED

folder, run = test_cli.folder, test_cli.run  # fixtures


def test_predictions_are_those_of_the_library(run, folder, tmp_path):
    frame = people(seed=1)
    model = load(folder / "model.lumberjack")
    expected = model.predict_proba(frame[["age", "city"]])
    code, out, _ = run("predict model.lumberjack others.csv --proba --keep id")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [r["prediction"] for r in rows] == model.predict(frame[["age", "city"]]).tolist()
    np.testing.assert_allclose([float(r["p_yes"]) for r in rows], expected[:, 1], rtol=1e-12)
    assert [int(r["id"]) for r in rows] == frame["id"].tolist()
    assert run("predict model.lumberjack others.csv -o", tmp_path / "p.csv")[0] == 0
    assert (tmp_path / "p.csv").read_text().splitlines()[1:] == [r["prediction"] for r in rows]
    assert run("predict model.lumberjack people.parquet --proba -o", tmp_path / "p.parquet")[0] == 0
    assert list(pd.read_parquet(tmp_path / "p.parquet")) == ["prediction", "p_no", "p_yes"]
    code, _, err = run("predict model.lumberjack others.csv -o", tmp_path / "p.csv")
    assert code == 2
    assert "--force" in err
    assert run("predict model.lumberjack others.csv --force -o", tmp_path / "p.csv")[0] == 0


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_kept_dates_beyond_year_9999_come_out_as_they_went_in(run, tmp_path, zone):
    far = pa.array([316_516_204_800_000_000, 0, None], pa.int64()).cast(pa.timestamp("us", zone))
    table = pa.table({"age": [1.0, 2.0, 3.0], "city": ["Bonn"] * 3, "when": far})
    pa.parquet.write_table(table, tmp_path / "far.parquet")
    out = tmp_path / "p.parquet"
    code, _, err = run("predict model.lumberjack --keep when", tmp_path / "far.parquet", "-o", out)
    assert code == 0, err
    assert pa.parquet.read_table(out)["when"].combine_chunks() == far


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("data", ["none.csv", "none.parquet"])
def test_no_rows_give_a_table_without_rows(run, tmp_path, data, ending):
    frame = people().drop(columns="back")[:0]
    frame.to_csv(tmp_path / "none.csv", index=False)
    frame.to_parquet(tmp_path / "none.parquet", index=False)
    out = tmp_path / f"out.{ending}"
    assert run("predict model.lumberjack --proba --keep id", tmp_path / data, "-o", out)[0] == 0
    found = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
    assert list(found) == ["id", "prediction", "p_no", "p_yes"]
    assert len(found) == 0


def test_types_of_predictions_do_not_depend_on_the_first_rows(run, tmp_path):
    n = tables._ROWS + 10
    late = pa.array([None] * tables._ROWS + ["x"] * 10)
    coded = pa.array([None, "u"] * (n // 2)).dictionary_encode()
    when = pa.array([None] * (n - 1) + [1_000_000_001], pa.timestamp("ns"))
    kept = {"late": late, "coded": coded, "when": when, "nothing": pa.nulls(n)}
    pa.parquet.write_table(
        pa.table({"age": np.ones(n), "city": ["Bonn"] * n, **kept}), tmp_path / "t.parquet"
    )
    more = [word for name in kept for word in ("--keep", name)]
    out = tmp_path / "p.parquet"
    assert run("predict model.lumberjack", tmp_path / "t.parquet", "-o", out, *more)[0] == 0
    found = pa.parquet.read_table(out)
    assert found["late"].to_pylist() == late.to_pylist()
    assert found["coded"].to_pylist() == coded.to_pylist()
    assert found["when"].type == pa.timestamp("us")
    code, _, err = run("predict model.lumberjack", out, "--keep", "prediction")
    assert code == 2
    assert "a column of the predictions has this name" in err


@pytest.mark.parametrize("name", ["id", "age", "city", "back"])
@pytest.mark.parametrize("value", [["Bonn"], {"a": 1}])
def test_nested_columns_are_refused_by_name(run, folder, tmp_path, name, value):
    frame = people(50).assign(**{name: [value] * 50})
    frame.to_parquet(tmp_path / "t.parquet")
    line = [*train_options(folder, tmp_path / "t.parquet"), "--person", "id"]
    code, _, err = run(" ".join(line), "-o", tmp_path / "m")
    assert code == 2
    assert f"column '{name}' " in err
    assert "Bonn" not in err
    if name == "id":
        code, _, err = run("predict model.lumberjack", tmp_path / "t.parquet", ["--keep", "id"][0], "id")
        assert code == 2
        assert "column 'id' is nested" in err


def test_a_bad_row_at_the_end_leaves_no_half_of_a_file(run, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK", 4096)
    text = people().drop(columns="back").to_csv(index=False)
    (tmp_path / "bad.csv").write_text(text + "1,2\n")
    for output in ("p.csv", "p.parquet"):
        code, _, err = run("predict model.lumberjack", tmp_path / "bad.csv", "-o", tmp_path / output)
        assert code == 2
        assert "more or fewer fields" in err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize("rows", [1, 2])
def test_private_scores_for_persons_keep_their_caveat(run, folder, tmp_path, rows):
    line = " ".join(train_options(folder)) + f" --person id --rows-per-person {rows}"
    assert run(line, "-o", tmp_path / "m")[0] == 0
    score = ["evaluate", tmp_path / "m", "others.csv", "--target", "back", "--epsilon", "1"]
    price = json.loads(run(*score, "--json")[1])["guarantee"]
    assert (price["unit"], price["rows_per_person"]) == ("person", rows)
    assert price["caveats"] == [NOT_ENFORCED]
    assert f"CAVEAT      {NOT_ENFORCED}" in run(*score)[1]
    score[1] = "model.lumberjack"
    price = json.loads(run(*score, "--json")[1])["guarantee"]
    assert (price["unit"], price["caveats"]) == ("row", [])


def test_private_scores_warn_of_a_weak_promise(run):
    score = "evaluate model.lumberjack others.csv --target back --epsilon"
    assert "epsilon = 21 is almost no protection" in run(f"{score} 21")[2]
    assert "delta = 0.01 is almost no protection" in run(f"{score} 1 --delta 0.01 --json")[2]
    assert "Warning" not in run(f"{score} 20")[2]


def test_scores_and_what_they_cost(run, folder):
    frame = people(seed=1)
    proba = load(folder / "model.lumberjack").predict_proba(frame[["age", "city"]])[:, 1]
    code, out, _ = run("evaluate model.lumberjack others.csv --target back --json")
    found = json.loads(out)
    assert code == 0
    assert found["auc"] == pytest.approx(roc_auc_score(frame["back"] == "yes", proba))
    assert found["accuracy"] == pytest.approx(np.mean((proba > 0.5) == (frame["back"] == "yes")))
    assert (found["private"], found["guarantee"]) == (False, None)
    code, out, err = run("evaluate model.lumberjack others.csv --target back")
    assert "Calibration" in out
    assert "outside the guarantee" in err
    code, out, _ = run("evaluate model.lumberjack others.csv --target back --epsilon 1 --json")
    private = json.loads(out)
    assert private["private"]
    assert private["guarantee"]["recomputed"] <= 1e-6
    assert private["accuracy"] == pytest.approx(found["accuracy"], abs=0.06)  # noise 0.01
    code, out, err = run("evaluate model.lumberjack others.csv --target back --epsilon 1")
    assert "Released with (1, 1e-06)-differential privacy" in out
    assert "outside the guarantee" not in err
