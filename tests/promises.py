"""Altered guarantees, and lists of events from plain numbers."""

import dataclasses
import functools
import math

from lumberjack import Choices, NoisySums, ThresholdQueries, plan

plain = functools.partial(plan, columns=(0, 0), target=False)  # nothing is learned before trees grow

FIELDS = {  # flat names: kind of an event, its uses, which of them, and what it is called there
    "queries_per_record": (ThresholdQueries, ("structure",), 0, "count"),
    "threshold_noise": (ThresholdQueries, ("structure",), 0, "noise"),
    "cutoff": (ThresholdQueries, ("structure",), 0, "cutoff"),
    "threshold": (ThresholdQueries, ("structure",), 0, "threshold"),
    "cut": (ThresholdQueries, ("structure",), 0, "cut"),
    "choices_per_record": (Choices, ("splits", "leaves"), 0, "count"),
    "choice_exponent": (Choices, ("splits", "leaves"), 0, "exponent"),
    "choice_range": (Choices, ("splits", "leaves"), 0, "score_range"),
    "counts_per_record": (NoisySums, ("leaves", "prefixes"), 0, "count"),
    "leaf_noise": (NoisySums, ("leaves", "prefixes"), 0, "noise"),
    "sum_noise": (NoisySums, ("leaves",), 1, "noise"),
    "sum_bound": (NoisySums, ("leaves",), 1, "reach"),
}


def changed(promise, **claims):
    """The guarantee with changed fields; flat names stand for numbers in its events."""
    events = list(promise.events)
    for name in claims.keys() & FIELDS.keys():
        kind, uses, n, field = FIELDS[name]
        place = [i for i, e in enumerate(events) if isinstance(e, kind) and e.use in uses][n]
        events[place] = dataclasses.replace(events[place], **{field: claims.pop(name)})
    return dataclasses.replace(promise, **{"events": tuple(events), **claims})


def events(m, sigma, Delta, k=0, leaf_sigma=math.inf, rows=1):
    """Threshold queries with the smallest threshold for ``rows`` rows per person, and noisy counts."""
    tau = Delta + rows
    return (ThresholdQueries(m, sigma, tau - rows, tau), NoisySums(k, leaf_sigma))


def forest(m, k=0, leaf_share=0.5, choices=0, choice_share=0.3, score_range=2.0):
    """Parts of a budget: threshold queries, choices and noisy counts, and what each gets of mu^2."""
    leaf_share, choice_share = leaf_share * (k > 0), choice_share * (choices > 0)
    parts = [((ThresholdQueries(m, 1.0, 0.0, 0.0),), 1 - choice_share - leaf_share)]
    if choices:
        parts.append(((Choices(choices, 1.0, score_range),), choice_share))
    if k:
        parts.append(((NoisySums(k, 1.0),), leaf_share))
    return parts
