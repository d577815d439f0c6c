"""Doctests of modules that need an optional package are skipped where it is missing, and say so."""

import importlib.util
import os

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
