"""The Celery program of `bench.tasks_faults`: two types of tasks with results, and everything that programs do to them.

Its merchant is a folder: a call that has its effect adds a byte to a file of the call's name, which no SIGKILL undoes,
and a call can be asked about. The environment says where everything is (`Program`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from celery import Celery
from kombu import Queue

#: Redis gives an order to another worker when it was not acknowledged for so long.
VISIBLE_S: Final = 10
SLOW: Final = "m0"
_VARIABLE: Final = "TASKS_PROGRAM"
_ON_REDIS: Final = {
    "visibility_timeout": VISIBLE_S, "unacked_restore_interval": 1, "unacked_restore_throttle": 1,
    "socket_timeout": 4, "socket_connect_timeout": 4,
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """What a worker has to know: URLs, the queue, the merchants' folder, how long a call takes."""

    broker: str
    results: str
    queue: str
    book: str
    latency_s: float = 0.06
    slow_s: float = 0.5

    def environment(self) -> dict[str, str]:
        """The variable that hands it over."""
        return {_VARIABLE: json.dumps(asdict(self))}


def made(program: Program) -> Celery:
    """The application, with the settings that keep orders."""
    app = Celery("program", broker=program.broker, backend=program.results, set_as_current=False)
    redis = program.broker.startswith("redis")
    app.conf.update(
        task_queues=[Queue(program.queue, queue_arguments={} if redis else {"x-max-priority": 10})],
        task_default_queue=program.queue,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_acks_on_failure_or_timeout=False,
        worker_prefetch_multiplier=1,
        broker_transport_options=_ON_REDIS if redis else {"confirm_publish": True},
        broker_heartbeat=4,
        broker_connection_timeout=4,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_hijack_root_logger=False,
    )
    merchant = Merchant(program)
    ours: dict[str, Any] = {"ask": merchant.has}  # Greenlane's; stock Celery has no use for it

    @app.task(name="charge", **ours)  # type: ignore[untyped-decorator]
    def charge(*_results: object, name: str, merchant: str) -> str:
        return book.call(name, merchant)

    @app.task(name="mail", **ours)  # type: ignore[untyped-decorator]
    def mail(*_results: object, name: str, merchant: str) -> str:
        return book.call(name, merchant)

    @app.task(name="retried", bind=True, max_retries=5, **ours)  # type: ignore[untyped-decorator]
    def retried(self: Any, *, name: str, merchant: str) -> str:
        if self.request.retries < 2:
            raise self.retry(countdown=0.5)
        return book.call(name, merchant)

    @app.task(
        name="autoretried", bind=True, autoretry_for=(ConnectionError,), max_retries=5, retry_backoff=1,
        retry_backoff_max=1, **ours,
    )  # type: ignore[untyped-decorator]  # fmt: skip
    def autoretried(self: Any, *, name: str, merchant: str) -> str:
        if self.request.retries < 2:
            raise ConnectionResetError("the merchant hung up")
        return book.call(name, merchant)

    book = merchant
    return app


class Merchant:
    """The merchants' books."""

    def __init__(self, program: Program) -> None:
        self._book = Path(program.book)
        self._latency_s = {SLOW: program.slow_s}
        self._usual_s = program.latency_s

    def call(self, name: str, merchant: str) -> str:
        """One call: its effect in the middle of its time."""
        half_s = self._latency_s.get(merchant, self._usual_s) / 2
        time.sleep(half_s)
        effect = os.open(self._book / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(effect, b".")
        os.close(effect)
        time.sleep(half_s)
        return name

    def has(self, *_results: object, name: str, merchant: str) -> str | None:
        """Whether it had its effect: its result, or None."""
        entry = self._book / name
        # A worker that is killed between `open` and `write` leaves an empty file: no effect.
        return name if entry.exists() and entry.stat().st_size else None

    def effects(self, names: Sequence[str]) -> dict[str, int]:
        """How often each of these calls had its effect."""
        found = {entry.name: entry.stat().st_size for entry in os.scandir(self._book)}
        return {name: found.get(name, 0) for name in names}


def __getattr__(name: str) -> Any:
    """`app` is made when a worker asks for it."""
    if name != "app":
        raise AttributeError(name)
    globals()["app"] = app = made(Program(**json.loads(os.environ[_VARIABLE])))
    return app
