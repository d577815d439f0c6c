"""Doctests of modules that need an optional package are skipped where it is missing, and say so."""

import importlib.util
import os

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")  # pictures open no window

NEEDS = {
    "lumberjack.export.": ("shap", "explain"),
    "lumberjack.export_onnx.": ("onnxruntime", "onnx"),
    "lumberjack.plots.": ("matplotlib", "plot"),
}


def pytest_collection_modifyitems(items):
    """Mark what cannot run here."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            for module, (package, extra) in NEEDS.items():
                if item.name.startswith(module) and importlib.util.find_spec(package) is None:
                    item.add_marker(pytest.mark.skip(reason=f"needs the extra {extra!r}"))
