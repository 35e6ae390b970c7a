"""What is measured of a service that runs: which worker answers which request."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from greenlane_tools.lab import listeners
from greenlane_tools.lab.accept.contenders import Contender, Environment
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Arrivals, Burst, Plan, Poisson, Stream
from greenlane_tools.lab.processes import Child, cpu_ns, free_port
from greenlane_tools.lab.samples import Samples

# --- One contender that serves: started with its application in a folder of its own, watched, ended.


# gunicorn tries five times, a second apart, to make a socket that cannot be made.
_START_S: Final = 15.0
_LOOK_S: Final = 0.05
# What a settled server may use of a core: heartbeats.
_IDLE_FRAC: Final = 0.1
_EXCEPTIONS: Final = ("OSError", "RuntimeError", "ImportError", "ModuleNotFoundError")
#: gunicorn's "[2026-11-21 12:02:59 +0000] [28479] [ERROR] ".
_STAMP: Final = re.compile(r"^(\[[^\]]*\] ){2,3}")
#: What tells the reason in a log that ends with a traceback or with what the master made of it.
_REASONS: Final = ("Error", "error", "refused", "failed", "denied", "Can't")


class NotServing(Exception):
    """It did not come up; the message is the log's own reason."""


@dataclass
class Service:
    """A server with all its workers up."""

    child: Child
    # "127.0.0.1:8000" or "unix:/path".
    address: str
    folder: Path
    # Workers in the order in which they were started.
    workers: tuple[int, ...]

    def listeners(self) -> int:
        """Listening sockets of this address."""
        return len(listeners.listening(self.address))

    def noted(self, what: str) -> list[float]:
        """What the workers have written under this name since they started, in no order."""
        found = []
        for file in self.folder.glob("*.worker"):
            for line in file.read_text().splitlines():
                name, _, value = line.partition(" ")
                found += [float(value)] if name == what and value else []
        return found

    def forget(self) -> None:
        """Empties what the workers have written so far."""
        for file in self.folder.glob("*.worker"):
            os.truncate(file, 0)


@contextlib.contextmanager
def served(contender: Contender, environment: Environment, workers: int) -> Iterator[Service]:
    """Starts it, and ends it with all its processes whatever happens.

    Raises:
        NotServing: it ended, or not all workers came up within 15 s.
    """
    with tempfile.TemporaryDirectory(prefix="accept-") as name:
        folder = Path(name)
        shutil.copy(Path(__file__).with_name("answering.py"), folder)
        address = f"127.0.0.1:{free_port()}" if contender.family == "tcp" else str(folder / "socket")
        command = contender.command(str(environment.python), address, workers)
        env = {**_environment(), "ANSWERING_FOLDER": str(folder), **contender.env}
        with (folder / "log").open("wb") as log:
            child = Child(command, env, log, folder)
            try:
                address = address if contender.family == "tcp" else f"unix:{address}"
                service = Service(child, address, folder, _all_up(child, folder, workers))
                _wait_for_socket(service)
                yield service
            finally:
                child.end()


def _environment() -> dict[str, str]:
    """Ours without what would change the interpreter or the server that is started."""
    ours = ("PYTHON", "GUNICORN_", "UVICORN_", "GRANIAN_", "GREENLANE_", "WEB_CONCURRENCY", "VIRTUAL_ENV", "PORT")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _all_up(child: Child, folder: Path, workers: int) -> tuple[int, ...]:
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s:
        known = set(child.pids())
        up = [int(file.stem) for file in folder.glob("*.worker") if int(file.stem) in known]
        if len(up) >= workers:
            return tuple(sorted(up, key=_started))
        if not child.running() or _refused(folder):
            break
        time.sleep(_LOOK_S)
    raise NotServing(_reason(folder))


def _refused(folder: Path) -> bool:
    """gunicorn says that its socket cannot be made; it would try again and again."""
    return any("failed: [Errno" in line for line in (folder / "log").read_text(errors="replace").splitlines())


def _wait_for_socket(service: Service) -> None:
    """A worker has loaded the application before it listens."""
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s and service.child.running():
        if service.listeners() and not _stirs(service):
            return
        time.sleep(_LOOK_S)
    raise NotServing(_reason(service.folder))


def _stirs(service: Service) -> bool:
    """Some process of it still computes: it imports, or starts threads."""
    before_ns = cpu_ns(service.child.pids())
    time.sleep(_LOOK_S)
    return cpu_ns(service.child.pids()) - before_ns > _LOOK_S * 1e9 * _IDLE_FRAC


def _reason(folder: Path) -> str:
    lines = [line.strip() for line in (folder / "log").read_text(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if any(sign in line for sign in _REASONS)]
    # An exception with its number is the cause; other lines are consequences.
    cause = [line for line in lines if "[Errno" in line or line.startswith(_EXCEPTIONS)]
    return _STAMP.sub("", (cause or told or lines or ["it said nothing"])[0])[:300]


def _started(pid: int) -> tuple[int, int]:
    """Start time in the kernel's clock ticks, then the process id."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]), pid
    except OSError:
        return 0, pid


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
