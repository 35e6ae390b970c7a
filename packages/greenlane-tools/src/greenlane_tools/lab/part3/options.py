"""`greenlane lab part3`: Lyft's benchmark of green threads, under seven runtimes and by three clocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.cli.command import Command
from greenlane_tools.lab.arguments import each_of, number, one_of, path, switch, whole, wholes
from greenlane_tools.lab.experiment.command import measuring
from greenlane_tools.lab.part3.runtimes import RUNTIMES

#: Of `greenlane_tools.lab.part3.presets`, which is loaded only when it runs.
PRESETS: Final = ("lyft-5-55", "lyft-50-150", "lyft-5x11", "serial-parallel", "cpu-only")
_BESIDE: Final = f"a run of the article beside what it published: {', '.join(PRESETS)}"


@dataclass(frozen=True)
class Options:
    """As the flags name them; None = as the help says, or as the preset sets it."""

    preset: str | None = one_of(PRESETS, _BESIDE, None)
    cpu_ms: float | None = number(None, 0, 10_000, "CPU of a request, in calls + 1 bursts (5)")
    network_ms: float | None = number(None, 0, 60_000, "network of a request, all its calls together (55)")
    calls: int | None = whole(None, 0, 1_000, "network calls of a request (1)")
    green_threads: tuple[int, ...] | None = wholes(
        None, 1, 2_000, "requests in progress at a time, one number or several (1,5,50)"
    )
    requests: int | None = whole(None, 1, 1_000_000, "requests of a run (500)")
    runtimes: tuple[str, ...] | None = each_of(RUNTIMES, "what runs it; a preset has its own")
    repetitions: int = whole(1, 1, 100, "runs of each, in turns; pooled")
    seed: int = whole(1, 0, 2**31, "of the order of the runs")
    json: bool = switch("one JSON object on stdout in place of the tables")
    out: Path | None = path(None, "also write the page, the rows and every request there")


COMMAND: Final[Command] = measuring(
    "part3", "run Lyft's benchmark of green threads under seven runtimes", Options, "run part 3",
    "greenlane_tools.lab.part3.perform",
    (
        "greenlane lab part3 --preset lyft-5-55",
        "greenlane lab part3 --cpu-ms 5 --network-ms 55 --runtimes gevent,threads",
    ),
)  # fmt: skip
