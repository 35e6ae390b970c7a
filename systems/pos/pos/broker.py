"""A RabbitMQ of our own: on loopback, in a temporary folder, with an Erlang port mapper of its own.

    with RabbitMQ(folder) as broker: Celery(broker=broker.url)

Whoever runs another RabbitMQ on this machine is not disturbed, and nothing is left behind.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, Self

from greenlane.errors import PlatformError

from .children import Process, StartFailed, free_port

# disk_free_limit: its default (50 MB free) would block publishers on a small disk without a word.
_CONFIGURATION: Final = """\
listeners.tcp.1 = 127.0.0.1:{port}
num_acceptors.tcp = 2
log.console = true
log.console.level = info
log.file = false
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.absolute = 1GB
"""
# Two schedulers that do not spin: the broker shall not take what is measured beside it.
_NODE: Final = "-noinput -start_epmd false +S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"
#: Where Debian's package has the scripts that do as they are told.
DEBIAN: Final = Path("/usr/lib/rabbitmq/lib")
_READY: Final = "Server startup complete"
# What it writes before any order, some 5 MB, and the orders of a run.
_ROOM_MB: Final = 50
# A free port may be another program's before it is ours.
_STARTS: Final = 3
_REASON: Final = re.compile(r"BOOT FAILED\s*\n(?:.*\n){0,12}")
# A node that still has to write its queues gets so long to do it.
_END_S: Final = 10.0


class RabbitMQ:
    """A broker with the user guest; ready some 5 s after its start. It keeps its queues over a crash.

    Args:
        folder: its configuration, queues and log; made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.port = free_port()
        self._node_port = free_port()
        self._mapper_port = free_port()
        self._mapper: Process | None = None
        self._node: Process | None = None

    @property
    def url(self) -> str:
        """Its default virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    @property
    def pid(self) -> int:
        """The node's process id; 0 when it was not started."""
        return self._node.pid if self._node else 0

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_started()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()

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
        (self.folder / "rabbitmq.conf").write_text(_CONFIGURATION.format(port=self.port))
        (self.folder / "rabbitmq-env.conf").touch()
        (self.folder / "plugins").write_text("[].\n")
        if self._mapper is None:
            command = [mapper, "-port", str(self._mapper_port)]
            self._mapper = Process(command, self.folder / "mapper.log", self._environment())
            self._mapper.wait_for_port(self._mapper_port)
        # Its readiness is read from the log: an earlier start's would be believed.
        log = self.folder / "node.log"
        log.unlink(missing_ok=True)
        self._node = Process([script], log, self._environment(), self.folder)

    def wait_ready(self) -> None:
        """Blocks until it has started.

        Raises:
            StartFailed: it ended, or nothing within a minute.
        """
        node = self._running()
        try:
            node.wait_until(lambda: _READY in node.log.read_text(errors="replace"), "the broker to be ready")
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
                self.port, self._node_port, self._mapper_port = free_port(), free_port(), free_port()
                self.start()

    def queues(self) -> list[str]:
        """The names of all queues. Costs a second of CPU: Erlang starts for it."""
        command = [_installed("rabbitmqctl"), "list_queues", "--quiet", "--no-table-headers", "name"]
        asked = subprocess.run(
            command, env={**os.environ, **self._environment()}, cwd=self.folder, timeout=60, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return asked.stdout.split()

    def kill(self) -> None:
        """It crashes."""
        self._running().kill()

    def signal(self, number: int) -> None:
        """SIGSTOP and SIGCONT, for example."""
        self._running().signal(number)

    def end(self, grace_s: float = _END_S) -> None:
        """It ends, then its port mapper. Idempotent. After `grace_s` it is killed: its queues may lack something."""
        if self._node is not None:
            self._node.end(grace_s)
        if self._mapper is not None:
            self._mapper.end()
            self._mapper = None

    def _running(self) -> Process:
        assert self._node is not None, "start the broker first"
        return self._node

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        return {
            "HOME": folder,  # the cookie by which nodes trust each other
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # The same at each start, whatever its ports are: its queues are found by it.
            "RABBITMQ_NODENAME": "pos@localhost",
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/queues",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            # The script becomes the node instead of waiting for it: the process that we started is the node.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": _NODE,
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }


def _why(log: str) -> str:
    """What a node that could not start says of it; "" = nothing."""
    found = _REASON.search(re.sub(r"^\S+ \S+ \[\w+\] <\S+> ?", "", log, flags=re.MULTILINE))
    return "\n".join(line for line in (found[0] if found else "").splitlines() if line.strip())


def installed() -> tuple[str, str]:
    """RabbitMQ's start script, and Erlang's port mapper.

    Raises:
        PlatformError: one of them is not there.
    """
    return _installed("rabbitmq-server"), _installed("epmd")


def _installed(program: str) -> str:
    # Debian's own wrapper changes user and folder: the script below it does what it is told.
    if program.startswith("rabbitmq"):
        found = sorted(DEBIAN.glob(f"rabbitmq_server-*/sbin/{program}"))
        if found:
            return str(found[-1])
    path = shutil.which(program, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if path is None:
        raise PlatformError("start RabbitMQ", name=program, value=None, rule="it to be installed",
                            hint="apt-get install rabbitmq-server")  # fmt: skip
    return path
