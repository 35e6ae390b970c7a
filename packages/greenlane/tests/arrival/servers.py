"""The servers whose arrivals are compared with the client's clock. One more: a line in `SERVERS`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["SERVED", "SERVERS", "Server"]

#: The applications: on the server's import path, and where it runs.
SERVED: Final = Path(__file__).with_name("served")


@dataclass(frozen=True)
class Server:
    """A server of `clocked`'s applications."""

    #: Gives its command for a port.
    command: Callable[[int], list[str]]
    #: The clock that its arrivals have.
    clock: str = "kernel"
    #: The same for kinds of connections where it is another one.
    clocks: Mapping[str, str] = field(default_factory=dict)
    #: Distributions that it needs; without them its tests are left out.
    needs: tuple[str, ...] = ()

    def clock_of(self, kind: str) -> str:
        """Name the clock of arrivals on this kind of connection."""
        return self.clocks.get(kind, self.clock)


def _module(name: str, *options: str) -> Callable[[int], list[str]]:
    """`python -m NAME OPTIONS`, where `{port}` stands for the port."""
    return lambda port: [sys.executable, "-m", name, *(option.format(port=port) for option in options)]


def _gunicorn(*options: str, app: str = "clocked:wsgi") -> Callable[[int], list[str]]:
    return _module("gunicorn", "-b", "127.0.0.1:{port}", "--keep-alive", "5", *options, app)


def _uvicorn(*options: str) -> Callable[[int], list[str]]:
    return _module("uvicorn", "clocked:asgi", "--port", "{port}", "--log-level", "critical", *options)


def _granian(*options: str) -> Callable[[int], list[str]]:
    return _module("granian", "--host", "127.0.0.1", "--port", "{port}", *options)


def _run(name: str) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, str(SERVED / "run.py"), name, str(port)]


SERVERS: Final[Mapping[str, Server]] = {
    "gunicorn.sync": Server(_gunicorn("-k", "sync")),
    "gunicorn.gthread": Server(_gunicorn("-k", "gthread", "--threads", "3")),
    "gunicorn.gevent": Server(_gunicorn("-k", "gevent"), needs=("gevent",)),
    "greenlane.hosts.gunicorn": Server(_gunicorn("-k", "greenlane.hosts.gunicorn.Worker"), clock="accept"),
    "http.server": Server(_run("http_server")),
    "wsgiref": Server(_run("wsgiref")),
    "werkzeug": Server(_run("werkzeug"), needs=("werkzeug", "flask")),
    "waitress": Server(_run("waitress"), needs=("waitress",)),
    "waitress, lookahead": Server(_run("waitress_ahead"), needs=("waitress",)),
    "cheroot": Server(_run("cheroot"), needs=("cheroot",)),
    "uvicorn, h11": Server(_uvicorn("--http", "h11", "--loop", "asyncio"), needs=("uvicorn",)),
    "uvicorn, httptools, uvloop": Server(
        _uvicorn("--http", "httptools", "--loop", "uvloop"), needs=("uvicorn", "httptools", "uvloop")
    ),
    "hypercorn": Server(_module("hypercorn", "clocked:asgi", "-b", "127.0.0.1:{port}"), needs=("hypercorn",)),
    "quart on hypercorn": Server(
        _module("hypercorn", "clocked:quart()", "-b", "127.0.0.1:{port}"), needs=("hypercorn", "quart")
    ),
    "daphne": Server(_module("daphne", "-b", "127.0.0.1", "-p", "{port}", "clocked:asgi"), needs=("daphne",)),
    "granian, ASGI": Server(_granian("--interface", "asgi", "clocked:asgi"), needs=("granian",)),
    "granian, WSGI": Server(
        _granian("--interface", "wsgi", "--blocking-threads", "2", "clocked:wsgi"), clock="handler", needs=("granian",)
    ),
    "aiohttp": Server(_run("aiohttp"), needs=("aiohttp",)),
    "gevent.pywsgi": Server(_run("pywsgi"), needs=("gevent",)),
    "gunicorn.gevent, pywsgi": Server(_gunicorn("-k", "gevent_pywsgi"), needs=("gevent",)),
    "tornado": Server(_run("tornado"), needs=("tornado",)),
}
