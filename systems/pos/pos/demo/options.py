"""The demo's command line: `greenlane demo pos [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from greenlane_tools.lab.arguments import Values, number, one_of, options, path, some_of, switch, whole
from pos.contenders import CONTENDERS
from pos.merchants.names import SLOW
from pos.surroundings import QueueKind

# --- What goes wrong at merchants in a slow-merchant run.


Trouble = Literal["one-slow", "two-slow", "recovers", "flood"]
TROUBLES: Final[Mapping[Trouble, str]] = {
    "one-slow": f"{SLOW} takes --slow-s a call",
    "two-slow": f"{SLOW} and pizza do, from the same moment on",
    "recovers": f"{SLOW} does, answers 200 all the same, and recovers in the middle of the run",
    "flood": f"{SLOW} is healthy, and gets 200 more orders a second from one customer",
}
_SECOND: Final = "pizza"
FLOOD_PER_S: Final = 200.0


@dataclass(frozen=True)
class Course:
    """How a run goes.

    Args:
        troubled: merchants whose orders are no healthy ones.
        laws: (share of the run at which, merchant, is slow from then on).
        flood_per_s: orders a second for the first of them beyond its own.
    """

    troubled: tuple[str, ...]
    laws: tuple[tuple[float, str, bool], ...]
    flood_per_s: float = 0.0


def course(trouble: Trouble) -> Course:
    """What is done in a run with this trouble."""
    if trouble == "flood":
        return Course((SLOW,), (), FLOOD_PER_S)
    slow = (SLOW, _SECOND) if trouble == "two-slow" else (SLOW,)
    laws = [(0.0, name, True) for name in slow]
    if trouble == "recovers":
        laws.append((0.5, SLOW, False))
    return Course(slow, tuple(laws))


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
    "ten-merchants": tuple(name for name in CONTENDERS if name != "prefork-3"),
    "doordash": ("prefork-3", "prefork-4", "gevent-200", "greenlane"),
}
#: Stage -> seconds of a run.
SECONDS: Final = {"slow-merchant": 35.0, "capacity": 12.0, "saturated": 20.0, "offered": 20.0}


@dataclass(frozen=True)
class Options:
    """What is to be run. `stages` and `contenders` are in the order of the tables."""

    preset: Preset = one_of(tuple(STAGES), f"{', '.join(STAGES)}: its situation, with time divided by 10")
    stages: tuple[str, ...] = some_of(
        tuple(SECONDS), STAGES["ten-merchants"],
        "; ".join(f"{preset}: {', '.join(stages)}" for preset, stages in STAGES.items()) + " (all)",
    )  # fmt: skip
    contenders: tuple[str, ...] = some_of(
        tuple(CONTENDERS), _WHO["ten-merchants"],
        f"some of {', '.join(CONTENDERS)}, with commas (all; doordash: {', '.join(_WHO['doordash'])})",
    )  # fmt: skip
    seconds: float | None = number(
        None, 1, 3_600, f"orders in each run ({', '.join(f'{stage} {each:g}' for stage, each in SECONDS.items())})"
    )
    repetitions: int = whole(1, 1, 100, "interleaved runs that make up a row")
    per_s: float = number(100.0, 1, 500, "orders a second in the slow-merchant run")
    slow_s: float = number(30.0, 0.1, 50, "what a call takes at the slow merchant there")
    calls: int = whole(1, 1, 3, "API calls of an order: 1, or 3 (menu, order, confirmation) that share its time")
    trouble: Trouble = one_of(tuple(TROUBLES), "; ".join(f"{name}: {what}" for name, what in TROUBLES.items()))
    queues: QueueKind = one_of(("classic", "quorum"), "RabbitMQ's kind of queue: classic or quorum")
    json: bool = switch("one JSON object on stdout in place of the tables")
    out: Path = path("out/demo/pos", "folder for raw samples and rows")

    def seconds_of(self, stage: str) -> float:
        """Of orders in one run of a stage."""
        return self.seconds or SECONDS[stage]


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    said = (
        "Orders over RabbitMQ and Celery workers to ten merchants, of which one is slow: which worker still serves the "
        "others, and how many orders each can do. All runs on this machine and ends with the demo."
    )
    found = options(Options, _VALUES, "greenlane demo pos", said, argv)
    if isinstance(found, str):
        return found
    named, given = found
    stages = STAGES[named["preset"]]
    if given.stages is not None:
        _VALUES.names("--stages", given.stages, stages)
    else:
        named["stages"] = stages
    if given.contenders is None:
        named["contenders"] = _WHO[named["preset"]]
    return _with_orders_enough(Options(**named))


def _with_orders_enough(options: Options) -> Options:
    """Raises SettingsError where a merchant of the slow-merchant run would get none."""
    orders = options.per_s * options.seconds_of("slow-merchant")
    if "slow-merchant" in options.stages and orders < _FEWEST:
        rule = f"{_FEWEST} orders or more in a run ({orders:g} are too few)"
        raise _VALUES.wrong("--per-s × --seconds", f"{options.per_s:g} × {options.seconds_of('slow-merchant'):g}", rule)
    return options
