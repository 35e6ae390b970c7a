"""The store that a contender's workers share, as faults see it: a SQLite file on a small disk, or a server."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from .disk import SmallDisk
from .servers import Postgres, Redis


class Store(Protocol):
    """What every kind has."""

    @property
    def url(self) -> str:
        """As the setting `task_store` has it."""

    def running(self) -> contextlib.AbstractContextManager[None]:
        """It is there for the block."""


class File:
    """A SQLite file on a disk of its own."""

    def __init__(self, folder: Path) -> None:
        self.disk = SmallDisk(folder)
        self._file = folder / "store.db"

    @property
    def url(self) -> str:
        """As the setting `task_store` has it."""
        return f"sqlite:///{self._file}"

    def running(self) -> contextlib.AbstractContextManager[None]:
        """It is there for the block."""
        return self.disk.mounted()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Another process writes for the block: a backup, a shell that was left open."""
        with contextlib.closing(sqlite3.connect(self._file, isolation_level=None, timeout=10)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")


#: Kinds, by the name that a contender and a fault have for them; each is made of a folder of its own.
KINDS: Final[dict[str, Callable[[Path], Store]]] = {"sqlite": File, "redis": Redis, "postgres": Postgres}
#: Those of them that are `servers.Server`.
SERVERS: Final = ("redis", "postgres")
