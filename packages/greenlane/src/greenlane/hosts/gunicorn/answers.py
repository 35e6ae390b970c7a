"""Answers: refusals, the response of the application, and requests that have a deadline.

A refusal is a whole HTTP/1 message as bytes. Each but `too_late` closes its connection: what the client may have sent
behind the request has not been looked at.

A request with a deadline has a `Claim`: its thread or the main thread answers, the first to take it. No timer thread
and no thread per request: the main thread's poller waits no longer than until the first deadline, and is woken only by
a request whose deadline is sooner than that.
"""

from __future__ import annotations

import errno
import heapq
import os
import time
from _thread import allocate_lock
from collections.abc import Callable
from typing import Any, Final

from gunicorn import util
from gunicorn.http import wsgi

from greenlane.hosts.gunicorn.connection import Conn

__all__ = [
    "BODY_TIMEOUT",
    "DEADLINE",
    "HEAD_TIMEOUT",
    "Claim",
    "ClaimedResponse",
    "Deadlines",
    "answer",
    "answered_already",
    "falls_short",
    "over_limit",
    "too_late",
]

# A first piece above this goes in a write of its own: joining would copy it.
_JOIN_BYTES = 65536
# Claims of ended requests stay until their deadline; beyond this many, and when they are most, they are cleared away.
_KEPT: Final = 1024

# (second, what `Date` says in it): replaced by the first thread in another second.
_date: tuple[int, str] = (0, "")


def answer(status: str, body: str, *, head_only: bool = False, kind: str = "text/plain", extra: str = "") -> bytes:
    """One HTTP/1.1 message that closes the connection.

    Args:
        status: such as "503 Service Unavailable".
        body: text, sent as UTF-8.
        head_only: leave the body out, as the answer to HEAD.
        kind: media type.
        extra: further header lines, each ended by CRLF.
    """
    content = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}; charset=utf-8\r\n"
        f"Content-Length: {len(content)}\r\n{extra}\r\n"
    )
    return head.encode("latin-1") + (b"" if head_only else content)


def over_limit(limit: int, retry_after_s: int) -> bytes:
    """The refusal of a request over the limit."""
    body = f"over the limit of {limit} requests in progress\n"
    return answer("503 Service Unavailable", body, extra=f"Retry-After: {retry_after_s}\r\n")


def too_late(retry_after_s: int, *, keep: bool) -> bytes:
    """The refusal of a request that would end too late, without a body; `keep`: the connection stays."""
    connection = "" if keep else "Connection: close\r\n"
    head = f"HTTP/1.1 503 Service Unavailable\r\n{connection}Retry-After: {retry_after_s}\r\nContent-Length: 0\r\n\r\n"
    return head.encode("latin-1")


DEADLINE = answer("504 Gateway Timeout", "deadline exceeded\n")
HEAD_TIMEOUT = answer("408 Request Timeout", "the request's head did not arrive in time\n")
BODY_TIMEOUT = answer("408 Request Timeout", "the request's body did not arrive in time\n")


class Claim:
    """The right to answer a request that has a deadline: its thread's or the front's. Exactly one `take` gives True.

    The front takes it and answers under `answering`; a thread that has lost it passes through `answering` before it
    closes the socket, so that the front never writes to a descriptor that has become another's.
    """

    __slots__ = ("_token", "answered", "answering", "conn", "deadline_ns", "over", "queued")

    def __init__(self, conn: Conn, deadline_ns: int, *, queued: bool = False) -> None:
        # None once the request is over: the claim itself stays with the deadlines until its time.
        self.conn: Conn | None = conn
        self.deadline_ns = deadline_ns
        # No thread has begun with the request. Written by its thread when it does.
        self.queued = queued
        # The request has ended, answered by its thread or the front. Written by its thread.
        self.over = False
        # The front has answered it. Written by the front under `answering`.
        self.answered = False
        self.answering = allocate_lock()
        self._token = [None]

    def take(self) -> bool:
        """Claim the answer. Atomic with and without the GIL: `list.pop` either gives the token or raises."""
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def __lt__(self, other: Claim) -> bool:
        return self.deadline_ns < other.deadline_ns


def answered_already() -> BrokenPipeError:
    """What the thread meets when it writes to a request that was answered 504: the same as when the client is gone."""
    return BrokenPipeError(errno.EPIPE, "deadline exceeded: the request has been answered 504")


def falls_short(resp: wsgi.Response) -> bool:
    """Whether fewer bytes were sent than the answer's Content-Length: its client waits until the connection ends."""
    return resp.response_length is not None and not resp._omits_body and resp.sent < resp.response_length


