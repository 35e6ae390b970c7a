"""How each contender's worker is started: stock Celery as it is, with its safest settings, and Greenlane.

A name is a pool and its size; `-early` acknowledges orders when they arrive, which is Celery's default. `-store-…` is
another store than a SQLite file, `-quorum` and `-broker-redis` are other queues than RabbitMQ's classic ones. With
threads Greenlane tries again by itself, with green threads the task does, by Celery's `autoretry_for`: none is lost.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_APPLICATION: Final = "pos.conservation.orders:app"
# Times as short as a run is.
_OURS: Final = (
    *("--task-retry-s", "0.1", "--task-return-s", "1"),
    *("--task-shutdown-s", "10"),
)
_STOCK: Final = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING")


@dataclass(frozen=True)
class Contender:
    """One kind of worker.

    Args:
        name: as in tables.
        pool: what follows `celery worker`; empty = `greenlane celery`.
        acks: "late" or "early".
        options: of `greenlane celery`.
        store: which kind of store its workers share, of `stores.KINDS`; stock ones have none.
        queues: "classic", "quorum" or "redis"; empty = as the run has it.
        retries: "celery", by the task's `autoretry_for`, or "greenlane", whose worker tries again what raised.
    """

    name: str
    pool: tuple[str, ...] = ()
    acks: str = "late"
    options: tuple[str, ...] = ()
    store: str = ""
    queues: str = ""
    retries: str = "celery"

    @property
    def ours(self) -> bool:
        """It is Greenlane, of which even books are demanded."""
        return not self.pool

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
        options = [*_OURS, "--slots", "200", "--key", "kwargs.merchant", "--task-store", store, *self.options]
        options += ["--task-store-lease-s", f"{lease_s:g}", "--task-attempts", str(tries)]
        options += ["--task-retries", str(tries - 1)] if self.retries == "greenlane" else []
        return [greenlane, "celery", _APPLICATION, *options, "--", "-Q", queue, "-n", f"{name}@%h", *_STOCK]


#: On Redis: an order may stay in a worker for less than the visibility timeout, see `orders.VISIBLE_S`.
_SHORT: Final = ("--task-parked-most-s", "2", "--task-shutdown-s", "4")


def _ours(name: str, kind: str, retries: str) -> list[Contender]:
    """Greenlane with each store and each broker."""
    return [
        Contender(name, (), "late", (kind,), "sqlite", "", retries),
        Contender(f"{name}-store-redis", (), "late", (kind,), "redis", "", retries),
        Contender(f"{name}-store-postgres", (), "late", (kind,), "postgres", "", retries),
        Contender(f"{name}-quorum", (), "late", (kind,), "sqlite", "quorum", retries),
        Contender(f"{name}-broker-redis", (), "late", (kind, *_SHORT), "sqlite", "redis", retries),
    ]


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
        Contender("gevent-200-broker-redis", _POOLS["gevent-200"], queues="redis"),
        *_ours("greenlane", "--threads", "greenlane"),
        *_ours("greenlane-green", "--green", "celery"),
    )
}
