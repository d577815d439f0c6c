"""Asking about columns: what answers mean, going back, and resuming."""

import datetime as dt

import pytest

from lumberjack import Domain
from lumberjack.declared import SKIP
from lumberjack.kinds import Categorical, Numeric, Open
from lumberjack.wizard import HELP, Wizard


def ask(lines, types, **more):
    """Answers, questions, remarks and what was kept after each answer."""
    given, asked, said, kept = iter(lines), [], [], []

    def answer(question):
        asked.append(question)
        return next(given)

    wizard = Wizard(answer, said.append, lambda a: kept.append(dict(a)), **more)
    found = wizard.run(dict.fromkeys(types, "unknown") if isinstance(types, str) else types)
    assert next(given, None) is None
    return found, asked, said, kept


ANSWERS = {
    "": None,
    "17:90": Numeric(17, 90),
    " -1.5 : 2e3 ": Numeric(-1.5, 2000),
    "2020-01-01:2021-01-01": Domain.numeric(dt.date(2020, 1, 1), dt.date(2021, 1, 1)),
    "no, yes": Categorical(("no", "yes"), missing=True),
    "yes,": Categorical(("yes",), missing=True),
    "1,2,3": Categorical((1, 2, 3), missing=True),
    "8:30,9:30": Categorical(("8:30", "9:30"), missing=True),
    "number": Numeric(),
    "date": Numeric(temporal=True),
    "category": Open(),
    "skip": SKIP,
}


@pytest.mark.parametrize("line", ANSWERS)
def test_answers_are_understood(line):
    found, *_ = ask([line, ""], "a")
    assert found == {"a": ANSWERS[line]}


@pytest.mark.parametrize("line", ["5", "yes", "9:1", "a:b", "1,1", "n", "undo", "same", "inf:9"])
def test_invalid_answers_are_asked_again(line):
    found, asked, said, _ = ask([line, "0:1", ""], "a")
    assert found == {"a": Numeric(0, 1)}
    assert asked[0] == asked[1]
    assert len(said) == 3


def test_undo_goes_back_as_far_as_wanted_even_at_the_end():
    found, asked, _, kept = ask(["0:1", "0:2", "undo", "undo", "0:3", "0:4", "undo", "0:5", ""], "ab")
    assert found == {"a": Numeric(0, 3), "b": Numeric(0, 5)}
    assert [q.split()[-1] for q in asked] == ["a", "b", "back", "b", "a", "b", "back", "b", "back"]
    assert [len(answers) for answers in kept] == [1, 2, 1, 0, 1, 2, 1, 2]


def test_same_as_before():
    found, *_ = ask(["x,y", "same", "skip", "same", "", "same", ""], "abcdef")
    known = Categorical(("x", "y"), missing=True)
    assert list(found.values()) == [known, known, SKIP, SKIP, None, None]


def test_the_rest_may_stay_open():
    columns = {f"c{i}": "numeric" for i in range(45)}
    found, asked, _, _ = ask(["rest"], columns)
    assert found == dict.fromkeys(columns)
    assert asked == ["1/45 c0 (numeric)"]


def test_one_line_for_each_column_is_enough():
    columns = {f"c{i}": "unknown" for i in range(45)}
    found, asked, _, _ = ask([f"0:{i + 1}" for i in range(45)] + [""], columns)
    assert len(asked) == 46
    assert found == {f"c{i}": Numeric(0, i + 1) for i in range(45)}


def test_help_is_repeated_when_asked_for():
    _, _, said, _ = ask(["?", "rest"], "ab")
    assert said == [HELP, HELP]


def test_resuming_after_an_interruption():
    answers = {"a": Numeric(0, 1), "b": None}
    found, asked, _, _ = ask(["same", "undo", "undo", "0:9", "", ""], "abc", answers=answers)
    assert [q.split()[:2] for q in asked[:4]] == [
        ["3/3", "c"],
        ["Enter", "to"],
        ["3/3", "c"],
        ["2/3", "b"],
    ]
    assert found == {"a": Numeric(0, 1), "b": Numeric(0, 9), "c": None}


def test_dates_as_they_are_written():
    found, *_ = ask(
        ["01.02.2020:31.12.2020", "2020-01-01:2020-12-31", "date", ""], "abc", date_format="%d.%m.%Y"
    )
    assert found["a"] == Domain.numeric("01.02.2020", "31.12.2020", date_format="%d.%m.%Y")
    assert found["b"] == Domain.numeric("01.01.2020", "31.12.2020", date_format="%d.%m.%Y")
    assert found["c"] == Domain.numeric(date_format="%d.%m.%Y")


def test_answers_are_repeated_as_they_were_understood():
    lines = ["", "0,5:1,5", "0:1.5", "number", "2020-01-01:2021-01-01", "date", "category", "skip", ""]
    _, _, said, _ = ask(lines, "abcdefgh")
    assert [text.strip() for text in said[1:]] == [
        "left open",
        "one of: 0 | 5:1 | 5, or missing",
        "numbers from 0 to 1.5",
        "numbers",
        "dates in this range",
        "dates",
        "categories, to be learned",
        "left out",
    ]


def test_names_cannot_control_the_terminal():
    _, asked, _, _ = ask(["rest"], {"\x1b[2Jage": "unknown"})
    assert "\x1b" not in asked[0]
