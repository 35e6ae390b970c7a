"""The place where contenders meet: the upstream service and every contender's servers, up at the same time."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.demo.contenders import Contender, Server, Service, environment
from greenlane.demo.rates import ENDPOINTS
from greenlane.errors import HostError
from greenlane.lab import processes

_UPSTREAM_MS: Final = 100
_UPSTREAM_START_S: Final = 15.0
LIGHT: Final = frozenset(name for name, endpoint in ENDPOINTS.items() if endpoint.lane == "light")


@dataclass(frozen=True)
class Arena:
    """Everything that runs."""

    servers: Mapping[str, Server]
    upstream: processes.Child
    # What they serve.
    service: Service


@contextlib.contextmanager
def upstream() -> Iterator[tuple[processes.Child, str]]:
    """The upstream service on loopback: the process and its host:port."""
    port = processes.free_port()
    command = [sys.executable, "-m", "greenlane.demo.upstream", str(port), str(_UPSTREAM_MS)]
    child = processes.Child(command, environment(), subprocess.DEVNULL, Path.cwd())
    try:
        if not processes.wait_for_port(port, child, _UPSTREAM_START_S):
            raise HostError("start the upstream service", name="port", value=port, rule="a free port of 127.0.0.1")
        yield child, f"127.0.0.1:{port}"
    finally:
        child.end()


@contextlib.contextmanager
def opened(contenders: Iterable[Contender], service: Service | None, iterations_per_ms: int) -> Iterator[Arena]:
    """Starts the upstream service and all contenders, and ends them whatever happens.

    Args:
        service: what they serve; None = the pricing service, from a folder of its own, so that it imports nothing of
            Greenlane unless the contender does.
        iterations_per_ms: work.iterations_per_ms() of this run; handed to the service by its environment.
    """
    with contextlib.ExitStack() as stack:
        child, address = stack.enter_context(upstream())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="greenlane-demo-")))
        base = service or pricing_service(folder)
        env = {**base.env, "PRICING_UPSTREAM": address, "PRICING_ITERATIONS_PER_MS": str(iterations_per_ms)}
        ready = Service(base.app, base.folder, base.light, env)
        servers = {one.name: Server(one, ready) for one in contenders}
        for server in servers.values():
            stack.push(server)
            server.launch()
        for server in servers.values():
            server.wait_ready()
        yield Arena(servers, child, ready)


def pricing_service(folder: Path) -> Service:
    """The pricing service as a single file copied into `folder`."""
    shutil.copy(Path(__file__).with_name("pricing.py"), folder)
    return Service("pricing:app", folder, LIGHT)


def missing_packages() -> list[str]:
    """Packages of the extra `demo` that cannot be imported."""
    import importlib.util

    return [name for name in ("flask", "gunicorn", "gevent", "numpy") if importlib.util.find_spec(name) is None]
