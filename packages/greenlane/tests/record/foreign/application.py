"""The applications: what is installed, how each is started, what is asked of it.

Each has an environment of its own under `out/apps/` (or `TEST_APPLICATIONS`), made once by pip, with the CPython
that runs the tests and without Greenlane: `greenlane record` brings itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.where import ROOT

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

_INSTALL_S = 150.0


@dataclass(frozen=True)
class Application:
    """One of them. Versions are pinned: docs/applications.md says what was seen with them."""

    name: str
    requirements: tuple[str, ...]
    #: "{bin}" = scripts of its environment, "{port}" = where it listens, "{here}" = this folder.
    command: tuple[str, ...]
    #: Path -> route as it is named, in the order of the load.
    paths: Mapping[str, str]
    #: Answers as soon as the application is ready.
    first: str
    env: Mapping[str, str] = field(default_factory=dict)
    #: Of requests at a time; each has a connection of its own.
    together: int = 4
    #: Of each path.
    requests: int = 30
    #: Installed and tried by `make soak` only: what CI would wait for is pip.
    soak: bool = False

    def param(self) -> ParameterSet:
        """For parametrize."""
        return pytest.param(self, id=self.name, marks=[pytest.mark.soak] if self.soak else [])


_HTTPBIN = {
    "/get": "GET /get",
    "/bytes/2000": "GET /bytes/<int:n>",
    "/delay/0.05": "GET /delay/<delay>",
    "/gzip": "GET /gzip",
    "/json": "GET /json",
    "/stream/20": "GET /stream/<int:n>",
}
_GUNICORN = ("{bin}/gunicorn", "-b", "127.0.0.1:{port}")
# httpbin wants a greenlet below 3, which bounds gevent, which bounds gunicorn.
_HTTPBIN_FROM = ("httpbin==0.10.4", "gunicorn==23.0.0", "gevent==23.9.0.post1", "setuptools<81", "packaging")

APPLICATIONS: tuple[Application, ...] = (
    Application(
        "httpbin-gevent", _HTTPBIN_FROM, (*_GUNICORN, "-k", "gevent", "httpbin:app"), _HTTPBIN, "/get",
    ),
    Application(
        "httpbin-gthread", _HTTPBIN_FROM, (*_GUNICORN, "-k", "gthread", "--threads", "16", "httpbin:app"), _HTTPBIN,
        "/get",
    ),
    Application(
        "glances",
        ("glances[web]==4.5.8",),
        ("{bin}/glances", "-w", "-B", "127.0.0.1", "-p", "{port}", "--disable-check-update"),
        {
            "/api/4/status": "GET /api/4/status",
            "/api/4/cpu": "GET /api/4/{plugin}",
            "/api/4/mem": "GET /api/4/{plugin}",
            "/api/4/processlist": "GET /api/4/{plugin}",
        },
        "/api/4/status",
        soak=True,
    ),
    Application(
        "gns3",
        ("gns3-server==2.2.61",),
        ("{bin}/gns3server", "--local", "--host", "127.0.0.1", "--port", "{port}"),
        {
            "/v2/version": "GET /v2/version",
            "/v2/projects": "GET /v2/projects",
            "/v2/computes": "GET /v2/computes",
            "/v2/appliances": "GET /v2/appliances",
        },
        "/v2/version",
        soak=True,
    ),
)  # fmt: skip


#: Other tools around the same small service: they and the recording see every switch and call, each in its way.
_CHAINED_FROM = (
    "flask==3.1.3", "gunicorn==27.0.1", "gevent==26.9.0", "ddtrace==4.16.0", "opentelemetry-distro==0.66b1",
    "opentelemetry-instrumentation-flask==0.66b1", "opentelemetry-instrumentation-urllib3==0.66b1",
)  # fmt: skip
_CHAINED = {"/light": "GET /light", "/heavy": "GET /heavy"}
_SERVER = (*_GUNICORN, "-k", "gevent", "--chdir", "{here}", "chained_app:app")
_NO_AGENT = {
    "DD_TRACE_AGENT_URL": "http://127.0.0.1:9",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_PROFILING_ENABLED": "true",
}
_NO_EXPORTER = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
_MONITOR = {
    "GEVENT_MONITOR_THREAD_ENABLE": "true",
    "GEVENT_MONITOR_PRINT_BLOCKING_REPORTS": "true",
    "GEVENT_MAX_BLOCKING_TIME": "0.02",
}

CHAINS: tuple[Application, ...] = (
    Application(
        "chains-ddtrace", _CHAINED_FROM, ("{bin}/ddtrace-run", *_SERVER), _CHAINED, "/light", _NO_AGENT, soak=True,
    ),
    Application(
        "chains-opentelemetry", _CHAINED_FROM, ("{bin}/opentelemetry-instrument", *_SERVER), _CHAINED, "/light",
        _NO_EXPORTER, soak=True,
    ),
    Application("monitor", ("packaging", *_CHAINED_FROM[:3]), _SERVER, _CHAINED, "/light", _MONITOR),
)  # fmt: skip


class Missing(Exception):
    """It cannot be installed here: no network, or no wheel for this CPython."""


def environment(application: Application) -> Path:
    """Its scripts' folder; installs it if that was not done yet.

    Raises:
        Missing: pip failed; the message is its last line.
    """
    base = Path(os.environ.get("TEST_APPLICATIONS", ROOT / "out" / "apps"))
    key = application.name.partition("-")[0]
    folder = base / f"{key}-{sys.version_info[0]}.{sys.version_info[1]}"
    stamp = folder / "requirements.json"
    wanted = json.dumps(application.requirements)
    if not (stamp.exists() and stamp.read_text() == wanted):
        # By our own pip: theirs, and the bytecode of what nothing imports, would take longer than the packages.
        venv.create(folder, with_pip=False, clear=True)
        command: Sequence[str | Path] = [
            sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-compile",
            "--disable-pip-version-check", "--prefer-binary", *application.requirements,
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, timeout=_INSTALL_S, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            raise Missing(f"{application.name}: {error.stderr.strip().splitlines()[-1]}") from None
        except subprocess.TimeoutExpired:
            raise Missing(f"{application.name}: not installed within {_INSTALL_S:.0f} s") from None
        stamp.write_text(wanted)
    return folder / "bin"
