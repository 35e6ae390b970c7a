"""A real RabbitMQ node with an Erlang port mapper of its own."""

from __future__ import annotations

from greenlane_tools.lab.rabbitmq import DEBIAN, READY, Node
from tests import child
from tests.servers.server import Server, find


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
