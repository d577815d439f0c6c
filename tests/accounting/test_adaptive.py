"""Bounded-range choices among Gaussian queries: the worst adaptive case, from above and from below.

From below come strategies that an adversary can really play: two-outcome choices composed by
dp-accounting, exhaustive searches over t, a dynamic program that may only use t on its grid (so that
nothing is interpolated), and exponential mechanisms enumerated exactly.
"""

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from promises import events, forest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from lumberjack.accounting import (
    Choices,
    adaptive,
    bounded_range_delta,
    calibrate,
    cutoff_delta,
    gaussian_delta,
    gaussian_mu,
    joint_delta,
    spent,
    zcdp_delta,
    zcdp_rho,
)


def last(y):
    """Delta when nothing is left to come: (1 - e^-y)+ at y = loss - epsilon."""
    return np.maximum(0.0, -np.expm1(-y))


def first_is_up(t, eta):
    """P of loss t when the other loss is t - eta, from P + P' = 1 and P e^-t + P' e^(eta - t) = 1."""
    matrix = np.array([[1.0, 1.0], [math.exp(-t), math.exp(eta - t)]])
    return np.linalg.solve(matrix, np.ones(2))[0]


def gaussian_average(function, epsilon, mu, nodes=4001):
    """E function(Z - epsilon) for the privacy loss Z ~ N(mu^2/2, mu^2) of a Gaussian query."""
    if mu == 0:
        return float(function(np.array([-epsilon]))[0])
    z = np.linspace(-12, 12, nodes)
    return float(np.trapezoid(norm.pdf(z) * function(mu * mu / 2 + mu * z - epsilon), z))


def exhaustive(y, choices, eta, ts, base=last):
    """The recursion itself with t from a finite set: every strategy is tried."""
    if choices == 0:
        return base(y)
    ts = np.asarray(ts)
    up = np.array([first_is_up(t, eta) for t in ts])
    above = exhaustive(y[..., None] + ts, choices - 1, eta, ts, base)
    below = exhaustive(y[..., None] + ts - eta, choices - 1, eta, ts, base)
    return (up * above + (1 - up) * below).max(axis=-1)


def played(epsilon, mu, choices, eta, steps, reach):
    """A real strategy, Gaussian first: t is a multiple of eta/steps, so losses keep to a grid."""
    h = eta / steps
    n = reach * steps
    y = h * np.arange(-n, n + 1)
    value = last(y)
    ups = [first_is_up(c * h, eta) for c in range(steps + 1)]
    for _ in range(choices):
        wide = np.concatenate([np.zeros(steps), value, last(y[-1] + h * np.arange(1, steps + 1))])
        value = np.max(
            [
                up * wide[steps + c : steps + c + y.size] + (1 - up) * wide[c : c + y.size]
                for c, up in enumerate(ups)
            ],
            axis=0,
        )
    return gaussian_average(lambda x: np.interp(x, y, value, left=0.0), epsilon, mu)


# --- the Gaussian part alone ---------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_without_choices_delta_is_the_tight_gaussian_curve(epsilon, sigma):
    theirs = pld.from_gaussian_mechanism(sigma).get_delta_for_epsilon(epsilon)
    for nothing in ((), ((0, 0.7),), ((5, 0.0), (0, 1.0))):
        ours = bounded_range_delta(epsilon, 1 / sigma, *nothing)
        assert ours == gaussian_delta(epsilon, 1 / sigma)
        assert ours == pytest.approx(theirs, rel=2e-3)


def test_small_choices_approach_the_gaussian_curve():
    for eta in (5e-324, 1e-200, 1e-12):
        found = bounded_range_delta(0.5, 0.3, (50, eta))
        assert gaussian_delta(0.5, 0.3) <= found <= gaussian_delta(0.5, 0.3) * (1 + 1e-8)


