"""Pictures of models and promises, with Matplotlib (extra ``plot``).

In: a fitted estimator, or a budget. Out: the Axes that were drawn on, in a new figure unless ``ax`` is
given. Only released values and public parameters are drawn, apart from points that you pass yourself.
Colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart, and cividis.
"""

from collections.abc import Sequence
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lumberjack.accounting import ThresholdQueries
from lumberjack.anatomy import depths
from lumberjack.export import tree_labels
from lumberjack.inputs import check_lengths, read_numbers, read_table, read_target
from lumberjack.kinds import MISSING, OTHER, Categorical, Cuts, Kind, Number, Open
from lumberjack.legend import Entry, columns_of, spread
from lumberjack.planning import plan
from lumberjack.released import Fitted, Released, released_by
from lumberjack.report import describe
from lumberjack.targets import Classes, Numbers
from lumberjack.tree import LEAF
from lumberjack.units import several
from lumberjack.values import columns_of as read_columns

__all__ = [
    "plot_budget",
    "plot_columns",
    "plot_effects",
    "plot_importances",
    "plot_privacy_utility",
    "plot_regions",
    "plot_tree",
]

Floats = NDArray[np.float64]
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_MARKERS = "os^DvPX*"
_MISSING_AT = 1.15  # where a picture of rows from 0 to 1 shows missing values
_ROOM = 0.22  # of the width of a picture, for the text of a tick
_LETTERS = 20  # of a category
_RARE = 0.005  # share of the rows from which a weight is drawn strongly


def _axes(ax: Any) -> Any:
    plt = _pyplot()
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def _pyplot() -> Any:
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
        A classifier shows its most probable class, more strongly if it is surer; a regressor its
        prediction.
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
    ax = _axes(ax)
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
    """From where to where to draw: the range, or the middle 90 % of the cuts if there is none."""
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
    palette = np.array([to_rgb(_COLOURS[c % len(_COLOURS)]) for c in range(n_classes)])
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
            colour, marker = _COLOURS[c % len(_COLOURS)], _MARKERS[c % len(_MARKERS)]
            ax.scatter(place[0][here], place[1][here], c=colour, marker=marker, **edge)
    else:
        low, high = ax.images[0].get_clim()
        ax.scatter(*place, c=y, cmap="cividis", vmin=low, vmax=high, **edge)


def plot_privacy_utility(
    epsilons: Sequence[float] | None = None,
    delta: float = 1e-6,
    *,
    rows: int | None = None,
    ax: Any = None,
    **settings: Any,
) -> Any:
    """Draw how many rows each epsilon needs, according to ``plan``. No data needed.

    Parameters
    ----------
    epsilons : sequence of float or None
        None: from 0.1 to 10.
    delta : float
    rows : int or None
        Your number of rows, if it is public, as a line across.
    ax : matplotlib.axes.Axes or None
    **settings
        Further arguments of ``plan``: ``n_estimators``, ``max_depth``, ...

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    For fitted leaves: the size of table from which weights are more than noise, and the rows that a
    category, or a class, needs to be released. For pruned trees: the size of table from which trees grow
    beyond stumps, the rows that a node needs to be split, and the standard deviation of a noisy count in
    a leaf.

    Examples
    --------
    >>> from lumberjack.plots import plot_privacy_utility
    >>> ax = plot_privacy_utility([0.5, 1, 2], rows=20_000)
    >>> [line.get_label() for line in ax.lines]
    ['table: recommended rows', 'category: rows to be released', 'class: rows to be released', \
'your table: 20,000 rows']
    """
    if epsilons is None:
        epsilons = np.geomspace(0.1, 10, 21).tolist()
    promises = [plan(epsilon, delta, **settings) for epsilon in epsilons]
    ax = _axes(ax)
    curves: list[tuple[str, Any]] = [("table: recommended rows", [p.suggested_rows for p in promises])]
    if promises[0].fits_leaves:
        for label, use in (("category", "categories"), ("class", "classes")):
            asked = [e for p in promises for e in p.events_for(use)]
            found = [e.threshold for e in asked if isinstance(e, ThresholdQueries)]
            if found:
                curves.append((f"{label}: rows to be released", found))
    else:
        curves.append(("node: rows to be split", [p.threshold for p in promises]))
        curves.append(("leaf: noise of a count", [p.leaf_noise for p in promises]))
    for (label, values), colour, style in zip(curves, _COLOURS, ("-", "--", ":"), strict=False):
        ax.plot(epsilons, values, style, color=colour, label=label, linewidth=2)
    if rows is not None:
        ax.axhline(rows, color="0.3", linewidth=1, label=f"your table: {rows:,} rows")
    ax.set(xscale="log", yscale="log", xlabel="epsilon (privacy: left is more)", ylabel="rows")
    ax.set_title(f"What a budget buys, delta = {delta:g}")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(alpha=0.3)
    ax.legend(loc="lower left")
    return ax


