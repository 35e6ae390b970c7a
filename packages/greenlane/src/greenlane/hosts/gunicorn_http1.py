"""One HTTP/1 request, on a thread of the pool: parsed by gunicorn, run as a job, answered once.

Follows gthread's `handle` and `handle_request` step by step, hooks and logs included. Ours is the job around them, the
claim on the answer, and that a failure is answered whenever it still can be.
"""

from __future__ import annotations

import errno
import itertools
import ssl
import time
from _thread import allocate_lock
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from gunicorn import http
from gunicorn.http import wsgi
from gunicorn.http2 import negotiation
from gunicorn.workers.gthread import ThreadWorker

from greenlane import deadline
from greenlane.bootstrap import LANE_KEY, Running
from greenlane.errors import Cancelled, DeadlineExceeded
from greenlane.hosts import gunicorn_answers as answers
from greenlane.hosts.gunicorn_conn import AheadUnreader, Claim, Conn, QuickParser, too_late
from greenlane.hosts.gunicorn_front import Front
from greenlane.hosts.gunicorn_pool import Pool
from greenlane.hosts.gunicorn_response import ClaimedResponse
from greenlane.hosts.observed.wsgi import Requests
from greenlane.hosts.shedding import Shedding

__all__ = ["Application", "Environ", "Http1Worker", "StartResponse"]

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

# At most so often the log hears of refusals. Arbitrary.
_SILENCE_S: Final = 60.0
# What a client that has gone looks like to a write or a read.
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN})

#: Jobs of the recording, where one runs.
_requests: Final = Requests("greenlane.gunicorn")