# --- the recursion -------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [1e-9, 0.01, 0.5, 2.0, 10.0, 50.0])
@pytest.mark.parametrize("part", [0.0, 0.13, 0.5, 0.9])
def test_one_choice_has_a_closed_form(eta, part):
    """(e^(eta/2) - e^(epsilon/2))^2 / (e^eta - 1), from maximising (e^eta - u)(1 - e^epsilon/u)."""
    epsilon = part * eta
    exact = math.expm1((epsilon - eta) / 2) ** 2 / -math.expm1(-eta)
    found = bounded_range_delta(epsilon, 0.0, (1, eta))
    assert exact * (1 - 1e-12) <= found
    if eta <= 2:
        assert found <= exact * 1.01  # a chord over 1/64 of eta


@pytest.mark.parametrize(
    ("choices", "eta", "parts"), [(1, 0.3, 200), (2, 0.3, 120), (3, 1.0, 24), (4, 0.05, 12)]
)
@pytest.mark.parametrize("place", [0.0, 0.3, 0.6])
def test_exhaustive_search_over_few_choices(choices, eta, parts, place):
    epsilon = place * choices * eta
    ts = np.linspace(0, eta, parts + 1)
    reached = float(exhaustive(np.array([-epsilon]), choices, eta, ts)[0])
    found = bounded_range_delta(epsilon, 0.0, (choices, eta))
    assert reached > 0
    assert reached <= found <= reached * 1.03  # the search is the coarser of the two


@pytest.mark.parametrize(("epsilon", "mu", "choices", "eta"), [(0.6, 0.3, 2, 0.2), (1.0, 1.0, 2, 1.0)])
def test_exhaustive_search_after_a_gaussian(epsilon, mu, choices, eta):
    ts = np.linspace(0, eta, 41)
    reached = gaussian_average(lambda y: exhaustive(y, choices, eta, ts), epsilon, mu, nodes=601)
    found = bounded_range_delta(epsilon, mu, (choices, eta))
    assert reached * (1 - 1e-6) <= found <= reached * 1.002


@pytest.mark.parametrize(
    ("epsilon", "mu", "choices", "eta", "steps", "reach"),
    [
        (1.0, 0.2, 160, 0.02, 32, 60),
        (1.0, 0.0, 160, 0.03, 16, 60),
        (8.0, 1.2, 160, 0.1, 16, 90),
        (0.3, 0.06, 30, 0.02, 32, 30),
        (1.0, 0.2, 1000, 0.008, 8, 150),
    ],
)
def test_bound_is_close_to_a_real_strategy(epsilon, mu, choices, eta, steps, reach):
    reached = played(epsilon, mu, choices, eta, steps, reach)
    found = bounded_range_delta(epsilon, mu, (choices, eta))
    assert reached * (1 - 1e-5) <= found  # reached is interpolated between the grid's losses
    assert found <= reached * 1.15


@pytest.mark.parametrize("reach", [1, 3, 8])
def test_ending_the_grid_early_only_raises_the_bound(reach):
    whole = adaptive._after_choices([(20, 0.1)], 0.1 / 8, [8], 8 * 20)
    short = adaptive._after_choices([(20, 0.1)], 0.1 / 8, [8], 8 * reach)
    assert (short >= whole[-short.size :] * (1 - 1e-14)).all()
    assert short[0] > 0


def test_losses_beyond_the_grid_are_priced(monkeypatch):
    arguments = (0.6, 0.1, ((40, 0.05),))
    whole = adaptive._worst_case.__wrapped__(*arguments)
    monkeypatch.setattr(adaptive, "_TAIL", -3.0)
    assert adaptive._worst_case.__wrapped__(*arguments) > whole * 1.01


def test_tight_for_the_default_forest():
    reached = played(1.0, 0.2, 160, 0.02, 32, 60)
    assert bounded_range_delta(1.0, 0.2, (160, 0.02)) <= reached * 1.02


