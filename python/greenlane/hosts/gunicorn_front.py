"""The worker's main thread: accepts, reads heads, answers what needs no application, keeps deadlines, drains.

New and kept-alive connections wait here, never in a thread of the pool. A connection goes to the pool when the head of
a request is whole, and its thread parks it here again by itself: the main thread is not woken for that (an epoll set
may be changed from any thread; a descriptor reports once and is then silent until it is armed again).

Cost: a kept-alive request is one wake-up, one `recv` and one hand-over here, against gthread's select, unregister,
future, callback, pipe write, pipe read, register and two or more mode switches.
"""

from __future__ import annotations

import errno
import heapq
import os
import socket
import time
from _socket import socket as RawSocket
from _thread import allocate_lock
from collections.abc import Sequence
from select import EPOLLIN, EPOLLONESHOT, EPOLLOUT, epoll
from typing import Any, Final, Protocol

from gunicorn.workers import gthread

from greenlane.hosts import gunicorn_answers as answers
from greenlane.hosts.gunicorn_board import Place
from greenlane.hosts.gunicorn_conn import BUSY, CLOSED, LEAVING, WAITING, Claim, Conn
from greenlane.hosts.gunicorn_head import PARTIAL, Judge
from greenlane.hosts.gunicorn_pool import Pool
from greenlane.settings import Settings

__all__ = ["Front", "Served"]

# Read at most this much of a head at once: all of nearly every request, and a small allocation.
_HEAD_BYTES: Final = 16384
# After the last byte of an answer, how long and for how much a client may go on sending before it closes its side.
# Closing earlier would send a reset, which may overtake the answer. The time is gunicorn's; the bytes are those of a
# large upload whose sender looks at the answer only at its end.
_LEAVE_S: Final = 2.0
_LEAVE_BYTES: Final = 64 * 1024 * 1024
# How long a kept-alive connection of a stopping worker may still bring a request.
_LINGER_S: Final = float(getattr(gthread, "STOP_KEEPALIVE_LINGER", 2.0))
# Pause between two looks at time-outs, parent and heartbeat: at most so late is an idle connection closed.
_TICK_S: Final = 0.5
_DRAIN_TICK_S: Final = 0.1
# Accepts a turn where no other worker competes for them.
_BURST: Final = 32
# A worker for which another is better placed looks again after this, and takes the connection when the other has not
# done so within the patience: it may be descheduled, or starved by its own work.
_YIELD_S: Final = 0.001
_PATIENCE_S: Final = 0.005
_PATIENCE_FULL_S: Final = 0.05
# Pause after an accept that failed for want of descriptors or memory.
_SHORTAGE_S: Final = 0.2
# A deadline that could not be answered because the thread was inside the TLS library is tried again after this.
_RETRY_NS: Final = 5_000_000

_recv = RawSocket.recv
_recv_into = RawSocket.recv_into
_shutdown = RawSocket.shutdown
_DONTWAIT: Final = socket.MSG_DONTWAIT
_ARMED: Final = EPOLLIN | EPOLLONESHOT
_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Served(Protocol):
    """What the front needs of its worker."""

    cfg: Any
    log: Any
    alive: bool
    sockets: Sequence[Any]
    # The worker is at its `max_requests` and its successor does not run yet.
    recycling: bool

    def notify(self) -> None:
        """Tell the arbiter that this worker lives."""

    def is_parent_alive(self) -> bool:
        """Whether the arbiter is still our parent."""

    def special(self, head: bytes) -> bytes | None:
        """The answer to a health or metrics request; None = one for the application."""

    def capacity(self) -> int:
        """Requests in progress that count as full just now."""

    def note(self, what: str) -> None:
        """Count an event by its name."""


