"""The commands that show a model file: report, inspect."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from lumberjack import anatomy
from lumberjack.console import NOT_HELD, fingerprint, print_guarantee, print_json, say, show, write
from lumberjack.files import check_target
from lumberjack.forest import load
from lumberjack.guarantee import Guarantee
from lumberjack.legend import LITTLE, columns_of, in_lines, learned_little, target_of, weights_in_words
from lumberjack.options import Force, Json, ModelFile, app
from lumberjack.page import render
from lumberjack.quoting import one_line
from lumberjack.released import Released
from lumberjack.report import describe

__all__ = ["inspect", "print_released", "released", "report"]

_NOUNS = {"trees": "tree", "leaves": "leaf"}
_SHOWN = 50  # columns that ``inspect`` shows in words; --json has all


@app.command()
def report(
    model: ModelFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The HTML page to write; default: print text.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the privacy report of a model: one HTML page without scripts, or text."""
    if output is not None:
        check_target(output, force)
    found = describe(load(model), fingerprint(model))
    if output is not None:
        write(output, render(found).encode("utf-8"), force)
        say(f"Wrote {output}.")
    if as_json:
        print_json(found.to_dict())
    elif output is None:
        show(found.text())


@app.command()
def inspect(
    model: ModelFile,
    verify: Annotated[
        bool, typer.Option("--verify", help="Recompute delta; exit code 4 if the promise does not hold.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the guarantee and the caveats of a model file, and what it says of its columns."""
    loaded = load(model)
    g: Guarantee = loaded.guarantee_
    delta = g.verify()
    holds = delta <= g.delta
    if as_json:
        print_json(
            {
                "estimator": type(loaded).__name__,
                "released": released(loaded.released_),
                "holds": holds,
                "recomputed_delta": delta,
                "guarantee": dataclasses.asdict(g),
                "columns": [entry.to_dict() for entry in columns_of(loaded.released_)],
                "target": target_of(loaded.released_).to_dict(),
                "domain": loaded.domain_.to_dict(),
                "sha256": fingerprint(model),
            }
        )
    else:
        show(f"{type(loaded).__name__}, {len(loaded.domain_)} columns")
        print_released(loaded.released_)
        print_guarantee(g)
        if g.fits_leaves:
            show("\n".join(["Weights", f"  {one_line(weights_in_words(loaded.released_.target))}"]))
        show("\n".join(["Target", *in_lines([target_of(loaded.released_)])]))
        show("\n".join(["Columns", *in_lines(columns_of(loaded.released_), _SHOWN)]))
        if verify and holds:
            show(f"The promise holds: delta recomputed {delta:.8g}, promised {g.delta:g}.", "green")
    if verify and not holds:
        say(
            f"The promise does NOT hold: delta recomputed {delta:.8g}, promised {g.delta:g}.", "bold red"
        )
        raise typer.Exit(NOT_HELD)


def released(model: Released) -> dict[str, Any]:
    """What a model has learned, in numbers that are public with it."""
    trees = model.forest.trees
    split = [len(tree.columns) for tree in trees]
    fitted = {"of_columns": split.count(1), "of_pairs": split.count(2)}
    return {
        "trees": len(trees),
        **(fitted if model.guarantee.fits_leaves else {}),
        "leaves": sum(tree.n_leaves for tree in trees),
        "depth": max(int(anatomy.depths(tree).max()) for tree in trees),
        "learned_nothing": model.learned_nothing,
    }


def print_released(model: Released) -> None:
    """How many trees and leaves there are, and what to do if they learned nothing."""
    found = released(model)
    trees, leaves = (f"{found[n]:,} {n if found[n] > 1 else one}" for n, one in _NOUNS.items())
    if model.guarantee.fits_leaves:
        trees += f" ({found['of_columns']:,} of a column, {found['of_pairs']:,} of a pair of columns)"
    show(f"Released: {trees} with {leaves} in all, up to {found['depth']} levels deep")
    if found["learned_nothing"] or learned_little(model):
        said = anatomy.NOTHING if found["learned_nothing"] else LITTLE
        show(f"{said} {model.guarantee.way_out}", "bold red")