def test_choices_that_see_gaussian_answers_are_worse_than_choices_made_first():
    """Why the Gaussian part is averaged last: the other order does not bound interleaved queries."""
    epsilon, mu, eta = 1.0, 1.0, 2.0
    ts = np.linspace(0, eta, 501)
    choice_first = exhaustive(
        np.array([-epsilon]), 1, eta, ts, base=lambda y: gaussian_delta(-y, mu)
    ).item()
    choice_last = gaussian_average(lambda y: exhaustive(y, 1, eta, ts), epsilon, mu)
    found = bounded_range_delta(epsilon, mu, (1, eta))
    assert choice_first * 1.001 < choice_last
    assert choice_last <= found <= choice_last * 1.001


def test_a_fixed_t_is_not_the_worst_case():
    """Choosing t anew beats every t fixed in advance, so a bound for those would be too low."""
    epsilon, choices, eta = 0.9, 3, 1.0
    ts = np.linspace(0, eta, 31)
    fixed = max(exhaustive(np.array([-epsilon]), choices, eta, [t]).item() for t in ts)
    assert fixed * 1.003 < exhaustive(np.array([-epsilon]), choices, eta, ts).item()


# --- several ranges ------------------------------------------------------------------------------------


def exhaustive_in_order(y, etas, parts):
    """Every strategy over t = eta i / parts, for choices of these ranges in this order."""
    if not etas:
        return last(y)
    eta = etas[0]
    ts = np.linspace(0, eta, parts + 1)
    up = np.array([first_is_up(t, eta) for t in ts])
    above = exhaustive_in_order(y[..., None] + ts, etas[1:], parts)
    below = exhaustive_in_order(y[..., None] + ts - eta, etas[1:], parts)
    return (up * above + (1 - up) * below).max(axis=-1)


@pytest.mark.parametrize(
    "etas", [(0.4, 0.1), (0.1, 0.4), (0.5, 0.2, 0.3), (0.3, 0.2, 0.5), (1.0, 0.37), (0.123, 1.7, 0.4)]
)
@pytest.mark.parametrize("place", [0.0, 0.3, 0.6])
def test_exhaustive_search_over_choices_of_several_ranges(etas, place):
    epsilon = place * sum(etas)
    reached = float(exhaustive_in_order(np.array([-epsilon]), etas, 60 if len(etas) > 2 else 200)[0])
    found = bounded_range_delta(epsilon, 0.0, *((1, eta) for eta in etas))
    assert reached > 0
    assert reached <= found <= reached * 1.05


def test_the_order_of_ranges_matters():
    """Why the last choice is computed first: the exact values of both orders differ."""
    epsilon = 0.12
    first, second = (
        float(exhaustive_in_order(np.array([-epsilon]), etas, 400)[0])
        for etas in ((0.1, 0.4), (0.4, 0.1))
    )
    assert abs(first / second - 1) > 0.01
    found = [bounded_range_delta(epsilon, 0.0, *o) for o in (((1, 0.1), (1, 0.4)), ((1, 0.4), (1, 0.1)))]
    assert found == pytest.approx([first, second], rel=3e-3)


def test_ranges_that_are_multiples_keep_one_grid():
    """So do equal ones: a list of them costs to the last bit what they cost together."""
    for etas in ((0.02, 0.06, 0.01), (0.02, 0.03), (0.7, 0.1), (0.05,)):
        h, steps = adaptive._grid([(40, eta) for eta in etas])
        assert [r * h for r in steps] == pytest.approx(etas, rel=1e-12)
    together = bounded_range_delta(1.0, 0.2, (160, 0.02))
    assert bounded_range_delta(1.0, 0.2, (60, 0.02), (0, 9.0), (100, 0.02)) == together


def test_ranges_are_never_rounded_down():
    rng = np.random.default_rng(8)
    for _ in range(200):
        etas = 10 ** rng.uniform(-6, 1.5, rng.integers(1, 6))
        groups = [(int(10 ** rng.uniform(0, 2.5)), float(eta)) for eta in etas]
        h, steps = adaptive._grid(groups)
        assert all(r * h >= eta * (1 - 1e-14) for (_, eta), r in zip(groups, steps, strict=True))


