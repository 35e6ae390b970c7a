"""A RabbitMQ node and a Redis of our own, from Debian's packages: on loopback, in a folder, killed and started at will.

with RabbitMQ(folder) as broker:
    broker.url                     # amqp://…
    broker.kill(); broker.start()  # the same port, and what was on its disk
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from greenlane.errors import PlatformError

from .children import Process, StartFailed, free_port

# Erlang's own port mapper is one for all nodes of a machine, at port 4369, and outlives them: ours is not.
_NODE: Final = "-noinput -start_epmd false +S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"
_CONFIGURATION: Final = """\
listeners.tcp.1 = 127.0.0.1:{port}
num_acceptors.tcp = 2
heartbeat = {heartbeat_s}
log.console = true
log.console.level = info
log.file = false
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.absolute = 1GB
"""
_SCRIPTS: Final = "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin"


class Node:
    """What both have in common. A context manager: started on entry, ended on exit."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()

    @property
    def process(self) -> Process:
        """What runs, or ran last."""
        assert self._process is not None, "not started"
        return self._process

    def start(self) -> None:
        """Starts it with what its folder holds; comes back once it answers (RabbitMQ: about 4 s)."""
        raise NotImplementedError

    def kill(self) -> None:
        """SIGKILL: what was not on the disk is gone."""
        self.process.kill()

    def pause(self) -> None:
        """SIGSTOP: its connections stay and nothing answers."""
        self.process.pause()

    def go_on(self) -> None:
        """SIGCONT."""
        self.process.go_on()

    def end(self) -> None:
        """SIGTERM, then SIGKILL. Idempotent."""
        if self._process is not None:
            self._process.go_on()
            self._process.end()


class RabbitMQ(Node):
    """A broker with the user guest.

    Args:
        folder: its disk.
        heartbeat_s: what it offers to clients; 60 is its own default.

    Raises:
        PlatformError: it is not installed.
    """

    def __init__(self, folder: Path, *, heartbeat_s: int = 60) -> None:
        super().__init__(folder)
        self._scripts = _found(sorted(Path("/").glob(_SCRIPTS)), "rabbitmq-server")
        self._epmd = _found([shutil.which("epmd")], "rabbitmq-server")
        self._heartbeat_s = heartbeat_s
        self._node_port, self._mapper_port = free_port(), free_port()
        self._mapper: Process | None = None

    @property
    def url(self) -> str:
        """Its default virtual host."""
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """The same by another port: a relay's."""
        return f"amqp://guest:guest@127.0.0.1:{port}//"

    def start(self) -> None:
        """Starts its port mapper when there is none, and the node; about 4 s."""
        self._written()
        if self._mapper is None:
            mapper: list[str | Path] = [self._epmd, "-port", str(self._mapper_port)]
            self._mapper = Process(mapper, self.folder / "epmd.log", self._environment())
            self._mapper.wait_for_port(self._mapper_port)
        command = [self._scripts / "rabbitmq-server"]
        self._process = Process(command, self.folder / "node.log", self._environment(), cwd=self.folder)
        self._process.wait_for_words("Server startup complete", 60)

    def end(self) -> None:
        """Ends the node, then its port mapper."""
        super().end()
        if self._mapper is not None:
            self._mapper.end()
            self._mapper = None

    def depths(self) -> dict[str, tuple[int, int]]:
        """Per queue: messages that wait, messages that some consumer has and has not acknowledged. About 1 s."""
        said = self.ctl("list_queues", "name", "messages_ready", "messages_unacknowledged")
        rows = (line.split("\t") for line in said.splitlines() if line)
        return {name: (int(ready), int(unacked)) for name, ready, unacked in rows}

    def ctl(self, *arguments: str) -> str:
        """What rabbitmqctl prints.

        Raises:
            StartFailed: it failed; most often because the node does not answer.
        """
        command = [str(self._scripts / "rabbitmqctl"), "--quiet", "--no-table-headers", "-n", self._name, *arguments]
        done = subprocess.run(
            command, env={**os.environ, **self._environment()}, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise StartFailed(f"asking RabbitMQ: {' '.join(arguments)}, exit status {done.returncode}\n{done.stderr}")
        return done.stdout

    @property
    def _name(self) -> str:
        return f"pos{self._node_port}@localhost"

    def _written(self) -> None:
        text = _CONFIGURATION.format(port=self.port, heartbeat_s=self._heartbeat_s)
        (self.folder / "rabbitmq.conf").write_text(text)
        (self.folder / "rabbitmq-env.conf").touch()
        (self.folder / "plugins").write_text("[].\n")

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        return {
            "HOME": folder,  # the cookie by which nodes and rabbitmqctl trust each other
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            # The script then becomes the node instead of waiting for it: signals reach the node.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": _NODE,
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }


class Redis(Node):
    """A Redis that writes each command to its disk before it answers (`appendfsync always`)."""

    @property
    def url(self) -> str:
        """Its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Starts it; about 0.05 s."""
        program = _found([shutil.which("redis-server")], "redis-server")
        options = f"--port {self.port} --bind 127.0.0.1 --save  --appendonly yes --appendfsync always".split(" ")
        log = self.folder / "redis.log"
        self._process = Process([program, *options, "--dir", str(self.folder)], log)
        self._process.wait_for_words("Ready to accept connections")


def _found(found: Sequence[Path | str | None], package: str) -> Path:
    if not found or found[-1] is None:
        raise PlatformError("start a broker", name=package, value=None, rule="it installed",
                            hint=f"apt-get install {package}")  # fmt: skip
    return Path(found[-1])