class Front:
    """The poller and what waits in it.

    Args:
        worker: whose front it is.
        settings: effective settings.
        pool: threads that serve connections whose head is whole.
        place: this worker's line on the board.
        judge: tells whether a head is whole.
        prefixes: what a request for the health or metrics path begins with.
    """

    def __init__(
        self,
        worker: Served,
        settings: Settings,
        pool: Pool[Conn],
        place: Place,
        judge: Judge,
        prefixes: tuple[bytes, ...],
    ) -> None:
        self.worker = worker
        self.pool = pool
        self.connections: dict[int, Conn] = {}
        self._place = place
        self._judge = judge
        self._prefixes = prefixes
        self._limit = settings.limit
        self._refusal = answers.over_limit(settings.limit, settings.retry_after_s)
        self._head_s = settings.head_timeout_s
        self._body_s = settings.body_timeout_s
        cfg = worker.cfg
        self._keepalive_s = float(cfg.keepalive)
        self._most_connections = cfg.worker_connections
        # Bytes that are no plain HTTP/1 head: a pool thread opens the connection.
        self._opens_in_thread = cfg.is_ssl or (cfg.http2_cleartext != "off" and "h2" in cfg.http_protocols)
        self._burst = 1 if cfg.workers > 1 else _BURST

        self._epoll = epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, EPOLLIN)
        self._doors = {door.fileno(): (door, door.getsockname()) for door in worker.sockets}
        self._listening = False
        self._paused_until_s = 0.0
        self._yield_since_s = 0.0
        self._next_tick_s = 0.0
        self._stopping_s = 0.0
        self._closed = False
        self._competes = not cfg.reuse_port
        self._scratch = bytearray(65536)
        # Held while a pool thread parks a connection, and while the main thread takes an expired one: the one moment
        # at which both could think that they own it.
        self._handing = allocate_lock()
        self._deadlines: list[Claim] = []
        self._wake_at_ns = 0
        self._timing = allocate_lock()
        self._warned = False

    # -- called by the main thread ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the worker is not alive any more, then drain."""
        self._place.beat()
        self._show()
        while self.worker.alive:
            self._turn(_TICK_S)
        self._drain()

    def wake(self) -> None:
        """Make the poller return. From any thread or a signal handler."""
        try:
            os.eventfd_write(self._wake_fd, 1)
        except OSError:  # closed: there is nobody to wake
            return

    def _turn(self, tick_s: float) -> None:
        """One wait, and everything that it brought."""
        now_s = time.monotonic()
        self._review_doors(now_s)
        try:
            events = self._epoll.poll(self._pause(now_s, tick_s), 256)
        except InterruptedError:
            return
        now_ns = time.monotonic_ns()
        for fd, _ in events:
            conn = self.connections.get(fd)
            try:
                if conn is not None:
                    self._readable(conn, now_ns)
                elif fd in self._doors:
                    self._accept(fd, now_ns)
                else:
                    self._clear_wake()
            except Exception:
                self._rescue(conn)
        if self._deadlines and self._deadlines[0].deadline_ns <= now_ns:
            self._answer_deadlines(now_ns)
        if now_ns >= self._next_tick_s * 1e9:
            self._tick(now_ns / 1e9, tick_s)

    def _pause(self, now_s: float, tick_s: float) -> float:
        """Seconds to wait in the poller."""
        until_s = min(self._next_tick_s, now_s + tick_s)
        if self._paused_until_s > now_s:
            until_s = min(until_s, self._paused_until_s)
        with self._timing:
            if self._deadlines:
                until_s = min(until_s, self._deadlines[0].deadline_ns / 1e9)
            self._wake_at_ns = int(until_s * 1e9)
        return max(until_s - now_s, 0.0)

    def _clear_wake(self) -> None:
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            return

    def _tick(self, now_s: float, tick_s: float) -> None:
        self._next_tick_s = now_s + tick_s
        worker = self.worker
        worker.notify()
        self._place.beat()
        self._show()
        if worker.alive and not worker.is_parent_alive():
            worker.alive = False
        for conn in list(self.connections.values()):
            if conn.stage in (WAITING, LEAVING):
                try:
                    self._expire(conn, now_s)
                except Exception:
                    self._rescue(conn)

    def _show(self) -> None:
        self._place.show(self.worker.capacity() if self.worker.alive else 0)

    # -- doors ------------------------------------------------------------------------------------------------------

    def _review_doors(self, now_s: float) -> None:
        """Listen if there may be new connections now."""
        wanted = (
            (self.worker.alive or self._takes_over(now_s))
            and len(self.connections) < self._most_connections
            and self._paused_until_s <= now_s
        )
        if wanted != self._listening:
            self._listen(wanted)

    def _takes_over(self, now_s: float) -> bool:
        """A recycled worker that is alone keeps its door open while it lingers: its successor starts at its end."""
        return self.worker.recycling and now_s < self._stopping_s + _LINGER_S and self._place.alone()

    def _listen(self, wanted: bool) -> None:
        for fd in self._doors:
            if wanted:
                self._epoll.register(fd, EPOLLIN)
            else:
                self._epoll.unregister(fd)
        self._listening = wanted

    def _accept(self, door_fd: int, now_ns: int) -> None:
        if not self._listening:
            return
        now_s = now_ns / 1e9
        if self._yields(now_s):
            self._paused_until_s = now_s + _YIELD_S
            self._listen(False)
            return
        self._admit(door_fd, now_ns, self._burst)
        if self._burst == 1:
            self._show()

    def _admit(self, door_fd: int, now_ns: int, most: int) -> None:
        """Accept up to `most` connections."""
        door, address = self._doors[door_fd]
        now_s = now_ns / 1e9
        for _ in range(most):
            try:
                sock, client = door.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._not_accepted(error, now_s)
                return
            conn = Conn(self.worker.cfg, sock, client, address, self._body_s)
            conn.expires_s = now_s + self._head_s
            conn.opens_in_thread = self._opens_in_thread
            self.connections[conn.fd] = conn
            try:
                self._readable(conn, now_ns)
            except Exception:
                self._rescue(conn)
            if len(self.connections) >= self._most_connections:
                return

    def _not_accepted(self, error: OSError, now_s: float) -> None:
        if error.errno in _SHORTAGES:
            self.worker.note("accepts_failed")
            self._warn("cannot accept connections: %s" % error)
            self._paused_until_s = now_s + _SHORTAGE_S
            self._listen(False)
        elif error.errno not in (errno.ECONNABORTED, errno.EPROTO, errno.EPERM):
            raise error

    def _yields(self, now_s: float) -> bool:
        """Whether the connection at the door is better left to another worker."""
        if not self._competes:
            return False
        least = self._place.least_busy()
        if least is None:
            return False  # nobody else has room: all accept
        mine = self.pool.in_progress
        room = mine < self.worker.capacity()
        if room and mine <= least:
            return False
        if now_s - self._paused_until_s > _YIELD_S:  # not the connection that we left alone a moment ago
            self._yield_since_s = now_s
        return now_s - self._yield_since_s < (_PATIENCE_S if room else _PATIENCE_FULL_S)

    # -- connections that the front owns ------------------------------------------------------------------------------

    def _readable(self, conn: Conn, now_ns: int) -> None:
        """Look at a connection that has bytes, or may have."""
        if conn.stage == LEAVING:
            self._leave_on(conn)
            return
        if conn.opens_in_thread:
            self._give(conn, now_ns)
            return
        try:
            data = _recv(conn.sock, _HEAD_BYTES, _DONTWAIT)
        except BlockingIOError:
            self._arm(conn)
            return
        except OSError:
            data = b""
        if data:
            self._take(conn, data, now_ns)
        else:
            self.close(conn)

    def _give(self, conn: Conn, now_ns: int) -> None:
        """Let a pool thread open the connection. A new one waits for its first byte here."""
        if not conn.polled:
            self._arm(conn)
            return
        if not conn.head:
            conn.arrival_ns = now_ns
        self._submit(conn)

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
            self.dispatch(conn, 0)

    def _expire(self, conn: Conn, now_s: float) -> None:
        """Give up on a connection whose time is over."""
        with self._handing:
            if conn.stage == WAITING and self._stopping_s and not conn.head:
                conn.expires_s = min(conn.expires_s, self._stopping_s + _LINGER_S)
            if conn.expires_s > now_s or conn.stage not in (WAITING, LEAVING):
                return
        if conn.stage == LEAVING:
            self.close(conn)
        elif conn.is_http2:
            conn.farewell = True
            self._submit(conn)
        elif conn.head:
            self.worker.note("head_timeouts")
            conn.push_now(answers.HEAD_TIMEOUT)
            self.part(conn)
        elif conn.opens_in_thread or not self._has_come(conn, now_s):
            self.part(conn)

    def _has_come(self, conn: Conn, now_s: float) -> bool:
        """Whether a request came in the very moment in which an idle connection is to be closed; then it is served."""
        try:
            data = _recv(conn.sock, _HEAD_BYTES, _DONTWAIT)
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
                self.close(conn)
                return
        self._arm(conn)

    def _rescue(self, conn: Conn | None) -> None:
        """After a failure of ours: the connection goes to a thread as gthread would have sent it, else it is closed."""
        self._warn("the front failed; such connections are served as gthread serves them", trace=True)
        if conn is None or conn.stage in (BUSY, CLOSED):
            return
        try:
            if conn.stage == WAITING:
                self._submit(conn)
                return
        except Exception:
            self.worker.log.debug("greenlane: connection lost", exc_info=True)
        self.close(conn)

    def _warn(self, message: str, trace: bool = False) -> None:
        """Log the first of such events only."""
        if not self._warned:
            self._warned = True
            self.worker.log.warning("greenlane: %s (told once)", message, exc_info=trace)

    # -- called by whoever owns the connection --------------------------------------------------------------------------

    def dispatch(self, conn: Conn, own: int) -> None:
        """Pass on a connection whose head is whole: answered here, refused, or served by the pool.

        Args:
            conn: with its head; the caller owns it, and does not any more afterwards.
            own: requests in progress that end with this call: 1 from a pool thread, 0 from the main thread.
        """
        if self._prefixes and conn.head.startswith(self._prefixes):
            message = self.worker.special(conn.head)
            if message is not None:
                self._answer(conn, message)
                return
        if self._limit and self.pool.in_progress - own >= self._limit:
            self.worker.note("refused")
            self._answer(conn, self._refusal)
            return
        self._submit(conn)

    def refusal(self, conn: Conn) -> bytes | None:
        """The answer to a request that a pool thread has opened and that is over the limit or not the application's."""
        if self._prefixes and conn.head.startswith(self._prefixes):
            message = self.worker.special(conn.head)
            if message is not None:
                return message
        if self._limit and self.pool.in_progress > self._limit:
            self.worker.note("refused")
            return self._refusal
        return None

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
            conn.expires_s = now_s + (self._keepalive_s if not self._stopping_s else min(self._keepalive_s, _LINGER_S))
        conn.head = head
        with self._handing:
            conn.stage = WAITING
            self._arm(conn, EPOLLOUT if writable else EPOLLIN)

    def next_request(self, conn: Conn, left: bytes) -> None:
        """Go on with a connection whose answer has been sent, and of whose next request `left` has been read."""
        conn.clean = False
        if left:
            conn.arrival_ns = time.monotonic_ns()
            if self._judge(left, 0, False) != PARTIAL:
                conn.head = left
                self.dispatch(conn, 1)
                return
        self.park(conn, left)

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
        with self._handing:
            conn.expires_s = time.monotonic() + _LEAVE_S
            conn.stage = LEAVING
            self._arm(conn)

    def close(self, conn: Conn) -> None:
        """Close at once and forget. The descriptor leaves the table before the kernel can give it to another."""
        conn.stage = CLOSED
        known = self.connections.pop(conn.fd, None)
        if conn.polled and known is not None:
            try:
                self._epoll.unregister(conn.fd)
            except (OSError, ValueError):
                pass
        try:
            conn.sock.close()
        except OSError:
            pass
        if not self._listening:
            self.wake()

    def watch(self, claim: Claim) -> None:
        """Answer 504 at the claim's deadline unless its thread has claimed the answer."""
        with self._timing:
            heapq.heappush(self._deadlines, claim)
            earlier = claim.deadline_ns < self._wake_at_ns
        if earlier:
            self.wake()

    def _submit(self, conn: Conn) -> None:
        conn.stage = BUSY
        try:
            self.pool.submit(conn)
        except RuntimeError as error:
            self._warn(f"no thread could be started: {error}")
            self._answer(conn, self._refusal)

    def _answer(self, conn: Conn, message: bytes) -> None:
        conn.push_now(message)
        conn.clean = False
        self.part(conn)

    def _arm(self, conn: Conn, event: int = EPOLLIN) -> None:
        """Let the poller report the connection once. Whoever calls this gives it to the main thread."""
        if self._closed:
            self.close(conn)
            return
        polled, conn.polled = conn.polled, True
        if polled:
            self._epoll.modify(conn.fd, event | EPOLLONESHOT)
        else:
            self._epoll.register(conn.fd, event | EPOLLONESHOT)

    # -- deadlines --------------------------------------------------------------------------------------------------

    def _answer_deadlines(self, now_ns: int) -> None:
        while True:
            with self._timing:
                heap = self._deadlines
                if not heap or heap[0].deadline_ns > now_ns:
                    return
                claim = heapq.heappop(heap)
                if len(heap) > 1024 and len(heap) > 4 * self.pool.in_progress:
                    self._deadlines = [kept for kept in heap if not kept.over]
                    heapq.heapify(self._deadlines)
            if not claim.over and not self._answered(claim):
                claim.deadline_ns = now_ns + _RETRY_NS
                with self._timing:
                    heapq.heappush(self._deadlines, claim)

    def _answered(self, claim: Claim) -> bool:
        """Whether the request is answered, by us or by its thread; False = not possible just now."""
        conn = claim.conn
        with claim.answering:
            if claim.over:
                return True
            if conn.tls and not conn.io.acquire(blocking=False):
                return False
            try:
                if claim.take():
                    claim.answered = True
                    self.worker.note("deadline_answers")
                    conn.push_now(answers.DEADLINE)
                    try:
                        _shutdown(conn.sock, socket.SHUT_WR)
                    except OSError:
                        pass
            finally:
                if conn.tls:
                    conn.io.release()
        return True

    # -- the end ------------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Serve what is here or on its way, each answer with `Connection: close`, then close the rest.

        Told to stop (TERM), the door is shut at once, after those who stand in it have been let in. At `max_requests`
        it stays open for the time of the linger if no other worker is there.
        """
        self._stopping_s = time.monotonic()
        self._place.show(0)
        if not self.worker.recycling:
            self._shut_doors()
        until_s = self._stopping_s + self.worker.cfg.graceful_timeout
        self._next_tick_s = 0.0
        while self.connections and time.monotonic() < until_s:
            self._turn(_DRAIN_TICK_S)
        self._shut_doors()
        self._place.leave()
        self.pool.shutdown(wait=False)
        for conn in list(self.connections.values()):
            if conn.stage in (WAITING, LEAVING):
                self.close(conn)
        self._closed = True
        self._epoll.close()

    def _shut_doors(self) -> None:
        """Close the doors. Who has connected already is let in first: the last process to close would reset them.

        Not when a successor follows: the door stays open in the arbiter, and they wait for it.
        """
        if self._listening:
            self._listen(False)
        for fd in list(self._doors):
            if not (self.worker.recycling and self._competes):
                self._admit(fd, time.monotonic_ns(), self._most_connections)
            door, _ = self._doors.pop(fd)
            door.close()
