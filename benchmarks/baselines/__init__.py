"""The systems that are compared, by name, each behind the interface of ``base.Baseline``."""

import importlib.util

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.bayes import NaiveBayes
from benchmarks.baselines.boosting import EBMNewton
from benchmarks.baselines.greedy import Greedy, GreedyZCDP
from benchmarks.baselines.linear import LRBin, LRBinRegressor, LRNested, LRPairs
from benchmarks.baselines.packages import (
    DPEBM,
    CountedLumberjack,
    DecisionTree,
    Diffprivlib,
    ExtraTrees,
    HistGradientBoosting,
    Lumberjack,
    PaperLumberjack,
    RandomForest,
    UndeclaredLumberjack,
)
from benchmarks.baselines.random_trees import HeavyHitterForest, RandomFull, TopDown
from benchmarks.baselines.smooth import SmoothSensitivity
from benchmarks.baselines.snr import SNR

__all__ = ["SYSTEMS", "Baseline", "HeavyHitterForest", "LRBinRegressor", "installed"]

SYSTEMS: dict[str, type[Baseline]] = {
    system.name: system
    for system in (
        Lumberjack,
        UndeclaredLumberjack,
        CountedLumberjack,
        PaperLumberjack,
        TopDown,
        SNR,
        SmoothSensitivity,
        Greedy,
        GreedyZCDP,
        Diffprivlib,
        DPEBM,
        EBMNewton,
        LRBin,
        LRPairs,
        LRNested,
        NaiveBayes,
        RandomFull,
        ExtraTrees,
        RandomForest,
        HistGradientBoosting,
        DecisionTree,
    )
}


def installed(system: type[Baseline]) -> bool:
    """Whether the package that a system needs is there."""
    return not system.needs or importlib.util.find_spec(system.needs) is not None
