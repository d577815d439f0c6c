"""Differentially private random forests, and heavy hitters in trees."""

from lumberjack.guarantee import Guarantee, PrivacyLeakWarning, plan
from lumberjack.heavy_hitters import heavy_hitters

__all__ = ["Guarantee", "PrivacyLeakWarning", "heavy_hitters", "plan"]
