"""The demo's command line: `greenlane demo pos [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn, cast

from greenlane.errors import SettingsError
from pos.contenders import CONTENDERS
from pos.surroundings import QueueKind

ATTEMPTED: Final = "run the pos demo"
_HINT: Final = "greenlane demo pos --help lists every option"

Preset = Literal["ten-merchants", "doordash"]
#: Preset -> its stages, and whom it is run with unless told otherwise.
STAGES: Final[dict[Preset, tuple[str, ...]]] = {
    "ten-merchants": ("slow-merchant", "capacity"),
    "doordash": ("saturated", "offered"),
}
_WHO: Final[dict[Preset, tuple[str, ...]]] = {
    "ten-merchants": tuple(CONTENDERS),
    "doordash": tuple(name for name in CONTENDERS if name in ("prefork-4", "gevent-200", "greenlane")),
}
#: Stage -> seconds of a run.
SECONDS: Final = {"slow-merchant": 35.0, "capacity": 12.0, "saturated": 20.0, "offered": 20.0}


@dataclass(frozen=True)
class Options:
    """What is to be run.

    Args:
        preset: which case.
        stages: of it.
        contenders: in the order of the tables.
        seconds: of orders in each run; None = as SECONDS says.
        repetitions: interleaved runs that make up a row.
        per_s: orders a second in the slow-merchant run.
        slow_s: what a call takes at the slow merchant there.
        queues: RabbitMQ's kind of queue.
        json: one object on stdout in place of the tables.
        out: folder of the result.
    """

    preset: Preset = "ten-merchants"
    stages: tuple[str, ...] = STAGES["ten-merchants"]
    contenders: tuple[str, ...] = _WHO["ten-merchants"]
    seconds: float | None = None
    repetitions: int = 1
    per_s: float = 100.0
    slow_s: float = 30.0
    queues: QueueKind = "classic"
    json: bool = False
    out: Path = Path("out/demo/pos")

    def seconds_of(self, stage: str) -> float:
        """Of orders in one run of a stage."""
        return self.seconds or SECONDS[stage]


class _Help(Exception):
    """The text of --help."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError("arguments", message, "options that exist, with a value each", _HINT, attempted=ATTEMPTED)

    def print_help(self, file: object = None) -> None:
        raise _Help(self.format_help())


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    try:
        given = _parser().parse_args(argv)
    except _Help as asked:
        return str(asked)
    preset = cast(Preset, _names("--preset", given.preset, tuple(STAGES), at_most=1)[0])
    stages, who = STAGES[preset], _WHO[preset]
    return Options(
        preset=preset,
        stages=_names("--stages", given.stages, stages) if given.stages is not None else stages,
        contenders=_names("--contenders", given.contenders, tuple(CONTENDERS)) if given.contenders is not None else who,
        seconds=None if given.seconds is None else _number("--seconds", given.seconds, 1, 3_600),
        repetitions=int(_number("--repetitions", given.repetitions, 1, 100, whole=True)),
        per_s=_number("--per-s", given.per_s, 1, 500),
        slow_s=_number("--slow-s", given.slow_s, 0.1, 50),
        queues=cast(QueueKind, _names("--queues", given.queues, ("classic", "quorum"), at_most=1)[0]),
        json=given.json,
        out=given.out,
    )


def _parser() -> _Parser:
    default = Options()
    parser = _Parser(
        prog="greenlane demo pos",
        description="Orders over RabbitMQ and Celery workers to ten merchants, of which one is slow: which worker "
        "still serves the others, and how many orders each can do. All runs on this machine and ends with the demo.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--contenders",
        help=f"some of {', '.join(CONTENDERS)}, with commas (all; doordash: {', '.join(_WHO['doordash'])})",
    )
    add("--preset", default=default.preset, help=f"{', '.join(STAGES)}: its situation, with time divided by 10")
    add("--stages", help="; ".join(f"{preset}: {', '.join(stages)}" for preset, stages in STAGES.items()) + " (all)")
    each = ", ".join(f"{stage} {seconds:g}" for stage, seconds in SECONDS.items())
    add("--seconds", help=f"orders in each run ({each})")
    add("--repetitions", default=str(default.repetitions), help="interleaved runs that make up a row (1)")
    add("--per-s", default=f"{default.per_s:g}", help="orders a second in the slow-merchant run (100)")
    add("--slow-s", default=f"{default.slow_s:g}", help="what a call takes at the slow merchant (30)")
    add("--queues", default=default.queues, help="RabbitMQ's kind of queue: classic or quorum (classic)")
    add("--json", action="store_true", help="one JSON object on stdout in place of the tables")
    add("--out", type=Path, default=default.out, help=f"folder for raw samples and rows ({default.out})")
    return parser


def _names(flag: str, text: str, known: tuple[str, ...], at_most: int = 0) -> tuple[str, ...]:
    names = [part.strip() for part in text.split(",")]
    if any(name not in known for name in names) or len(set(names)) < len(names) or 0 < at_most < len(names):
        rule = f"one of {', '.join(known)}" if at_most == 1 else f"some of {', '.join(known)}, each once, with commas"
        raise SettingsError(flag, text, rule, _HINT, attempted=ATTEMPTED)
    return tuple(name for name in known if name in names)


def _number(flag: str, text: str, low: float, high: float, *, whole: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high or (whole and not value.is_integer()):
        rule = f"a {'whole ' * whole}number from {low:g} to {high:g}"
        raise SettingsError(flag, text, rule, _HINT, attempted=ATTEMPTED)
    return value
