"""The theorem behind a record as a formula with all its numbers, for whoever checks it by hand.

In: a ``Guarantee``. Out: sentences. They say what ``verify`` computes, and nothing else is needed to
compute it again.
"""

from lumberjack.guarantee import Guarantee

__all__ = ["by_hand"]

_ZCDP = "2·exp(−(a − ρ)²/(4ρ)) / (1 + x + √((1 + x)² + 4/(πρ))) with x = (a − ρ)/(2ρ), and 1 if a < ρ"


def by_hand(g: Guarantee) -> list[str]:
    """Formula, meaning of its parts, and numbers of a record."""
    numbers: dict[str, float | None] = {
        "ε": g.epsilon,
        "m": g.queries_per_record,
        "σ": g.threshold_noise,
        "Δ": g.cutoff,
        "k": g.counts_per_record,
        "σ_L": g.leaf_noise,
        "B": g.sum_bound,
        "σ_s": g.sum_noise,
    }
    if g.guided_levels:
        numbers |= {"N": g.choices_per_record, "λ": g.choice_exponent, "w": g.choice_range}
    if g.accounting == "paper":
        numbers["s"] = g.structure_share
    if g.rows_per_person > 1:
        numbers["r"] = g.rows_per_person
    said = _paper(g) if g.accounting == "paper" else _joint(g)
    listed = ", ".join(f"{name} = {v:.12g}" for name, v in numbers.items() if v is not None)
    said.append(f"The numbers: {listed}.")
    if g.cutoff is not None:
        said.append(
            f"The threshold τ = {g.threshold:.12g} must be at least c + {g.rows_per_person} + Δ, where "
            f"c = {g.cut} is the largest count that never passes."
        )
    return said


def _joint(g: Guarantee) -> list[str]:
    """The joint bound, with choices or without: docs/guarantee.md."""
    people = g.rows_per_person > 1
    spent = "m/σ²" if g.leaf_noise is None else f"m/σ² + {_leaves(g)}"
    gauss = "Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)"
    cut = "1 − min(Φ(Δ/σ)^m, Φ((Δ + r − 1)/σ)^(r·m))" if people else "1 − Φ(Δ/σ)^m"
    said = [
        f"δ = {'E U_N(Z − ε)' if g.guided_levels else gauss}{'' if g.cutoff is None else f' + {cut}'}, "
        f"where μ² is {f'r²·({spent})' if people else spent}."
    ]
    if g.guided_levels:
        said += [
            "Z is normal with mean μ² / 2 and variance μ². U_0(y) is the larger of 1 − e^(−y) and 0; "
            "U_j(y), for j = 1 to N, is the largest p·U_(j−1)(y + t) + (1 − p)·U_(j−1)(y + t − η) over "
            "0 ≤ t ≤ η, where p is (e^η − e^t)/(e^η − 1) and η is "
            f"{'r·λ·w' if people else 'λ·w'}.",
            "Lumberjack computes U_N from above, by some per cent for hundreds of choices. Where it is "
            f"smaller, the first term is instead the price in zCDP, {_ZCDP}; a is ε and ρ is "
            "μ²/2 + N·η²/8.",
        ]
    return said


def _paper(g: Guarantee) -> list[str]:
    """Theorem 1 for the structure, zCDP for the leaves, and both added up."""
    rho = "k/(8·σ_L²)" if g.leaf == "exponential" else f"({_leaves(g)})/2"
    return [
        "δ is the largest, over j = 0 to m, of 1 − q + q·G(s·ε − ln q, √j/σ) and G(s·ε + ln q, √j/σ), "
        "where q is Φ(Δ/σ)^(m − j), G(a, μ) is Φ(μ/2 − a/μ) − e^a·Φ(−μ/2 − a/μ), and G(a, 0) is 0.",
        f"To it comes {_ZCDP}; a is (1 − s)·ε and ρ is {rho}.",
    ]


def _leaves(g: Guarantee) -> str:
    """What the leaves spend of mu^2."""
    return "k/σ_L²" if g.sum_noise is None else "k/σ_L² + k·B²/σ_s²"