class Deadlines:
    """Claims in the order of their deadlines. Any thread may `watch`; the rest is the front's.

    Args:
        wake: makes the front's poller return.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._guard = allocate_lock()
        self._heap: list[Claim] = []
        self._wakes_at_ns = 0
        self._clear_at = _KEPT

    def watch(self, claim: Claim) -> None:
        """Give `claim` out at its deadline, unless it is over by then."""
        with self._guard:
            heapq.heappush(self._heap, claim)
            sooner = claim.deadline_ns < self._wakes_at_ns
        if sooner:
            self._wake()

    def first(self, until_ns: int) -> int:
        """When the poller must return, `until_ns` or sooner. It is remembered: what comes later wakes nobody."""
        with self._guard:
            if self._heap and self._heap[0].deadline_ns < until_ns:
                until_ns = self._heap[0].deadline_ns
            self._wakes_at_ns = until_ns
        return until_ns

    def take(self, now_ns: int) -> Claim | None:
        """A claim whose deadline has passed and whose request goes on; None = none is left."""
        with self._guard:
            self._clear()
            while self._heap and self._heap[0].deadline_ns <= now_ns:
                claim = heapq.heappop(self._heap)
                if not claim.over:
                    return claim
        return None

    def _clear(self) -> None:
        if len(self._heap) > self._clear_at:
            self._heap = [claim for claim in self._heap if not claim.over]
            heapq.heapify(self._heap)
            self._clear_at = max(_KEPT, 2 * len(self._heap))


class ClaimedResponse(wsgi.Response):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's HTTP/1 response for one of our connections.

    Nothing of the answer is written before `claim` is won. When the main thread has answered 504 the first write
    raises what a client that has gone raises, and the application ends the way it does then.
    """

    headers_sent: bool
    chunked: bool
    response_length: int | None
    headers: list[tuple[str, str]]
    upgrade: bool
    version: str
    status: str

    def __init__(self, req: Any, sock: Any, cfg: Any, conn: Conn, worker: Any) -> None:
        super().__init__(req, sock, cfg)
        self.conn = conn
        self._worker = worker
        # None: no deadline, nobody else can answer.
        self.claim: Claim | None = None
        self._joins = False
        self._head = b""

    def measure(self, body: object) -> None:
        """Give an answer of one piece its length (PEP 3333): one write then, which no death can leave half done.

        Behind the front of `greenlane serve` only: beside gthread an answer looks like gthread's.
        """
        if self._worker.behind_front and self.chunked and not self.headers_sent and isinstance(body, bytes):
            self.headers.append(("Content-Length", str(len(body))))
            self.response_length = len(body)
            self.chunked = False

    def default_headers(self) -> list[str]:
        """gunicorn's; the date is written once a second, which takes as long as the rest of the answer."""
        global _date
        now_s = int(time.time())
        if _date[0] != now_s:
            _date = now_s, util.http_date(now_s)
        persists = "upgrade" if self.upgrade else "close" if self.should_close() else "keep-alive"
        major, minor = self.req.version
        lines = [
            f"HTTP/{major}.{minor} {self.status}\r\n",
            f"Server: {self.version}\r\n",
            f"Date: {_date[1]}\r\n",
            f"Connection: {persists}\r\n",
        ]
        if self.chunked:
            lines.append("Transfer-Encoding: chunked\r\n")
        return lines

    def send_headers(self) -> None:
        """Send the head; inside `write` it waits for the first piece of the body, which follows at once."""
        if self.headers_sent:
            return
        if self.claim is not None and not self.claim.take():
            raise answered_already()
        if not self._worker.alive:  # told to stop since the request began
            self.force_close()
        lines = self.default_headers()
        lines.extend([f"{name}: {value}\r\n" for name, value in self.headers])
        lines.append("\r\n")
        head = "".join(lines).encode("latin-1")
        self.headers_sent = True
        if self._joins:
            self._head = head
        else:
            self.conn.push(head)

    def write(self, arg: bytes) -> None:
        """Send a piece of the body, before it the head if that has not gone."""
        if self.headers_sent:
            super().write(arg)
            return
        self._joins = True
        try:
            super().write(arg)
        finally:
            self._joins = False
            if self._head:  # no body belongs to this answer, or the piece was empty or no bytes
                head, self._head = self._head, b""
                self.conn.push(head)

    def _emit_body(self, data: bytes) -> None:
        head, self._head = self._head, b""
        if self.chunked:
            head += b"%X\r\n" % len(data)
        push = self.conn.push
        if len(data) <= _JOIN_BYTES:
            push(b"%b%b\r\n" % (head, data) if self.chunked else head + data)
            return
        if head:
            push(head)
        push(data)
        if self.chunked:
            push(b"\r\n")

    def sendfile(self, respiter: Any) -> bool:
        """gunicorn's, which does not count what it sends; a file may be shorter than its declared length."""
        sent = bool(super().sendfile(respiter))
        if sent and self.response_length is not None:
            fileno = respiter.filelike.fileno()
            left = os.fstat(fileno).st_size - os.lseek(fileno, 0, os.SEEK_CUR)
            self.sent = min(left, self.response_length)
        return sent

    def close(self) -> None:
        """End the answer; a connection that still owes a part of it brings no further request."""
        super().close()
        if falls_short(self):
            self.force_close()
            self._worker.tell("an answer was shorter than its Content-Length: its connection was closed", trace=False)
