"""The main thread's own connections: heads that come in pieces, clients that are slow, idle, or about to leave."""

from __future__ import annotations

import socket
from _socket import socket as RawSocket
from typing import Final

from greenlane._native import recv_now
from greenlane.hosts import gunicorn_answers as answers
from greenlane.hosts.gunicorn_conn import LEAVING, WAITING, Conn
from greenlane.hosts.gunicorn_front.passing import Passing
from greenlane.hosts.gunicorn_front.served import Served
from greenlane.hosts.gunicorn_front.waiting import LINGER_S, Waiting
from greenlane.hosts.gunicorn_head import PARTIAL, Judge

__all__ = ["Reading"]

# After the last byte of an answer, for how much a client may go on sending: a large upload whose sender looks at the
# answer only at its end.
_LEAVE_BYTES: Final = 64 * 1024 * 1024

_recv_into = RawSocket.recv_into
_DONTWAIT: Final = socket.MSG_DONTWAIT


class Reading:
    """Looks at connections of which the main thread is the owner.

    Args:
        worker: counts what happens.
        waiting: where they wait.
        passing: takes those whose head is whole.
        judge: tells whether a head is whole.
        head_s: time for a head, from its first byte.
    """

    def __init__(self, worker: Served, waiting: Waiting, passing: Passing, judge: Judge, head_s: float) -> None:
        self._worker = worker
        self._waiting = waiting
        self._arm = waiting.arm
        self._passing = passing
        self._judge = judge
        self._head_s = head_s
        self._scratch = bytearray(65536)

    def readable(self, conn: Conn, now_ns: int) -> None:
        """Look at a connection that has bytes, or may have."""
        if conn.stage == LEAVING:
            self._leave_on(conn)
            return
        if conn.opens_in_thread:
            self._give(conn, now_ns)
            return
        try:
            data = recv_now(conn.sock.fileno())
        except BlockingIOError:
            self._arm(conn)
            return
        except OSError:
            data = b""
        if data:
            self._take(conn, data, now_ns)
        else:
            self._waiting.close(conn)

    def _give(self, conn: Conn, now_ns: int) -> None:
        """Let a pool thread open the connection. A new one waits for its first byte here."""
        if not conn.polled:
            self._arm(conn)
            return
        if not conn.head:
            conn.arrival_ns = now_ns
        self._passing.submit(conn)

    def _take(self, conn: Conn, data: bytes, now_ns: int) -> None:
        """Add bytes of a head; pass the request on when it is whole."""
        judged = len(conn.head)
        if judged:
            conn.head += data
        else:
            conn.head = data
            conn.arrival_ns = now_ns
        if self._judge(conn.head, judged, not conn.requests) == PARTIAL:
            if not judged:
                conn.expires_s = now_ns / 1e9 + self._head_s
            self._arm(conn)
        else:
            self._passing.dispatch(conn, 0)

    def expire(self, conn: Conn, now_s: float) -> None:
        """Give up on a connection whose time is over."""
        with self._waiting.handing:
            if conn.stage == WAITING and self._waiting.stopping_s and not conn.head:
                conn.expires_s = min(conn.expires_s, self._waiting.stopping_s + LINGER_S)
            if conn.expires_s > now_s or conn.stage not in (WAITING, LEAVING):
                return
        if conn.stage == LEAVING:
            self._waiting.close(conn)
        elif conn.is_http2:
            conn.farewell = True
            self._passing.submit(conn)
        elif conn.head:
            self._worker.note("head_timeouts")
            conn.push_now(answers.HEAD_TIMEOUT)
            self._waiting.part(conn)
        elif conn.opens_in_thread or not self._has_come(conn, now_s):
            self._waiting.part(conn)

    def _has_come(self, conn: Conn, now_s: float) -> bool:
        """Whether a request came in the very moment in which an idle connection is to be closed; then it is served."""
        try:
            data = recv_now(conn.sock.fileno())
        except OSError:
            return False
        if data:
            self._take(conn, data, int(now_s * 1e9))
        return bool(data)

    def _leave_on(self, conn: Conn) -> None:
        """Throw away what a client still sends; close when it has closed."""
        for _ in range(16):
            try:
                size = _recv_into(conn.sock, self._scratch, 0, _DONTWAIT)
            except BlockingIOError:
                self._arm(conn)
                return
            except OSError:
                size = 0
            conn.thrown_bytes += size
            if not size or conn.thrown_bytes > _LEAVE_BYTES:
                self._waiting.close(conn)
                return
        self._arm(conn)
