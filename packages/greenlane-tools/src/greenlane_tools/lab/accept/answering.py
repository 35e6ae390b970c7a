"""The application that every server serves here, copied alone into a folder of its own: it does not import Greenlane.

    GET /?cpu_ms=5&wait_ms=20    so much CPU (of the thread's own clock), so much waiting; "X-Worker" is the process id

Each worker that has loaded it leaves a file `<pid>.worker` in the folder that ANSWERING_FOLDER names, and appends to it

    accepted N                   one wake-up of the worker took N connections (gevent, asyncio)
    waited MS                    from a connection's accept to the application's first instruction (gevent)

so that what a worker takes at once is counted where it happens. ANSWERING_MAX_ACCEPT sets gevent's `max_accept`
whatever the server set it to.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

_FILE = open(os.path.join(os.environ["ANSWERING_FOLDER"], f"{os.getpid()}.worker"), "a", buffering=1)
_MAX_ACCEPT = int(os.environ.get("ANSWERING_MAX_ACCEPT", "0"))
# When the connection of this file descriptor was accepted, seconds.
_accepted_s: dict[int, float] = {}


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """The application of WSGI servers."""
    client = environ.get("gunicorn.socket")
    if client is not None and (accepted_s := _accepted_s.pop(client.fileno(), None)):
        _FILE.write(f"waited {(time.monotonic() - accepted_s) * 1000:.3f}\n")
    cpu_ms, wait_ms = _amounts(environ.get("QUERY_STRING", ""))
    _burn(cpu_ms)
    if wait_ms:
        time.sleep(wait_ms / 1000)
    start_response("200 OK", [("X-Worker", str(os.getpid())), ("Content-Length", "2")])
    return [b"ok"]


async def asgi(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """The application of ASGI servers."""
    if scope["type"] != "http":
        return
    cpu_ms, wait_ms = _amounts(scope.get("query_string", b"").decode())
    _burn(cpu_ms)
    if wait_ms:
        await asyncio.sleep(wait_ms / 1000)
    headers = [(b"x-worker", str(os.getpid()).encode()), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


def _amounts(query: str) -> tuple[float, float]:
    asked = parse_qs(query)
    return float(asked.get("cpu_ms", ["0"])[0]), float(asked.get("wait_ms", ["0"])[0])


def _burn(cpu_ms: float) -> None:
    until = time.thread_time() + cpu_ms / 1000
    while time.thread_time() < until:
        pass


def _count_gevent(server: Any) -> None:
    """Counts what one call of the accept watcher's callback takes."""
    wake_up, take = server.BaseServer._do_read, server.StreamServer.do_read
    taken = [0]

    def _do_read(self: Any) -> None:
        if _MAX_ACCEPT:
            self.max_accept = _MAX_ACCEPT
        taken[0] = 0
        wake_up(self)
        if taken[0]:
            _FILE.write(f"accepted {taken[0]}\n")

    def do_read(self: Any) -> Any:
        found = take(self)
        if found:
            taken[0] += 1
            _accepted_s[found[0].fileno()] = time.monotonic()
        return found

    server.BaseServer._do_read, server.StreamServer.do_read = _do_read, do_read


class _Counted:
    """A listening socket that counts its accepts."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self.taken = 0

    def accept(self) -> Any:
        found = self._listener.accept()
        self.taken += 1
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)


def _count_asyncio() -> None:
    """The same for asyncio's own loop; uvloop accepts in C."""
    from asyncio.selector_events import BaseSelectorEventLoop

    wake_up = BaseSelectorEventLoop._accept_connection  # type: ignore[attr-defined]

    def _accept_connection(self: Any, protocol_factory: Any, sock: Any, *arguments: Any, **named: Any) -> None:
        counted = _Counted(sock)
        wake_up(self, protocol_factory, counted, *arguments, **named)
        if counted.taken:
            _FILE.write(f"accepted {counted.taken}\n")

    BaseSelectorEventLoop._accept_connection = _accept_connection  # type: ignore[attr-defined]


if "gevent.server" in sys.modules:
    from gevent import server as _server

    # gevent.server imports BaseServer by name.
    _count_gevent(_server)
elif "uvicorn" in sys.modules or "gunicorn.workers.gasgi" in sys.modules:
    _count_asyncio()
