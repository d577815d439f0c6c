"""Differentially private random forests, and heavy hitters in trees."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

# ``python -m lumberjack`` imports the package before the program.
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv) :][:1] == [__name__]:
    from lumberjack_program import stop_on_interrupt

    stop_on_interrupt()

if TYPE_CHECKING:
    from lumberjack.accounting import Choices, NoisySums, ThresholdQueries
    from lumberjack.composition import compose
    from lumberjack.domain import Domain
    from lumberjack.forest import LumberjackClassifier, LumberjackRegressor, load
    from lumberjack.guarantee import Guarantee, PrivacyLeakWarning
    from lumberjack.planning import plan
    from lumberjack.prefixes import heavy_hitters
else:
    # PEP 562: a public name imports its module on first use, so a plan does not wait for a forest.
    # No name may be that of a module: an import of the module would take its place.
    _MODULES = {
        "Choices": "accounting",
        "Domain": "domain",
        "Guarantee": "guarantee",
        "LumberjackClassifier": "forest",
        "LumberjackRegressor": "forest",
        "NoisySums": "accounting",
        "PrivacyLeakWarning": "guarantee",
        "ThresholdQueries": "accounting",
        "compose": "composition",
        "heavy_hitters": "prefixes",
        "load": "forest",
        "plan": "planning",
    }

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "Choices",
    "Domain",
    "Guarantee",
    "LumberjackClassifier",
    "LumberjackRegressor",
    "NoisySums",
    "PrivacyLeakWarning",
    "ThresholdQueries",
    "compose",
    "heavy_hitters",
    "load",
    "plan",
]

__version__ = "0.1.0.dev0"
