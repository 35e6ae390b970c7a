"""Redis and PostgreSQL that faults strike: each keeps what it has said that it has, over SIGKILL."""

from __future__ import annotations

import abc
import contextlib
import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

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
