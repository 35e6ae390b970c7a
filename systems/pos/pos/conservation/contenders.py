"""How each contender's worker is started: stock Celery as it is, with its safest settings, and Greenlane.

A name is a pool and its size; `-early` acknowledges orders when they arrive, which is Celery's default. `-store-…` is
another store than a SQLite file, `-quorum` and `-broker-redis` are other queues than RabbitMQ's classic ones. With
threads Greenlane tries again by itself, with green threads the task does, by Celery's `autoretry_for`: none is lost.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pos.children import Process

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


# --- A worker that is started again when it dies, as a container would be.


#: A worker that died is started again after this.
_AGAIN_S: Final = 0.3


class Worker:
    """A process that ought to run, whatever happens to it.

    Args:
        command: argument vector.
        environment: added to ours.
        log: of all its lives.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self._command, self._environment, self._log = command, environment, log
        #: Whether it is started again when it ends.
        self.wanted = True
        self.restarts = 0
        self._ended_s: float | None = None
        self.process = self._started()

    def look(self) -> None:
        """Starts it again when it ended by itself and is wanted. Called several times a second."""
        if not self.wanted or self.process.running():
            return
        now_s = time.monotonic()
        if self._ended_s is None:
            self._ended_s = now_s
            self.kill()  # what it had started
        elif now_s - self._ended_s > _AGAIN_S:
            self.restarts += 1
            self.start()

    def kill(self) -> None:
        """SIGKILL to it and all that it started, and wait: what a machine that dies looks like. Idempotent."""
        self._signal(signal.SIGKILL)
        self.process.wait(10)

    def pause(self) -> None:
        """SIGSTOP to it and all that it started."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def start(self) -> None:
        """Starts it now."""
        self.wanted, self._ended_s = True, None
        self.process = self._started()

    def ask_to_end(self) -> None:
        """SIGTERM, and it is not started again."""
        self.wanted = False
        self.process.signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _started(self) -> Process:
        return Process(self._command, self._log, self._environment)
