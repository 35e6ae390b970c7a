"""A situation: which service, served how, under which load; run with or without a recording around it.

    python -m tests.oncall.situation NAME [FILE]

runs one by hand: unrecorded it prints what the clients saw, with FILE it records into it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from celery import Celery
from tests.lanes.quotas import group
from tests.oncall.load import Clients, after, repeated, together
from tests.oncall.load import Seen as Answered

from tests import child
from tests.servers import Postgres, Redis
from tests.where import IMPORT_PATH

#: Length of the closed loop of 50 clients.
LOOP_S = 3.0
_FOLDER = Path(__file__).parent / "situations"
_GUNICORN = ("gunicorn", "-b", "127.0.0.1:{port}", "--no-control-socket", "--graceful-timeout", "2")
_GEVENT = (*_GUNICORN, "-k", "gevent")
_CELERY = ("celery", "-A", "{module}", "worker", "-l", "INFO")
_UVICORN = ("uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning")


@dataclass(frozen=True)
class Situation:
    """One of them."""

    #: Its module.
    name: str
    #: The server's command after `python -m`; "{port}" and "{module}" are filled in. Without the latter `MODULE:app`
    #: is its last word. Empty: the module serves itself.
    serve: tuple[str, ...]
    load: Callable[[Clients, Scene], None]
    #: Environment variable -> milliseconds that this upstream takes.
    upstreams_ms: Mapping[str, float] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    redis: bool = False
    postgres: bool = False
    #: Makes files in this folder, which is the service's working directory.
    prepare: Callable[[Path], None] | None = None
    #: CPU quota of the service; 0 = none.
    cores: float = 0
    #: What it prints when it serves; "" = its port says so.
    ready: str = ""
    #: What is changed in its source: (before, after).
    edits: tuple[tuple[str, str], ...] = ()
    #: These paths are served by a second server of the same command.
    split: tuple[str, ...] = ()
    #: Runs a second server of the same command beside it, which is never recorded.
    twin: bool = False
    #: Where its source is; outside of the situations' own folder it runs as `app`, from a copy.
    folder: Path = _FOLDER

    @property
    def source(self) -> Path:
        """The file of the service."""
        return self.folder / f"{self.name}.py"

    @property
    def copied(self) -> bool:
        """Whether it runs from its working directory."""
        return bool(self.edits) or self.folder != _FOLDER

    def command(self, port: int) -> list[str]:
        """As a user would type it after `python -m`."""
        module = "app" if self.copied else f"tests.oncall.situations.{self.name}"
        served = [part.format(port=port, module=module) for part in self.serve]
        if "{module}" in self.serve:
            return served
        return [*served, f"{module}:app"] if served else [module, str(port)]


@dataclass
class Scene:
    """What a load may need beside the service."""

    folder: Path
    server: child.Child | None = None
    redis_url: str = ""


@dataclass(frozen=True)
class Seen:
    """The result of a run."""

    clients: Clients
    #: What the service wrote.
    output: str


def run(situation: Situation, recording: Path | None, postgres: str = "") -> Seen:
    """Serves, loads and ends it; records into `recording` unless that is None.

    `postgres` is the URL of a database that is there; "" = one is started if the service needs it.
    """
    with contextlib.ExitStack() as stack:
        scene = Scene(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncall-"))))
        env = {
            "PYTHONPATH": os.pathsep.join(filter(None, [IMPORT_PATH, os.environ.get("PYTHONPATH")])),
            **situation.env,
        }
        for variable, milliseconds in situation.upstreams_ms.items():
            port = child.free_port()
            answering = [sys.executable, "-m", "greenlane_tools.demo.upstream", str(port), str(milliseconds)]
            stack.enter_context(child.Child(answering)).wait_port(port)
            env[variable] = f"http://127.0.0.1:{port}/"
        if situation.redis:
            env["REDIS_URL"] = scene.redis_url = stack.enter_context(Redis()).url
        if situation.postgres:
            env["DATABASE_URL"] = postgres or stack.enter_context(Postgres()).url
        if situation.prepare:
            situation.prepare(scene.folder)
        inside = stack.enter_context(group(situation.cores)) if situation.cores else None
        env["DATABASE"] = str(scene.folder / "orders.sqlite3")
        with sqlite3.connect(env["DATABASE"]) as database:
            database.execute("create table orders (number)")
        if situation.copied:
            (scene.folder / "app.py").write_text(_edited(situation), encoding="utf-8")
        port = child.free_port()
        into = ["sh", "-c", f'echo $$ > {inside}/cgroup.procs && exec "$@"', "sh"] if inside else []
        command = [*into, *_command(situation, port, recording)]
        server = stack.enter_context(child.Child(command, env=env, cwd=scene.folder))
        scene.server = server
        if situation.ready:
            server.wait_output(situation.ready)
        else:
            server.wait_port(port)
        clients = Clients(port)
        if situation.twin:
            twin = stack.enter_context(
                child.Child(_command(situation, child.free_port(), None), env=env, cwd=scene.folder)
            )
            twin.wait_output(situation.ready)
        if situation.split:
            elsewhere = child.free_port()
            beside = child.Child(_command(situation, elsewhere, None), env=env, cwd=scene.folder)
            stack.enter_context(beside).wait_port(elsewhere)
            clients.elsewhere = dict.fromkeys(situation.split, elsewhere)
        situation.load(clients, scene)
        server.signal(signal.SIGTERM)
        server.wait_exit(timeout_s=30)
        return Seen(clients, server.output)


def _edited(situation: Situation) -> str:
    source = situation.source.read_text(encoding="utf-8")
    for old, new in situation.edits:
        assert old in source
        source = source.replace(old, new)
    return source


def _command(situation: Situation, port: int, recording: Path | None) -> list[str | Path]:
    served: list[str | Path] = [sys.executable, "-m", *situation.command(port)]
    if recording is None:
        return served
    return [Path(sys.executable).with_name("greenlane"), "record", "-o", recording.absolute(), "--", *served]


def _dependency(clients: Clients, scene: Scene) -> None:
    clients.at_once("/price", "/report")  # the first request of a worker imports and resolves
    # While the first report computes (0.5 to 0.9 s), first the replies of all prices arrive, then those of the reports:
    # libev serves the last first. Clients have time enough on a machine of a third of the speed.
    together(
        lambda: clients.ask("/report"),
        after(0.25, lambda: clients.at_once(*["/report"] * 12)),
        after(0.405, lambda: clients.at_once(*["/price"] * 10)),
    )


def _tail(clients: Clients, scene: Scene) -> None:
    together(
        lambda: clients.paced("/offer", 15, 6),
        repeated(1.4, 3, lambda: clients.at_once(*["/export"] * 3)),
    )


def _queue(clients: Clients, scene: Scene) -> None:
    for _ in range(2):
        clients.at_once(*["/page"] * 20)


def _one_worker(clients: Clients, scene: Scene) -> None:
    # Workers that still import would be waited for, too.
    clients.at_once(*["/ping"] * 4)
    time.sleep(0.5)
    # Connections that are kept, as a proxy keeps them: some are with the worker that renders from then on.
    pings = [after(0.02 * number, lambda: clients.kept("/ping", 4, pause_s=0.2)) for number in range(10)]
    together(*pings, after(0.4, lambda: clients.kept("/render", 3.6)))


def _starving(clients: Clients, scene: Scene) -> None:
    together(
        lambda: clients.paced("/bike_price", 20, 4),
        lambda: clients.paced("/report", 6, 4),
        lambda: clients.paced("/quote", 6, 4),
    )


def _crowd(clients: Clients, scene: Scene) -> None:
    clients.loops("/offer", 50, LOOP_S)


def _stalls(clients: Clients, scene: Scene) -> None:
    together(
        lambda: clients.paced("/offer", 15, 4),
        repeated(0.7, 4, lambda: clients.ask("/stall")),
    )


def _now_and_then(clients: Clients, scene: Scene) -> None:
    together(
        lambda: clients.paced("/search", 20, 4),
        lambda: clients.paced(lambda number: f"/profile/{number + 1}", 10, 4),
    )


def _killed(clients: Clients, scene: Scene) -> None:
    clients.ask("/ping")  # the first request of a worker imports and resolves
    together(
        lambda: clients.paced("/ping", 20, 1),  # two at a time, whenever the export comes
        after(0.5, lambda: clients.ask("/export")),
    )
    assert scene.server is not None
    scene.server.wait_output("WORKER TIMEOUT")
    clients.ask("/ping")


def _no_error(clients: Clients, scene: Scene) -> None:
    clients.ask("/stock")
    for _ in range(2):
        together(
            lambda: clients.at_once(*["/stock"] * 8),
            after(0.08, lambda: clients.ask("/summary")),
        )


def _flicker(clients: Clients, scene: Scene) -> None:
    clients.paced("/offers", 5, 3)


def _executor(clients: Clients, scene: Scene) -> None:
    together(
        lambda: clients.paced("/ping", 25, 4),
        lambda: clients.paced("/rank", 5, 4),
    )


def _small_costs(clients: Clients, scene: Scene) -> None:
    clients.loops("/feed", 6, 4)


def _blamed(clients: Clients, scene: Scene) -> None:
    clients.ask("/hit")
    for _ in range(6):
        # While a report computes, three hits and another report come: the hits ask Redis, then that report computes.
        together(
            lambda: clients.ask("/report"),
            after(0.05, lambda: clients.at_once("/hit", "/hit", "/hit", "/report")),
        )
    clients.paced("/hit", 20, 1)


def _unpatched(clients: Clients, scene: Scene) -> None:
    def locked() -> None:
        with contextlib.closing(sqlite3.connect(scene.folder / "orders.sqlite3", isolation_level=None)) as database:
            database.execute("begin immediate")
            order = threading.Thread(target=lambda: clients.ask("/order"))
            order.start()
            time.sleep(0.3)
            database.execute("rollback")
            order.join()

    together(lambda: clients.paced("/ping", 25, 3), repeated(0.3, 4, locked))


def _orders(clients: Clients, scene: Scene) -> None:
    sent = []
    with Celery(broker=scene.redis_url, backend=scene.redis_url) as orders:
        began_s = time.monotonic()
        for number in range(72):
            due_s = began_s + number / 12
            time.sleep(max(0.0, due_s - time.monotonic()))
            sent.append((due_s, orders.send_task("send")))
        clients.seen += [Answered("send", 200, order.get(timeout=40) - due_s) for due_s, order in sent]


def _steady(clients: Clients, scene: Scene) -> None:
    together(lambda: clients.paced("/offer", 20, 4), lambda: clients.paced("/export", 1, 4))


_MONITOR = {"GEVENT_MONITOR_THREAD_ENABLE": "1", "GEVENT_MAX_BLOCKING_TIME": "0.1"}


SITUATIONS: Mapping[str, Situation] = {
    "q01": Situation("q01_dependency", _GEVENT, _dependency, {"UPSTREAM": 110, "STORE": 500}),
    "q02": Situation("q02_tail", (*_GUNICORN, "--threads", "16"), _tail, {"UPSTREAM": 20}),
    "q03": Situation("q03_queue", (*_GUNICORN, "-k", "sync"), _queue, {"UPSTREAM": 60}),
    "q04": Situation("q04_one_worker", (*_GEVENT, "-w", "2"), _one_worker),
    "q09": Situation("q09_starving", _UVICORN, _starving),
    "q11-crowd": Situation("q11_monitor", _GEVENT, _crowd, env=_MONITOR),
    "q11-stalls": Situation("q11_monitor", _GEVENT, _stalls, env=_MONITOR),
    "q12": Situation("q12_now_and_then", _UVICORN, _now_and_then, {"UPSTREAM": 600}),
    "q13": Situation("q13_killed", (*_GEVENT, "--timeout", "3"), _killed),
    "q14": Situation("q14_no_error", _GEVENT, _no_error, {"UPSTREAM": 200}),
    "q17": Situation("q17_benchmark", _GEVENT, _crowd),
    "q18": Situation(
        "q18_flicker", (*_GUNICORN, "--threads", "16"), _flicker,
        {"UPSTREAM_BIKE": 40, "UPSTREAM_SCOOTER": 60, "UPSTREAM_TRANSIT": 800},
    ),
    "q20": Situation("q20_slots", (*_CELERY, "-c", "3"), _orders, redis=True, ready="ready\\."),
    "q22": Situation("q22_executor", (), _executor),
    "q24": Situation("q24_small_costs", (*_GUNICORN, "--threads", "16"), _small_costs),
    "q25": Situation("q25_blamed", _GEVENT, _blamed, redis=True),
    "q26": Situation("q26_unpatched", _GEVENT, _unpatched),
    "q27": Situation("q04_one_worker", (*_GEVENT, "-w", "4"), _one_worker),
    "q30": Situation("q02_tail", (*_GUNICORN, "--threads", "16"), _steady, {"UPSTREAM": 20}),
}  # fmt: skip


def main(argv: list[str]) -> int:
    """Run one, and print what its clients saw."""
    recording = Path(argv[1]) if len(argv) > 1 else None
    if recording is not None:
        recording.unlink(missing_ok=True)
    seen = run(SITUATIONS[argv[0]], recording)
    for path in sorted({one.path.rstrip("0123456789") for one in seen.clients.seen}):
        wanted = [one for one in seen.clients.seen if one.path.startswith(path)]
        answered = seen.clients.of(path)
        times = [f"{seen.clients.share(path, at) * 1000:.0f} ms" for at in (0.5, 0.99)] if answered else []
        print(f"{path:<14} {len(answered)} of {len(wanted)} answered, p50 and p99: {' '.join(times)}")
    if len(argv) > 2:
        print(seen.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
