"""The store that a contender's workers share, as faults see it: a SQLite file on a small disk, or a server."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

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


# --- A small disk for the store, which a fault fills: a file system in memory for root, else a limit on files' sizes.

_SIZE_MB: Final = 32
_CHUNK: Final = b"\0" * (1 << 16)


class SmallDisk:
    """A folder that can be full.

    Without root it is a usual folder, and `fill` forbids the workers to make any file longer than it is: they then
    meet EFBIG where a full disk gives ENOSPC.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        self._mounted = False

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Made for the block."""
        self.folder.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={_SIZE_MB}m", "pos-small-disk", str(self.folder)]
        self._mounted = os.geteuid() == 0 and not subprocess.run(["mount", *options], check=False).returncode
        try:
            yield
        finally:
            if self._mounted:
                subprocess.run(["umount", "--lazy", str(self.folder)], check=False)

    def fill(self, pids: Iterable[int]) -> None:
        """From now on nothing more can be written; `pids` are the workers."""
        if self._mounted:
            with self._ballast.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
                while ballast.write(_CHUNK):
                    pass
            return
        longest = max((file.stat().st_size for file in self.folder.iterdir()), default=0)
        self._limit(pids, longest)

    def free(self, pids: Iterable[int]) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)
        if not self._mounted:
            self._limit(pids, resource.RLIM_INFINITY)

    def _limit(self, pids: Iterable[int], size: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
