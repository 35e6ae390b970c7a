"""The linter of the English: turns that readers have stumbled over, each with what to write instead. For `make lint`.

    python scripts/prose.py [FILE ...]     without files: all pages, and the texts of all sources

In a page it reads everything but code blocks, code spans and comments; in Python comments, docstrings and other
texts; in Rust comments. Without files it also counts the functions, classes and modules that a past participle or a
pronoun names: `NAMES_LEFT` has how many each area may have.
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

#: A function is a verb with an object, a class a noun: a past participle or a pronoun alone is neither.
_NO_NAME: Final = frozenset(
    "said told shown known seen kept held given taken made done gone begun spent left lost met put sent found heard "
    "lent come came got grown built chosen stuck written put_back took did had saw went "
    "who whom here there this that these those mine ours theirs it they one other each elsewhere now then lately "
    "apart beside at_once anew".split()
)
_PARTICIPLE: Final = re.compile(r"(?!(?:feed|seed|need|speed|embed|shed|red|exceed|proceed|succeed)$)[a-z]+ed")
_DEFINED: Final = {
    ".py": re.compile(r"^ *(?:async )?(?:def|class) (\w+)", re.MULTILINE),
    ".rs": re.compile(
        r"^ *(?:pub(?:\([a-z]+\))? )?(?:unsafe |async |extern \S+ )*(?:fn|struct|enum|trait|mod) (\w+)", re.MULTILINE
    ),
}
#: Area -> how many such names it still has: lower the number whenever some have gone.
NAMES_LEFT: Final = {
    "crates": 61,
    "packages/greenlane/src": 113,
    "packages/greenlane-serve/src": 68,
    "packages/greenlane-tools/src": 312,
    "packages/greenlane-work/src": 123,
}


def no_names(path: Path) -> Iterator[str]:
    """One line for each function, class and module of a source that a past participle or a pronoun names."""
    text = path.read_text("utf-8").partition("#[cfg(test)]\nmod tests {")[0]
    for found in _DEFINED[path.suffix].finditer(text):
        name = found[1].strip("_").lower()
        if name in _NO_NAME or _PARTICIPLE.fullmatch(name):
            line = 1 + text.count("\n", 0, found.start(1))
            yield f"{path}:{line}: {found[1]!r}: write a verb with its object, or a noun"


def _many_names() -> Iterator[str]:
    for area, most in NAMES_LEFT.items():
        paths = (path for suffix in _DEFINED for path in sorted((ROOT / area).rglob(f"*{suffix}")))
        found = [line for path in paths if "tests" not in path.parts for line in no_names(path)]
        if len(found) > most:
            yield from found
            yield f"{area}: {len(found)} such names, expected at most {most} (`NAMES_LEFT`)"


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
    found = [line for path in sorted(paths) for line in findings(path)] + ([] if argv else [*_many_names()])
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
