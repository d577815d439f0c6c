"""The commands that read tables: domain, train, predict, evaluate."""

import csv
import dataclasses
import io
import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from lumberjack import scores, tables
from lumberjack.console import (
    bar,
    print_caveats,
    print_guarantee,
    print_json,
    print_released,
    print_rows,
    released,
    remarks,
    result,
    say,
    show,
    to_json,
    watched,
    write,
)
from lumberjack.domain import Domain, Encoded
from lumberjack.files import check_target, open_to_write
from lumberjack.forest import LumberjackClassifier, LumberjackRegressor, load
from lumberjack.guarantee import NOT_ENFORCED, ClassLeaf
from lumberjack.io import pack
from lumberjack.kinds import Categorical, Numeric
from lumberjack.options import (
    AccountingOption,
    DataFile,
    Delimiter,
    Delta,
    Depth,
    Epsilon,
    Force,
    Json,
    Locate,
    ModelFile,
    RowsPerPerson,
    Share,
    SplitsOption,
    Target,
    Trees,
    app,
)
from lumberjack.quoting import quote, quote_all
from lumberjack.template import ask_column, infer, parse_bounds, parse_labels, template, to_fill_in

__all__ = ["domain_command", "evaluate", "predict", "train"]

Model = LumberjackClassifier | LumberjackRegressor


@app.command("domain")
def domain_command(
    data: DataFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The domain file to write (.json).")],
    target: Annotated[str | None, typer.Option(help="The column that will be predicted.")] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", help="NAME=LOW:HIGH, numbers or dates. May be repeated."),
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option("--categories", help="NAME=a,b,c. May be repeated.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", help="A column to leave out. May be repeated.")
    ] = None,
    ask: Annotated[
        bool | None,
        typer.Option("--ask/--no-ask", help="Ask for what is not given. Default: on a terminal."),
    ] = None,
    from_data: Annotated[
        bool, typer.Option("--from-data", help="Read it off the data. NOT private; the file is marked.")
    ] = False,
    delimiter: Delimiter = ",",
    force: Force = False,
) -> None:
    """Write a domain file from the names and types of a file's columns.

    The domain is what you know about the columns before looking: ranges and categories from a code book
    or from common sense. It becomes public with the model. Only the file's schema is read, no row,
    unless --from-data says so. Include the column to predict: its categories are the classes, its
    range the bounds of a regression. What stays open is null in the file and can be filled in by hand.
    """
    check_target(output, force)
    table = tables.Table(data, delimiter)
    types = {name: kind for name, kind in table.types().items() if name not in (skip or [])}
    table.check_columns([*(skip or []), *([target] if target else [])])
    given = {name: parse_bounds(text) for name, text in _pairs(ranges, "--range", table)}
    for name, text in _pairs(categories, "--categories", table):
        given[name] = Domain.categorical(parse_labels(text))
    if from_data:
        with bar("Reading") as done:
            found = infer(table, list(types), target, done).to_dict()
        say(
            "Warning: ranges and categories were read off the data and are NOT private. The file is "
            "marked, and every model trained with it will say so.",
            "bold yellow",
        )
    else:
        if sys.stdin.isatty() if ask is None else ask:
            say("Answer from public knowledge, not by looking at the data.")
            for name in [name for name in types if name not in given]:
                answer = ask_column(name, types[name], _prompt, lambda text: say(text, "red"))
                if answer is None:
                    types = {other: kind for other, kind in types.items() if other != name}
                else:
                    given[name] = answer
        found = template(types, given)
    write(output, to_json(found), force)
    say(f"Wrote {output}.")
    open_columns = to_fill_in(found)
    if open_columns:
        say("Still to be filled in: " + quote_all(open_columns), "yellow")


def _prompt(text: str, default: str | None) -> str:
    return str(typer.prompt(text, default=default, err=True))


