"""Clients that have left while their requests are in progress."""

from __future__ import annotations

from select import POLLHUP, poll

from greenlane.hosts.gunicorn_conn import BUSY, Conn
from greenlane.hosts.gunicorn_front.served import Served
from greenlane.hosts.gunicorn_front.waiting import Waiting
from greenlane.hosts.gunicorn_pool import Pool

__all__ = ["look_for_gone"]


def look_for_gone(worker: Served, pool: Pool[Conn], waiting: Waiting) -> None:
    """Find the requests whose clients have left: the front of the service closes its connection to us.

    On a Unix socket only a close hangs up: a half-closed one does not.
    """
    look = poll()
    for conn in list(waiting.connections.values()):
        if conn.stage == BUSY and not conn.gone:
            look.register(conn.fd, 0)
    for fd, event in look.poll(0):
        found = waiting.connections.get(fd)
        if found is None or found.stage != BUSY or not event & POLLHUP:
            continue
        found.gone = True
        if pool.withdraw(found):
            worker.note("unstarted")
            if found.claim is not None:
                found.claim.over = True
            waiting.close(found)
        else:
            worker.note("clients_gone")
