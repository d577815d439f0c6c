"""Pictures: what they show, read off the Axes."""

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest

from lumberjack import LumberjackClassifier, LumberjackRegressor, plan
from lumberjack.kinds import Cuts, Numeric

pytest.importorskip("matplotlib", reason="needs the extra 'plot'").use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

from lumberjack import plots  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


DRAW = [
    lambda m, ax: plots.plot_regions(m, ("x", "y"), resolution=20, ax=ax),
    lambda m, ax: plots.plot_importances(m, ax=ax),
    lambda m, ax: plots.plot_columns(m, ax=ax),
    lambda m, ax: plots.plot_effects(m, ["x"], axes=None if ax is None else [ax])[0],
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


def test_curves_of_fitted_leaves_are_those_of_plan():
    ax = plots.plot_privacy_utility([0.5, 2.0], 1e-5, n_estimators=10, rows=777)
    table, category, label, yours = (line.get_ydata() for line in ax.lines)
    for i, epsilon in enumerate([0.5, 2.0]):
        promise = plan(epsilon, 1e-5, 10)
        asked = {event.use: event for event in promise.events}
        assert table[i] == promise.suggested_rows
        assert (category[i], label[i]) == (asked["categories"].threshold, asked["classes"].threshold)
    assert set(yours) == {777}
    declared = plots.plot_privacy_utility([1.0], columns=(5, 0), target=False)
    assert [line.get_label() for line in declared.lines] == ["table: recommended rows"]


def test_curves_of_pruned_trees_are_those_of_plan():
    ax = plots.plot_privacy_utility([0.5, 2.0], 1e-5, n_estimators=10, rows=777, leaf="counts")
    rows, node, leaf, yours = (line.get_ydata() for line in ax.lines)
    for i, epsilon in enumerate([0.5, 2.0]):
        promise = plan(epsilon, 1e-5, 10, leaf="counts")
        assert (rows[i], node[i], leaf[i]) == (
            promise.suggested_rows,
            promise.threshold,
            promise.leaf_noise,
        )
    assert set(yours) == {777}


def test_columns_show_their_cuts(mixed):
    model, frame, _ = mixed
    ax = plots.plot_columns(model)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]  # c is not a number
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


@pytest.fixture(scope="module")
def effects():
    """A column of numbers with gaps, one of categories, and classes that both explain."""
    rng, n = np.random.default_rng(0), 6000
    frame = pd.DataFrame({"a": rng.normal(size=n), "c": rng.choice(list("uvw"), n, p=[0.2, 0.5, 0.3])})
    frame.loc[::4, "a"] = np.nan
    odds = np.where(frame["a"].isna(), -2.0, 3 * (frame["a"] > 0)) + 2 * (frame["c"] == "u")
    return frame, odds - 1.5 + rng.logistic(size=n) > 0


def scores(model, rows):
    """The score of the model, read off its predictions."""
    if isinstance(model, LumberjackRegressor):
        return model.predict(rows)[:, None]
    log_chances = np.log(model.predict_proba(rows))
    if len(model.classes_) == 2:
        return log_chances[:, 1:] - log_chances[:, :1]
    return log_chances - log_chances[:, :1]  # differences, as log chances are known up to a constant


@pytest.mark.parametrize("target", ["two", "three", "number"])
def test_effects_are_what_predictions_change_by(effects, target):
    """Cell by cell: how the score moves if this column alone does."""
    frame, came = effects
    if target == "number":
        model = LumberjackRegressor(8.0, n_estimators=1).fit(frame, 50.0 + 10 * came)
    else:
        y = came if target == "two" else came.astype(int) + (frame["c"] == "w")
        model = LumberjackClassifier(8.0, n_estimators=1).fit(frame, y)
    numbers, bars = plots.plot_effects(model, ["a", "c"])
    n_outputs = 3 if target == "three" else 1

    edges = np.array(model.domain_["a"].edges)
    inside = [edges[0] - 1, *(edges[:-1] + np.diff(edges) / 2), edges[-1] + 1, np.nan]
    drawn = np.array([p.get_data().values for p in numbers.patches])
    points = [line.get_ydata()[0] for line in numbers.lines if line.get_marker() == "D"]
    assert drawn.shape == (n_outputs, len(edges) + 1)
    drawn = np.column_stack([drawn, points]).T
    found = scores(model, pd.DataFrame({"a": inside, "c": "u"}))
    drawn -= drawn[:, :1] if n_outputs > 1 else 0
    np.testing.assert_allclose(drawn - drawn[0], found - found[0], atol=1e-6)

    shown = [t.get_text() for t in bars.get_yticklabels()]
    assert shown == ["v", "w", "u", "missing", "unknown"]  # from the most frequent to the rarest
    drawn = np.array([p.get_width() for p in bars.patches]).reshape(n_outputs, 5).T
    found = scores(model, pd.DataFrame({"a": 0.5, "c": [*shown[:3], None, "never seen"]}))
    drawn -= drawn[:, :1] if n_outputs > 1 else 0
    np.testing.assert_allclose(drawn - drawn[0], found - found[0], atol=1e-6)


