"""The words of README and docs: few rules, each of which a reader has stumbled over; and where figures come from."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.where import ROOT

PAGES = sorted(
    str(page.relative_to(ROOT))
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md", "systems/*/README.md", "packages/*/README.md")
    for page in ROOT.glob(pattern)
)
#: Of these every sentence is short.
SHORT = ["README.md", "docs/errors.md", "docs/glossary.md", "docs/tutorial.md"]
#: What reads as a literal translation.
FORBIDDEN = (
    "who wants the GIL", "so that they", "made anew", " anew", "what becomes of", "takes it last", "not run any more",
    "whoever", "it is told", "by whom", "after so many",
)  # fmt: skip
#: Beside a measured figure these promise what no measurement shows.
ABSOLUTE = re.compile(r"\b(always|never|guaranteed|perfect\w*)\b[^.|]{0,40}\b\d[\d.]* (?:ms|µs|%)")
MOST_WORDS = 40
#: `<!-- measured: COMMAND; tree: COMMIT; of: PATH PATH -->` stands before the paragraph that names the day.
MEASURED = re.compile(r"<!-- measured: (.+?); tree: (\w+); of: (.+?) -->\n(.*?)\n\n", re.DOTALL)
ROW_OF_FIGURES = re.compile(r"^\|[^\n]*\d+ (?:%|/ \d)[^\n]*\|$", re.MULTILINE)


def prose(page: str) -> str:
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "\n\n", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_as_english(page: str) -> None:
    text = " ".join(prose(page).split())
    assert [phrase for phrase in FORBIDDEN if phrase in text.lower()] == []
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


def test_figures_of_the_readme_name_their_command_their_tree_and_its_day() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    found = MEASURED.findall(text)
    tables = [table for table in re.split(r"\n\n", text) if ROW_OF_FIGURES.search(table)]
    assert len(found) == len(tables) > 0
    for command, tree, paths, paragraph in found:
        assert f"`{command}`" in paragraph
        if not (ROOT / ".git").exists():
            continue
        assert git("log", "-1", "--format=%cs", tree) in paragraph, "the day of the tree that was measured"
        later = git("log", "--format=%cs", f"{tree}..HEAD", "--", *paths.split()).splitlines()
        days = 0 if not later else len(set(later))
        assert days <= 14, f"{command}: its code has changed on {days} days since {tree}; measure again"
