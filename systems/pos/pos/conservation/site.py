"""All of it running: broker, merchants, relays between, workers that are started again when they die.

One thread owns it, the one that made it: the kernel ends the processes with that thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from greenlane_tools.lab.processes import StartFailed, free_port
from greenlane_tools.lab.relay import Relays
from pos.children import Process
from pos.conservation.contenders import Worker
from pos.conservation.servers import KINDS, Store

from .books import Entry, Letter, Merchant
from .brokers import Broker, RabbitQueues, RedisQueues, SharedRabbitMQ
from .contenders import Contender
from .merchant import Law
from .orders import ORDER, Setup

_KINDS: Final = ("asked", "keyed")
_WELL: Final = Law()
#: Queues in which no order ever is.
_NO_ORDERS: Final = ("celeryev", "pidbox", "celery@")


class Site:
    """One contender's workers before a broker and ten merchants. A context manager; all but the broker ends with it.

    Args:
        folder: logs.
        node: the RabbitMQ that runs already; a contender on Redis gets one of its own.
        contender: what works.
        orders: names of the orders.
        workers: how many processes of the contender, on the old queue.
        kinds: kinds of the merchants, in turn.
        usual: how merchants behave when all is well.
        lease_s: of the store, for what a worker has begun.
        queue_kind: "classic" or "quorum".
        tries: calls of an order until it is given up.
        die_at: orders at which a worker kills itself, see `orders.Setup`.
    """

    def __init__(
        self, folder: Path, node: SharedRabbitMQ, contender: Contender, orders: list[str], *, workers: int = 2,
        kinds: tuple[str, ...] = _KINDS, usual: Law = _WELL, die_at: tuple[str, ...] = (), lease_s: float = 5.0,
        queue_kind: str = "classic", tries: int = 10,
    ) -> None:  # fmt: skip
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        self.folder, self.contender = folder, contender
        self.queue = folder.name
        self.queues = (self.queue, f"{self.queue}-new")
        self.queue_kind = contender.queues or queue_kind
        self.broker: Broker = (
            RedisQueues(folder / "broker")
            if self.queue_kind == "redis"
            else RabbitQueues(node, self.queues, self.queue_kind)
        )
        #: What all workers share; None = stock ones have none.
        self.store: Store | None = KINDS[contender.store](folder / "store") if contender.store else None
        names = [f"m{number}" for number in range(10)]
        self.orders = {order: names[number % 10] for number, order in enumerate(orders)}
        self.ports = {name: free_port() for name in names}
        self.kinds = {name: kinds[number % len(kinds)] for number, name in enumerate(names)}
        self.usual = usual
        self._lease_s, self._tries = lease_s, tries
        self._wanted_workers, self._die_at = workers, die_at
        self.workers: list[Worker] = []
        self._closed = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undone:
            undone.enter_context(self.broker.running())
            if self.store is not None:
                undone.enter_context(self.store.running())
            said = {name: {"port": port, "kind": self.kinds[name]} for name, port in self.ports.items()}
            command = [sys.executable, "-m", "pos.conservation.merchant", json.dumps(said)]
            self.merchants = Process(command, self.folder / "merchants.log", _added())
            undone.callback(self.merchants.end)
            self.merchants.wait_for_port(list(self.ports.values())[-1])
            self.law(self.usual)
            relays = undone.enter_context(Relays())
            self.to_broker = relays.to(self.broker.port)
            self.to_merchants = {name: relays.to(port) for name, port in self.ports.items()}
            undone.callback(self.kill_workers)
            for _ in range(self._wanted_workers):
                self.add_worker()
            self._closed = undone.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._closed.close()

    def setup(self, queue: str) -> Setup:
        """What the workers of a queue have to know; the broker and the merchants are behind relays."""
        merchants = {name: f"http://127.0.0.1:{relay.port}" for name, relay in self.to_merchants.items()}
        return Setup(
            self.broker.url_at(self.to_broker.port), queue, merchants, self.contender.acks, self.queue_kind,
            tries=self._tries, retries=self.contender.retries, die_at=self._die_at, folder=str(self.folder),
        )  # fmt: skip

    def add_worker(self, *, new: bool = False) -> Worker:
        """Starts one more worker, on the old queue or the new one; does not wait until it works."""
        queue = self.queues[new]
        name = f"{queue}-{len(self.workers)}"
        environment = {**_added(), **self.setup(queue).environment()}
        command = self.contender.command(queue, name, self.store.url if self.store else "", self._lease_s, self._tries)
        worker = Worker(command, environment, self.folder / f"{name}.log")
        self.workers.append(worker)
        return worker

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Blocks until each worker takes orders from the old queue.

        Raises:
            StartFailed: not within `seconds`.
        """
        until_s = time.monotonic() + seconds
        while self.broker.consumers() < self._wanted_workers:
            self.look()
            if time.monotonic() > until_s:
                said = self.workers[0].process.said()
                raise StartFailed(f"starting {self.contender.name}: no consumer after {seconds:g} s; it said:\n{said}")
            time.sleep(0.05)

    def look(self) -> None:
        """Starts again what died. Called several times a second."""
        for worker in self.workers:
            worker.look()
        if not self.merchants.running():
            raise StartFailed(f"keep the merchants running: they ended and said:\n{self.merchants.said()}")

    def pids(self) -> list[int]:
        """The workers that run and what they started."""
        return [pid for worker in self.workers for pid in worker.process.pids()]

    def law(self, law: Law, *names: str) -> None:
        """How these merchants behave from now on; no names = all."""
        for name in names or self.ports:
            self._ask(name, "law", vars(law))

    def settled(self) -> tuple[int, int]:
        """Orders with an effect or told 200, and calls, at all merchants together."""
        said = [self._ask(name, "count") for name in self.ports]
        return sum(one["settled"] for one in said), sum(one["calls"] for one in said)

    def books(self) -> list[Merchant]:
        """What the merchants wrote down."""
        said = [self._ask(name, "effects") for name in self.ports]
        return [Merchant(one["kind"], {order: Entry(*row) for order, row in one["orders"].items()}) for one in said]

    def deaths(self) -> int:
        """How many processes killed themselves at an order, see `orders.Setup`."""
        return len(list(self.folder.glob("died-*")))

    def dead(self) -> int:
        """How many dead letters there are; one order may have two.

        Raises:
            StartFailed: the broker does not answer.
        """
        return sum(count for name, count in self.broker.waiting().items() if name.endswith(".dead"))

    def open_orders(self) -> int:
        """Messages that wait or that some worker has, in all queues but those of dead letters; about 0.7 s of CPU.

        Raises:
            StartFailed: the broker does not answer.
        """
        return self.broker.taken() + sum(count for name, count in self.broker.waiting().items() if _open(name))

    def drained(self) -> tuple[list[str], list[Letter]]:
        """Takes every message out: orders that wait, dead letters. Call it when no worker runs."""
        waiting: list[str] = []
        dead: list[Letter] = []
        # Some queues pass their messages on by themselves, to one that was read already.
        with self.broker.undisturbed():
            self.broker.taken()  # and with it, which queues there are
            while full := [name for name, count in self.broker.waiting().items() if count and _of_orders(name)]:
                for name in full:
                    for headers in self.broker.read(name):
                        order = str(headers.get(ORDER) or headers.get("id"))
                        if name.endswith(".dead"):
                            dead.append(_letter(order, headers))
                        else:
                            waiting.append(order)
        return waiting, dead

    def _ask(self, merchant: str, path: str, content: object = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[merchant]}/{path}", body, timeout=20) as answer:
            return json.load(answer)

    def kill_workers(self) -> None:
        """SIGKILL to all that is left of them."""
        for worker in self.workers:
            worker.wanted = False
            worker.kill()


def _letter(order: str, headers: Mapping[str, Any]) -> Letter:
    """Ours tell it in their own headers; of stock workers' letters the broker tells what it knows."""
    history = json.loads(headers.get("greenlane-history") or "[]") or headers.get("x-death")
    said = json.loads(headers.get("greenlane-dead") or "{}")
    return Letter(order, bool(history), str(said.get("reason", "rejected")))


def _of_orders(name: str) -> bool:
    return not any(word in name for word in _NO_ORDERS)


def _open(name: str) -> bool:
    return _of_orders(name) and name != "unacked" and not name.endswith(".dead")


def _added() -> dict[str, str]:
    added = {"PYTHONUNBUFFERED": "1"}
    if os.geteuid() == 0:
        added["C_FORCE_ROOT"] = "1"  # Celery warns when run as root; in a container it always is
    return added
