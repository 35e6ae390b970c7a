"""gunicorn with an application, one worker of 64 threads, and what one request of it costs."""

from __future__ import annotations

import http.client
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.errors import ArgumentError
from greenlane_tools.lab.processes import Logged, cpu_ns, free_port

__all__ = ["Route", "Service", "check", "measured", "serve"]

#: gunicorn's worker class for each contender.
WORKERS: Final = {"stock": "gthread", "greenlane": "greenlane.hosts.gunicorn.Worker"}
_GREENLANE: Final = (sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")
_ATTEMPTED: Final = "try an application"
#: For the cost of one request of a route.
_MEASURED_S: Final = 0.5
_LEAST: Final = 3
#: Merging a recording takes a moment.
_END_S: Final = 20.0


@dataclass(frozen=True)
class Route:
    """One route under load."""

    path: str
    #: How often it is asked for, beside the others.
    weight: float = 1.0
    #: CPU of one request, and how long it takes alone.
    cpu_ms: float = 0.0
    alone_ms: float = 0.0


class Service(Logged):
    """A gunicorn that answers at `address`."""

    address = ""


def check(application: str) -> None:
    """Let gunicorn import it, in a process of its own. Raises ArgumentError: it cannot."""
    command = [sys.executable, "-m", "gunicorn", "--check-config", application]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        rule = f"MODULE:NAME that gunicorn can import ({done.stderr.strip().rpartition(chr(10))[2]})"
        hint = f"run it in the folder of the module (this one is {os.getcwd()}), as for gunicorn"
        module, colon, _ = application.partition(":")
        if not colon or "/" in module or module.endswith(".py"):
            hint = f"write {Path(module).name.removesuffix('.py').partition('.')[0]}:app, if it is called app there"
        raise ArgumentError("APP", application, rule, hint, attempted=_ATTEMPTED)


@contextmanager
def serve(application: str, contender: str, folder: Path, record: Path | None = None) -> Iterator[Service]:
    """Let gunicorn serve it meanwhile. Everything that was started ends with the block, and with this process.

    Args:
        application: MODULE:NAME.
        contender: of WORKERS.
        folder: for its log.
        record: the recording to make; it is whole after the block. None = none.

    Raises:
        StartFailed: it does not come up; the message has its last words.
    """
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "-k", WORKERS[contender], "--threads", "64", "--no-control-socket"]
    command += ["-b", f"127.0.0.1:{port}", "--log-level", "warning", "--graceful-timeout", "1", application]
    if record is not None:
        command = [*_GREENLANE, "record", "-o", str(record), "--", *command]
    # As for gunicorn, the current folder; and the greenlane that runs now.
    path = os.pathsep.join(path for path in (os.getcwd(), *sys.path) if path)
    service = Service(command, folder / f"{contender}.log", {"PYTHONPATH": path})
    service.address = f"127.0.0.1:{port}"
    try:
        service.wait_for_port(port, 30)
        yield service
    finally:
        service.end(_END_S)


def measured(service: Service, route: Route) -> Route:
    """The route with what one request of it costs, alone, on this service.

    Raises:
        ArgumentError: the application does not answer it well.
    """
    _, status = _ask(service, route.path)  # the first one may load and compile
    if status >= 400:
        rule = f"one that the application answers (it said {status})"
        hint = "name a path that a plain GET can ask for, as /items/1?page=2"
        if status == 500:
            hint = "ask it by hand; an ASGI application is for `greenlane record -- uvicorn APP`"
        raise ArgumentError("--route", route.path, rule, hint, attempted=_ATTEMPTED)
    pids, took_ms = service.pids(), list[float]()
    began_ns, until = cpu_ns(pids), time.monotonic() + _MEASURED_S
    while len(took_ms) < _LEAST or time.monotonic() < until:
        took_ms.append(_ask(service, route.path)[0])
    cpu_ms = (cpu_ns(pids) - began_ns) / 1e6 / len(took_ms)
    return Route(route.path, route.weight, cpu_ms, statistics.median(took_ms))


def _ask(service: Service, path: str) -> tuple[float, int]:
    began = time.monotonic()
    connection, status = http.client.HTTPConnection(service.address, timeout=30), 599
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        status = answer.status
    return (time.monotonic() - began) * 1000, status
