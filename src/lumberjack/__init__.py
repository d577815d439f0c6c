"""Differentially private random forests, and heavy hitters in trees."""

import sys

# ``python -m lumberjack`` imports the package before the program.
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv) :][:1] == [__name__]:
    from lumberjack_program import stop_on_interrupt

    stop_on_interrupt()

from lumberjack.accounting import Choices, NoisySums, ThresholdQueries
from lumberjack.composition import compose
from lumberjack.domain import Domain
from lumberjack.forest import LumberjackClassifier, LumberjackRegressor, load
from lumberjack.guarantee import Guarantee, PrivacyLeakWarning
from lumberjack.heavy_hitters import heavy_hitters
from lumberjack.planning import plan

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
