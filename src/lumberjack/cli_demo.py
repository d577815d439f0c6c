"""The command that trains on generated data: what Lumberjack does, without a file."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from lumberjack import datasets
from lumberjack.console import fingerprint, print_guarantee, remarks, show, to_json, watched, write
from lumberjack.domain import Domain
from lumberjack.files import check_target
from lumberjack.forest import LumberjackClassifier
from lumberjack.io import pack
from lumberjack.options import Force, app
from lumberjack.page import render
from lumberjack.report import describe

__all__ = ["demo"]


@app.command()
def demo(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the demo's data, domain, model and report."),
    ] = None,
    force: Force = False,
) -> None:
    """Train on generated data and show what comes out; needs no file.

    With -o the data, the domain, the model and its report are written to a folder to play with.
    """
    X, y, domain = datasets.make_toy(n=10_000)
    names = ["toy.csv", "toy.json", "toy.lumberjack", "toy.html"]
    files = [] if output is None else [output / name for name in names]
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    for file in files:
        check_target(file, force)
    model = LumberjackClassifier(
        2.0, 1e-6, domain=domain, classes=[0, 1, 2], n_jobs=-1, verbose=int(watched())
    )
    with remarks():
        model.fit(X, y)
    fresh, truth, _ = datasets.make_toy(n=10_000, random_state=1)
    show("Two moons and a far blob, 10,000 generated rows, at (2, 1e-6)-differential privacy.")
    show(f"Accuracy on fresh data: {model.score(fresh, truth):.1%}\n")
    print_guarantee(model.guarantee_)
    if not files:
        show(
            "\nlumberjack demo -o demo/ writes the data, the domain, the model and a report to try out."
        )
        return
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["x", "y", "shape"])
    rows.writerows([f"{a:.6f}", f"{b:.6f}", c] for (a, b), c in zip(X.tolist(), y.tolist(), strict=True))
    public = Domain({**{n: domain[n] for n in domain}, "shape": Domain.categorical([0, 1, 2])})
    write(files[0], text.getvalue().encode(), force)
    write(files[1], to_json(public.to_dict()), force)
    write(files[2], pack(model), force)
    write(files[3], render(describe(model, fingerprint(files[2]))).encode(), force)
    show("\nWritten: " + ", ".join(map(str, files)))
    show(f"Try: lumberjack inspect {files[2]} --verify")
    options = f"--target shape --domain {files[1]} --epsilon 1 -o my.lumberjack"
    show(f"     lumberjack train {files[0]} {options}")
