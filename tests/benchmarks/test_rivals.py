"""Linear models and boosted one-column trees: their price, their noise, and what they learn."""

import itertools
import math
import os
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import brentq
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.baselines import boosting, cells, linear
from benchmarks.baselines.base import values_of
from benchmarks.baselines.bayes import NaiveBayes
from benchmarks.baselines.boosting import EBMNewton
from benchmarks.baselines.linear import LRBin, LRBinRegressor, LRNested, LRPairs
from lumberjack import Domain
from lumberjack.datasets import fetch_adult, make_toy

DOMAIN = Domain({"a": ["x", "y", "z"], "b": (0.0, 10.0), "c": (-400.0, 400.0)})
MANY = [f"v{i}" for i in range(20)]


def table(n, rule, seed=0):
    rng = np.random.default_rng(seed)
    a, b, c = rng.choice(["x", "y", "z"], n), rng.uniform(0, 10, n), rng.uniform(-400, 400, n)
    return pd.DataFrame({"a": a, "b": b, "c": c}), rule(a, b, c)


def either(a, b, c):
    return ((a == "x") | (b > 7)).astype(int)


def exactly_one(a, b, c):
    return ((a == "x") ^ (b > 5)).astype(int)


def three(a, b, c):
    return np.where(a == "x", 2, (b > 5).astype(int))


def delta_of(epsilon, mu):
    """The Gaussian curve (Balle and Wang 2018)."""
    upper, lower = stats.norm.cdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
    return upper - math.exp(epsilon) * lower


def mu_of(epsilon):
    return brentq(lambda mu: delta_of(epsilon, mu) - 1e-6, 0.01, 20, xtol=1e-14)


class Watched:
    """A generator that tells how much noise was drawn."""

    def __init__(self, seed=0):
        self.rng, self.scales = np.random.default_rng(seed), []

    def __getattr__(self, name):
        return getattr(self.rng, name)

    def normal(self, scale, size):
        self.scales.append(scale)
        return self.rng.normal(scale=scale, size=size)


# price and noise


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
@pytest.mark.parametrize(
    ("system", "rule", "reaches"),  # norm of what a row adds to each release
    [
        (LRBin, either, [0.5] * 50),
        (LRBin, three, [math.sqrt(0.5)] * 50),
        (LRPairs, either, [1.0] * 2 + [0.5] * 200),  # histograms of b and c
        (LRPairs, three, [1.0] * 2 + [math.sqrt(0.5)] * 200),
        (LRNested, either, [1.0] * 2 + [0.5] * 200),
        (NaiveBayes, either, [1.0] * 5),  # classes, a, b, and c on two scales
        (NaiveBayes, three, [1.0] * 5),
        (EBMNewton, either, [1.0] * 200),
        (EBMNewton, three, [math.sqrt(2)] * 200),
    ],
)
def test_all_noise_together_spends_delta(system, rule, reaches, epsilon):
    X, y = table(50, rule)
    rng = Watched()
    system().fit(X, y, DOMAIN, sorted(set(y)), epsilon, rng)
    mu = math.sqrt(sum((r / s) ** 2 for r, s in zip(reaches, rng.scales, strict=True)))
    assert delta_of(epsilon, mu) == pytest.approx(1e-6, rel=1e-6)


def test_the_regressor_spends_delta():
    X, y = table(50, lambda a, b, c: c)
    rng = Watched()
    LRBinRegressor().fit(X, y, DOMAIN, (-400, 400), 1.0, rng)
    mu = math.sqrt(sum((0.1 / s) ** 2 for s in rng.scales))
    assert len(rng.scales) == 200
    assert delta_of(1.0, mu) == pytest.approx(1e-6, rel=1e-6)


def test_pairs_give_a_tenth_of_the_budget_to_histograms():
    X, y = table(50, either)
    rng = Watched()
    LRPairs().fit(X, y, DOMAIN, [0, 1], 1.0, rng)
    assert rng.scales[:2] == pytest.approx([math.sqrt(2 / 0.1) / mu_of(1.0)] * 2)


