"""Redis and PostgreSQL that faults strike: each keeps what it has said that it has, over SIGKILL."""

from __future__ import annotations

import abc
import contextlib
import os
import pwd
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from greenlane.errors import PlatformError
from greenlane_tools.lab.processes import free_port
from pos.children import Process

#: PostgreSQL refuses root; the first of these that the machine knows has it then.
_USERS = ("postgres", "nobody")


class Server(abc.ABC):
    """A server on loopback with files of its own.

    Args:
        folder: its log; made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: Process | None = None

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """Its first database, as the setting `task_store` has it."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """It is there for the block.

        Raises:
            PlatformError: it is not installed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._files():
            try:
                self.start()
                yield
            finally:
                if self._process is not None:
                    self.go_on()
                    self._process.end()

    def start(self) -> None:
        """Starts it with what its files hold; comes back once it answers."""
        self._process = Process(self._command(), self.folder / "log", cwd=self._cwd())
        self._process.wait_for_port(self.port)

    def kill(self) -> None:
        """SIGKILL to it and all its processes."""
        self._running().kill()

    def pause(self) -> None:
        """SIGSTOP to it and all its processes: connections stay and nothing answers."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    @abc.abstractmethod
    def _command(self) -> list[str]:
        """The argument vector."""

    def _cwd(self) -> Path:
        return self.folder

    def _files(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def _running(self) -> Process:
        assert self._process is not None, "start it first"
        return self._process

    def _signal(self, number: int) -> None:
        for pid in self._running().pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class Redis(Server):
    """A Redis that has each command on its disk before it answers; up after some 0.05 s."""

    @property
    def url(self) -> str:
        """Its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        program = _installed("redis-server", "redis-server")
        return [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
                "--appendfsync", "always", "--dir", str(self.folder)]  # fmt: skip


class Postgres(Server):
    """A PostgreSQL with its defaults and one user without a password; up after some 2 s, again after 0.3 s."""

    @property
    def url(self) -> str:
        """Its first database."""
        return f"postgresql://pos@127.0.0.1:{self.port}/postgres"

    @contextlib.contextmanager
    def _files(self) -> Iterator[None]:
        # Not in `folder`, which PostgreSQL's user may not be allowed to enter.
        with tempfile.TemporaryDirectory(prefix="pos-postgres-", ignore_cleanup_errors=True) as place:
            self._place = Path(place)
            if user := _somebody():
                shutil.chown(place, user)
            made = Process([*self._as("initdb"), "-D", f"{place}/cluster", "-A", "trust", "-U", "pos", "--no-sync"],
                           self.folder / "log", cwd=self._place)  # fmt: skip
            if made.wait(60):
                raise PlatformError("make a PostgreSQL cluster", name="initdb", value=made.said(), rule="exit status 0")
            yield

    def _command(self) -> list[str]:
        settings = (f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self._place}")
        return [
            *self._as("postgres"),
            "-D",
            f"{self._place}/cluster",
            *(part for one in settings for part in ("-c", one)),
        ]

    def _cwd(self) -> Path:
        return self._place

    def _as(self, program: str) -> list[str]:
        """How a program of PostgreSQL's is started; by root, as somebody else, who still ends with us."""
        found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
        path = str(found[-1]) if found else _installed(program, "postgresql")
        user = _somebody()
        if not user:
            return [path]
        group = str(pwd.getpwnam(user).pw_gid)
        return [_installed("setpriv", "util-linux"), "--reuid", user, "--regid", group, "--clear-groups",
                "--pdeathsig", "KILL", path]  # fmt: skip


def _somebody() -> str:
    """Who runs what refuses root; "" when we are not root."""
    if os.geteuid():
        return ""
    known = {user.pw_name for user in pwd.getpwall()}
    return next(user for user in _USERS if user in known)


def _installed(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise PlatformError("start a server", name=program, value=None, rule="it to be installed",
                            hint=f"apt-get install {package}")  # fmt: skip
    return path


# --- The store that a contender's workers share, as faults see it: a SQLite file on a small disk, or a server.


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
