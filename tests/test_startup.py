"""What is imported when: a command does not wait for what it does not need."""

import importlib
import pkgutil

import pytest
from processes import run

import lumberjack

# What takes a noticeable part of a second, and what brings it along.
HEAVY = [
    "joblib", "mpmath", "narwhals", "numba", "numpy", "pandas", "polars", "pyarrow", "rich",
    "scipy.optimize", "scipy.stats", "sklearn", "typer",
]  # fmt: skip
PLANNING = {"numba", "numpy", "scipy.optimize"}
USES = {
    "import lumberjack": set(),
    "from lumberjack import plan; plan(1.0)": PLANNING,
    "from lumberjack.cli import main; main(['plan', '--json'])": PLANNING | {"rich", "typer"},
}


@pytest.mark.parametrize("code", USES)
def test_heavy_modules_wait_until_they_are_needed(code):
    done = run(f"import sys\n{code}\nprint(*sorted(set(sys.modules) & set({HEAVY})))")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()[-1].split()) == USES[code]


def test_public_names_are_those_of_their_modules():
    for name in lumberjack.__all__:
        found = getattr(lumberjack, name)
        assert getattr(importlib.import_module(found.__module__), name) is found
    assert set(lumberjack.__all__) <= set(dir(lumberjack))
    assert not hasattr(lumberjack, "forests")


def test_no_public_name_is_that_of_a_module():
    """Importing a module sets its name in the package, in place of the public one."""
    assert not {m.name for m in pkgutil.iter_modules(lumberjack.__path__)} & set(lumberjack.__all__)


def test_a_command_is_registered_by_its_own_module_alone():
    done = run("""
        from lumberjack.cli import main
        assert main(["plan", "--json"]) == 0
        import sys
        print(*sorted(m for m in sys.modules if m.startswith("lumberjack.cli_")))
        assert main(["no-such-command"]) == 2
        print(*sorted(m.removeprefix("lumberjack.cli_") for m in sys.modules if "lumberjack.cli_" in m))
    """)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[-2:]
    assert first == "lumberjack.cli_plan"
    assert second == "demo domain models plan search tables train"
