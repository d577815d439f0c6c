"""Pictures of predictions and of trees: what they show, read off the Axes."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="needs the extra 'plot'").use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

from lumberjack import plots  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


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