def test_several_ranges_between_real_strategies_and_the_largest_range():
    """From below by dp-accounting with t fixed in advance, from above by the largest range for all."""
    rng = np.random.default_rng(9)
    closest = 0.0
    for _ in range(6):
        groups = [(int(rng.integers(1, 30)), float(eta)) for eta in rng.choice([0.02, 0.04, 0.1], 3)]
        mu = float(rng.uniform(0.05, 0.4))
        rho = mu**2 / 2 + sum(n * eta**2 / 8 for n, eta in groups)
        epsilon = rho + rng.uniform(1, 3) * math.sqrt(2 * rho)
        found = bounded_range_delta(epsilon, mu, *groups)
        most = (sum(n for n, _ in groups), max(eta for _, eta in groups))
        assert found <= bounded_range_delta(epsilon, mu, most) * (1 + 1e-3)
        assert found <= zcdp_delta(epsilon, rho)
        gaussian = pld.from_gaussian_mechanism(
            1 / mu,
            pessimistic_estimate=False,
            value_discretization_interval=0.0005,
            use_connect_dots=False,
        )
        for c in (2, 4, 5):  # in tenths of each range
            whole = gaussian
            for n, eta in groups:
                whole = whole.compose(two_outcomes(c, 10, eta, 0.0005).self_compose(n))
            theirs = whole.get_delta_for_epsilon(epsilon)
            assert theirs <= found
            closest = max(closest, theirs / found)
    assert closest > 0.9


# --- dp-accounting: choices fixed in advance -----------------------------------------------------------


def two_outcomes(c, steps, eta, interval):
    """dp-accounting's distribution of a choice with t = c eta/steps; losses: multiples of interval."""
    t = c * eta / steps
    up = first_is_up(t, eta)
    upper = {"up": math.log(up), "down": math.log1p(-up)}
    nudge = 1e-9 * interval  # losses t and t - eta must not be rounded down to the next multiple
    lower = {"up": upper["up"] - t - nudge, "down": upper["down"] - t + eta - nudge}
    return pld.from_two_probability_mass_functions(
        lower, upper, pessimistic_estimate=False, value_discretization_interval=interval
    )


@pytest.mark.parametrize(
    ("epsilon", "sigma", "choices", "eta"),
    [(1.0, 5.0, 160, 0.02), (0.5, 4.0, 12, 0.1), (2.0, 1.5, 4, 0.4)],
)
def test_dp_accounting_with_t_fixed_in_advance(epsilon, sigma, choices, eta):
    steps = 20
    interval = eta / steps / 4
    gaussian = pld.from_gaussian_mechanism(
        sigma,
        pessimistic_estimate=False,
        value_discretization_interval=interval,
        use_connect_dots=False,
    )
    found = bounded_range_delta(epsilon, 1 / sigma, (choices, eta))
    closest = 0.0
    for c in range(1, steps):
        one = two_outcomes(c, steps, eta, interval)
        theirs = one.self_compose(choices).compose(gaussian).get_delta_for_epsilon(epsilon)
        assert theirs <= found
        closest = max(closest, theirs / found)
    assert closest > 0.85
    half = choices // 2
    for c, d in itertools.combinations((3, 8, 10, 12, 17), 2):
        one, two = two_outcomes(c, steps, eta, interval), two_outcomes(d, steps, eta, interval)
        mixed = one.self_compose(half).compose(two.self_compose(choices - half)).compose(gaussian)
        assert mixed.get_delta_for_epsilon(epsilon) <= found


