"""The events of a guarantee: their order, their description in words, and reading them from JSON.

In: events, as numbers, and the shape of what is released. Out: tuples and text. ``accounting.events``
prices them.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, get_args

from lumberjack.accounting import (
    Choices,
    Event,
    NoisySums,
    SumUse,
    ThresholdQueries,
    queries_per_tree,
)
from lumberjack.quoting import quote

__all__ = [
    "FITTED",
    "FIT_STEPS",
    "FIT_USES",
    "MEDIAN_RANGE",
    "QUANTILE_RANGE",
    "SIZED",
    "Kind",
    "in_words",
    "kind_of",
    "kinds_of",
    "leaf_counts",
    "queries_of",
    "read_event",
    "refuse_misfits",
    "score_range",
    "use_in_words",
    "with_uses",
]

# Width within which one record moves all scores of a median, and of a 90 % quantile:
# docs/guarantee.md, "Learned columns".
MEDIAN_RANGE, QUANTILE_RANGE = 1.0, 1.8

FITTED = ("fitted", "fitted-mean")  # leaves whose weights are fitted together
SIZED = ("counts", "mean")  # leaves of pruned trees that release their number of rows
# Of fitted leaves: what is summed, and how often. A record that claims fewer steps promises nothing.
FIT_STEPS: dict[SumUse, int] = {"sizes": 1, "columns": 20, "pairs": 60}
FIT_USES: tuple[SumUse, ...] = tuple(FIT_STEPS)

Kind = tuple[type, str]  # class of an event, and its use

_EVENTS = {cls.kind: cls for cls in (ThresholdQueries, Choices, NoisySums)}
_SINGULAR = {"threshold queries": "threshold query", "choices": "choice", "noisy sums": "noisy sum"}
_WORDS: dict[Kind, str] = {
    (ThresholdQueries, "structure"): "nodes",
    (ThresholdQueries, "categories"): "values of categories",
    (ThresholdQueries, "classes"): "classes",
    (Choices, "cuts"): "cuts of numbers",
    (Choices, "scale"): "place and scale of the target",
    (Choices, "splits"): "splits",
    (Choices, "leaves"): "labels of leaves",
    (NoisySums, "leaves"): "leaves",
    (NoisySums, "calibration"): "calibration",
    (NoisySums, "prefixes"): "prefixes",
    (Choices, "clips"): "clips of residuals",
    (NoisySums, "sizes"): "rows of all cells of columns",
    (NoisySums, "columns"): "steps of the fit of columns",
    (NoisySums, "pairs"): "steps of the fit of columns and pairs",
}


def kind_of(event: Event) -> Kind:
    """What decides an event's place: its class and its use."""
    return type(event), event.use


def kinds_of(
    leaf: str, guided: bool, learned: Sequence[Kind] = (), calibrated: bool = False
) -> tuple[Kind, ...]:
    """Kinds of the events of a forest or a search, in their order: see ``Guarantee.events``.

    ``calibrated``: a guided forest of a model file up to version 5, which a histogram corrects.
    """
    if leaf in FITTED:
        clips: tuple[Kind, ...] = ((Choices, "clips"),) * (leaf != "fitted")
        return *learned, *clips, *((NoisySums, use) for use in FIT_USES)
    once: tuple[Kind, ...] = ((NoisySums, "leaves"),)
    once = {
        "exponential": ((Choices, "leaves"),),
        "mean": once * 2,
        "prefixes": ((NoisySums, "prefixes"),),
        "none": (),
    }.get(leaf, once)
    again = ((NoisySums, "calibration"),) * len(once) if calibrated and guided and leaf in SIZED else ()
    splits = ((Choices, "splits"),) * guided
    return (*learned, (ThresholdQueries, "structure"), *splits, *once, *again)


def with_uses(events: Sequence[Event], leaf: str) -> tuple[Event, ...]:
    """Events of an old record with their uses, which follow from the order; other lists are kept."""
    for guided in (True, False):
        kinds = kinds_of(leaf, guided, calibrated=True)
        if [cls for cls, _ in kinds] == [type(event) for event in events]:
            return tuple(
                dataclasses.replace(event, use=use)  # type: ignore[arg-type]
                for event, (_, use) in zip(events, kinds, strict=True)
            )
    return tuple(events)


def queries_of(method: str, height: int) -> int:
    """Threshold queries that one record meets in one tree: every level of it, or a binary search."""
    return height if method == "top-down" else queries_per_tree(height)


def leaf_counts(leaf: str, height: int) -> int:
    """Noisy counts that one record takes part in, in one tree: its leaf, or a prefix on each level."""
    return {"none": 0, "prefixes": height}.get(leaf, 1)


def score_range(leaf: str) -> float:
    """Width within which one record moves the scores of all candidate splits: see ``guided``."""
    return 1.0 if leaf == "mean" else 2.0


def in_words(event: Event) -> str:
    """An event and its parameters in words."""
    name = _SINGULAR[event.kind] if event.count == 1 else event.kind
    if isinstance(event, Choices):
        said = f"exponent {event.exponent:.6g}, scores move by {event.score_range:g}"
    elif isinstance(event, NoisySums):
        said = f"noise {event.noise:.6g}, moved by {event.reach:,}"
    else:
        said = f"count + noise {event.noise:.6g} > {event.threshold:.6g}"
        if event.cutoff is not None:
            said += f"; never for counts up to {event.cut} (cut-off {event.cutoff:.6g})"
    return f"{event.count:,} {name} a row ({use_in_words(event)}): {said}"


def use_in_words(event: Event) -> str:
    """What an event is for."""
    return _WORDS.get(kind_of(event), "unknown use")


def read_event(pairs: object, *, has_use: bool = True) -> Event:
    """One event, from the name-value pairs of its JSON object."""
    found = dict(pairs) if isinstance(pairs, tuple) else {}
    kind = _EVENTS.get(found.pop("kind", None)) if isinstance(found.get("kind"), str) else None
    if kind is None or not isinstance(pairs, tuple):
        raise ValueError(f"not a guarantee: each event must have a kind, one of {', '.join(_EVENTS)}")
    types = {field.name: field.type for field in dataclasses.fields(kind) if field.init}
    if not has_use:
        del types["use"]
    if sorted(name for name, _ in pairs) != sorted([*types, "kind"]):
        raise ValueError(f"not a guarantee: {kind.kind} must have each of {', '.join(types)} once")
    refuse_misfits(found, types)
    return kind(**found)


def refuse_misfits(found: dict[str, Any], types: dict[str, Any]) -> None:
    """Refuse JSON values that are not of their field's type."""
    for name, annotation in types.items():
        if not _fits(found[name], annotation):
            raise ValueError(f"not a guarantee: {name} must not be {quote(found[name])}")


def _fits(value: object, annotation: Any) -> bool:
    """Whether a JSON value has the annotated type; whole numbers count as floats."""
    if annotation == tuple[str, ...]:
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    options = get_args(annotation) or (annotation,)
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return value in options
    if value is None:
        return type(None) in options
    if isinstance(value, int):
        return (int in options or float in options) and abs(value) < 2**63
    return isinstance(value, float) and float in options and math.isfinite(value)
