"""Names of untrusted files in messages."""

import pytest

from lumberjack.quoting import bare, bare_all, quote, quote_all, reading


def test_a_name_cannot_control_a_terminal():
    assert quote("a\x1b[31m\nb") == r"'a\x1b[31m\nb'"


def test_a_long_name_is_cut():
    said = quote("x" * 1000)
    assert len(said) <= 80
    assert "..." in said


def test_many_names_are_counted():
    assert quote_all(["b", "a"]) == "'b', 'a'"
    assert quote_all(map(str, range(10))).count("'") == 20
    said = quote_all(str(i) for i in range(13))
    assert said.endswith("'9' and 3 more")


def test_a_harmless_name_needs_no_quotation_marks():
    assert bare("größe 1") == "größe 1"
    assert bare("a\u202eb") == r"'a\u202eb'"
    assert len(bare("x" * 1000)) <= 80
    assert bare_all(["b", "a\n"]) == r"b, 'a\n'"


def test_what_a_library_says_of_a_value_is_not_repeated():
    with (
        pytest.raises(ValueError, match=r"^y holds values that cannot be read$") as caught,
        reading("y"),
    ):
        raise KeyError("HIV")
    assert caught.value.__suppress_context__
    for error in (MemoryError, KeyboardInterrupt):
        with pytest.raises(error), reading("y"):
            raise error