class Http1Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """The part of the worker that serves a connection whose HTTP/1 head is whole."""

    front: Front
    running: Running
    application: Application
    tpool: Pool[Conn]
    alive: bool
    # Told to stop by `max_requests`, not by a signal.
    recycling = False
    # See `greenlane_serve.workers`: who sets it trusts what the head of a request says of arrival and lane.
    behind_front = False
    shedding: Shedding
    # Events that metrics show. Changed under `_counting`.
    counts: Counter[str]
    _silent_until_s = 0.0

    _served: Iterator[int]
    # gunicorn's settings; looking one up costs as much as half a parsed header.
    _keeps: bool
    _pre_request: Callable[..., None]
    _post_request: Callable[..., None]
    _upgrades: bool
    _uwsgi: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.counts = Counter()
        self._counting = allocate_lock()

    def prepare_requests(self) -> None:
        """Look up once what every request asks."""
        cfg = self.cfg
        self._served = itertools.count(1)
        self._keeps = bool(cfg.keepalive)
        self._pre_request, self._post_request = cfg.pre_request, cfg.post_request
        self._upgrades = cfg.http2_cleartext in ("upgrade", "both")
        self._uwsgi = cfg.protocol == "uwsgi"

    def wake(self) -> None:
        """Make the front look around. Nothing before there is one."""

    def note(self, what: str) -> None:
        """Count an event by its name."""
        with self._counting:
            self.counts[what] += 1

    def note_refusal(self) -> None:
        """Count a request that was refused over a limit; the log hears of it at most once a minute."""
        self.note("refused")
        now_s = time.monotonic()
        if now_s >= self._silent_until_s:
            self._silent_until_s = now_s + _SILENCE_S
            self.log.warning("greenlane: over the limit; %d requests refused so far", self.counts["refused"])

    def request(self, conn: Conn) -> bool:
        """Parse and answer one request; whether the connection may bring another."""
        req = conn.response = None
        try:
            parser = conn.parser or self._make_parser(conn)
            parser.unreader.ahead, conn.head = conn.head, b""
            conn.requests += 1
            if conn.claim is not None:
                conn.claim.queued = False
            req = next(parser)
            if self._upgrades and negotiation.upgrade_allowed(self.cfg, conn.client):
                settings = negotiation.upgrade_settings(req)
                if settings is not None:
                    conn.bound_body()
                    return bool(self.handle_h2c_upgrade(conn, req, settings))
            return bool(self._keepalive_after(conn, self._answer(req, conn)))
        except BaseException as error:  # SystemExit of the application too: the worker lives on
            self.failed(req, conn, error)
            return False
        finally:
            _end_claim(conn)
            if conn.picked_ns:
                self.shedding.served(conn.lane, time.monotonic_ns() - conn.picked_ns, conn.span_ns)
                conn.picked_ns = conn.span_ns = 0

    def _make_parser(self, conn: Conn) -> Any:
        make = http.get_parser if self._uwsgi else QuickParser
        conn.make_parser(make(self.cfg, conn.sock, conn.client))
        return conn.parser

    def _answer(self, req: Any, conn: Conn) -> bool:
        """Run the application for one request; whether its connection may be kept."""
        environ: Environ = {}
        resp = None
        lane = ""
        opened = False
        recorded = 0
        caller = None
        try:
            self._pre_request(self, req)
            started = datetime.now()
            resp, environ = self._begin(req, conn)
            self._count(resp)
            # Before the permits' job: what it waits for is part of this one.
            recorded = _requests.open(environ, conn.arrival_ns)
            opened = self.open_job(environ, conn.arrival_ns)
            caller = deadline.CURRENT.set(conn) if self.behind_front else None
            self._watch(conn, resp, environ, opened)
            lane, application = self.admit(environ)
            body = application(environ, resp.start_response)
            try:
                _send(resp, body, environ)
            finally:
                if conn.claim is not None and conn.claim.answered:
                    resp.status, resp.status_code = "504 Gateway Timeout", 504
                self.log.access(resp, req, environ, datetime.now() - started)
                if hasattr(body, "close"):
                    body.close()
            if resp.should_close():
                self.log.debug("Closing connection.")
                conn.clean = req.should_close() and conn.nothing_left()
                return False
        except OSError:
            raise
        except BaseException:
            if resp is None or not resp.headers_sent:
                raise
            self.log.exception("Error handling request")
            return False
        finally:
            try:
                self._post_request(self, req, environ, resp)
            except Exception:
                self.log.exception("Exception in post_request hook")
            if caller is not None:
                deadline.CURRENT.reset(caller)
            if opened:
                self.running.close()
            _requests.close(recorded, resp.status_code if resp is not None and resp.headers_sent else 500)
            if lane:
                self.running.limits.end(lane)
        return True

    def _begin(self, req: Any, conn: Conn) -> tuple[ClaimedResponse, Environ]:
        resp, environ = wsgi.create(
            req,
            conn.sock,
            conn.client,
            conn.server,
            self.cfg,
            response_class=ClaimedResponse,
            response_args=(conn, self),
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
        self.nr = next(self._served)
        if self.nr >= self.max_requests:
            if self.alive:
                self.log.info("Autorestarting worker after current request.")
                self.recycling = True
                self.alive = False
                self.wake()
            resp.force_close()
        elif not (self.alive and self._keeps):
            resp.force_close()
        elif len(self.front.connections) - self.tpool.in_progress >= self.max_keepalived:
            resp.force_close()

    def open_job(self, environ: Environ, arrival_ns: int) -> bool:
        """Open the request's job; False when there is none to close."""
        try:
            return self.running.open(environ, arrival_ns)
        except Exception:
            self.tell("a job could not be opened; requests run without permits")
            return False

    def admit(self, environ: Environ) -> tuple[str, Application]:
        """The lane in whose limit the request is counted ("" = none), and who answers it."""
        limits = self.running.limits
        if not limits.any:
            return "", self.application
        named = environ.get(LANE_KEY, "") if self.behind_front else None
        lane = limits.admit(environ["PATH_INFO"], named)
        return ("", self.refuse) if lane is None else (lane, self.application)

    def refuse(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """The application of requests over a limit."""
        self.note_refusal()
        body = b"over the limit of requests in progress\n"
        retry = str(self.running.settings.retry_after_s)
        start_response("503 Service Unavailable", [("Retry-After", retry), ("Content-Length", str(len(body)))])
        return [body]

    def _watch(self, conn: Conn, resp: ClaimedResponse, environ: Environ, opened: bool) -> None:
        """Let the front answer at the request's deadline, unless the application may write to the socket itself."""
        claim = conn.claim
        if claim is None:
            due_ns = self.running.deadline_ns() if opened else 0
            conn.span_ns = max(due_ns - conn.arrival_ns, 1) if due_ns else 0
            if not due_ns or _takes_over(resp.req, environ):
                return
            claim = conn.claim = Claim(conn, due_ns)
            self.front.watch(claim)
        resp.claim = claim
        if conn.tls:
            environ["wsgi.early_hints"] = _one_at_a_time(conn, environ["wsgi.early_hints"])
        if claim.answered:  # while it waited for this thread
            raise too_late()

    def failed(self, req: Any, conn: Conn, error: BaseException) -> None:
        """Answer what can still be answered after a request has failed, and log what gthread logs."""
        match error:
            case http.errors.NoMoreData():
                self.log.debug("Ignored premature client disconnection. %s", error)
            case StopIteration():
                self.log.debug("Closing connection. %s", error)
            case ssl.SSLError(args=(ssl.SSL_ERROR_EOF, *_)):
                self.log.debug("ssl connection closed")
            case Cancelled():
                self.log.debug("Ended at a checkpoint: the client has left.")
            case DeadlineExceeded() if _may_answer(conn):
                conn.push(answers.DEADLINE)
            case DeadlineExceeded():
                self.log.debug("Late work ended. %s", error)
            case TimeoutError() if _body_timed_out(conn):
                self.note("body_timeouts")
                if _may_answer(conn):
                    conn.push_now(answers.BODY_TIMEOUT)
            case OSError(errno=number) if number in _GONE and not isinstance(error, ssl.SSLError):
                self.log.debug("Ignoring connection %s", errno.errorcode[number].lower())
            case _ if _may_answer(conn):
                self.handle_error(req, conn.sock, conn.client, error)
            case _:
                self.log.error("Error handling request", exc_info=error)

    def tell(self, message: str) -> None:
        """Log the first failure of a kind, with its trace."""
        if not self.counts[message]:
            self.log.exception("greenlane: %s (told once)", message)
        self.note(message)


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
    """Whether nothing of an answer has been written, and nobody else writes one."""
    resp: ClaimedResponse | None = conn.response
    if resp is not None and resp.headers_sent:
        return False
    return conn.claim is None or conn.claim.take()


def _body_timed_out(conn: Conn) -> bool:
    unreader = getattr(conn.parser, "unreader", None)
    return isinstance(unreader, AheadUnreader) and unreader.timed_out


def _end_claim(conn: Conn) -> None:
    """End the request's claim, after the front has finished with the connection should it be answering it."""
    claim, conn.claim = conn.claim, None
    if claim is not None:
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
