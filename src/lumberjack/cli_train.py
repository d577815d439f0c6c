"""The command that trains a model from a file."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from numpy.typing import NDArray

from lumberjack.checking import EYES_ONLY, Check
from lumberjack.cli_models import print_released, released
from lumberjack.console import (
    bar,
    print_guarantee,
    print_json,
    remarks,
    say,
    say_left_out,
    watched,
    write,
)
from lumberjack.declared import parse_labels
from lumberjack.domain import Domain, Encoded
from lumberjack.files import check_target
from lumberjack.forest import LumberjackClassifier, LumberjackRegressor
from lumberjack.io import pack
from lumberjack.kinds import Categorical, Kind, Numeric, Open
from lumberjack.options import (
    LEAF_OF_NUMBERS,
    AccountingOption,
    DataFile,
    DateFormat,
    Delimiter,
    Delta,
    Depth,
    DomainFile,
    Epsilon,
    Force,
    Json,
    LeafOption,
    Locate,
    Quiet,
    RowsPerPerson,
    Share,
    Skip,
    SplitsOption,
    Target,
    Trees,
    app,
)
from lumberjack.quoting import quote, quote_all
from lumberjack.reading import Source, as_read, label_reader, number_reader, person_reader
from lumberjack.tables import Table
from lumberjack.template import parse_bounds, read_domain
from lumberjack.values import Column, check_date_format

__all__ = ["train"]

_NO_DATES = "the target {} is a date; only numbers can be predicted"

Model = LumberjackClassifier | LumberjackRegressor
Task = Literal["classification", "regression"]


@dataclasses.dataclass(frozen=True)
class Aim:
    """What is to be predicted, as far as it is known.

    Attributes
    ----------
    target : str
    task : "classification", "regression" or None
        None: follows from the file.
    labels : list or None
        The classes. None: they are learned.
    bounds : (low, high) or None
        The bounds of a number. None: they are learned.
    """

    target: str
    task: Task | None = None
    labels: list[Any] | None = None
    bounds: tuple[float, float] | None = None

    def by_type(self, kind: str) -> "Aim":
        """The task by the type of the target; refuses numbers, which may be classes too."""
        if kind == "numeric":
            raise ValueError(
                f"the target {quote(self.target)} holds numbers: say --task classification or "
                "--task regression"
            )
        if kind == "datetime":
            raise ValueError(_NO_DATES.format(quote(self.target)))
        return dataclasses.replace(self, task="classification")


@app.command()
def train(
    data: DataFile,
    target: Target,
    epsilon: Epsilon,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    domain: DomainFile = None,
    skip: Skip = None,
    delta: Delta = 1e-6,
    task: Annotated[
        Task | None,
        typer.Option(help="What to predict. Default: what the domain says, or classes if it is text."),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="All labels, like yes,no. Default: the domain's, or learned.")
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(help="LOW:HIGH of a number. Default: the domain's, or learned.")
    ] = None,
    trees: Trees = 20,
    depth: Depth = 100,
    leaf: LeafOption = None,
    splits: SplitsOption = None,
    accounting: AccountingOption = "joint",
    structure_share: Share = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Give rare classes more weight.")] = False,
    person: Annotated[str | None, typer.Option(help="The column with ids of persons.")] = None,
    rows_per_person: RowsPerPerson = 1,
    jobs: Annotated[int, typer.Option(help="Threads; -1 takes all cores.")] = -1,
    date_format: DateFormat = None,
    delimiter: Delimiter = ",",
    locate: Locate = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a private forest and write it to a model file.

    All columns are used but the target, --person, --skip and the index of a pandas frame. What no
    --domain declares is learned privately: cuts of numbers, frequent categories, classes, the scale of a
    number to predict. Which columns hold numbers is assumed to be public: a Parquet file's schema says
    it, and a CSV file is read once more to see it. Memory: the encoded table (4 bytes a value) and one
    chunk of the file.
    """
    check_target(output, force)
    if date_format is not None:
        check_date_format(date_format)
    table = Table(data, delimiter, locate)
    declared, left_out = read_domain(domain, table)
    aim = _aim(declared, target, task, classes, bounds)
    if leaf is not None and aim.task == "regression":
        raise ValueError(LEAF_OF_NUMBERS)
    features = None if declared is None else _without(declared, target)
    splits = splits or ("random" if accounting == "paper" else "guided")
    settings: dict[str, Any] = {
        "n_estimators": trees,
        "max_depth": depth,
        "domain": features,
        "splits": splits,
        "accounting": accounting,
        "structure_share": structure_share,
        "rows_per_person": rows_per_person,
        "n_jobs": jobs,
        "verbose": int(watched()),
    }
    leaf = leaf or ("counts" if splits == "random" else "fitted")
    of_classes: dict[str, Any] = {"leaf": leaf, "class_weight": "balanced" if balanced else None}

    def model(aim: Aim) -> Model:
        if aim.task == "regression":
            return LumberjackRegressor(epsilon, delta, y_bounds=aim.bounds, **settings)
        return LumberjackClassifier(epsilon, delta, classes=aim.labels, **of_classes, **settings)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fit will say it
        model(aim).plan()  # refuses bad options before data is read
    if person is not None and (person == target or person in (features or ())):
        raise ValueError("--person must be a column of its own, outside the domain")
    index = [name for name in table.index() if name not in (target, person, *(features or ()))]
    names = _features(table, target, person, [*(skip or []), *left_out, *index])
    source, aim = _look(table, features, names, aim, date_format)
    if accounting == "paper" and any(source.domain.to_learn(guided=False)):
        raise ValueError("--accounting paper has no price for what is learned: declare all columns")
    check = None if quiet or as_json else Check()
    X, y, people = _read(source, aim, person, check)
    fitted = model(aim)
    with remarks():
        fitted.fit(X, y, person_ids=people)
    write(output, pack(fitted), force)
    promise = fitted.guarantee_
    if as_json:
        found = {"released": released(fitted.released_), "guarantee": dataclasses.asdict(promise)}
        print_json({"model": str(output), **found})
        return
    if check is not None:
        _say_kinds(source.domain, features)
        say_left_out(index)
        _say_outside(check, aim, y)
        say(f"Wrote {output}.")
    print_guarantee(promise, short=True)
    print_released(fitted.released_)