def plot_importances(model: Fitted, *, most: int = 15, ax: Any = None) -> Any:
    """Draw the share of each column in what the splits explain, from released values.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
    most : int
        Columns to show, the most important first.
    ax : matplotlib.axes.Axes or None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.plots import plot_importances
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> sorted(label.get_text() for label in plot_importances(model).get_yticklabels())
    ['x', 'y']
    """
    parts = describe(model).importance[:most][::-1]
    ax = _axes(ax)
    bars = ax.barh([part.name for part in parts], [part.share for part in parts], color=_COLOURS[0])
    ax.bar_label(bars, [f"{part.share:.0%}" for part in parts], padding=3)
    ax.set(xlabel="importance, from released values", xlim=(0, max(p.share for p in parts) * 1.15 or 1))
    ax.xaxis.set_major_formatter("{x:.0%}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_columns(model: Fitted, *, most: int = 15, ax: Any = None) -> Any:
    """Draw the cuts of numbers and dates: ticks are close where values are frequent.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
    most : int
        Columns to show, in the order of the domain.
    ax : matplotlib.axes.Axes or None

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    Every column has a scale of its own, linear in the middle and logarithmic far from it. Its lowest and
    its highest cut stand at the ends. Where there are no rows, cuts are arbitrary.

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.plots import plot_columns
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0).fit(X, y)
    >>> [label.get_text() for label in plot_columns(model).get_yticklabels()]
    ['x0', 'x1']
    """
    shown = [entry for entry in columns_of(released_by(model)) if entry.cuts][:most]
    if not shown:
        raise ValueError("this model has no columns with cuts")
    ax = _axes(ax)
    ax.eventplot([spread(entry.cuts) for entry in shown], linelengths=0.4, colors=_COLOURS[0])
    for row, entry in enumerate(shown):
        for text, end, anchor in zip(
            several([entry.cuts[0], entry.cuts[-1]], entry.is_date),
            (0, 1),
            ("left", "right"),
            strict=True,
        ):
            ax.text(end, row + 0.25, text, ha=anchor, va="top", fontsize=8)
    ax.set(yticks=range(len(shown)), yticklabels=[entry.name for entry in shown], xticks=[])
    ax.set(ylim=(len(shown) - 0.4, -0.5), xlabel="cuts, each column on its own scale")
    ax.spines[["top", "right", "left", "bottom"]].set_visible(False)
    return ax


def plot_effects(
    model: Fitted, columns: Sequence[str] | None = None, *, most: int = 6, axes: Any = None
) -> Any:
    """Draw what each column adds to the score of a fitted forest: its weights over its cells.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
        With fitted leaves.
    columns : sequence of str or None
        Which ones; None: those whose weights vary most.
    most : int
        Columns to show if they are not named, and categories of each column, the largest first.
    axes : sequence of matplotlib.axes.Axes or None
        One for each column.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, shape (n_columns,)

    Notes
    -----
    Numbers are steps between cuts, each as wide as its expected share of rows, with missing values
    apart; categories are bars, and "unknown" is any other value. What is faint is expected to hold less
    than 0.5 % of the rows, so its weight is mostly noise. The unit is log odds of the second class, log
    chances of each of several classes, or that of the target. What pairs of columns add is not shown.

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.plots import plot_effects
    >>> X, y, domain = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0, domain=domain, classes=[0, 1, 2]).fit(X, y)
    >>> sorted(ax.get_title() for ax in plot_effects(model))
    ['x', 'y']
    """
    released = released_by(model)
    if not released.guarantee.fits_leaves:
        raise ValueError("pruned trees have no effects of single columns: use fitted leaves")
    effects = {effect.entry.name: effect for effect in map(partial(_effect, released), released.domain)}
    unknown = sorted(set(columns or ()) - set(effects))
    if unknown:
        raise ValueError(f"columns must be columns of the domain, got {', '.join(unknown)}")
    if columns is None:
        columns = sorted(effects, key=lambda name: -effects[name].strength)[:most]
    if axes is None:
        axes = _grid_of_axes(len(columns))
    unit, labels = _score_unit(released)
    for ax, name in zip(axes, columns, strict=True):
        draw = _draw_steps if effects[name].entry.is_cut else _draw_bars
        draw(ax, effects[name], labels, most)
        ax.set_title(name)
        (ax.set_ylabel if effects[name].entry.is_cut else ax.set_xlabel)(unit, fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    if len(labels) > 1 and len(columns):
        axes[0].legend(fontsize=8)
    return np.array(axes, dtype=object)


class _Effect(NamedTuple):
    """Weights, shape (n_cells, n_outputs), and expected sizes of the cells of a column."""

    entry: Entry
    weights: Floats
    sizes: Floats

    @property
    def strength(self) -> float:
        """Variance of the weights over rows."""
        share = self.sizes / self.sizes.sum()
        return float((share @ (self.weights - share @ self.weights) ** 2).sum())

    @property
    def clearness(self) -> Floats:
        """How strongly each cell is drawn."""
        return np.where(self.sizes < _RARE * self.sizes.sum(), 0.25, 1.0)


def _effect(released: Released, name: str) -> _Effect:
    """What the tree of a column says about each of its cells."""
    domain, forest = released.domain, released.forest
    column, kind = domain.names.index(name), domain.known[domain.names.index(name)]
    number = next(
        (t for t, tree in enumerate(forest.trees) if set(tree.feature.tolist()) == {LEAF, column}), None
    )
    entry = columns_of(released)[column]
    if number is None:  # a single cell
        return _Effect(
            entry, np.zeros((kind.size + 1, len(released.votes.base))), np.ones(kind.size + 1)
        )
    codes = np.zeros((kind.size + 1, len(domain)), dtype=np.uint32)
    codes[:, column] = np.arange(kind.size + 1)
    codes[-1, column] = MISSING if isinstance(kind, Number) else OTHER
    cell = forest.apply(codes)[:, number]
    half = released.target.half_width if isinstance(released.target, Numbers) else 1.0
    values = forest.values[number][cell]
    return _Effect(entry, values[:, 1:] * half, values[:, 0])


def _score_unit(released: Released) -> tuple[str, list[str]]:
    """What weights are measured in, and a label for each."""
    if not isinstance(released.target, Classes):
        return "added to the prediction", [""]
    labels = list(map(str, released.target.labels.tolist()))
    if len(labels) <= 2:
        return f"added to the log odds of {labels[-1]}", labels[-1:]
    return "added to log chances", labels


def _grid_of_axes(n: int) -> list[Any]:
    width = min(max(n, 1), 3)
    height = max(-(-n // width), 1)
    size = 4 * width, 3 * height
    grid = (
        _pyplot().subplots(height, width, figsize=size, squeeze=False, layout="constrained")[1].ravel()
    )
    for empty in grid[n:]:
        empty.remove()
    return list(grid[:n])


def _draw_steps(ax: Any, effect: _Effect, labels: list[str], most: int) -> None:
    """Steps between cuts, as wide as their share of rows, and missing values beyond them."""
    edges = np.concatenate([[0.0], np.cumsum(effect.sizes[:-1]) / effect.sizes[:-1].sum()])
    for weights, label, colour in zip(effect.weights.T, labels, cycle(_COLOURS), strict=False):
        ax.stairs(weights[:-1], edges, baseline=None, color=colour, linewidth=2, label=label)
        ax.plot(_MISSING_AT, weights[-1], "D", color=colour, markersize=5, alpha=effect.clearness[-1])
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    chosen = _apart(edges[1:-1])
    said = several([effect.entry.cuts[i] for i in chosen], effect.entry.is_date)
    ax.set_xticks([*edges[1:-1][chosen], _MISSING_AT], [*said, "missing"], fontsize=8)


def _apart(places: Floats) -> list[int]:
    """Some places, from the first on, that leave room for a text between them."""
    chosen: list[int] = []
    for i, place in enumerate(places.tolist()):
        before = places[chosen[-1]] if chosen else -1.0
        if before + _ROOM <= place <= _MISSING_AT - _ROOM:
            chosen.append(i)
    return chosen


def _draw_bars(ax: Any, effect: _Effect, labels: list[str], most: int) -> None:
    """A bar for each of the largest categories, and one for all other values."""
    names = [*effect.entry.listed(), *(["missing"] if effect.entry.missing else [])]
    shown = np.argsort(-effect.sizes[:-1], kind="stable")[:most].tolist()
    rows = np.arange(len(shown) + 1)
    height = 0.8 / len(labels)
    for k, (label, colour) in enumerate(zip(labels, cycle(_COLOURS), strict=False)):
        weights = effect.weights[[*shown, -1], k]
        place = rows + (k - (len(labels) - 1) / 2) * height
        bars = ax.barh(place, weights, height, color=colour, label=label)
        for bar, alpha in zip(bars, effect.clearness[[*shown, -1]], strict=True):
            bar.set_alpha(alpha)
    ax.axvline(0, color="0.7", linewidth=0.8)
    ax.set_yticks(rows, [*(_short(names[i]) for i in shown), "unknown"], fontsize=8)
    ax.invert_yaxis()


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"


def plot_budget(model: Fitted, *, ax: Any = None) -> Any:
    """Draw where the budget went, and what delta consists of.

    Parameters
    ----------
    model : LumberjackClassifier or LumberjackRegressor
    ax : matplotlib.axes.Axes or None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from lumberjack import LumberjackClassifier
    >>> from lumberjack.datasets import make_toy
    >>> from lumberjack.plots import plot_budget
    >>> X, y, _ = make_toy()
    >>> model = LumberjackClassifier(epsilon=2.0).fit(X, y)
    >>> [label.get_text() for label in plot_budget(model).get_yticklabels()]
    ['budget', 'delta']
    """
    report = describe(model)
    ax = _axes(ax)
    colours = cycle(_COLOURS)
    for name, parts in (("budget", report.budget), ("delta", report.failure)):
        start = 0.0
        for part in parts:
            if part.share < 5e-4:  # too narrow to see
                continue
            label = f"{part.name}: {part.share:.1%}"
            ax.barh(name, part.share, left=start, height=0.5, color=next(colours), label=label)
            start += part.share
    ax.set(xlim=(0, 1), xlabel="share", title=report.promise)
    ax.invert_yaxis()
    ax.xaxis.set_major_formatter("{x:.0%}")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2, frameon=False)
    return ax


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
    ax = _axes(ax)
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
    """Where each shown node stands: ends of branches side by side, others above their children."""
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
