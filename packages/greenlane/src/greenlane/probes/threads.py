"""Blocking calls of the standard library, seen: each one ends a CPU phase, and the next begins when it returns.

What is covered: sockets, TLS, DNS, select/poll/epoll/selectors, sleep, locks and conditions, joins, queues, futures,
subprocesses, pipes of multiprocessing, signals, file locks, in `sockets`, `polling` and `waits`, which also say what is
*not* covered and why; with them C drivers (`drivers`) and frameworks' route names (`routes`). Python code that calls
these through their modules is seen whoever wrote it.

Not seen: a function copied before the installation (`from time import sleep`), a lock made before it, a C library that
waits by itself. None of this is an error: a permit holder whose thread CPU clock stands still lends its permit. Install
early (the hosts do it before they import the application), and little is left to that.

Cost: 0.1 us on a socket, TLS or condition call, 0.2-0.35 us on the rarer ones, the same with and without a job, plus
the subscriber's two calls (0.06 us without a job, 0.12 with one); the test alone, 0.07-0.2 us, where nothing can block.
A tracked lock costs about 0.1 us more than CPython's. Figures: `python -m tests.probes.cost`.
"""

from __future__ import annotations

# Imported for its side: `selectors` takes its C types at import, which must be the real ones.
import selectors  # noqa: F401
from typing import Final

from greenlane.probes import polling, routes, sockets, waits
from greenlane.probes.cooperative import refuse_green_threads
from greenlane.probes.patching import Patches

__all__ = ["absent", "install", "install_routes", "uninstall"]


def install(*, clients: bool = True, routes: bool = True) -> None:
    """Place the probes for blocking calls, and with them those of C drivers and of frameworks' routes. Idempotent.

    Call it before the application is imported: what it copies afterwards (`from time import sleep`, a module's lock) is
    then seen too. It imports no driver and no framework; theirs are placed when the application imports them.

    Args:
        clients: also the drivers that block in C (`drivers`). Default: yes, the fallback is coarser.
        routes: also the route names of frameworks (`routes`). Default: yes; without them jobs have their path's lane.

    Raises:
        HostError: gevent or eventlet has replaced the sockets of this process.
    """
    refuse_green_threads()
    _stdlib.install()
    if clients:
        _drivers.install()
    if routes:
        _routes.install()


def install_routes() -> None:
    """Place the probes for route names alone: for green threads, whose blocking calls are not ours. Idempotent."""
    _routes.install()


def uninstall() -> None:
    """Put everything back as it was. Idempotent; what others have patched over us since stays theirs."""
    _routes.uninstall()
    _drivers.uninstall()
    _stdlib.uninstall()


def absent() -> tuple[str, ...]:
    """Names that the probes ask for and that the imported versions do not have: what to look at after an upgrade."""
    return _stdlib.absent() + _drivers.absent() + _routes.absent()


# The parameters of `install` have their names.
_routes = routes

_stdlib: Final = Patches(
    {
        "socket": sockets.place,
        "ssl": sockets.place_ssl,
        "select": polling.place,
        "selectors": polling.place_selectors,
        "time": waits.place_time,
        "threading": waits.place_threading,
        "queue": waits.place_queue,
        "concurrent.futures._base": waits.place_futures,
        "os": waits.place_os,
        "signal": waits.place_signal,
        "fcntl": waits.place_fcntl,
        "subprocess": waits.place_subprocess,
        "multiprocessing.connection": waits.place_connection,
        "multiprocessing.synchronize": waits.place_synchronize,
    }
)

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
