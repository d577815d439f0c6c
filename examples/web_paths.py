"""Which pages do many people visit? Heavy hitters of web paths, with noisy counts.

Run it with ``make demo``. The visits are generated: a shop, a blog, help pages, and one private page
for each customer that nobody else opens and that therefore never shows.
"""

import numpy as np

from lumberjack import heavy_hitters

SECTIONS = {
    "/shop": (
        0.5,
        ["garden/axe", "garden/saw", "garden/gloves", "kitchen/board", "kitchen/bowl", "toys/train"],
    ),
    "/help": (0.15, ["returns", "shipping", "contact", "privacy", "careers"]),
    "/blog": (0.15, [f"{year}/post-{i}" for year in (2025, 2026) for i in range(1500)]),
    "/account": (0.2, [f"{customer:06d}/orders" for customer in range(50_000)]),
}


def make_visits(n, rng):
    """Generate ``n`` visits as strings like "/shop/garden/axe": few items popular, most rare."""
    visits = []
    for section, (share, pages) in SECTIONS.items():
        rank = np.arange(1, len(pages) + 1)
        popularity = np.ones(len(pages)) if section == "/account" else rank**-1.3
        chosen = rng.choice(len(pages), size=int(share * n), p=popularity / popularity.sum())
        visits += [f"{section}/{pages[i]}" for i in chosen]
    return visits


def main():
    """Print the tree of heavy prefixes and the promise behind it."""
    visits = make_visits(20_000, np.random.default_rng(7))
    found = heavy_hitters(visits, sep="/", height=4, epsilon=1.0, delta=1e-6, counts=True)
    print("Pages that many visits share, with noisy counts:\n")
    print(found)
    print("\nThe promise:\n")
    print(found.guarantee)


if __name__ == "__main__":
    main()
