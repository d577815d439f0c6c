"""Output, remarks and exit codes of commands."""

import errno
import json

import pytest

from lumberjack import console


def test_results_go_to_stdout_and_remarks_to_stderr(capsys):
    console.show("result")
    console.say("remark")
    assert capsys.readouterr() == ("result\n", "remark\n")


def test_names_from_files_are_neither_markup_nor_control(capsys):
    console.show("[bold]a\x1b[31mb[/bold]")
    out = capsys.readouterr().out
    assert "[bold]a" in out
    assert "\x1b" not in out


def test_tables_and_json_can_be_read(capsys):
    console.print_rows(["name", "n"], [["a", "1"], ["b", "20"]])
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines() if " 20 " in line]
    console.print_json({"a": [1, 2]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, 2]}
    assert json.loads(console.to_json({"ß": 1})) == {"ß": 1}


def test_a_file_is_replaced_only_by_force(tmp_path):
    path = tmp_path / "out.json"
    console.write(path, b"one", force=False)
    with pytest.raises(FileExistsError):
        console.write(path, b"two", force=False)
    assert path.read_bytes() == b"one"
    console.write(path, b"two", force=True)
    assert path.read_bytes() == b"two"
    assert (
        console.fingerprint(path) == "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
    )


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("epsilon must\nbe positive"), console.WRONG, "Error: epsilon must be positive\n"),
        (FileNotFoundError(errno.ENOENT, "No such file", "a.csv"), console.WRONG, "a.csv: No such file"),
        (OSError(errno.ENOSPC, "No space left", "a.csv"), console.SYSTEM, "a.csv: No space left"),
        (UnicodeDecodeError("utf-8", b"secret", 0, 1, "bad"), console.BUG, "UnicodeDecodeError"),
        (KeyError("secret"), console.BUG, "a bug in Lumberjack"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_mistakes_end_in_one_line(error, code, said, capsys):
    def fail():
        raise error

    assert console.run(fail) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "secret" not in err
    assert err.count("\n") == 1
