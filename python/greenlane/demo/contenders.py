"""The servers that are compared: one gunicorn worker each, the same application, started side by side.

    gevent             gunicorn -k gevent, monkey-patched
    gthread-64         gunicorn -k gthread --threads 64
    gthread-64-0.5ms   the same with sys.setswitchinterval(0.0005) in the application
    dedicated          two stock gunicorns -k gevent: the light endpoints have one for themselves, the rest the other.
                       One process more than everybody else: the operator's cure, and the mark to reach
    greenlane          gunicorn -k greenlane.hosts.gunicorn.Worker, nothing else changed

All run at once and idle while another has its turn: an idle worker costs no CPU worth counting, and none of them has
to start, import and warm up again before each of its turns.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final

from greenlane.errors import HostError
from greenlane.lab import processes

# Starting includes importing Flask and numpy on a machine that may be busy.
_START_S: Final = 20.0
# What a settled server may use of a core: gunicorn's heartbeats, no request.
_IDLE_FRAC: Final = 0.05
_LOOK_S: Final = 0.1


@dataclass(frozen=True)
class Contender:
    """One way to serve the application."""

    name: str
    worker_class: str
    # gunicorn's arguments besides the worker class.
    arguments: tuple[str, ...] = ()
    # What it adds to the application's environment.
    env: Mapping[str, str] = field(default_factory=dict)
    # Light endpoints are served by a gunicorn of their own.
    apart: bool = False
    # In place of the service's application; "" = unchanged.
    app: str = ""


@dataclass(frozen=True)
class Service:
    """The application that all of them serve."""

    # gunicorn's "module:callable", importable in `folder`.
    app: str
    folder: Path
    # Endpoints whose CPU phases are short: those that `dedicated` serves apart.
    light: frozenset[str]
    env: Mapping[str, str] = field(default_factory=dict)


_THREADS: Final = ("--threads", "64")

CONTENDERS: Final[Mapping[str, Contender]] = {
    one.name: one
    for one in (
        Contender("gevent", "gevent"),
        Contender("gthread-64", "gthread", _THREADS),
        Contender("gthread-64-0.5ms", "gthread", _THREADS, {"PRICING_SWITCH_INTERVAL_MS": "0.5"}),
        Contender("dedicated", "gevent", apart=True),
        Contender("greenlane", "greenlane.hosts.gunicorn.Worker", _THREADS),
    )
}

# Libraries under numpy that would start threads of their own: one worker is one core's worth for everybody.
_ONE_CORE: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Server:
    """A contender that serves: a context manager that starts it and ends it.

    Raises:
        HostError: it did not come up; the message ends with what it said.
    """

    def __init__(self, contender: Contender, service: Service) -> None:
        self.contender = contender
        self._service = service
        self._log = tempfile.TemporaryFile()
        self._children: list[processes.Child] = []
        self._ports: list[int] = []

    def __enter__(self) -> Server:
        try:
            self.launch()
            self.wait_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._log.close()

    def launch(self) -> None:
        """Starts its processes and does not wait for them: several contenders may import at the same time."""
        for _ in range(2 if self.contender.apart else 1):
            port = processes.free_port()
            child = processes.Child(self._command(port), self._environment(), self._log.fileno(), self._service.folder)
            self._children.append(child)
            self._ports.append(port)

    def wait_ready(self) -> None:
        """Waits until all of them listen."""
        for port, child in zip(self._ports, self._children, strict=True):
            if not processes.wait_for_port(port, child, _START_S):
                raise HostError(
                    "start a contender", name="contender", value=self.contender.name,
                    rule=f"a server on port {port} within {_START_S:.0f} s; it said:\n{self.said()}",
                    hint="leave it out with --contenders, or repair what it names",
                )  # fmt: skip

    def restart(self) -> None:
        """Ends it and starts it anew, on other ports."""
        self._end()
        self.launch()
        self.wait_ready()

    def address(self, endpoint: str) -> str:
        """host:port where this endpoint is served."""
        apart = self.contender.apart and endpoint in self._service.light
        return f"127.0.0.1:{self._ports[-1 if apart else 0]}"

    def pids(self) -> list[int]:
        """Every process of it: gunicorn's masters and workers."""
        return [pid for child in self._children for pid in child.pids()]

    def settle(self, seconds: float) -> bool:
        """Waits until it has nothing left to do; False when `seconds` pass first."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            before_ns = processes.cpu_ns(self.pids())
            time.sleep(_LOOK_S)
            if processes.cpu_ns(self.pids()) - before_ns < _IDLE_FRAC * _LOOK_S * 1e9:
                return True
        return False

    def said(self) -> str:
        """The last lines of its log."""
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-12:])

    def _end(self) -> None:
        for child in self._children:
            child.end()
        self._children.clear()
        self._ports.clear()

    def _command(self, port: int) -> list[str]:
        contender = self.contender
        return [
            sys.executable, "-m", "gunicorn", "--worker-class", contender.worker_class, "--workers", "1",
            "--bind", f"127.0.0.1:{port}", "--log-level", "warning", *contender.arguments, *_no_control_socket(),
            contender.app or self._service.app,
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {**environment(), **_ONE_CORE, **self._service.env, **self.contender.env}


def environment() -> dict[str, str]:
    """Our own environment for a child that runs in another folder: a relative PYTHONPATH stays what it was."""
    env = dict(os.environ)
    if path := env.get("PYTHONPATH"):
        env["PYTHONPATH"] = os.pathsep.join(str(Path(part).resolve()) for part in path.split(os.pathsep))
    return env


def named(names: Iterable[str]) -> list[Contender]:
    """The contenders of these names, in that order. Raises KeyError for an unknown one."""
    return [CONTENDERS[name] for name in names]


def _no_control_socket() -> list[str]:
    from gunicorn.config import KNOWN_SETTINGS

    known = any(setting.name == "control_socket_disable" for setting in KNOWN_SETTINGS)
    return ["--no-control-socket"] if known else []
