"""The command that writes domain files."""

import io
import json

import pandas as pd
import pytest

from lumberjack import Domain, cli, load
from lumberjack.declared import SKIP, read_declared
from lumberjack.kinds import Categorical, Numeric

NAMES = ["id", "age", "glyburide-metformin", "glipizide-metformin", "seen", "back"]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in a folder with a table; ``lines`` are typed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(",".join(NAMES) + "\n" + "x" * 99)  # no row is read

    def command(line, lines=()):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{text}\n" for text in lines)))
        capsys.readouterr()
        code = cli.main(line.split())
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return command


def columns(path="d.json"):
    return read_declared(json.loads(open(path).read())).columns


def test_answers_become_a_file(run):
    code, _, err = run(
        "domain t.csv -o d.json --ask", ["skip", "0:120", "No,Up", "same", "", "no,yes", ""]
    )
    assert code == 0
    drug = Categorical(("No", "Up"), missing=True)
    assert columns() == {
        "id": SKIP,
        "age": Numeric(0, 120),
        "glyburide-metformin": drug,
        "glipizide-metformin": drug,
        "seen": None,
        "back": Categorical(("no", "yes"), missing=True),
    }
    assert "Left open, to be learned privately: 'seen'" in err
    assert list(Domain.from_json("d.json")) == [n for n in NAMES if n not in ("id", "seen")]


def test_rest_leaves_all_columns_open(run):
    assert run("domain t.csv -o d.json --ask", ["rest"])[0] == 0
    assert columns() == dict.fromkeys(NAMES)


def test_an_interruption_loses_no_answer(run, tmp_path):
    code, _, err = run("domain t.csv -o d.json --ask", ["skip", "0:120"])
    assert code == 2
    assert "Answers are kept in d.json.draft: run the same command again to resume." in err
    assert not (tmp_path / "d.json").exists()
    code, _, err = run("domain t.csv -o d.json --ask", ["undo", "0:99", "", "rest"])
    assert code == 0
    assert "Resuming after 2 answers in d.json.draft" in err
    assert columns() == {"id": SKIP, "age": Numeric(0, 99), **dict.fromkeys(NAMES[2:])}
    assert not (tmp_path / "d.json.draft").exists()


def test_a_draft_is_kept_by_a_run_without_questions(run, tmp_path):
    assert run("domain t.csv -o d.json --ask", ["skip"])[0] == 2
    assert run("domain t.csv -o d.json --no-ask")[0] == 0
    assert columns("d.json.draft") == {"id": SKIP}


def test_ctrl_c_loses_no_answer(run, monkeypatch):
    lines = iter(["skip", "0:120"])

    def stop(*_, **__):
        try:
            return next(lines)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("lumberjack.cli_domain.typer.prompt", stop)
    assert run("domain t.csv -o d.json --ask")[0] == 130
    assert columns("d.json.draft") == {"id": SKIP, "age": Numeric(0, 120)}


def test_a_code_book_answers_and_the_rest_is_asked(run):
    text = (
        "column,kind,low,high,values\nid,skip,,,\nage,number,0,120,\n*-metformin,,,,No|Up\n"
        "weight,number,0,500,\nseen,,,,\n"
    )
    with open("book.csv", "w") as file:
        file.write(text)
    code, _, err = run("domain t.csv -o d.json --codebook book.csv --ask", ["", "no,yes", ""])
    assert code == 0
    assert "In the code book, but not in the file: 'weight'" in err
    drug = Categorical(("No", "Up"), missing=True)
    found = columns()
    assert list(found) == NAMES
    assert [found[name] for name in NAMES[:4]] == [SKIP, Numeric(0, 120), drug, drug]
    assert found["back"] == Categorical(("no", "yes"), missing=True)


@pytest.mark.parametrize("more", ["", "--codebook book.csv --range age=0:9 --skip id"])
def test_options_and_templates_need_no_answer(run, more):
    with open("book.csv", "w") as file:
        file.write("column,low,high\nage,0,120\n")
    assert run(f"domain t.csv -o d.json --no-ask {more}")[0] == 0
    assert columns()["age"] == (Numeric(0, 9) if more else None)
    assert columns()["id"] == (SKIP if more else None)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_a_file_of_one_column_gets_a_hint(run, mark):
    with open("one.csv", "w") as file:
        file.write(mark.join(NAMES) + "\n")
    code, _, err = run("domain one.csv -o d.json --no-ask")
    assert code == 0
    assert f"it has one column only: is ',' the right --delimiter? {mark!r} occurs in its name" in err


def test_dates_as_the_file_writes_them(run):
    line = "domain t.csv -o d.json --date-format %d.%m.%Y --range seen=01.02.2020:31.12.2020 --no-ask"
    assert run(line)[0] == 0
    expected = Domain.numeric("01.02.2020", "31.12.2020", date_format="%d.%m.%Y")
    assert columns()["seen"] == expected
    code, _, err = run("domain t.csv -o e.json --date-format %d%d --range seen=1:2")
    assert code == 2
    assert "a date format is like" in err
    code, _, err = run("domain t.csv -o e.json --range seen=01.02.2020:31.12.2020 --no-ask")
    assert code == 2
    assert "two dates like 2026-01-31" in err


def test_what_a_file_leaves_out_is_left_out_of_training(run):
    frame = pd.DataFrame(
        {"id": range(2000), "a-1": [0, 1] * 1000, "a-2": [5.0] * 2000, "y": ["n", "y"] * 1000}
    )
    frame.to_csv("t.csv", index=False)
    shared = {"flag": {"type": "categorical", "categories": [0, 1]}}
    columns = [{"name": "id", "type": "skip"}, {"pattern": "a-*", "like": "flag"}]
    head = {"format": "lumberjack-domain", "version": 2}
    with open("d.json", "w") as file:
        json.dump({**head, "shared": shared, "columns": columns}, file)
    assert run("train t.csv --target y --domain d.json --epsilon 4 --trees 2 -o model")[0] == 0
    kind = Categorical((0, 1))
    assert load("model").domain_ == Domain({"a-1": kind, "a-2": kind})
    code, out, _ = run("domain --check t.csv --domain d.json")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [["a-1", "0.0"], ["a-2", "100.0"]]
    assert run("domain t.csv --from-data --target y --skip id -o f.json")[0] == 0
    assert run("train t.csv --target y --domain f.json --epsilon 4 --trees 2 -o model --force")[0] == 0
    assert list(load("model").domain_) == ["a-1", "a-2"]


def test_a_broken_draft_is_refused(run):
    with open("d.json.draft", "w") as file:
        file.write("{")
    code, _, err = run("domain t.csv -o d.json --ask", ["rest"])
    assert code == 2
    assert "d.json.draft" in err
