"""Writes pos' generated documents: `python -m pos.docs`; with `--check` only tells whether they are stale.

    conservation.md   from results/conservation.json   python -m pos.conservation --soak --json

What has no recorded results yet is left out. Exit 0: written, or up to date; 1: stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .conservation.page import page
from .interpreter import ROOT


def documents(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file of the recorded results below `root`."""
    recorded = root / "results" / "conservation.json"
    return {root / "conservation.md": page(json.loads(recorded.read_text("utf-8")))} if recorded.exists() else {}


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m pos.docs", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing: tell whether they are stale")
    given = parser.parse_args(argv)
    stale = {
        path: text for path, text in documents(root).items() if not path.exists() or path.read_text("utf-8") != text
    }
    for path, text in stale.items():
        if given.check:
            sys.stderr.write(f"{path} is stale: run `make docs`\n")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
