"""Differentially private random forests, and heavy hitters in trees."""

from lumberjack.domain import Domain
from lumberjack.forest import LumberjackClassifier, LumberjackRegressor, load
from lumberjack.guarantee import Guarantee, PrivacyLeakWarning, plan
from lumberjack.heavy_hitters import heavy_hitters

__all__ = [
    "Domain",
    "Guarantee",
    "LumberjackClassifier",
    "LumberjackRegressor",
    "PrivacyLeakWarning",
    "heavy_hitters",
    "load",
    "plan",
]

__version__ = "0.1.0.dev0"