# --- exponential mechanisms, enumerated ----------------------------------------------------------------


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def random_algorithm(rng, choices, eta, sigma, questions):
    """(P, Q) of all transcripts of a random adaptive algorithm, and its Gaussian mu.

    Choices among up to four options whose scores move within an interval of width eta, and threshold
    questions "count + N(0, sigma^2) > tau?", in random order; each step depends on all before it.
    """
    kinds = rng.permutation(["choice"] * choices + ["question"] * questions)
    transcripts = [(1.0, 1.0)]
    for kind in kinds:
        grown = []
        for p, q in transcripts:
            if kind == "choice":
                scores = rng.normal(0, 2, rng.integers(2, 5))
                ends = rng.random() < 0.8  # adversarial: every score moves as far as it may
                move = rng.integers(0, 2, scores.size) if ends else rng.random(scores.size)
                one, other = softmax(scores), softmax(scores + eta * move - rng.normal())
                grown += [(p * a, q * b) for a, b in zip(one, other, strict=True)]
            else:
                tau = rng.normal(0, sigma)
                shift = rng.choice([-1, 1])
                yes, other_yes = norm.sf(tau / sigma), norm.sf((tau - shift) / sigma)
                grown += [(p * yes, q * other_yes), (p * (1 - yes), q * (1 - other_yes))]
        transcripts = grown
    return np.array(transcripts).T, math.sqrt(questions) / sigma


def test_random_adaptive_algorithms_stay_below_the_bound():
    """Exact: the last Gaussian answer is integrated by the tight curve at what is left of epsilon."""
    rng = np.random.default_rng(11)
    closest = 0.0
    for _ in range(150):
        choices, questions = int(rng.integers(1, 5)), int(rng.integers(0, 4))
        eta, sigma = 10 ** rng.uniform(-1.5, 0.5), 10 ** rng.uniform(-0.3, 0.7)
        (p, q), mu = random_algorithm(rng, choices, eta, sigma, questions)
        last_mu = rng.choice([0.0, 0.3])
        for epsilon in rng.uniform(0, 0.7, 3) * (choices * eta + questions / sigma):
            bound = bounded_range_delta(epsilon, math.hypot(mu, last_mu), (choices, eta))
            for one, other in ((p, q), (q, p)):
                exact = one @ gaussian_delta(epsilon - np.log(one / other), last_mu)
                assert exact <= bound * (1 + 1e-12)
                if bound > 1e-12:
                    closest = max(closest, exact / bound)
    assert closest > 0.7  # the bound is not vacuous


def test_two_options_reach_the_bound():
    """Greedy adversary with real exponential mechanisms: the gap of two scores sets t."""
    epsilon, choices, eta = 0.35, 3, 0.3
    ts = np.linspace(0, eta, 25)[1:-1]
    worst = {}

    def play(p, q, left):
        if left == 0:
            return max(0.0, p - math.exp(epsilon) * q)
        return max(sum(play(p * a, q * b, left - 1) for a, b in zip(*worst[t], strict=True)) for t in ts)

    for t in ts:
        # softmax(gap, 0) has loss t at the first option when its score falls by eta under Q
        gap = brentq(
            lambda g, t=t: (
                math.log(softmax(np.array([g, 0.0]))[0] / softmax(np.array([g - eta, 0.0]))[0]) - t
            ),
            -60,
            60,
        )
        worst[t] = softmax(np.array([gap, 0.0])), softmax(np.array([gap - eta, 0.0]))
    reached = play(1.0, 1.0, choices)
    bound = bounded_range_delta(epsilon, 0.0, (choices, eta))
    assert reached <= bound <= reached * 1.02


