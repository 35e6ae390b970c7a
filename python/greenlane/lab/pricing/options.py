"""The demo's command line: `greenlane demo pricing [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from greenlane.errors import SettingsError
from greenlane.lab.pricing.mixes import DEFAULT, MIXES, pricing
from greenlane.lab.scenario.scenario import Scenario

_ATTEMPTED: Final = "run the pricing demo"
_HINT: Final = "greenlane demo pricing --help lists every option"


@dataclass(frozen=True)
class Options:
    """What is to be run."""

    json: bool
    # Load per cell, all its repetitions together.
    seconds: float
    utilisations_frac: tuple[float, ...]
    contenders: tuple[str, ...]
    mix: str
    repetitions: int
    seed: int
    out: Path


class _Help(Exception):
    """The text of --help."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError("arguments", message, "options that exist, with a value each", _HINT, attempted=_ATTEMPTED)

    def print_help(self, file: object = None) -> None:
        raise _Help(self.format_help())


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    scenario = pricing()
    known = tuple(one.name for one in scenario.contenders)
    try:
        given = _parser(scenario, known).parse_args(argv)
    except _Help as asked:
        return str(asked)
    return Options(
        json=given.json,
        seconds=_number("--seconds", given.seconds, 1, 3_600),
        utilisations_frac=_numbers("--utilisation", given.utilisation, 0.05, 1.5),
        contenders=_names("--contenders", given.contenders, known),
        mix=_names("--mix", given.mix, tuple(MIXES), at_most=1)[0],
        repetitions=int(_number("--repetitions", given.repetitions, 1, 100, whole=True)),
        seed=int(_number("--seed", given.seed, 0, 2**31, whole=True)),
        out=Path(given.out),
    )


def _parser(scenario: Scenario, known: tuple[str, ...]) -> _Parser:
    parser = _Parser(
        prog="greenlane demo pricing",
        description="A Flask service under five servers, one worker each, the same open-loop load: who keeps its "
        "I/O-heavy endpoints in time beside CPU-heavy ones. Ends by itself in under four minutes.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--json", action="store_true", help="one JSON object on stdout in place of the tables")
    seconds, repetitions, seed = f"{scenario.seconds:g}", str(scenario.repetitions), str(scenario.seed)
    utilisations, names = ",".join(f"{one:g}" for one in scenario.utilisations_frac), ",".join(known)
    add("--seconds", default=seconds, help=f"load per cell, over all repetitions ({seconds})")
    add("--utilisation", default=utilisations, help=f"shares of one worker's CPU, with commas ({utilisations})")
    add("--contenders", default=names, help=f"some of {names} (all)")
    add("--mix", default=DEFAULT, help=f"one of {', '.join(MIXES)} ({DEFAULT}: light work is 10 %% of the CPU)")
    add("--repetitions", default=repetitions, help=f"interleaved runs that make up a cell ({repetitions})")
    add("--seed", default=seed, help=f"of arrivals and amounts of work; the same for all contenders ({seed})")
    add("--out", default="out/demo", help="folder for raw samples, rows and the page (out/demo)")
    return parser


def _number(flag: str, text: str, low: float, high: float, whole: bool = False) -> float:
    try:
        value = float(int(text)) if whole else float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise SettingsError(flag, text, f"{kind} from {low:g} to {high:g}", _HINT, attempted=_ATTEMPTED)
    return value


def _numbers(flag: str, text: str, low: float, high: float) -> tuple[float, ...]:
    values = tuple(_number(flag, part.strip(), low, high) for part in text.split(","))
    if len(set(values)) < len(values):
        raise SettingsError(flag, text, "each value once", _HINT, attempted=_ATTEMPTED)
    return values


def _names(flag: str, text: str, known: tuple[str, ...], at_most: int = 0) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    rule = f"one of {', '.join(known)}" if at_most == 1 else f"some of {', '.join(known)}, each once, with commas"
    if any(name not in known for name in names) or len(set(names)) < len(names) or (at_most and len(names) > at_most):
        raise SettingsError(flag, text, rule, _HINT, attempted=_ATTEMPTED)
    return names
