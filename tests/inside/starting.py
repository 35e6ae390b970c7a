"""Starts a host with a tiny application, sends it some requests, and asks its process what of Greenlane is inside."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_SERVED: Final = Path(__file__).with_name("served")
_PROGRAM: Final = str(_SERVED / "measured.py")
_REQUESTS: Final = 20
#: Until a host serves, and until it has ended. Arbitrary: some ten times what a quiet machine takes.
_START_S: Final = 60.0
_END_S: Final = 20.0
_LOOK_S: Final = 0.05
#: Below the ports that Linux hands out by itself.
_PORTS: Final = range(20_000, 32_768)


@dataclass(frozen=True)
class Host:
    """One kind of host: (port, temporary folder) -> its command, and the modules that have to be installed."""

    command: Callable[[int, Path], Sequence[str]]
    needs: Sequence[str] = ()
    # It gives itself work and writes the answer to a file; else it is asked over HTTP.
    by_file: bool = False


def _greenlane(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())", *arguments]


def _program(kind: str) -> Callable[[int, Path], Sequence[str]]:
    return lambda port, _folder: [sys.executable, "-P", _PROGRAM, kind, str(port)]


def _gunicorn(port: int, _folder: Path) -> Sequence[str]:
    worker = ["-k", "greenlane.hosts.gunicorn.Worker", "-b", f"127.0.0.1:{port}", "--log-level", "warning"]
    return [sys.executable, "-P", "-m", "gunicorn", *worker, "--pythonpath", str(_SERVED), "measured:wsgi"]


def _asgi(port: int, _folder: Path) -> Sequence[str]:
    where = ["--app-dir", str(_SERVED), "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    return [sys.executable, "-P", "-m", "uvicorn", *where, "measured:wrapped"]


def _record(port: int, folder: Path) -> Sequence[str]:
    return _greenlane("record", "-o", str(folder / "inside.glr"), "--", *_program("plain")(port, folder))


def _work(_port: int, _folder: Path) -> Sequence[str]:
    return _greenlane("celery", "--task-allow", "broker", "measured:celery", "--", "-l", "WARNING")


def _serve(port: int, _folder: Path) -> Sequence[str]:
    return _greenlane("serve", "--kind", "wsgi", "--bind", f"127.0.0.1:{port}", "--workers", "1", "measured:wsgi")


#: By name.
HOSTS: Final[Mapping[str, Host]] = {
    "wsgi": Host(_program("wsgi")),
    "asgi": Host(_asgi, ["uvicorn"]),
    "aiohttp": Host(_program("aiohttp"), ["aiohttp"]),
    "gunicorn": Host(_gunicorn, ["gunicorn"]),
    "record": Host(_record),
    "work": Host(_work, ["greenlane_work"], by_file=True),
    "serve": Host(_serve, ["greenlane_serve"]),
}


def look_inside(name: str) -> dict[str, Any]:
    """What `served/measured.py` says of the process that serves under this host, under default settings.

    Raises:
        RuntimeError: it does not start, or does not answer.
    """
    host = HOSTS[name]
    with tempfile.TemporaryDirectory(prefix="greenlane-inside-") as folder:
        port, file = _free_port(), Path(folder, "inside.json")
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GREENLANE_")}
        environ |= {"GREENLANE_CONFIG": "", "INSIDE_FILE": str(file), "PYTHONDONTWRITEBYTECODE": "1"}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_SERVED), os.environ.get("PYTHONPATH", "")]))
        with _running(name, host.command(port, Path(folder)), environ, Path(folder)) as started:
            return _from_file(started, file) if host.by_file else _over_http(started, port)


class _Started:
    """A running host; what it has said is shown when it fails."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], said: Path) -> None:
        self.name = name
        self.process = process
        self._said = said
        self._until = time.monotonic() + _START_S

    def wait(self) -> None:
        """Wait a moment.

        Raises:
            RuntimeError: it has ended, or its time is over.
        """
        if self.process.poll() is not None:
            raise self.failed(f"it ended with status {self.process.returncode}")
        if time.monotonic() > self._until:
            raise self.failed(f"no answer within {_START_S:g} s")
        time.sleep(_LOOK_S)

    def failed(self, how: str) -> RuntimeError:
        """The error, with the last that the host has said."""
        said = self._said.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
        return RuntimeError(f"look inside {self.name}: {how}; it said: {said}")


@contextlib.contextmanager
def _running(name: str, command: Sequence[str], environ: Mapping[str, str], folder: Path) -> Iterator[_Started]:
    said = folder / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield _Started(name, process, said)
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _from_file(started: _Started, file: Path) -> dict[str, Any]:
    while not file.exists():
        started.wait()
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _over_http(started: _Started, port: int) -> dict[str, Any]:
    while _asked(port, "/") is None:
        started.wait()
    for number in range(_REQUESTS):
        _asked(port, f"/answers/{number}")
    body = _asked(port, "/inside")
    if body is None:
        raise started.failed("it does not tell what is inside")
    found: dict[str, Any] = json.loads(body)
    return found


def _asked(port: int, path: str) -> bytes | None:
    """The body of an answer 200; None = not now."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_END_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        return body if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no free port in {_PORTS}")