class Quiet(Watched):
    """A generator without noise."""

    def normal(self, scale, size):
        return np.zeros(size)


def gradients_of(model, data, public, rng, times=1):
    """What the model would release at some large weights, so many times."""
    seen = []

    def probe(gradient, start, steps, rate):
        w = 6 * np.random.default_rng(1).normal(size=start.shape)
        seen.extend(gradient(w) for _ in range(times))
        return start

    with mock.patch.object(linear, "adam", probe):
        model.fit(*data, DOMAIN, public, 1.0, rng)
    return np.array(seen)


def public_codings(values, domain, mu, rng):
    return [cells.even_bins(j, kind) for j, kind in enumerate(domain.kinds)]


@pytest.mark.parametrize(
    ("model", "rule", "public", "reach"),
    [
        (LRBin(), either, [0, 1], 0.5),
        (LRBin(), three, [0, 1, 2], math.sqrt(0.5)),
        (LRPairs(), either, [0, 1], 0.5),
        (LRNested(), either, [0, 1], 0.5),
        (LRBinRegressor(), lambda a, b, c: c, (-400, 400), 0.1),
    ],
)
def test_a_row_moves_a_gradient_as_far_as_it_pays_for(monkeypatch, model, rule, public, reach):
    monkeypatch.setattr(linear, "coarse_codings", public_codings)  # else they depend on the row
    monkeypatch.setattr(cells, "cut_at_quantiles", lambda coding, counts, most=6: coding)
    X, y = table(40, rule)
    whole = gradients_of(model, (X, y), public, Quiet())[0]
    moved = []
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        without = gradients_of(model, (X[rest], y[rest]), public, Quiet())[0]
        moved.append(np.linalg.norm(whole - without))
    assert max(moved) == pytest.approx(reach)


