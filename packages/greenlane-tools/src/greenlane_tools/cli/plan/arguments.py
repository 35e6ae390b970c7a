"""Arguments that the subcommands of `greenlane plan` share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Final

SOURCE: Final = "a profile (.json), a model (.toml), or a recording"


def declare_skip(parser: argparse.ArgumentParser) -> None:
    """Adds `--skip`."""
    parser.add_argument(
        "--skip", type=seconds(0, 86_400), default=0.0, metavar="N",
        help="leave out the first N seconds of a recording (0)",
    )  # fmt: skip


def seconds(least: float, most: float) -> Callable[[str], float]:
    """A type for seconds between two numbers."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if least <= number <= most:
            return number
        raise argparse.ArgumentTypeError(f"{text!r}, expected seconds from {least:g} to {most:g}")

    return read
