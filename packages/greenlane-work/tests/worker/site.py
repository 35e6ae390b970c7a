"""A shop of its own for a test: a queue, a merchant's book, workers."""

from __future__ import annotations

import contextlib
import importlib
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from amqp.exceptions import NotFound
from celery.backends.redis import RedisBackend
from kombu import Connection
from tests.record.command import GREENLANE

from tests.child import Child
from tests.fixtures import StartProcess
from tests.where import IMPORT_PATH

__all__ = ["SHOP", "Site", "asked", "eventually", "told"]

SHOP = "tests.worker.shop"


class Site:
    """One queue at a broker, and what its merchant wrote down."""

    def __init__(self, folder: Path, broker: str, start: StartProcess, **environment: str) -> None:
        self.folder = folder
        self.broker = broker
        self.queue = f"orders-{uuid.uuid4().hex[:8]}"
        self.book = folder / "book"
        self.book.touch()
        self._start = start
        self._more = environment
        (folder / "broker").mkdir(exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """What the app reads."""
        return {
            "BROKER": self.broker,
            "QUEUE": self.queue,
            "BOOK": str(self.book),
            "FOLDER": str(self.folder / "broker"),
            "PYTHONPATH": IMPORT_PATH,
            "GREENLANE_CONFIG": "",
            # Celery takes no pickles as root otherwise, and in a container everybody is.
            "C_FORCE_ROOT": "1",
        } | self._more

    def worker(self, *options: str, ready: bool = True, recorded: str = "", **environment: str) -> Child:
        """Start `greenlane celery`; returns when it takes orders. `recorded`: into this file of the folder."""
        argv = [*GREENLANE, "celery", SHOP, "--key", "kwargs.merchant", "--task-retry-s", "0.05"]
        if recorded:
            argv = [*GREENLANE, "record", "-o", recorded, "--", *argv]
        passed = [] if "--" in options else ["--"]
        child = self._start(
            [*argv, *options, *passed, "-Q", self.queue, "-l", "INFO"],
            cwd=self.folder,
            env=self.environment | environment,
        )
        if ready:
            child.wait_output(r"ready\.", timeout_s=40)
        return child

    @contextlib.contextmanager
    def app(self) -> Iterator[Any]:
        """The shop's module, on this site, to publish with."""
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self.environment.items():
                patched.setenv(name, value)
            import tests.worker.shop as shop

            shop = importlib.reload(shop)
            try:
                yield shop
            finally:
                backend = shop.app.backend
                if isinstance(backend, RedisBackend):  # which leaves its sockets to the garbage collector
                    backend.result_consumer.stop()
                    # A result that the collector takes later would connect again to end its subscription.
                    backend.result_consumer.subscribed_to.clear()
                    backend.client.connection_pool.disconnect()
                shop.app.close()

    def publish(self, task: str, *orders: str, headers: dict[str, object] | None = None, **arguments: object) -> None:
        """Publish one message an order."""
        with self.app() as shop:
            for order in orders:
                getattr(shop, task).apply_async((order,), arguments, headers=headers or {})

    def written(self) -> Counter[str]:
        """Lines of the book without what follows the order's name."""
        return Counter(" ".join(line.split()[:2]) for line in self.book.read_text().splitlines())

    def ended(self) -> set[str]:
        """Orders whose end is written."""
        return {line.split()[1] for line in self.book.read_text().splitlines() if line.startswith("end ")}

    def begun(self) -> set[str]:
        """Orders whose beginning is written."""
        return {line.split()[1] for line in self.book.read_text().splitlines() if line.startswith("begin ")}

    def dead(self) -> list[tuple[bytes, dict[str, Any]]]:
        """Take the dead letters: body and headers."""
        found = []
        with Connection(self.broker) as connection:
            channel = connection.channel()
            with contextlib.suppress(NotFound):  # made for the first letter
                while (message := channel.basic_get(f"{self.queue}.dead", no_ack=True)) is not None:
                    body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
                    found.append((body, dict(message.headers)))
        return found

    def left(self) -> int:
        """Messages that are ready in the queue."""
        with Connection(self.broker) as connection:
            if connection.transport.driver_type == "redis":
                return int(connection.default_channel.client.llen(self.queue))
            declared = connection.channel().queue_declare(self.queue, passive=True)
            return int(declared.message_count)


def eventually(claim: Callable[[], bool], *, timeout_s: float = 30) -> None:
    """Wait until it holds."""
    until = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.02)


def asked(shop: Any, what: str) -> Any:
    """What the one worker answers."""
    answers: list[Any] = []

    def answered() -> bool:
        answers[:] = list((shop.app.control.inspect(timeout=1, limit=1)._request(what) or {}).values())
        return bool(answers)

    eventually(answered)
    return answers[0]


def told(headers: dict[str, Any]) -> dict[str, Any]:
    """Why an order is dead, by its headers."""
    return dict(json.loads(headers["greenlane-dead"]))
