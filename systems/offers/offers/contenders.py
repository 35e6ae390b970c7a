"""Who serves pricingservice: the stock server, each fix, and the twin in Go; their command lines.

| fix | contender | what is changed |
|---|---|---|
| `none` | `gevent` | nothing: gunicorn's gevent worker, as in the article |
| | `gthread-64` | gunicorn's threads, 64 of them |
| | `gthread-64-one-core`, `greenlane-one-core` | the same and permits, with its threads on one core |
| | `greenlane-all-cores` | permits, with them on all cores |
| `permits` | `greenlane` | gunicorn's worker class, nothing else; no further process |
| `lane` | `greenlane-soft` | `greenlane serve`: two workers behind one queue, one of them kept for offers |
| `dedicated` | `dedicated` | the article's: a second stock gunicorn, which offerservice asks for bikes and scooters |
| | `go` | pricingservice in Go on one core (GOMAXPROCS=1), endpoint for endpoint with the same work |
| | `go-heavy-1` | the same, and of its heavy and mixed requests one computes at a time: permits by hand |
| | `go-2p` | the same on two cores (GOMAXPROCS=2), which is no one-worker comparison |
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from .table import Table

Fix = Literal["none", "permits", "lane", "dedicated"]
APPLICATION: Final = "offers.pricing.application:app"
#: Modes that a second server is for, where there is one.
APART: Final = ("bikes", "scooters")
#: gunicorn closes a connection that nothing came on for 2 s, and offerservice keeps its connections.
_KEEP_S: Final = "75"
_GREENLANE: Final = "import sys; from greenlane.cli.main import main; sys.exit(main())"


@dataclass(frozen=True)
class Place:
    """Where a server is started.

    Args:
        address: host:port that it listens on.
        folder: of its files.
        table: what it serves.
        upstreams: `name=host:port` with commas, for programs that want it as a flag.
        twin: path of the Go program; asked only by who is one.
        tables: the folder that the table was read from.
    """

    address: str
    folder: Path
    table: Table
    upstreams: str
    twin: Callable[[], Path]
    tables: Path


@dataclass(frozen=True)
class Contender:
    """One way to serve.

    Args:
        name: as rows call it.
        command: argument vector of a server.
        servers: how many are started; the second one is for bikes and scooters.
        env: added to its environment.
        is_go: its work is counted in Go's iterations.
    """

    name: str
    command: Callable[[Place], list[str]]
    servers: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    is_go: bool = False


def _gunicorn(*options: str) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        common = ["--bind", place.address, "--workers", "1", "--keep-alive", _KEEP_S, "--log-level", "warning"]
        return [sys.executable, "-m", "gunicorn", *common, "--no-control-socket", *options, APPLICATION]

    return command


def _on_one_core(command: Callable[[Place], list[str]]) -> Callable[[Place], list[str]]:
    """By hand, for a server that has no setting for it."""
    core = max(os.sched_getaffinity(0))
    return lambda place: ["taskset", "--cpu-list", str(core), *command(place)]


def _serve(place: Place) -> list[str]:
    config = place.folder / "greenlane.toml"
    config.write_text(lanes(place.table), encoding="utf-8")
    options = ["--kind", "wsgi", "--bind", place.address, "--workers", "2", "--config", str(config)]
    return [sys.executable, "-c", _GREENLANE, "serve", APPLICATION, *options]


def lanes(table: Table) -> str:
    """greenlane.toml of the fix `lane`: offers go first, and one of two workers is kept for them."""
    paths = ", ".join(f'"{one.path}"' for one in table.endpoints.values() if one.kind == "offer")
    return f"[lanes.offers]\nmatch = [{paths}]\nprocesses = 1\npriority = 10\n"


def _twin(*options: str) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        flags = {"-listen": place.address, "-upstreams": place.upstreams, "-table": str(place.tables)}
        return [str(place.twin()), *(part for flag in flags.items() for part in flag), *options]

    return command


_GEVENT: Final = _gunicorn("--worker-class", "gevent")
_GTHREAD: Final = _gunicorn("--worker-class", "gthread", "--threads", "64")
_PERMITS: Final = _gunicorn("--worker-class", "greenlane.hosts.gunicorn.Worker")
_ALL: Final = (
    Contender("gevent", _GEVENT),
    Contender("gthread-64", _GTHREAD),
    Contender("gthread-64-one-core", _on_one_core(_GTHREAD)),
    Contender("greenlane", _PERMITS),
    Contender("greenlane-one-core", _PERMITS, env={"GREENLANE_CORES": "one"}),
    Contender("greenlane-all-cores", _PERMITS, env={"GREENLANE_CORES": "all"}),
    Contender("greenlane-soft", _serve),
    Contender("dedicated", _GEVENT, servers=2),
    Contender("go", _twin(), env={"GOMAXPROCS": "1"}, is_go=True),
    # What its developers would tune.
    Contender("go-heavy-1", _twin("-heavy-at-once", "1"), env={"GOMAXPROCS": "1"}, is_go=True),
    Contender("go-2p", _twin(), env={"GOMAXPROCS": "2"}, is_go=True),
)
CONTENDERS: Final[Mapping[str, Contender]] = {one.name: one for one in _ALL}
#: Fix -> contender.
FIXES: Final[Mapping[Fix, str]] = {
    "none": "gevent", "permits": "greenlane", "lane": "greenlane-soft", "dedicated": "dedicated",
}  # fmt: skip
