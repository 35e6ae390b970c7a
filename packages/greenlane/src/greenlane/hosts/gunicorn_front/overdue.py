"""Requests past their deadline: the front answers them (504), while their work goes on in its thread."""

from __future__ import annotations

import contextlib
import socket
from _socket import socket as RawSocket
from typing import Final

from greenlane.hosts import gunicorn_answers as answers
from greenlane.hosts.gunicorn_conn import Claim, Conn
from greenlane.hosts.gunicorn_deadlines import Deadlines
from greenlane.hosts.gunicorn_front.passing import Passing
from greenlane.hosts.gunicorn_front.served import Served
from greenlane.hosts.gunicorn_pool import Pool

__all__ = ["Overdue"]

# A deadline that could not be answered because the thread was inside the TLS library is tried again after this.
_RETRY_NS: Final = 5_000_000

_shutdown = RawSocket.shutdown


class Overdue:
    """Answers at deadlines. Main thread."""

    def __init__(self, worker: Served, pool: Pool[Conn], passing: Passing, deadlines: Deadlines) -> None:
        self._worker = worker
        self._pool = pool
        self._passing = passing
        self._deadlines = deadlines

    def answer(self, now_ns: int) -> None:
        """Answer 504 to all whose deadline has passed."""
        while (claim := self._deadlines.take(now_ns)) is not None:
            if not self._answered(claim):
                claim.deadline_ns = now_ns + _RETRY_NS
                self._deadlines.watch(claim)

    def _answered(self, claim: Claim) -> bool:
        """Whether the request is answered, by us or by its thread; False = not possible just now."""
        with claim.answering:
            conn = claim.conn
            if claim.over or conn is None:
                return True
            if claim.queued and self._pool.withdraw(conn):
                claim.over = claim.answered = True
                conn.claim = None
                self._worker.note("deadline_answers")
                self._passing.answer(conn, answers.DEADLINE)
                return True
            if conn.tls and not conn.io.acquire(blocking=False):
                return False
            try:
                if claim.take():
                    claim.answered = True
                    self._worker.note("deadline_answers")
                    conn.push_now(answers.DEADLINE)
                    with contextlib.suppress(OSError):
                        _shutdown(conn.sock, socket.SHUT_WR)
            finally:
                if conn.tls:
                    conn.io.release()
        return True
