"""Options of `python -m pos.conservation`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from greenlane.errors import SettingsError
from greenlane_tools.lab.arguments import Values, each_of, number, one_of, options, path, some_of, switch, whole

from .cell import Plan
from .contenders import CONTENDERS, Contender
from .faults import FAULTS, Fault

ATTEMPTED: Final = "run pos.conservation"
_HINT: Final = "python -m pos.conservation --help"
_DEFAULT: Final = ("gevent-200-early", "gevent-200", "greenlane", "greenlane-green")
_WELL: Final = "a merchant's latency without faults, within a call's time limit"
_SOAK: Final = "the faults and contenders of `make soak`, 330 orders each, 100 a second: 20 minutes to an hour"


@dataclass(frozen=True)
class Options:
    """As the flags name them; None = as `--soak` sets it, or as the help says."""

    orders: int | None = whole(None, 1, 1_000_000, "orders for each contender and fault (2000)")
    rate: float | None = number(None, 0.1, 100_000, "most orders published a second (300)")
    latency_ms: float | None = number(None, 0, 1_999, f"{_WELL} (50)")
    contenders: tuple[str, ...] = some_of(
        (*CONTENDERS, "all"), _DEFAULT, f"some of {', '.join(CONTENDERS)}, or all ({', '.join(_DEFAULT)})"
    )
    faults: tuple[str, ...] | None = each_of(
        (*FAULTS, "all"), "; ".join(f"{fault.name}: {fault.what}" for fault in FAULTS.values())
    )
    soak: bool = switch(_SOAK)
    queues: Literal["classic", "quorum"] = one_of(("classic", "quorum"), "RabbitMQ's kind of queue")
    plain: bool = switch("a third of the merchants has no status query and ignores idempotency keys")
    json: bool = switch("one object instead of the table")
    page: Path | None = path(None, "also write the page of this run (conservation.md)")
    out: Path | None = path(None, "keep the logs of workers and broker in this folder")

    @property
    def plan(self) -> Plan:
        """What each contender meets."""
        usual = (ORDERS, RATE_PER_S, LATENCY_MS) if self.soak else (2_000, 300.0, 50.0)
        given = (self.orders, self.rate, self.latency_ms)
        orders, rate, latency_ms = (one if each is None else each for one, each in zip(usual, given, strict=True))
        kinds = ("asked", "keyed", "plain") if self.plain else ("asked", "keyed")
        return Plan(int(orders), rate, kinds=kinds, latency_ms=latency_ms, queues=self.queues)

    @property
    def cells(self) -> list[tuple[Fault, Contender]]:
        """Which fault meets which contender, in this order."""
        if self.soak:
            return [(FAULTS[fault], CONTENDERS[contender]) for fault, contender in CELLS]
        faults = FAULTS if "all" in (self.faults or ("all",)) else self.faults or ()
        met = itertools.product(faults, CONTENDERS if "all" in self.contenders else self.contenders)
        return [(FAULTS[fault], CONTENDERS[one]) for fault, one in met if FAULTS[fault].meets(CONTENDERS[one])]


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, a value outside its rule, or no fault that applies.
    """
    said = (
        "Sends orders through a real RabbitMQ to real workers and ten merchants, injects faults, and checks the "
        "balance: each order ended once, and its merchant saw it once."
    )
    found = options(Options, Values(ATTEMPTED, _HINT), "python -m pos.conservation", said, argv)
    if isinstance(found, str):
        return found
    made = Options(**found[0])
    if not made.cells:
        rule = "a fault that applies to these contenders"
        raise SettingsError("--faults", ",".join(made.faults or ()), rule, _HINT, attempted=ATTEMPTED)
    return made


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