def _pairs(options: list[str] | None, option: str, table: tables.Table) -> list[tuple[str, str]]:
    pairs = []
    for text in options or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{option} is NAME=..., got {text!r}")
        pairs.append((name, value))
    table.check_columns([name for name, _ in pairs])
    return pairs


@app.command()
def train(
    data: DataFile,
    target: Target,
    domain: Annotated[
        Path, typer.Option(help="The domain file; see lumberjack domain.", exists=True, dir_okay=False)
    ],
    epsilon: Epsilon,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    delta: Delta = 1e-6,
    classes: Annotated[
        str | None, typer.Option(help="All labels, like yes,no. Default: the target's categories.")
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(help="LOW:HIGH of the target, for regression. Default: its range.")
    ] = None,
    trees: Trees = 20,
    depth: Depth = 100,
    leaf: Annotated[ClassLeaf, typer.Option(help="What a leaf releases.")] = "counts",
    splits: SplitsOption = None,
    accounting: AccountingOption = "joint",
    structure_share: Share = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Weigh rare classes up.")] = False,
    person: Annotated[str | None, typer.Option(help="The column that says whose row it is.")] = None,
    rows_per_person: RowsPerPerson = 1,
    jobs: Annotated[int, typer.Option(help="Threads; -1 takes all cores.")] = -1,
    delimiter: Delimiter = ",",
    locate: Locate = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a private forest and write it to a model file.

    Memory: the encoded table (4 bytes a value) and one chunk of the file. Columns outside the domain are
    not used. The target is classified, or predicted as a number when the domain gives it a range or
    --bounds is set.
    """
    check_target(output, force)
    public = Domain.from_json(domain)
    features, labels, limits = _target(public, target, classes, bounds)
    settings: dict[str, Any] = {
        "n_estimators": trees,
        "max_depth": depth,
        "domain": features,
        "splits": splits or ("random" if accounting == "paper" else "guided"),
        "accounting": accounting,
        "structure_share": structure_share,
        "rows_per_person": rows_per_person,
        "n_jobs": jobs,
        "verbose": int(watched()),
    }
    model: Model
    if limits is not None:
        declared = bounds is not None or not public.inferred
        model = LumberjackRegressor(epsilon, delta, y_bounds=limits if declared else None, **settings)
    else:
        labels = labels if classes is not None or not public.inferred else None
        weight = "balanced" if balanced else None
        model = LumberjackClassifier(
            epsilon, delta, classes=labels, leaf=leaf, class_weight=weight, **settings
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fit will say it
        model.plan()  # refuses bad options before data is read
    table = tables.Table(data, delimiter, locate)
    readers = {
        target: tables.number_reader(target) if limits else tables.label_reader(target, labels, table)
    }
    if person is not None:
        readers[person] = tables.person_reader(person)
    if person is not None and (person == target or person in features):
        raise ValueError("--person must be a column of its own, outside the domain")
    with bar("Reading") as done:
        X, extra = tables.read(table, features, readers, done)
    y = extra[target] if limits or labels else tables.settle_labels(extra[target])
    with remarks():
        model.fit(X, y, person_ids=None if person is None else extra[person])
    write(output, pack(model), force)
    if not as_json:
        unused = [n for n in table.names() if n not in features and n not in (target, person)]
        if unused:
            say("Not used, as they are not in the domain: " + quote_all(unused))
        say(f"Wrote {output}.")
        print_guarantee(model.guarantee_, short=True)
        print_released(model.forest_, model.guarantee_)
        return
    print_json(
        {
            "model": str(output),
            "released": released(model.forest_),
            "guarantee": dataclasses.asdict(model.guarantee_),
        }
    )


def _target(
    public: Domain, target: str, classes: str | None, bounds: str | None
) -> tuple[Domain, list[Any] | None, tuple[float, float] | None]:
    """The domain without the target, and the target's classes or bounds, as far as they are known."""
    if classes is not None and bounds is not None:
        raise ValueError("--classes is for classification and --bounds for regression: give one of them")
    rest = {name: public[name] for name in public if name != target}
    if not rest:
        raise ValueError("the domain has no column besides the target")
    features = Domain(rest)
    kind = public[target] if target in public.names else None
    if bounds is not None:
        kind = parse_bounds(bounds)
    if classes is not None:
        return features, parse_labels(classes), None
    if isinstance(kind, Numeric):
        if kind.temporal:
            raise ValueError(f"the target {quote(target)} is a date; only numbers can be predicted")
        return features, None, (kind.low, kind.high) if kind.is_bounded else None
    return features, list(kind.categories) if isinstance(kind, Categorical) else None, None


@app.command()
def predict(
    model: ModelFile,
    data: DataFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv or .parquet file; default: print CSV.")
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", help="A column to copy, like an id. May be repeated.")
    ] = None,
    delimiter: Delimiter = ",",
    locate: Locate = False,
    force: Force = False,
) -> None:
    """Predict each row of a file, chunk by chunk: any size fits."""
    if output is not None:
        check_target(output, force)
    loaded = load(model)
    if proba and isinstance(loaded, LumberjackRegressor):
        raise ValueError("--proba is for classification; this model predicts a number")
    table = tables.Table(data, delimiter, locate)
    schema = _columns(loaded, table, proba, keep or [])
    with bar("Predicting") as done:
        parts = _predictions(loaded, table, schema, done)
        if output is None:
            with result():
                _write_csv(schema, parts, sys.stdout)
        elif output.suffix.lower() in (".parquet", ".pq"):
            with (
                open_to_write(output, overwrite=force) as file,
                pq.ParquetWriter(file, schema) as writer,
            ):
                for part in parts:
                    writer.write_table(pa.table(part, schema=schema))
        else:
            with open_to_write(output, overwrite=force) as file:
                text = io.TextIOWrapper(file, encoding="utf-8", newline="")
                _write_csv(schema, parts, text)
                text.flush()
                text.detach()
    if output is not None:
        say(f"Wrote {output}.")


