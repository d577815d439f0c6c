"""Choose epsilon before the data is touched: what a budget buys, as a picture.

``plan`` knows the noise and the threshold of every budget without any data. Nothing is spent, so you may
look as often as you like. Trying several budgets on the *data* and keeping the best is another matter:
each fit spends its epsilon.
"""

from pathlib import Path

from lumberjack import plan
from lumberjack.plots import plot_privacy_utility

BUDGETS = (0.1, 0.25, 0.5, 1, 2, 4, 8)


def main(rows=20_000, path=Path("out/choose_epsilon.png")):
    """Print a table of budgets, draw the curve, and name the smallest that fits ``rows``."""
    print("epsilon   node needs   leaf noise   table needs")
    for epsilon in BUDGETS:
        promise = plan(epsilon, 1e-6)
        print(
            f"{epsilon:7g} {promise.threshold:9.0f} rows {promise.leaf_noise:7.1f} rows "
            f"{promise.suggested_rows:8,} rows"
        )
    enough = next(epsilon for epsilon in BUDGETS if plan(epsilon, 1e-6).suggested_rows <= rows)
    print(f"\nWith {rows:,} rows, trees grow beyond stumps from epsilon = {enough:g} on.")
    path.parent.mkdir(parents=True, exist_ok=True)
    plot_privacy_utility(rows=rows).figure.savefig(path)
    print(f"Drawn: {path}")
    return enough


if __name__ == "__main__":
    main()
