"""A RabbitMQ that faults strike: paused, asked how full its queues are, reached by a relay."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from greenlane_tools.lab.processes import StartFailed
from pos.broker import RabbitMQ, program


class Node(RabbitMQ):
    """A broker with the user guest. Cells may share it: what one does to it strikes all, but none while it reads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._down = threading.Lock()

    def kill(self) -> None:
        """SIGKILL; waits for whoever reads queues. `restart` must follow, from a thread that outlives the node."""
        self._taken()
        super().kill()

    def url_at(self, port: int) -> str:
        """Its default virtual host by another port: a relay's."""
        return self.url.replace(f":{self.port}/", f":{port}/")

    def restart(self) -> None:
        """Starts it after `kill`, with the queues that it had; comes back once it answers, after some 4 s."""
        self.start()
        self.wait_ready()
        self._down.release()

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """It runs, and nobody kills it in the block.

        Raises:
            StartFailed: it is not back within a minute.
        """
        self._taken()
        try:
            yield
        finally:
            self._down.release()

    def pause(self) -> None:
        """SIGSTOP: its connections stay and nothing answers."""
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def depths(self) -> dict[str, tuple[int, int]]:
        """Per queue: messages that wait, messages that some consumer has and has not acknowledged. About 0.7 s.

        Raises:
            StartFailed: the node does not answer.
        """
        said = self._ask("list_queues", "name", "messages_ready", "messages_unacknowledged")
        rows = (line.split("\t") for line in said.splitlines() if line)
        return {name: (int(ready), int(unacked)) for name, ready, unacked in rows}

    def _taken(self) -> None:
        if not self._down.acquire(timeout=60):
            raise StartFailed("read RabbitMQ's queues: it was killed and is not back after 60 s")

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
