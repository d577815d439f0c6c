"""What every engine must do: the same bytes of the same model, however the rows are laid out."""

import numpy as np
import pytest
import test_golden

import lumberjack.base
import lumberjack.residuals
import lumberjack.training
from lumberjack import LumberjackClassifier, LumberjackRegressor
from lumberjack.engines.base import Block
from lumberjack.engines.local import LocalRows
from lumberjack.engines.many import ManyRows
from lumberjack.io import pack


def shuffled(codes, target, sizes):
    """Blocks of such sizes, of rows in another order; sizes are repeated until all rows are used."""
    order = np.random.default_rng(1).permutation(len(codes))
    blocks, begin = [], 0
    while begin < len(codes):
        size = sizes[len(blocks) % len(sizes)]
        rows = order[begin : begin + size]
        blocks.append(Block(codes[rows], target[rows]))
        begin += size
    return ManyRows(blocks)


def by_target(codes, target):
    """Two blocks that look nothing alike: rows sorted by what is to be predicted."""
    order = np.argsort(target, kind="stable")
    half = len(order) // 2
    return ManyRows([Block(codes[rows], target[rows]) for rows in (order[:half], order[half:])])


ENGINES = {
    "one block": lambda codes, target: ManyRows([Block(codes, target)]),
    "three blocks": lambda codes, target: shuffled(codes, target, [1, 4000, 1999]),
    "many blocks": lambda codes, target: shuffled(codes, target, [97, 1, 500]),
    "blocks that look nothing alike": by_target,
    "an empty block": lambda codes, target: ManyRows(
        [Block(codes[:0], target[:0]), Block(codes, target)]
    ),
    "local, shuffled": lambda codes, target: LocalRows(codes[::-1].copy(), target[::-1].copy()),
}


@pytest.mark.parametrize("kind", test_golden.KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_bytes(engine, kind, monkeypatch):
    expected = pack(test_golden.fit(kind))
    monkeypatch.setattr(lumberjack.base, "LocalRows", ENGINES[engine])
    assert pack(test_golden.fit(kind)) == expected


UNDECLARED = {
    "fitted classes": LumberjackClassifier(8.0, n_estimators=2, random_state=5),
    "classes": LumberjackClassifier(8.0, n_estimators=2, leaf="counts", random_state=5),
    "numbers": LumberjackRegressor(8.0, n_estimators=2, random_state=5),
    "random splits": LumberjackClassifier(
        8.0, n_estimators=2, splits="random", leaf="counts", random_state=5
    ),
    "random numbers": LumberjackRegressor(8.0, n_estimators=2, splits="random", random_state=5),
}


@pytest.mark.parametrize("kind", UNDECLARED)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_every_engine_learns_the_same(engine, kind, monkeypatch):
    """Nothing is declared: columns, classes and the target's scale are learned. One label is rare."""
    X, y = test_golden.table()
    y = np.where(np.arange(len(y)) == 0, 17, y)
    expected = pack(UNDECLARED[kind].fit(X, y))
    monkeypatch.setattr(lumberjack.base, "LocalRows", ENGINES[engine])
    assert pack(UNDECLARED[kind].fit(X, y)) == expected


FITTED = {
    "two classes": test_golden.classifier(leaf="fitted", classes=["no", "yes"]),
    "four classes": test_golden.classifier(leaf="fitted"),
    "one class": test_golden.classifier(leaf="fitted", classes=["all"]),
    "number": test_golden.regressor(),
    "persons": test_golden.classifier(leaf="fitted", rows_per_person=3),
    "persons, number": test_golden.regressor(rows_per_person=2),
}


def fit_leaves(kind, n_jobs=None):
    X, y = test_golden.table()
    y = {"two classes": np.where(y > 1, "yes", "no"), "one class": np.full(len(y), "all")}.get(kind, y)
    people = np.arange(len(X)) // 4 if "persons" in kind else None
    return FITTED[kind].set_params(n_jobs=n_jobs).fit(X, y, person_ids=people)


@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_every_engine_fits_the_same_leaves(engine, kind, monkeypatch):
    model = fit_leaves(kind)
    assert model.guarantee_.fits_leaves
    expected = pack(model)
    monkeypatch.setattr(lumberjack.base, "LocalRows", ENGINES[engine])
    assert pack(fit_leaves(kind)) == expected


@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("engine", ["local", "three blocks"])
@pytest.mark.filterwarnings("ignore::lumberjack.PrivacyLeakWarning")
def test_two_threads_fit_the_same_leaves(engine, kind, monkeypatch):
    expected = pack(fit_leaves(kind))
    monkeypatch.setattr(lumberjack.residuals, "_WORTH_THREADS", 0)
    if engine != "local":
        monkeypatch.setattr(lumberjack.base, "LocalRows", ENGINES[engine])
    assert pack(fit_leaves(kind, n_jobs=2)) == expected


@pytest.mark.parametrize("kind", ["guided", "random", "regression persons"])
def test_a_small_sample_changes_nothing(kind, monkeypatch):
    """Sampling affects speed only; here it misses large nodes or guesses wrong ones in most passes."""
    expected = pack(test_golden.fit(kind))
    monkeypatch.setattr(lumberjack.base, "LocalRows", ENGINES["three blocks"])
    monkeypatch.setattr(lumberjack.training, "_SAMPLE", 150)
    assert pack(test_golden.fit(kind)) == expected