@pytest.mark.parametrize(
    ("epsilon", "mu", "choices", "exponent"),
    [(0.5, 0.3, 40, 0.02), (1.0, 0.6, 30, 0.08), (2.0, 0.5, 120, 0.06)],
)
@pytest.mark.parametrize("adaptive", [False, True])
def test_monte_carlo_of_the_true_privacy_loss(epsilon, mu, choices, exponent, adaptive):
    """Transcripts of an algorithm that runs, with their exact losses: a Gaussian answer in the middle of
    exponential mechanisms over seven options whose scores move within [-1, 1]. Adaptive: how many scores
    rise depends on the loss so far. 5 standard errors: a false alarm in less than 1e-6 of all runs."""
    rng = np.random.default_rng(choices + adaptive)
    n = 400_000
    loss = np.zeros(n)
    for step in range(choices):
        if step == choices // 2:
            loss += rng.normal(mu**2 / 2, mu, n)  # loss of one Gaussian query, under the first data set
        scores = rng.uniform(0, 2 / exponent, 7)  # of the other data set
        rising = np.clip((3.5 + 4 * (epsilon - loss)).astype(int), 1, 6) if adaptive else np.full(n, 3)
        place = rng.random(n)
        for k in range(1, 7):
            here = np.flatnonzero(rising == k)
            change = np.where(np.arange(7) < k, 1.0, -1.0)
            p, q = (np.exp(exponent * s) for s in (scores + change, scores))
            p, q = p / p.sum(), q / q.sum()
            option = np.searchsorted(np.cumsum(p), place[here]).clip(max=6)
            loss[here] += np.log(p / q)[option]
    gain = np.maximum(-np.expm1(epsilon - loss), 0)
    bound = bounded_range_delta(epsilon, mu, (choices, 2 * exponent))
    assert gain.mean() - 5 * gain.std() / math.sqrt(n) <= bound
    assert gain.mean() > bound / 20  # the algorithm does leak, and the bound is not far


def test_rows_of_one_person_on_separate_nodes_of_one_level():
    """r independent choices, one row in each, are one choice of range r eta, and not of range eta."""
    eta, r, epsilon = 0.2, 4, 0.25
    up = first_is_up(eta / 2, eta)
    reached = sum(
        math.comb(r, i) * up**i * (1 - up) ** (r - i) * last(i * eta - r * eta / 2 - epsilon)
        for i in range(r + 1)
    )
    assert bounded_range_delta(epsilon, 0.0, (1, eta)) == 0
    assert 0 < reached <= bounded_range_delta(epsilon, 0.0, (1, r * eta))
    arguments = {"m": 14, "sigma": 90.0, "Delta": 400.0, "k": 2, "leaf_sigma": 30.0}
    for rows in (1, 5):
        mu = rows * math.sqrt(14 / 90**2 + 2 / 30**2)
        expected = bounded_range_delta(1.0, mu, (16, rows * 2 * 0.01))
        expected += cutoff_delta((14, 90.0, 400.0), rows_per_person=rows)
        listed = [*events(**arguments, rows=rows), Choices(16, 0.01, 2.0)]
        found = joint_delta(1.0, listed, rows)
        assert found == pytest.approx(expected, rel=1e-12)


# --- shape of the bound --------------------------------------------------------------------------------


def test_delta_grows_with_every_argument():
    rng = np.random.default_rng(5)
    for _ in range(40):
        choices = int(10 ** rng.uniform(0, 2.3))
        eta = 10 ** rng.uniform(-2, 0) / math.sqrt(choices)
        mu = rng.choice([0.0, 10 ** rng.uniform(-2, 0.3)])
        epsilon = rng.uniform(0, 3) * (eta * math.sqrt(choices) + mu)
        here = bounded_range_delta(epsilon, mu, (choices, eta))
        at_least = here * (1 - 1e-9)
        grow = 1 + 10 ** rng.uniform(-3, 0)
        assert bounded_range_delta(epsilon, mu * grow, (choices, eta)) >= at_least
        assert bounded_range_delta(epsilon, mu, (choices, eta * grow)) >= at_least
        assert bounded_range_delta(epsilon, mu, (choices + 1, eta)) >= at_least
        assert bounded_range_delta(epsilon / grow, mu, (choices, eta)) >= at_least


