"""The words of README and docs, and where their figures come from. `scripts/prose.py` has the rules of the English."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.where import ROOT

PAGES = sorted(
    str(page.relative_to(ROOT))
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md", "systems/*/README.md", "packages/*/README.md")
    for page in ROOT.glob(pattern)
)
#: Of these every sentence is short.
SHORT = ["README.md", "docs/errors.md", "docs/glossary.md", "docs/tutorial.md"]
#: Beside a measured figure these promise what no measurement shows.
ABSOLUTE = re.compile(r"\b(always|never|guaranteed|perfect\w*)\b[^.|]{0,40}\b\d[\d.]* (?:ms|µs|%)")
MOST_WORDS = 40
#: `<!-- measured: COMMAND; tree: COMMIT; of: PATH PATH -->` stands before the table, in README before the paragraph
#: that names the day. COMMIT is the one that was measured, or the one that the figures came with.
MEASURED = re.compile(r"<!-- measured: (.+?); tree: (\w+); of: (.+?) -->\n\s*(.*?)\n\n", re.DOTALL)
NOT_MEASURED = re.compile(r"^<!-- not measured: .+ -->$")
#: More days of changes than this, and the figures are taken to be those of other code.
MOST_DAYS = 14
CELL_OF_FIGURES = re.compile(r"[\s*<>±~≤+-]*\d[\d.,/ ×%±()to→-]*(?:ms|s|%|µs|MB|kB|ns)?[\s*]*")
#: Written from declarations and processes; `make docs` and `make lint` keep them up to date.
GENERATED = {"settings", "errors", "metrics", "scenarios", "guest", "architecture"}
#: What they show are numbers of a format.
FORMATS = {"recording-format", "profile-format"}
DOCS = sorted(page for page in ROOT.glob("docs/*.md") if page.stem not in GENERATED | FORMATS)


def prose(page: str) -> str:
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "\n\n", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_promises_no_more_than_was_measured(page: str) -> None:
    text = " ".join(prose(page).split())
    assert [found[0] for found in ABSOLUTE.finditer(text)] == []


@pytest.mark.parametrize("page", SHORT)
def test_sentences_are_short(page: str) -> None:
    blocks = re.split(r"\n\s*\n|\n(?=[-|#]|\d+\. )", prose(page))
    sentences = [one for block in blocks if "|" not in block for one in re.split(r"(?<=[.:?!;·])\s", block)]
    assert [one for one in sentences if len(one.split()) > MOST_WORDS] == []


def test_each_of_the_thirty_questions_stands_under_a_symptom() -> None:
    linked = re.findall(r"\]\(oncall\.md#(\d+)-", (ROOT / "docs/troubleshooting.md").read_text("utf-8"))
    asked = re.findall(r"^## (\d+)\. ", (ROOT / "docs/oncall.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(asked, key=int) == sorted(set(linked), key=int)


def test_a_glossary_entry_is_one_line_and_stands_once() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", (ROOT / "docs/glossary.md").read_text("utf-8"), re.MULTILINE)
    words = [word for names, _ in rows for word in names.split(", ")]
    assert sorted(set(words)) == sorted(words)
    assert [meaning for _, meaning in rows if len(meaning) > 170] == []


def git(*argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def days_of_changes(tree: str, paths: str) -> int:
    """On how many days these paths have changed since that commit; 0 outside a clone."""
    if not (ROOT / ".git").exists():
        return 0
    return len({*git("log", "--format=%cs", f"{tree}..HEAD", "--", *paths.split()).splitlines()})


def test_figures_of_the_readme_name_their_command_their_tree_and_its_day() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    found = MEASURED.findall(text)
    tables = [table for table in text.split("\n\n") if sum(map(has_figures, table.splitlines())) > 2]
    assert len(found) == len(tables) > 0
    for command, tree, paths, paragraph in found:
        assert f"`{command}`" in paragraph
        if (ROOT / ".git").exists():
            assert git("log", "-1", "--format=%cs", tree) in paragraph, "the day of the tree that was measured"
        days = days_of_changes(tree, paths)
        assert days <= MOST_DAYS, f"{command}: its code has changed on {days} days since {tree}; measure again"


def has_figures(row: str) -> bool:
    cells = row.split("|")[1:-1]
    return any(CELL_OF_FIGURES.fullmatch(cell) for cell in cells)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_a_table_of_figures_says_where_they_come_from(page: Path) -> None:
    lines = [
        line for line in re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S).splitlines() if line
    ]
    begins = [at for at, line in enumerate(lines) if line.startswith("|") and not lines[at - 1].startswith("|")]
    for begin in begins:
        rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines[begin:]))
        before = lines[begin - 1]
        if sum(map(has_figures, rows)) > 2:
            assert before.startswith("<!-- measured: ") or NOT_MEASURED.match(before), f"{rows[0]}: no command, no tree"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_no_table_is_older_than_the_code_that_it_describes(page: Path) -> None:
    text = page.read_text("utf-8")
    visible = " ".join(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).split())
    for command, tree, paths, table in MEASURED.findall(text):
        assert command.partition(" --")[0] in visible, "readers see the command"
        assert table.startswith("|")
        assert [path for path in paths.split() if not (ROOT / path).exists()] == []
        days = days_of_changes(tree, paths)
        assert days <= MOST_DAYS, f"{command}: its code has changed on {days} days since {tree}; measure again"


def test_the_linter_names_the_line_and_what_to_write(tmp_path: Path) -> None:
    page, source, rust = tmp_path / "page.md", tmp_path / "source.py", tmp_path / "source.rs"
    page.write_text("Fine.\n```\nmade anew\n```\nIt goes to `whoever` and is made anew.\n")
    source.write_text('anew = 1\n#: Told to whoever waits.\nsaid = "made " + "anew"\n')
    rust.write_text('let anew = "// anew";\nlet quote = \'"\'; // Made anew.\n')
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/prose.py", page, source, rust], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{page}:5: 'anew': write again",
        f"{source}:2: 'whoever': write name the caller, thread or process",
        f"{source}:3: 'anew': write again",
        f"{rust}:2: 'anew': write again",
    ]
