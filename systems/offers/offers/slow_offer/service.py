"""Pricing under stock gunicorn with gevent, recorded; its upstreams in one Python process, a relay before `routing`.

with Recorded(folder) as service:
    ...                              # service.port, service.watched, service.calls_of("bikes_price")
service.recording                    # the file, complete once the block has ended
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from greenlane_tools.lab.processes import free_port
from greenlane_tools.lab.relay import Relays
from offers import table, work
from offers.children import Process
from offers.site import healthy
from offers.slow_offer.watched import Watched

__all__ = ["WATCHED", "Recorded"]

#: The upstream whose wire is watched: the one that takes 110 ms.
WATCHED: Final = "routing"
_MERGE_S: Final = 60.0


class Recorded:
    """The running service.

    Args:
        folder: of logs and the recording.
        added: variables added to pricing's environment, such as OTEL_EXPORTER_OTLP_ENDPOINT.
    """

    def __init__(self, folder: Path, added: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.recording = folder / "pricing.glr"
        self.port = free_port()
        self._added = dict(added or {})
        self._upstreams_port = free_port()
        self.watched = Watched()
        self._running = contextlib.ExitStack()

    @property
    def address(self) -> str:
        """Of pricing, host:port."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undone:
            rates = json.dumps(dict(work.from_environment()))
            self._start_upstreams(undone, rates)
            relay = undone.enter_context(Relays()).to(self._upstreams_port, self.watched)
            self._start_pricing(undone, rates, relay.port)
            self._running = undone.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def calls_of(self, endpoint: str) -> int:
        """How many calls upstreams have begun to answer for an endpoint so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._upstreams_port}/counts", timeout=10) as answer:
            return int(json.load(answer)["calls"].get(endpoint, 0))

    def _start_upstreams(self, undone: contextlib.ExitStack, rates: str) -> None:
        names = ",".join(table.read().upstreams)
        argv = [sys.executable, "-m", "offers.upstreams", "--port", str(self._upstreams_port), "--names", names]
        upstreams = Process(argv, self.folder / "upstreams.log", {"OFFERS_ITERATIONS": rates, **self._added})
        undone.callback(upstreams.end)
        upstreams.wait_for_port(self._upstreams_port)

    def _start_pricing(self, undone: contextlib.ExitStack, rates: str, watched_port: int) -> None:
        ports = dict.fromkeys(table.read().upstreams, self._upstreams_port) | {WATCHED: watched_port}
        known = ",".join(f"{name}=127.0.0.1:{port}" for name, port in ports.items())
        around = {"OFFERS_UPSTREAMS": known, "OFFERS_ITERATIONS": rates, **self._added}
        pricing = Process(self._command(), self.folder / "pricing.log", around, self.folder)
        # Two signals in a row would kill it before its files are merged; Ctrl-C ends gunicorn, then merges.
        undone.callback(pricing.end, _MERGE_S)
        undone.callback(pricing.signal, signal.SIGINT)
        # gunicorn listens before its worker has loaded the application.
        pricing.wait_until(lambda: healthy(self.port), "an answer to GET /healthz")

    def _command(self) -> list[str]:
        """What a user would type, by this interpreter."""
        greenlane = ["-c", "import sys; from greenlane.cli.main import main; sys.exit(main())"]
        record = ["record", "--force", "-o", str(self.recording), "--"]
        gunicorn = [sys.executable, "-m", "gunicorn", "--worker-class", "gevent", "--workers", "1", "--bind"]
        # A worker that computes for seconds answers no heartbeat: a time-out would be another story.
        gunicorn += [self.address, "--timeout", "120", "--no-control-socket", "offers.pricing.application:app"]
        return [sys.executable, *greenlane, *record, *gunicorn]
