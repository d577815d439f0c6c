import json
import math
from pathlib import Path

import pytest
import reference

from lumberjack.accounting import (
    basic_composition,
    exponential_rho,
    gaussian_delta,
    gaussian_rho,
    pure_rho,
    replacement,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.mark.parametrize("row", VECTORS["zcdp_rho"])
def test_zcdp_reference_values(row):
    assert zcdp_rho(row["epsilon"], row["delta"]) == pytest.approx(row["rho"], rel=1e-10)
    assert zcdp_delta(row["epsilon"], row["rho"]) == pytest.approx(row["check"], rel=1e-10)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 1e-2])
def test_zcdp_inverses_are_safe_and_tight(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_delta(epsilon, rho) <= delta
    assert float(reference.zcdp_delta(epsilon, rho)) == pytest.approx(delta, rel=1e-9)
    back = zcdp_epsilon(rho, delta)
    assert zcdp_delta(back, rho) <= delta
    assert back == pytest.approx(epsilon, rel=1e-9)


def test_zcdp_edges():
    assert zcdp_delta(1.0, 0.0) == 0
    assert zcdp_delta(math.inf, 1.0) == 0
    assert zcdp_delta(0.5, 1.0) == 1  # the lemma is silent below epsilon = rho
    assert zcdp_rho(0.0, 0.5) == 0
    assert zcdp_rho(1.0, 0.0) == 0
    assert zcdp_rho(math.inf, 0.5) == math.inf
    assert zcdp_rho(1e-3, 0.9) == 1e-3
    assert zcdp_epsilon(0.0, 1e-6) == 0
    assert zcdp_epsilon(0.1, 0.0) == math.inf
    assert zcdp_epsilon(math.inf, 0.1) == math.inf
    assert zcdp_epsilon(2.0, 1.0) == 2.0
    assert gaussian_rho(0.0) == math.inf
    assert gaussian_rho(math.inf) == 0
    assert basic_composition() == (0.0, 0.0)
    assert replacement(1.0, 0.0) == (2.0, 0.0)
    assert replacement(1000.0, 1e-9) == (2000.0, 1.0)
    assert replacement(800.0, 1e-299) == (1600.0, 1.0)
    tiny = reference.zcdp_delta(zcdp_epsilon(1e-15, 1e-10), 1e-15)
    assert float(tiny) == pytest.approx(1e-10, rel=1e-9)


def test_conversion_is_never_below_the_tight_gaussian_curve():
    for sigma in (0.5, 2.0, 10.0):
        for epsilon in (gaussian_rho(sigma) + 0.01, 1.5, 5.0):
            if epsilon >= gaussian_rho(sigma):
                assert zcdp_delta(epsilon, gaussian_rho(sigma)) >= gaussian_delta(epsilon, 1 / sigma)


def test_gaussian_rho_is_the_renyi_divergence():
    """D_alpha(N(0, s^2) || N(1, s^2)) = alpha / (2 s^2), integrated numerically at alpha = 2."""
    import mpmath as mp

    s = mp.mpf(3)
    density = lambda x, c: mp.npdf(x, c, s)  # noqa: E731
    renyi = mp.log(mp.quad(lambda x: density(x, 0) ** 2 / density(x, 1), [-60, 0, 60]))
    assert float(renyi) == pytest.approx(2 * gaussian_rho(3.0), rel=1e-8)


@pytest.mark.parametrize("exponent", [0.1, 1.0, 3.0])
def test_exponential_mechanism_divergence_is_below_its_price(exponent):
    """Brute force over neighbouring count vectors: D_alpha <= rho alpha for all orders tried."""
    worst = 0.0
    for counts in [(0, 0), (3, 0), (0, 3), (1, 2, 2), (5, 5, 0, 0)]:
        for plus in range(len(counts)):
            up = [c + (i == plus) for i, c in enumerate(counts)]
            p = _softmax([exponent * c for c in counts])
            q = _softmax([exponent * c for c in up])
            for alpha in (1.01, 2.0, 8.0, 20.0):
                for a, b in ((p, q), (q, p)):
                    d = math.log(sum(x**alpha * y ** (1 - alpha) for x, y in zip(a, b, strict=True))) / (
                        alpha - 1
                    )
                    worst = max(worst, d / alpha)
    assert worst <= exponential_rho(exponent)
    assert worst > exponential_rho(exponent) / 4  # the price is not vacuous


def _softmax(scores):
    weights = [math.exp(s - max(scores)) for s in scores]
    return [w / sum(weights) for w in weights]


def test_sums_and_conversions():
    assert basic_composition((0.5, 1e-6), (0.25, 2e-6)) == pytest.approx((0.75, 3e-6))
    assert basic_composition((0.1, 0.7), (0.1, 0.7))[1] == 1
    assert replacement(1.0, 1e-6) == pytest.approx((2.0, (1 + math.e) * 1e-6))
    assert pure_rho(0.5) == 0.125