def test_effects_show_shares_of_rows_and_what_is_mostly_noise(effects):
    frame, came = effects
    model = LumberjackClassifier(8.0, n_estimators=1).fit(frame, came)
    numbers, bars = plots.plot_effects(model, ["a", "c"])
    _, edges, _ = numbers.patches[0].get_data()
    share = np.searchsorted(np.sort(frame["a"].dropna()), model.domain_["a"].edges) / frame["a"].count()
    np.testing.assert_allclose(edges, [0, *share, 1], atol=0.03)
    assert [p.get_alpha() for p in bars.patches] == [1, 1, 1, 0.25, 0.25]  # none missing or unknown
    assert numbers.get_ylabel() == "added to the log odds of True"
    ticks = numbers.get_xticklabels()
    assert ticks[-1].get_text() == "missing"
    assert {float(t.get_text()) for t in ticks[:-1]} <= {
        float(f"{e:.3g}") for e in model.domain_["a"].edges
    }


def test_effects_show_the_strongest_columns_and_the_largest_categories(effects):
    frame, came = effects
    wide = frame.assign(noise=np.random.default_rng(1).normal(size=len(frame)))
    model = LumberjackClassifier(8.0, n_estimators=1).fit(wide, came)
    assert [ax.get_title() for ax in plots.plot_effects(model, most=2)] == ["a", "c"]
    (ax,) = plots.plot_effects(model, ["c"], most=1)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["v", "unknown"]
    with pytest.raises(ValueError, match="columns of the domain, got q"):
        plots.plot_effects(model, ["a", "q"])
    pruned = LumberjackClassifier(8.0, n_estimators=1, leaf="counts").fit(frame, came)
    with pytest.raises(ValueError, match="use fitted leaves"):
        plots.plot_effects(pruned)


def test_effects_of_a_column_without_cuts(effects):
    frame, came = effects
    model = LumberjackClassifier(8.0, domain={"a": Cuts(Numeric())}).fit(frame[["a"]], came)
    (ax,) = plots.plot_effects(model)
    found = scores(model, [[1.0], [np.nan]]).ravel()
    below, above = ax.patches[0].get_data().values[0], ax.lines[0].get_ydata()[0]
    assert above - below == pytest.approx(found[1] - found[0], abs=1e-6)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["missing"]


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
    assert sum(widths) == pytest.approx(1, abs=2e-3)  # one whole budget; no cut-off has a part of delta


def test_the_parts_of_delta(mixed):
    _, frame, y = mixed
    model = LumberjackRegressor(8.0, y_bounds=(0, 2), splits="random").fit(frame, y)
    ax, report = plots.plot_budget(model), model.privacy_report()
    assert all(f"{patch.get_width():.1%}" in report for patch in ax.patches)
    # One whole budget, one whole delta.
    assert sum(patch.get_width() for patch in ax.patches) == pytest.approx(2, abs=2e-3)


def test_a_budget_of_many_parts(mixed):
    """Categories, classes, cuts, pruning, splits, leaves; noise, cut-offs, half of delta unused."""
    _, frame, y = mixed
    model = copy.copy(LumberjackClassifier(8.0, n_estimators=2, leaf="counts").fit(frame, y > 1))
    doubled = dataclasses.replace(model.guarantee_, delta=2 * model.guarantee_.delta)
    model.released_ = dataclasses.replace(model.released_, guarantee=doubled)
    widths = [patch.get_width() for patch in plots.plot_budget(model).patches]
    assert len(widths) == 6 + 3
    assert sum(widths[:6]) == pytest.approx(1)
    assert widths[-1] == pytest.approx(0.5, abs=0.01)


def test_without_matplotlib_the_error_says_what_to_install(toy, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match="extra 'plot'"):
        plots.plot_importances(toy[0])
