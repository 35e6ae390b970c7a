"""One HTTP/1 request, on a thread of the pool: parsed by gunicorn, run as a job, answered once.

Follows gthread's `handle` and `handle_request` step by step, hooks and logs included. Ours is the job around them, the
claim on the answer, and that a failure is answered whenever it still can be.
"""

from __future__ import annotations

import errno
import itertools
import ssl
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from gunicorn import http
from gunicorn.http import wsgi
from gunicorn.http2 import negotiation

from greenlane.errors import Cancelled, DeadlineExceeded
from greenlane.hosts.gunicorn import answers
from greenlane.hosts.gunicorn.answers import Claim, ClaimedResponse, answered_already
from greenlane.hosts.gunicorn.connection import AheadUnreader, Conn, QuickParser, Served
from greenlane.hosts.gunicorn.dispatch import Dispatch
from greenlane.hosts.pool import Pool

__all__ = ["Http1"]

Environ = dict[str, Any]

# What a client that has gone looks like to a write or a read.
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN})


class Http1:
    """Serves connections whose head is whole. One for a worker, called by the threads of its pool.

    Args:
        worker: has the application, and opens jobs.
        dispatch: takes connections back.
        pool: the threads.
    """

    def __init__(self, worker: Served, dispatch: Dispatch, pool: Pool[Conn]) -> None:
        self._worker = worker
        self._dispatch = dispatch
        self._pool = pool
        self._log = worker.log
        self._served = itertools.count(1)
        # gunicorn's settings; looking one up costs as much as half a parsed header.
        cfg = self._cfg = worker.cfg
        self._keeps = bool(cfg.keepalive)
        self._pre_request, self._post_request = cfg.pre_request, cfg.post_request
        self._upgrades = cfg.http2_cleartext in ("upgrade", "both")
        self._uwsgi = cfg.protocol == "uwsgi"

    def serve(self, conn: Conn) -> None:
        """Serve one request whose head is whole, and give the connection back."""
        if not self._request(conn):
            self._dispatch.part(conn)
        elif conn.is_http2:  # upgraded
            conn.opens_in_thread = True
            self._dispatch.park(conn, b"")
        elif conn.tls:
            from greenlane.hosts.gunicorn import tls

            tls.next_request(conn, self._dispatch)
        else:
            self._dispatch.next_request(conn, conn.parser.unreader.left())

    def _request(self, conn: Conn) -> bool:
        """Parse and answer one request; whether the connection may bring another."""
        req = conn.response = None
        try:
            parser = conn.parser or self._make_parser(conn)
            parser.unreader.ahead, conn.head = conn.head, b""
            conn.requests += 1
            if conn.claim is not None:
                conn.claim.queued = False
            req = next(parser)
            if self._upgrades and negotiation.upgrade_allowed(self._cfg, conn.client):
                settings = negotiation.upgrade_settings(req)
                if settings is not None:
                    conn.bound_body()
                    return bool(self._worker.handle_h2c_upgrade(conn, req, settings))
            return bool(self._worker._keepalive_after(conn, self._answer(req, conn)))
        except BaseException as error:  # SystemExit of the application too: the worker lives on
            self.failed(req, conn, error)
            return False
        finally:
            if conn.claim is not None:
                _end_claim(conn)

    def _make_parser(self, conn: Conn) -> Any:
        make = http.get_parser if self._uwsgi else QuickParser
        conn.make_parser(make(self._cfg, conn.sock, conn.client))
        return conn.parser

    def _answer(self, req: Any, conn: Conn) -> bool:
        """Run the application for one request; whether its connection may be kept."""
        worker = self._worker
        environ: Environ = {}
        resp = None
        try:
            self._pre_request(worker, req)
            started = datetime.now()
            resp, environ = self._begin(req, conn)
            self._count(resp)
            worker.open_job(conn, environ)
            self._watch(conn, resp, environ)
            application = worker.admit(conn, environ)
            body = application(environ, resp.start_response)
            try:
                _send(resp, body, environ)
            finally:
                if conn.claim is not None and conn.claim.answered:
                    resp.status, resp.status_code = "504 Gateway Timeout", 504
                self._log.access(resp, req, environ, datetime.now() - started)
                if hasattr(body, "close"):
                    body.close()
            if resp.should_close():
                self._log.debug("Closing connection.")
                conn.clean = req.should_close() and conn.nothing_left()
                return False
        except OSError:
            raise
        except BaseException:
            if resp is None or not resp.headers_sent:
                raise
            self._log.exception("Error handling request")
            return False
        finally:
            try:
                self._post_request(worker, req, environ, resp)
            except Exception:
                self._log.exception("Exception in post_request hook")
            worker.close_job(conn, resp.status_code if resp is not None and resp.headers_sent else 500)
        return True

    def _begin(self, req: Any, conn: Conn) -> tuple[ClaimedResponse, Environ]:
        resp, environ = wsgi.create(
            req,
            conn.sock,
            conn.client,
            conn.server,
            self._cfg,
            response_class=ClaimedResponse,
            response_args=(conn, self._worker),
        )
        conn.response = resp
        environ["wsgi.multithread"] = True
        if _takes_over(req, environ):
            conn.unbound_body()
        elif "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
            conn.bound_body()
        return resp, environ

    def _count(self, resp: ClaimedResponse) -> None:
        """Count the request, and decide whether its connection is to close after it."""
        worker = self._worker
        worker.nr = next(self._served)
        if worker.nr >= worker.max_requests:
            if worker.alive:
                self._log.info("Autorestarting worker after current request.")
                worker.recycling = True
                worker.alive = False
                self._dispatch.wake()
            resp.force_close()
        elif not (worker.alive and self._keeps):
            resp.force_close()
        elif len(self._dispatch.connections) - self._pool.in_progress >= worker.max_keepalived:
            resp.force_close()

    def _watch(self, conn: Conn, resp: ClaimedResponse, environ: Environ) -> None:
        """Let the main thread answer at the request's deadline, unless the application may write to the socket."""
        claim = conn.claim
        if claim is None:
            due_ns = self._worker.running.deadline_ns() if conn.opened else 0
            conn.span_ns = max(due_ns - conn.arrival_ns, 1) if due_ns else 0
            if not due_ns or _takes_over(resp.req, environ):
                return
            claim = conn.claim = Claim(conn, due_ns)
            self._dispatch.deadlines.watch(claim)
        resp.claim = claim
        if conn.tls:
            environ["wsgi.early_hints"] = _one_at_a_time(conn, environ["wsgi.early_hints"])
        if claim.answered:  # while it waited for this thread
            raise answered_already()

    def failed(self, req: Any, conn: Conn, error: BaseException) -> None:
        """Answer what can still be answered after a request has failed, and log what gthread logs."""
        match error:
            case http.errors.NoMoreData():
                self._log.debug("Ignored premature client disconnection. %s", error)
            case StopIteration():
                self._log.debug("Closing connection. %s", error)
            case ssl.SSLError(args=(ssl.SSL_ERROR_EOF, *_)):
                self._log.debug("ssl connection closed")
            case Cancelled():
                self._log.debug("Ended at a checkpoint: the client has left.")
            case DeadlineExceeded() if _may_answer(conn):
                conn.push(answers.DEADLINE)
            case DeadlineExceeded():
                self._log.debug("Late work ended. %s", error)
            case TimeoutError() if _body_timed_out(conn):
                self._worker.note("body_timeouts")
                if _may_answer(conn):
                    conn.push_now(answers.BODY_TIMEOUT)
            case OSError(errno=number) if number in _GONE and not isinstance(error, ssl.SSLError):
                self._log.debug("Ignoring connection %s", errno.errorcode[number].lower())
            case _ if _may_answer(conn):
                self._worker.handle_error(req, conn.sock, conn.client, error)
            case _:
                self._log.error("Error handling request", exc_info=error)


