"""Arguments that the subcommands of `greenlane plan` share."""

from __future__ import annotations

import argparse
import math
from typing import Final

__all__ = ["SOURCE", "declare_skip"]

SOURCE: Final = "a profile (.json), a model (.toml), or a recording"
_MOST_S: Final = 86_400.0


def declare_skip(parser: argparse.ArgumentParser) -> None:
    """Adds `--skip`."""
    parser.add_argument(
        "--skip", type=_skip, default=0.0, metavar="N", help="leave out the first N seconds of a recording (0)"
    )


def _skip(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if 0 <= number <= _MOST_S:
        return number
    raise argparse.ArgumentTypeError(f"{text!r}, expected seconds from 0 to {_MOST_S:g}")