def test_never_above_zcdp_and_never_below_the_gaussian_part():
    rng = np.random.default_rng(6)
    gains = []
    for _ in range(60):
        choices = int(10 ** rng.uniform(0, 3))
        rho = 10 ** rng.uniform(-4, 0.5)
        mu, eta = math.sqrt(2 * 0.6 * rho), math.sqrt(8 * 0.4 * rho / choices)
        epsilon = rng.uniform(0, 3) * rho + rng.uniform(0, 6) * math.sqrt(rho)
        found = bounded_range_delta(epsilon, mu, (choices, eta))
        by_zcdp = zcdp_delta(epsilon, mu**2 / 2 + choices * eta**2 / 8)
        assert gaussian_delta(epsilon, mu) <= found <= by_zcdp
        gains.append(found / by_zcdp)
    assert np.median(gains) < 0.6


def test_zcdp_is_the_ceiling_whatever_the_recursion_says(monkeypatch):
    monkeypatch.setattr(adaptive, "_worst_case", lambda *arguments: 1.0)
    found = bounded_range_delta(1.0, 0.2, (50, 0.04))
    assert found == pytest.approx(zcdp_delta(1.0, 0.02 + 50 * 0.04**2 / 8), rel=1e-12)


def test_bounded_range_delta_edges():
    assert bounded_range_delta(math.inf, 1.0, (3, 1.0)) == 0
    assert bounded_range_delta(math.inf, math.inf, (3, 1.0)) == 0
    assert bounded_range_delta(1.0, math.inf, (3, 1.0)) == 1
    assert bounded_range_delta(0.0, 0.0, (0, 1.0)) == 0
    assert bounded_range_delta(0.0, 0.0, (3, 0.0)) == 0
    # Pure DP: no loss exceeds N eta.
    assert bounded_range_delta(0.6, 0.0, (3, 0.2)) < 1e-15
    assert bounded_range_delta(0.61, 0.0, (3, 0.2)) == 0
    # epsilon = 0: the total variation distance of one fair coin that moves to e^(eta/2) against it.
    assert bounded_range_delta(0.0, 0.0, (1, 0.5)) == pytest.approx(math.tanh(0.125), rel=1e-9)
    assert bounded_range_delta(1.0, 0.5, (20, 49.0)) == pytest.approx(1.0)
    assert bounded_range_delta(1.0, 0.5, (20, 1e6)) == 1
    assert bounded_range_delta(1.0, 0.5, (20, math.inf)) == 1
    many = bounded_range_delta(1.0, 0.2, (10**6, 1e-5))
    assert many == pytest.approx(zcdp_delta(1.0, 0.02 + 1.25e-5), rel=1e-12)
    loud = Choices(4, 1.0, 2.0)
    assert joint_delta(math.inf, [*events(3, 2.0, 5.0), loud]) == cutoff_delta((3, 2.0, 5.0))
    assert joint_delta(1.0, [*events(3, 0.0, 5.0), loud]) == 1
    for silent in (Choices(0, 1.0, 2.0), Choices(4, 0.0, 2.0), Choices(4, 1.0, 0.0)):
        listed = events(7, 9.0, 40.0)
        assert joint_delta(1.0, [*listed, silent]) == joint_delta(1.0, listed)


# --- calibration ---------------------------------------------------------------------------------------

FOREST = {"m": 140, "k": 20, "choices": 160, "leaf_share": 0.35}


def tight_scale(epsilon, delta, choices=160, choice_share=0.3):
    """Largest total mu that the tight bound allows, with 30 % of it for choices."""
    return brentq(
        lambda mu: (
            bounded_range_delta(
                epsilon,
                mu * math.sqrt(1 - choice_share),
                (choices, 2 * mu * math.sqrt(choice_share / choices)),
            )
            - delta
        ),
        math.sqrt(2 * zcdp_rho(epsilon, delta)),
        gaussian_mu(epsilon, delta) / math.sqrt(1 - choice_share),
    )


