"""What holds for the tests: every module has its own, and what is listed exists."""

import re
from pathlib import Path

from slow import SLOW

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "lumberjack"
FILES = {path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")}
ELSEWHERE = {  # tested through what uses them
    "__main__": "test_cli",
    "options": "test_cli",
    "cli_demo": "test_cli",
    "cli_models": "test_cli",
    "cli_plan": "test_cli",
    "cli_search": "test_cli",
    "base": "test_forest",
    "datasets/acs": "test_datasets",
    "datasets/codebooks": "test_datasets",
    "datasets/store": "test_datasets",
    "engines/base": "test_engines",
    "engines/growth": "test_local",
    "engines/many": "test_engines",
}


def modules():
    for path in SOURCE.rglob("*.py"):
        if path.stem != "__init__":
            yield path.relative_to(SOURCE).with_suffix("").as_posix()


def test_every_module_has_a_test_file():
    names = {Path(file).stem for file in FILES}
    for module in modules():
        assert ELSEWHERE.get(module, f"test_{Path(module).stem}") in names, module
    assert set(ELSEWHERE) <= set(modules())


def test_what_is_said_to_be_slow_exists():
    for name in SLOW:
        path, _, test = name.partition("::")
        assert (HERE / path).exists(), name
        if test:
            assert f"def {test.partition('[')[0]}(" in (HERE / path).read_text("utf-8"), name


def test_oracles_import_nothing_of_the_library():
    for name in ("naive.py", "reference.py"):
        assert not re.search(r"^\s*(import|from) lumberjack", (HERE / name).read_text("utf-8"), re.M)
