"""A real Redis, without persistence."""

from __future__ import annotations

from tests import child
from tests.servers.server import Server, find


class Redis(Server):
    """An empty Redis."""

    name = "Redis"

    def __init__(self, *options: str) -> None:
        """`options` are added to its command line: `"--maxclients", "3"`."""
        super().__init__()
        self._options = options

    @property
    def url(self) -> str:
        """Its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def launch(self) -> child.Child:
        """Start the process."""
        port = ("--port", str(self.port), "--bind", "127.0.0.1")
        command = [find("redis-server", name=self.name), *port, "--save", "", "--appendonly", "no", *self._options]
        return child.Child(command, cwd=self.folder)

    def wait_ready(self) -> None:
        """Block until it answers."""
        self.process.wait_output("Ready to accept connections")
