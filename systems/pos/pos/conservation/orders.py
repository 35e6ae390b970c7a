"""The Celery application of every contender: one task, which calls a merchant and tries again when that fails.

It is written as tasks are, and the same for all: nobody's own book of what was sent. Its settings are the safest that
stock Celery has, except `acks = "early"`, which is Celery's default. The environment says where everything is, since
all contenders get it in the same way (`Setup`).
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import requests
from celery import Celery
from kombu import Queue
from requests.adapters import HTTPAdapter

TASK: Final = "pos.conservation.forward"
#: Header with the order's own number: it stays the same however often the order is sent.
ORDER: Final = "greenlane-order"
#: Redis gives an order to another worker when it was not acknowledged for so long. Longer than one stays in a worker.
VISIBLE_S: Final = 10
_VARIABLE: Final = "POS_CONSERVATION"
#: Answers that do not come are waited for as long as RabbitMQ's heartbeats are.
_ON_REDIS: Final = {
    "visibility_timeout": VISIBLE_S,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
    "socket_timeout": 4,
    "socket_connect_timeout": 4,
}


@dataclass(frozen=True)
class Setup:
    """What a worker has to know.

    Args:
        broker: URL of the broker, or of a relay before it.
        queue: what it takes orders from; `<queue>.dead` gets those that are given up.
        merchants: base URL of each, or of a relay before it.
        acks: "late" or "early".
        queue_kind: "classic", "quorum" or "redis".
        timeout_s: how long a call may take.
        tries: calls of an order until it is given up.
        retries: who tries again, "celery" or "greenlane", see `contenders.Contender`.
        die_at: orders at which the process that called kills itself once, after the call and before the ack.
        folder: where those orders are remembered.
    """

    broker: str
    queue: str
    merchants: dict[str, str]
    acks: str = "late"
    queue_kind: str = "classic"
    timeout_s: float = 2.0
    tries: int = 10
    retries: str = "celery"
    die_at: tuple[str, ...] = ()
    folder: str = "."

    def environment(self) -> dict[str, str]:
        """The variable that hands it over."""
        return {_VARIABLE: json.dumps(asdict(self))}


def queue_of(name: str, kind: str) -> Queue:
    """A durable queue, "classic" or "quorum", whose rejected messages go to `<name>.dead`."""
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead"}
    arguments = {"x-queue-type": kind, **dead}
    return Queue(name, exchange="", routing_key=name, durable=True, queue_arguments=arguments)


def application(setup: Setup) -> Celery:
    """Celery with every setting that keeps orders."""
    app = Celery("pos.conservation", broker=setup.broker, set_as_current=False)
    late = setup.acks == "late"
    app.conf.update(
        task_queues=[queue_of(setup.queue, setup.queue_kind)],
        task_default_queue=setup.queue,
        task_acks_late=late,
        task_reject_on_worker_lost=late,
        task_acks_on_failure_or_timeout=not late,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        broker_transport_options=_ON_REDIS if setup.queue_kind == "redis" else {"confirm_publish": True},
        broker_heartbeat=4,
        broker_connection_timeout=4,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
    )
    return app


class Caller:
    """Calls merchants over connections that are kept."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._session = requests.Session()
        self._session.mount("http://", HTTPAdapter(pool_connections=32, pool_maxsize=256))
        self._session.trust_env = False

    def send(self, order: str, merchant: str) -> None:
        """One call.

        Raises:
            requests.RequestException: no answer, or one that says no.
        """
        content = {"order": order, "merchant": merchant}
        url, timeout_s = self._setup.merchants[merchant], self._setup.timeout_s
        answer = self._session.post(
            f"{url}/orders", json=content, headers={"Idempotency-Key": order}, timeout=timeout_s
        )
        answer.raise_for_status()
        if order in self._setup.die_at:
            _die_once(Path(self._setup.folder, f"died-{order}"))

    def ask(self, order: str, merchant: str) -> bool | None:
        """True when the merchant has the order; None when it has not, or cannot be asked.

        Raises:
            requests.RequestException: no answer.
        """
        answer = self._session.get(f"{self._setup.merchants[merchant]}/orders/{order}", timeout=self._setup.timeout_s)
        if answer.status_code == requests.codes.method_not_allowed:
            return None
        answer.raise_for_status()
        return bool(answer.json()["done"]) or None


def _die_once(mark: Path) -> None:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _made() -> Celery:
    said = json.loads(os.environ[_VARIABLE])
    setup = Setup(**{**said, "die_at": tuple(said["die_at"])})
    app, caller = application(setup), Caller(setup)

    # 0 to 1 s at first, then 0 to 2; Greenlane's worker is told the same on its command line.
    again = {"retry_backoff": 1, "retry_backoff_max": 2, "retry_jitter": True, "max_retries": setup.tries - 1}
    by_itself = {"autoretry_for": (requests.RequestException,), **again} if setup.retries == "celery" else {}

    @app.task(  # type: ignore[untyped-decorator]
        name=TASK,
        ask=lambda order, merchant: caller.ask(order, merchant),  # Greenlane's; stock Celery has no use for it
        **by_itself,
    )
    def forward(order: str, merchant: str) -> None:
        caller.send(order, merchant)

    return app


def __getattr__(name: str) -> Any:
    """`app` is made when a worker asks for it; a publisher needs none."""
    if name != "app":
        raise AttributeError(name)
    globals()["app"] = made = _made()
    return made
