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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from greenlane.control import client as control
from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run.server import Server
from greenlane_tools.lab.scenario.parts import Contender
from greenlane_tools.lab.scenario.scenario import Scenario

STOCK = "stock"
AGAIN = "stock-again"
RECORD = "greenlane-record"
OFF = "greenlane-record-off"
_APP = "pricing:app"
_HERE = Path(__file__).parent

WORKERS: Mapping[str, tuple[str, ...]] = {"gthread-64": ("gthread", "--threads", "64"), "gevent": ("gevent",)}

# Nobody listens there: what would be sent is refused immediately.
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
    # In front of `PYTHON -m gunicorn`; "{bin}" = the environment's scripts, "{own}" = where it may write.
    before: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    app: str = ""
    # Called with the folder once the service serves.
    then: Callable[[Path], None] | None = None


def _switch_off(folder: Path) -> None:
    for process in control.processes(folder):
        control.ask(process.socket, {"do": "record", "on": False})


_RECORD = ("{bin}/greenlane", "record", "-o", "{own}/pricing.glr", "--")

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


@dataclass(frozen=True)
class Watched:
    """A server with a tool around it."""

    tool: Tool
    server: Server

    @property
    def folder(self) -> Path:
        """Where it may write."""
        return self.server.own

    def began(self) -> None:
        """Do what is to be done once it serves."""
        if self.tool.then is not None:
            self.tool.then(self.folder)


def watched(names: Iterable[str], worker: str, rivals: Path | None) -> Scenario:
    """The pricing scenario with these tools around it for contenders.

    Args:
        worker: one of `WORKERS`.
        rivals: the interpreter of the tools' environment; None = no tool needs it.
    """
    scenario = pricing()
    service = scenario.target()
    wrappers = tuple(str(path) for path in sorted((_HERE / "traced").glob("*_app.py")))
    services = tuple(
        replace(one, files=(*one.files, *wrappers)) if one is service else one for one in scenario.services
    )
    contenders = tuple(_contender(TOOLS[name], worker, rivals, service.command) for name in names)
    return replace(scenario, services=services, contenders=contenders, bounds=(), expectations=())


def _contender(tool: Tool, worker: str, rivals: Path | None, served: tuple[str, ...]) -> Contender:
    python = str(rivals) if tool.rival and rivals else sys.executable
    before = tuple(part.replace("{bin}", str(Path(python).parent)) for part in tool.before)
    gunicorn = tuple(tool.app if tool.app and part == _APP else part for part in served[1:])
    # Its control sockets lie in the contender's own folder: nobody else's are switched.
    env = {**tool.env, "GREENLANE_CONTROL_DIR": "{own}"} if tool.before == _RECORD else dict(tool.env)
    worker_class, *more = WORKERS[worker]
    arguments = ("--worker-class", worker_class, *more)
    return Contender(name=tool.name, arguments=arguments, env=env, command=(*before, python, *gunicorn))
