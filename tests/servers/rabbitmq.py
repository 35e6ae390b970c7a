"""A real RabbitMQ node with an Erlang port mapper of its own."""

from __future__ import annotations

import os

from tests import child
from tests.servers.server import Server, find

__all__ = ["RabbitMQ"]

# Erlang's own default is port 4369, shared by all nodes of a machine and left behind by them.
_CONFIGURATION = """\
listeners.tcp.1 = 127.0.0.1:{port}
num_acceptors.tcp = 2
log.console = true
log.console.level = info
log.file = false
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.absolute = 1GB
"""
# +S: two schedulers, however many cores there are.
_NODE = "-noinput -start_epmd false +S 2:2 -kernel inet_dist_use_interface {127,0,0,1}"
_MANAGEMENT = "management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n"


class RabbitMQ(Server):
    """An empty broker with the user guest; ready about 5 s after its start."""

    name = "RabbitMQ"

    def __init__(self, *, management: bool = False) -> None:
        """`management`: also its HTTP interface, at `management_url`."""
        super().__init__()
        self._node_port = child.free_port()
        self._mapper_port = child.free_port()
        self._management_port = child.free_port() if management else 0
        self._mapper: child.Child | None = None

    @property
    def url(self) -> str:
        """Its default virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    @property
    def management_url(self) -> str:
        """Its HTTP interface, if asked for."""
        assert self._management_port, "RabbitMQ(management=True) has one"
        return f"http://guest:guest@127.0.0.1:{self._management_port}"

    def prepare(self) -> None:
        """Write the configuration."""
        text = _CONFIGURATION.format(port=self.port)
        if self._management_port:
            text += _MANAGEMENT.format(port=self._management_port)
        (self.folder / "rabbitmq.conf").write_text(text)
        (self.folder / "rabbitmq-env.conf").touch()
        (self.folder / "plugins").write_text("[rabbitmq_management].\n" if self._management_port else "[].\n")

    def launch(self) -> child.Child:
        """Start the port mapper and the node."""
        script = find("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server", name=self.name)
        folder = str(self.folder)
        environment = {
            "HOME": folder,  # the cookie by which nodes trust each other
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"greenlane{self._node_port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            # The script then becomes the node instead of waiting for it, so that the process id is the node's.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": _NODE,
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }
        self._mapper = child.Child([find("epmd", name=self.name), "-port", str(self._mapper_port)], env=environment)
        self._mapper.wait_port(self._mapper_port)
        return child.Child([script], env=environment, cwd=self.folder)

    def wait_ready(self) -> None:
        """Block until it answers."""
        self.process.wait_output("Server startup complete", timeout_s=60)

    def stop(self) -> None:
        """End the node, then its port mapper."""
        super().stop()
        if self._mapper is not None:
            self._mapper.end()
            self._mapper = None
