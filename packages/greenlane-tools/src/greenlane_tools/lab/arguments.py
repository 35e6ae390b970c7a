"""Arguments of a demo or of a lab's command: what is wrong is a SettingsError that names option, value and rule.

A demo's options are the fields of a dataclass, each declared with its rule and its help:

    @dataclass(frozen=True)
    class Options:
        seconds: float = number(12.0, 0.5, 3_600, "load per cell")
        json: bool = switch("one JSON object on stdout")
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from greenlane.errors import SettingsError
from greenlane.settings.refusal import nearest


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
            at_most: how many; 0 = all.
        """
        names = tuple(part.strip() for part in text.split(","))
        unknown, twice = any(name not in known for name in names), len(set(names)) < len(names)
        if unknown or twice or (at_most and len(names) > at_most):
            those = ", ".join(known)
            rule = f"one of {those}" if at_most == 1 else f"some of {those}, each once, with commas"
            meant = next((nearest(name, known) for name in names if name not in known), "")
            raise SettingsError(flag, text, rule, meant or self.hint, attempted=self.attempted)
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


# --- Options as fields of a dataclass. A field without metadata is set by the caller of `options`.

Read = Callable[[Values, str, str], Any]


def number(default: float | None, low: float, high: float, said: str) -> Any:
    """A field that is a number from low to high; a default of None = as `said` says."""
    return _field(default, said, lambda values, flag, given: values.number(flag, given, low, high))


def whole(default: int | None, low: int, high: int, said: str) -> Any:
    """A field that is a whole number from low to high; a default of None = as `said` says."""
    return _field(default, said, lambda values, flag, given: values.whole(flag, given, low, high))


def wholes(default: tuple[int, ...] | None, low: int, high: int, said: str) -> Any:
    """A field that is whole numbers from low to high, each once."""

    def read(values: Values, flag: str, given: str) -> tuple[int, ...]:
        found = tuple(values.whole(flag, part.strip(), low, high) for part in given.split(","))
        if len(set(found)) < len(found):
            raise values.wrong(flag, given, "each number once")
        return found

    return _field(default, said, read)


def words(default: str, said: str) -> Any:
    """A field that is any text."""
    return _field(default, said, lambda _values, _flag, given: given)


def one_of(known: Sequence[str], said: str, default: str | None = "") -> Any:
    """A field that is a known name, the first unless one is given; a default of None = none."""
    return _field(
        known[0] if default == "" else default,
        said,
        lambda values, flag, given: values.names(flag, given, known, at_most=1)[0],
    )


def some_of(known: Collection[str], default: tuple[str, ...], said: str) -> Any:
    """A field that is some known names, in the order of `known`, whatever the order in which they were given."""

    def read(values: Values, flag: str, given: str) -> tuple[str, ...]:
        named = values.names(flag, given, known)
        return tuple(name for name in known if name in named)

    return field(default=default, metadata={"said": said.replace("%", "%%"), "read": read})


def each_of(known: Collection[str], said: str) -> Any:
    """A field that is some known names in the order in which they are given; None = all."""
    said = f"{said}: some of {', '.join(known)} (all)"
    return _field(None, said, lambda values, flag, given: values.names(flag, given, known))


def path(default: str | None, said: str) -> Any:
    """A field that is a path; None = none."""
    return _field(None if default is None else Path(default), said, lambda _values, _flag, given: Path(given))


def switch(said: str) -> Any:
    """A field that is off unless its flag is given."""
    return field(default=False, metadata={"said": said})


def _field(default: object, said: str, read: Read) -> Any:
    shown = f"{default:g}" if isinstance(default, float) else default
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else shown
    usual = "" if default is None else f" ({shown})"
    return field(default=default, metadata={"said": said.replace("%", "%%") + usual, "read": read})


def options(
    cls: type, values: Values, prog: str, description: str, argv: Sequence[str], others: Sequence[tuple[str, str]] = ()
) -> tuple[dict[str, Any], argparse.Namespace] | str:
    """What `cls` is made of, and all that was given as text; or the text of --help when that was asked for.

    Args:
        cls: a dataclass; `--some-name` is its field `some_name`.
        others: flags that are no field, with their help; None when not given.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    parser = Parser(values, prog, description)
    for flag, said in others:
        parser.add_argument(flag, help=said)
    declare(cls, parser)
    given = parser.given(argv)
    return given if isinstance(given, str) else (read(cls, values, given), given)


def declare(cls: type, parser: argparse.ArgumentParser) -> None:
    """Adds the options of a dataclass to a parser; `read` reads what was given."""
    for one in fields(cls):
        if one.metadata:
            action = "store" if "read" in one.metadata else "store_true"
            parser.add_argument(_flag(one.name), help=one.metadata["said"], action=action)


def read(cls: type, values: Values, given: argparse.Namespace) -> dict[str, Any]:
    """The fields of a dataclass from what was given. Raises SettingsError."""
    found = {}
    for one in fields(cls):
        if one.metadata:
            said, convert = getattr(given, one.name), one.metadata.get("read")
            found[one.name] = (
                one.default if said is None else convert(values, _flag(one.name), said) if convert else said
            )
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
