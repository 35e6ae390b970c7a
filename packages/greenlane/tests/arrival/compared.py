"""What was recorded of each request beside what the client and the application know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.arrival.client import KINDS, Client, Exchange
from tests.arrival.servers import SERVED, Server, make_certificate
from tests.hosts.observed import Service

from greenlane_tools.reader import Job
from tests.child import Child

__all__ = ["Comparison", "compare", "faults"]

_MS: Final = 1_000_000
#: The kernel's stamps are of another clock, whose distance to ours is measured.
_CLOCKS_NS: Final = 1 * _MS
#: A job ends when its server has sent its answer and gets to it: a machine that is busy may take so long.
_BUSY_NS: Final = 3_000 * _MS


@dataclass(frozen=True)
class Comparison:
    """One request."""

    exchange: Exchange
    job: Job

    @property
    def client_ns(self) -> int:
        """The latency by the client's clock: from the end of the head to the last byte of the answer."""
        return self.exchange.last_ns - self.exchange.sent_ns

    @property
    def error_ns(self) -> int:
        """By how much the recorded latency is longer; less than 0: shorter."""
        return self.job.latency_ns - self.client_ns

    @property
    def is_near(self) -> bool:
        """Within 5 % or 2 ms of what the client's clock allows.

        The server may have had no core between its answer and the job's end: that is part of the job, as such.
        """
        bound_ns = max(2 * _MS, self.client_ns // 20)
        late_ns = self.exchange.sent_by_ns - self.exchange.sent_ns
        return -late_ns - bound_ns <= self.error_ns <= bound_ns + self.job.wait_ns.get("os", 0)


def compare(server: Server, start: Callable[..., Child], folder: Path, port: int, *, ask: int = 0) -> list[Comparison]:
    """Ask a recorded server on each kind of connection, and give each request with its job.

    Args:
        server: it.
        start: starts its process, as the fixture `start_process` does.
        folder: an empty one.
        port: a free one.
        ask: the port of a proxy before it; 0 = none.
    """
    if server.tls:
        make_certificate(folder)
    service = Service(start, folder, port, server.command(port), PYTHONPATH=str(SERVED))
    exchanges: list[Exchange] = []
    for kind, run in KINDS.items():
        client = Client(ask or port, kind, tls=server.tls)
        run(client)
        exchanges += client.exchanges
    recording = service.stop()
    pids = {process.number: process.pid for process in recording.processes}
    jobs = {(pids[job.process], job.job): job for job in recording.jobs}
    assert len(jobs) == len(exchanges), f"{len(jobs)} jobs of {len(exchanges)} requests: {recording.notes}"
    return [Comparison(each, jobs[each.pid, each.job]) for each in exchanges]


def faults(rows: Iterable[Comparison], server: Server) -> list[str]:
    """Say what cannot be true, however busy the machine is; empty = nothing.

    An arrival lies between the client's send and the handler's first instruction, a job's end after the handler's
    last one; and where an arrival cannot be known, its clock says so.
    """
    found: dict[str, list[float]] = {}
    for row in rows:
        exchange, job = row.exchange, row.job
        clocks = server.clocks(exchange.kind)
        wrong = {
            f"{job.clock}: arrived before it was sent": exchange.began_ns - job.arrival_ns - _CLOCKS_NS,
            f"{job.clock}: arrived after its handler had begun": job.arrival_ns - exchange.handler_ns,
            "ended before its handler": exchange.handled_ns - job.end_ns,
            "ended long after its answer": job.end_ns - exchange.last_ns - _BUSY_NS,
            f"clock {job.clock}, expected {clocks[0]}": int(job.clock not in clocks),
        }
        for what, ns in wrong.items():
            if ns > 0:
                found.setdefault(f"{exchange.kind}: {what}", []).append(ns / _MS)
    return [f"{what}: {len(ms)} requests, by {max(ms):.1f} ms" for what, ms in found.items()]
