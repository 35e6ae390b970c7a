"""Arguments of a demo or of a lab's command: what is wrong is a SettingsError that names option, value and rule."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from greenlane.errors import SettingsError

__all__ = ["Parser", "Values"]


@dataclass(frozen=True)
class Values:
    """Reads the values of one command's options.

    Args:
        attempted: what the command is about to do, in words.
        hint: one action that helps with any wrong value; "" = none.
    """

    attempted: str
    hint: str = ""

    def number(self, flag: str, text: str, low: float, high: float) -> float:
        """A number from low to high. Raises SettingsError."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise self.wrong(flag, text, f"a number from {low:g} to {_spelt(high)}")
        return value

    def numbers(self, flag: str, text: str, low: float, high: float) -> tuple[float, ...]:
        """Numbers from low to high with commas between, each once. Raises SettingsError."""
        values = tuple(self.number(flag, part.strip(), low, high) for part in text.split(","))
        if len(set(values)) < len(values):
            raise self.wrong(flag, text, "each value once")
        return values

    def whole(self, flag: str, text: str, low: int, high: int) -> int:
        """A whole number from low to high. Raises SettingsError."""
        if not (text.isdecimal() and low <= int(text) <= high):
            raise self.wrong(flag, text, f"a whole number from {low} to {high}")
        return int(text)

    def names(self, flag: str, text: str, known: Collection[str], at_most: int = 0) -> tuple[str, ...]:
        """Known names with commas between, in the order in which they are given. Raises SettingsError.

        Args:
            at_most: so many of them; 0 = all.
        """
        names = tuple(part.strip() for part in text.split(","))
        unknown, twice = any(name not in known for name in names), len(set(names)) < len(names)
        if unknown or twice or (at_most and len(names) > at_most):
            those = ", ".join(known)
            raise self.wrong(
                flag, text, f"one of {those}" if at_most == 1 else f"some of {those}, each once, with commas"
            )
        return names

    def wrong(self, flag: str, text: str, rule: str) -> SettingsError:
        """The error of a value that breaks its rule."""
        return SettingsError(flag, text, rule, self.hint, attempted=self.attempted)


class Parser(argparse.ArgumentParser):
    """An argument parser that neither prints nor exits."""

    def __init__(self, values: Values, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self._values = values

    def given(self, argv: Sequence[str]) -> argparse.Namespace | str:
        """The arguments, or the text of --help when that was asked for. Raises SettingsError."""
        try:
            return self.parse_args(argv)
        except _HelpAsked as asked:
            return str(asked)

    def error(self, message: str) -> NoReturn:
        """From argparse: an option that does not exist, or one without its value."""
        raise self._values.wrong("arguments", message, "options that exist, with a value each")

    def print_help(self, file: object = None) -> None:
        """From argparse: --help was given."""
        raise _HelpAsked(self.format_help())


class _HelpAsked(Exception):
    """The text of --help."""


def _spelt(high: float) -> str:
    return f"{high:.0f}" if high == int(high) else f"{high:g}"
