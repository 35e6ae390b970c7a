"""The main thread of a worker: accepts, reads heads, answers what needs no application, keeps deadlines, drains.

New and kept-alive connections wait here, never in a thread of the pool. A connection goes to the pool when the head of
a request is whole, and its thread parks it here again.

The calls of each request (`recv`, `send`, `epoll_ctl`) cannot block and keep the GIL: see `_native.recv_now`.

Cost: a kept-alive request is one wake-up, one `recv` and one hand-over here, against gthread's select, unregister,
future, callback, pipe write, pipe read, register and two or more mode switches.
"""

from __future__ import annotations

import contextlib
import socket
import time
from _socket import socket as RawSocket
from select import POLLHUP, POLLRDHUP, poll
from typing import Any, Final

from greenlane._native import recv_now
from greenlane.hosts.gunicorn import answers
from greenlane.hosts.gunicorn.answers import Claim
from greenlane.hosts.gunicorn.connection import BUSY, CLOSED, LEAVING, OVER_LIMIT, PARTIAL, WAITING, Conn, Served
from greenlane.hosts.gunicorn.dispatch import DOUBT_LOOK_S, LINGER_S, Dispatch
from greenlane.hosts.gunicorn.listeners import AWAY, Line, Listeners
from greenlane.hosts.pool import Pool
from greenlane.settings import Settings

__all__ = ["Front"]

# Pause between two looks at time-outs, parent and heartbeat: at most so late is an idle connection closed.
_TICK_S: Final = 0.5
_DRAIN_TICK_S: Final = 0.1
# Failed turns in a row after which the worker ends and the arbiter starts another. Arbitrary.
_MOST_FAILURES: Final = 20
# After the last byte of an answer, for how much a client may go on sending: a large upload whose sender looks at the
# answer only at its end.
_LEAVE_BYTES: Final = 64 * 1024 * 1024
# A deadline that could not be answered because the thread was inside the TLS library is tried again after this.
_RETRY_NS: Final = 5_000_000

_recv_into = RawSocket.recv_into
_shutdown = RawSocket.shutdown
_DONTWAIT: Final = socket.MSG_DONTWAIT


