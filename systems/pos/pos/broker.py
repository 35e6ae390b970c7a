"""A RabbitMQ of our own: on loopback, in a temporary folder, with an Erlang port mapper of its own.

    with RabbitMQ(folder) as broker: Celery(broker=broker.url)

Another RabbitMQ on this machine is not disturbed, and nothing is left behind.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

from greenlane.errors import PlatformError
from greenlane_tools.lab.processes import Block, StartFailed, free_port
from greenlane_tools.lab.rabbitmq import DEBIAN, READY, Node

from .children import Process

# What it writes before any order, some 5 MB, and the orders of a run.
_ROOM_MB: Final = 50
# A free port may be another program's before it is ours.
_STARTS: Final = 3
_REASON: Final = re.compile(r"BOOT FAILED\s*\n(?:.*\n){0,12}")
# A node that still has to write its queues gets so long to do it.
_END_S: Final = 10.0


class RabbitMQ(Block):
    """A broker with the user guest; ready some 5 s after its start. It keeps its queues over a crash.

    Args:
        folder: its configuration, queues and log; made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.port = free_port()
        self._ports = free_port(), free_port()
        self._mapper: Process | None = None
        self._process: Process | None = None

    @property
    def node(self) -> Node:
        """Its files, ports and environment, as they are now."""
        return Node(self.folder, self.port, *self._ports)

    @property
    def url(self) -> str:
        """Its default virtual host."""
        return self.node.url

    @property
    def pid(self) -> int:
        """The node's process id; 0 when it was not started."""
        return self._process.pid if self._process else 0

    def begin(self) -> None:
        """Starts it. Blocks until it is ready."""
        self.start()
        self.wait_started()

    def start(self) -> None:
        """Starts it, or starts it again on the same port with the queues that it had. Does not wait.

        Raises:
            PlatformError: it is not installed, or its folder has no room.
        """
        script, mapper = installed()
        self.folder.mkdir(parents=True, exist_ok=True)
        if (free_mb := shutil.disk_usage(self.folder).free / 1e6) < _ROOM_MB:
            raise PlatformError("start RabbitMQ", name="free_mb", value=round(free_mb, 1),
                                rule=f"{_ROOM_MB} or more for its queues in {self.folder}",
                                hint="make room there, or set TMPDIR to another folder")  # fmt: skip
        node = self.node
        node.write()
        if self._mapper is None:
            command = [mapper, "-port", str(node.mapper_port)]
            self._mapper = Process(command, self.folder / "mapper.log", node.environment())
            self._mapper.wait_for_port(node.mapper_port)
        # Its readiness is read from the log: an earlier start's would be believed.
        log = self.folder / "node.log"
        log.unlink(missing_ok=True)
        self._process = Process([script], log, node.environment(), self.folder)

    def wait_ready(self) -> None:
        """Blocks until it has started.

        Raises:
            StartFailed: it ended, or nothing within a minute.
        """
        node = self._running()
        try:
            node.wait_until(lambda: READY in node.log.read_text(errors="replace"), "the broker to be ready")
        except StartFailed:
            why = _why(node.log.read_text(errors="replace")) or node.said()
            raise StartFailed(f"start RabbitMQ: it ended, expected it to be ready; it said:\n{why}") from None

    def wait_started(self) -> None:
        """Blocks until its first start has succeeded: a port that another program took meanwhile is given up.

        Raises:
            StartFailed: it ended each time, or nothing within a minute.
        """
        for left in reversed(range(_STARTS)):
            try:
                return self.wait_ready()
            except StartFailed:
                if not left:
                    raise
                self.end()
                self.port, self._ports = free_port(), (free_port(), free_port())
                self.start()

    def pause(self) -> None:
        """SIGSTOP: its connections stay and nothing answers."""
        self._running().signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._running().signal(signal.SIGCONT)

    def depths(self) -> dict[str, tuple[int, int]]:
        """Per queue: messages that wait, messages that some consumer has and has not acknowledged. About 0.7 s.

        Raises:
            StartFailed: the node does not answer.
        """
        said = self._ask("list_queues", "name", "messages_ready", "messages_unacknowledged")
        rows = (line.split("\t") for line in said.splitlines() if line)
        return {name: (int(ready), int(unacked)) for name, ready, unacked in rows}

    def kill(self) -> None:
        """It crashes."""
        self._running().kill()

    def end(self, grace_s: float = _END_S) -> None:
        """It ends, then its port mapper. Idempotent. After `grace_s` it is killed: its queues may lack something."""
        if self._process is not None:
            self._process.end(grace_s)
        if self._mapper is not None:
            self._mapper.end()
            self._mapper = None

    def _running(self) -> Process:
        assert self._process is not None, "start the broker first"
        return self._process

    def _ask(self, *question: str) -> str:
        surroundings = {**os.environ, **self.node.environment()}
        name = surroundings["RABBITMQ_NODENAME"]
        command = [program("rabbitmqctl"), "--quiet", "--no-table-headers", "-n", name, *question]
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise StartFailed(
                f"ask RabbitMQ: exit status {done.returncode}, expected an answer; it said:\n{done.stderr}"
            )
        return done.stdout


def _why(log: str) -> str:
    """What a node that could not start says of it; "" = nothing."""
    found = _REASON.search(re.sub(r"^\S+ \S+ \[\w+\] <\S+> ?", "", log, flags=re.MULTILINE))
    return "\n".join(line for line in (found[0] if found else "").splitlines() if line.strip())


def installed() -> tuple[str, str]:
    """RabbitMQ's start script, and Erlang's port mapper.

    Raises:
        PlatformError: one of them is not there.
    """
    return program("rabbitmq-server"), program("epmd")


def program(name: str) -> str:
    """The path of one of RabbitMQ's or Erlang's programs.

    Raises:
        PlatformError: it is not there.
    """
    # Debian's own wrapper changes user and folder: the script below it does what it is asked.
    if name.startswith("rabbitmq"):
        found = sorted(DEBIAN.glob(f"rabbitmq_server-*/sbin/{name}"))
        if found:
            return str(found[-1])
    path = shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if path is None:
        raise PlatformError("start RabbitMQ", name=name, value=None, rule="it to be installed",
                            hint="apt-get install rabbitmq-server")  # fmt: skip
    return path
