"""The front itself: one turn of the main thread after the other, and the end."""

from __future__ import annotations

import socket
import time
from typing import Any, Final

from greenlane.hosts.gunicorn_board import AWAY, Place
from greenlane.hosts.gunicorn_conn import BUSY, CLOSED, DOUBTED, LEAVING, WAITING, Conn
from greenlane.hosts.gunicorn_deadlines import Deadlines
from greenlane.hosts.gunicorn_doors import Doors
from greenlane.hosts.gunicorn_front.gone import look_for_gone
from greenlane.hosts.gunicorn_front.once import Once
from greenlane.hosts.gunicorn_front.overdue import Overdue
from greenlane.hosts.gunicorn_front.passing import DOUBT_LOOK_S, Passing
from greenlane.hosts.gunicorn_front.reading import Reading
from greenlane.hosts.gunicorn_front.served import Served
from greenlane.hosts.gunicorn_front.waiting import LINGER_S, Waiting
from greenlane.hosts.gunicorn_head import Judge
from greenlane.hosts.gunicorn_pool import Pool
from greenlane.settings import Settings

__all__ = ["Front"]

# Pause between two looks at time-outs, parent and heartbeat: at most so late is an idle connection closed.
_TICK_S: Final = 0.5
_DRAIN_TICK_S: Final = 0.1
# Failed turns in a row after which the worker ends and the arbiter starts another. Arbitrary.
_MOST_FAILURES: Final = 20


