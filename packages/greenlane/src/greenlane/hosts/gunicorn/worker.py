"""The worker class: gunicorn's thread worker with Greenlane's front and permits.

- threads start on demand up to `threads` and end when idle;
- requests, not connections, are limited (`limit`): one too many is answered 503 with `Retry-After` at once;
- a new connection is accepted by the worker that has room and the fewest requests in progress;
- a request's clock starts when its first byte can be read;
- the answer to a request past its deadline leaves on time (504) while the work goes on in its thread and is counted;
- health and metrics are answered without a thread of the pool, and a hung application is distinguished from a busy one;
- clients that send slowly hold no thread, and are bounded at line, headers and body;
- nobody is cut off when the worker stops (TERM, HUP, `max_requests`).

HTTP/1 over TCP and Unix sockets has all of it. Over TLS a head is read by a thread in steps that never block, and
limit, health and metrics are answered by that thread; a 504 waits while the thread is inside the TLS library for a
body. HTTP/2 streams are jobs, with limit, health and metrics; a deadline there ends no answer early.

Where it differs from gthread on purpose: an application that raises SystemExit gets a 500 answered and the worker goes
on (gthread's worker exits); an OSError of the application is answered 500 (gthread closes the connection).
"""

from __future__ import annotations

import functools
import signal
import time
from _thread import allocate_lock
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from selectors import DefaultSelector
from typing import TYPE_CHECKING, Any, Final, NoReturn

from gunicorn.workers.base import Worker as BaseWorker
from gunicorn.workers.gthread import ThreadWorker

from greenlane import deadline
from greenlane._native import Recorder, gang_join
from greenlane.errors import GreenlaneError, HostError
from greenlane.hosts.gunicorn import answers, settings
from greenlane.hosts.gunicorn.connection import BUSY, Conn, environ_of, field, method_and_target
from greenlane.hosts.gunicorn.dispatch import Dispatch
from greenlane.hosts.gunicorn.front import Front
from greenlane.hosts.gunicorn.heavy_predictor import HeavyPredictor
from greenlane.hosts.gunicorn.http1 import Http1
from greenlane.hosts.gunicorn.listeners import shared_board
from greenlane.hosts.pool import Pool
from greenlane.probes import explain_gevent
from greenlane.wiring import process
from greenlane.wiring.process import LANE_KEY

if TYPE_CHECKING:
    from greenlane.hosts.observed.wsgi import Requests

__all__ = ["Worker"]

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

# At most this often the log hears of refusals. Arbitrary.
_SILENCE_S: Final = 60.0

