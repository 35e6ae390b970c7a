"""Where connections wait: the poller, the table of those that are here, and how one changes its owner.

An epoll set may be changed from any thread; a descriptor reports once and is then silent until it is armed again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from _socket import socket as RawSocket
from _thread import allocate_lock
from collections.abc import Callable
from select import EPOLLIN, EPOLLONESHOT, EPOLLOUT, epoll
from typing import Final

from gunicorn.workers import gthread

from greenlane._native import rearm_now
from greenlane.hosts.gunicorn_conn import CLOSED, LEAVING, WAITING, Conn

__all__ = ["LINGER_S", "Waiting"]

# After the last byte of an answer, how long a client may go on sending before it closes its side. Closing earlier would
# send a reset, which may overtake the answer. The time is gunicorn's.
_LEAVE_S: Final = 2.0
#: How long a kept-alive connection of a stopping worker may still bring a request.
LINGER_S: Final = float(getattr(gthread, "STOP_KEEPALIVE_LINGER", 2.0))

_recv = RawSocket.recv
_shutdown = RawSocket.shutdown
_DONTWAIT: Final = socket.MSG_DONTWAIT


class Waiting:
    """The poller and the table of connections.

    Args:
        head_s: time for a head, from its first byte.
        keepalive_s: time for the next request of a connection.
        listening: whether the doors are watched; while they are not, the end of a connection wakes the poller.
    """

    def __init__(self, head_s: float, keepalive_s: float, listening: Callable[[], bool]) -> None:
        self.connections: dict[int, Conn] = {}
        self.poller = epoll()
        # When the worker began to stop; 0 = it has not.
        self.stopping_s = 0.0
        # Held while a thread parks a connection and while the main thread takes an expired one, the one moment at which
        # both could think that they own it; and while the table changes.
        self.handing = allocate_lock()
        self._head_s = head_s
        self._keepalive_s = keepalive_s
        self._listening = listening
        self._poller_fd = self.poller.fileno()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.poller.register(self._wake_fd, EPOLLIN)
        self._closed = False

    def add(self, conn: Conn) -> None:
        """Take a new connection into the table."""
        with self.handing:
            self.connections[conn.fd] = conn

    def wake(self) -> None:
        """Make the poller return. From any thread or a signal handler."""
        try:
            os.eventfd_write(self._wake_fd, 1)
        except OSError:  # closed: there is nobody to wake
            return

    def clear_wake(self) -> None:
        """Forget that somebody woke the poller."""
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            return

    def park(self, conn: Conn, head: bytes, *, writable: bool = False) -> None:
        """Wait for the next head of a connection, or the rest of one.

        Args:
            conn: the caller owns it, and does not any more afterwards.
            head: what has been read of it.
            writable: wait until it can be written instead (TLS).
        """
        now_s = time.monotonic()
        if head:
            if not conn.head:  # its first piece: later ones bring no more time
                conn.expires_s = now_s + self._head_s
        elif conn.requests:
            conn.expires_s = now_s + (self._keepalive_s if not self.stopping_s else min(self._keepalive_s, LINGER_S))
        conn.head = head
        self.hand_over(conn, WAITING, EPOLLOUT if writable else EPOLLIN)

    def part(self, conn: Conn) -> None:
        """Close in order: our side now, the rest when the client has closed its own or its time is over."""
        conn.head = b""
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
        self.hand_over(conn, LEAVING, EPOLLIN)

    def close(self, conn: Conn) -> None:
        """Close at once and forget. The descriptor leaves the table before the kernel can give it to another."""
        conn.stage = CLOSED
        with self.handing:  # an application that closes the socket itself may have made its number another's
            known = self.connections.get(conn.fd) is conn
            if known:
                del self.connections[conn.fd]
        if known and conn.polled:
            with contextlib.suppress(OSError, ValueError):
                self.poller.unregister(conn.fd)
        with contextlib.suppress(OSError):
            conn.sock.close()
        if not self._listening():
            self.wake()

    def hand_over(self, conn: Conn, stage: int, event: int) -> None:
        """Give a connection to the main thread, from whichever thread owns it."""
        if self._closed:
            self.close(conn)
            return
        try:
            with self.handing:
                conn.stage = stage
                self.arm(conn, event)
        except (OSError, ValueError):  # the application has closed the socket
            self.close(conn)

    def arm(self, conn: Conn, event: int = EPOLLIN) -> None:
        """Let the poller report the connection once."""
        polled, conn.polled = conn.polled, True
        if polled:
            rearm_now(self._poller_fd, conn.sock.fileno(), event | EPOLLONESHOT)
        else:
            self.poller.register(conn.sock, event | EPOLLONESHOT)

    def end(self) -> None:
        """Close the poller; who hands a connection over from now on closes it."""
        self._closed = True
        self._poller_fd = -1
        self.poller.close()
