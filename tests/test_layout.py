"""Layout: modules import one way, use no private parts of others, and are in CONTRIBUTING's table.

``python tests/test_layout.py`` rewrites that table.
"""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "lumberjack"
TABLE = re.compile(r"(?<=<!-- modules -->\n).*?(?=<!-- end of modules -->)", re.DOTALL)

# In the order in which they may import each other: a module imports only from lines above its own.
ORDER = """
    quoting units files options progress kernels
    accounting noise
    events guarantee planning formula composition
    values kinds checking declared domain structure
    paths priors columns search thinning inputs
    growing guided
    tree anatomy
    grove terms strategy fitting residuals leaves targets old_votes
    engines.growth engines.base engines.local engines.many
    learning descent training released
    io legend report
    base forest
    prefixes
    datasets scores export_onnx export pictures plots page
    tables reading template wizard console
    cli_plan cli_search cli_models cli_demo cli_domain cli_train cli_tables cli
"""
LAYERS = [line.split() for line in ORDER.strip().splitlines()]
MODULES = [name for layer in LAYERS for name in layer]
PUBLIC_UNDERSCORES = {"_replace", "_asdict", "_fields", "_getframe", "_exit", "_cache"}
PLANNED = {"guarantee", "planning", "events"}  # where leaves are priced
ONE_ROOM = {"forest": {"_keep"}}  # what estimators share is in ``base``


def path_of(name):
    file = SOURCE / (name.replace(".", "/") + ".py")
    return file if file.exists() else SOURCE / name.replace(".", "/")


def files_of(name):
    path = path_of(name)
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


@functools.cache
def parsed(file):
    return ast.parse(file.read_text("utf-8"))


def imports(file):
    """Modules of the package that a file imports, anywhere in it."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{file.name}:{node.lineno}: name the package in imports")
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lumberjack":
            for alias in node.names:
                yield f"{node.module}.{alias.name}".removeprefix("lumberjack.")
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("lumberjack.") for a in node.names if "lumberjack" in a.name)


def room(name):
    """The listed module to which a name belongs."""
    inside = [m for m in MODULES if name == m or name.startswith(m + ".")]
    return max(inside, key=len) if inside else name


def test_every_module_is_in_the_order():
    found = {
        p.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".") for p in SOURCE.rglob("*.py")
    }
    listed = {name for name in found if room(name) in MODULES}
    assert found - listed == {"__init__", "__main__", "engines.__init__"}
    assert {room(name) for name in listed} == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_one_way(name):
    before = set(MODULES[: MODULES.index(name)]) | {name}
    used = {room(target) for file in files_of(name) for target in imports(file)}
    # ``from lumberjack import tables`` names the package's own modules.
    assert used - before <= {"__version__"}, f"{name} imports what comes after it"


@pytest.mark.parametrize("name", ["engines.growth", "engines.base", "engines.local", "engines.many"])
def test_engines_know_nothing_of_noise(name):
    (file,) = files_of(name)
    used = {room(target) for target in imports(file)}
    assert not used & {"accounting", "noise", "guarantee", "training"}
    assert not re.search(r"epsilon\b(?!,? or delta)|\bsigma\b|random", ast_without_docstring(file))


def ast_without_docstring(file):
    return ast.unparse(ast.Module(parsed(file).body[1:], []))


def test_accounting_sees_no_data():
    used = {room(target) for file in files_of("accounting") for target in imports(file)}
    assert used == {"accounting", "kernels"}


@pytest.mark.parametrize("name", MODULES)
def test_private_names_stay_in_their_module(name):
    for file in files_of(name):
        tree = parsed(file)
        own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        own |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and is_self(n.value)}
        own |= PUBLIC_UNDERSCORES | ONE_ROOM.get(name, set())
        taken = {
            n.attr
            for n in ast.walk(tree)
            if isinstance(n, ast.Attribute) and re.match(r"_[^_]", n.attr) and not is_self(n.value)
        }
        taken |= {
            alias.name
            for n in ast.walk(tree)
            if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("lumberjack")
            for alias in n.names
            if alias.name.startswith("_") and not alias.name.startswith("__")
        }
        assert taken <= own, f"{file.name} reads private names of other modules"


def is_self(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def test_no_function_takes_more_than_seven_arguments():
    """Keyword-only ones count. Commands aside, and what has the settings of an estimator or a search."""
    settings = {"__init__", "plan", "heavy_hitters"}
    long = []
    for name in MODULES:
        for file in files_of(name):
            for node in ast.walk(parsed(file)):
                if isinstance(node, ast.FunctionDef) and node.name not in settings and "cli" not in name:
                    given = [
                        a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                    ]
                    if len([a for a in given if a not in ("self", "cls")]) > 7:
                        long.append(f"{file.name}: {node.name}")
    assert long == []


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_kernel(node):
    return isinstance(node, ast.FunctionDef) and "kernel" in [
        getattr(d, "id", "") for d in node.decorator_list
    ]


def test_kernels_called_from_python_are_annotated():
    """mypy checks the calls of compiled functions from others; among themselves, Numba does."""
    trees = [parsed(file) for name in MODULES for file in files_of(name)]
    called = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and not is_kernel(node):
                called |= {getattr(n.func, "id", "") for n in ast.walk(node) if isinstance(n, ast.Call)}
    for name in MODULES:
        for file in files_of(name):
            for node in filter(is_kernel, parsed(file).body):
                given = [getattr(a.annotation, "id", "") for a in node.args.args]
                assert node.name not in called or "Any" not in given, f"{file.name}: {node.name}"


def test_estimators_are_short():
    """Docstrings included: parameters, validation and one call of ``train``."""
    for name in ("base", "forest"):
        (file,) = files_of(name)
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef):
                assert node.end_lineno - node.lineno < 250, node.name


@pytest.mark.parametrize("name", sorted({*MODULES} - {"targets", "fitting"} - PLANNED))
def test_what_a_leaf_releases_is_decided_by_targets(name):
    """Targets know what leaves release, and plans what it costs; nobody else asks which kind it is."""
    for file in files_of(name):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Compare):
                asked = re.search(r"""\bleaf\b|["']leaf["']""", ast.unparse(node.left))
                kinds = {n.value for part in node.comparators for n in ast.walk(part) if is_text(n)}
                assert not (asked and kinds), f"{file.name}:{node.lineno}"


def table():
    """A row for each module: its file, and the first line of its docstring."""
    rows = ["| file | what lives there |", "|---|---|"]
    for name in MODULES:
        path = path_of(name)
        file = path if path.is_file() else path / "__init__.py"
        first = (ast.get_docstring(parsed(file)) or "").splitlines()[0]
        shown = path.relative_to(SOURCE).as_posix() + ("" if path.is_file() else "/")
        rows.append(f"| `{shown}` | {first.rstrip('.')} |")
    return "\n".join(rows) + "\n"


def test_contributing_lists_all_modules():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert TABLE.search(text)[0] == table(), "run: python tests/test_layout.py"


if __name__ == "__main__":
    page = ROOT / "CONTRIBUTING.md"
    page.write_text(TABLE.sub(lambda _: table(), page.read_text("utf-8")), "utf-8")
