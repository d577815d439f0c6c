"""Names of a stranger's file in messages."""

from lumberjack.quoting import quote, quote_all


def test_a_name_cannot_steer_a_terminal():
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