def _columns(model: Model, table: tables.Table, proba: bool, keep: list[str]) -> pa.Schema:
    """Columns of the predictions, known before any row is read."""
    table.check_columns(keep)
    if any(name in model.domain_ for name in keep):
        raise ValueError("--keep is for columns that the model does not use, like an id")
    columns = {name: table.type_of(name) for name in keep}
    added = ["prediction"]
    if isinstance(model, LumberjackRegressor):
        kind = pa.float64()
    else:
        kind = pa.array(model.classes_.tolist()).type
        added += [f"p_{label}" for label in model.classes_.tolist() if proba]
    twice = [name for name in added if name in columns]
    if twice:
        raise ValueError(f"--keep {quote(twice[0])}: a column of the predictions has this name")
    return pa.schema([*columns.items(), (added[0], kind), *((name, pa.float64()) for name in added[1:])])


def _predictions(
    model: Model, table: tables.Table, schema: pa.Schema, done: tables.Progress
) -> Iterator[dict[str, list[Any]]]:
    domain: Domain = model.domain_
    numbers, values = tables.split(domain)
    copied = schema.names[: schema.names.index("prediction")]
    for chunk in table.chunks(numbers, [*values, *copied], done):
        X = Encoded(domain, tables.encode(chunk, domain, table))
        part: dict[str, list[Any]] = {name: chunk[name].listed() for name in copied}  # type: ignore[union-attr]
        if isinstance(model, LumberjackRegressor):
            yield {**part, "prediction": model.predict(X).tolist()}
            continue
        chances = model.predict_proba(X)
        part["prediction"] = model.classes_[chances.argmax(axis=1)].tolist()
        yield {**part, **dict(zip(schema.names[len(part) :], chances.T.tolist(), strict=False))}


