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
from lumberjack.kinds import MISSING, OTHER, Number
from lumberjack.legend import Entry, columns_of, spread
from lumberjack.pictures import COLOURS, new_axes, plot_regions, plot_tree, pyplot
from lumberjack.planning import plan
from lumberjack.released import Fitted, Released, released_by
from lumberjack.report import describe
from lumberjack.targets import Classes, Numbers
from lumberjack.tree import LEAF
from lumberjack.units import several

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
_MISSING_AT = 1.15  # where a picture of rows from 0 to 1 shows missing values
_ROOM = 0.22  # of the width of a picture, for the text of a tick
_LETTERS = 20  # of a category
_RARE = 0.005  # cells with a smaller share of the rows are drawn faintly


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
    ax = new_axes(ax)
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
    for (label, values), colour, style in zip(curves, COLOURS, ("-", "--", ":"), strict=False):
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
    ax = new_axes(ax)
    bars = ax.barh([part.name for part in parts], [part.share for part in parts], color=COLOURS[0])
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
    ax = new_axes(ax)
    ax.eventplot([spread(entry.cuts) for entry in shown], linelengths=0.4, colors=COLOURS[0])
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
    apart; categories are bars, and "unknown" is any other value. Faint cells are expected to hold less
    than 0.5 % of the rows, so their weights are mostly noise. The unit is log odds of the second class,
    log chances of each of several classes, or that of the target. What pairs of columns add is not
    shown.

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
        """Opacity of each cell."""
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
    grid = pyplot().subplots(height, width, figsize=size, squeeze=False, layout="constrained")[1].ravel()
    for empty in grid[n:]:
        empty.remove()
    return list(grid[:n])


def _draw_steps(ax: Any, effect: _Effect, labels: list[str], most: int) -> None:
    """Steps between cuts, as wide as their share of rows, and missing values beyond them."""
    edges = np.concatenate([[0.0], np.cumsum(effect.sizes[:-1]) / effect.sizes[:-1].sum()])
    for weights, label, colour in zip(effect.weights.T, labels, cycle(COLOURS), strict=False):
        ax.stairs(weights[:-1], edges, baseline=None, color=colour, linewidth=2, label=label)
        ax.plot(_MISSING_AT, weights[-1], "D", color=colour, markersize=5, alpha=effect.clearness[-1])
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    chosen = _apart(edges[1:-1])
    said = several([effect.entry.cuts[i] for i in chosen], effect.entry.is_date)
    ax.set_xticks([*edges[1:-1][chosen], _MISSING_AT], [*said, "missing"], fontsize=8)


def _apart(places: Floats) -> list[int]:
    """Indices of places far enough apart for a label at each, from the first on."""
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
    for k, (label, colour) in enumerate(zip(labels, cycle(COLOURS), strict=False)):
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
    ax = new_axes(ax)
    colours = cycle(COLOURS)
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
