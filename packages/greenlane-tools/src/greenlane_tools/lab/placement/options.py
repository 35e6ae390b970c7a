"""`greenlane lab placement`: where CPU work beside a loop runs best, function by function."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.cli.command import Command
from greenlane_tools.lab.arguments import each_of, number, one_of, path, switch, whole, wholes
from greenlane_tools.lab.experiment.command import measuring
from greenlane_tools.lab.placement.contenders import CONTENDERS, LOOPS
from greenlane_tools.lab.placement.functions import FUNCTIONS


@dataclass(frozen=True)
class Options:
    """As the flags name them."""

    functions: tuple[str, ...] | None = each_of(FUNCTIONS, "what is placed")
    contenders: tuple[str, ...] | None = each_of(CONTENDERS, "where it is placed")
    callers: tuple[int, ...] = wholes((4, 1), 1, 1_000, "callers at a time, one number or several")
    loop: str = one_of(LOOPS, "asyncio, uvloop or gevent")
    seconds: float = number(3.0, 0.001, 3_600, "of calls per cell, over all repetitions; at least 20 calls")
    calls: int | None = whole(
        None, 1, 1_000_000, "calls of a repetition, in place of --seconds; the same for every contender"
    )
    repetitions: int = whole(3, 1, 100, "runs of each cell, in turns; pooled")
    seed: int = whole(1, 0, 2**31, "of the order of the runs")
    json: bool = switch("one JSON object on stdout in place of the tables")
    out: Path = path("out/lab/placement", "page, rows, every call, and the model of catboost")


COMMAND: Final[Command] = measuring(
    "placement", "show where CPU work beside a loop runs best", Options, "measure placements",
    "greenlane_tools.lab.placement.perform",
    (
        "greenlane lab placement --functions json --seconds 1",
        "greenlane lab placement --loop uvloop --out out/lab/placement",
    ),
)  # fmt: skip
