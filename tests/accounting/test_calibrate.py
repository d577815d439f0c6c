import json
import math
from pathlib import Path

import numpy as np
import pytest
import reference
from promises import events
from scipy.stats import norm

from lumberjack.accounting import (
    calibrate,
    calibrate_paper,
    calibrate_plain,
    gaussian_mu,
    joint_delta,
    queries_per_tree,
    theorem1_delta,
    zcdp_delta,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
EPSILONS = [0.001, 0.05, 1.0, 8.0, 100.0]
DELTAS = [1e-15, 1e-6, 0.1]
SHAPES = [(1, 1), (20, 100), (10_000, 10**6)]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("k", "h"), SHAPES)
@pytest.mark.parametrize("rows", [1, 7])
def test_joint_keeps_the_promise_in_sixty_digits(epsilon, delta, k, h, rows):
    m = k * queries_per_tree(h)
    found = calibrate(epsilon, delta, m=m, k=k, leaf_share=0.4, rows_per_person=rows)
    exact = reference.joint_delta(epsilon, m, found.sigma, found.Delta, k, found.leaf_sigma, rows)
    assert exact <= delta
    assert exact >= delta * 0.999
    listed = events(m, found.sigma, found.Delta, k, found.leaf_sigma, rows)
    recomputed = joint_delta(epsilon, listed, rows)
    assert recomputed <= delta
    assert found.tau == found.Delta + rows
    assert k / found.leaf_sigma**2 == pytest.approx(0.4 / 0.6 * m / found.sigma**2)


@pytest.mark.parametrize(
    ("epsilon", "delta", "m", "k"), [(1.0, 1e-6, 140, 20), (0.01, 0.1, 7, 1), (50.0, 1e-12, 7, 1)]
)
def test_joint_threshold_is_the_smallest(epsilon, delta, m, k):
    """A dense scan over the split of delta, with formulas of its own."""
    best = math.inf
    for t in np.geomspace(1e-6, 1 - 1e-6, 4000):
        mu = gaussian_mu(epsilon, delta * (1 - t))
        sigma = math.sqrt(m / 0.5) / mu
        best = min(best, 1 + sigma * norm.isf(-math.expm1(math.log1p(-delta * t) / m)))
    assert calibrate(epsilon, delta, m=m, k=k).tau <= best * (1 + 1e-5)


@pytest.mark.parametrize("row", VECTORS["paper_calibration"])
def test_paper_settings_reach_the_reference_threshold(row):
    found, _ = calibrate_paper(row["epsilon"], row["delta"], m=row["m"], k=row["k"])
    assert found.tau <= row["tau_about"] + 0.01
    assert found.sigma == pytest.approx(row["sigma_about"], rel=1e-3)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("k", "h"), SHAPES)
def test_paper_keeps_its_promise(epsilon, delta, k, h):
    m = k * queries_per_tree(h)
    found, rho = calibrate_paper(epsilon, delta, m=m, k=k)
    first = theorem1_delta(0.75 * epsilon, m=m, sigma=found.sigma, Delta=found.Delta)
    second = zcdp_delta(0.25 * epsilon, rho)
    assert 0.999 * 0.75 * delta <= first <= 0.75 * delta
    assert 0.999 * 0.25 * delta <= second <= 0.25 * delta
    assert k / (2 * found.leaf_sigma**2) == pytest.approx(rho)
    if m <= 140:
        assert reference.theorem1_delta(0.75 * epsilon, m, found.sigma, found.Delta) <= 0.75 * delta


def test_plain_spends_everything_on_the_gaussian():
    sigma, leaf_sigma = calibrate_plain(1.0, 1e-6, m=7, k=3)
    exact = reference.gaussian_delta(1.0, (7 / sigma**2 + 3 / leaf_sigma**2) ** 0.5)
    assert 0.999e-6 <= exact <= 1e-6


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilon": 0}, "epsilon must be positive, got 0"),
        ({"epsilon": -1}, "epsilon must be positive, got -1"),
        ({"epsilon": math.nan}, "epsilon must be a number, got NaN"),
        ({"epsilon": math.inf}, "epsilon must be finite"),
        ({"delta": 0}, r"delta must lie in \(0, 1\), got 0"),
        ({"delta": 1}, r"delta must lie in \(0, 1\), got 1"),
        ({"m": 0}, "m must be at least 1, got 0"),
        ({"leaf_share": 1.0}, "leaf_share must lie strictly between 0 and 1, got 1"),
        ({"rows_per_person": 0}, "rows_per_person must be at least 1"),
    ],
)
def test_bad_parameters_are_named(kwargs, message):
    with pytest.raises(ValueError, match=message):
        calibrate(**{"epsilon": 1.0, "delta": 1e-6, "m": 7, "k": 1, **kwargs})


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match=r"m must be a whole number, got 2\.5"):
        calibrate(1.0, 1e-6, m=2.5)
    with pytest.raises(TypeError, match="epsilon must be a number, got '1'"):
        calibrate("1", 1e-6, m=2)
