"""A real PostgreSQL with one superuser, without a password."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from tests import child
from tests.servers.server import Server, find, somebody


class Postgres(Server):
    """An empty PostgreSQL cluster; it refuses root, so root starts it as the user `postgres`, or `nobody`."""

    name = "PostgreSQL"

    def __init__(self, *options: str) -> None:
        """`options` are settings of the server: `"max_connections=5"`."""
        super().__init__()
        self._options = options
        self._user = somebody("postgres", "nobody")

    @property
    def url(self) -> str:
        """Its database `postgres`."""
        return f"postgresql://greenlane@127.0.0.1:{self.port}/postgres"

    def prepare(self) -> None:
        """Make the cluster."""
        initdb = Path(find("/usr/lib/postgresql/*/bin/initdb", "initdb", name=self.name)).resolve()
        self._binaries = initdb.parent
        if self._user:
            shutil.chown(self.folder, self._user)
        options = ["-A", "trust", "-U", "greenlane", "--no-sync", "-E", "UTF8"]
        command: list[str | Path] = [initdb, "-D", self.folder / "cluster", *options]
        with child.Child(command, cwd=self.folder, user=self._user) as making:
            assert making.wait_exit(timeout_s=60) == 0, making.output

    def launch(self) -> child.Child:
        """Start the process. Its sessions see by themselves when it is gone, and end."""
        own = (f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}", "fsync=off")
        command: list[str | Path] = [self._binaries / "postgres", "-D", self.folder / "cluster"]
        for setting in (*own, *self._options):
            command += ["-c", setting]
        # SIGINT: a fast shutdown. SIGTERM would wait for the tests' open connections.
        return child.Child(command, cwd=self.folder, user=self._user, stop=signal.SIGINT)

    def wait_ready(self) -> None:
        """Block until it answers."""
        self.process.wait_output("database system is ready to accept connections", timeout_s=30)