def _aim(
    declared: Domain | None, target: str, task: Task | None, classes: str | None, bounds: str | None
) -> Aim:
    """What options and domain say about the target."""
    if classes is not None and bounds is not None:
        raise ValueError("--classes is for classification and --bounds for regression: give one of them")
    kind = declared[target] if declared is not None and target in declared else None
    if classes is not None:
        said: Task | None = "classification"
    elif bounds is not None:
        said = "regression"
    else:
        said = task or (None if kind is None else _task_of(kind))
    if task not in (None, said):
        raise ValueError(f"--task {task} does not go with {'--classes' if classes else '--bounds'}")
    if said == "regression":
        if bounds is None and kind is not None and not isinstance(kind, Numeric):
            raise ValueError(f"the domain declares categories for the target {quote(target)}")
        given = parse_bounds(bounds) if bounds is not None else kind
        return Aim(target, said, bounds=_limits(target, given))
    if classes is not None:
        return Aim(target, said, parse_labels(classes.split(",")))
    known = isinstance(kind, Categorical) and not kind.inferred
    return Aim(target, said, list(kind.categories) if known else None)  # type: ignore[union-attr]


def _task_of(kind: Kind) -> Task:
    return "regression" if isinstance(kind, Numeric) else "classification"


def _limits(target: str, kind: Kind | None) -> tuple[float, float] | None:
    """The bounds of a number; None where they are open, or were read off the data."""
    if not isinstance(kind, Numeric):
        return None
    if kind.temporal:
        raise ValueError(_NO_DATES.format(quote(target)))
    return (kind.low, kind.high) if kind.is_bounded and not kind.inferred else None


def _without(declared: Domain, target: str) -> Domain | None:
    rest = {name: declared[name] for name in declared if name != target}
    return Domain(rest) if rest else None


def _features(table: Table, target: str, person: str | None, skip: Sequence[str]) -> list[str]:
    """Columns to learn from."""
    apart = [target, *([] if person is None else [person])]
    table.check_columns([*apart, *skip])
    if target in skip:
        raise ValueError("the target must not be skipped")
    names = [name for name in table.names() if name not in (*apart, *skip)]
    if not names:
        hint = f"; {table.hint}" if table.hint else ""
        raise ValueError(f"{table.path} has no column besides the target{hint}")
    return names


def _look(
    table: Table, features: Domain | None, names: list[str], aim: Aim, date_format: str | None
) -> tuple[Source, Aim]:
    """What undeclared columns hold, the target among them."""
    kinds: Mapping[str, Kind] = {} if features is None else {n: features[n] for n in features}
    open_names = [n for n in names if isinstance(kinds.get(n, Open()), Open)]
    if aim.task != "regression" and aim.labels is None:
        open_names.append(aim.target)
    with bar("Looking") as done:
        types = table.read_types(open_names, date_format, done)
    if aim.task is None:
        aim = aim.by_type(types[aim.target])
    return Source(table, as_read(table, features, names, types, date_format), types), aim


def _read(
    source: Source, aim: Aim, person: str | None, check: Check | None
) -> tuple[Encoded, NDArray[Any], NDArray[Any] | None]:
    """Encoded rows, their targets, and their persons."""
    of_target = number_reader(aim.target)
    if aim.task != "regression":
        of_target = label_reader(source, aim.target, aim.labels)
    readers = {aim.target: of_target}
    if person is not None:
        readers[person] = person_reader(person)
    with bar("Reading") as done:
        X, extra = source.read(readers, done, check)
    return X, extra[aim.target], None if person is None else extra[person]


def _say_outside(check: Check, aim: Aim, y: NDArray[Any]) -> None:
    """What is outside the domain, for the data holder alone."""
    if aim.bounds is not None:
        check.add(aim.target, Numeric(*aim.bounds), Column(y))
    if check.summary():
        say(f"{EYES_ONLY} {check.summary()}", "yellow")


def _say_kinds(domain: Domain, declared: Domain | None) -> None:
    """Which undeclared columns were taken for numbers, and which for categories."""
    undeclared = [name for name in domain if declared is None or name not in declared]
    numbers = [name for name in undeclared if isinstance(domain[name], Numeric)]
    others = [name for name in undeclared if name not in numbers]
    for kind, found in (("numbers", numbers), ("categories", others)):
        if found:
            say(f"Not declared, read as {kind}: {quote_all(found)}")
