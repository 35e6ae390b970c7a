"""Writes docs/offers-reasoning.md from what it computes and results/slow-offer.json; exit 0: as it should be, 1: stale.

python -m offers.reasoning [--check]      --check writes nothing, and only tells
python -m offers.slow_offer --json > results/slow-offer.json      measures the last table anew (15 s)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from offers.reasoning.page import page

_ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = _ROOT.parents[1] / "docs" / "offers-reasoning.md"
#: What `python -m offers.slow_offer --json` wrote when it was measured last.
MEASURED: Final = _ROOT / "results" / "slow-offer.json"


def main(argv: Sequence[str] | None = None, place: Path = PAGE) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m offers.reasoning", description=(__doc__ or "").partition(";")[0])
    parser.add_argument("--check", action="store_true", help="write nothing: tell whether it is stale")
    given = parser.parse_args(argv)
    text = page(json.loads(MEASURED.read_text("utf-8")))
    if place.exists() and place.read_text("utf-8") == text:
        return 0
    if given.check:
        sys.stderr.write(f"{place.name} is stale: run `make docs`\n")
        return 1
    place.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
