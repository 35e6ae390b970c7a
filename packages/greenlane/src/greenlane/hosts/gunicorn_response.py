"""The response writer: gunicorn's, which first claims the answer, and sends head and first piece in one write."""

from __future__ import annotations

import time
from typing import Any

from gunicorn import util
from gunicorn.http import wsgi

from greenlane.hosts.gunicorn_conn import Claim, Conn, too_late

__all__ = ["ClaimedResponse"]

# A first piece above this goes in a write of its own: joining would copy it.
_JOIN_BYTES = 65536

# (second, what `Date` says in it): replaced by whoever finds another second.
_date: tuple[int, str] = (0, "")


class ClaimedResponse(wsgi.Response):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's HTTP/1 response for one connection of ours.

    Nothing of the answer is written before `claim` is won. When the front has answered 504 the first write raises what
    a client that has gone raises, and the application ends the way it does then.
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
            raise too_late()
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
