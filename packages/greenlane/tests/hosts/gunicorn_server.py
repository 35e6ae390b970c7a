"""A real gunicorn with our worker, and the few clients that its tests need."""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import child

HERE = Path(__file__).parent
WORKER = "greenlane.hosts.gunicorn.Worker"


@dataclass
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Server:
    """A running gunicorn."""

    process: child.Child
    address: Any
    folder: Path
    wrap: Callable[[socket.socket], socket.socket] = field(default=lambda sock: sock)

    def connect(self, timeout_s: float = 20) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET)
        sock.settimeout(timeout_s)
        sock.connect(self.address)
        return self.wrap(sock)

    def get(self, path: str = "/", *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        with self.connect() as sock:
            lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
            sock.sendall("\r\n".join([*lines, "", ""]).encode())
            return read_answer(sock, method)

    def send(self, data: bytes) -> bytes:
        """What comes back for these bytes until the server closes."""
        with self.connect() as sock:
            sock.sendall(data)
            return read_all(sock)

    def held(self, name: str, number: int, path: str = "/hold") -> list[InBackground]:
        """Start `number` requests that wait until `release(name)`; returns when all are in the application."""
        before = self.process.output.count(f"entered {self.folder / name}")
        started = [InBackground(lambda: self.get(f"{path}?{self.folder / name}")) for _ in range(number)]
        pattern = f"(entered {self.folder / name}[^$]*){{{before + number}}}"
        self.process.wait_output(pattern)
        return started

    def release(self, name: str) -> None:
        (self.folder / name).touch()

    def workers(self) -> list[int]:
        """Process ids of the workers that were started so far."""
        return [int(line.rpartition(" ")[2]) for line in self.process.output.splitlines() if "Booting worker" in line]


class InBackground:
    """A call on a thread of its own, and its result."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def result(self, timeout_s: float = 20) -> Any:
        self._thread.join(timeout_s)
        assert self.ended, "the request has not been answered"
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error


def read_answer(sock: socket.socket, method: str = "GET") -> Answer:
    """The next answer on a connection."""
    with contextlib.closing(http.client.HTTPResponse(sock, method=method)) as answer:
        answer.begin()
        body = answer.read()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)


def read_all(sock: socket.socket) -> bytes:
    pieces = []
    while piece := sock.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


@pytest.fixture
def gunicorn(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers: `gunicorn("--workers", "2", limit=3)`, keywords are our settings; all end with the test."""
    with contextlib.ExitStack() as running:

        def start(
            *arguments: str,
            bind: str = "",
            wrap: Callable[[socket.socket], socket.socket] | None = None,
            env: Mapping[str, str] | None = None,
            config: str = "",
            **settings: object,
        ) -> Server:
            address = bind.removeprefix("unix:") if bind else ("127.0.0.1", child.free_port())
            (tmp_path / "gunicorn.conf.py").write_text(config)
            command = [*_command(tmp_path), "-b", bind or "{}:{}".format(*address), *arguments, "gunicorn_app:app"]
            variables = {**_variables(settings), **(env or {})}
            process = running.enter_context(child.Child(command, env=variables, cwd=tmp_path))
            process.wait_output("Booting worker")
            return Server(process, address, tmp_path, *([wrap] if wrap else []))

        yield start


@pytest.fixture
def gunicorn_refused(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Start a server that must end by itself; its exit code and output."""

    def start(*arguments: str, env: Mapping[str, str] | None = None, **settings: object) -> tuple[int, str]:
        command = [*_command(tmp_path), "-b", f"127.0.0.1:{child.free_port()}", *arguments, "gunicorn_app:app"]
        with child.Child(command, env={**_variables(settings), **(env or {})}, cwd=tmp_path) as process:
            return process.wait_exit(), process.output

    return start


def _command(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "gunicorn", "-k", WORKER, "--no-control-socket", "--chdir", str(folder)]
    return [*command, "--pythonpath", str(HERE)]


def _variables(settings: Mapping[str, object]) -> dict[str, str]:
    return {f"GREENLANE_{name.upper()}": str(value) for name, value in settings.items()}
