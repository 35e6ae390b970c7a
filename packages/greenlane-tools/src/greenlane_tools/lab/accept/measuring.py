"""What is measured of a service that runs: which worker answers which request."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from greenlane_tools.lab.accept.contenders import Contender
from greenlane_tools.lab.accept.serving import Service
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Arrivals, Burst, Plan, Poisson, Stream
from greenlane_tools.lab.samples import Samples

__all__ = ["Accepting", "Amounts", "FULL", "Kernel", "Limit", "QUICK", "Row", "accepting", "limit"]


#: A short request that computes and waits: 5 ms of CPU, then 20 ms.
_REQUEST: Final = "/?cpu_ms=5&wait_ms=20"
_LIMIT_REQUEST: Final = "/?wait_ms=50"
_SEED: Final = "accept"
_CLIENTS: Final = 12
# What a busy machine may add to that.
_PATIENCE_S: Final = 6.0


@dataclass(frozen=True)
class Amounts:
    """How much of everything."""

    # Open loop for shares: half of a core of work.
    share_per_s: float = 100
    share_s: float = 4
    bursts: int = 10
    burst_size: int = 20
    # Far enough apart for one to be over: 20 × 5 ms on one worker, and as much again.
    burst_gap_s: float = 0.3
    kept_connections: int = 4
    kept_requests: int = 100
    # keep-alive of the contenders with a limit of connections.
    keepalive_s: int = 5
    kernel_connections: int = 300


FULL: Final = Amounts()
QUICK: Final = Amounts(share_s=1.5, bursts=5, kept_requests=60, keepalive_s=1)


def accepting(contender: Contender, version: str, service: Service, amounts: Amounts) -> Accepting:
    """Shares, bursts and pinning of one contender; about `share_s` + `bursts` × `burst_gap_s` seconds."""
    listeners = service.listeners()
    shared = _sent(service, Poisson(amounts.share_per_s), amounts.share_s)
    bursts, taken, unread = _bursts(service, amounts)
    every_s = 0.02
    rounds = amounts.kept_requests // amounts.kept_connections
    together = Burst(amounts.kept_connections, every_s)
    kept = _sent(service, together, rounds * every_s, "/", most_connections=amounts.kept_connections)
    share_split, kept_split = _split(shared, service), _split(kept, service)
    splits = [_split(one, service) for one in bursts]
    return Accepting(
        **described(contender, version, len(service.workers)),
        boots=True,
        listeners=listeners,
        requests=len(shared),
        share_split=share_split,
        share_max_frac=_most(share_split),
        share_max_ratio=_ratio(share_split),
        burst_size=amounts.burst_size,
        burst_split=splits,
        burst_max_frac=statistics.fmean(_most(split) or 0 for split in splits),
        burst_last_ms=statistics.median(float(one.latency_ms().max()) for one in bursts),
        accepted_at_once=int(max(taken)) if taken else None,
        accepted_unread_ms=max(unread, default=None),
        kept_connections=amounts.kept_connections,
        kept_requests=len(kept),
        kept_split=kept_split,
        kept_max_frac=_most(kept_split),
        errors=sum(int((one.status != 200).sum()) for one in (shared, kept, *bursts)),
    )


def limit(contender: Contender, version: str, service: Service, connections: int, keepalive_s: int) -> Limit:
    """Twelve clients come at once and keep their connections after their answers; when is each answered?"""
    # If idle connections hold their slots, `connections` clients are let in every `keepalive_s`.
    patience_s = _CLIENTS / connections * max(keepalive_s, 0.5) + _PATIENCE_S
    found = _sent(
        service, Burst(_CLIENTS, 0), 0.1, _LIMIT_REQUEST, most_connections=_CLIENTS, timeout_s=patience_s
    )  # fmt: skip
    answered = np.sort(found.latency_ms()[found.status == 200]) / 1e3
    return Limit(
        contender=contender.server.name,
        version=version,
        worker_class=contender.server.worker_class,
        options=" ".join(contender.said()),
        limit=connections,
        keepalive_s=keepalive_s,
        clients=_CLIENTS,
        answered_s=[round(float(one), 3) for one in answered],
        lost=_CLIENTS - len(answered),
    )


def described(contender: Contender, version: str, workers: int) -> dict[str, Any]:
    """Fields that say what a row is of."""
    return {
        "contender": contender.server.name,
        "version": version,
        "worker_class": contender.server.worker_class,
        "socket_family": contender.family,
        "options": " ".join(contender.said()),
        "workers": workers,
    }


def _bursts(service: Service, amounts: Amounts) -> tuple[list[Samples], list[float], list[float]]:
    """Each burst's samples; how many connections each wake-up took; how long each then waited to be read."""
    service.forget()
    arrivals = Burst(amounts.burst_size, amounts.burst_gap_s)
    found = _sent(service, arrivals, amounts.bursts * amounts.burst_gap_s)
    instants = np.unique(found.scheduled_ns)
    time.sleep(amounts.burst_gap_s)  # the workers have written what they counted
    apart = [found.chosen(found.scheduled_ns == instant) for instant in instants]
    return apart, service.noted("accepted"), service.noted("waited")


