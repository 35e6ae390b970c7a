"""Options of `python -m pos.conservation`."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.errors import SettingsError

from .cell import Plan
from .contenders import CONTENDERS, Contender
from .faults import FAULTS, Fault

ATTEMPTED: Final = "run pos.conservation"
_ORDERS: Final = 2_000
_RATE_PER_S: Final = 300.0
_LATENCY_MS: Final = 50.0
_DEFAULT: Final = ("gevent-200-early", "gevent-200", "greenlane", "greenlane-green")


@dataclass(frozen=True)
class Options:
    """What to run: which fault meets which contender, in this order."""

    cells: tuple[tuple[Fault, Contender], ...]
    plan: Plan
    json: bool
    page: Path | None
    out: Path | None


def parse(argv: Sequence[str]) -> Options:
    """Reads the command line.

    Raises:
        SettingsError: a value that cannot be.
        SystemExit: --help, or an option that is none.
    """
    said = _parser().parse_args(argv)
    orders = said.orders if said.orders is not None else ORDERS if said.soak else _ORDERS
    rate = said.rate if said.rate is not None else RATE_PER_S if said.soak else _RATE_PER_S
    if orders < 1:
        raise SettingsError("--orders", orders, "1 or more", attempted=ATTEMPTED)
    if not rate > 0:
        raise SettingsError("--rate", rate, "orders a second, over 0", attempted=ATTEMPTED)
    faults = [FAULTS[name] for name in _names("--faults", said.faults, FAULTS)]
    contenders = [CONTENDERS[name] for name in _names("--contenders", said.contenders, CONTENDERS)]
    cells = [(fault, one) for fault, one in itertools.product(faults, contenders) if fault.meets(one)]
    if said.soak:
        cells = [(FAULTS[fault], CONTENDERS[contender]) for fault, contender in CELLS]
    if not cells:
        raise SettingsError("--faults", said.faults, "a fault that applies to these contenders",
                            "python -m pos.conservation --help", attempted=ATTEMPTED)  # fmt: skip
    latency_ms = said.latency_ms if said.latency_ms is not None else LATENCY_MS if said.soak else _LATENCY_MS
    if not 0 <= latency_ms < 2_000:
        raise SettingsError("--latency-ms", latency_ms, "0 to 2000, a call's time limit", attempted=ATTEMPTED)
    kinds = ("asked", "keyed", "plain") if said.plain else ("asked", "keyed")
    return Options(
        cells=tuple(cells),
        plan=Plan(orders, rate, kinds=kinds, latency_ms=latency_ms, queues=said.queues),
        json=said.json,
        page=said.page,
        out=said.out,
    )


def _names(option: str, said: str, known: Mapping[str, object]) -> list[str]:
    names = list(known) if said == "all" else said.split(",")
    for name in names:
        if name not in known:
            rule = f"some of {', '.join(known)}; or all"
            raise SettingsError(option, name, rule, "python -m pos.conservation --help", attempted=ATTEMPTED)
    return names


def _parser() -> argparse.ArgumentParser:
    faults = "\n".join(f"  {fault.name:20} {fault.what}" for fault in FAULTS.values())
    parser = argparse.ArgumentParser(
        prog="python -m pos.conservation",
        description="Sends orders through a real RabbitMQ to real workers and ten merchants, injects faults, and "
        "checks the balance: each order ended once, and its merchant saw it once.",
        epilog=f"contenders: {', '.join(CONTENDERS)}\n\nfaults:\n{faults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--orders", type=int, help=f"orders for each contender and fault ({_ORDERS})")
    parser.add_argument("--rate", type=float, help=f"most orders published a second ({_RATE_PER_S:g})")
    parser.add_argument("--latency-ms", type=float, help=f"a merchant's latency without faults ({_LATENCY_MS:g})")
    parser.add_argument("--contenders", default=",".join(_DEFAULT), help=f"({','.join(_DEFAULT)})")
    parser.add_argument("--faults", default="all", help="which, by name, separated by commas (all)")
    parser.add_argument(
        "--soak", action="store_true",
        help=f"the faults and contenders of `make soak`, {ORDERS} orders each, {RATE_PER_S:g} a second: an "
        "hour on a busy machine, 20 minutes on another",
    )  # fmt: skip
    parser.add_argument("--queues", choices=("classic", "quorum"), default="classic", help="RabbitMQ's kind (classic)")
    parser.add_argument(
        "--plain", action="store_true", help="a third of the merchants has no status query and ignores idempotency keys"
    )
    parser.add_argument("--json", action="store_true", help="one object instead of the table")
    parser.add_argument("--page", type=Path, help="also write the page of this run (conservation.md)")
    parser.add_argument("--out", type=Path, help="keep the logs of workers and broker in this folder")
    return parser


# --- Which contender meets which fault in a soak, and how many orders each: more than 20,000 in all.
# Every fault that Greenlane is to withstand, with threads; with green threads all but those of merchants, who do not
# know the difference; other stores and other queues under what strikes them. And a stock worker that acknowledges
# early, which must be seen to lose: a balance that does not see that sees nothing.

#: Orders of each cell.
ORDERS: Final = 330
#: At most this many published a second.
RATE_PER_S: Final = 100.0
#: What merchants take when all is well: some 20 orders are on their way when a fault strikes.
LATENCY_MS: Final = 200.0
_WHERE: Final = {
    "store-redis": ("worker-kill", "store-kill", "store-freeze"),
    "store-postgres": ("worker-kill", "store-kill", "store-freeze", "mixed"),
    "quorum": ("worker-kill-ack", "broker-kill", "broker-freeze", "broker-half", "dead-letters", "mixed"),
    "broker-redis": ("worker-kill-last", "worker-freeze", "broker-kill", "broker-freeze", "broker-cut", "mixed"),
}
_ALL: Final = [name for name, fault in FAULTS.items() if not fault.beyond and fault.meets(CONTENDERS["greenlane"])]
CELLS: Final = [
    *((name, "greenlane") for name in _ALL),
    *((name, "greenlane-green") for name in _ALL if not name.startswith("merchant-")),
    # In turn with threads and green threads.
    *(
        (name, f"greenlane{'-green' if number % 2 else ''}-{what}")
        for what, names in _WHERE.items()
        for number, name in enumerate(names)
    ),
    ("worker-kill-last", "gevent-200-early"),
]
