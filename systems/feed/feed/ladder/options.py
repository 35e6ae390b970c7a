"""The ladder's command line: `greenlane demo feed [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from feed.compiled import NAME as COMPILED
from feed.variants.ranking import VARIANTS
from feed.world.world import ITEMS
from greenlane_tools.lab.arguments import Values, number, options, path, some_of, switch, whole

ATTEMPTED: Final = "run the feed demo"
ALL: Final = (*VARIANTS, COMPILED)
#: What every other one is held against.
OURS: Final = "greenlane"
_VALUES: Final = Values(ATTEMPTED, "greenlane demo feed --help lists every option")


@dataclass(frozen=True)
class Options:
    """What is to be run. `variants` are in the order of the ladder; OURS is always one of them."""

    variants: tuple[str, ...] = some_of(ALL, ALL, f"some of {', '.join(ALL)} (all); {OURS} is always measured")
    seconds: float = number(12.0, 0.5, 3_600, "load per cell, over all repetitions")
    repetitions: int = whole(3, 1, 100, "interleaved runs that make up a cell")
    users: int = whole(50, 1, 1_000, "users who send requests; 1 in 25 is very active")
    workers: int = whole(3, 1, 64, "worker processes, for variants that have them")
    items: int = whole(ITEMS, 3_000, 1_000_000, "items in the store; with fewer the results say less")
    seed: int = whole(1, 0, 2**31, "of arrivals; the same for all variants")
    json: bool = switch("one JSON object on stdout in place of the tables")
    fresh: bool = switch("start over instead of resuming an interrupted run")
    out: Path = path("out/demo/feed", "folder for raw samples and rows")
    folder: Path = path("out/feed", "where world, model and stores are kept")


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    said = (
        "A recommendation service in every variant of its ranking, on the same requests: CPU, memory, latency, the "
        "most requests a second; each variant beside `greenlane` at the same rate."
    )
    found = options(Options, _VALUES, "greenlane demo feed", said, argv)
    if isinstance(found, str):
        return found
    named, _ = found
    named["variants"] = tuple(name for name in ALL if name in (*named["variants"], OURS))
    return Options(**named)
