"""Tables of the accuracy benchmark: means and deviations, and how far the default is ahead of rivals.

In: one record for each fit. Out: text. Nothing is run here.
"""

from collections import defaultdict

import numpy as np

from benchmarks.contestants import MODELS, NOT_PRIVATE, OURS, RIVALS
from benchmarks.problems import FOUR, PROBLEMS

KEYS = {"accuracy": "accuracy", "auc": "AUC", "brier": "Brier", "ece": "reliability", "r2": "R2"}
SMALLER = ("brier", "ece")  # better when smaller
MEAN = "mean of four"


def by_place(records: list[dict]) -> dict[tuple, dict[str, dict[str, np.ndarray]]]:
    """Scores of all splits, in order of splits: by rows, table and epsilon, then model, then score."""
    grouped = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in sorted(records, key=lambda r: r["seed"]):
        place = record["rows"], record["data"], record["epsilon"]
        for key in KEYS:
            if key in record:
                grouped[place][record["model"]][key].append(record[key])
    return {
        place: {
            model: {key: np.array(values) for key, values in scores.items()}
            for model, scores in models.items()
        }
        for place, models in grouped.items()
    }


def with_means(grouped):
    """The same, and the mean over the four tables, of models with equally many splits on each."""
    out = dict(grouped)
    for rows, epsilon in dict.fromkeys((rows, epsilon) for rows, _, epsilon in grouped):
        four = [grouped.get((rows, data, epsilon), {}) for data in FOUR]
        models = {}
        for model in set.intersection(*(set(found) for found in four)):
            each = [found[model] for found in four]
            if len({len(scores["auc"]) for scores in each}) == 1:
                models[model] = {key: np.mean([s[key] for s in each], axis=0) for key in each[0]}
        if models:
            out[rows, MEAN, epsilon] = models
    return out


def _order(place):
    rows, data, epsilon = place
    names = [*PROBLEMS, MEAN]
    return rows is not None, rows or 0, names.index(data), epsilon is None, epsilon or 0.0


def _place(place) -> str:
    rows, data, epsilon = place
    size = f"{rows:,} rows" if rows else "all rows"
    return f"{data:16} {size:10} {'-' if epsilon is None else format(epsilon, 'g'):>4}"


def score_table(grouped) -> str:
    """A line for each table, epsilon and model: means and deviations over splits."""
    lines = ["table            rows        eps  model                   n  scores: mean ± deviation"]
    for place in sorted(grouped, key=_order):
        for model in sorted(grouped[place], key=MODELS.index):
            scores = grouped[place][model]
            n = len(next(iter(scores.values())))
            said = "  ".join(
                f"{KEYS[k]} {shown(v.mean())} ± {shown(v.std())}" for k, v in scores.items()
            )
            lines.append(f"{_place(place)}  {model:22} {n:2}  {said}")
    return "\n".join(lines)


def lead_table(grouped) -> str:
    """For each table and epsilon: the best rival, and how far each of ours is ahead of it.

    Positive: better, also where small scores are. Over the splits that both have.
    """
    lines = ["table            rows        eps  score        best rival           ahead of it"]
    for place in sorted(grouped, key=_order):
        models = grouped[place]
        for key in KEYS:
            rivals = {m: models[m][key].mean() for m in RIVALS if key in models.get(m, {})}
            ours = [m for m in OURS if key in models.get(m, {})]
            if not ours:
                continue
            sign = -1 if key in SMALLER else 1
            best = max(rivals, key=lambda m: sign * rivals[m], default=None)
            best = best or ours[0]  # without rivals: what is lost next to the first of ours
            ahead = "  ".join(
                f"{m} {shown(sign * difference(models[m][key], models[best][key]), '+')}"
                for m in ours
                if m != best
            )
            score = f"{best} {shown(models[best][key].mean())}"
            lines.append(f"{_place(place)}  {KEYS[key]:11}  {score:20} {ahead}")
    return "\n".join(lines)


def shown(value: float, sign: str = "") -> str:
    """A score with four digits; R2 of nonsense has no bound."""
    return f"{value:{sign}.4f}" if abs(value) < 10 else "< -10" if value < 0 else "> 10"


def difference(ours, theirs) -> float:
    """Mean difference over the splits that both have."""
    n = min(len(ours), len(theirs))
    return float(np.mean(ours[:n] - theirs[:n]))


def tables(records: list[dict]) -> str:
    """All that the records say."""
    if not records:
        return "no results"
    grouped = with_means(by_place(records))
    apart = {place: found for place, found in grouped.items() if place[2] is None}
    private = {place: found for place, found in grouped.items() if place[2] is not None}
    parts = [score_table(private), "Without privacy", score_table(apart), lead_table(private)]
    if not apart:
        del parts[1:3]
    assert all(model in NOT_PRIVATE for found in apart.values() for model in found)
    return "\n\n".join(parts)
