"""Pictures: what they show, read off the Axes."""

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest

from lumberjack import LumberjackClassifier, LumberjackRegressor, plan
from lumberjack.datasets import make_toy

pytest.importorskip("matplotlib", reason="needs the extra 'plot'").use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

from lumberjack import plots  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def toy():
    X, y, domain = make_toy(5000)
    return LumberjackClassifier(4.0, domain=domain, classes=[0, 1, 2]).fit(X, y), X, y


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"c": rng.choice(["u", "v"], 5000), "a": rng.uniform(0, 1, 5000), "b": rng.uniform(-1, 1, 5000)}
    )
    domain = {"a": (0, 1), "b": (-1, 1), "c": ["u", "v"]}
    y = frame["a"] + (frame["c"] == "v")
    return LumberjackRegressor(8.0, domain=domain, y_bounds=(0, 2)).fit(frame, y), frame, y


DRAW = [
    lambda m, ax: plots.plot_regions(m, ("x", "y"), resolution=20, ax=ax),
    lambda m, ax: plots.plot_importances(m, ax=ax),
    lambda m, ax: plots.plot_columns(m, ax=ax),
    lambda m, ax: plots.plot_budget(m, ax=ax),
    lambda m, ax: plots.plot_tree(m, ax=ax),
    lambda m, ax: plots.plot_privacy_utility([1, 2], ax=ax),
]


@pytest.mark.parametrize("draw", DRAW)
def test_each_plot_draws_on_the_axes_it_is_given_and_returns_them(toy, draw):
    _, (first, second) = plt.subplots(1, 2)
    assert draw(toy[0], first) is first
    assert first.has_data() or first.texts
    assert not second.has_data()
    assert not second.texts
    assert draw(toy[0], None).figure is not first.figure


def test_points_that_do_not_fit_are_not_quoted(toy, mixed):
    """Matplotlib and NumPy would say labels and numbers of rows."""
    for (model, X, _), features in ((toy, ("x", "y")), (mixed, ("a", "b"))):
        for wrong in ([0.0] * 8417, ["HIV-8417"] * 8417, [[8417], [1, 2]]):
            with pytest.raises(ValueError, match=r"^(X and )?y ") as caught:
                plots.plot_regions(model, features, resolution=5, points=(X, wrong))
            assert not any(secret in str(caught.value) for secret in ("HIV", "8417", "5000"))


def test_regions_are_where_the_model_says(toy):
    model, X, y = toy
    ax = plots.plot_regions(model, ("x", "y"), resolution=60, points=(X, y))
    colours = ax.images[0].get_array()
    said = model.predict([[x, u] for u in np.linspace(0, 4, 60) for x in np.linspace(0, 5, 60)])
    # Every class has a hue of its own: blue, orange, green are largest in different channels or sums.
    blue, orange, green = (np.asarray(colours).reshape(-1, 3)[said == c] for c in range(3))
    assert (blue[:, 2] >= blue.max(axis=1)).all()
    assert (orange[:, 0] >= orange.max(axis=1)).all()
    assert (green[:, 1] >= green.max(axis=1)).all()
    assert len(ax.collections) == 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]


def test_other_features_are_held_fixed_whatever_the_order_of_columns(mixed):
    model, frame, y = mixed
    at = [0.2, 0.9]
    for c in ("u", "v"):
        ax = plots.plot_regions(model, ("a", "b"), fixed={"c": c}, resolution=11, points=(frame, y))
        shown = np.asarray(ax.images[0].get_array())
        rows = pd.DataFrame({"a": at, "b": [0.0, 0.0], "c": [c, c]})
        np.testing.assert_allclose(shown[5, [2, 9]], model.predict(rows))


@pytest.mark.parametrize(
    ("features", "fixed", "message"),
    [
        (("a", "c"), None, "got 'c'"),
        (("a", "z"), None, "got 'z'"),
        (("a", "b"), {"a": 1}, "got a"),
        (("a", "b"), {"q": 1}, "got q"),
    ],
)
def test_wrong_columns_are_named(mixed, features, fixed, message):
    with pytest.raises(ValueError, match=message):
        plots.plot_regions(mixed[0], features, fixed=fixed)


