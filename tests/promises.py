"""Altered guarantees, and lists of events from plain numbers."""

import dataclasses
import math

from lumberjack import Choices, NoisySums, ThresholdQueries

FIELDS = {  # flat names: which event of its kind, and what it is called there
    "queries_per_record": (ThresholdQueries, 0, "count"),
    "threshold_noise": (ThresholdQueries, 0, "noise"),
    "cutoff": (ThresholdQueries, 0, "cutoff"),
    "threshold": (ThresholdQueries, 0, "threshold"),
    "cut": (ThresholdQueries, 0, "cut"),
    "choices_per_record": (Choices, 0, "count"),
    "choice_exponent": (Choices, 0, "exponent"),
    "choice_range": (Choices, 0, "score_range"),
    "counts_per_record": (NoisySums, 0, "count"),
    "leaf_noise": (NoisySums, 0, "noise"),
    "sum_noise": (NoisySums, 1, "noise"),
    "sum_bound": (NoisySums, 1, "reach"),
}


def changed(promise, **claims):
    """The guarantee with changed fields; flat names stand for numbers in its events."""
    events = list(promise.events)
    for name in claims.keys() & FIELDS.keys():
        kind, n, field = FIELDS[name]
        place = [i for i, event in enumerate(events) if isinstance(event, kind)][n]
        events[place] = dataclasses.replace(events[place], **{field: claims.pop(name)})
    return dataclasses.replace(promise, **{"events": tuple(events), **claims})


def events(m, sigma, Delta, k=0, leaf_sigma=math.inf, rows=1):
    """Threshold queries with the smallest threshold for ``rows`` rows per person, and noisy counts."""
    tau = Delta + rows
    return (ThresholdQueries(m, sigma, tau - rows, tau), NoisySums(k, leaf_sigma))
