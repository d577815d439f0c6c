import numpy as np
import pytest

from lumberjack.datasets import fetch_acs, fetch_adult, make_toy


def test_toy_data_are_the_papers():
    for scale in (1, 10, 1000):
        X, y, domain = make_toy(scale=scale)
        assert X.shape == (10_000, 2)
        assert np.bincount(y).tolist() == [5500, 4000, 500]
        assert (domain["x"].low, domain["x"].high) == (0, 5 * scale)
        assert (domain["y"].low, domain["y"].high) == (0, 4 * scale)
        assert X.min() >= 0
        assert np.all([5 * scale, 4 * scale] >= X)
        centre = X[y == 2].mean(axis=0)
        np.testing.assert_allclose(centre, [5 * scale - 1, 4 * scale - 1], atol=0.05)


def test_without_the_data_there_is_one_clear_error(monkeypatch, tmp_path):
    monkeypatch.delenv("LUMBERJACK_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="set the variable LUMBERJACK_DATA"):
        fetch_adult()
    monkeypatch.setenv("LUMBERJACK_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="it is"):
        fetch_acs()


def test_unknown_tasks_are_named():
    with pytest.raises(ValueError, match="task must be one of 'income'"):
        fetch_acs("wealth")
    with pytest.raises(ValueError, match="no file is known for income, TX, 2018"):
        fetch_acs("income", "TX")
