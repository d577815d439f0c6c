"""The documentation names things that exist, and every public docstring has an example."""

import inspect
import re
from pathlib import Path

import pytest

import lumberjack
from lumberjack import datasets, export, plots
from lumberjack.prefixes import HeavyHitters

ROOT = Path(__file__).parent.parent
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
API = (ROOT / "docs" / "api.md").read_text("utf-8")
TESTS = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_tests_that_a_page_names_exist(page):
    text = page.read_text("utf-8")
    for name in re.findall(r"`((?:src|tests|examples|docs|benchmarks)/[\w/.-]+)`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in TESTS, name
    for module in re.findall(r"python -m (benchmarks\.\w+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_link_from_a_name_leads_to_its_definition(page):
    text = page.read_text("utf-8")
    for names, link in re.findall(r"\[((?:`[^`]+`(?:, )?)+)\]\(([\w./]*src/[\w./]+\.py)\)", text):
        source = (page.parent / link).read_text("utf-8")
        for name in re.findall(r"`(?:\w+\.)?(\w+)(?:\(.*?\))?`", names):
            defined = re.search(rf"(?:def|class) {name}\b", source)
            assert defined or name in ("py", Path(link).stem), (name, link)


def test_every_test_named_for_a_flaw_is_one_of_ours():
    flaws = (ROOT / "docs" / "flaws.md").read_text("utf-8")
    sections = flaws.split("\n## ")[1:-1]
    assert len(sections) == 10
    for section in sections:
        assert re.search(r"`test_\w+`", section), section.splitlines()[0]


def public():
    modules = {"lumberjack": lumberjack, "datasets": datasets, "export": export, "plots": plots}
    for prefix, module in modules.items():
        for name in module.__all__:
            yield f"{prefix}.{name}", getattr(module, name)
    yield "heavy_hitters.HeavyHitters", HeavyHitters


def members(thing):
    """Public methods that are ours, not scikit-learn's."""
    for name, member in inspect.getmembers(thing):
        member = inspect.unwrap(getattr(member, "__func__", member))
        ours = getattr(member, "__module__", None) or ""
        if inspect.isfunction(member) and not name.startswith("_") and ours.startswith("lumberjack"):
            yield name, member


LISTED = [
    *((name, thing) for name, thing in public()),
    *((f"{name}.{m}", member) for name, thing in public() if inspect.isclass(thing)
      for m, member in members(thing)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "thing"), LISTED, ids=[name for name, _ in LISTED])
def test_every_public_docstring_has_an_example(name, thing):
    text = inspect.getdoc(thing)
    assert text, name
    assert ">>>" in text, name


def test_every_public_name_is_in_the_reference():
    for name, thing in public():
        assert re.search(rf":: lumberjack\.(\w+\.)?{thing.__name__}\n", API), name
