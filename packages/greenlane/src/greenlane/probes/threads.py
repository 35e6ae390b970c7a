"""Blocking calls of the standard library, seen: each one ends a CPU phase, and the next begins when it returns.

What is covered: sockets, TLS, DNS, select/poll/epoll/selectors, sleep, locks and conditions, joins, queues, futures,
subprocesses, pipes of multiprocessing, signals, file locks; each in its file under `stdlib/`, which also says what is
*not* covered and why. Python code that calls these through their modules is seen whoever wrote it.

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
from types import ModuleType
from typing import Final

from greenlane.probes.cooperative import refuse_green_threads
from greenlane.probes.patching import Patches, Place
from greenlane.probes.stdlib import futures, locks, names, polling, processes, queues, sleeping, sockets, tls

__all__ = ["absent", "install", "uninstall"]


def install() -> None:
    """Place the probes. Idempotent; modules that are not imported yet get theirs at their import.

    Raises:
        HostError: gevent or eventlet has replaced the sockets of this process.
    """
    refuse_green_threads()
    _patches.install()


def uninstall() -> None:
    """Put everything back as it was. Idempotent; what others have patched over us since stays theirs."""
    _patches.uninstall()


def absent() -> tuple[str, ...]:
    """Names that this Python does not have although the probes ask for them; empty on the supported versions."""
    return _patches.absent()


def _socket(patches: Patches, module: ModuleType) -> None:
    sockets.place(patches, module)
    names.place(patches, module)


_PLAN: Final[dict[str, Place]] = {
    "socket": _socket,
    "ssl": tls.place,
    "select": polling.place,
    "selectors": polling.place_selectors,
    "time": sleeping.place,
    "threading": locks.place,
    "queue": queues.place,
    "concurrent.futures._base": futures.place,
    "os": processes.place_os,
    "signal": processes.place_signal,
    "fcntl": processes.place_fcntl,
    "subprocess": processes.place_subprocess,
    "multiprocessing.connection": processes.place_connection,
    "multiprocessing.synchronize": processes.place_synchronize,
}

_patches: Final = Patches(_PLAN)
