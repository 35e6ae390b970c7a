"""A generated page: written, or with `--check` compared with what stands there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def written_or_checked(page: Path, text: Callable[[], str], arguments: Sequence[str]) -> int:
    """The exit code: 0 = written, or as it should be; 1 = stale; 2 = usage."""
    if list(arguments) not in ([], ["--check"]):
        print(f"usage: {Path(sys.argv[0]).name} [--check]", file=sys.stderr)
        return 2
    if not arguments:
        page.write_text(text(), encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == text():
        return 0
    print(f"{page.name} is stale: run `make docs`", file=sys.stderr)
    return 1
