"""Options of `python -m pos.conservation`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.errors import SettingsError

from .cell import Plan
from .contenders import CONTENDERS, Contender
from .faults import FAULTS, Fault

ATTEMPTED: Final = "run pos.conservation"
_DEFAULT: Final = ("gevent-200-early", "gevent-200", "greenlane", "greenlane-green")


@dataclass(frozen=True)
class Options:
    """What to run. Every contender meets every fault."""

    contenders: tuple[Contender, ...]
    faults: tuple[Fault, ...]
    plan: Plan
    json: bool
    out: Path | None


def parse(argv: Sequence[str]) -> Options:
    """Reads the command line.

    Raises:
        SettingsError: a value that cannot be.
        SystemExit: --help, or an option that is none.
    """
    said = _parser().parse_args(argv)
    if said.orders < 1:
        raise SettingsError("--orders", said.orders, "1 or more", attempted=ATTEMPTED)
    if not said.rate > 0:
        raise SettingsError("--rate", said.rate, "orders a second, over 0", attempted=ATTEMPTED)
    if not 0 <= said.latency_ms < 2_000:
        raise SettingsError("--latency-ms", said.latency_ms, "0 to 2000, a call's time limit", attempted=ATTEMPTED)
    kinds = ("asked", "keyed", "plain") if said.plain else ("asked", "keyed")
    return Options(
        contenders=tuple(CONTENDERS[name] for name in _names("--contenders", said.contenders, CONTENDERS)),
        faults=tuple(FAULTS[name] for name in _names("--faults", said.faults, FAULTS)),
        plan=Plan(said.orders, said.rate, kinds=kinds, latency_ms=said.latency_ms, queues=said.queues),
        json=said.json,
        out=said.out,
    )


def _names(option: str, said: str, known: Mapping[str, object]) -> list[str]:
    names = list(known) if said == "all" else said.split(",")
    for name in names:
        if name not in known:
            rule = f"names out of {', '.join(known)}; or all"
            raise SettingsError(option, name, rule, "python -m pos.conservation --help", attempted=ATTEMPTED)
    return names


def _parser() -> argparse.ArgumentParser:
    faults = "\n".join(f"  {fault.name:20} {fault.what}" for fault in FAULTS.values())
    parser = argparse.ArgumentParser(
        prog="python -m pos.conservation",
        description="Sends orders through a real RabbitMQ to real workers and ten merchants, does harm, and balances "
        "the books: each order ended once, and its merchant saw it once.",
        epilog=f"contenders: {', '.join(CONTENDERS)}\n\nfaults:\n{faults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--orders", type=int, default=2_000, help="orders for each contender and fault (2000)")
    parser.add_argument("--rate", type=float, default=300.0, help="at most so many published a second (300)")
    parser.add_argument("--latency-ms", type=float, default=50.0, help="what merchants take when all is well (50)")
    parser.add_argument("--contenders", default=",".join(_DEFAULT), help=f"({','.join(_DEFAULT)})")
    parser.add_argument("--faults", default="all", help="which, by name, separated by commas (all)")
    parser.add_argument("--queues", choices=("classic", "quorum"), default="classic", help="RabbitMQ's kind (classic)")
    parser.add_argument(
        "--plain", action="store_true", help="a third of the merchants cannot be asked and know no keys"
    )
    parser.add_argument("--json", action="store_true", help="one object instead of the table")
    parser.add_argument("--out", type=Path, help="keep the logs of workers and broker in this folder")
    return parser
