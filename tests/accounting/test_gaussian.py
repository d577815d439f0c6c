import json
import math
from pathlib import Path

import numpy as np
import pytest
import reference
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant

from lumberjack.accounting import gaussian_delta, gaussian_epsilon, gaussian_mu, gdp_mu

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.mark.parametrize("row", VECTORS["gaussian_delta"])
def test_gaussian_reference_values(row):
    assert gaussian_delta(row["epsilon"], row["mu"]) == pytest.approx(row["delta"], rel=1e-10)


def test_sixty_digit_formula_everywhere():
    """Cancellation is worst at small mu, overflow at large mu, and formulas change at mu = 1."""
    rng = np.random.default_rng(1)
    cases = [
        (e, m) for e in (0.0, 1e-6, 0.5, 3.0, 30.0) for m in (1e-8, 0.3, 1.0, 1.0 + 1e-9, 4.0, 90.0)
    ]
    cases += [(10 ** rng.uniform(-4, 2), 10 ** rng.uniform(-5, 2)) for _ in range(300)]
    checked = 0
    for epsilon, mu in cases:
        exact = reference.gaussian_delta(epsilon, mu)
        if exact > 1e-290:
            assert gaussian_delta(epsilon, mu) == pytest.approx(float(exact), rel=1e-12, abs=0)
            checked += 1
    assert checked > 150


def test_negative_epsilon_is_the_same_formula():
    for epsilon, mu in [(-0.01, 0.1), (-1.0, 0.3), (-5.0, 2.0), (-0.5, 1e-3)]:
        exact = float(reference.gaussian_delta(epsilon, mu))
        assert gaussian_delta(epsilon, mu) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "mu", "delta"),
    [
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
        (math.inf, 1.0, 0.0),
        (math.inf, math.inf, 0.0),
        (1.0, math.inf, 1.0),
        (0.0, math.inf, 1.0),
        (1.0, 1.466772163450414e-10, 0.0),
        (-1.0, 0.0, 1 - math.exp(-1)),
        (0.0, 2.0, math.erf(1 / math.sqrt(2))),
    ],
)
def test_edges_of_delta(epsilon, mu, delta):
    assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=1e-14, abs=0)


def test_arrays_agree_with_numbers():
    epsilon = np.array([-1.0, 0.0, 0.5, 2.0, np.inf])
    expected = [gaussian_delta(float(e), 0.7) for e in epsilon]
    np.testing.assert_array_equal(gaussian_delta(epsilon, 0.7), expected)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-15, 1e-6, 0.1, 0.9])
def test_gaussian_inverses_are_safe_and_tight(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-11)) > delta
    back = gaussian_epsilon(delta, mu)
    assert gaussian_delta(back, mu) <= delta
    assert back == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
        (math.inf, 0.0, math.inf),
        (1.0, 1.0, math.inf),
        (math.inf, 0.5, math.inf),
    ],
)
def test_edges_of_mu(epsilon, delta, mu):
    assert gaussian_mu(epsilon, delta) == mu


def test_mu_at_epsilon_zero():
    """delta = erf(mu / (2 sqrt 2)) there, the total variation distance."""
    assert math.erf(gaussian_mu(0.0, 0.25) / (2 * math.sqrt(2))) == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize(
    ("delta", "mu", "epsilon"),
    [
        (0.5, 0.0, 0.0),
        (0.0, 1.0, math.inf),
        (0.0, 0.0, 0.0),
        (0.5, math.inf, math.inf),
        (1.0, math.inf, 0.0),
    ],
)
def test_edges_of_epsilon(delta, mu, epsilon):
    assert gaussian_epsilon(delta, mu) == epsilon


@pytest.mark.parametrize("sigmas", [[3.0], [5.0, 5.0, 5.0], [8.0, 2.5, 20.0]])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_dp_accounting_agrees_on_curve_and_composition(sigmas, epsilon):
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    for sigma in sigmas:
        accountant.compose(GaussianDpEvent(sigma))
    theirs = accountant.get_delta(epsilon)
    ours = gaussian_delta(epsilon, gdp_mu(*[(1, s) for s in sigmas]))
    assert ours <= theirs * (1 + 1e-9)  # theirs is pessimistic
    assert ours == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize("bad", [float("nan"), -0.1])
def test_bad_mu_is_refused(bad):
    with pytest.raises(ValueError, match="mu"):
        gaussian_delta(1.0, bad)
