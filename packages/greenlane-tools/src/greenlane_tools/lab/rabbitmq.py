"""What a RabbitMQ of one's own needs: its files, and the environment of its node and of an Erlang port mapper.

Nothing is started here: callers start and hold the processes (tests/servers, systems/pos). Erlang's default is one port
mapper for all nodes of a machine, which stays when they have ended; each of these has its own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Where Debian's package has the scripts without a wrapper: `rabbitmq_server-*/sbin`. Its own wrapper changes
#: user and folder.
DEBIAN: Final = Path("/usr/lib/rabbitmq/lib")
#: What a node writes to its log when it can be used, some 5 s after its start.
READY: Final = "Server startup complete"
# disk_free_limit: its default (50 MB free) would block publishers on a small disk silently.
_CONFIGURATION: Final = """\
listeners.tcp.1 = 127.0.0.1:{port}
num_acceptors.tcp = 2
log.console = true
log.console.level = info
log.file = false
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.absolute = 1GB
"""
_MANAGEMENT: Final = "management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n"
# Two schedulers, however many cores there are, that do not spin: the broker shall not take what is measured beside it.
_ERLANG: Final = "-noinput -start_epmd false +S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"


@dataclass(frozen=True)
class Node:
    """A broker with the user guest, on loopback."""

    #: Its configuration, queues and log. Absolute.
    folder: Path
    #: Of AMQP.
    port: int
    #: Between nodes and their tools.
    node_port: int
    mapper_port: int
    #: Of its HTTP interface; 0 = it has none.
    management_port: int = 0

    @property
    def url(self) -> str:
        """Its default virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def write(self) -> None:
        """Write its files into the folder, which is there."""
        text = _CONFIGURATION.format(port=self.port)
        if self.management_port:
            text += _MANAGEMENT.format(port=self.management_port)
        (self.folder / "rabbitmq.conf").write_text(text)
        (self.folder / "rabbitmq-env.conf").touch()
        (self.folder / "plugins").write_text("[rabbitmq_management].\n" if self.management_port else "[].\n")

    def environment(self) -> dict[str, str]:
        """Variables for node, port mapper and tools, to add to those that they need to run at all."""
        folder = str(self.folder)
        return {
            "HOME": folder,  # the cookie by which nodes trust each other
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # The same at each start, whatever its ports are: its queues are found by it.
            "RABBITMQ_NODENAME": "greenlane@localhost",
            "RABBITMQ_DIST_PORT": str(self.node_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/queues",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            # The script then becomes the node instead of waiting for it, so that the process id is the node's.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": _ERLANG,
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }
