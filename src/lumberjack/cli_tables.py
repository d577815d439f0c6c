"""The commands that use a model on a table: predict, evaluate."""

import csv
import dataclasses
import io
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from lumberjack import scores
from lumberjack.console import bar, print_caveats, print_json, print_rows, result, say, show
from lumberjack.domain import Domain, Encoded
from lumberjack.files import check_target, open_to_write
from lumberjack.forest import LumberjackClassifier, LumberjackRegressor, load
from lumberjack.guarantee import NOT_ENFORCED, warn, weaknesses
from lumberjack.options import DataFile, Delimiter, Delta, Force, Json, Locate, ModelFile, Target, app
from lumberjack.quoting import quote
from lumberjack.reading import Source, label_reader, number_reader
from lumberjack.tables import Progress, Table

__all__ = ["evaluate", "predict"]

Model = LumberjackClassifier | LumberjackRegressor


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
    table = Table(data, delimiter, locate)
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
                    arrays = [_array(part[field.name], field.type) for field in schema]
                    writer.write_table(pa.table(arrays, schema=schema))
        else:
            with open_to_write(output, overwrite=force) as file:
                text = io.TextIOWrapper(file, encoding="utf-8", newline="")
                _write_csv(schema, parts, text)
                text.flush()
                text.detach()
    if output is not None:
        say(f"Wrote {output}.")


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as Arrow's; dates that only NumPy has room for are in UTC, and have no time zone."""
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    if zoned and any(isinstance(value, np.datetime64) for value in values):
        return pa.array(values, pa.timestamp(kind.unit)).cast(kind)
    return pa.array(values, kind)


def _columns(model: Model, table: Table, proba: bool, keep: list[str]) -> pa.Schema:
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
    model: Model, table: Table, schema: pa.Schema, done: Progress
) -> Iterator[dict[str, list[Any]]]:
    domain: Domain = model.domain_
    source = Source(table, domain)
    numbers, values = source.split()
    copied = schema.names[: schema.names.index("prediction")]
    for chunk in table.chunks(numbers, [*values, *copied], done):
        X = Encoded(domain, source.encode(chunk))
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
        promise = loaded.guarantee_
        spent = scores.Spent.plan(epsilon, delta, promise.rows_per_person, promise.unit)
        for problem in weaknesses(spent.epsilon, spent.delta, spent.unit):
            warn(problem)
    source = Source(Table(data, delimiter, locate), loaded.domain_)
    if target in loaded.domain_:
        raise ValueError(f"{quote(target)} is a column that the model predicts from")
    learned = isinstance(loaded, LumberjackClassifier) and loaded.released_.classes.learned
    with bar("Reading") as done:
        X, truth = _with_truth(loaded, source, target, learned, done)
    found = _score(loaded, X, truth, spent)
    caveats = [] if spent is None or spent.unit == "row" else [NOT_ENFORCED]
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
    if learned:
        say("Rows whose label the model does not know, if any, are left out.")
    if spent is None:
        say(
            "These scores are exact and outside the guarantee: they may reveal single held-out rows. "
            "--epsilon releases them privately.",
            "bold yellow",
        )
        return
    show(
        f"Released with ({spent.epsilon:g}, {spent.delta:g})-differential privacy for every "
        f"{spent.unit} of this file: noise {spent.noise:.4g}, recomputed delta {spent.verify():.6g}."
    )
    print_caveats(caveats)
    show("For people who are in this file and in the training data, both prices add up.")


def _with_truth(
    model: Model, source: Source, target: str, learned: bool, done: Progress
) -> tuple[Encoded, NDArray[Any]]:
    """A table and its targets, without the rows whose label was not frequent enough to be learned."""
    if isinstance(model, LumberjackRegressor):
        reader = number_reader(target)
    else:
        reader = label_reader(source, target, model.classes_.tolist(), strict=not learned)
    X, extra = source.read({target: reader}, done)
    truth = extra[target]
    if not learned:
        return X, truth
    kept = np.array([label is not None for label in truth.tolist()])
    if not kept.any():
        raise ValueError(f"the target {quote(target)} has no label that the model knows")
    return dataclasses.replace(X, codes=X.codes[kept]), truth[kept]


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
