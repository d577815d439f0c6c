"""What holds for the project as a whole: one version, links that lead somewhere, files that parse."""

import importlib.metadata
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import lumberjack

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / ".github" / "pull_request_template.md"]


def read(*parts):
    return ROOT.joinpath(*parts).read_text("utf-8")


def load(path):
    return yaml.safe_load(path.read_text("utf-8"))


def jobs():
    for path in WORKFLOWS:
        for name, job in load(path)["jobs"].items():
            yield path.stem, name, job


def tracked():
    listing = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if listing.returncode or "pyproject.toml" not in listing.stdout:
        pytest.skip("not a git checkout")
    return [name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_version_is_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", lumberjack.__version__)
    assert importlib.metadata.version("lumberjack-dp") == lumberjack.__version__, (
        "install the project again"
    )
    assert not {"version", "date-released"} & set(load(ROOT / "CITATION.cff"))
    places = [f"{p.relative_to(ROOT).as_posix()}" for p in (ROOT / "src").rglob("*.py")]
    assert [name for name in places if "__version__ =" in read(name)] == ["src/lumberjack/__init__.py"]
    assert "lumberjack.__version__" in read("docs", "conf.py")


def test_the_changelog_knows_the_released_version():
    if ".dev" in lumberjack.__version__:
        assert "\n## Unreleased\n" in read("CHANGELOG.md")
    else:
        assert f"\n## {lumberjack.__version__}" in read("CHANGELOG.md")


def test_the_package_is_typed():
    assert (Path(lumberjack.__file__).parent / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_pythons_that_are_tested_are_those_that_are_declared():
    declared = re.findall(r":: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    tested = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    assert PROJECT["requires-python"] == f">={declared[0]}"
    for job in ("linux", "elsewhere"):
        assert tested[job]["strategy"]["matrix"]["python"] == [declared[0], declared[-1]]


def test_citation_names_the_paper_as_the_readme_does():
    cited = load(ROOT / "CITATION.cff")
    assert cited["license"] == PROJECT["license"]
    readme = " ".join(read("README.md").split())
    paper = cited["preferred-citation"]
    names = ", ".join(author["family-names"] for author in paper["authors"])
    assert f"*{paper['title']}* ({names})" in readme


def test_every_workflow_has_a_limit_and_few_permissions():
    assert {path.stem for path in WORKFLOWS} == {"codeql", "nightly", "release", "tests"}
    for path in WORKFLOWS:
        workflow = load(path)
        assert workflow["permissions"] in ({}, {"contents": "read"}), path.name
        assert workflow["concurrency"]["group"], path.name
    for workflow, name, job in jobs():
        assert job["timeout-minutes"] <= 90, (workflow, name)
        write = {key for key, value in job.get("permissions", {}).items() if value == "write"}
        allowed = {("codeql", "analyze"): {"security-events"}, ("release", "publish"): {"id-token"}}
        assert write == allowed.get((workflow, name), set()), (workflow, name)


def test_the_publish_job_runs_no_project_code():
    publish = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["publish"]
    assert publish["environment"] == "release"
    assert publish["needs"] == "build"
    assert all("uses" in step for step in publish["steps"])
    assert not any("checkout" in step["uses"] for step in publish["steps"])


def test_actions_are_pinned_and_commands_exist():
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))
    for workflow, name, job in jobs():
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w/-]+@v\d+(\.\d+\.\d+)?", step["uses"]), (workflow, name)
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
            command = step.get("run", "")
            assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= targets, (workflow, name)
            for path in re.findall(r"\b(?:tests|examples)/[\w/.]+", command):
                assert (ROOT / path).exists(), path


def test_issue_forms_keep_privacy_problems_private():
    forms = {path.stem: load(path) for path in FORMS}
    assert set(forms) == {"bug", "config", "mechanism", "privacy"}
    for name in ("bug", "privacy"):
        assert "../blob/HEAD/SECURITY.md" in forms[name]["body"][0]["attributes"]["value"], name
    required = {
        part["id"] for part in forms["mechanism"]["body"] if part.get("validations", {}).get("required")
    }
    assert {"guarantee", "sensitivity", "test"} <= required
    for form in forms.values():
        for path in re.findall(r"\.\./blob/HEAD/([\w/.-]+)", str(form)):
            assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_files_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if not re.match(r"https?://|#", link):
            path, _, anchor = link.partition("#")
            target = page.parent / path
            assert target.exists(), link
            if anchor:
                titles = re.findall(r"^#+ (.*)", target.read_text("utf-8"), re.M)
                slugs = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
                assert anchor in slugs, link


def test_readme_leads_to_security_and_citation():
    last = read("README.md").rpartition("\n## ")[2]
    assert "](SECURITY.md)" in last
    assert "](CITATION.cff)" in last


def test_no_file_names_a_package_host_or_a_place_on_a_machine():
    # Put together here, so that this file does not find itself.
    hosts = ["py" + "pi.", "python" + "hosted", "anaconda" + ".org", "npm" + "js", "arti" + "factory"]
    places = ["/" + name + "/" for name in ("root", "work", "home", "Users", "opt")]
    places += ["/tmp" + "/", ":" + "\\Users"]
    pattern = re.compile("|".join(map(re.escape, [*hosts, *places])))
    for name in tracked():
        data = (ROOT / name).read_bytes()
        if b"\0" not in data:
            for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
                for found in pattern.finditer(line):
                    before = line[: found.start()]
                    # In an address or a relative path it is not a place on a machine.
                    inside = found[0].startswith("/") and re.search(r"[\w.$)}*-]$", before)
                    assert inside, f"{name}:{number} has {found[0]}"


def test_no_tracked_file_is_a_table_or_a_cache():
    for name in tracked():
        path = Path(name)
        assert path.suffix not in {".parquet", ".csv", ".zip", ".npz", ".pkl", ".pyc", ".nbi", ".nbc"}, (
            name
        )
        assert not {"__pycache__", "out", "dist", ".venv"} & set(path.parts), name
        assert (ROOT / name).stat().st_size < 1_000_000, name
