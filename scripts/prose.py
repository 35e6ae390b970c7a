"""The linter of the English: turns that readers have stumbled over, each with what to write instead. For `make lint`.

    python scripts/prose.py [FILE ...]     without files: all pages, and the texts of all sources

In a page it reads everything but code blocks, code spans and comments; in Python comments, docstrings and other
texts; in Rust comments.
A rule is a pattern and a remedy. A line that must break one (a quotation) ends with `prose: allowed`.
Exit 0: nothing found; 1: findings, one a line.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = ("*.md", "docs/**/*.md", "systems/*/README.md", "packages/*/README.md")
FOLDERS: Final = ("bench", "crates", "packages/*/src", "packages/*/tests", "scripts", "systems", "tests")
SOURCES: Final = tuple(f"{folder}/**/*.{kind}" for folder in FOLDERS for kind in ("py", "pyi", "rs"))
ALLOWED: Final = "prose: allowed"
#: Comments, and the texts that may look as if they had one in them.
_RUST: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(?P<marks>#*)".*?"(?P=marks)|"(?:\\.|[^"\\])*"|'(?:\\.[^']*|[^'\\])'""", re.DOTALL
)

#: What nobody may write, and what to write instead.
RULES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"\bwhoever\b", "name the caller, thread or process"),
        (r"\b(?:for|to|of|from|than|beside|behind|before) who (?!made|makes)\b", "name the caller, thread or process"),
        (r"\banew\b", "again"),
        (r"\bwhat (?:becomes|became|comes|came) of\b", "what happens to, the result of"),
        (r"\bit is told\b", "it gets"),
        (r"\b(?:so that they|by whom|after so many|takes it last)\b", "a plain sentence"),
        (r"\bso many\b(?! (?:that|as)\b)", "this many, up to N"),
        (r"\b(?:not|no|nobody|none|never|nothing)\b[^.;:\n]{0,60}\bany more\b", "no longer"),
        (r"\bof (?:ours|theirs)\b", "our, their, not ours"),
        (r"\blet(?:s|ting)? go of\b", "release, close"),
        (r"\bwithout a word\b", "silently"),
        (r"\bbut for\b", "except"),
        (r"\b(?:hereby|thereby|hitherto|henceforth|lest|thereof|herein|therein)\b", "a plain word"),
    )
)


def _page(text: str) -> Iterator[tuple[int, str]]:
    fenced = commented = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        commented = (commented or "<!--" in line) and "-->" not in line.rpartition("<!--")[2]
        if not fenced and not commented and not line.startswith("<!--"):
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def _python(text: str) -> Iterator[tuple[int, str]]:
    texts = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in texts:
            yield from enumerate(token.string.splitlines(), token.start[0])


def _rust(text: str) -> Iterator[tuple[int, str]]:
    for token in _RUST.finditer(text):
        if token[0].startswith(("//", "/*")):
            yield from enumerate(token[0].splitlines(), 1 + text.count("\n", 0, token.start()))


def findings(path: Path) -> Iterator[str]:
    """One line each: where, what, and what to write instead."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    read = {".md": _page, ".rs": _rust}.get(path.suffix, _python)(text)
    for number, line in read:
        for pattern, instead in RULES:
            if (found := pattern.search(line)) and ALLOWED not in lines[number - 1]:
                yield f"{path}:{number}: {found[0].strip()!r}: write {instead}"


def main(argv: list[str]) -> int:
    """See the module."""
    paths = {Path(name) for name in argv} or {path for pattern in (*PAGES, *SOURCES) for path in ROOT.glob(pattern)}
    paths -= {Path(__file__).resolve(), ROOT / "tests/test_words.py"}  # They quote what nobody may write.
    found = [line for path in sorted(paths) for line in findings(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
