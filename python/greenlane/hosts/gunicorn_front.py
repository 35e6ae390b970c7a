"""The worker's main thread: accepts, reads heads, answers what needs no application, keeps deadlines, drains.

New and kept-alive connections wait here, never in a thread of the pool. A connection goes to the pool when the head of
a request is whole, and its thread parks it here again by itself: the main thread is not woken for that (an epoll set
may be changed from any thread; a descriptor reports once and is then silent until it is armed again).

The calls of each request (`recv`, `send`, `epoll_ctl`) cannot block and keep the GIL: see `_native.recv_now`.

Cost: a kept-alive request is one wake-up, one `recv` and one hand-over here, against gthread's select, unregister,
future, callback, pipe write, pipe read, register and two or more mode switches.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from _socket import socket as RawSocket
from _thread import allocate_lock
from collections import deque
from collections.abc import Sequence
from select import EPOLLIN, EPOLLONESHOT, EPOLLOUT, POLLHUP, epoll, poll
from typing import Any, Final, Protocol

from gunicorn.workers import gthread

from greenlane._native import rearm_now, recv_now
from greenlane.hosts import gunicorn_answers as answers
from greenlane.hosts import gunicorn_head
from greenlane.hosts.gunicorn_board import AWAY, Place
from greenlane.hosts.gunicorn_conn import BUSY, CLOSED, DOUBTED, LEAVING, WAITING, Claim, Conn
from greenlane.hosts.gunicorn_deadlines import Deadlines
from greenlane.hosts.gunicorn_doors import Doors
from greenlane.hosts.gunicorn_head import PARTIAL, Judge
from greenlane.hosts.gunicorn_pool import Pool
from greenlane.settings import Settings

__all__ = ["Front", "Served"]

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
# A request over the limit is looked at again for so long: a client that has just read the answer to another one can be
# here before that one's thread has counted it out.
_DOUBT_NS: Final = 2_000_000
_DOUBT_LOOK_S: Final = 0.001
# Failed turns in a row after which the worker ends and the arbiter starts another. Arbitrary.
_MOST_FAILURES: Final = 20
# A deadline that could not be answered because the thread was inside the TLS library is tried again after this.
_RETRY_NS: Final = 5_000_000

_recv = RawSocket.recv
_recv_into = RawSocket.recv_into
_shutdown = RawSocket.shutdown
_DONTWAIT: Final = socket.MSG_DONTWAIT


class Served(Protocol):
    """What the front needs of its worker."""

    cfg: Any
    log: Any
    # Told to stop when False.
    alive: bool
    sockets: Sequence[Any]
    # All requests come from the front of `greenlane serve`, over Unix sockets.
    behind_front: bool
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

    def note_refusal(self) -> None:
        """Count a request that was refused over a limit, and let the log know now and then."""

    def due_ns(self, head: bytes, arrival_ns: int) -> int:
        """The deadline of a request that no thread has looked at; 0 = none."""

    def too_late(self, conn: Conn) -> bool:
        """Whether a request is refused because it would end too late. Behind the front only."""


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
        self._late = answers.too_late(settings.retry_after_s, keep=False)
        self._late_kept = answers.too_late(settings.retry_after_s, keep=True)
        self._head_s = settings.head_timeout_s
        self._body = (settings.body_timeout_s, settings.body_bytes_per_s)
        cfg = worker.cfg
        self._keepalive_s = float(cfg.keepalive)
        self._most_connections = int(cfg.worker_connections)
        # Bytes that are no plain HTTP/1 head: a pool thread opens the connection.
        self._opens_in_thread = cfg.is_ssl or (cfg.http2_cleartext != "off" and "h2" in cfg.http_protocols)
        self._epoll = epoll()
        self._epoll_fd = self._epoll.fileno()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, EPOLLIN)
        self._doors = Doors(
            worker.sockets,
            self._epoll,
            place,
            reuse_port=bool(cfg.reuse_port),
            competes=cfg.workers > 1,
            load=self._load,
            welcome=self._welcome,
            failed=self._not_accepted,
        )
        self._next_tick_s = 0.0
        self._stopping_s = 0.0
        self._closed = False
        self._scratch = bytearray(65536)
        # Held while a thread parks a connection and while the main thread takes an expired one, the one moment at which
        # both could think that they own it; and while the table changes.
        self._handing = allocate_lock()
        # (connection, when it is refused); anybody appends, the main thread takes.
        self._doubted: deque[tuple[Conn, int]] = deque()
        self._deadlines = Deadlines(self.wake)
        self.watch = self._deadlines.watch
        self._warned = False
        self._failures = 0

    # -- called by the main thread

    def run(self) -> None:
        """Serve until the worker is not alive any more, then drain."""
        self._place.beat()
        self._show()
        while self.worker.alive:
            self._turn_on(_TICK_S)
        self._drain()

    def wake(self) -> None:
        """Make the poller return. From any thread or a signal handler."""
        try:
            os.eventfd_write(self._wake_fd, 1)
        except OSError:  # closed: there is nobody to wake
            return

    def _turn_on(self, tick_s: float) -> None:
        """A turn that survives a failure of ours, unless it fails again and again."""
        try:
            self._turn(tick_s)
        except Exception:
            self._failures += 1
            if self._failures > _MOST_FAILURES:
                raise
            self._warn("a turn of the front failed", trace=True)
        else:
            self._failures = 0

    def _turn(self, tick_s: float) -> None:
        """One wait, and everything that it brought."""
        now_s = time.monotonic()
        self._doors.review(self._wants_connections(now_s), now_s)
        try:
            events = self._epoll.poll(self._pause(now_s, tick_s), 256)
        except InterruptedError:
            return
        now_ns = time.monotonic_ns()
        if self._doubted:
            self._judge_doubted(now_ns)
        for fd, _ in events:
            conn = self.connections.get(fd)
            try:
                if conn is not None:
                    self._readable(conn, now_ns)
                elif fd in self._doors:
                    self._doors.come(fd, now_ns)
                    self._show()
                else:
                    self._clear_wake()
            except Exception:
                self._rescue(conn)
        self._answer_deadlines(now_ns)
        if now_ns >= self._next_tick_s * 1e9:
            self._tick(now_ns / 1e9, tick_s)

    def _pause(self, now_s: float, tick_s: float) -> float:
        """Seconds to wait in the poller."""
        until_s = min(self._next_tick_s, now_s + tick_s)
        if self._doors.paused_until_s > now_s:
            until_s = min(until_s, self._doors.paused_until_s)
        if self._doubted:
            until_s = min(until_s, now_s + _DOUBT_LOOK_S)
        return max(self._deadlines.first(int(until_s * 1e9)) / 1e9 - now_s, 0.0)

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
        if worker.behind_front:
            self._look_for_gone()
        for conn in list(self.connections.values()):
            if conn.stage in (WAITING, LEAVING) and (conn.expires_s <= now_s or self._stopping_s):
                try:
                    self._expire(conn, now_s)
                except Exception:
                    self._rescue(conn)

    def _look_for_gone(self) -> None:
        """Find the requests whose clients have left: the front of the service closes its connection to us.

        On a Unix socket only a close hangs up: a half-closed one does not.
        """
        look = poll()
        for conn in list(self.connections.values()):
            if conn.stage == BUSY and not conn.gone:
                look.register(conn.fd, 0)
        for fd, event in look.poll(0):
            found = self.connections.get(fd)
            if found is None or found.stage != BUSY or not event & POLLHUP:
                continue
            found.gone = True
            if self.pool.withdraw(found):
                self.worker.note("unstarted")
                if found.claim is not None:
                    found.claim.over = True
                self.close(found)
            else:
                self.worker.note("clients_gone")

    def _show(self) -> None:
        self._place.show(self.worker.capacity() if self.worker.alive else AWAY)

    # -- doors

    def _wants_connections(self, now_s: float) -> bool:
        """Whether there may be new connections now.

        A recycled worker that is alone goes on accepting while it lingers: its successor starts at its end.
        """
        if not self.worker.alive:
            lingers = self.worker.recycling and now_s < self._stopping_s + _LINGER_S
            if not (lingers and self._place.alone()):
                return False
        return len(self.connections) < self._most_connections

    def _load(self) -> tuple[int, int]:
        return self.pool.in_progress, self.worker.capacity()

    def _welcome(self, sock: socket.socket, client: Any, address: Any, now_ns: int) -> bool:
        conn = Conn(self.worker.cfg, sock, client, address, *self._body)
        conn.expires_s = now_ns / 1e9 + self._head_s
        conn.opens_in_thread = self._opens_in_thread
        with self._handing:
            self.connections[conn.fd] = conn
        try:
            self._readable(conn, now_ns)
        except Exception:
            self._rescue(conn)
        return len(self.connections) < self._most_connections

    def _not_accepted(self, error: OSError) -> None:
        self.worker.note("accepts_failed")
        self._warn(f"cannot accept connections: {error}")

    # -- connections that the front owns

    def _readable(self, conn: Conn, now_ns: int) -> None:
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
                self.close(conn)
                return
        self._arm(conn)

    def _rescue(self, conn: Conn | None) -> None:
        """After a failure of ours: the connection goes to a thread as gthread would have sent it, else it is closed."""
        self._warn("the front failed; such connections are served as gthread serves them", trace=True)
        if conn is None or conn.stage in (BUSY, CLOSED):
            return
        try:
            if conn.stage in (WAITING, DOUBTED):
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

    # -- called by whoever owns the connection

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
        if self.worker.behind_front and self.worker.too_late(conn):
            self._turn_away(conn)
            return
        if self._limit and self.pool.in_progress - own >= self._limit:
            conn.stage = DOUBTED
            self._doubted.append((conn, time.monotonic_ns() + _DOUBT_NS))
            if own:
                self.wake()
            return
        self._submit(conn)

    def _turn_away(self, conn: Conn) -> None:
        """Refuse a request that would end too late; its connection stays if nothing else can be on its way."""
        self.worker.note("refused_late")
        if not gunicorn_head.is_bare(conn.head):
            self._answer(conn, self._late)
        elif conn.push_now(self._late_kept):
            conn.requests += 1
            self.park(conn, b"")
        else:
            self.close(conn)

    def refusal(self, conn: Conn) -> bytes | None:
        """The answer to a request that a pool thread has opened and that is over the limit or not the application's."""
        if self._prefixes and conn.head.startswith(self._prefixes):
            message = self.worker.special(conn.head)
            if message is not None:
                return message
        if self._limit and self.pool.in_progress > self._limit:
            time.sleep(_DOUBT_NS / 1e9)
            if self.pool.in_progress > self._limit:
                self.worker.note_refusal()
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
        self._hand_over(conn, WAITING, EPOLLOUT if writable else EPOLLIN)

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
        conn.expires_s = time.monotonic() + _LEAVE_S
        self._hand_over(conn, LEAVING, EPOLLIN)

    def close(self, conn: Conn) -> None:
        """Close at once and forget. The descriptor leaves the table before the kernel can give it to another."""
        conn.stage = CLOSED
        with self._handing:  # an application that closes the socket itself may have made its number another's
            known = self.connections.get(conn.fd) is conn
            if known:
                del self.connections[conn.fd]
        if known and conn.polled:
            with contextlib.suppress(OSError, ValueError):
                self._epoll.unregister(conn.fd)
        with contextlib.suppress(OSError):
            conn.sock.close()
        if not self._doors.listening:
            self.wake()

    def _submit(self, conn: Conn) -> None:
        conn.stage = BUSY
        if conn.head and self.pool.in_progress >= self.pool.ceiling:  # it will wait: its deadline is kept from here
            due_ns = self.worker.due_ns(conn.head, conn.arrival_ns)
            if due_ns:
                conn.claim = Claim(conn, due_ns, queued=True)
                self.watch(conn.claim)
        try:
            self.pool.submit(conn)
        except RuntimeError as error:
            self._warn(f"no thread could be started: {error}")
            self._answer(conn, self._refusal)

    def _answer(self, conn: Conn, message: bytes) -> None:
        conn.push_now(message)
        conn.clean = False
        self.part(conn)

    def _hand_over(self, conn: Conn, stage: int, event: int) -> None:
        """Give a connection to the main thread, from whichever thread owns it."""
        if self._closed:
            self.close(conn)
            return
        try:
            with self._handing:
                conn.stage = stage
                self._arm(conn, event)
        except (OSError, ValueError):  # the application has closed the socket
            self.close(conn)

    def _arm(self, conn: Conn, event: int = EPOLLIN) -> None:
        """Let the poller report the connection once."""
        polled, conn.polled = conn.polled, True
        if polled:
            rearm_now(self._epoll_fd, conn.sock.fileno(), event | EPOLLONESHOT)
        else:
            self._epoll.register(conn.sock, event | EPOLLONESHOT)

    def _judge_doubted(self, now_ns: int) -> None:
        """Serve who is within the limit after all, refuse whose time is over."""
        for _ in range(len(self._doubted)):
            conn, until_ns = self._doubted.popleft()
            if self.pool.in_progress < self._limit:
                self._submit(conn)
            elif now_ns >= until_ns:
                self.worker.note_refusal()
                self._answer(conn, self._refusal)
            else:
                self._doubted.append((conn, until_ns))

    # -- deadlines

    def _answer_deadlines(self, now_ns: int) -> None:
        while (claim := self._deadlines.take(now_ns)) is not None:
            if not self._answered(claim):
                claim.deadline_ns = now_ns + _RETRY_NS
                self.watch(claim)

    def _answered(self, claim: Claim) -> bool:
        """Whether the request is answered, by us or by its thread; False = not possible just now."""
        with claim.answering:
            conn = claim.conn
            if claim.over or conn is None:
                return True
            if claim.queued and self.pool.withdraw(conn):
                claim.over = claim.answered = True
                conn.claim = None
                self.worker.note("deadline_answers")
                self._answer(conn, answers.DEADLINE)
                return True
            if conn.tls and not conn.io.acquire(blocking=False):
                return False
            try:
                if claim.take():
                    claim.answered = True
                    self.worker.note("deadline_answers")
                    conn.push_now(answers.DEADLINE)
                    with contextlib.suppress(OSError):
                        _shutdown(conn.sock, socket.SHUT_WR)
            finally:
                if conn.tls:
                    conn.io.release()
        return True

    # -- the end

    def _drain(self) -> None:
        """Serve what is here or on its way, each answer with `Connection: close`, then close the rest.

        Told to stop (TERM), the door is shut at once, after those who stand in it have been let in. At `max_requests`
        it stays open for the time of the linger if no other worker is there.
        """
        self._stopping_s = time.monotonic()
        self._place.show(AWAY)
        if not (self.worker.recycling and self._doors.shared):
            self._doors.shut(let_in=True)
        until_s = self._stopping_s + self.worker.cfg.graceful_timeout
        self._next_tick_s = 0.0
        while self.connections and time.monotonic() < until_s:
            if not (self.worker.recycling and self._doors.shared):
                self._doors.shut(let_in=True)
            self._turn_on(_DRAIN_TICK_S)
        self._doors.shut(let_in=False)  # who stands there waits for the successor, which has the same door
        self._place.leave()
        self.pool.shutdown(wait=False)
        for conn in list(self.connections.values()):
            if conn.stage in (WAITING, LEAVING, DOUBTED):
                self.close(conn)
        self._closed = True
        self._epoll_fd = -1
        self._epoll.close()