class Front:
    """The main thread of a worker, and what its pool threads call.

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
        cfg = worker.cfg
        self.worker = worker
        self.pool = pool
        self._place = place
        self._once = Once(worker)
        self._head_s = settings.head_timeout_s
        self._body = (settings.body_timeout_s, settings.body_bytes_per_s)
        self._most_connections = int(cfg.worker_connections)
        # Bytes that are no plain HTTP/1 head: a pool thread opens the connection.
        self._opens_in_thread = cfg.is_ssl or (cfg.http2_cleartext != "off" and "h2" in cfg.http_protocols)
        self._waiting = Waiting(self._head_s, float(cfg.keepalive), self._listens)
        self._deadlines = Deadlines(self._waiting.wake)
        self._passing = Passing(
            worker, settings, pool, self._waiting, judge, prefixes, self._deadlines.watch, self._once
        )
        self._reading = Reading(worker, self._waiting, self._passing, judge, self._head_s)
        self._overdue = Overdue(worker, pool, self._passing, self._deadlines)
        self._doors = Doors(
            worker.sockets,
            self._waiting.poller,
            place,
            reuse_port=bool(cfg.reuse_port),
            competes=cfg.workers > 1,
            load=self._load,
            welcome=self._welcome,
            failed=self._not_accepted,
        )
        self._next_tick_s = 0.0
        self._failures = 0
        # By fd. From any thread.
        self.connections = self._waiting.connections
        # From any thread or a signal handler.
        self.wake = self._waiting.wake
        # For whoever owns a connection, the main thread or one of the pool; not its owner any more afterwards.
        self.park, self.part, self.close = self._waiting.park, self._waiting.part, self._waiting.close
        self.dispatch, self.next_request = self._passing.dispatch, self._passing.next_request
        # For threads of the pool.
        self.refusal = self._passing.refusal
        self.watch = self._deadlines.watch

    def run(self) -> None:
        """Serve until the worker is not alive any more, then drain."""
        self._place.beat()
        self._show()
        while self.worker.alive:
            self._turn_on(_TICK_S)
        self._drain()

    def _turn_on(self, tick_s: float) -> None:
        """A turn that survives a failure of ours, unless it fails again and again."""
        try:
            self._turn(tick_s)
        except Exception:
            self._failures += 1
            if self._failures > _MOST_FAILURES:
                raise
            self._once.warn("a turn of the front failed", trace=True)
        else:
            self._failures = 0

    def _turn(self, tick_s: float) -> None:
        """One wait, and everything that it brought."""
        now_s = time.monotonic()
        self._doors.review(self._wants_connections(now_s), now_s)
        try:
            events = self._waiting.poller.poll(self._pause(now_s, tick_s), 256)
        except InterruptedError:
            return
        now_ns = time.monotonic_ns()
        if self._passing.doubted:
            self._passing.judge_doubted(now_ns)
        for fd, _ in events:
            conn = self.connections.get(fd)
            try:
                if conn is not None:
                    self._reading.readable(conn, now_ns)
                elif fd in self._doors:
                    self._doors.come(fd, now_ns)
                    self._show()
                else:
                    self._waiting.clear_wake()
            except Exception:
                self._rescue(conn)
        self._overdue.answer(now_ns)
        if now_ns >= self._next_tick_s * 1e9:
            self._tick(now_ns / 1e9, tick_s)

    def _pause(self, now_s: float, tick_s: float) -> float:
        """Seconds to wait in the poller."""
        until_s = min(self._next_tick_s, now_s + tick_s)
        if self._doors.paused_until_s > now_s:
            until_s = min(until_s, self._doors.paused_until_s)
        if self._passing.doubted:
            until_s = min(until_s, now_s + DOUBT_LOOK_S)
        return max(self._deadlines.first(int(until_s * 1e9)) / 1e9 - now_s, 0.0)

    def _tick(self, now_s: float, tick_s: float) -> None:
        self._next_tick_s = now_s + tick_s
        worker = self.worker
        worker.notify()
        self._place.beat()
        self._show()
        if worker.alive and not worker.is_parent_alive():
            worker.alive = False
        if worker.behind_front:
            look_for_gone(worker, self.pool, self._waiting)
        for conn in list(self.connections.values()):
            if conn.stage in (WAITING, LEAVING) and (conn.expires_s <= now_s or self._waiting.stopping_s):
                try:
                    self._reading.expire(conn, now_s)
                except Exception:
                    self._rescue(conn)

    def _show(self) -> None:
        self._place.show(self.worker.capacity() if self.worker.alive else AWAY)

    # -- doors

    def _listens(self) -> bool:
        return self._doors.listening

    def _wants_connections(self, now_s: float) -> bool:
        """Whether there may be new connections now.

        A recycled worker that is alone goes on accepting while it lingers: its successor starts at its end.
        """
        if not self.worker.alive:
            lingers = self.worker.recycling and now_s < self._waiting.stopping_s + LINGER_S
            if not (lingers and self._place.alone()):
                return False
        return len(self.connections) < self._most_connections

    def _load(self) -> tuple[int, int]:
        return self.pool.in_progress, self.worker.capacity()

    def _welcome(self, sock: socket.socket, client: Any, address: Any, now_ns: int) -> bool:
        conn = Conn(self.worker.cfg, sock, client, address, *self._body)
        conn.expires_s = now_ns / 1e9 + self._head_s
        conn.opens_in_thread = self._opens_in_thread
        self._waiting.add(conn)
        try:
            self._reading.readable(conn, now_ns)
        except Exception:
            self._rescue(conn)
        return len(self.connections) < self._most_connections

    def _not_accepted(self, error: OSError) -> None:
        self.worker.note("accepts_failed")
        self._once.warn(f"cannot accept connections: {error}")

    def _rescue(self, conn: Conn | None) -> None:
        """After a failure of ours: the connection goes to a thread as gthread would have sent it, else it is closed."""
        self._once.warn("the front failed; such connections are served as gthread serves them", trace=True)
        if conn is None or conn.stage in (BUSY, CLOSED):
            return
        try:
            if conn.stage in (WAITING, DOUBTED):
                self._passing.submit(conn)
                return
        except Exception:
            self.worker.log.debug("greenlane: connection lost", exc_info=True)
        self.close(conn)

    # -- the end

    def _drain(self) -> None:
        """Serve what is here or on its way, each answer with `Connection: close`, then close the rest.

        Told to stop (TERM), the door is shut at once, after those who stand in it have been let in. At `max_requests`
        it stays open for the time of the linger if no other worker is there.
        """
        self._waiting.stopping_s = time.monotonic()
        self._place.show(AWAY)
        if not (self.worker.recycling and self._doors.shared):
            self._doors.shut(let_in=True)
        until_s = self._waiting.stopping_s + self.worker.cfg.graceful_timeout
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
        self._waiting.end()
