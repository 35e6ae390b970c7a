"""How each tool is put around the pricing service: its command in front of gunicorn's, its environment, its wrapper.

stock                   gunicorn as it is
stock-again             the same in the rivals' environment: by how much two equal services differ
greenlane-record        `greenlane record -o FILE -- gunicorn …`
greenlane-record-off    the same, switched off live before the load
ddtrace-profiler        `ddtrace-run gunicorn …`, profiler on, tracing off; no agent, so uploads fail quickly
ddtrace                 the same with tracing on
opentelemetry           `opentelemetry-instrument gunicorn …` with Flask, requests and urllib3; spans exported nowhere
viztracer               tracer.start() in the worker, its default ring
yappi                   yappi.start() in the worker, CPU clock
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from greenlane import control
from greenlane.demo.contenders import Contender, Server, Service

STOCK = "stock"
AGAIN = "stock-again"
RECORD = "greenlane-record"
OFF = "greenlane-record-off"

WORKERS: Mapping[str, tuple[str, ...]] = {"gthread-64": ("gthread", "--threads", "64"), "gevent": ("gevent",)}

# Nobody listens there: what would be sent is refused at once.
_NOBODY = "http://127.0.0.1:9"
_DDTRACE = {
    "DD_PROFILING_ENABLED": "true",
    "DD_TRACE_ENABLED": "false",
    "DD_TRACE_AGENT_URL": _NOBODY,
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_SERVICE": "pricing",
}
_OPENTELEMETRY = {
    "OTEL_TRACES_EXPORTER": "none",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    "OTEL_SERVICE_NAME": "pricing",
}


@dataclass(frozen=True)
class Tool:
    """One way to watch the service."""

    name: str
    # Runs in the rivals' environment.
    rival: bool = True
    # In front of `PYTHON -m gunicorn`; "{bin}" = the environment's scripts, "{folder}" = where it may write.
    before: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    app: str = ""
    # Called with the folder once the service serves.
    then: Callable[[Path], None] | None = None


def _switch_off(folder: Path) -> None:
    for process in control.processes(folder):
        control.ask(process.socket, {"do": "record", "on": False})


_RECORD = ("{bin}/greenlane", "record", "-o", "{folder}/pricing.glr", "--")

TOOLS: Mapping[str, Tool] = {
    one.name: one
    for one in (
        Tool(STOCK, rival=False),
        Tool(AGAIN),
        Tool(RECORD, rival=False, before=_RECORD),
        Tool(OFF, rival=False, before=_RECORD, then=_switch_off),
        Tool("ddtrace-profiler", before=("{bin}/ddtrace-run",), env=_DDTRACE),
        Tool("ddtrace", before=("{bin}/ddtrace-run",), env={**_DDTRACE, "DD_TRACE_ENABLED": "true"}),
        Tool("opentelemetry", before=("{bin}/opentelemetry-instrument",), env=_OPENTELEMETRY),
        Tool("viztracer", app="viztracer_app:app"),
        Tool("yappi", app="yappi_app:app"),
    )
}


class Watched(Server):
    """A gunicorn with a tool around it."""

    def __init__(self, tool: Tool, worker: str, service: Service, rivals: Path | None, folder: Path) -> None:
        worker_class, *arguments = WORKERS[worker]
        # A socket's path may have 107 bytes: `folder` is short.
        env = {**tool.env, "GREENLANE_CONTROL_DIR": str(folder)} if tool.before == _RECORD else tool.env
        super().__init__(Contender(tool.name, worker_class, tuple(arguments), env, app=tool.app), service)
        self.tool = tool
        self._python = str(rivals) if tool.rival and rivals else sys.executable
        self.folder = folder

    def began(self) -> None:
        """Do what is to be done once it serves."""
        if self.tool.then is not None:
            self.tool.then(self.folder)

    def _command(self, port: int) -> list[str]:
        _, *gunicorn = super()._command(port)
        names = {"bin": str(Path(self._python).parent), "folder": str(self.folder)}
        return [*(part.format(**names) for part in self.tool.before), self._python, *gunicorn]
