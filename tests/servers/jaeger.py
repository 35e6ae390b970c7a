"""A real Jaeger, all in one: takes OTLP, keeps traces in memory, answers its API.

Debian has none. It is built by name from the Go module proxy, once, into the user's cache: 140 s of CPU cold (70 s on
two free cores), 12 s where Go's caches are warm, 1 GB of sources and objects in those, a program of 50 MB. So only who
asks for it pays: `GREENLANE_JAEGER=build`, or the path of a program in that variable. v1.42.0 takes OTLP, and its
go.mod replaces nothing: `go install …@version` refuses one that does, as later releases' do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests import child
from tests.servers.server import Server

PACKAGE: Final = "github.com/jaegertracing/jaeger/cmd/all-in-one"
VERSION: Final = "v1.42.0"
_BUILD_S: Final = 900
_LOOK_S: Final = 0.05
#: What it listens on beside OTLP and its API; each gets a free port of loopback.
_PORTS: Final = (
    *("admin.http.host-port", "collector.grpc-server.host-port", "collector.http-server.host-port"),
    *("collector.otlp.grpc.host-port", "http-server.host-port", "query.grpc-server.host-port"),
    *("processor.jaeger-binary.server-host-port", "processor.jaeger-compact.server-host-port"),
    "processor.zipkin-compact.server-host-port",
)

Trace = dict[str, Any]


class Jaeger(Server):
    """Jaeger as one process."""

    name = "Jaeger"

    def __init__(self) -> None:
        """Find free ports."""
        super().__init__()
        self._otlp_port = child.free_port()

    @property
    def endpoint(self) -> str:
        """What OTEL_EXPORTER_OTLP_ENDPOINT is set to, for OTLP over HTTP."""
        return f"http://127.0.0.1:{self._otlp_port}"

    def ask(self, path: str, **query: str) -> Any:
        """The `data` of an answer of its API, such as `ask("services")`."""
        url = f"http://127.0.0.1:{self.port}/api/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def trace(self, number: str, whole: Callable[[Trace], bool], seconds: float = 20.0) -> Trace:
        """The trace once it is whole: spans come in batches, from several processes."""
        until = time.monotonic() + seconds
        found: Trace
        while True:
            try:
                [found] = self.ask(f"traces/{number}")
            except urllib.error.HTTPError:
                found = {"spans": [], "processes": {}}
            if whole(found) or time.monotonic() > until:
                return found
            time.sleep(_LOOK_S)

    def launch(self) -> child.Child:
        """Start the process."""
        free = {name: child.free_port() for name in _PORTS}
        ports = {**free, "query.http-server.host-port": self.port, "collector.otlp.http.host-port": self._otlp_port}
        flags = [f"--{name}=127.0.0.1:{port}" for name, port in ports.items()]
        return child.Child([program(), "--collector.otlp.enabled=true", "--log-level=warn", *flags], cwd=self.folder)

    def wait_ready(self) -> None:
        """Block until it takes spans and answers."""
        self.process.wait_port(self._otlp_port)
        self.process.wait_port(self.port)


def program() -> str:
    """The path of a Jaeger; skips the test where there is none and nobody asked for it to be built."""
    asked = os.environ.get("GREENLANE_JAEGER", "")
    built = _kept() / f"jaeger-{VERSION}" / "all-in-one"
    if asked not in ("", "build"):
        return asked
    if built.exists():
        return str(built)
    if found := shutil.which("jaeger-all-in-one"):
        return found
    if not asked:
        pytest.skip("no Jaeger: GREENLANE_JAEGER=build builds it once (one to four minutes), or is the path of one")
    return _build(built)


def _build(built: Path) -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Jaeger, and no Go to build it with")
    built.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "GOBIN": str(built.parent), "GOFLAGS": "-buildvcs=false"}
    command = [go, "install", f"{PACKAGE}@{VERSION}"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-4000:]}"
    return str(built)


def _kept() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "greenlane"
