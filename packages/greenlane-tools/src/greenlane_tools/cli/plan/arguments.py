"""Arguments that the subcommands of `greenlane plan` share."""

from __future__ import annotations

import argparse
import math
from typing import Final

__all__ = ["SOURCE", "declare_looking"]

SOURCE: Final = "a profile (.json), a model (.toml), a recording, a control_dir, or http://…/metrics"
_LOOK_S: Final = 10.0
_LEAST_S: Final = 0.1
_MOST_S: Final = 86_400.0


def declare_looking(parser: argparse.ArgumentParser) -> None:
    """Adds `--seconds` and `--skip`."""
    parser.add_argument(
        "--seconds", type=_seconds, default=_LOOK_S, metavar="N", help="how long to look at what is live (10)"
    )
    parser.add_argument(
        "--skip", type=_skip, default=0.0, metavar="N", help="leave out the first N seconds of a recording (0)"
    )


def _seconds(text: str) -> float:
    return _number(text, _LEAST_S)


def _skip(text: str) -> float:
    return _number(text, 0.0)


def _number(text: str, least: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if least <= number <= _MOST_S:
        return number
    raise argparse.ArgumentTypeError(f"{text!r}, expected seconds from {least:g} to {_MOST_S:g}")
