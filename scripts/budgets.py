"""How large each area is, beside what budgets.toml lets it be: `python scripts/budgets.py [--all]`.

Lines are those of .py, .pyi, .rs, .go, .js, .css and .html that git has, tests apart. Documents count words. Exit 1,
with the table: an area is above its budget. --all prints the table in any case.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
_SOURCE: Final = re.compile(r"\.(py|pyi|rs|go|js|css|html)$")
_TEST: Final = re.compile(r"(^|/)(tests|testing)/|(^|/)(tests|conftest)\.\w+$|_test\.go$")
_DOCUMENT: Final = re.compile(r"\.md$")


def area_of(path: str, areas: dict[str, list[str]]) -> str:
    """The area of a file's folder; "documents" and "tests" by its name, "" = it is counted nowhere."""
    if _DOCUMENT.search(path):
        return "documents"
    if not _SOURCE.search(path):
        return ""
    if _TEST.search(path):
        return "tests"
    return next((area for area, folders in areas.items() if path.startswith(tuple(folders))), "other")


def sizes(root: Path, areas: dict[str, list[str]]) -> Counter[str]:
    """Lines, and words of documents, by area."""
    found: Counter[str] = Counter()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    for path in filter(None, listed.split("\0")):
        area, file = area_of(path, areas), root / path
        if area and file.is_file():
            content = file.read_bytes()
            found[area] += len(content.split()) if area == "documents" else content.count(b"\n")
    return found


def table(found: Counter[str], most: dict[str, int]) -> str:
    """A line an area; what is above its budget is marked."""
    lines = [f"{'area':12} {'is':>8} {'may be':>8}"]
    for area in most | found:
        above = found[area] > most.get(area, 0)
        lines.append(f"{area:12} {found[area]:8,} {most.get(area, 0):8,}{'  ABOVE' * above}")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Count and compare."""
    if not (ROOT / ".git").exists():
        return 0  # A source distribution: git has no list of its files.
    declared = tomllib.loads((ROOT / "budgets.toml").read_text("utf-8"))
    most = {area: budget["most"] for area, budget in declared.items()}
    found = sizes(ROOT, {area: budget.get("folders", []) for area, budget in declared.items()})
    above = any(count > most.get(area, 0) for area, count in found.items())
    if above or "--all" in argv:
        print(table(found, most), file=sys.stderr if above else sys.stdout)
    if above:
        print("hint: remove lines, or raise the budget in budgets.toml in a commit of its own", file=sys.stderr)
    return int(above)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
