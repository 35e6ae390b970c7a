"""What becomes of a request whose head is whole: answered here, refused, or served by a thread of the pool.

By whoever owns the connection: the main thread, or the pool thread that has read ahead.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from greenlane.hosts import gunicorn_answers as answers
from greenlane.hosts import gunicorn_head
from greenlane.hosts.gunicorn_conn import BUSY, DOUBTED, Claim, Conn
from greenlane.hosts.gunicorn_front.once import Once
from greenlane.hosts.gunicorn_front.served import Served
from greenlane.hosts.gunicorn_front.waiting import Waiting
from greenlane.hosts.gunicorn_head import PARTIAL, Judge
from greenlane.hosts.gunicorn_pool import Pool
from greenlane.settings import Settings

__all__ = ["DOUBT_LOOK_S", "Passing"]

# A request over the limit is looked at again for so long: a client that has just read the answer to another one can be
# here before that one's thread has counted it out.
_DOUBT_NS: Final = 2_000_000
#: Pause between two such looks.
DOUBT_LOOK_S: Final = 0.001


class Passing:
    """Passes requests on, within the limit.

    Args:
        worker: answers health and metrics, and judges what is too late.
        settings: effective settings.
        pool: threads that serve connections whose head is whole.
        waiting: where connections go back to.
        judge: tells whether a head is whole.
        prefixes: what a request for the health or metrics path begins with.
        watch: keeps a deadline.
        once: warns.
    """

    def __init__(
        self,
        worker: Served,
        settings: Settings,
        pool: Pool[Conn],
        waiting: Waiting,
        judge: Judge,
        prefixes: tuple[bytes, ...],
        watch: Callable[[Claim], None],
        once: Once,
    ) -> None:
        # (connection, when it is refused); anybody appends, the main thread takes.
        self.doubted: deque[tuple[Conn, int]] = deque()
        self._worker = worker
        self._pool = pool
        self._waiting = waiting
        self._judge = judge
        self._prefixes = prefixes
        self._watch = watch
        self._once = once
        self._limit = settings.limit
        self._refusal = answers.over_limit(settings.limit, settings.retry_after_s)
        self._late = answers.too_late(settings.retry_after_s, keep=False)
        self._late_kept = answers.too_late(settings.retry_after_s, keep=True)

    def dispatch(self, conn: Conn, own: int) -> None:
        """Pass on a connection whose head is whole: answered here, refused, or served by the pool.

        Args:
            conn: with its head; the caller owns it, and does not any more afterwards.
            own: requests in progress that end with this call: 1 from a pool thread, 0 from the main thread.
        """
        if self._prefixes and conn.head.startswith(self._prefixes):
            message = self._worker.special(conn.head)
            if message is not None:
                self.answer(conn, message)
                return
        if self._worker.behind_front and self._worker.too_late(conn):
            self._turn_away(conn)
            return
        if self._limit and self._pool.in_progress - own >= self._limit:
            conn.stage = DOUBTED
            self.doubted.append((conn, time.monotonic_ns() + _DOUBT_NS))
            if own:
                self._waiting.wake()
            return
        self.submit(conn)

    def _turn_away(self, conn: Conn) -> None:
        """Refuse a request that would end too late; its connection stays if nothing else can be on its way."""
        self._worker.note("refused_late")
        if not gunicorn_head.is_bare(conn.head):
            self.answer(conn, self._late)
        elif conn.push_now(self._late_kept):
            conn.requests += 1
            self._waiting.park(conn, b"")
        else:
            self._waiting.close(conn)

    def refusal(self, conn: Conn) -> bytes | None:
        """The answer to a request that a pool thread has opened and that is over the limit or not the application's."""
        if self._prefixes and conn.head.startswith(self._prefixes):
            message = self._worker.special(conn.head)
            if message is not None:
                return message
        if self._limit and self._pool.in_progress > self._limit:
            time.sleep(_DOUBT_NS / 1e9)
            if self._pool.in_progress > self._limit:
                self._worker.note_refusal()
                return self._refusal
        return None

    def next_request(self, conn: Conn, left: bytes) -> None:
        """Go on with a connection whose answer has been sent, and of whose next request `left` has been read."""
        conn.clean = False
        if left:
            conn.arrival_ns = time.monotonic_ns()
            if self._judge(left, 0, False) != PARTIAL:
                conn.head = left
                self.dispatch(conn, 1)
                return
        self._waiting.park(conn, left)

    def submit(self, conn: Conn) -> None:
        """Let a thread of the pool serve it."""
        conn.stage = BUSY
        if conn.head and self._pool.in_progress >= self._pool.ceiling:  # it will wait: its deadline is kept from here
            due_ns = self._worker.due_ns(conn.head, conn.arrival_ns)
            if due_ns:
                conn.claim = Claim(conn, due_ns, queued=True)
                self._watch(conn.claim)
        try:
            self._pool.submit(conn)
        except RuntimeError as error:
            self._once.warn(f"no thread could be started: {error}")
            self.answer(conn, self._refusal)

    def answer(self, conn: Conn, message: bytes) -> None:
        """Answer it here, and close in order."""
        conn.push_now(message)
        conn.clean = False
        self._waiting.part(conn)

    def judge_doubted(self, now_ns: int) -> None:
        """Serve who is within the limit after all, refuse whose time is over."""
        for _ in range(len(self.doubted)):
            conn, until_ns = self.doubted.popleft()
            if self._pool.in_progress < self._limit:
                self.submit(conn)
            elif now_ns >= until_ns:
                self._worker.note_refusal()
                self.answer(conn, self._refusal)
            else:
                self.doubted.append((conn, until_ns))
