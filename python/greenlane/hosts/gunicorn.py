"""gunicorn's worker: `gunicorn -k greenlane.hosts.gunicorn.Worker app:app`.

gunicorn's own thread worker (gthread, from release 27), with another front and each request opened as a job. What
gthread serves, it serves; docs/gunicorn.md says what each gunicorn setting means here. On top of it:

- threads start on demand up to `threads` and end when idle;
- requests, not connections, are limited (`limit`): one too many is answered 503 with `Retry-After` at once;
- a new connection is accepted by the worker that has room and the fewest requests in progress;
- a request's clock starts when its first byte can be read;
- the answer to a request past its deadline leaves on time (504) while the work goes on in its thread and is counted;
- health and metrics are answered without a thread of the pool, and a hung application is told from a busy one;
- clients that send slowly hold no thread, and are bounded at line, headers and body;
- nobody is cut off when the worker stops (TERM, HUP, `max_requests`).

HTTP/1 over TCP and Unix sockets has all of it. Over TLS a head is read by a thread in steps that never block, and
limit, health and metrics are answered by that thread; a 504 waits while the thread is inside the TLS library for a
body. HTTP/2 streams are jobs, with limit, health and metrics; one thread serves the streams of a connection one by one,
as in gthread, so a deadline there ends no answer early; an idle HTTP/2 connection holds no thread (in gthread it does).

Where it differs from gthread on purpose: an application that raises SystemExit gets a 500 answered and the worker goes
on (gthread's worker exits); an OSError of the application is answered 500 (gthread closes the connection).
"""

from __future__ import annotations

import errno
import itertools
import signal
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from selectors import DefaultSelector
from typing import Any, Final

from gunicorn import http
from gunicorn.http import wsgi
from gunicorn.http2 import negotiation
from gunicorn.workers.base import Worker as BaseWorker
from gunicorn.workers.gthread import ThreadWorker

from greenlane import bootstrap
from greenlane.errors import DeadlineExceeded, GreenlaneError, HostError
from greenlane.export import prometheus
from greenlane.hosts import gunicorn_answers as answers
from greenlane.hosts import gunicorn_board, gunicorn_head, gunicorn_opening, gunicorn_settings
from greenlane.hosts.gunicorn_conn import BUSY, AheadUnreader, Claim, Conn, QuickParser
from greenlane.hosts.gunicorn_front import Front
from greenlane.hosts.gunicorn_pool import Pool
from greenlane.hosts.gunicorn_response import ClaimedResponse
from greenlane.probes import explain_gevent

__all__ = ["Worker"]

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

