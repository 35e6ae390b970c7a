"""The demo's command line: `greenlane demo pricing [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane_tools.lab.arguments import Parser, Values
from greenlane_tools.lab.pricing.mixes import DEFAULT, MIXES, pricing
from greenlane_tools.lab.scenario.scenario import Scenario

_VALUES: Final = Values("run the pricing demo", "greenlane demo pricing --help lists every option")


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


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    scenario = pricing()
    known = tuple(one.name for one in scenario.contenders)
    given = _parser(scenario, known).given(argv)
    if isinstance(given, str):
        return given
    return Options(
        json=given.json,
        seconds=_VALUES.number("--seconds", given.seconds, 1, 3_600),
        utilisations_frac=_numbers("--utilisation", given.utilisation, 0.05, 1.5),
        contenders=_VALUES.names("--contenders", given.contenders, known),
        mix=_VALUES.names("--mix", given.mix, tuple(MIXES), at_most=1)[0],
        repetitions=_VALUES.whole("--repetitions", given.repetitions, 1, 100),
        seed=_VALUES.whole("--seed", given.seed, 0, 2**31),
        out=Path(given.out),
    )


def _parser(scenario: Scenario, known: tuple[str, ...]) -> Parser:
    parser = Parser(
        _VALUES,
        prog="greenlane demo pricing",
        description="A Flask service under five servers, one worker each, the same open-loop load: who keeps its "
        "I/O-heavy endpoints in time beside CPU-heavy ones. Ends by itself in under four minutes.",
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


def _numbers(flag: str, text: str, low: float, high: float) -> tuple[float, ...]:
    values = tuple(_VALUES.number(flag, part.strip(), low, high) for part in text.split(","))
    if len(set(values)) < len(values):
        raise _VALUES.wrong(flag, text, "each value once")
    return values
