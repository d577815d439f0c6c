"""The theorem behind a guarantee as a formula with all its numbers, to be checked by hand.

In: a ``Guarantee``. Out: sentences. They say what ``verify`` computes, and nothing else is needed to
compute it again.
"""

from lumberjack.accounting import Choices, Event, NoisySums, ThresholdQueries
from lumberjack.events import FIT_USES, use_in_words
from lumberjack.guarantee import Guarantee

__all__ = ["by_hand"]

_ZCDP = "2·exp(−(a − ρ)²/(4ρ)) / (1 + x + √((1 + x)² + 4/(πρ))) with x = (a − ρ)/(2ρ), and 1 if a < ρ"


def by_hand(g: Guarantee) -> list[str]:
    """Formula, meaning of its parts, and numbers of a record: one line for each event."""
    numbers: dict[str, float | None] = {"ε": g.epsilon}
    if g.accounting == "paper":
        numbers["s"] = g.structure_share
    if g.rows_per_person > 1:
        numbers["r"] = g.rows_per_person
    said = {"paper": _paper, "joint": _joint, "zcdp": _zcdp}[g.accounting](g)
    if any(event.use in FIT_USES for event in g.events):
        said.append(
            "For cell sizes, and in each step of a fit, a row is in several sums, or vectors of sums, "
            "each with noise σ/√a. The shares a of all sums in which a row is add up to at most 1. So "
            "all of them together cost as much as a single sum with noise σ that a row moves by B."
        )
    said.append(f"The numbers: {_listed(numbers)}. The events, in their order:")
    said += [f"{i + 1}. {_event(event)}" for i, event in enumerate(g.events)]
    if any(isinstance(event, ThresholdQueries) and event.cutoff is not None for event in g.events):
        said.append(
            f"Each threshold τ must be at least c + {g.rows_per_person} + Δ, where c is the largest "
            "count that never passes."
        )
    return said


def _listed(numbers: dict[str, float | None]) -> str:
    return ", ".join(f"{name} = {v:.12g}" for name, v in numbers.items() if v is not None)


def _event(event: Event) -> str:
    """An event by the symbols of the formulas."""
    numbers: dict[str, float | None]
    if isinstance(event, Choices):
        numbers = {"N": event.count, "λ": event.exponent, "w": event.score_range}
    elif isinstance(event, NoisySums):
        numbers = {"k": event.count, "σ": event.noise, "B": event.reach}
    else:
        numbers = {"m": event.count, "σ": event.noise, "Δ": event.cutoff, "τ": event.threshold}
        numbers |= {"c": None if event.cutoff is None else event.cut}
    return f"{event.kind.capitalize()} ({use_in_words(event)}): {_listed(numbers)}."


def _sums(g: Guarantee) -> str:
    """mu^2 as sums over the kinds of events present."""
    parts = {ThresholdQueries: "Σ m/σ² over threshold queries", NoisySums: "Σ k·B²/σ² over noisy sums"}
    return " + ".join(said for kind, said in parts.items() if any(isinstance(e, kind) for e in g.events))


def _cut(g: Guarantee) -> str:
    """What the cut-offs add."""
    if not any(isinstance(event, ThresholdQueries) and event.cutoff is not None for event in g.events):
        return ""
    one = "min(Φ(Δ/σ)^m, Φ((Δ + r − 1)/σ)^(r·m))" if g.rows_per_person > 1 else "Φ(Δ/σ)^m"
    return f" + 1 − Π {one}, a product over threshold queries"


def _joint(g: Guarantee) -> list[str]:
    """The joint bound, with choices or without: docs/guarantee.md."""
    chosen, people = any(isinstance(event, Choices) for event in g.events), g.rows_per_person > 1
    main = "E U(Z − ε)" if chosen else "Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)"
    said = [f"δ = {main}{_cut(g)}. Here μ² is {f'r²·({_sums(g)})' if people else _sums(g)}."]
    if chosen:
        said += [
            "Z is normal with mean μ²/2 and variance μ². U(y) starts as the larger of 1 − e^(−y) and 0. "
            "Go through the choices, the last event first, N times each, and replace U(y) by the "
            "largest p·U(y + t) + (1 − p)·U(y + t − η) over 0 ≤ t ≤ η, where p is (e^η − e^t)/(e^η − 1) "
            f"and η is {'r·λ·w' if people else 'λ·w'}.",
            "Lumberjack computes an upper bound on U, some per cent too large for hundreds of "
            f"choices. Where it is smaller, the first term is instead the price in zCDP, {_ZCDP}; a is "
            "ε and ρ is μ²/2 + Σ N·η²/8.",
        ]
    return said


def _zcdp(g: Guarantee) -> list[str]:
    """zCDP of everything, and the cut-offs."""
    rho = f"({_sums(g)})/2 + Σ N·(λ·w)²/8 over choices"
    rho = f"r²·({rho})" if g.rows_per_person > 1 else rho
    cut = f" To this add{_cut(g).removeprefix(' +')}." if _cut(g) else ""
    return [f"δ is {_ZCDP}; a is ε and ρ is {rho}.{cut}"]


def _paper(g: Guarantee) -> list[str]:
    """Theorem 1 for the structure, zCDP for the leaves, and both added up."""
    chosen = any(isinstance(event, Choices) for event in g.events)
    rho = "N·(λ·w)²/8" if chosen else "Σ k·B²/(2·σ²) over noisy sums"
    return [
        "δ is the largest, over j = 0 to m, of 1 − q + q·G(s·ε − ln q, √j/σ) and G(s·ε + ln q, √j/σ), "
        "where q is Φ(Δ/σ)^(m − j), G(a, μ) is Φ(μ/2 − a/μ) − e^a·Φ(−μ/2 − a/μ), and G(a, 0) is 0; m, σ "
        "and Δ are those of the threshold queries.",
        f"To this add {_ZCDP}; a is (1 − s)·ε and ρ is {rho}.",
    ]