# What a client that has gone looks like to a write or a read.
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN})


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's thread worker with Greenlane's front and permits."""

    front: Front
    running: bootstrap.Running
    application: Application

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Made here, in the arbiter: the memory must be shared before the fork.
        self._place = gunicorn_board.shared().place(self.age)
        self.recycling = False
        self.counts: Counter[str] = Counter()
        self._wake: Callable[[], None] = _nobody
        self._told: set[str] = set()

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse by name what cannot hold: one error line, exit code 2."""
        try:
            gunicorn_settings.check(cfg, log)
        except GreenlaneError as error:
            log.error("%s", error)
            raise SystemExit(error.exit_code) from None

    # -- life ---------------------------------------------------------------------------------------------------------

    def init_process(self) -> None:
        """Begin, after the fork. gthread's poller and executor are not made: the front replaces both."""
        self._place.enter()
        BaseWorker.init_process(self)

    def load_wsgi(self) -> None:
        """Start Greenlane in this process, then load the application."""
        self.running = bootstrap.start(host="gunicorn", worker_index=self.age)
        super().load_wsgi()
        self.application = self.wsgi
        self.wsgi = self._http2_application  # what gthread's HTTP/2 code calls
        if (why := explain_gevent()) is not None:
            raise HostError("serve the application in threads", hint=why)

    def run(self) -> None:
        """Serve until told to stop."""
        try:
            self.front = self._make_front()
        except Exception:
            self.log.exception("greenlane: its front could not start; serving as gthread, without permits")
            self._run_as_gthread()
            return
        self._wake = self.front.wake
        self.front.run()

    def handle_exit(self, sig: int, frame: object) -> None:
        """TERM: drain."""
        self.alive = False
        self.recycling = False
        self._wake()

    def handle_quit(self, sig: int, frame: object) -> None:
        """QUIT, INT: end now; what runs may end in its thread while the interpreter lasts."""
        if self.tpool is not None:
            self.tpool.shutdown(wait=False)
        BaseWorker.handle_quit(self, sig, frame)

    def _make_front(self) -> Front:
        settings, cfg = self.running.settings, self.cfg
        self.ceiling = gunicorn_settings.ceiling(cfg, settings)
        self.max_keepalived = gunicorn_settings.most_kept_alive(cfg, settings)
        self._full = min(self.ceiling, settings.limit or self.ceiling)
        self._hung_ns = int(settings.hung_after_s * 1e9)
        self._judge = gunicorn_head.judge_for(cfg)
        self._served = itertools.count(1)
        self._stream = threading.local()
        # Looking a value up in gunicorn's configuration costs as much as half a parsed header.
        self._keepalive = bool(cfg.keepalive)
        self._pre_request, self._post_request = cfg.pre_request, cfg.post_request
        self._upgrades = cfg.http2_cleartext in ("upgrade", "both")
        self._uwsgi = cfg.protocol == "uwsgi"
        self.tpool = Pool(self.ceiling, self.serve, progress=self._place.progress)
        special = () if self._uwsgi else gunicorn_head.prefixes((settings.health_path, settings.metrics_path))
        return Front(self, settings, self.tpool, self._place, self._judge, special)

    def _run_as_gthread(self) -> None:
        self.wsgi = self.application
        self.tpool = ThreadPoolExecutor(max_workers=gunicorn_settings.ceiling(self.cfg, self.running.settings))
        self.poller = DefaultSelector()
        self.method_queue.init()
        signal.signal(signal.SIGTERM, super().handle_exit)
        signal.siginterrupt(signal.SIGTERM, False)
        super().run()

    # -- what the front asks --------------------------------------------------------------------------------------------

    def capacity(self) -> int:
        """Requests in progress that count as full just now: 0 while a heavy phase waits for a permit."""
        try:
            _, waiting = self.running.pressure()
        except Exception:
            self._tell("pressure", "the permits' pressure cannot be read")
            return self._full
        return 0 if waiting else self._full

    def note(self, what: str) -> None:
        """Count an event by its name."""
        self.counts[what] += 1

    def special(self, head: bytes) -> bytes | None:
        """The answer to a health or metrics request; None = one for the application."""
        method, target = gunicorn_head.method_and_target(head)
        path = target.partition(b"?")[0].decode("latin-1")
        settings = self.running.settings
        if path == settings.health_path:
            status, body = self._health()
            return answers.answer(status, body, head_only=method == b"HEAD")
        if path == settings.metrics_path:
            return answers.answer("200 OK", self._metrics(), head_only=method == b"HEAD", kind="text/plain; version=0.0.4")
        return None

    def _health(self) -> tuple[str, str]:
        after_s = self.running.settings.hung_after_s
        stuck = self.tpool.stuck(time.monotonic_ns(), self._hung_ns, self._full)
        if not stuck:
            return "200 OK", "ok\n"
        body = f"hung: {stuck} requests run longer than {after_s:g} s and none has ended for that long\n"
        return "503 Service Unavailable", body

    def _metrics(self) -> str:
        running = self.running
        return prometheus.render(
            {**running.counters(), **self.counts},
            running.learned(),
            mode=running.mode(),
            pressure=running.pressure(),
            labels={"worker": str(self.age), "pid": str(self.pid)},
        )

    # -- one connection, on a thread of the pool ------------------------------------------------------------------------

    def serve(self, conn: Conn) -> None:
        """Serve what is ready on a connection, then give it back to the front."""
        try:
            if conn.opens_in_thread:
                self._open(conn)
            else:
                self._serve_head(conn)
        except BaseException:  # a bug of ours: what a request raises has been dealt with
            self.log.exception("greenlane: connection dropped")
            if conn.stage == BUSY:
                self.front.close(conn)

    def _serve_head(self, conn: Conn) -> None:
        """Serve one HTTP/1 request whose head is whole."""
        front = self.front
        if not self._request(conn):
            front.part(conn)
        elif conn.is_http2:
            conn.opens_in_thread = True
            front.park(conn, b"")
        elif conn.tls:
            self._reopen(conn)
        else:
            front.next_request(conn, conn.parser.unreader.left())

    def _request(self, conn: Conn) -> bool:
        """Parse and answer; whether the connection may bring another request."""
        req = conn.response = conn.claim = None
        try:
            parser = conn.parser or self._make_parser(conn)
            parser.unreader.ahead, conn.head = conn.head, b""
            conn.requests += 1
            req = next(parser)
            if self._upgrades and negotiation.upgrade_allowed(self.cfg, conn.client):
                settings = negotiation.upgrade_settings(req)
                if settings is not None:
                    conn.bound_body()
                    return bool(self.handle_h2c_upgrade(conn, req, settings))
            return self._keepalive_after(conn, self._answer(req, conn))
        except BaseException as error:
            self._failed(req, conn, error)
            return False
        finally:
            self._end_claim(conn)

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
        try:
            self._pre_request(self, req)
            started = datetime.now()
            resp, environ = wsgi.create(
                req,
                conn.sock,
                conn.client,
                conn.server,
                self.cfg,
                response_class=ClaimedResponse,
                response_args=(conn,),
            )
            conn.response = resp
            environ["wsgi.multithread"] = True
            self._count(resp)
            self._bound(req, conn, environ)
            opened = self._open_job(environ, conn.arrival_ns)
            if opened:
                self._watch(conn, resp, environ)
            lane, application = self._admit(environ)
            body = application(environ, resp.start_response)
            try:
                if isinstance(body, environ["wsgi.file_wrapper"]):
                    resp.write_file(body)
                else:
                    for piece in body:
                        resp.write(piece)
                resp.close()
            finally:
                if conn.claim is not None and conn.claim.answered:
                    resp.status, resp.status_code = "504 Gateway Timeout", 504
                self.log.access(resp, req, environ, datetime.now() - started)
                if hasattr(body, "close"):
                    body.close()
            if resp.should_close():
                self.log.debug("Closing connection.")
                conn.clean = req.should_close() and conn.parser.finish_body(deadline=0.0) and not conn.parser.unreader.left()
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
            if opened:
                self.running.close()
            if lane:
                self.running.limits.end(lane)
        return True

    def _admit(self, environ: Environ) -> tuple[str, Application]:
        """The lane in whose limit the request is counted ("" = none), and who answers it."""
        limits = self.running.limits
        if not limits.any:
            return "", self.application
        lane = limits.admit(environ["PATH_INFO"])
        return ("", self._refuse) if lane is None else (lane, self.application)

    def _refuse(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.note("refused")
        body = b"over the limit of requests in progress\n"
        retry = str(self.running.settings.retry_after_s)
        start_response("503 Service Unavailable", [("Retry-After", retry), ("Content-Length", str(len(body)))])
        return [body]

    def _count(self, resp: ClaimedResponse) -> None:
        """Count the request, and decide whether its connection is to close after it."""
        self.nr = next(self._served)
        if self.nr >= self.max_requests:
            if self.alive:
                self.log.info("Autorestarting worker after current request.")
                self.recycling = True
                self.alive = False
                self._wake()
            resp.force_close()
        elif not (self.alive and self._keepalive):
            resp.force_close()
        elif len(self.front.connections) - self.tpool.in_progress >= self.max_keepalived:
            resp.force_close()

    def _bound(self, req: Any, conn: Conn, environ: Environ) -> None:
        """Bound the reads of a request's body, and leave a connection that the application takes over alone."""
        if "HTTP_UPGRADE" in environ or req.method == "CONNECT":
            conn.unbound_body()
        elif "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
            conn.bound_body()

    def _open_job(self, environ: Environ, arrival_ns: int) -> bool:
        try:
            return self.running.open(environ, arrival_ns)
        except Exception:
            self._tell("open", "a job could not be opened; requests run without permits")
            return False

    def _watch(self, conn: Conn, resp: ClaimedResponse, environ: Environ) -> None:
        """Let the front answer at the request's deadline, unless the application may write to the socket itself."""
        due_ns = self.running.deadline_ns()
        if due_ns and "HTTP_UPGRADE" not in environ:
            conn.claim = resp.claim = Claim(conn, due_ns)
            if conn.tls:
                environ["wsgi.early_hints"] = _one_at_a_time(conn, environ["wsgi.early_hints"])
            self.front.watch(conn.claim)

    def _end_claim(self, conn: Conn) -> None:
        """Wait for the front to have finished with the connection, should it be answering it."""
        claim, conn.claim = conn.claim, None
        if claim is not None:
            claim.over = True
            with claim.answering:
                pass

    def _failed(self, req: Any, conn: Conn, error: BaseException) -> None:
        """Answer what can still be answered after a request has failed, and log what gthread logs."""
        match error:
            case http.errors.NoMoreData():
                self.log.debug("Ignored premature client disconnection. %s", error)
            case StopIteration():
                self.log.debug("Closing connection. %s", error)
            case ssl.SSLError(args=(ssl.SSL_ERROR_EOF, *_)):
                self.log.debug("ssl connection closed")
            case DeadlineExceeded() if self._may_answer(conn):
                conn.push(answers.DEADLINE)
            case DeadlineExceeded():
                self.log.debug("Late work ended. %s", error)
            case TimeoutError() if self._body_timed_out(conn):
                self.note("body_timeouts")
                if self._may_answer(conn):
                    conn.push_now(answers.BODY_TIMEOUT)
            case OSError(errno=number) if number in _GONE and not isinstance(error, ssl.SSLError):
                self.log.debug("Ignoring connection %s", errno.errorcode[number].lower())
            case _ if self._may_answer(conn):
                self.handle_error(req, conn.sock, conn.client, error)
            case _:
                self.log.error("Error handling request", exc_info=error)

    def _body_timed_out(self, conn: Conn) -> bool:
        unreader = getattr(conn.parser, "unreader", None)
        return isinstance(unreader, AheadUnreader) and unreader.timed_out

    def _may_answer(self, conn: Conn) -> bool:
        """Whether nothing of an answer has been written, and nobody else writes one."""
        resp: ClaimedResponse | None = conn.response
        return resp is None or (not resp.headers_sent and (resp.claim is None or resp.claim.take()))

    # -- TLS and HTTP/2 -------------------------------------------------------------------------------------------------

    def _open(self, conn: Conn) -> None:
        """Take a connection that does not begin with a plain HTTP/1 head one step further."""
        front = self.front
        if conn.is_http2:
            self._serve_http2(conn)
            return
        try:
            state, head = gunicorn_opening.open_on(conn, self._judge)
        except BaseException as error:
            conn.response = None
            self._failed(None, conn, error)
            front.part(conn)
            return
        if state == gunicorn_opening.HEAD:
            conn.head = head
            refusal = front.refusal(conn)
            if refusal is None:
                self._serve_head(conn)
                return
            conn.push(refusal)
            front.part(conn)
        elif state == gunicorn_opening.HTTP2:
            front.park(conn, b"")
        elif state == gunicorn_opening.CLOSED:
            front.part(conn)
        else:
            front.park(conn, head, writable=state == gunicorn_opening.WRITE)

    def _reopen(self, conn: Conn) -> None:
        """After an answer over TLS: what has been read already, inside the library too, makes no descriptor ready."""
        front = self.front
        conn.clean = False
        conn.arrival_ns = time.monotonic_ns()
        conn.head = conn.parser.unreader.left()
        try:
            state, head = gunicorn_opening.open_on(conn, self._judge)
        except (OSError, ValueError):
            front.part(conn)
            return
        if state == gunicorn_opening.HEAD:
            conn.head = head
            front.dispatch(conn, 1)
        elif state == gunicorn_opening.CLOSED:
            front.part(conn)
        else:
            conn.head = b""
            front.park(conn, head, writable=state == gunicorn_opening.WRITE)

    def _serve_http2(self, conn: Conn) -> None:
        front = self.front
        if conn.farewell:
            conn.parser.close()
        elif self.handle_http2(conn):
            conn.requests += 1
            front.park(conn, b"")
            return
        front.part(conn)

    def handle_http2(self, conn: Conn) -> bool:
        """Serve what has come on an HTTP/2 connection; whether it stays open, to be parked.

        gthread's loop holds a thread until the connection closes; this one ends when no stream is open.
        """
        h2 = conn.parser
        last_served = 0
        try:
            while not h2.is_closed:
                for req in h2.receive_data():
                    conn.arrival_ns = time.monotonic_ns()
                    self._serve_http2_stream(req, conn, h2)
                    last_served = req.stream.stream_id
                if not self.alive:
                    for req in h2.receive_data(b""):
                        self._serve_http2_stream(req, conn, h2)
                        last_served = req.stream.stream_id
                    h2.close(last_stream_id=last_served)
                elif not (h2.streams or h2.pending_requests or h2._deferred_events or _has_decrypted(conn)):
                    return not h2.is_closed
        except BaseException as error:
            self.log.debug("HTTP/2 connection closed: %s", error)
        return False

    def _serve_http2_stream(self, req: Any, conn: Conn, h2_conn: Any) -> None:
        self._stream.arrival_ns = conn.arrival_ns
        self._stream.opened, self._stream.lane = False, ""
        try:
            super()._serve_http2_stream(req, conn, h2_conn)
        finally:
            if self._stream.opened:
                self.running.close()
            if self._stream.lane:
                self.running.limits.end(self._stream.lane)

    def _http2_application(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The application as gthread's HTTP/2 code calls it, with the job opened; `_serve_http2_stream` closes it."""
        settings = self.running.settings
        path = environ["PATH_INFO"]
        if path and path in (settings.health_path, settings.metrics_path):
            status, body = self._health() if path == settings.health_path else ("200 OK", self._metrics())
            start_response(status, [("content-type", "text/plain; charset=utf-8")])
            return [body.encode()]
        if settings.limit and self.tpool.in_progress > settings.limit:
            return self._refuse(environ, start_response)
        self._stream.opened = self._open_job(environ, self._stream.arrival_ns)
        self._stream.lane, application = self._admit(environ)
        return application(environ, start_response)

    def _tell(self, what: str, message: str) -> None:
        """Log the first failure of a kind."""
        if what not in self._told:
            self._told.add(what)
            self.log.exception("greenlane: %s (told once)", message)


def _nobody() -> None:
    """Stand in for the front's `wake` before there is a front."""


def _one_at_a_time(conn: Conn, hints: Callable[[Any], None]) -> Callable[[Any], None]:
    """`wsgi.early_hints` that does not enter the TLS library while the front is in it, nor write after the answer."""

    def send(headers: Any) -> None:
        with conn.io:
            if conn.claim is None or not conn.claim.answered:
                hints(headers)

    return send


def _has_decrypted(conn: Conn) -> bool:
    return bool(conn.tls and conn.sock.pending())  # type: ignore[attr-defined]  # an SSLSocket when tls is true
