"""Whom orders go through: stock Celery in each of its pools, and Greenlane; their command lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .children import Process
from .queueing import QUEUE
from .surroundings import VARIABLE

#: Without these a worker talks to its fellows, of which there are none.
_ALONE: Final = ("--without-gossip", "--without-mingle", "--without-heartbeat")
OURS: Final = "greenlane"


@dataclass(frozen=True)
class Contender:
    """A worker.

    Args:
        name: as rows call it.
        pool: Celery's name of its pool.
        slots: orders that it can be at work on at once.
    """

    name: str
    pool: str
    slots: int

    def command(self, queue: str = QUEUE) -> list[str]:
        """Argument vector of a worker on this queue."""
        options = ["-P", self.pool, "-c", str(self.slots), "-Q", queue, "-l", "WARNING", *_ALONE]
        return [sys.executable, "-m", "celery", "-A", "pos.worker", "worker", "-n", f"{self.name}@%h", *options]


STOCK: Final = (
    Contender("prefork-4", "prefork", 4),
    Contender("prefork-16", "prefork", 16),
    Contender("threads-100", "threads", 100),
    Contender("gevent-200", "gevent", 200),
)
CONTENDERS: Final[Mapping[str, Contender]] = {one.name: one for one in STOCK}


def start(contender: Contender, surroundings: Path, log: Path, queue: str = QUEUE) -> Process:
    """Starts a worker; does not wait for it.

    Args:
        contender: which.
        surroundings: the file that says where everything is.
        log: where it writes what it has to say.
        queue: from which it takes orders.
    """
    added = {VARIABLE: str(surroundings), "PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", "default")}
    if os.geteuid() == 0:
        # Celery warns whoever is root; in a container everybody is.
        added["C_FORCE_ROOT"] = "1"
    return Process(contender.command(queue), log, added)
