"""Where a connection goes next: to a thread of the pool, back to the main thread, or away.

Every call but those named otherwise is made by the owner of the connection, on the main thread or a thread of the pool,
which no longer owns it afterwards. A pool thread counts its request out before it hands the connection over, so what
comes next on the connection never counts its predecessor, however late that thread returns. A thread parks its
connection by itself: the main thread is not woken for that. An epoll set may be changed from any thread; a descriptor
reports once and is then silent until it is armed again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from _socket import socket as RawSocket
from _thread import allocate_lock
from collections import deque
from select import EPOLLIN, EPOLLONESHOT, EPOLLOUT, epoll
from typing import Final

from gunicorn.workers import gthread

from greenlane._native import rearm_now
from greenlane.hosts.gunicorn import answers
from greenlane.hosts.gunicorn.answers import Claim, Deadlines
from greenlane.hosts.gunicorn.connection import (
    BUSY,
    CLOSED,
    LEAVING,
    OVER_LIMIT,
    PARTIAL,
    WAITING,
    Conn,
    Served,
    is_bare,
    judge_for,
    prefixes,
)
from greenlane.hosts.pool import Pool
from greenlane.settings import Settings

__all__ = ["DOUBT_LOOK_S", "LINGER_S", "Dispatch"]

# A request over the limit is looked at again for so long: a client that has just read an answer on another connection
# can be here before the thread of that one has counted it out.
_GRACE_NS: Final = 2_000_000
#: Pause between two such looks.
DOUBT_LOOK_S: Final = 0.001
# After the last byte of an answer, how long a client may go on sending before it closes its side. Closing earlier would
# send a reset, which may overtake the answer. The time is gunicorn's.
_LEAVE_S: Final = 2.0
#: How long a kept-alive connection of a stopping worker may still bring a request.
LINGER_S: Final = float(getattr(gthread, "STOP_KEEPALIVE_LINGER", 2.0))

_recv = RawSocket.recv
_shutdown = RawSocket.shutdown
_DONTWAIT: Final = socket.MSG_DONTWAIT


class Dispatch:
    """Hands connections over, and has the table of them.

    Args:
        worker: answers health and metrics, and judges what is too late.
        settings: effective settings.
        pool: threads that serve connections whose head is whole.
    """

    def __init__(self, worker: Served, settings: Settings, pool: Pool[Conn]) -> None:
        #: By descriptor. Read from any thread.
        self.connections: dict[int, Conn] = {}
        self.poller = epoll()
        #: Whether a head is whole.
        self.judge = judge_for(worker.cfg)
        self.deadlines = Deadlines(self.wake)
        #: (connection over the limit, when it is refused). Any thread appends, the main thread takes.
        self.over_limit: deque[tuple[Conn, int]] = deque()
        #: Whether new connections are accepted; while not, the end of one wakes the main thread. Written by it.
        self.listening = False
        #: When the worker began to stop; 0 = it has not. Written by the main thread.
        self.stopping_s = 0.0
        #: Held while a thread parks a connection and while the main thread takes an expired one, the one moment at
        #: which both could think that they own it; and while the table changes.
        self.handing = allocate_lock()
        self._worker = worker
        self._pool = pool
        self._head_s = settings.head_timeout_s
        self._keepalive_s = float(worker.cfg.keepalive)
        paths = () if worker.cfg.protocol == "uwsgi" else (settings.health_path, settings.metrics_path)
        self._special = prefixes(paths)
        self._limit = settings.limit
        self._refusal = answers.over_limit(settings.limit, settings.retry_after_s)
        self._late = answers.too_late(settings.retry_after_s, keep=False)
        self._late_kept = answers.too_late(settings.retry_after_s, keep=True)
        self._poller_fd = self.poller.fileno()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.poller.register(self._wake_fd, EPOLLIN)
        self._closed = False

    # -- a head is whole

    def dispatch(self, conn: Conn) -> None:
        """Pass on a connection whose head is whole: answered here, refused, or served by the pool."""
        in_pool = self._pool.count_out()
        if conn.head.startswith(self._special) and (message := self._worker.special(conn.head)) is not None:
            self.answer(conn, message)
        elif self._worker.behind_front and self._worker.too_late(conn):
            self._turn_away(conn)
        elif self._limit and self._pool.in_progress >= self._limit:
            conn.stage = OVER_LIMIT
            self.over_limit.append((conn, time.monotonic_ns() + _GRACE_NS))
            if in_pool:
                self.wake()
        else:
            self.submit(conn)

    def refusal(self, conn: Conn) -> bytes | None:
        """The answer to a request that a pool thread has opened and that is over the limit or not the application's."""
        if conn.head.startswith(self._special) and (message := self._worker.special(conn.head)) is not None:
            return message
        if self._limit and self._pool.in_progress > self._limit:
            time.sleep(_GRACE_NS / 1e9)
            if self._pool.in_progress > self._limit:
                self._worker.note_refusal()
                return self._refusal
        return None

    def submit(self, conn: Conn) -> None:
        """Let a thread of the pool serve it."""
        conn.stage = BUSY
        # It may wait: its deadline is kept from here.
        if conn.head and self._pool.busy >= self._pool.nearly_full:
            due_ns = self._worker.due_ns(conn.head, conn.arrival_ns)
            if due_ns:
                conn.claim = Claim(conn, due_ns, queued=True)
                self.deadlines.watch(conn.claim)
        try:
            self._pool.submit(conn)
        except RuntimeError:
            self._worker.tell("no thread could be started", trace=False)
            self.answer(conn, self._refusal)

    def answer(self, conn: Conn, message: bytes) -> None:
        """Answer it here, and close in order."""
        conn.push_now(message)
        conn.clean = False
        self.part(conn)

    def retry_or_refuse(self, now_ns: int) -> None:
        """Serve those that are within the limit after all, refuse those whose time is over. Main thread."""
        for _ in range(len(self.over_limit)):
            conn, until_ns = self.over_limit.popleft()
            if self._pool.in_progress < self._limit:
                self.submit(conn)
            elif now_ns >= until_ns:
                self._worker.note_refusal()
                self.answer(conn, self._refusal)
            else:
                self.over_limit.append((conn, until_ns))

    def _turn_away(self, conn: Conn) -> None:
        """Refuse a request that would end too late; its connection stays if nothing else can be on its way."""
        self._worker.note("refused_late")
        if not is_bare(conn.head):
            self.answer(conn, self._late)
        elif conn.push_now(self._late_kept):
            conn.requests += 1
            self.park(conn, b"")
        else:
            self.close(conn)

    # -- a request has been answered

    def next_request(self, conn: Conn, left: bytes) -> None:
        """Go on with a connection whose answer has been sent, and of whose next request `left` has been read."""
        conn.clean = False
        if left:
            conn.arrival_ns = time.monotonic_ns()
            if self.judge(left, 0, False) != PARTIAL:
                conn.head = left
                self.dispatch(conn)
                return
        self.park(conn, left)

    def park(self, conn: Conn, head: bytes, *, writable: bool = False) -> None:
        """Wait for the next head of a connection, or the rest of one.

        Args:
            conn: with or without a head so far.
            head: what has been read of it.
            writable: wait until it can be written instead (TLS).
        """
        now_s = time.monotonic()
        if head:
            if not conn.head:  # its first piece: later ones do not extend the time
                conn.expires_s = now_s + self._head_s
        elif conn.requests:
            conn.expires_s = now_s + (self._keepalive_s if not self.stopping_s else min(self._keepalive_s, LINGER_S))
        conn.head = head
        self._pool.count_out()
        self._hand_over(conn, WAITING, EPOLLOUT if writable else EPOLLIN)

    def part(self, conn: Conn) -> None:
        """Close in order: our side now, the rest when the client has closed its own or its time is over."""
        conn.head = b""
        self._pool.count_out()
        try:
            _shutdown(conn.sock, socket.SHUT_WR)
            ended = not _recv(conn.sock, 4096, _DONTWAIT)
        except BlockingIOError:
            ended = conn.clean
        except OSError:
            ended = True
        if ended:
            self.close(conn)
            return
        conn.expires_s = time.monotonic() + _LEAVE_S
        self._hand_over(conn, LEAVING, EPOLLIN)

    def close(self, conn: Conn) -> None:
        """Close at once and forget. The descriptor leaves the table before the kernel can give it to another."""
        conn.stage = CLOSED
        with self.handing:  # an application that closes the socket itself may have made its number another's
            known = self.connections.get(conn.fd) is conn
            if known:
                del self.connections[conn.fd]
        if known and conn.polled:
            with contextlib.suppress(OSError):
                rearm_now(self._poller_fd, conn.fd, 0)
        with contextlib.suppress(OSError):
            conn.sock.close()
        if not self.listening:
            self.wake()

    def _hand_over(self, conn: Conn, stage: int, event: int) -> None:
        """Give a connection to the main thread."""
        if self._closed:
            self.close(conn)
            return
        try:
            with self.handing:
                conn.stage = stage
                self.arm(conn, event)
        except (OSError, ValueError):  # the application has closed the socket
            self.close(conn)

    # -- the poller

    def add(self, conn: Conn) -> None:
        """Take a new connection into the table."""
        with self.handing:
            self.connections[conn.fd] = conn

    def arm(self, conn: Conn, event: int = EPOLLIN) -> None:
        """Let the poller report the connection once."""
        known, conn.polled = conn.polled, True
        rearm_now(self._poller_fd, conn.sock.fileno(), event | EPOLLONESHOT, known=known)

    def wake(self) -> None:
        """Make the poller return. From any thread or a signal handler."""
        try:
            os.eventfd_write(self._wake_fd, 1)
        except OSError:  # closed: there is nobody to wake
            return

    def clear_wake(self) -> None:
        """Forget that somebody woke the poller. Main thread."""
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            return

    def end(self) -> None:
        """Close the poller; a connection that is handed over from now on is closed. Main thread."""
        self._closed = True
        self._poller_fd = -1
        self.poller.close()
