"""The command that says what a budget buys; it needs no data."""

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, Any

import typer

from lumberjack.accounting import NoisySums, ThresholdQueries
from lumberjack.console import print_guarantee, print_json, print_rows, show
from lumberjack.guarantee import Guarantee, Leaf
from lumberjack.options import (
    LEAF_OF_NUMBERS,
    AccountingOption,
    Delta,
    Depth,
    Epsilon,
    Json,
    LeafOption,
    RowsPerPerson,
    Share,
    SplitsOption,
    Trees,
    app,
)
from lumberjack.planning import plan

__all__ = ["plan_command"]


@app.command("plan")
def plan_command(
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    trees: Trees = 20,
    depth: Depth = 100,
    regression: Annotated[bool, typer.Option("--regression", help="Predict a number.")] = False,
    leaf: LeafOption = None,
    splits: SplitsOption = None,
    accounting: AccountingOption = "joint",
    structure_share: Share = None,
    rows_per_person: RowsPerPerson = 1,
    as_json: Json = False,
) -> None:
    """Say what noise and thresholds a budget buys; no data needed."""
    if regression and leaf is not None:
        raise ValueError(LEAF_OF_NUMBERS)
    kind: Leaf | None = leaf
    if regression:
        kind = "mean" if splits == "random" or accounting == "paper" else "fitted-mean"

    def promise(epsilon: float) -> Guarantee:
        return plan(
            epsilon,
            delta,
            trees,
            depth,
            splits=splits,
            accounting=accounting,
            leaf=kind,
            structure_share=structure_share,
            rows_per_person=rows_per_person,
        )

    chosen = promise(epsilon)
    others = [promise(e) for e in sorted({0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, epsilon})]
    if as_json:
        table = [_brief(g) for g in others]
        print_json({"guarantee": dataclasses.asdict(chosen), **_brief(chosen), "table": table})
        return
    print_guarantee(chosen)
    show("")
    head, row, title, said = _of_fit(chosen) if chosen.fits_leaves else _of_trees(chosen)
    rows = [
        [
            f"{g.epsilon:g}" + (" <-" if g.epsilon == chosen.epsilon else ""),
            *row(g),
            f"{g.suggested_rows:,}",
        ]
        for g in others
    ]
    print_rows(["epsilon", *head, "rows needed"], rows, title=f"What delta = {delta:g} buys {title}")
    show(said)


# Names of columns, a row of a guarantee, the end of a title, and what it all means.
_Table = tuple[list[str], Callable[[Guarantee], list[str]], str, str]


def _of_trees(chosen: Guarantee) -> _Table:
    """What a budget buys for pruned trees."""
    head = ["rows to split a node", "its noise", "rows in a leaf (about)", "leaf noise"]

    def row(g: Guarantee) -> list[str]:
        return [
            f"{g.threshold:,.0f} rows",
            f"{g.threshold_noise:,.1f}",
            f"{g.threshold / 2:,.0f}",
            f"{g.leaf_noise or 0:,.2f}",
        ]

    said = (
        f"With fewer than about {chosen.suggested_rows:,} rows the trees stay stumps: raise epsilon, or "
        "take fewer trees. A leaf is a child of a split node and too small to be split itself: it holds "
        "about half of the rows that a split needs. The noise of its count should be far below that."
    )
    return head, row, f"with {chosen.n_estimators} trees", said


def _of_fit(chosen: Guarantee) -> _Table:
    """What a budget buys for leaves that are fitted together."""
    columns, pairs = (_brief(chosen)["steps"][use] for use in ("columns", "pairs"))
    head = ["rows to name a category", "noise of a cell's rows", "noise of a step", "of all steps"]

    def row(g: Guarantee) -> list[str]:
        found = _brief(g)
        named = found["category_threshold"]
        return [
            "-" if named is None else f"{named:,.0f}",
            f"{found['size_noise']:,.1f}",
            f"{found['step_noise']:,.1f}",
            f"{found['step_noise'] / math.sqrt(pairs):,.1f}",
        ]

    n = _n_columns(chosen)
    said = (
        f"With fewer than about {chosen.suggested_rows:,} rows the model knows little beyond the "
        "shares of the classes, or the mean: raise epsilon, or leave columns out. A category with fewer "
        "rows than shown has no name in the model and counts as other. Cells are categories, intervals "
        "of numbers, and missing values. There is a tree for each column, and one for each pair of up "
        f"to {chosen.n_estimators} columns. Their weights are fitted in {columns} steps on columns and "
        f"{pairs} on columns and pairs. In a step a row moves each sum that it is in by at most 1; all "
        f"sums share the noise that is shown, for one of the last {pairs} steps and for their average."
    )
    return head, row, f"with {n} columns", said


def _n_columns(g: Guarantee) -> int:
    """Columns in a plan: those of which something is learned, as it knows no others."""
    return max(g.numbers_learned + g.categories_learned, 1)


def _brief(g: Guarantee) -> dict[str, Any]:
    if g.fits_leaves:
        of = {event.use: event for event in g.events}
        sums = {use: event for use, event in of.items() if isinstance(event, NoisySums)}
        named = of.get("categories")
        return {
            "epsilon": g.epsilon,
            "category_threshold": named.threshold if isinstance(named, ThresholdQueries) else None,
            "size_noise": sums["sizes"].noise * math.sqrt(_n_columns(g)),
            "step_noise": sums["pairs"].noise / sums["pairs"].reach,
            "steps": {use: sums[use].count for use in ("columns", "pairs")},
            "suggested_rows": g.suggested_rows,
        }
    return {
        "epsilon": g.epsilon,
        "threshold": g.threshold,
        "threshold_noise": g.threshold_noise,
        "leaf_size": g.threshold / 2,
        "leaf_noise": g.leaf_noise,
        "suggested_rows": g.suggested_rows,
    }
