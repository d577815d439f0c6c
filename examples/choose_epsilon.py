"""Choose epsilon before the data is touched: what a budget buys, as a picture.

``plan`` knows noise and thresholds of every budget without any data. Nothing is spent, so you may
look as often as you like. Trying several budgets on the *data* and keeping the best is another matter:
each fit spends its epsilon.
"""

from pathlib import Path

from lumberjack import plan
from lumberjack.plots import plot_privacy_utility

BUDGETS = (0.1, 0.25, 0.5, 1, 2, 4, 8)


def main(rows=20_000, path=Path("out/choose_epsilon.png")):
    """Print a table of budgets, draw the curve, and name the smallest that fits ``rows``."""
    print("epsilon   a category needs   the table needs")
    for epsilon in BUDGETS:
        promise = plan(epsilon, 1e-6)
        category = promise.event("categories").threshold  # to be released as frequent
        print(f"{epsilon:7g} {category:13,.0f} rows {promise.suggested_rows:12,} rows")
    enough = next(epsilon for epsilon in BUDGETS if plan(epsilon, 1e-6).suggested_rows <= rows)
    print(f"\nWith {rows:,} rows, the fit is more than noise from epsilon = {enough:g} on.")
    path.parent.mkdir(parents=True, exist_ok=True)
    plot_privacy_utility(rows=rows).figure.savefig(path)
    print(f"Drawn: {path}")
    return enough


if __name__ == "__main__":
    main()
