"""Arguments that the subcommands of `greenlane plan` share."""

from __future__ import annotations

import argparse
import math
from typing import Final

__all__ = ["SOURCE", "declare_seconds"]

SOURCE: Final = "a profile (.json), a model (.toml), a recording, a control_dir, or http://…/metrics"
_LOOK_S: Final = 10.0
_LEAST_S: Final = 0.1
_MOST_S: Final = 86_400.0


def declare_seconds(parser: argparse.ArgumentParser) -> None:
    """Adds `--seconds`."""
    parser.add_argument(
        "--seconds", type=_seconds, default=_LOOK_S, metavar="N", help="how long to look at what is live (10)"
    )


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if _LEAST_S <= number <= _MOST_S:
        return number
    raise argparse.ArgumentTypeError(f"{text!r}, expected seconds from {_LEAST_S:g} to {_MOST_S:g}")
