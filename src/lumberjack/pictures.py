"""Pictures of what a model does: its predictions over two columns, and its trees.

In: a fitted estimator. Out: the Axes that were drawn on, in a new figure unless ``ax`` is given.
Colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart, and cividis.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lumberjack.anatomy import depths
from lumberjack.export import tree_labels
from lumberjack.inputs import check_lengths, read_numbers, read_table, read_target
from lumberjack.kinds import Categorical, Cuts, Kind, Number, Open
from lumberjack.released import Fitted, Released, released_by
from lumberjack.targets import Classes
from lumberjack.tree import LEAF
from lumberjack.values import columns_of as read_columns

__all__ = ["COLOURS", "new_axes", "plot_regions", "plot_tree", "pyplot"]

Floats = NDArray[np.float64]
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_MARKERS = "os^DvPX*"


def new_axes(ax: Any) -> Any:
    """The given Axes, or those of a new figure."""
    plt = pyplot()
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def pyplot() -> Any:
    """Matplotlib's, if it is installed."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise ImportError("plots need Matplotlib: install the extra 'plot'") from None
    return plt


def plot_regions(
    model: Fitted,
    features: tuple[str, str],
    *,
    fixed: dict[str, Any] | None = None,
    points: tuple[Any, Any] | None = None,
    resolution: int = 200,
    ax: Any = None,
) -> Any:
    """Draw what a model predicts over two features.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
        A classifier shows its most probable class, in a stronger tint the more probable it is; a
        regressor its prediction.
    features : (str, str)
        Two numeric columns of the domain: x and y axis.
    fixed : dict or None
        Values of the other columns; None, or a column left out: the middle of the range, or the first
        category.
    points : (X, y) or None
        A table and its targets to draw on top, without noise: do not publish such a picture of
        private data.
    resolution : int
        Points of the grid in each direction.
    ax : matplotlib.axes.Axes or None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.plots import plot_regions
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> plot_regions(model, ("x", "y"), resolution=50).get_xlabel()
    'x'
    """
    released = released_by(model)
    domain = released.domain
    for name in features:
        if name not in domain or not isinstance(domain[name], Number):
            raise ValueError(f"features must be two columns of the domain with numbers, got {name!r}")
    unknown = sorted(set(fixed or {}) - set(domain) | set(fixed or {}) & set(features))
    if unknown:
        raise ValueError(f"fixed must name the other columns of the domain, got {', '.join(unknown)}")
    ax = new_axes(ax)
    ranges = [_extent(kind) for name in features if isinstance(kind := domain[name], Number)]
    across, up = (np.linspace(low, high, resolution) for low, high in ranges)
    values = {name: (fixed or {}).get(name, _typical(domain[name])) for name in domain}
    grid = np.empty((resolution**2, len(domain)), dtype=object)
    for j, name in enumerate(released.names):
        grid[:, j] = values[name]
        if name == features[0]:
            grid[:, j] = np.tile(across, resolution)
        elif name == features[1]:
            grid[:, j] = np.repeat(up, resolution)
    extent = (across[0], across[-1], up[0], up[-1])
    show = {"origin": "lower", "extent": extent, "aspect": "auto", "interpolation": "nearest"}
    if isinstance(released.target, Classes):
        said = released.chances(grid, getattr(model, "class_weight", None))
        _class_regions(ax, released.target, said.reshape(resolution, resolution, -1), show)
    else:
        image = ax.imshow(released.predict(grid).reshape(resolution, -1), cmap="cividis", **show)
        ax.figure.colorbar(image, ax=ax, label="prediction")
    if points is not None:
        _draw_points(ax, released, features, *points)
    ax.set(xlabel=features[0], ylabel=features[1])
    return ax


def _extent(kind: Number) -> tuple[float, float]:
    """The interval to draw: the range, or the middle 90 % of the cuts if there is none."""
    grid = kind.grid if isinstance(kind, Cuts) else kind
    if grid.is_bounded:
        return grid.low, grid.high
    edges = kind.edges if isinstance(kind, Cuts) else ()
    low, high = np.quantile(edges or (0.0,), (0.05, 0.95)).tolist()
    return low, high


def _typical(kind: Kind) -> Any:
    if isinstance(kind, Categorical):
        return kind.categories[0] if kind.categories else None
    if isinstance(kind, Open):
        return None
    low, high = _extent(kind)
    middle = low + (high - low) / 2
    return np.datetime64(int(middle), "s").item() if kind.temporal else middle


