"""What a fit learns about a table before it grows trees."""

import datetime as dt

import numpy as np
import pytest

from lumberjack import Domain, plan
from lumberjack.domain import complete
from lumberjack.engines.base import Block
from lumberjack.engines.many import ManyRows
from lumberjack.kinds import Cuts
from lumberjack.learning import Task, learn
from lumberjack.noise import Bits
from lumberjack.targets import Classes

N = 3000
CLASSES = Classes(np.array([0, 1]))


def columns(seed=0):
    rng = np.random.default_rng(seed)
    days = [dt.datetime(2020, 1, 1) + dt.timedelta(int(d)) for d in rng.integers(0, 900, N)]
    return {
        "amount": [None if v > 2 else float(v) for v in rng.normal(0, 1, N)],
        "ward": [["A", "B", None, "rare"][i] for i in rng.choice(4, N, p=[0.5, 0.3, 0.199, 0.001])],
        "code": rng.choice([7, 11, 2**40], N, p=[0.6, 0.399, 0.001]).tolist(),
        "flag": (rng.random(N) < 0.5).tolist(),
        "seen": [None if i % 17 == 0 else day for i, day in enumerate(days)],
    }


def learned(X, given, bits):
    domain = complete(given, X)
    encoded = domain.read(X)
    promise = plan(8.0, 1e-3, 2, 4, columns=domain.to_learn(guided=True), target=False)
    half = N // 3
    blocks = [Block(c, np.zeros(len(c), np.int32)) for c in (encoded.codes[:half], encoded.codes[half:])]
    return learn(ManyRows(blocks), Task(domain, CLASSES, encoded.labels), promise, bits)


@pytest.mark.parametrize("codes_of", ["open", "as read"])
def test_rows_are_read_in_predict_as_in_training(frame, codes_of):
    X = frame(columns())
    given = {"code": Domain.categorical() if codes_of == "open" else Domain.numeric()}
    rows, domain, target = learned(X, Domain(given), Bits(0))
    trained = np.concatenate([block.codes for block in rows.blocks])
    np.testing.assert_array_equal(trained, domain.compact(X))
    assert trained.dtype == np.uint8
    assert target is CLASSES
    assert set(domain["ward"].categories) == {"A", "B"}
    assert isinstance(domain["amount"], Cuts)
    assert len(np.unique(trained[:, domain.names.index("amount")])) > 8


def test_what_was_learned_may_be_given_again(frame):
    """As the domain of another fit: rows are read alike, and nothing is left to pay for."""
    X = frame(columns())
    first, domain, _ = learned(X, None, Bits(0))
    assert domain.to_learn(guided=True) == (0, 0)
    again, same, _ = learned(X, domain, Bits(1))
    assert same == domain
    assert not any(getattr(kind, "learned", False) for kind in same.kinds)
    for one, two in zip(first.blocks, again.blocks, strict=True):
        np.testing.assert_array_equal(one.codes, two.codes)
