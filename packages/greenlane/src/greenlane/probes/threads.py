"""Blocking calls, seen: each one ends a CPU phase, and the next begins when it returns.

What is covered: the interpreter's C functions (`native`: sockets, TLS, DNS, readiness, sleep, locks, queues, joins,
processes, signals, file locks), with them C drivers (`drivers`) and frameworks' route names (`routes`). Nothing of the
standard library is replaced, so it does not matter who was imported first.

Not seen: a C library that waits by itself. That is no error: a permit holder whose thread CPU clock stands still lends
its permit. Figures: `python -m tests.probes.cost`.
"""

from __future__ import annotations

from typing import Final

import greenlane.probes.native as native_calls
import greenlane.probes.routes as route_names
from greenlane.probes.cooperative import refuse_green_threads
from greenlane.probes.patching import Patches

__all__ = ["absent", "install", "install_routes", "uninstall"]


def install(*, clients: bool = True, routes: bool = True) -> None:
    """Place the probes for blocking calls, and with them those of C drivers and of frameworks' routes. Idempotent.

    It imports no driver and no framework; theirs are placed when the application imports them.

    Args:
        clients: also the drivers that block in C (`drivers`). Default: yes, the fallback is coarser.
        routes: also the route names of frameworks (`routes`). Default: yes; without them jobs have their path's lane.

    Raises:
        HostError: gevent or eventlet has replaced the sockets of this process.
    """
    refuse_green_threads()
    native_calls.install()
    if clients:
        _drivers.install()
    if routes:
        route_names.install()


def install_routes() -> None:
    """Place the probes for route names alone: for green threads, whose blocking calls are not ours. Idempotent."""
    route_names.install()


def uninstall() -> None:
    """Put everything back as it was. Idempotent; what others have patched over us since stays theirs."""
    route_names.uninstall()
    _drivers.uninstall()
    native_calls.uninstall()


def absent() -> tuple[str, ...]:
    """Names that the probes ask for and that the imported versions do not have: what to look at after an upgrade."""
    return native_calls.absent() + _drivers.absent() + route_names.absent()


#: Our own code of them is loaded with the driver.
_drivers: Final = Patches(
    {
        "psycopg.waiting": "greenlane.probes.drivers:place_psycopg",
        "psycopg2": "greenlane.probes.drivers:place_psycopg2",
        "psycopg2.extras": "greenlane.probes.drivers:place_psycopg2_extras",
        "MySQLdb.connections": "greenlane.probes.drivers:place_mysqldb",
        "grpc._channel": "greenlane.probes.drivers:place_grpc",
    }
)