_recorder: Final = Recorder()


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's thread worker with Greenlane's front and permits."""

    running: process.Running
    application: Application
    wsgi: Application
    tpool: Pool[Conn]
    alive: bool
    #: Told to stop by `max_requests`, not by a signal.
    recycling = False
    #: See `greenlane_serve.worker`: who sets it trusts what the head of a request says of arrival and lane.
    behind_front = False
    #: The recorder does not put the application under observation: a request's job is opened here.
    opens_jobs = True
    #: Events that metrics show. Changed under `_counting`.
    counts: Counter[str]

    _dispatch: Dispatch
    _has_front = False
    _silent_until_s = 0.0
    _recorded: Requests | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Made here, in the arbiter: the memory must be shared before the fork.
        self._line = shared_board().line(self.age)
        self.counts = Counter()
        self._counting = allocate_lock()

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse by name what cannot hold: one error line, exit code 2."""
        try:
            settings.check(cfg, log)
        except GreenlaneError as error:
            log.error("%s", error)
            raise SystemExit(error.exit_code) from None

    # -- life

    def init_process(self) -> None:
        """Begin, after the fork. gthread's poller and executor are not made: the front replaces both."""
        self._line.enter()
        BaseWorker.init_process(self)

    def load_wsgi(self) -> None:
        """Start Greenlane in this process, then load the application."""
        try:
            self.running = process.start(host="gunicorn", worker_index=self.age)
        except GreenlaneError as error:  # of settings that have changed since the arbiter checked them
            self._refuse_to_boot(error)
        self._wanted = self.running.settings.deadline_headers
        if self.behind_front:
            self._take_lanes_from_front()
        super().load_wsgi()
        self.application = self.wsgi
        self.wsgi = self._wsgi_of_streams
        if (why := explain_gevent()) is not None:
            self._refuse_to_boot(HostError("serve the application in threads", hint=why))

    def _refuse_to_boot(self, error: GreenlaneError) -> NoReturn:
        """As gunicorn ends for a worker that does not boot, without a traceback."""
        from gunicorn.arbiter import Arbiter

        self.log.error("%s", error)
        raise SystemExit(Arbiter.WORKER_BOOT_ERROR) from None

    def _take_lanes_from_front(self) -> None:
        from greenlane.hosts.observed import front_clock
        from greenlane.hosts.shedding import Shedding

        self.running.take_lanes_from_front()
        self._wanted = (*self._wanted, "x-greenlane-lane")
        self._shedding = Shedding(self.running.settings.lane_names())
        self._arrival_told_ns = front_clock.arrival_ns

    def run(self) -> None:
        """Serve until told to stop."""
        gang_join()  # It hands out requests.
        try:
            front = self._make_front()
        except Exception:
            self.log.exception("greenlane: its front could not start; serving as gthread does, without permits")
            self._run_as_gthread()
            return
        front.run()

    def handle_exit(self, sig: int, frame: object) -> None:
        """TERM: drain."""
        self.alive = False
        self.recycling = False
        if self._has_front:
            self._dispatch.wake()

    def handle_quit(self, sig: int, frame: object) -> None:
        """QUIT, INT: end now; what runs may end in its thread while the interpreter lasts."""
        if self._has_front:
            self.tpool.shutdown(wait=False)
        BaseWorker.handle_quit(self, sig, frame)

    def _make_front(self) -> Front:
        ours, cfg = self.running.settings, self.cfg
        ceiling = settings.ceiling(cfg, ours)
        self.max_keepalived = settings.most_kept_alive(cfg, ours)
        self._full = min(ceiling, ours.limit or ceiling)
        self._predictor = HeavyPredictor(self._waiting)
        self.tpool = Pool(ceiling, self.serve, progress=self._line.progress, turns=self._predictor)
        dispatch = Dispatch(self, ours, self.tpool)
        self._http1 = Http1(self, dispatch, self.tpool)
        front = Front(self, ours, self.tpool, self._line, dispatch)
        self._dispatch, self._has_front = dispatch, True
        return front

    def _run_as_gthread(self) -> None:
        self.wsgi = self.application
        ceiling = settings.ceiling(self.cfg, self.running.settings)
        self.tpool = ThreadPoolExecutor(max_workers=ceiling)  # type: ignore[assignment]  # gthread's own
        self.poller = DefaultSelector()
        self.method_queue.init()
        signal.signal(signal.SIGTERM, super().handle_exit)
        signal.siginterrupt(signal.SIGTERM, False)
        super().run()

    # -- one connection, on a thread of the pool

    def serve(self, conn: Conn) -> None:
        """Serve what is ready on a connection, then give it back to the main thread."""
        try:
            if conn.opens_in_thread:
                self._open(conn)
            else:
                self._http1.serve(conn)
        except BaseException:  # our bug: what a request raises has been dealt with
            self.log.exception("greenlane: connection dropped")
            if conn.stage == BUSY:
                self._dispatch.close(conn)

    def _open(self, conn: Conn) -> None:
        if conn.is_http2:
            from greenlane.hosts.gunicorn import http2

            http2.serve(conn, self._dispatch, self)
        else:
            from greenlane.hosts.gunicorn import tls

            if tls.begin(conn, self._dispatch, self._http1.failed):
                self._http1.serve(conn)

    # -- a request's job

    def open_job(self, conn: Conn, environ: Environ) -> None:
        """Open the request's job on this thread: in the recording, if there is one, and for permits.

        What it waits for a permit is part of the recorded job.
        """
        if _recorder.recording():
            conn.recorded = self._record(conn, environ)
        try:
            conn.opened = self.running.open(environ, conn.arrival_ns)
        except Exception:
            self.tell("a job could not be opened; requests run without permits")
        if self.behind_front:
            conn.caller = deadline.CURRENT.set(conn)

    def admit(self, conn: Conn, environ: Environ) -> Application:
        """Count the request in its lane's limit; the application, or the refusal in its place."""
        limits = self.running.limits
        if not limits.any:
            return self.application
        named = environ.get(LANE_KEY, "") if self.behind_front else None
        lane = limits.admit(environ["PATH_INFO"], named)
        if lane is None:
            return self.refuse
        conn.counted_in = lane
        return self.application

    def close_job(self, conn: Conn, status: int) -> None:
        """Close what `open_job` and `admit` have opened."""
        if conn.caller is not None:
            deadline.CURRENT.reset(conn.caller)
            conn.caller = None
        if conn.opened:
            conn.opened = False
            self._learn(conn, self.running.close())
        if conn.recorded and self._recorded is not None:
            self._recorded.close(conn.recorded, status)
            conn.recorded = 0
        if conn.counted_in:
            self.running.limits.end(conn.counted_in)
            conn.counted_in = ""
        if conn.picked_ns:
            self._shedding.served(conn.lane, time.monotonic_ns() - conn.picked_ns, conn.span_ns)
            conn.picked_ns = conn.span_ns = 0

    def _learn(self, conn: Conn, ended: tuple[int, ...] | None) -> None:
        """Remember for such a path whether the request that has ended asked for a permit."""
        if ended is not None and conn.response is not None and not conn.is_http2:
            full = self.tpool.in_progress >= self.tpool.nearly_full
            self._predictor.ended(conn.response.req, ended[4] > 0, nearly_full=full)

    def refuse(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """The application of requests over a limit."""
        self.note_refusal()
        body = b"over the limit of requests in progress\n"
        retry = str(self.running.settings.retry_after_s)
        start_response("503 Service Unavailable", [("Retry-After", retry), ("Content-Length", str(len(body)))])
        return [body]

    def _record(self, conn: Conn, environ: Environ) -> int:
        """Open the recording's job; 0 = there is none. Loads what it needs with the first one."""
        from greenlane.hosts.observed.wsgi import Requests

        if self._recorded is None:
            self._recorded = Requests("greenlane.gunicorn")
        return self._recorded.open(environ, conn.arrival_ns)

    # -- HTTP/2, as gunicorn's code calls it

    def handle_http2(self, conn: Conn) -> bool:
        """Serve the streams of a connection that was upgraded."""
        from greenlane.hosts.gunicorn import http2

        return http2.serve_streams(conn, self)

    def _serve_http2_stream(self, req: Any, conn: Conn, h2_conn: Any) -> None:
        from greenlane.hosts.gunicorn import http2

        http2.serve_stream(conn, self, functools.partial(super()._serve_http2_stream, req, conn, h2_conn))

    def _wsgi_of_streams(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        from greenlane.hosts.gunicorn import http2

        return http2.call_application(self, environ, start_response)

    # -- what the parts ask

    def capacity(self) -> int:
        """Requests in progress that count as full just now: 0 while a heavy phase waits for a permit."""
        return 0 if self._waiting() else self._full

    def _waiting(self) -> int:
        """How many phases wait for a permit."""
        try:
            return self.running.pressure()[1]
        except Exception:
            self.tell("the permits' pressure cannot be read")
            return 0

    def over_limit(self) -> bool:
        """Whether more requests are in progress than `limit`."""
        limit = self.running.settings.limit
        return bool(limit and self.tpool.in_progress > limit)

    def due_ns(self, head: bytes, arrival_ns: int) -> int:
        """The deadline of a request that waits for a thread, from its headers or its path's lane; 0 = none."""
        environ = environ_of(head, self._wanted)
        if not environ["PATH_INFO"]:  # not HTTP/1, or taken over by the application
            return 0
        return self.running.due_ns(environ, arrival_ns)

    def too_late(self, conn: Conn) -> bool:
        """Whether a request is refused because it would end too late: see `greenlane.hosts.shedding`."""
        conn.picked_ns = now_ns = time.monotonic_ns()
        conn.arrival_ns = self._arrival_told_ns(field(conn.head, b"x-request-start")) or conn.arrival_ns
        conn.lane = field(conn.head, b"x-greenlane-lane")
        waited = now_ns - conn.arrival_ns >= self._shedding.waited_ns
        due_ns = self.due_ns(conn.head, conn.arrival_ns) if waited else 0
        return self._shedding.refuses(conn.lane, conn.arrival_ns, due_ns, now_ns)

    # -- health, metrics, what is counted and logged

    def special(self, head: bytes) -> bytes | None:
        """The answer to a health or metrics request; None = one for the application."""
        method, target = method_and_target(head)
        path = target.partition(b"?")[0].decode("latin-1")
        found = self.special_of(path)
        if found is None:
            return None
        status, body = found
        kind = "text/plain; version=0.0.4" if path == self.running.settings.metrics_path else "text/plain"
        return answers.answer(status, body, head_only=method == b"HEAD", kind=kind)

    def special_of(self, path: str) -> tuple[str, str] | None:
        """Status and body for the health or metrics path; None = for the application."""
        ours = self.running.settings
        if path and path == ours.health_path:
            return self._health(ours.hung_after_s)
        if path and path == ours.metrics_path:
            return "200 OK", self._metrics()
        return None

    def _health(self, hung_after_s: float) -> tuple[str, str]:
        stuck = self.tpool.stuck(time.monotonic_ns(), int(hung_after_s * 1e9), self._full)
        if not stuck:
            return "200 OK", "ok\n"
        body = f"hung: {stuck} requests run longer than {hung_after_s:g} s and none has ended for that long\n"
        return "503 Service Unavailable", body

    def _metrics(self) -> str:
        from greenlane.export import prometheus

        running = self.running
        return prometheus.render(
            {**running.counters(), **self.counts},
            running.learned(),
            mode=running.mode(),
            pressure=running.pressure(),
            turns=running.turns(),
            recorder=_recorder,
            labels={"worker": str(self.age), "pid": str(self.pid)},
        )

    def note(self, what: str) -> None:
        """Count an event by its name."""
        with self._counting:
            self.counts[what] += 1

    def note_refusal(self) -> None:
        """Count a request that was refused over a limit, and log it at most once a minute."""
        self.note("refused")
        now_s = time.monotonic()
        if now_s >= self._silent_until_s:
            self._silent_until_s = now_s + _SILENCE_S
            self.log.warning("greenlane: over the limit; %d requests refused so far", self.counts["refused"])

    def tell(self, message: str, *, trace: bool = True) -> None:
        """Log the first failure of a kind, and count them all by the message."""
        if not self.counts[message]:
            self.log.error("greenlane: %s (told once)", message, exc_info=trace)
        self.note(message)
