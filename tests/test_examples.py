"""Every example runs, on less data, and does what its text says."""

import importlib.util
import sys
from pathlib import Path

import pytest

from lumberjack import plan

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def find(name):
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield find
    sys.modules.pop("pipeline", None)


def test_no_example_is_left_out():
    tested = {"raw_table", "pipeline", "regression", "web_paths", "choose_epsilon", "publish"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


def test_raw_table(example, capsys):
    model, score = example("raw_table").main(n=10_000)
    assert model.guarantee_.caveats == ()
    assert model.guarantee_.verify() <= model.guarantee_.delta
    assert {event.use for event in model.guarantee_.events} >= {"categories", "classes", "cuts"}
    assert list(model.classes_) == ["no", "yes"]
    assert set(model.domain_["ward"].categories) == {"surgery", "medicine", "cardiology"}
    assert score > 0.75  # the more frequent answer: 0.65
    assert "caveats     none" in capsys.readouterr().out


def test_pipeline(example, capsys):
    pipeline, accuracy = example("pipeline").main(n=6000, epsilon=4.0)
    assert accuracy > 0.65
    assert pipeline[-1].guarantee_.caveats == ()
    assert "accuracy on 1,500 other patients" in capsys.readouterr().out


def test_regression(example):
    model, score = example("regression").main(n=6000, epsilon=4.0)
    assert score > 0.1
    assert model.guarantee_.caveats == ()


def test_web_paths(example, capsys):
    example("web_paths").main()
    out = capsys.readouterr().out
    assert "/shop" in out
    assert "orders" not in out  # nobody's private page


def test_choose_epsilon(example, tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra 'plot'")
    picture = tmp_path / "new" / "curve.png"
    module = example("choose_epsilon")
    enough = module.main(rows=20_000, path=picture)
    fits = [epsilon for epsilon in module.BUDGETS if plan(epsilon, 1e-6).suggested_rows <= 20_000]
    assert enough == min(fits)
    assert picture.stat().st_size > 10_000


def test_publish(example, capsys):
    model = example("publish").main(n=6000)
    assert model.guarantee_.verify() <= model.guarantee_.delta
    assert "recomputed delta" in capsys.readouterr().out


def test_the_receiver_refuses_another_file(example, tmp_path):
    publish = example("publish")
    path, fingerprint = publish.hospital(tmp_path, 2000)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(SystemExit, match="not the file"):
        publish.receiver(path, fingerprint)