def _sent(
    service: Service, arrivals: Arrivals, seconds: float, path: str = _REQUEST, *, most_connections: int = 0,
    timeout_s: float = 10.0,
) -> Samples:  # fmt: skip
    """`most_connections` = 0: each request has its own; else they are kept."""
    stream = Stream(
        "all", service.address, arrivals, path, connections="keep-alive" if most_connections else "new",
        most_connections=most_connections, timeout_s=timeout_s,
    )  # fmt: skip
    return generate(Plan(_SEED, seconds, (stream,), worker_header="X-Worker")).samples


def _split(samples: Samples, service: Service) -> list[int]:
    counted = Counter(samples.worker.tolist())
    return [counted[worker] for worker in service.workers]


def _most(split: Sequence[int]) -> float | None:
    return max(split) / sum(split) if sum(split) else None


def _ratio(split: Sequence[int]) -> float | None:
    most = _most(split)
    return None if most is None else most * len(split)


# --- Results, a dataclass a table; field names as in every `--json` of the lab.


@dataclass(frozen=True)
class Accepting:
    """One contender: how it shares out connections. Splits are by worker, in the order in which they were started."""

    contender: str
    # Of the server that is installed.
    version: str
    worker_class: str
    socket_family: str
    options: str
    workers: int
    # It came up. If not, `said` is the log's reason and nothing was measured.
    boots: bool
    said: str = ""
    # Listening sockets of its address: 1 = one queue for all workers.
    listeners: int | None = None
    # An open loop of independent requests, a connection each.
    requests: int = 0
    share_split: list[int] = field(default_factory=list)
    share_max_frac: float | None = None
    # The busiest worker's share against the mean share, 1 to N.
    share_max_ratio: float | None = None
    # Connections at one instant, and how each burst was shared out.
    burst_size: int = 0
    burst_split: list[list[int]] = field(default_factory=list)
    # Mean over the bursts of the busiest worker's share.
    burst_max_frac: float | None = None
    # When the last of a burst was answered, median over the bursts.
    burst_last_ms: float | None = None
    # The most that one wake-up of a worker took; None = it cannot be seen from Python.
    accepted_at_once: int | None = None
    # The longest from accept to the application's first instruction; None likewise.
    accepted_unread_ms: float | None = None
    # A few clients that keep their connections.
    kept_connections: int = 0
    kept_requests: int = 0
    kept_split: list[int] = field(default_factory=list)
    kept_max_frac: float | None = None
    # Requests without an answer 200.
    errors: int = 0
    view: str = "accept"


@dataclass(frozen=True)
class Limit:
    """Clients that keep their connections against one worker with a limit, whatever the server calls it."""

    contender: str
    version: str
    worker_class: str
    options: str
    limit: int
    keepalive_s: int
    clients: int
    # When each was answered, ascending; the last `lost` were not.
    answered_s: list[float]
    lost: int
    view: str = "limit"


@dataclass(frozen=True)
class Kernel:
    """Connections one after another to four waiting processes, without a server."""

    mechanism: str
    processes: int
    connections: int
    listeners: int
    # In fork order.
    split: list[int]
    share_max_frac: float
    view: str = "kernel"


Row = Accepting | Limit | Kernel
