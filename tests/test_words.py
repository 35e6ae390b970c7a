"""The words of README and docs, and where their figures come from. `scripts/prose.py` has the rules of the English."""

from __future__ import annotations

import functools
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Sequence
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
#: More days of changes than this, or a larger share of changed lines, and the figures are taken to be those of other
#: code. Arbitrary.
MOST_DAYS = 14
MOST_CHANGED = 0.8
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


def git(*argv: str, root: Path = ROOT) -> str:
    return subprocess.run(["git", *argv], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


@functools.cache
def changed_files(tree: str, root: Path) -> dict[str, int]:
    """Path -> lines that differ from that commit's; moved files are followed, pages are left out."""
    diff = git("diff", "--numstat", "-z", "--find-renames", tree, "HEAD", "--", ".", ":!*.md", ":!*.lock", root=root)
    fields = iter(diff.split("\0"))
    changed = {}
    for field in filter(None, fields):
        added, removed, path = field.split("\t")
        if not path:
            path = (next(fields), next(fields))[1]  # Moved: from, to.
        changed[path] = 0 if added == "-" else max(int(added), int(removed))
    return changed


def changed_lines(tree: str, paths: Sequence[str], root: Path) -> int:
    changed = changed_files(tree, root)
    return sum(lines for path, lines in changed.items() if any(f"{path}/".startswith(f"{one}/") for one in paths))


def why_old(tree: str, paths: Sequence[str], root: Path = ROOT) -> str:
    """Why figures of that commit are not those of the code in these paths; "" = they are, or this is no clone."""
    if not (root / ".git").exists():
        return ""
    days = len({*git("log", "--format=%cs", f"{tree}..HEAD", "--", *paths, root=root).splitlines()})
    nothing = git("hash-object", "-t", "tree", "/dev/null", root=root)
    changed_frac = changed_lines(tree, paths, root) / max(1, changed_lines(nothing, paths, root))
    if days <= MOST_DAYS and changed_frac <= MOST_CHANGED:
        return ""
    return f"{100 * changed_frac:.0f} % of its code has changed, on {days} days, since {tree}; measure again"


def test_figures_are_old_when_their_code_has_changed_on_many_days_or_most_of_it_has(tmp_path: Path) -> None:
    git("init", "--quiet", root=tmp_path)

    def commit(day: int, lines: Sequence[str], name: str = "code.py") -> str:
        (tmp_path / name).write_text("\n".join(lines))
        git("add", "--all", root=tmp_path)
        author = ("-c", "user.name=A", "-c", "user.email=a@b.c")
        when = f"2026-01-{day:02d}T12:00:00Z"
        subprocess.run(
            ["git", *author, "commit", "--quiet", "-m", "."], cwd=tmp_path, check=True,
            env={**os.environ, "GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when},
        )  # fmt: skip
        return git("rev-parse", "HEAD", root=tmp_path)

    old = [f"old line {number}" for number in range(10)]
    new = [f"new line {number}" for number in range(10)]
    measured = commit(1, old)
    commit(2, new[:5] + old[5:])
    assert why_old(measured, ["code.py"], tmp_path) == ""
    again = commit(3, new)
    changed_files.cache_clear()
    assert why_old(measured, ["code.py"], tmp_path).startswith("100 % of its code has changed, on 2 days, since")
    assert why_old(measured, ["other.py"], tmp_path) == ""
    for day in range(4, 19):
        assert why_old(again, ["code.py"], tmp_path) == ""
        commit(day, [str(day), *new[1:]])
        changed_files.cache_clear()
    assert why_old(again, ["code.py"], tmp_path).startswith("10 % of its code has changed, on 15 days, since")


def test_figures_of_the_readme_name_their_command_their_tree_and_its_day() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    found = MEASURED.findall(text)
    tables = [table for table in text.split("\n\n") if sum(map(has_figures, table.splitlines())) > 2]
    assert len(found) == len(tables) > 0
    for command, tree, paths, paragraph in found:
        assert f"`{command}`" in paragraph
        if (ROOT / ".git").exists():
            assert git("log", "-1", "--format=%cs", tree) in paragraph, "the day of the tree that was measured"
        assert (command, why_old(tree, paths.split())) == (command, "")


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


@pytest.mark.slow
@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_no_table_is_older_than_the_code_that_it_describes(page: Path) -> None:
    text = page.read_text("utf-8")
    visible = " ".join(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).split())
    for command, tree, paths, table in MEASURED.findall(text):
        assert command.partition(" --")[0] in visible, "readers see the command"
        assert table.startswith("|")
        assert [path for path in paths.split() if not (ROOT / path).exists()] == []
        assert (command, why_old(tree, paths.split())) == (command, "")


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
