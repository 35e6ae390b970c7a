"""Results, a dataclass a table; field names as in every `--json` of the lab."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Accepting", "Kernel", "Limit", "Row"]


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
