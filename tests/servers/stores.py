"""A real PostgreSQL with one superuser, without a password."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from greenlane_tools.lab.rabbitmq import DEBIAN, READY, Node
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


# --- A real Redis, without persistence.


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


# --- A real RabbitMQ node with an Erlang port mapper of its own.


class RabbitMQ(Server):
    """An empty broker with the user guest; ready about 5 s after its start."""

    name = "RabbitMQ"

    def __init__(self, *, management: bool = False) -> None:
        """`management`: also its HTTP interface, at `management_url`."""
        super().__init__()
        self._ports = child.free_port(), child.free_port(), child.free_port() if management else 0
        self._mapper: child.Child | None = None

    @property
    def _node(self) -> Node:
        return Node(self.folder, self.port, *self._ports)

    @property
    def url(self) -> str:
        """Its default virtual host."""
        return self._node.url

    @property
    def management_url(self) -> str:
        """Its HTTP interface, if asked for."""
        port = self._node.management_port
        assert port, "RabbitMQ(management=True) has one"
        return f"http://guest:guest@127.0.0.1:{port}"

    def prepare(self) -> None:
        """Write the configuration."""
        self._node.write()

    def launch(self) -> child.Child:
        """Start the port mapper and the node."""
        script = find(f"{DEBIAN}/rabbitmq_server-*/sbin/rabbitmq-server", name=self.name)
        node, environment = self._node, self._node.environment()
        self._mapper = child.Child([find("epmd", name=self.name), "-port", str(node.mapper_port)], env=environment)
        self._mapper.wait_port(node.mapper_port)
        return child.Child([script], env=environment, cwd=self.folder)

    def wait_ready(self) -> None:
        """Block until it answers."""
        self.process.wait_output(READY, timeout_s=60)

    def stop(self) -> None:
        """End the node, then its port mapper."""
        super().stop()
        if self._mapper is not None:
            self._mapper.end()
            self._mapper = None
