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

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from selectors import DefaultSelector
from typing import Any

from gunicorn.workers.base import Worker as BaseWorker

from greenlane import bootstrap
from greenlane._native import Recorder
from greenlane.errors import GreenlaneError, HostError
from greenlane.export import prometheus
from greenlane.hosts import gunicorn_answers as answers
from greenlane.hosts import gunicorn_board, gunicorn_head, gunicorn_settings
from greenlane.hosts.gunicorn_conn import BUSY, Conn
from greenlane.hosts.gunicorn_front import Front
from greenlane.hosts.gunicorn_http2 import Http2Worker
from greenlane.hosts.gunicorn_pool import Pool
from greenlane.hosts.observed import front_clock
from greenlane.hosts.shedding import Shedding
from greenlane.probes import explain_gevent

__all__ = ["Worker"]


class Worker(Http2Worker):
    """gunicorn's thread worker with Greenlane's front and permits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Made here, in the arbiter: the memory must be shared before the fork.
        self._place = gunicorn_board.shared().place(self.age)
        self._has_front = False

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse by name what cannot hold: one error line, exit code 2."""
        try:
            gunicorn_settings.check(cfg, log)
        except GreenlaneError as error:
            log.error("%s", error)
            raise SystemExit(error.exit_code) from None

    # -- life

    def init_process(self) -> None:
        """Begin, after the fork. gthread's poller and executor are not made: the front replaces both."""
        self._place.enter()
        BaseWorker.init_process(self)

    def load_wsgi(self) -> None:
        """Start Greenlane in this process, then load the application."""
        self.running = bootstrap.start(host="gunicorn", worker_index=self.age)
        settings = self.running.settings
        self._wanted = settings.deadline_headers
        if self.behind_front:
            self.running.stand_behind_front()
            self._wanted = (*self._wanted, "x-greenlane-lane")
            self.shedding = Shedding(settings.lane_names())
        super().load_wsgi()
        self.application = self.wsgi
        self.wsgi = self.stream_application  # what gthread's HTTP/2 code calls
        if (why := explain_gevent()) is not None:
            raise HostError("serve the application in threads", hint=why)

    def run(self) -> None:
        """Serve until told to stop."""
        try:
            self.front = self._make_front()
        except Exception:
            self.log.exception("greenlane: its front could not start; serving as gthread does, without permits")
            self._run_as_gthread()
            return
        self._has_front = True
        self.front.run()

    def wake(self) -> None:
        """Make the front look around. Nothing before there is one."""
        if self._has_front:
            self.front.wake()

    def handle_exit(self, sig: int, frame: object) -> None:
        """TERM: drain."""
        self.alive = False
        self.recycling = False
        self.wake()

    def handle_quit(self, sig: int, frame: object) -> None:
        """QUIT, INT: end now; what runs may end in its thread while the interpreter lasts."""
        if self._has_front:
            self.tpool.shutdown(wait=False)
        BaseWorker.handle_quit(self, sig, frame)

    def _make_front(self) -> Front:
        settings, cfg = self.running.settings, self.cfg
        ceiling = gunicorn_settings.ceiling(cfg, settings)
        self.max_keepalived = gunicorn_settings.most_kept_alive(cfg, settings)
        self._full = min(ceiling, settings.limit or ceiling)
        self.judge = gunicorn_head.judge_for(cfg)
        self.prepare_requests()
        self.tpool = Pool(ceiling, self.serve, progress=self._place.progress)
        paths = () if cfg.protocol == "uwsgi" else (settings.health_path, settings.metrics_path)
        return Front(self, settings, self.tpool, self._place, self.judge, gunicorn_head.prefixes(paths))

    def _run_as_gthread(self) -> None:
        self.wsgi = self.application
        ceiling = gunicorn_settings.ceiling(self.cfg, self.running.settings)
        self.tpool = ThreadPoolExecutor(max_workers=ceiling)  # type: ignore[assignment]  # gthread's own
        self.poller = DefaultSelector()
        self.method_queue.init()
        signal.signal(signal.SIGTERM, super().handle_exit)
        signal.siginterrupt(signal.SIGTERM, False)
        super().run()

    # -- one connection, on a thread of the pool

    def serve(self, conn: Conn) -> None:
        """Serve what is ready on a connection, then give it back to the front."""
        try:
            if conn.opens_in_thread:
                self.open_connection(conn)
            else:
                self.serve_head(conn)
        except BaseException:  # a bug of ours: what a request raises has been dealt with
            self.log.exception("greenlane: connection dropped")
            if conn.stage == BUSY:
                self.front.close(conn)

    # -- what the front asks

    def capacity(self) -> int:
        """Requests in progress that count as full just now: 0 while a heavy phase waits for a permit."""
        try:
            _, waiting = self.running.pressure()
        except Exception:
            self.tell("the permits' pressure cannot be read")
            return self._full
        return 0 if waiting else self._full

    def due_ns(self, head: bytes, arrival_ns: int) -> int:
        """The deadline of a request that waits for a thread, from its headers or its path's lane; 0 = none."""
        environ = gunicorn_head.environ_of(head, self._wanted)
        if not environ["PATH_INFO"]:  # not HTTP/1, or taken over by the application
            return 0
        return self.running.due_ns(environ, arrival_ns)

    def too_late(self, conn: Conn) -> bool:
        """Whether a request is refused because it would end too late: see `greenlane.hosts.shedding`."""
        conn.picked_ns = now_ns = time.monotonic_ns()
        told = gunicorn_head.field(conn.head, b"x-request-start")
        conn.arrival_ns = front_clock.arrival_ns(told) or conn.arrival_ns
        conn.lane = gunicorn_head.field(conn.head, b"x-greenlane-lane")
        waited = now_ns - conn.arrival_ns >= self.shedding.waited_ns
        due_ns = self.due_ns(conn.head, conn.arrival_ns) if waited else 0
        return self.shedding.refuses(conn.lane, conn.arrival_ns, due_ns, now_ns)

    def special(self, head: bytes) -> bytes | None:
        """The answer to a health or metrics request; None = one for the application."""
        method, target = gunicorn_head.method_and_target(head)
        path = target.partition(b"?")[0].decode("latin-1")
        found = self.special_of(path)
        if found is None:
            return None
        status, body = found
        kind = "text/plain; version=0.0.4" if path == self.running.settings.metrics_path else "text/plain"
        return answers.answer(status, body, head_only=method == b"HEAD", kind=kind)

    def special_of(self, path: str) -> tuple[str, str] | None:
        """Status and body for the health or metrics path; None = for the application."""
        settings = self.running.settings
        if path and path == settings.health_path:
            return self._health(settings.hung_after_s)
        if path and path == settings.metrics_path:
            return "200 OK", self._metrics()
        return None

    def _health(self, hung_after_s: float) -> tuple[str, str]:
        stuck = self.tpool.stuck(time.monotonic_ns(), int(hung_after_s * 1e9), self._full)
        if not stuck:
            return "200 OK", "ok\n"
        body = f"hung: {stuck} requests run longer than {hung_after_s:g} s and none has ended for that long\n"
        return "503 Service Unavailable", body

    def _metrics(self) -> str:
        running = self.running
        return prometheus.render(
            {**running.counters(), **self.counts},
            running.learned(),
            mode=running.mode(),
            pressure=running.pressure(),
            recorder=Recorder(),
            labels={"worker": str(self.age), "pid": str(self.pid)},
        )