def _send(resp: ClaimedResponse, body: Iterable[bytes], environ: Environ) -> None:
    if isinstance(body, environ["wsgi.file_wrapper"]):
        resp.write_file(body)
    else:
        if isinstance(body, list) and len(body) == 1:
            resp.measure(body[0])
        for piece in body:
            resp.write(piece)
    resp.close()


def _takes_over(req: Any, environ: Environ) -> bool:
    """Whether the application may use the socket itself: a WebSocket, a tunnel."""
    return "HTTP_UPGRADE" in environ or req.method == "CONNECT"


def _may_answer(conn: Conn) -> bool:
    """Whether no part of an answer has been written, and no other thread writes one."""
    resp: ClaimedResponse | None = conn.response
    if resp is not None and resp.headers_sent:
        return False
    return conn.claim is None or bool(conn.claim.take())


def _body_timed_out(conn: Conn) -> bool:
    unreader = getattr(conn.parser, "unreader", None)
    return isinstance(unreader, AheadUnreader) and unreader.timed_out


def _end_claim(conn: Conn) -> None:
    """End the request's claim, after the main thread has finished with the connection should it be answering it."""
    claim, conn.claim = conn.claim, None
    claim.over = True
    with claim.answering:
        claim.conn = None


def _one_at_a_time(conn: Conn, hints: Callable[[Any], None]) -> Callable[[Any], None]:
    """`wsgi.early_hints` that does not enter the TLS library while the front is in it, nor write after the answer."""

    def send(headers: Any) -> None:
        with conn.io:
            if conn.claim is None or not conn.claim.answered:
                hints(headers)

    return send
