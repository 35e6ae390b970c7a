"""The store that a contender's workers share, as faults see it: a SQLite file on a small disk, or a Redis."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from greenlane.errors import PlatformError
from greenlane.lab.processes import free_port
from pos.children import Process

from .disk import SmallDisk


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
        self.disk = SmallDisk(folder / "disk")
        self._file = self.disk.folder / "store.db"

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


class Server:
    """A Redis that has each command on its disk before it answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "redis"
        self._port = free_port()
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """As the setting `task_store` has it."""
        return f"redis://127.0.0.1:{self._port}/0"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """It is there for the block.

        Raises:
            PlatformError: it is not installed.
        """
        self._folder.mkdir()
        try:
            self.start()
            yield
        finally:
            if self._process is not None:
                self._process.end()

    def start(self) -> None:
        """Starts it with what its disk holds; comes back once it answers, after some 0.05 s."""
        program = shutil.which("redis-server")
        if program is None:
            raise PlatformError("start a store", name="redis-server", value=None, rule="it to be installed",
                                hint="apt-get install redis-server")  # fmt: skip
        command = [program, "--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
        command += ["--appendfsync", "always", "--dir", str(self._folder)]
        self._process = Process(command, self._folder / "log")
        self._process.wait_for_port(self._port)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None, "start it first"
        self._process.kill()


#: Kinds, by the name that a contender and a fault have for them.
KINDS: dict[str, type[File] | type[Server]] = {"sqlite": File, "redis": Server}