class Front:
    """The main thread of a worker.

    Args:
        worker: whose front it is.
        settings: effective settings.
        pool: threads that serve connections whose head is whole.
        line: this worker's line on the board.
        dispatch: where connections go from here.
    """

    def __init__(self, worker: Served, settings: Settings, pool: Pool[Conn], line: Line, dispatch: Dispatch) -> None:
        self._worker = worker
        self._pool = pool
        self._line = line
        self._dispatch = dispatch
        self._connections = dispatch.connections
        self._listeners = Listeners(worker, pool, dispatch, line, self._welcome)
        self._head_s = settings.head_timeout_s
        self._body = (settings.body_timeout_s, settings.body_bytes_per_s)
        self._most_connections = int(worker.cfg.worker_connections)
        # Bytes that are no plain HTTP/1 head: a pool thread opens the connection.
        cfg = worker.cfg
        self._opens_in_thread = cfg.is_ssl or (cfg.http2_cleartext != "off" and "h2" in cfg.http_protocols)
        self._scratch = bytearray(65536)
        self._next_tick_s = 0.0
        self._failures = 0

    def run(self) -> None:
        """Serve until the worker is told to stop, then drain."""
        self._line.beat()
        self._show()
        while self._worker.alive:
            self._turn_on(_TICK_S)
        self._drain()

    def _turn_on(self, tick_s: float) -> None:
        """A turn that survives an internal failure, unless it fails again and again."""
        try:
            self._turn(tick_s)
        except Exception:
            self._failures += 1
            if self._failures > _MOST_FAILURES:
                raise
            self._worker.tell("a turn of the front failed")
        else:
            self._failures = 0

    def _turn(self, tick_s: float) -> None:
        """One wait, and everything that it brought."""
        now_s = time.monotonic()
        self._listeners.review(self._wants_connections(now_s), now_s)
        try:
            events = self._dispatch.poller.poll(self._pause(now_s, tick_s), 256)
        except InterruptedError:
            return
        now_ns = time.monotonic_ns()
        if self._dispatch.over_limit:
            self._dispatch.retry_or_refuse(now_ns)
        for fd, _ in events:
            conn = self._connections.get(fd)
            try:
                if conn is not None:
                    self._readable(conn, now_ns)
                elif fd in self._listeners:
                    self._listeners.come(fd, now_ns)
                    self._show()
                else:
                    self._dispatch.clear_wake()
            except Exception:
                self._rescue(conn)
        self._answer_overdue(now_ns)
        if now_ns >= self._next_tick_s * 1e9:
            self._tick(now_ns / 1e9, tick_s)

    def _pause(self, now_s: float, tick_s: float) -> float:
        """Seconds to wait in the poller."""
        until_s = min(self._next_tick_s, now_s + tick_s)
        if self._listeners.paused_until_s > now_s:
            until_s = min(until_s, self._listeners.paused_until_s)
        if self._dispatch.over_limit:
            until_s = min(until_s, now_s + DOUBT_LOOK_S)
        return max(self._dispatch.deadlines.first(int(until_s * 1e9)) / 1e9 - now_s, 0.0)

    def _tick(self, now_s: float, tick_s: float) -> None:
        """What is done now and then: heartbeat, parent, board, connections whose time is over."""
        self._next_tick_s = now_s + tick_s
        worker = self._worker
        worker.notify()
        self._line.beat()
        self._show()
        if worker.alive and not worker.is_parent_alive():
            worker.alive = False
        if worker.behind_front:
            self._look_for_gone()
        for conn in list(self._connections.values()):
            if conn.stage in (WAITING, LEAVING) and (conn.expires_s <= now_s or self._dispatch.stopping_s):
                try:
                    self._expire(conn, now_s)
                except Exception:
                    self._rescue(conn)

    def _show(self) -> None:
        self._line.show(self._worker.capacity() if self._worker.alive else AWAY)

    def _rescue(self, conn: Conn | None) -> None:
        """After an internal failure: a thread gets the connection, as under gthread, else it is closed."""
        self._worker.tell("the front failed; such connections are served as gthread serves them")
        if conn is None or conn.stage in (BUSY, CLOSED):
            return
        try:
            if conn.stage in (WAITING, OVER_LIMIT):
                self._dispatch.submit(conn)
                return
        except Exception:
            self._worker.log.debug("greenlane: connection lost", exc_info=True)
        self._dispatch.close(conn)

    # -- new connections

    def _wants_connections(self, now_s: float) -> bool:
        """Whether there may be new connections now.

        A recycled worker that is alone goes on accepting while it lingers: its successor starts at its end.
        """
        if not self._worker.alive:
            lingers = self._worker.recycling and now_s < self._dispatch.stopping_s + LINGER_S
            if not (lingers and self._line.alone()):
                return False
        return len(self._connections) < self._most_connections

    def _welcome(self, sock: socket.socket, client: Any, address: Any, now_ns: int) -> bool:
        conn = Conn(self._worker.cfg, sock, client, address, *self._body)
        conn.expires_s = now_ns / 1e9 + self._head_s
        conn.opens_in_thread = self._opens_in_thread
        self._dispatch.add(conn)
        try:
            self._readable(conn, now_ns)
        except Exception:
            self._rescue(conn)
        return len(self._connections) < self._most_connections

    # -- reading heads

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
            self._dispatch.arm(conn)
            return
        except OSError:
            data = b""
        if data:
            self._take(conn, data, now_ns)
        else:
            self._dispatch.close(conn)

    def _give(self, conn: Conn, now_ns: int) -> None:
        """Let a pool thread open the connection. A new one waits for its first byte here."""
        if not conn.polled:
            self._dispatch.arm(conn)
            return
        if not conn.head:
            conn.arrival_ns = now_ns
        self._dispatch.submit(conn)

    def _take(self, conn: Conn, data: bytes, now_ns: int) -> None:
        """Add bytes of a head; pass the request on when it is whole."""
        judged = len(conn.head)
        if judged:
            conn.head += data
        else:
            conn.head = data
            # A connection that was accepted in this turn may be younger than the turn.
            conn.arrival_ns = now_ns if conn.polled else time.monotonic_ns()
        if self._dispatch.judge(conn.head, judged, not conn.requests) == PARTIAL:
            if not judged:
                conn.expires_s = now_ns / 1e9 + self._head_s
            self._dispatch.arm(conn)
        else:
            self._dispatch.dispatch(conn)

    def _expire(self, conn: Conn, now_s: float) -> None:
        """Give up on a connection whose time is over."""
        dispatch = self._dispatch
        with dispatch.handing:
            if conn.stage == WAITING and dispatch.stopping_s and not conn.head:
                conn.expires_s = min(conn.expires_s, dispatch.stopping_s + LINGER_S)
            if conn.expires_s > now_s or conn.stage not in (WAITING, LEAVING):
                return
        if conn.stage == LEAVING:
            dispatch.close(conn)
        elif conn.is_http2:
            conn.farewell = True
            dispatch.submit(conn)
        elif conn.head:
            self._worker.note("head_timeouts")
            conn.push_now(answers.HEAD_TIMEOUT)
            dispatch.part(conn)
        elif conn.opens_in_thread or not self._has_come(conn, now_s):
            dispatch.part(conn)

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
                self._dispatch.arm(conn)
                return
            except OSError:
                size = 0
            conn.thrown_bytes += size
            if not size or conn.thrown_bytes > _LEAVE_BYTES:
                self._dispatch.close(conn)
                return
        self._dispatch.arm(conn)

    # -- requests in progress: past their deadline, or left by their client

    def _answer_overdue(self, now_ns: int) -> None:
        """Answer 504 to all requests whose deadline has passed; their work goes on in its thread."""
        deadlines = self._dispatch.deadlines
        while (claim := deadlines.take(now_ns)) is not None:
            if not self._answered(claim):
                claim.deadline_ns = now_ns + _RETRY_NS
                deadlines.watch(claim)

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
                self._dispatch.answer(conn, answers.DEADLINE)
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

    def _look_for_gone(self) -> None:
        """Find the requests whose clients have left: the front of the service closes its connection to us.

        It half-closes one whose client it has ended for reading too slowly: a thread that writes to it is let go.
        """
        look = poll()
        for conn in list(self._connections.values()):
            if conn.stage == BUSY and not conn.gone:
                look.register(conn.fd, POLLRDHUP)
        for fd, event in look.poll(0):
            found = self._connections.get(fd)
            if found is None or found.stage != BUSY or not event & (POLLHUP | POLLRDHUP):
                continue
            found.gone = True
            if not event & POLLHUP:
                with contextlib.suppress(OSError):
                    _shutdown(found.sock, socket.SHUT_RDWR)
            if self._pool.withdraw(found):
                self._worker.note("unstarted")
                if found.claim is not None:
                    found.claim.over = True
                self._dispatch.close(found)
            else:
                self._worker.note("clients_gone")

    # -- the end

    def _drain(self) -> None:
        """Serve what is here or on its way, each answer with `Connection: close`, then close the rest.

        Told to stop (TERM), waiting connections are accepted, then the listening sockets are closed.
        At `max_requests` they stay open for the time of the linger if no other worker is there.
        """
        dispatch = self._dispatch
        dispatch.stopping_s = time.monotonic()
        self._line.show(AWAY)
        self._shut_unless_recycling()
        until_s = dispatch.stopping_s + self._worker.cfg.graceful_timeout
        self._next_tick_s = 0.0
        while self._connections and time.monotonic() < until_s:
            self._shut_unless_recycling()
            self._turn_on(_DRAIN_TICK_S)
        self._listeners.shut(let_in=False)  # waiting connections are left to the successor, which has the same sockets
        self._line.leave()
        self._pool.shutdown(wait=False)
        for conn in list(self._connections.values()):
            if conn.stage in (WAITING, LEAVING, OVER_LIMIT):
                dispatch.close(conn)
        dispatch.end()

    def _shut_unless_recycling(self) -> None:
        if not (self._worker.recycling and self._listeners.shared):
            self._listeners.shut(let_in=True)
