"""What `scripts/budgets.py` counts, and when it refuses."""

from __future__ import annotations

import importlib.util
import subprocess
from collections import Counter
from pathlib import Path

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