def _class_regions(ax: Any, target: Classes, said: Floats, show: dict[str, Any]) -> None:
    """Regions of the most probable class; ``said`` has shape (n_rows, n_columns, n_classes)."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    best, n_classes = said.argmax(axis=2), said.shape[2]
    palette = np.array([to_rgb(COLOURS[c % len(COLOURS)]) for c in range(n_classes)])
    sure = (said.max(axis=2) - 1 / n_classes) / max(1 - 1 / n_classes, 1e-9)
    strength = (0.25 + 0.6 * sure)[..., None]  # even an uncertain class is tinted
    ax.imshow(strength * palette[best] + (1 - strength), **show)
    patches = [
        Patch(color=0.85 * palette[c] + 0.15, label=str(label)) for c, label in enumerate(target.labels)
    ]
    ax.legend(handles=patches, loc="best")


def _draw_points(ax: Any, released: Released, features: tuple[str, str], X: Any, y: Any) -> None:
    found, columns = read_columns(read_table(X))
    column = dict(zip(released.names if found is None else found, columns, strict=True))
    kinds = {f: kind for f in features if isinstance(kind := released.domain[f], Number)}
    place = [kind.read(f, column[f]) for f, kind in kinds.items()]
    y = read_target(y) if isinstance(released.target, Classes) else read_numbers(y)
    check_lengths(len(place[0]), y=y)
    edge = {"edgecolors": "black", "linewidths": 0.4, "s": 18}
    if isinstance(released.target, Classes):
        for c, label in enumerate(released.target.labels):
            here = y == label
            colour, marker = COLOURS[c % len(COLOURS)], _MARKERS[c % len(_MARKERS)]
            ax.scatter(place[0][here], place[1][here], c=colour, marker=marker, **edge)
    else:
        low, high = ax.images[0].get_clim()
        ax.scatter(*place, c=y, cmap="cividis", vmin=low, vmax=high, **edge)


def plot_tree(model: Fitted, tree: int = 0, *, max_depth: int = 3, ax: Any = None) -> Any:
    """Draw one tree down to some depth: left is yes, right is no; what leaves hold is noisy.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
    tree : int
        Which one.
    max_depth : int
        Levels to show.
    ax : matplotlib.axes.Axes or None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.plots import plot_tree
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> len(plot_tree(model, max_depth=0).texts)
    1
    """
    chosen, split, leaf = tree_labels(model, tree)
    depth = depths(chosen)
    shown = np.flatnonzero(depth <= max_depth)
    inner = (chosen.feature[shown] != LEAF) & (depth[shown] < max_depth)
    across = _places(chosen, set(shown[inner].tolist()))
    ax = new_axes(ax)
    for node, opens in zip(shown.tolist(), inner.tolist(), strict=True):
        here = across[node], -float(depth[node])
        if opens:
            text, colour = split(node)[0].replace(" or ", "\nor "), "white"
            for child in (int(chosen.left[node]), int(chosen.right[node])):
                ax.plot([here[0], across[child]], [here[1], here[1] - 1], color="0.6", zorder=1)
        elif chosen.feature[node] == LEAF:
            text = leaf(node).replace(", ", "\n").replace(" for about ", "\nabout ")
            colour = "#DCEAF7"
        else:
            text, colour = "...", "0.92"
        box = {"boxstyle": "round", "facecolor": colour, "edgecolor": "0.4"}
        ax.text(*here, text, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
    width = max(across.values())
    ax.set(xlim=(-0.7, width + 0.7), ylim=(-float(depth[shown].max()) - 0.5, 0.5))
    ax.set_title("yes: left, no: right", fontsize=9)
    ax.axis("off")
    return ax


def _places(tree: Any, inner: set[int]) -> dict[int, float]:
    """Horizontal position of each shown node: leaves side by side, others above their children."""
    place: dict[int, float] = {}
    order: list[int] = []
    todo, ends = [0], 0
    while todo:  # children left to right, so that branches do not cross
        node = todo.pop()
        if node in inner:
            order.append(node)
            todo += [int(tree.right[node]), int(tree.left[node])]
        else:
            place[node] = float(ends)
            ends += 1
    for node in reversed(order):
        place[node] = (place[int(tree.left[node])] + place[int(tree.right[node])]) / 2
    return place
