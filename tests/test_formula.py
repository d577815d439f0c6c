"""The formula in a report: its numbers are enough to compute delta again."""

import re

import mpmath
import pytest
import reference

from lumberjack import plan
from lumberjack.formula import by_hand


def numbers(g):
    (line,) = [line for line in by_hand(g) if line.startswith("The numbers: ")]
    return {name: float(value) for name, value in re.findall(r"(\S+) = (\d[\d.e+-]*\d|\d)", line)}


@pytest.mark.parametrize("people", [1, 3])
def test_delta_from_the_numbers_alone(people):
    g = plan(1.0, 1e-6, splits="random", rows_per_person=people)
    n = numbers(g)
    found = reference.joint_delta(
        n["ε"], int(n["m"]), n["σ"], n["Δ"], int(n["k"]), n["σ_L"], int(n.get("r", 1))
    )
    assert float(found) == pytest.approx(1e-6, rel=1e-5)


def test_delta_of_the_papers_accounting_from_the_numbers_alone():
    g = plan(1.0, 1e-6, splits="random", accounting="paper")
    n = numbers(g)
    structure = reference.theorem1_delta(n["s"] * n["ε"], int(n["m"]), n["σ"], n["Δ"])
    leaves = reference.zcdp_delta((1 - n["s"]) * n["ε"], n["k"] / n["σ_L"] ** 2 / 2)
    assert mpmath.almosteq(structure + leaves, 1e-6, rel_eps=1e-6)


def test_guided_splits_name_their_choices():
    g = plan(1.0, 1e-6, 3, 20, splits="guided")
    n = numbers(g)
    assert (n["N"], n["w"]) == (g.choices_per_record, g.choice_range)
    assert n["λ"] == pytest.approx(g.choice_exponent, rel=1e-11)
    assert "λ" not in numbers(plan(1.0, splits="random"))


def test_the_threshold_is_above_the_cut():
    for g in (plan(1.0, splits="random"), plan(1.0, splits="random", rows_per_person=4)):
        last = by_hand(g)[-1]
        threshold = float(re.search(r"τ = ([\d.]+)", last)[1])
        assert f"at least c + {g.rows_per_person} + Δ" in last
        assert threshold >= g.cut + g.rows_per_person + numbers(g)["Δ"] - 1e-9
