"""The paper's toy example: why random trees need private pruning. Draws its Figure 1.

    python -m benchmarks.toy

Run it with ``make demo``. Two moons and a far blob; the farther the blob, the larger the public ranges
and the smaller the part of them that holds data. Fully random trees of depth 10, without any privacy,
lose the moons; Lumberjack at (2, 1e-6) keeps them.
"""

from pathlib import Path

import numpy as np

from lumberjack import LumberjackClassifier
from lumberjack.datasets import make_toy
from lumberjack.engines.local import LocalRows
from lumberjack.noise import Bits
from lumberjack.structure import Features, root_keys
from lumberjack.training import Policy, prune

SCALES = (1, 10, 1000)
COLOURS = ("#D55E00", "#0072B2", "#009E73")


class RandomTrees:
    """Fully random trees of fixed depth, every leaf with its exact majority: no pruning, no privacy."""

    def __init__(self, domain, n_trees=25, depth=10):
        self.domain, self.n_trees, self.depth = domain, n_trees, depth

    @staticmethod
    def draw(counts, bits, keys):
        """Answer every threshold with yes: all nodes are split down to the given depth."""
        return np.ones(len(counts), dtype=bool)

    def fit(self, X, y):
        """Grow the trees and count their leaves."""
        codes, features = self.domain.encode(X), Features.of(self.domain)
        rows = LocalRows(codes, np.asarray(y, dtype=np.int32))
        self.categorical = features.categorical
        self.trees = []
        for key in root_keys(0, self.n_trees):
            tree, _ = prune(rows, len(codes), features, key, Policy(self.depth, self, Bits()))
            counts = np.zeros((tree.n_leaves, 3))
            np.add.at(counts, (tree.apply(codes, self.categorical), y), 1)
            self.trees.append((tree, np.eye(3)[counts.argmax(axis=1)]))
        return self

    def predict(self, X):
        """Majority vote."""
        codes = self.domain.encode(X)
        return sum(votes[tree.apply(codes, self.categorical)] for tree, votes in self.trees).argmax(
            axis=1
        )

    def score(self, X, y):
        """Share of rows that are labelled right."""
        return float(np.mean(self.predict(X) == y))


def train(scale):
    """Both forests on one range: fitted models and their accuracy on fresh data."""
    X, y, domain = make_toy(scale=scale)
    X_test, y_test, _ = make_toy(scale=scale, random_state=1)
    private = LumberjackClassifier(
        2.0, 1e-6, n_estimators=25, domain=domain, classes=[0, 1, 2], leaf="majority", n_jobs=2
    )
    models = {"fully random, depth 10, ε = ∞": RandomTrees(domain), "Lumberjack, (2, 1e-6)-DP": private}
    return (X, y), {
        name: (model.fit(X, y), model.score(X_test, y_test)) for name, model in models.items()
    }


def draw(results, path):
    """Decision regions around the moons, one row for each model, one column for each range."""
    from matplotlib import pyplot as plt
    from matplotlib.colors import ListedColormap

    figure, axes = plt.subplots(2, 3, figsize=(10, 5.6), sharex=True, sharey=True, layout="constrained")
    across, up = np.meshgrid(np.linspace(0, 5, 250), np.linspace(0, 4, 200))
    for column, (scale, ((X, y), models)) in enumerate(results.items()):
        for row, (name, (model, accuracy)) in enumerate(models.items()):
            axis = axes[row, column]
            regions = model.predict(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)
            axis.pcolormesh(across, up, regions, cmap=ListedColormap(COLOURS), vmin=0, vmax=2, alpha=0.3)
            shown = (X < [5, 4]).all(axis=1) & (np.arange(len(X)) % 8 == 0)
            axis.scatter(*X[shown].T, c=np.array(COLOURS)[y[shown]], s=2)
            axis.set_title(f"[0, {5 * scale}] × [0, {4 * scale}]: {accuracy:.3f}", fontsize=10)
            if column == 0:
                axis.set_ylabel(name)
    figure.suptitle("Decision regions around the moons, and accuracy on fresh data")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)


def main():
    """Train on the three ranges, print accuracy and promise, draw the figure."""
    results = {scale: train(scale) for scale in SCALES}
    print("Accuracy on fresh data as the ranges grow:\n")
    for scale, (_, models) in results.items():
        for name, (_, accuracy) in models.items():
            print(f"  [0, {5 * scale:4}] x [0, {4 * scale:4}]  {name:30} {accuracy:.3f}")
    print("\nThe promise of the private forest:\n")
    print(results[1][1]["Lumberjack, (2, 1e-6)-DP"][0].guarantee_)
    try:
        path = Path("out/toy.png")
        draw(results, path)
        print(f"\nPicture: {path}\n")
    except ImportError:
        print("\nNo picture: Matplotlib is not installed (extra 'plot').\n")


if __name__ == "__main__":
    main()
