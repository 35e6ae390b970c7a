"""A real Ray of one machine, without a dashboard, that nobody else can use: it asks for a token."""

from __future__ import annotations

import secrets
import signal
import sys
from pathlib import Path

import pytest

from tests import child
from tests.servers.server import Server
from tests.where import IMPORT_PATH


class Ray(Server):
    """A head node with this many CPUs. A client needs `environment` in its own."""

    name = "Ray"

    def __init__(self, cpus: int = 4) -> None:
        """CPUs are what Ray gives away, not what the machine has."""
        super().__init__()
        self._cpus = cpus
        self._client_port = child.free_port()
        self.environment = {
            # It listens on all addresses, whatever the options say.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DISABLE_IMPORT_WARNING": "1",
        }

    @property
    def address(self) -> str:
        """What `ray.init(address=...)` takes."""
        return f"127.0.0.1:{self.port}"

    def launch(self) -> child.Child:
        """Start the process; the others of Ray's are in its group, and end with it."""
        program = Path(sys.executable).with_name("ray")
        if not program.exists():
            pytest.skip("Ray is not installed: pip install 'greenlane[ray]'")
        options = {
            "port": self.port,
            "ray-client-server-port": self._client_port,
            "num-cpus": self._cpus,
            "object-store-memory": 100_000_000,
            "temp-dir": self.folder,
            "include-dashboard": "false",
            "include-log-monitor": "false",
        }
        flags = [f"--{name}={value}" for name, value in options.items()]
        command: list[str | Path] = [program, "start", "--head", "--block", *flags]
        # Its own way to end takes half a minute.
        return child.Child(
            command, cwd=self.folder, env={**self.environment, "PYTHONPATH": IMPORT_PATH}, stop=signal.SIGKILL
        )

    def wait_ready(self) -> None:
        """Block until it answers."""
        self.process.wait_output("Ray runtime started", timeout_s=60)
