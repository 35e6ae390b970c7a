"""Writes docs/errors.md from the pages of `greenlane explain`; `--check` tells whether it is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from generated import written_or_checked

from greenlane.cli.explain import PAGES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"

HEAD = """\
# Errors

<!-- Written by `make docs` from greenlane/cli/explain.py: change it there. -->

An error message of a command ends with its code. `greenlane explain GL101` prints the section below. In Python each
kind is an exception of `greenlane.errors`, and `.code` is the word in brackets.
"""


def page() -> str:
    """The whole page as Markdown."""
    sections = [
        f"\n## {number} ({one.code})\n\n{one.means} {one.why}\n\n**Do:** {one.do}\n\n```text\n{one.example}\n```\n"
        for number, one in PAGES.items()
    ]
    return HEAD + "".join(sections)


if __name__ == "__main__":
    sys.exit(written_or_checked(PAGE, page, sys.argv[1:]))
