"""The whole of pos on loopback: RabbitMQ, ten merchants, workers, the backend with its page.

    python -m pos.site                          stock Celery's gevent pool, and Greenlane to divert orders to
    python -m pos.site --worker prefork-4 --per-s 5

    with Site(Plan(folder)) as site: ...        for tests and the demo, which start workers themselves

Everything ends with the process that made the site, however that ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from celery import Celery

from greenlane.errors import GreenlaneError, SettingsError
from greenlane_tools.lab.processes import Block, StartFailed, free_port
from pos.contenders import FOLDER, look

from .backend.publisher import MOST_PER_S
from .broker import RabbitMQ
from .children import Process, command
from .contenders import CONTENDERS, OURS, start, store_url
from .merchants.names import MERCHANTS, OVER_GRPC
from .queueing import DIVERTED, QUEUE, application, declare, publish
from .surroundings import VARIABLE, QueueKind, Surroundings

_ANSWER_S: Final = 10.0
_CHECK_S: Final = 0.5
_NO_WORKER: Final = "none"
_LAST_PORT: Final = 65_535


@dataclass(frozen=True)
class Plan:
    """What a site is made of.

    Args:
        merchants: who takes part.
        law: of all of them at first, as POST /law takes it.
        laws: of single ones, beside `law`.
        work_ms: CPU of an order.
        call_s: a merchant's answer is waited for so long.
        calls: API calls of an order, 1 or 3.
        queue_kind: of RabbitMQ's queues.
        cancels: customers may cancel their orders; each worker then looks whether they did.
        diverts: producers look how many orders are to be diverted, and both sides share a store.
    """

    merchants: Sequence[str] = MERCHANTS
    law: Mapping[str, Any] = field(default_factory=dict)
    laws: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    work_ms: float = 3.0
    call_s: float = 60.0
    calls: int = 1
    queue_kind: QueueKind = "classic"
    cancels: bool = False
    diverts: bool = False


class Site(Block):
    """The running parts.

    Args:
        plan: what to start.
        folder: where logs, journal and queues are; None = a temporary one, removed at the end.
    """

    def __init__(self, plan: Plan, folder: Path | None = None) -> None:
        self._plan = plan
        self._temporary = folder is None
        # Absolute: its programs have working directories of their own.
        self.folder = (folder or Path(tempfile.mkdtemp(prefix="pos-"))).absolute()
        self.broker = RabbitMQ(self.folder / "broker")
        self.workers: dict[str, Process] = {}
        self._merchants: dict[str, Process] = {}
        self._ports: dict[str, tuple[int, int]] = {}
        self._backend: Process | None = None
        self._app: Celery | None = None

    def begin(self) -> None:
        """Starts what all need. Blocks until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.broker.start()
        for name in self._plan.merchants:
            self._ports[name] = free_port(), free_port() if name == OVER_GRPC else 0
            self.start_merchant(name, wait=False)
        for name, process in self._merchants.items():
            process.wait_for_port(self._ports[name][0])
        self.broker.wait_started()
        self.around.write(self.file)
        declare(self.app, self._plan.queue_kind)

    @property
    def file(self) -> Path:
        """The file that tells other programs where everything is."""
        return self.folder / "surroundings.json"

    @property
    def around(self) -> Surroundings:
        """Where everything is."""
        return Surroundings(
            broker=self.broker.url,
            merchants={name: f"http://127.0.0.1:{port}" for name, (port, _) in self._ports.items()},
            over_grpc={name: f"127.0.0.1:{port}" for name, (_, port) in self._ports.items() if port},
            journal=str(self.folder / "journal"),
            work_ms=self._plan.work_ms, call_s=self._plan.call_s, calls=self._plan.calls,
            queue_kind=self._plan.queue_kind,
            store=store_url(self.folder) if self._plan.diverts else "",
            cancelled=str(self.folder / "cancelled") if self._plan.cancels else "",
            diversion=(self.folder / "diversion").as_uri() if self._plan.diverts else "",
        )  # fmt: skip

    @property
    def app(self) -> Celery:
        """The application through which this process publishes."""
        if self._app is None:
            self._app = application(self.around)
        return self._app

    def start_merchant(self, name: str, *, wait: bool = True) -> None:
        """Starts a merchant, at the ports that it had before if it had some; it remembers nothing."""
        port, grpc_port = self._ports[name]
        law = {**self._plan.law, **self._plan.laws.get(name, {})}
        arguments = {"name": name, "port": port, "grpc-port": grpc_port, "law": json.dumps(law)}
        flags = [str(part) for flag, value in arguments.items() for part in (f"--{flag}", value)]
        process = Process([*command("pos.merchants.serve"), *flags], self.folder / f"{name}.log")
        self._merchants[name] = process
        if wait:
            process.wait_for_port(port)

    def set_law(self, name: str, **law: Any) -> dict[str, Any]:
        """Some of a merchant's law changes; the whole of it."""
        return self.asked(name, "/law", law)

    def effects(self, name: str, *, orders: bool = False) -> dict[str, Any]:
        """What a merchant remembers: sums, and with `orders` [calls, effects] of each order, in `of_order`."""
        return self.asked(name, f"/effects?orders={orders:d}")

    def forget(self) -> None:
        """All merchants forget their calls."""
        for name in self._plan.merchants:
            self.asked(name, "/effects", {})

    def asked(self, name: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A merchant's answer; POST when there is a body."""
        sent = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.around.merchants[name] + path, sent, timeout=_ANSWER_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def start_worker(self, name: str, queue: str = QUEUE, label: str = "") -> Process:
        """Starts one of the contenders on a queue; does not wait. `label` tells two of the same apart."""
        label = label or name
        worker = start(CONTENDERS[name], self.file, self.folder / f"{label}.log", queue)
        self.workers[label] = worker
        return worker

    def publish(self, order: str, merchant: str, **options: Any) -> None:
        """Gives the broker an order, as `queueing.publish`."""
        publish(self.app, order, merchant, **options)

    def parked(self, label: str) -> int | None:
        """The most orders that a worker has held without a slot for them; None when it has no such thing."""
        worker = self.workers.get(label)
        found = worker and look(self.folder / FOLDER / f"{worker.pid}.sock")
        return found["most_parked"] if found else None

    def start_backend(self, port: int = 0, per_s: float = 0.0) -> int:
        """Starts the backend, and comes back when it listens; its port."""
        port = port or free_port()
        flags = ["--port", str(port), "--per-s", str(per_s), "--workers", str(self.folder / FOLDER)]
        self._backend = Process(
            [*command("pos.backend"), *flags], self.folder / "backend.log", {VARIABLE: str(self.file)}
        )  # fmt: skip
        self._backend.wait_for_port(port)
        return port

    def check(self) -> None:
        """All that was started runs.

        Raises:
            StartFailed: a worker or the backend has ended.
        """
        parts = {**self.workers, **({"backend": self._backend} if self._backend else {})}
        for label, process in parts.items():
            if not process.running():
                raise StartFailed(f"run {label}: it has ended, expected it to stay; it said:\n{process.said()}")

    def end(self) -> None:
        """Ends every process, and removes a temporary folder. Idempotent."""
        for process in (self._backend, *self.workers.values(), *self._merchants.values()):
            if process is not None:
                process.end(0.2)
        if self._app is not None:
            self._app.close()
            self._app = None
        # Queues that nobody will read need not be written.
        self.broker.end(0.0) if self._temporary else self.broker.end()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> int:
    """A site by itself: stays until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m pos.site", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--folder", type=Path, help="where logs, journal and queues are kept (a temporary one)")
    add("--port", type=int, default=0, help="of the backend and its page (a free one)")
    add("--worker", default="gevent-200", choices=[_NO_WORKER, *CONTENDERS], help="takes orders (gevent-200)")
    add("--divert-to", default=OURS, choices=[_NO_WORKER, *CONTENDERS], help="gets the diverted orders (greenlane)")
    add("--merchants", default=",".join(MERCHANTS), help="some of them, with commas (all ten)")
    add("--per-s", type=float, default=10.0, help="generated orders; 0 = none (10)")
    add("--queues", default="classic", choices=("classic", "quorum"), help="RabbitMQ's kind of queue (classic)")
    given = parser.parse_args(argv)
    try:
        merchants = _checked(given)
        # Asked to end in whatever way, it ends what it has started.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            _stay(given, merchants)
    except (GreenlaneError, StartFailed) as error:
        _said(str(error))
        return error.exit_code
    return 0


def _checked(given: argparse.Namespace) -> list[str]:
    """The merchants. Raises SettingsError."""
    attempted = "start the site"
    if not 0 <= given.per_s <= MOST_PER_S:
        raise SettingsError("--per-s", given.per_s, f"0 to {MOST_PER_S:g}", attempted=attempted)
    if not 0 <= given.port <= _LAST_PORT:
        raise SettingsError("--port", given.port, f"0 to {_LAST_PORT}; 0 = a free one", attempted=attempted)
    merchants: list[str] = given.merchants.split(",")
    if not set(merchants) <= set(MERCHANTS) or len(set(merchants)) < len(merchants):
        rule = f"some of {', '.join(MERCHANTS)}, each once, with commas"
        raise SettingsError("--merchants", given.merchants, rule, attempted=attempted)
    if given.folder is not None and given.folder.exists() and not given.folder.is_dir():
        raise SettingsError("--folder", str(given.folder), "a folder, or a name that is free", attempted=attempted)
    return merchants


def _stay(given: argparse.Namespace, merchants: Sequence[str]) -> None:
    _said("starting the broker and the merchants …")
    diverts = given.divert_to != _NO_WORKER
    with Site(Plan(merchants, queue_kind=given.queues, cancels=True, diverts=diverts), given.folder) as site:
        if given.worker != _NO_WORKER:
            site.start_worker(given.worker)
        if diverts:
            site.start_worker(given.divert_to, DIVERTED, f"{given.divert_to}-diverted")
        port = site.start_backend(given.port, given.per_s)
        sys.stdout.write(f"http://127.0.0.1:{port}/\n")
        sys.stdout.flush()
        _said(f"the page is at http://127.0.0.1:{port}/; workers of your own: {VARIABLE}={site.file}")
        while True:
            site.check()
            time.sleep(_CHECK_S)


def _said(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
