"""The command line's program and the options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["LEAF_OF_NUMBERS", "app"]

LEAF_OF_NUMBERS = (
    "--leaf is for classes: leaves that predict a number are fitted, or, with --splits random, hold its "
    "mean; leave it out"
)

app = typer.Typer(
    name="lumberjack",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Differentially private random forests: plan, train, check, publish.",
    epilog="Exit codes: 0 done, 2 wrong usage or input, 3 the system refused (disk, permission, "
    "memory), 4 a guarantee does not hold, 70 a bug in Lumberjack, 130 stopped by Ctrl-C, 141 the "
    "output was closed early, 143 stopped by SIGTERM.",
)

DataFile = Annotated[
    Path, typer.Argument(help="A .csv or .parquet file.", exists=True, dir_okay=False, metavar="DATA")
]
ModelFile = Annotated[
    Path, typer.Argument(help="A model file.", exists=True, dir_okay=False, metavar="MODEL")
]
Epsilon = Annotated[float, typer.Option(help="The budget: smaller is more private. Often 0.1 to 4.")]
Delta = Annotated[
    float, typer.Option(help="Chance that the promise fails; far below 1 / number of rows.")
]
Trees = Annotated[
    int,
    typer.Option(
        "--trees", help="Number of trees. Fitted leaves: number of columns that may form pairs."
    ),
]
Depth = Annotated[
    int,
    typer.Option("--depth", help="Deepest level at which a node may split. Not used by fitted leaves."),
]
LeafOption = Annotated[
    Literal["fitted", "counts", "majority", "exponential"] | None,
    typer.Option(
        help="What a leaf releases, if classes are predicted. Default: fitted, or counts with random "
        "splits or the paper's accounting."
    ),
]
Share = Annotated[
    float | None,
    typer.Option("--structure-share", help="Share of the budget for the structure of pruned trees."),
]
RowsPerPerson = Annotated[
    int, typer.Option(help="Maximum number of rows per person; above 1 the promise is for persons.")
]
SplitsOption = Annotated[
    Literal["guided", "random"] | None,
    typer.Option(
        help="How pruned trees are split. Default: guided, or random with the paper's accounting."
    ),
]
AccountingOption = Annotated[
    Literal["joint", "paper"], typer.Option(help="The proved bound, or the paper's Theorem 1.")
]
Delimiter = Annotated[str, typer.Option(help="What separates the fields of a CSV file.")]
Locate = Annotated[
    bool,
    typer.Option("--locate", help="Let errors name the line of a bad row. For the data holder only."),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace a file that exists already.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Target = Annotated[str, typer.Option(help="The column to predict.")]
DomainFile = Annotated[
    Path | None,
    typer.Option(
        "--domain", help="The domain file; see lumberjack domain.", exists=True, dir_okay=False
    ),
]
Skip = Annotated[
    list[str] | None, typer.Option("--skip", help="A column to leave out. May be repeated.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no remarks.")]
DateFormat = Annotated[
    str | None,
    typer.Option(
        help="How a CSV file writes dates, like %d.%m.%Y. Columns that hold only these are dates."
    ),
]