def _write_csv(schema: pa.Schema, parts: Iterator[dict[str, list[Any]]], file: Any) -> None:
    rows = csv.writer(file, lineterminator="\n")
    first = next(parts, {})  # before the header, as it may be refused
    rows.writerow(schema.names)
    for part in itertools.chain([first], parts):
        rows.writerows(zip(*part.values(), strict=True))


@app.command()
def evaluate(
    model: ModelFile,
    data: DataFile,
    target: Target,
    epsilon: Annotated[
        float | None, typer.Option(help="Release the scores privately, at this price. Default: exact.")
    ] = None,
    delta: Delta = 1e-6,
    delimiter: Delimiter = ",",
    locate: Locate = False,
    as_json: Json = False,
) -> None:
    """Score a model on a held-out file: accuracy, AUC and calibration, or errors of a regression.

    Exact scores are outside the guarantee: publish them only if the held-out rows may be public.
    With --epsilon they are released with noise, at a price of their own.
    """
    loaded = load(model)
    spent = None
    if epsilon is not None:
        spent = scores.Spent.plan(epsilon, delta, loaded.guarantee_.rows_per_person)
    table = tables.Table(data, delimiter, locate)
    if isinstance(loaded, LumberjackRegressor):
        reader = tables.number_reader(target)
    else:
        reader = tables.label_reader(target, loaded.classes_.tolist(), table)
    if target in loaded.domain_:
        raise ValueError(f"{quote(target)} is a column that the model predicts from")
    with bar("Reading") as done:
        X, extra = tables.read(table, loaded.domain_, {target: reader}, done)
    found = _score(loaded, X, extra[target], spent)
    caveats = [] if spent is None or spent.rows_per_person == 1 else [NOT_ENFORCED]
    if as_json:
        price = None
        if spent is not None:
            price = {**dataclasses.asdict(spent), "recomputed": spent.verify(), "caveats": caveats}
        print_json({"private": spent is not None, **found, "guarantee": price})
        return
    for name in ("accuracy", "auc", "log_loss", "calibration_error", "r2"):
        if name in found:
            value = "not known" if found[name] is None else f"{found[name]:.4f}"
            extra_noise = f"  (noise {found['accuracy_noise']:.4f})" if name + "_noise" in found else ""
            show(f"{name.replace('_', ' '):24} {value}{extra_noise}")
    for name in ("mean_absolute_error", "root_mean_squared_error"):
        if name in found:
            show(f"{name.replace('_', ' '):24} {found[name]:.6g}")
    if found.get("calibration"):
        rows = [
            [f"{b['from']:.2f} to {b['to']:.2f}", f"{b['came']:.3f}", f"{b['share']:.1%}"]
            for b in found["calibration"]
        ]
        print_rows(["probability given", "came true", "share of rows"], rows, title="Calibration")
    if spent is None:
        say(
            "These scores are exact and outside the guarantee: they tell about single held-out rows. "
            "--epsilon releases them privately.",
            "bold yellow",
        )
        return
    show(
        f"Released with ({spent.epsilon:g}, {spent.delta:g})-differential privacy for every "
        f"{spent.unit} of this file: noise {spent.noise:.4g}, recomputed delta {spent.verify():.6g}."
    )
    print_caveats(caveats)
    show("If people of the training data are in it, both prices add up for them.")


def _score(model: Model, X: Encoded, truth: NDArray[Any], spent: scores.Spent | None) -> dict[str, Any]:
    if isinstance(model, LumberjackRegressor):
        predicted = model.predict(X)
        if spent is None:
            return scores.regression(truth, predicted)
        return scores.private_regression(truth, predicted, model.targets_, spent)
    labels = np.array(truth.tolist(), dtype=model.classes_.dtype)
    proba = model.predict_proba(X)
    if spent is None:
        return scores.classification(labels, proba, model.classes_)
    return scores.private_classification(labels, proba, model.classes_, spent)
