"""For the system tests: an upstream service, and WSGI servers with an application."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from greenlane.control import client as control
from tests import child
from tests.system import load
from tests.where import IMPORT_PATH, ROOT

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.system)
            item.add_marker(pytest.mark.timeout(150))


@pytest.fixture
def upstream() -> Iterator[str]:
    """URL of an upstream service with no effects yet."""
    port = child.free_port()
    with child.Child([sys.executable, "-m", "tests.system.apps.upstream", str(port)], cwd=ROOT) as server:
        server.wait_port(port)
        yield f"http://127.0.0.1:{port}"


HOSTS = {
    # Brings Greenlane itself: the application is unchanged.
    "worker": "gunicorn -k greenlane.hosts.gunicorn.Worker --threads 16 -b 127.0.0.1:{port} {plain}",
    # The middleware under any threaded server.
    "gthread": "gunicorn -k gthread --threads 16 --keep-alive 5 -b 127.0.0.1:{port} {wrapped}",
    "waitress": "waitress --threads=16 --listen=127.0.0.1:{port} {wrapped}",
    "cheroot": "cheroot --threads 16 --bind 127.0.0.1:{port} {wrapped}",
    "granian": "granian --interface wsgi --workers 1 --blocking-threads 16 --host 127.0.0.1 --port {port} {wrapped}",
}


@dataclass
class Served:
    """An application behind a real server."""

    host: str
    port: int
    control_dir: Path
    process: child.Child

    def counters(self) -> dict[str, int]:
        """Counters of all its processes, added up."""
        total: dict[str, int] = {}
        for process in control.processes(self.control_dir):
            for name, value in control.ask(process.socket, {"do": "show"})["counters"].items():
                total[name] = total.get(name, 0) + value
        return total

    def set_mode(self, mode: str) -> None:
        """Switch all its processes live."""
        for process in control.processes(self.control_dir):
            control.ask(process.socket, {"do": "mode", "mode": mode, "route": None})

    def settled_counters(self) -> dict[str, int]:
        """Counters once each granted permit is back; fails after 10 s."""
        end_s = time.monotonic() + 10
        while True:
            counted = self.counters()
            if counted["granted"] + counted["waited_granted"] == counted["released"]:
                return counted
            assert time.monotonic() < end_s, f"permits are missing: {counted}\n{self.process.output}"
            time.sleep(0.05)


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start an application under a host: `serve("worker", "orm_django", DATABASE_URL=...)`; ended with the test."""
    with contextlib.ExitStack() as running:

        def start(host: str, app: str, *, mode: str = "on", options: str = "", **environment: str) -> Served:
            port = child.free_port()
            # A short path: a Unix socket's may have 107 bytes.
            control_dir = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="greenlane-")))
            environment = {
                "APP": f"tests.system.apps.{app}",
                "GREENLANE_MODE": mode,
                "GREENLANE_CONTROL_DIR": str(control_dir),
                "PYTHONPATH": os.pathsep.join(filter(None, [IMPORT_PATH, os.environ.get("PYTHONPATH")])),
                **environment,
            }
            subprocess.run(
                [sys.executable, "-m", "tests.system.apps.prepare"],
                env={**os.environ, **environment},
                cwd=tmp_path,
                check=True,
            )
            names = {"plain": "tests.system.apps.plain:application", "wrapped": "tests.system.apps.wrapped:application"}
            module, *arguments = HOSTS[host].format(port=port, **names).split()
            command = [sys.executable, "-m", module, *options.split(), *arguments]
            process = running.enter_context(child.Child(command, env=environment, cwd=tmp_path))
            process.wait_port(port)
            _until_answered(port, process)
            return Served(host, port, control_dir, process)

        yield start


def _until_answered(port: int, process: child.Child) -> None:
    """A listener may be there before its workers are."""
    end_s = time.monotonic() + 20
    while True:
        try:
            if load.send(port, "/total", timeout_s=10)[0] == 200:
                return
        except OSError:
            pass
        assert time.monotonic() < end_s, process.output
        time.sleep(0.05)
