"""Doctests that need an optional package, or data, are skipped where it is missing, and say so."""

import importlib.util
import os
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")  # pictures open no window

NEEDS = {
    "exports.md": ("onnxruntime", "shap", "skops"),
    "lumberjack.export.": ("shap",),
    "lumberjack.export_onnx.": ("onnxruntime",),
    "lumberjack.plots.": ("matplotlib",),
}


def pytest_collection_modifyitems(items):
    """Mark what cannot run here."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            for start, packages in NEEDS.items():
                missing = [p for p in packages if importlib.util.find_spec(p) is None]
                if item.name.startswith(start) and missing:
                    item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))


@pytest.fixture(autouse=True)
def _local_data(request, monkeypatch):
    """Doctests of data sets read local files, and never the network."""
    named = request.node.name.rsplit(".", 1)[-1]
    if isinstance(request.node, pytest.DoctestItem) and named in (
        "fetch_adult",
        "fetch_california_housing",
    ):
        folder = Path(os.environ.get("LUMBERJACK_DATA") or Path(__file__).parents[1] / "shared" / "data")
        if (
            not (folder / "adult.parquet").exists()
            or not (folder / "california_housing.parquet").exists()
        ):
            pytest.skip("no data: set LUMBERJACK_DATA to the folder with adult.parquet")
        monkeypatch.setenv("LUMBERJACK_DATA", str(folder))
