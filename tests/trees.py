"""One tree over one block of rows, as the tests of engines grow them."""

from lumberjack.engines.local import Policy
from lumberjack.engines.local import prune as prune_by


def prune(codes, features, key, height, coin, bits, *, guide=None, thinning=None, stop=None):
    return prune_by(codes, features, key, Policy(height, coin, bits, guide, thinning), stop)
