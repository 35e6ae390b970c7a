"""What all servers have in common: found or skipped, a folder of their own, a process that is ended with the block."""

from __future__ import annotations

import abc
import contextlib
import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import Self

import pytest

from tests import child


class Server(abc.ABC):
    """One server process. `with Redis() as server:`; stopped and started again by `stop` and `start`."""

    #: As people call it.
    name: str

    def __init__(self) -> None:
        """Find free ports; nothing runs before the block."""
        self.port = child.free_port()
        self._block = contextlib.ExitStack()
        self._process: child.Child | None = None

    def __enter__(self) -> Self:
        """Start it; comes back once it answers."""
        with contextlib.ExitStack() as undone:
            folder = tempfile.TemporaryDirectory(prefix=f"greenlane-{self.name.lower()}-", ignore_cleanup_errors=True)
            self.folder = Path(undone.enter_context(folder))
            undone.callback(self.stop)
            self.prepare()
            self.start()
            self._block = undone.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._block.close()

    @property
    def process(self) -> child.Child:
        """The process that runs."""
        assert self._process is not None, f"{self.name} is stopped"
        return self._process

    @property
    def pid(self) -> int:
        """Process id of what runs."""
        return self.process.pid

    def start(self) -> None:
        """Start it, on the same port and with what its folder holds. Comes back once it answers."""
        assert self._process is None, f"{self.name} runs already"
        self._process = self.launch()
        self.wait_ready()

    def stop(self) -> None:
        """End it. Idempotent."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def prepare(self) -> None:  # noqa: B027 (most have nothing to prepare)
        """Fill the new folder."""

    @abc.abstractmethod
    def launch(self) -> child.Child:
        """Start the process."""

    def wait_ready(self) -> None:
        """Block until it answers."""
        self.process.wait_port(self.port)


def find(*programs: str, name: str) -> str:
    """The path of the first of `programs` (a name, or a pattern of paths) that is there; skips the test if none is."""
    for program in programs:
        if program.startswith("/"):
            found = sorted(Path("/").glob(program[1:]), key=_version)
            if found:
                return str(found[-1])
        elif path := shutil.which(program, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"):
            return path
    pytest.skip(f"{name} is not installed: `make test-system` installs it")


def somebody(*users: str) -> str:
    """Who runs a server that refuses root: the first of `users` that this machine knows; "" when we are not root."""
    if os.geteuid():
        return ""
    for name in users:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    pytest.skip(f"none of the users {users} is known here, and the server refuses root")


def _version(path: Path) -> list[int]:
    """The numbers of a path, so that version 15 comes after 9."""
    return [int(number) for number in "".join(c if c.isdigit() else " " for c in str(path)).split()]
