"""Writes docs/offers-reasoning.md; with `--check` only tells whether it is stale. Exit 0: as it should be; 1: stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from offers.reasoning.page import page

PAGE: Final = Path(__file__).resolve().parents[4] / "docs" / "offers-reasoning.md"


def main(argv: Sequence[str] | None = None, place: Path = PAGE) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m offers.reasoning", description=(__doc__ or "").partition(";")[0])
    parser.add_argument("--check", action="store_true", help="write nothing: tell whether it is stale")
    given = parser.parse_args(argv)
    text = page()
    if place.exists() and place.read_text("utf-8") == text:
        return 0
    if given.check:
        sys.stderr.write(f"{place.name} is stale: run `make docs`\n")
        return 1
    place.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