@pytest.mark.parametrize(
    ("epsilon", "gain"), [(0.1, 0.11), (0.5, 0.10), (1.0, 0.08), (4.0, 0.08), (8.0, 0.07)]
)
def test_gain_over_zcdp(epsilon, gain):
    zcdp = math.sqrt(2 * zcdp_rho(epsilon, 1e-6))
    assert zcdp <= tight_scale(epsilon, 1e-6) * (1 - gain)


def test_gain_over_zcdp_in_a_calibrated_forest():
    """Both calibrated for the smallest threshold; at least 8 % less noise everywhere."""
    queries, choices, leaves = calibrate(1.0, 1e-6, forest(**FOREST))

    def zcdp(part):
        mu = math.sqrt(2 * zcdp_rho(1.0, 1e-6 * (1 - part)))
        sigma = math.sqrt(140 / 0.35) / mu
        return 1 + sigma * norm.isf(-math.expm1(math.log1p(-1e-6 * part) / 140)), mu, sigma

    part = minimize_scalar(lambda x: zcdp(x)[0], bounds=(1e-4, 1 - 1e-4), method="bounded").x
    tau, mu, sigma = zcdp(part)
    assert queries.threshold <= 0.92 * tau
    assert queries.noise <= 0.92 * sigma
    assert leaves.noise <= 0.92 * math.sqrt(20 / 0.35) / mu
    assert 0.92 * choices.exponent >= mu * math.sqrt(0.3 / 160)  # rho = N lambda^2 / 2


@pytest.mark.parametrize("epsilon", [0.001, 1.0, 100.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 0.1])
@pytest.mark.parametrize(
    ("shape", "rows"),
    [(FOREST, 1), (FOREST, 7), ({"m": 1, "k": 0, "choices": 1, "score_range": 1.01}, 1)],
)
def test_calibration_keeps_the_promise(epsilon, delta, shape, rows):
    found = calibrate(epsilon, delta, forest(**{**shape, "choice_share": 0.2, "leaf_share": 0.5}), rows)
    queries, choices, *leaves = found
    assert 0.999 * delta <= joint_delta(epsilon, found, rows) <= delta
    assert queries.threshold == queries.cutoff + rows
    prices = list(map(spent, found))
    shares = [price / sum(prices) for price in prices]
    assert shares == pytest.approx([0.3, 0.2, 0.5] if leaves else [0.8, 0.2])
    assert choices.score_range == shape.get("score_range", 2.0)


def test_calibrated_forest_against_a_real_strategy():
    """Recomputed without the code under test: what an adversary reaches stays below, and is near."""
    queries, choices, leaves = calibrate(1.0, 1e-6, forest(**FOREST))
    mu = math.sqrt(140 / queries.noise**2 + 20 / leaves.noise**2)
    reached = played(1.0, mu, 160, 2 * choices.exponent, 32, 60)
    reached -= math.expm1(140 * norm.logcdf(queries.cutoff / queries.noise))
    assert 0.97e-6 <= reached <= 1e-6


def test_calibrated_threshold_is_the_smallest():
    """A scan over the part of delta that the cut-off gets."""
    queries, *_ = calibrate(1.0, 1e-6, forest(**FOREST))
    for part in (0.03, 0.1, 0.15, 0.2, 0.4):
        sigma = math.sqrt(140 / 0.35) / tight_scale(1.0, 1e-6 * (1 - part))
        tau = 1 + sigma * norm.isf(-math.expm1(math.log1p(-1e-6 * part) / 140))
        assert queries.threshold <= tau * (1 + 1e-5)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be at least 0, got -1"),
        ({"mu": -0.1}, "mu must be at least 0"),
        ({"eta": math.nan}, "eta must be a number, got NaN"),
        ({"choices": -1}, "choices must be at least 0, got -1"),
    ],
)
def test_bad_arguments_are_named(kwargs, message):
    given = {"epsilon": 1.0, "mu": 0.1, "choices": 2, "eta": 0.1, **kwargs}
    with pytest.raises(ValueError, match=message):
        bounded_range_delta(given["epsilon"], given["mu"], (given["choices"], given["eta"]))
