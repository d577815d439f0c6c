"""The formula in a report: its numbers are enough to compute delta again."""

import re

import mpmath
import pytest
import reference
from promises import plain as plan  # nothing is learned

from lumberjack import plan as learning
from lumberjack.formula import by_hand


def numbers(text):
    return {name: float(value) for name, value in re.findall(r"(\S+) = (\d[\d.e+-]*\d|\d)", text)}


def events(g):
    """The numbers of each event, in order."""
    return [numbers(line) for line in by_hand(g) if re.match(r"\d+\. ", line)]


def settings(g):
    (line,) = [line for line in by_hand(g) if line.startswith("The numbers: ")]
    return numbers(line)


@pytest.mark.parametrize("people", [1, 3])
def test_delta_from_the_numbers_alone(people):
    g = plan(1.0, 1e-6, splits="random", rows_per_person=people)
    (queries, leaves), n = events(g), settings(g)
    found = reference.joint_delta(
        n["ε"], int(queries["m"]), queries["σ"], queries["Δ"], int(leaves["k"]), leaves["σ"], people
    )
    assert n.get("r", 1) == people
    assert leaves["B"] == 1
    assert float(found) == pytest.approx(1e-6, rel=1e-5)


def test_delta_of_the_papers_accounting_from_the_numbers_alone():
    g = plan(1.0, 1e-6, splits="random", accounting="paper")
    (queries, leaves), n = events(g), settings(g)
    structure = reference.theorem1_delta(n["s"] * n["ε"], int(queries["m"]), queries["σ"], queries["Δ"])
    sums = reference.zcdp_delta((1 - n["s"]) * n["ε"], leaves["k"] / leaves["σ"] ** 2 / 2)
    assert mpmath.almosteq(structure + sums, 1e-6, rel_eps=1e-6)


def test_guided_splits_name_their_choices():
    g = plan(1.0, 1e-6, 3, 20, leaf="counts")
    choices = events(g)[1]
    assert (choices["N"], choices["w"]) == (g.choices_per_record, g.choice_range)
    assert choices["λ"] == pytest.approx(g.choice_exponent, rel=1e-11)
    assert all("λ" not in event for event in events(plan(1.0, splits="random")))


@pytest.mark.parametrize("people", [1, 3])
def test_delta_of_fitted_leaves_from_the_numbers_alone(people):
    g = plan(1.0, 1e-6, rows_per_person=people)
    listed, n = events(g), settings(g)
    assert [event["k"] for event in listed] == [1, 20, 60]
    mu = n.get("r", 1) * sum(event["k"] * (event["B"] / event["σ"]) ** 2 for event in listed) ** 0.5
    assert float(reference.gaussian_delta(n["ε"], mu)) == pytest.approx(1e-6, rel=1e-5)
    text = " ".join(by_hand(g))
    assert "noise σ/√a. The shares a of all sums in which a row is add up to at most 1" in text
    assert "threshold" not in text  # there are none
    assert "σ/√a" not in " ".join(by_hand(plan(1.0, splits="random")))


def test_fitted_numbers_name_their_choices():
    g = learning(1.0, leaf="fitted-mean", columns=(2, 0))
    chosen = [(e["N"], e["w"]) for e in events(g) if "λ" in e]
    assert chosen == [(10, 1), (1, 1), (1, 1.8), (2, 1.8)]
    assert "(clips of residuals)" in " ".join(by_hand(g))


def test_the_threshold_is_above_the_cut():
    for g in (plan(1.0, splits="random"), plan(1.0, splits="random", rows_per_person=4)):
        queries = events(g)[0]
        assert f"at least c + {g.rows_per_person} + Δ" in by_hand(g)[-1]
        assert queries["τ"] >= queries["c"] + g.rows_per_person + queries["Δ"] - 1e-9