@pytest.mark.parametrize(("rule", "n_classes"), [(either, 2), (three, 3)])
def test_gradients_are_those_of_one_hot_vectors_plus_gaussian_noise(rule, n_classes):
    """KS test, false alarm 1e-6."""
    X, y = table(300, rule)
    seen = gradients_of(LRBin(), (X, y), list(range(n_classes)), np.random.default_rng(0), times=30)
    b, c = X["b"].to_numpy(), X["c"].to_numpy()
    on_log_scale = np.sign(c) * np.log1p(abs(c)) / math.log(401)
    codes = [
        (np.zeros(300), 1),
        (["xyz".index(v) for v in X["a"]], 3),
        (b // (10 / 32), 32),
        ((c + 400) // 25, 32),
        ((on_log_scale + 1) // (1 / 16), 32),
    ]
    dense = np.hstack([np.eye(size)[np.asarray(code, dtype=int)] for code, size in codes])
    dense /= math.sqrt(5)
    w = 6 * np.random.default_rng(1).normal(size=(100, 1 if n_classes == 2 else 3))
    z = dense @ w
    if n_classes == 2:
        residual, clip = 1 / (1 + np.exp(-z)) - y[:, None], 0.5
    else:
        share = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        residual, clip = share - np.eye(3)[y], math.sqrt(0.5)
    norm = np.linalg.norm(residual, axis=1, keepdims=True)
    exact = dense.T @ (residual * np.minimum(1, clip / norm))
    noise = (seen - exact).ravel() / (math.sqrt(50) * clip / mu_of(1.0))
    assert stats.kstest(noise, "norm").pvalue > 1e-6


def test_histograms_are_exact_counts_plus_gaussian_noise():
    """KS test, false alarm 1e-6."""
    domain = Domain({"a": MANY, "b": (0.0, 10.0), "c": ["u", "v"]})
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice(MANY, 500), "b": rng.uniform(0, 10, 500), "c": "u"})
    exact = {
        "fold": X["a"].value_counts().reindex(MANY, fill_value=0).to_numpy(),
        "cut_at_quantiles": np.histogram(X["b"], np.linspace(0, 10, 33))[0],
    }
    noise = []
    for name, counts in exact.items():
        with mock.patch.object(cells, name, wraps=getattr(cells, name)) as watched:
            for _ in range(200):
                cells.coarse_codings(values_of(X, domain), domain, 0.3, rng)
        noise += [call.args[1] - counts for call in watched.call_args_list]
    scaled = np.concatenate(noise) / (math.sqrt(2) / 0.3)  # two histograms: "c" needs none
    assert len(scaled) == 200 * (20 + 32)
    assert stats.kstest(scaled, "norm").pvalue > 1e-6


def test_a_row_adds_no_more_to_a_leaf_than_it_pays_for():
    """All shares of a fine grid: norms of (p - y, p (1 - p))."""
    grid = np.linspace(0, 1, 201)
    two = max(math.hypot(p - y, p * (1 - p)) for p in grid for y in (0, 1))
    assert two == 1
    p, q = (part.ravel() for part in np.meshgrid(grid, grid))
    shares = np.stack([p, q, 1 - p - q], axis=1)[p + q <= 1 + 1e-9]
    curvature = (shares * (1 - shares)) ** 2
    norms = [np.sqrt(((shares - e) ** 2 + curvature).sum(axis=1)).max() for e in np.eye(3)]
    assert norms == pytest.approx([math.sqrt(2)] * 3)


def test_a_leaf_takes_a_noisy_newton_step():
    """KS test of a single tree with one leaf, false alarm 1e-6."""
    domain, rng = Domain({"a": ["x"]}), np.random.default_rng(0)
    X, y = pd.DataFrame({"a": ["x"] * 100}), [0] * 80 + [1] * 20
    steps = []
    for _ in range(1000):
        model = EBMNewton(n_trees=1, depth=1, rate=0.5).fit(X, y, domain, [0, 1], 1.0, rng)
        p = model.predict_proba(X[:1])[0]
        steps.append(math.log(p[1] / p[0]))
    sigma, other = 1 / mu_of(1.0), np.random.default_rng(1)
    gradient = 100 * 0.5 - 20 + sigma * other.normal(size=20_000)
    curvature = 100 * 0.25 + sigma * other.normal(size=20_000)
    expected = -0.5 * gradient / (np.maximum(curvature, 0) + 4 * sigma)
    assert stats.ks_2samp(steps, expected).pvalue > 1e-6


# groups of cells


def test_numbers_are_cut_at_quantiles_and_categories_folded():
    domain = Domain({"a": MANY, "b": (0.0, 64.0), "zeros": (0.0, 64.0)})
    rng = np.random.default_rng(0)
    a = rng.choice(MANY, 4000, p=np.arange(1, 21) / 210)
    b = rng.beta(1, 4, 4000) * 64
    X = pd.DataFrame({"a": a, "b": b, "zeros": np.where(b < 50, 0.0, b)})
    values = values_of(X, domain)
    categories, numbers, zeros = cells.coarse_codings(values, domain, 1.0, Quiet())
    frequent = {name for name, _ in Counter(a).most_common(11)}
    codes = categories.codes(values)
    for name in frequent:
        assert len(set(codes[a == name])) == 1
    assert set(codes[~np.isin(a, list(frequent))]) == {11}
    assert categories.size == 12
    in_bins_of_two = np.array([(b < 2 * i).sum() for i in range(1, 33)])
    cuts = [2 * (1 + int(np.argmax(in_bins_of_two >= 4000 * i / 6))) for i in range(1, 6)]
    assert numbers.cuts.tolist() == sorted(set(cuts))
    assert zeros.cuts.tolist() == [2.0]  # all quantiles are in the first bin
    assert set(zeros.codes(values[b < 50])) == {0}


def test_a_number_is_cut_on_five_nested_scales():
    domain = Domain({"a": ["x", "y"], "b": (0.0, 64.0)})
    b = np.random.default_rng(0).beta(1, 4, 4000) * 64
    X = pd.DataFrame({"a": "x", "b": b})
    found = list(cells.histograms(values_of(X, domain), domain, 1.0, Quiet()))
    category, number = (cells.nested_codings(*each) for each in found)
    assert [coding.size for coding in category] == [2]
    in_bins_of_two = np.array([(b < 2 * i).sum() for i in range(1, 33)])
    for coding, size in zip(number, (2, 4, 8, 16, 32), strict=True):
        goals = 4000 * np.arange(1, size) / size
        cuts = {2 * (1 + int(np.argmax(in_bins_of_two >= goal))) for goal in goals} - {64}
        assert coding.cuts.tolist() == sorted(cuts)
    for wide, fine in itertools.pairwise(number):
        assert set(wide.cuts) <= set(fine.cuts)


def test_naive_bayes_is_bayes_rule_when_noise_is_small(monkeypatch):
    domain = Domain({"a": ["x", "y"], "b": ["u", "v"]})
    counts = {("x", "u"): (30, 10), ("x", "v"): (20, 5), ("y", "u"): (10, 40), ("y", "v"): (15, 70)}
    rows = [(*cell, k) for cell, pair in counts.items() for k in (0, 1) for _ in range(1000 * pair[k])]
    X = pd.DataFrame([row[:2] for row in rows], columns=["a", "b"])
    model = NaiveBayes().fit(X, [row[2] for row in rows], domain, [0, 1], 8.0, Quiet())
    for a, b in counts:
        shares = np.array([75.0, 125.0])
        for value in (a, b):
            of_value = [sum(pair[k] for cell, pair in counts.items() if value in cell) for k in (0, 1)]
            shares *= np.array(of_value) / [75.0, 125.0]
        said = model.predict_proba(pd.DataFrame({"a": [a], "b": [b]}))[0]
        assert said == pytest.approx(shares / shares.sum(), abs=1e-3)


def test_naive_bayes_draws_empty_cells_to_all_rows():
    domain = Domain({"a": ["x", "never"]})
    y = [0] * 300 + [1] * 100
    model = NaiveBayes().fit(pd.DataFrame({"a": ["x"] * 400}), y, domain, [0, 1], 1.0, Quiet())
    said = model.predict_proba(pd.DataFrame({"a": ["never"]}))[0]
    assert said == pytest.approx([301 / 402, 101 / 402])


def test_a_row_has_one_cell_in_each_group():
    X, _ = table(200, either)
    values = values_of(X, DOMAIN)
    a, b, c = public_codings(None, DOMAIN, None, None)
    one_hot = cells.OneHot([(), (a,), (b,), (a, b), (c, b)], [1, 1, 1, 0.2, 0.2])
    found = one_hot.cells(values)
    seen = {}
    for row, (i, j, k) in zip(
        found, zip(a.codes(values), b.codes(values), c.codes(values), strict=True), strict=True
    ):
        assert [*row] == [0, 1 + i, 4 + j, 36 + 32 * i + j, 132 + 32 * k + j]
        seen |= dict.fromkeys(row)
    assert found.max() < len(one_hot.weight) == 132 + 32 * 32
    assert (one_hot.weight[found] ** 2).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(("n_bins", "depth"), [(1, 4), (5, 1), (32, 4), (7, 10)])
def test_random_leaves_are_intervals_cut_at_every_level(n_bins, depth):
    rng = np.random.default_rng(0)
    for _ in range(50):
        leaf = boosting.random_leaves(n_bins, depth, rng)
        assert len(leaf) == n_bins
        assert set(np.diff(leaf, prepend=-1)) <= {0, 1}
        assert depth + 1 <= leaf[-1] + 1 <= 2**depth or leaf[-1] + 1 == n_bins


def test_any_category_may_be_on_its_own_side():
    domain = Domain({"a": ["x", "y", "z"]})
    X, alone = pd.DataFrame({"a": ["x", "y", "z"]}), Counter()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        model = EBMNewton(n_trees=1, depth=1).fit(X, [0, 1, 0], domain, [0, 1], 1.0, rng)
        share = model.predict_proba(X)[:, 1].tolist()
        alone[next(i for i in range(3) if share.count(share[i]) == 1)] += 1
    assert stats.chisquare([alone[i] for i in range(3)]).pvalue > 1e-6


def test_random_cuts_are_uniform():
    rng = np.random.default_rng(0)
    first = [int((boosting.random_leaves(8, 1, rng) == 0).sum()) for _ in range(3500)]
    assert stats.chisquare(np.bincount(first, minlength=8)[1:]).pvalue > 1e-6


def test_adam_by_hand():
    # Gradients 2, then -1: moments 0.2 and 0.004, then 0.08 and 0.004996, corrected by 1 - beta^t.
    given = iter([2.0, -1.0, 5.0])
    said = linear.adam(lambda w: np.array([next(given)]), np.zeros(1), 2, 0.3)
    second = -0.3 - 0.3 * (0.08 / 0.19) / math.sqrt(0.004996 / 0.001999)
    assert said == pytest.approx([second])


# what is learned


@pytest.mark.parametrize("system", [LRBin, LRPairs, LRNested, EBMNewton, NaiveBayes])
def test_sums_of_columns_are_learned(system):
    X, y = table(4000, either)
    model = system().fit(X, y, DOMAIN, [0, 1], 8.0, np.random.default_rng(0))
    Xt, yt = table(2000, either, seed=1)
    assert np.mean(model.predict(Xt) == yt) > 0.93
    assert model.predict_proba(Xt).sum(axis=1) == pytest.approx(1)


def test_only_pairs_learn_what_two_columns_say_together():
    X, y = table(6000, exactly_one)
    found = {}
    for system in (LRBin, LRPairs, LRNested, EBMNewton):
        model = system().fit(X, y, DOMAIN, [0, 1], 8.0, np.random.default_rng(0))
        found[system.name] = np.mean(model.predict(X) == y)
    assert found["lr-pairs"] > 0.9
    assert found["lr-nested"] > 0.8  # pairs have a smaller part of a row's norm
    assert max(found["lr-bin"], found["ebm-newton"]) < 0.75  # 2/3 can be said column by column


@pytest.mark.parametrize("system", [LRBin, LRPairs, LRNested, EBMNewton, NaiveBayes])
def test_more_than_two_classes(system):
    X, y, domain = make_toy(4000)
    names = np.array(["p", "q", "r"])
    model = system().fit(X, names[y], domain, names, 8.0, np.random.default_rng(0))
    assert np.mean(model.predict(X) == names[y]) > 0.8
    assert model.predict_proba(X).shape == (4000, 3)


def test_regression_stays_in_its_bounds():
    X, y = table(6000, lambda a, b, c: 10 * (a == "x") + b)
    model = LRBinRegressor().fit(X, y, DOMAIN, (0, 20), 4.0, np.random.default_rng(0))
    said = model.predict(X)
    assert r2_score(y, said) > 0.9
    narrow = LRBinRegressor().fit(X, y, DOMAIN, (5, 8), 4.0, np.random.default_rng(0)).predict(X)
    assert (narrow.min(), narrow.max()) == (5, 8)


ADULT = {  # accuracy and AUC at epsilon = 1 of the first implementation: three 80-20 splits
    LRBin: (0.8603, 0.9140),
    LRPairs: (0.8620, 0.9147),
    LRNested: (0.8580, 0.9138),
    EBMNewton: (0.8548, 0.9092),
}


@pytest.mark.parametrize("system", ADULT)
def test_adult_is_as_well_predicted_as_it_was_measured_elsewhere(system, monkeypatch):
    folder = os.environ.get("LUMBERJACK_DATA") or str(Path(__file__).parents[3] / "shared" / "data")
    if not Path(folder, "adult.parquet").is_file():
        pytest.skip("no data: set LUMBERJACK_DATA to the folder with adult.parquet")
    monkeypatch.setenv("LUMBERJACK_DATA", folder)
    X, y, domain = fetch_adult()
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    model = system().fit(train, y_train, domain, ["<=50K", ">50K"], 1.0, np.random.default_rng(0))
    accuracy, auc = ADULT[system]
    assert np.mean(model.predict(test) == y_test) > accuracy - 0.01
    assert roc_auc_score(y_test == ">50K", model.predict_proba(test)[:, 1]) > auc - 0.01
