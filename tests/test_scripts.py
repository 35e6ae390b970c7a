"""What `scripts/budgets.py` counts, and when it refuses."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.where import ROOT

_SPEC = importlib.util.spec_from_file_location("budgets", ROOT / "scripts" / "budgets.py")
assert _SPEC is not None and _SPEC.loader is not None
budgets = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(budgets)

AREAS = {"crates": ["crates/"], "tools": ["packages/tools/src/", "lab/"]}


def test_a_file_is_counted_in_its_area_or_as_a_test_or_a_document() -> None:
    counted = {
        "crates/a/src/lib.rs": "crates", "crates/a/src/run/tests.rs": "tests", "packages/tools/src/a.py": "tools",
        "packages/tools/tests/a.py": "tests", "systems/go/a_test.go": "tests", "docs/a.md": "documents",
        "lab/a.toml": "", "elsewhere/a.py": "other",
    }  # fmt: skip
    assert {path: budgets.area_of(path, AREAS) for path in counted} == counted


def test_lines_and_words_of_what_git_has_are_counted(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    for name, text in {"lab/a.py": "1\n2\n", "a.md": "three words here\n", "lab/left_out.py": "1\n"}.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "lab/a.py", "a.md"], cwd=tmp_path, check=True)
    assert budgets.sizes(tmp_path, AREAS) == {"tools": 2, "documents": 3}


def test_what_is_above_its_budget_is_marked() -> None:
    text = budgets.table(Counter(tools=3, crates=2), {"tools": 2, "crates": 2})
    assert [line.split() for line in text.splitlines()[1:]] == [["tools", "3", "2", "ABOVE"], ["crates", "2", "2"]]


# --- What `make nightly` says of tests that fail always, and by chance.


CASES = """
import pathlib
once = pathlib.Path(__file__).with_name("once")
def test_by_chance():
    before = once.exists()
    once.touch()
    assert before
def test_always(): assert False
def test_never(): pass
"""
RUN = """
import sys
from scripts import nightly
nightly.MAKE_PARTS.clear()
sys.exit(nightly.main([], {"cases": sys.argv[1:]}))
"""


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize(
    ("options", "code", "table"),
    [
        ([], 1, ["   1 of 2  test_cases.py::test_by_chance", "   3 of 3  test_cases.py::test_always"]),
        (["-k", "not always"], 0, ["   1 of 2  test_cases.py::test_by_chance"]),
        (["-k", "never"], 0, []),
        (["--no-such-option"], 1, ["   1 of 1  cases: pytest itself, exit code 4"]),
    ],
)
def test_each_test_that_failed_is_in_the_table_with_its_runs(
    options: list[str], code: int, table: list[str], tmp_path: Path
) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")
    # Not what pytest and xdist tell the processes that they start: these are not their workers.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *options],
        cwd=tmp_path,
        env={**outside, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    said = done.stdout.partition("== failed, of how many runs\n")[2]
    assert (sorted(said.splitlines()), done.returncode) == (sorted(table), code), done.stdout + done.stderr


# --- The release: one version, whole links on an index's page, and a workflow that trusts nobody by name alone.


WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the script touches, and what the links lead to."""
    for name in ("Cargo.toml", "Cargo.lock", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for manifest in ROOT.glob("packages/*/pyproject.toml"):
        folder = tmp_path / "packages" / manifest.parent.name
        folder.mkdir(parents=True)
        shutil.copy(manifest, folder)
        shutil.copy(manifest.parent / "README.md", folder)
    return tmp_path


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "release.py"), *arguments, "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_version_is_set_in_every_place(checkout: Path) -> None:
    old = run(checkout, "version").stdout.strip()
    assert run(checkout, "version", "7.8.9").returncode == 0
    assert run(checkout, "version").stdout == "7.8.9\n"
    for manifest in checkout.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(manifest.read_text("utf-8"))["project"]
        assert project.get("version", "7.8.9") == "7.8.9"
        extras = [each for extra in project.get("optional-dependencies", {}).values() for each in extra]
        ours = [each for each in [*project["dependencies"], *extras] if each.startswith("greenlane")]
        assert all(each.endswith("==7.8.9") for each in ours)
    locked = tomllib.loads((checkout / "Cargo.lock").read_text("utf-8"))["package"]
    assert {each["version"] for each in locked if each["name"].startswith("greenlane-")} == {"7.8.9"}
    assert "==7.8.9'" in (checkout / "README.md").read_text("utf-8")
    pages = [checkout / "README.md", *(checkout / "docs").glob("*.md")]
    assert not [page for page in pages if f"]=={old}'" in page.read_text("utf-8")]


def test_a_tag_is_refused_unless_it_is_the_version_and_the_changelog_tells_of_it(checkout: Path) -> None:
    old = run(checkout, "version").stdout.strip()
    refused = run(checkout, "check", f"v{old}")
    assert refused.returncode == 2 and "CHANGELOG.md has no section" in refused.stderr
    run(checkout, "version", "7.8.9")
    assert run(checkout, "check", "v7.8.9").returncode == 0
    assert run(checkout, "check", "v7.8.8").returncode == 2
    assert "### Added" in run(checkout, "notes").stdout


def test_addresses_are_stamped_once_and_no_link_is_left_that_an_index_cannot_follow(checkout: Path) -> None:
    stamped = run(checkout, "stamp", "https://forge.example/somebody/greenlane")
    assert stamped.returncode == 0, stamped.stderr
    for manifest in checkout.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(manifest.read_text("utf-8"))["project"]
        assert {"Source", "Documentation", "Changelog", "Issues"} <= set(project["urls"])
        links = re.findall(r"\]\(([^)]+)\)", (manifest.parent / "README.md").read_text("utf-8"))
        assert all(link.startswith("https://") for link in links), (manifest, links)
    assert run(checkout, "stamp", "https://forge.example/somebody/greenlane").returncode == 2


def test_each_distribution_has_the_licence() -> None:
    licence = (ROOT / "LICENSE").read_text()
    packages = [manifest.parent for manifest in ROOT.glob("packages/*/pyproject.toml")]
    assert [each.name for each in packages if (each / "LICENSE").read_text() != licence] == []


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert sections[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", each) for each in sections[1:])
    kinds = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def _jobs() -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]
    return jobs


def test_every_action_is_pinned_to_a_commit() -> None:
    used = re.findall(r"uses: (.*)$", WORKFLOW.read_text("utf-8"), re.MULTILINE)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in used), used


def test_only_what_was_tried_is_published_and_only_the_publisher_may_write() -> None:
    jobs = _jobs()
    assert jobs["publish"]["needs"] == ["build", "try"] and "tag" in jobs["publish"]["if"]
    assert "permissions" not in jobs["build"] and "permissions" not in jobs["try"]
    assert yaml.safe_load(WORKFLOW.read_text("utf-8"))["permissions"] == {"contents": "read"}
    assert "secrets." not in WORKFLOW.read_text("utf-8")


def test_each_supported_version_is_tried_and_classified() -> None:
    supported = re.search(r'^SUPPORTED="(.*)"$', (ROOT / "scripts" / "toolchain").read_text("utf-8"), re.MULTILINE)
    assert supported
    versions = supported[1].split()
    assert _jobs()["try"]["strategy"]["matrix"]["python"] == versions
    for manifest in ROOT.glob("packages/*/pyproject.toml"):
        classifiers = tomllib.loads(manifest.read_text("utf-8"))["project"]["classifiers"]
        named = re.findall(r"Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)
        assert named == versions, manifest
