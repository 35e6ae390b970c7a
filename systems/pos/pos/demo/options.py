"""The demo's command line: `greenlane demo pos [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from greenlane_tools.lab.arguments import Parser, Values
from pos.contenders import CONTENDERS
from pos.surroundings import QueueKind

ATTEMPTED: Final = "run the pos demo"
_VALUES: Final = Values(ATTEMPTED, "greenlane demo pos --help lists every option")

#: Of a slow-merchant run: two for each merchant.
_FEWEST: Final = 20

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


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    given = _parser().given(argv)
    if isinstance(given, str):
        return given
    preset = cast(Preset, _VALUES.names("--preset", given.preset, tuple(STAGES), at_most=1)[0])
    return _with_orders_enough(
        Options(
            preset=preset,
            stages=_some("--stages", given.stages, STAGES[preset], STAGES[preset]),
            contenders=_some("--contenders", given.contenders, tuple(CONTENDERS), _WHO[preset]),
            seconds=None if given.seconds is None else _VALUES.number("--seconds", given.seconds, 1, 3_600),
            repetitions=_VALUES.whole("--repetitions", given.repetitions, 1, 100),
            per_s=_VALUES.number("--per-s", given.per_s, 1, 500),
            slow_s=_VALUES.number("--slow-s", given.slow_s, 0.1, 50),
            queues=cast(QueueKind, _VALUES.names("--queues", given.queues, ("classic", "quorum"), at_most=1)[0]),
            json=given.json,
            out=given.out,
        )
    )


def _with_orders_enough(options: Options) -> Options:
    """Raises SettingsError where a merchant of the slow-merchant run would get none."""
    orders = options.per_s * options.seconds_of("slow-merchant")
    if "slow-merchant" in options.stages and orders < _FEWEST:
        rule = f"{_FEWEST} orders or more in a run ({orders:g} are too few)"
        raise _VALUES.wrong("--per-s × --seconds", f"{options.per_s:g} × {options.seconds_of('slow-merchant'):g}", rule)
    return options


def _parser() -> Parser:
    default = Options()
    parser = Parser(
        _VALUES,
        prog="greenlane demo pos",
        description="Orders over RabbitMQ and Celery workers to ten merchants, of which one is slow: which worker "
        "still serves the others, and how many orders each can do. All runs on this machine and ends with the demo.",
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


def _some(flag: str, text: str | None, known: tuple[str, ...], unsaid: tuple[str, ...]) -> tuple[str, ...]:
    """In the order of the tables, whatever the order in which they were named."""
    names = unsaid if text is None else _VALUES.names(flag, text, known)
    return tuple(name for name in known if name in names)
