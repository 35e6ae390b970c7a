"""How each contender's worker is started: stock Celery as it is, with its safest settings, and Greenlane.

A name is a pool and its size; `-early` acknowledges orders when they arrive, which is Celery's default.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_APPLICATION: Final = "pos.conservation.orders:app"
# Times as short as a run is.
_OURS: Final = (
    *("--task-retry-s", "1", "--task-retry-most-s", "2", "--task-return-s", "1"),
    *("--task-shutdown-s", "10"),
)
_STOCK: Final = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING")


@dataclass(frozen=True)
class Contender:
    """One kind of worker.

    Args:
        name: as in tables.
        pool: what follows `celery worker`; empty = `greenlane work`.
        acks: "late" or "early".
        options: of `greenlane work`.
        store: which kind of store its workers share, of `stores.KINDS`; stock ones have none.
    """

    name: str
    pool: tuple[str, ...] = ()
    acks: str = "late"
    options: tuple[str, ...] = ()
    store: str = ""

    def command(self, queue: str, name: str, store: str, lease_s: float, tries: int) -> list[str]:
        """The argument vector of one worker.

        Args:
            queue: what it takes orders from.
            name: its own.
            store: URL of the store.
            lease_s: of that store.
            tries: calls of an order until it is given up.
        """
        if self.pool:
            celery = [sys.executable, "-m", "celery", "-A", _APPLICATION, "worker"]
            return [*celery, *self.pool, "-Q", queue, "-n", f"{name}@%h", *_STOCK]
        greenlane = str(Path(sys.executable).with_name("greenlane"))
        options = [*self.options, "--slots", "200", "--key", "kwargs.merchant", "--task-store", store]
        options += ["--task-store-lease-s", f"{lease_s:g}", "--task-attempts", str(tries)]
        return [greenlane, "work", _APPLICATION, *options, *_OURS, "--", "-Q", queue, "-n", f"{name}@%h", *_STOCK]


_POOLS: Final = {
    "prefork-4": ("-P", "prefork", "-c", "4"),
    "threads-100": ("-P", "threads", "-c", "100"),
    "gevent-200": ("-P", "gevent", "-c", "200"),
}
CONTENDERS: Final = {
    one.name: one
    for one in (
        *(Contender(name, pool) for name, pool in _POOLS.items()),
        *(Contender(f"{name}-early", pool, "early") for name, pool in _POOLS.items()),
        Contender("greenlane", options=("--threads",), store="sqlite"),
        Contender("greenlane-green", options=("--green",), store="sqlite"),
        Contender("greenlane-redis", options=("--threads",), store="redis"),
        Contender("greenlane-green-redis", options=("--green",), store="redis"),
    )
}
