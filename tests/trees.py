"""One tree over rows in memory, as the tests of engines grow them."""

from typing import NamedTuple

import numpy as np

from lumberjack.engines.local import LocalRows
from lumberjack.leaves import Counts, LeafSums
from lumberjack.training import Policy
from lumberjack.training import prune as prune_rows


class Found(NamedTuple):
    """The rows in each leaf, and a key for each."""

    keys: np.ndarray
    rows: np.ndarray
    start: np.ndarray
    count: np.ndarray
    counts: np.ndarray


def prune(codes, features, key, height, coin, bits, *, guide=None, thinning=None, **options):
    target, stop = options.get("target"), options.get("stop")
    target = np.zeros(len(codes), dtype=np.int32) if target is None else target
    rows = LocalRows(codes, target)
    policy = Policy(height, coin, bits, guide, thinning)
    tree, leaves = prune_rows(rows, len(codes), features, key, policy, stop)
    classes = Counts(int(target.max(initial=0)) + 2)
    (counts,) = rows.total(LeafSums(leaves.grown, leaves.nodes, classes))
    found = rows.sample(0).sort(leaves.grown)
    made = leaves.nodes >= 0
    start, count = (np.where(made, a[leaves.nodes], 0) for a in (found.start, found.n_rows))
    return tree, Found(leaves.keys, found.order, start, count, counts), leaves.work