def test_curves_are_those_of_plan():
    ax = plots.plot_privacy_utility([0.5, 2.0], 1e-5, n_estimators=10, rows=777)
    rows, node, leaf, yours = (line.get_ydata() for line in ax.lines)
    for i, epsilon in enumerate([0.5, 2.0]):
        promise = plan(epsilon, 1e-5, 10)
        assert (rows[i], node[i], leaf[i]) == (
            promise.suggested_rows,
            promise.threshold,
            promise.leaf_noise,
        )
    assert set(yours) == {777}


def test_columns_show_their_cuts(mixed):
    model, frame, _ = mixed
    ax = plots.plot_columns(model)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]  # c is no number
    for name, ticks, ends in zip("ab", ax.collections, ((0, 1), (2, 3)), strict=True):
        cuts = model.domain_[name].edges
        middle, unit = np.median(cuts), (np.quantile(cuts, 0.75) - np.quantile(cuts, 0.25)) / 2
        places = np.arcsinh((np.array(cuts) - middle) / unit)
        expected = (places - places[0]) / (places[-1] - places[0])
        np.testing.assert_allclose(ticks.get_positions(), expected)
        said = [float(ax.texts[i].get_text()) for i in ends]
        assert said == pytest.approx([cuts[0], cuts[-1]], rel=0.01)
    assert [t.get_text() for t in plots.plot_columns(model, most=1).get_yticklabels()] == ["a"]
    bare = LumberjackRegressor(8.0, domain={"c": ["u", "v"]}, y_bounds=(0, 2))
    with pytest.raises(ValueError, match="no columns with cuts"):
        plots.plot_columns(bare.fit(frame[["c"]], frame["a"]))


def test_importances_and_budget_are_those_of_the_report(mixed):
    model, _, _ = mixed
    ax = plots.plot_importances(model, most=2)
    widths = {t.get_text(): p.get_width() for t, p in zip(ax.get_yticklabels(), ax.patches, strict=True)}
    assert widths["a"] + widths["c"] == pytest.approx(1, abs=0.05)  # b tells nothing
    ax = plots.plot_budget(model)
    widths = [patch.get_width() for patch in ax.patches]
    report = model.privacy_report()
    for patch in ax.patches:  # every share is in the text report, to a tenth of a percent
        assert f"{patch.get_width():.1%}" in report
    assert sum(widths) == pytest.approx(2, abs=2e-3)  # one whole budget, one whole delta


def test_a_budget_of_many_parts(mixed):
    """Categories, classes, cuts, pruning, splits, leaves; noise, cut-offs, half of delta unused."""
    _, frame, y = mixed
    model = copy.copy(LumberjackClassifier(8.0, n_estimators=2).fit(frame, y > 1))
    doubled = dataclasses.replace(model.guarantee_, delta=2 * model.guarantee_.delta)
    model.released_ = dataclasses.replace(model.released_, guarantee=doubled)
    widths = [patch.get_width() for patch in plots.plot_budget(model).patches]
    assert len(widths) == 6 + 3
    assert sum(widths[:6]) == pytest.approx(1)
    assert widths[-1] == pytest.approx(0.5, abs=0.01)


def test_a_tree_shows_every_node_once_and_no_branches_cross(toy):
    model, _, _ = toy
    ax = plots.plot_tree(model, 1, max_depth=50)
    tree = model.forest_.trees[1]
    assert len(ax.texts) == len(tree.feature)
    assert len(ax.lines) == len(tree.feature) - 1
    assert len({text.get_position() for text in ax.texts}) == len(tree.feature)
    for line in ax.lines:
        (_, up), (_, down) = line.get_xydata()
        assert down == up - 1


def test_without_matplotlib_the_error_says_what_to_install(toy, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match="extra 'plot'"):
        plots.plot_importances(toy[0])
