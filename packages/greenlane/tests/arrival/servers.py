"""The servers whose arrivals are compared with the client's clock. One more: a line in `SERVERS`."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["SERVED", "SERVERS", "TLS", "Server", "make_certificate", "missing"]

#: The applications: on the server's import path, and where it runs.
SERVED: Final = Path(__file__).with_name("served")


@dataclass(frozen=True)
class Server:
    """A server of `clocked`'s applications."""

    #: Gives its command for a port.
    command: Callable[[int], list[str]]
    #: The clock that its arrivals have.
    clock: str = "kernel"
    #: Another one that some of them have, by kind of connection.
    others: Mapping[str, str] = field(default_factory=dict)
    #: Kinds of connections whose requests arrive at another moment than the kernel's, by the docs.
    apart: tuple[str, ...] = ()
    #: Its certificate and key are `TLS` of the folder where it runs.
    tls: bool = False
    #: Modules that it needs; without them its tests are left out.
    needs: tuple[str, ...] = ()

    def clocks(self, kind: str) -> tuple[str, ...]:
        """Name the clocks that arrivals on this kind of connection may have.

        The kernel does not stamp what it got before it was asked to: for a server's first connections.
        """
        return (self.clock, *(("accept",) if self.clock == "kernel" else ()), self.others.get(kind, self.clock))


#: Names of a certificate and its key.
TLS: Final = ("certificate.pem", "key.pem")


def make_certificate(folder: Path) -> None:
    """Write them; needs the program openssl."""
    certificate, key = TLS
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=here")
    command = ["openssl", "req", "-x509", *kind, "-keyout", key, "-out", certificate]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def missing(server: Server) -> list[str]:
    """Name what it needs and is not installed."""
    programs = ["openssl"] if server.tls and shutil.which("openssl") is None else []
    return [name for name in server.needs if importlib.util.find_spec(name) is None] + programs


def _module(name: str, *options: str) -> Callable[[int], list[str]]:
    """`python -m NAME OPTIONS`, where `{port}` stands for the port."""
    return lambda port: [sys.executable, "-m", name, *(option.format(port=port) for option in options)]


def _gunicorn(*options: str, app: str = "clocked:wsgi") -> Callable[[int], list[str]]:
    return _module("gunicorn", "-b", "127.0.0.1:{port}", "--keep-alive", "5", *options, app)


def _uvicorn(*options: str) -> Callable[[int], list[str]]:
    return _module("uvicorn", "clocked:asgi", "--port", "{port}", "--log-level", "critical", *options)


_GUNICORN_TLS: Final = ("--certfile", TLS[0], "--keyfile", TLS[1])
_UVICORN_TLS: Final = ("--ssl-certfile", TLS[0], "--ssl-keyfile", TLS[1])


def _granian(*options: str) -> Callable[[int], list[str]]:
    return _module("granian", "--host", "127.0.0.1", "--port", "{port}", *options)


def _run(name: str) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, str(SERVED / "run.py"), name, str(port)]


SERVERS: Final[Mapping[str, Server]] = {
    "gunicorn.sync": Server(_gunicorn("-k", "sync")),
    "gunicorn.gthread": Server(_gunicorn("-k", "gthread", "--threads", "3")),
    "gunicorn.gevent": Server(_gunicorn("-k", "gevent"), needs=("gevent",)),
    "gunicorn.asgi": Server(_gunicorn("-k", "asgi", app="clocked:asgi")),
    "greenlane.hosts.gunicorn": Server(
        _gunicorn("-k", "greenlane.hosts.gunicorn.Worker"), clock="accept", apart=("pipelined", "behind", "split")
    ),
    "gunicorn.gthread, TLS": Server(_gunicorn("-k", "gthread", "--threads", "3", *_GUNICORN_TLS), tls=True),
    "gunicorn.gevent, TLS": Server(_gunicorn("-k", "gevent", *_GUNICORN_TLS), tls=True, needs=("gevent",)),
    "http.server": Server(_run("http_server")),
    "wsgiref": Server(_run("wsgiref")),
    "werkzeug": Server(_run("werkzeug"), needs=("werkzeug", "flask")),
    "waitress": Server(_run("waitress"), needs=("waitress",)),
    "waitress, lookahead": Server(_run("waitress_ahead"), needs=("waitress",)),
    "cheroot": Server(_run("cheroot"), needs=("cheroot",)),
    "uvicorn, h11": Server(_uvicorn("--http", "h11", "--loop", "asyncio"), needs=("uvicorn",)),
    "uvicorn, h11, TLS": Server(
        _uvicorn("--http", "h11", "--loop", "asyncio", *_UVICORN_TLS), tls=True, needs=("uvicorn",)
    ),
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
