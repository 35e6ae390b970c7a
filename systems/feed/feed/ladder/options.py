"""The ladder's command line: `greenlane demo feed [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from feed.compiled import NAME as COMPILED
from feed.variants.table import VARIANTS
from feed.world.world import ITEMS
from greenlane_tools.lab.arguments import Parser, Values

ATTEMPTED: Final = "run the feed demo"
ALL: Final = (*VARIANTS, COMPILED)
#: What every other one is held against.
OURS: Final = "greenlane"
_VALUES: Final = Values(ATTEMPTED, "greenlane demo feed --help lists every option")


@dataclass(frozen=True)
class Options:
    """What is to be run.

    Args:
        variants: in the order of the ladder; OURS is always one of them.
        seconds: of load per cell, all its repetitions together.
        repetitions: interleaved runs that make up a cell.
        users: how many ask in turn.
        workers: processes of variants that have some.
        items: of the world; fewer than 120,000 are for trying out.
        seed: of arrivals.
        json: one object on stdout in place of the tables.
        fresh: forget what an interrupted run of the same kind has left.
        out: folder of the result.
        folder: where world, model and filled stores are kept.
    """

    variants: tuple[str, ...] = ALL
    seconds: float = 12.0
    repetitions: int = 3
    users: int = 50
    workers: int = 3
    items: int = ITEMS
    seed: int = 1
    json: bool = False
    fresh: bool = False
    out: Path = Path("out/demo/feed")
    folder: Path = Path("out/feed")


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    given = _parser().given(argv)
    if isinstance(given, str):
        return given
    return Options(
        variants=_variants(given.variants),
        seconds=_VALUES.number("--seconds", given.seconds, 0.5, 3_600),
        repetitions=_VALUES.whole("--repetitions", given.repetitions, 1, 100),
        users=_VALUES.whole("--users", given.users, 1, 1_000),
        workers=_VALUES.whole("--workers", given.workers, 1, 64),
        items=_VALUES.whole("--items", given.items, 3_000, 1_000_000),
        seed=_VALUES.whole("--seed", given.seed, 0, 2**31),
        json=given.json, fresh=given.fresh, out=given.out, folder=given.folder,
    )  # fmt: skip


def _parser() -> Parser:
    default = Options()
    parser = Parser(
        _VALUES,
        prog="greenlane demo feed",
        description="A recommendation service in every variant of its ranking, on the same requests: CPU, memory, "
        "latency, the most requests a second; each variant beside `greenlane` at the same rate.",
    )
    add = parser.add_argument
    add("--variants", help=f"some of {', '.join(ALL)} (all); {OURS} is always measured")
    for name, said in (
        ("seconds", "load per cell, over all repetitions"),
        ("repetitions", "interleaved runs that make up a cell"),
        ("users", "users that ask in turn; 1 in 25 is a very active one"),
        ("workers", "processes of variants that have some"),
        ("items", "items of the world; a smaller one is quicker to make, and says less"),
        ("seed", "of arrivals; the same for all variants"),
    ):
        value = getattr(default, name)
        add(f"--{name}", default=f"{value:g}" if name == "seconds" else str(value), help=f"{said} ({value:g})")
    add("--json", action="store_true", help="one JSON object on stdout in place of the tables")
    add("--fresh", action="store_true", help="measure anew what an interrupted run has left")
    add("--out", type=Path, default=default.out, help=f"folder for raw samples and rows ({default.out})")
    add(
        "--folder", type=Path, default=default.folder, help=f"where world, model and stores are kept ({default.folder})"
    )
    return parser


def _variants(text: str | None) -> tuple[str, ...]:
    names = ALL if text is None else _VALUES.names("--variants", text, ALL)
    return tuple(name for name in ALL if name in (*names, OURS))
