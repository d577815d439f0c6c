"""The systems that are compared, by name, each behind the interface of ``base.Baseline``."""

import importlib.util

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.boosting import EBMNewton
from benchmarks.baselines.greedy import Greedy, GreedyZCDP
from benchmarks.baselines.linear import LRBin, LRBinRegressor, LRPairs
from benchmarks.baselines.packages import (
    DPEBM,
    DecisionTree,
    Diffprivlib,
    ExtraTrees,
    HistGradientBoosting,
    Lumberjack,
    PaperLumberjack,
    RandomForest,
)
from benchmarks.baselines.random_trees import HeavyHitterForest, RandomFull, TopDown
from benchmarks.baselines.smooth import SmoothSensitivity
from benchmarks.baselines.snr import SNR

__all__ = ["SYSTEMS", "Baseline", "HeavyHitterForest", "LRBinRegressor", "installed"]

SYSTEMS: dict[str, type[Baseline]] = {
    system.name: system
    for system in (
        Lumberjack,
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
