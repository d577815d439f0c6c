"""The price of privacy: pure functions of numbers that never see data."""

from lumberjack.accounting.adaptive import bounded_range_delta
from lumberjack.accounting.calibrate import Calibration, calibrate, calibrate_paper, calibrate_plain
from lumberjack.accounting.events import (
    MOST_EVENTS,
    Choices,
    Event,
    NoisySums,
    ThresholdQueries,
    cutoffs_delta,
    joint_delta,
    spent,
    zcdp_events_delta,
)
from lumberjack.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from lumberjack.accounting.sparse import (
    cutoff_delta,
    error_bound,
    gdp_mu,
    lower_bound,
    queries_per_tree,
    simple_parameters,
    theorem1_delta,
)
from lumberjack.accounting.zcdp import (
    basic_composition,
    exponential_rho,
    gaussian_rho,
    pure_rho,
    replacement,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

__all__ = [
    "MOST_EVENTS",
    "Calibration",
    "Choices",
    "Event",
    "NoisySums",
    "ThresholdQueries",
    "basic_composition",
    "bounded_range_delta",
    "calibrate",
    "calibrate_paper",
    "calibrate_plain",
    "cutoff_delta",
    "cutoffs_delta",
    "error_bound",
    "exponential_rho",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_rho",
    "gdp_mu",
    "joint_delta",
    "lower_bound",
    "pure_rho",
    "queries_per_tree",
    "replacement",
    "simple_parameters",
    "spent",
    "theorem1_delta",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_events_delta",
    "zcdp_rho",
]
