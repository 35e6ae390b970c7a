"""What is compared: a server of one version, its kind of worker, the family of its socket, its options.

    gunicorn-20.0.4, gunicorn-20.1.0, gunicorn-23.0.0, gunicorn     gevent worker, the article's
    gunicorn-sync, gunicorn-gthread, gunicorn-asgi                  current gunicorn, its other workers
    uvicorn, uvicorn-uvloop, granian                                current, ASGI (granian: WSGI)

Why these gunicorns: 20.0.4 is the last that took 100 connections at once, 20.1.0 the first that takes one, 23.0.0 the
last whose `--reuse-port` made one socket, and the current one makes a socket a worker (since 24.0.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from greenlane_tools.lab.accept.environments import CURRENT, Recipe

__all__ = ["SERVERS", "Contender", "Family", "Server", "contenders", "limited"]

Family = Literal["tcp", "unix"]
# pkg_resources, of which gunicorn before 21 loads its worker classes by, left setuptools with 81.
_OLD_GUNICORN: Final = ("gevent", "setuptools<81")
# gunicorn 27's gevent worker imports packaging and does not ask pip for it.
_GUNICORN: Final = ("gevent", "packaging")


@dataclass(frozen=True)
class Server:
    """A server to start, N workers."""

    name: str
    recipe: Recipe
    # What it is started with, after `python -m`; {app} and {workers} are filled in.
    command: tuple[str, ...]
    # By family: {address}.
    bind: Mapping[Family, tuple[str, ...]]
    worker_class: str
    # "answering:wsgi" or "answering:asgi".
    app: str = "answering:wsgi"
    # Read from the environment of the server.
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Contender:
    """One cell."""

    server: Server
    family: Family
    options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For tables: "gunicorn-20.0.4 unix --reuse-port"."""
        return " ".join([self.server.name, self.family, *self.said()])

    def said(self) -> list[str]:
        """Its options, and what it sets in the environment."""
        return [
            *self.options,
            *(f"{name.removeprefix('ANSWERING_').lower()}={value}" for name, value in self.env.items()),
        ]

    def command(self, python: str, address: str, workers: int) -> list[str]:
        """The argument vector."""
        values = {
            "app": self.server.app,
            "workers": str(workers),
            "address": address,
            "port": address.rpartition(":")[2],
        }
        parts = (*self.server.command, *self.server.bind[self.family], *self.options)
        return [python, "-m", *(part.format(**values) for part in parts), self.server.app]


def _gunicorn(
    name: str, version: str, worker_class: str, others: Sequence[str], *more: str, app: str = "wsgi"
) -> Server:
    # Old gunicorns know no --no-control-socket; a current one would leave its socket in the caller's folder.
    quiet = ("--no-control-socket",) if version == CURRENT else ()
    # Before 20.1 `python -m gunicorn` does not exist.
    command = ("gunicorn.app.wsgiapp", "-k", worker_class, "-w", "{workers}", "--graceful-timeout", "1", *quiet, *more)
    bind: dict[Family, tuple[str, ...]] = {"tcp": ("-b", "{address}"), "unix": ("-b", "unix:{address}")}
    recipe = Recipe("gunicorn", version, tuple(others))
    return Server(name, recipe, command, bind, worker_class, app=f"answering:{app}")


_UVICORN: Final = ("uvicorn", "--workers", "{workers}", "--log-level", "warning")
_UVICORN_BIND: Final[Mapping[Family, tuple[str, ...]]] = {
    "tcp": ("--host", "127.0.0.1", "--port", "{port}"),
    "unix": ("--uds", "{address}"),
}
_GRANIAN: Final = ("granian", "--interface", "wsgi", "--workers", "{workers}", "--blocking-threads", "8")
_GRANIAN_BIND: Final = _UVICORN_BIND

SERVERS: Final[Mapping[str, Server]] = {
    one.name: one
    for one in (
        _gunicorn("gunicorn-20.0.4", "20.0.4", "gevent", _OLD_GUNICORN),
        _gunicorn("gunicorn-20.1.0", "20.1.0", "gevent", _OLD_GUNICORN),
        _gunicorn("gunicorn-23.0.0", "23.0.0", "gevent", ("gevent",)),
        _gunicorn("gunicorn", CURRENT, "gevent", _GUNICORN),
        _gunicorn("gunicorn-sync", CURRENT, "sync", _GUNICORN),
        _gunicorn("gunicorn-gthread", CURRENT, "gthread", _GUNICORN, "--threads", "8"),
        _gunicorn("gunicorn-asgi", CURRENT, "asgi", _GUNICORN, "--asgi-loop", "asyncio", app="asgi"),
        Server(
            "uvicorn", Recipe("uvicorn", CURRENT, ("uvloop",)), (*_UVICORN, "--loop", "asyncio"), _UVICORN_BIND,
            "asyncio", app="answering:asgi",
        ),
        Server(
            "uvicorn-uvloop", Recipe("uvicorn", CURRENT, ("uvloop",)), (*_UVICORN, "--loop", "uvloop"), _UVICORN_BIND,
            "uvloop", app="answering:asgi",
        ),
        Server("granian", Recipe("granian", CURRENT), _GRANIAN, _GRANIAN_BIND, "wsgi, 8 threads"),
    )
}  # fmt: skip


def contenders(names: Iterable[str], families: Iterable[Family]) -> list[Contender]:
    """The cells in which shares and bursts are measured.

    Beside each as it is: with `--reuse-port` where that exists, and on the gevent workers before and after the change
    of `max_accept` with the other one's value, which shows whether that number alone is the cause.
    """
    found = []
    for server in (SERVERS[name] for name in names):
        for family in families:
            found.append(Contender(server, family))
            if server.recipe.name == "gunicorn":
                found.append(Contender(server, family, ("--reuse-port",)))
            if (other := _OTHER_MAX_ACCEPT.get(server.name)) and family == "unix":
                found.append(Contender(server, family, (), {"ANSWERING_MAX_ACCEPT": other}))
    return found


_OTHER_MAX_ACCEPT: Final[Mapping[str, str]] = {"gunicorn-20.0.4": "1", "gunicorn": "100"}


# The options for at most this many, and for how long an idle connection is kept; by the server's distribution.
_LIMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "gunicorn": ("--worker-connections", "{limit}", "--keep-alive", "{keepalive_s}"),
    "uvicorn": ("--limit-concurrency", "{limit}", "--timeout-keep-alive", "{keepalive_s}"),
    # granian keeps idle connections for ever, or none.
    "granian": ("--backpressure", "{limit}"),
}


def limited(name: str, limit: int, keepalive_s: int) -> Contender:
    """A server with a limit of connections, requests or permits a worker, whatever it calls them."""
    server = SERVERS[name]
    options = [part.format(limit=limit, keepalive_s=keepalive_s) for part in _LIMITS[server.recipe.name]]
    if server.recipe.name == "granian" and not keepalive_s:
        options.append("--no-http1-keep-alive")
    return Contender(server, "tcp", tuple(options))
