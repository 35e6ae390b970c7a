"""Writes the feed's generated documents: `python -m feed.docs`; with `--check` only tells whether they are stale.

    advice.md        from results/advice.json   python -m feed.advice --json
    drawings/*.svg   from results/rows.json     greenlane demo feed --json

What has no recorded results yet is left out. Exit 0: written, or up to date; 1: stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .advice.page import page
from .drawings.__main__ import drawn
from .interpreter import ROOT


def documents(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file of the recorded results below `root`."""
    made: dict[Path, str] = {}
    advice, rows = root / "results" / "advice.json", root / "results" / "rows.json"
    if advice.exists():
        made[root / "advice.md"] = page(json.loads(advice.read_text("utf-8")))
    if rows.exists():
        made |= {root / "drawings" / name: text for name, text in drawn(rows).items()}
    return made


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m feed.docs", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing: tell whether they are stale")
    given = parser.parse_args(argv)
    stale = 0
    for path, text in documents(root).items():
        if path.exists() and path.read_text("utf-8") == text:
            continue
        if given.check:
            sys.stderr.write(f"{path} is stale: run `make docs`\n")
            stale = 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
