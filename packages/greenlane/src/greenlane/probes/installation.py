"""All probes of a threaded service at once."""

from __future__ import annotations

from greenlane.probes import clients, routes, threads

__all__ = ["absent", "install", "install_routes", "uninstall"]


def install(*, clients: bool = True, routes: bool = True) -> None:
    """Place the probes for blocking calls, and with them those of C drivers and of frameworks' routes. Idempotent.

    Call it before the application is imported: what it copies afterwards (`from time import sleep`, a module's lock) is
    then seen too. It imports no driver and no framework; theirs are placed when the application imports them.

    Args:
        clients: also the drivers that block in C (`clients.drivers`). Default: yes, the fallback is coarser.
        routes: also the route names of frameworks (`routes`). Default: yes; without them jobs have their path's lane.

    Raises:
        HostError: gevent or eventlet has replaced the sockets of this process.
    """
    threads.install()
    if clients:
        _clients.install()
    if routes:
        _routes.install()


def install_routes() -> None:
    """Place the probes for route names alone: for green threads, whose blocking calls are not ours. Idempotent."""
    _routes.install()


def uninstall() -> None:
    """Put everything back as it was, deadline headers included. Idempotent."""
    _routes.uninstall()
    _clients.uninstall_deadline_out()
    _clients.uninstall()
    threads.uninstall()


def absent() -> tuple[str, ...]:
    """Names that the probes ask for and that the imported versions do not have: what to look at after an upgrade."""
    return threads.absent() + _clients.absent() + _routes.absent()


# The parameters of `install` have their names.
_clients = clients
_routes = routes
