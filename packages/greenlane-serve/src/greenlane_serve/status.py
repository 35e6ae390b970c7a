"""How a service stands, as one object of plain values: for the control socket, `greenlane top` and Prometheus.

front    HAProxy: version, where it listens, reloads of the service, lines of its access log lost to a slow reader
groups   workers behind one queue: how many requests each gets at once and why, in progress, waiting
lanes    who may take how many places; those without a gate wait in their group's queue
workers  who boots, serves, leaves; requests that each has
routes   those that `auto_lane` has sent to a lane, and what they compute

Prometheus: one scrape of the front's `metrics_path` tells of the tree and of every worker. The front sends it to a
socket of the tree, past every queue: what is overloaded can still be looked at. Each worker is asked for its own page:
one under WSGI on the socket on which the front reaches it, where its main thread answers; one under ASGI on a socket
beside that, where a thread answers, since its loop may be blocked.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from greenlane.export import prometheus
from greenlane.metrics import RECORDER, lag_histogram
from greenlane.settings import APART
from greenlane_serve.at_once import word_of
from greenlane_serve.group import Group, Slot, State
from greenlane_serve.haproxy.configuration import METRICS
from greenlane_serve.haproxy.runtime import Row
from greenlane_serve.lanes import FrontLane
from greenlane_serve.measured import cpu_ns_of
from greenlane_serve.rounds import Service
from greenlane_serve.worker.asgi import MetricsPage
from greenlane_serve.worker.ledger import Sums

#: See the module. Values are numbers, texts, or None for what cannot be known.
Status = Mapping[str, Any]

_BACKEND: Final = "BACKEND"
# What no lane matches. No lane can have this name.
_REST: Final = "(rest)"
_ANSWERS: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")


def status_of(
    service: Service, rows: Sequence[Row], apart: Sequence[tuple[str, int]], log_lost: int | None = None
) -> Status:
    """How it stands.

    Args:
        service: the tree.
        rows: the front's counters.
        apart: (route, mean CPU in ns) of those in lane `apart`.
        log_lost: lines of the access log that were lost; None = there is none.
    """
    seen = {(row.backend, row.server): row for row in rows}
    return {
        "front": _front(service, log_lost),
        "groups": [_group(service, group, seen) for group in service.groups.values()],
        "lanes": [_lane(service, lane, seen) for lane in service.layout.lanes],
        "workers": [
            _worker(name, slot, seen) for name, group in service.groups.items() for slot in group.slots
            if slot.state is not State.EMPTY
        ],
        "routes": [{"route": route, "lane": APART, "cpu_ms": round(cpu_ns / 1e6, 3)} for route, cpu_ns in apart],
    }  # fmt: skip


def _front(service: Service, log_lost: int | None) -> dict[str, object]:
    child = service.front.child
    return {
        "pid": child.pid if child else None,
        "version": service.front.version,
        "bind": [*service.settings.bind, *service.settings.tls_bind],
        "reloads": service.reloads,
        "log_lost": log_lost,
    }


def _group(service: Service, group: Group, seen: Mapping[tuple[str, str], Row]) -> dict[str, object]:
    chosen = service.places.sets[group.name]
    whole = seen.get((group.name, _BACKEND))
    servers = [row for (backend, server), row in seen.items() if backend == group.name and server != _BACKEND]
    return {
        "group": group.name,
        "workers": group.workers,
        "serving": len(group.of(State.SERVING)),
        "at_once": chosen.at_once,
        "places": chosen.at_once * len(group.of(State.SERVING)),
        "by": word_of(chosen.why),
        "why": chosen.why,
        "in_progress": sum(row.current for row in servers),
        "waiting": (whole.queued if whole else 0) + sum(row.queued for row in servers),
        "queue_ms": whole.queue_ms if whole else None,
        "answer_ms": whole.answer_ms if whole else None,
        "requests": sum(row.requests for row in servers),
        "refused": _refused(whole, servers),
        "retries": sum(row.retries for row in servers),
        "answers": dict(zip(_ANSWERS, whole.answers if whole else (0,) * len(_ANSWERS), strict=True)),
    }


def _lane(service: Service, lane: FrontLane, seen: Mapping[tuple[str, str], Row]) -> dict[str, object]:
    layout, group = service.layout, service.layout.group_of(lane)
    told: dict[str, object] = {
        "lane": lane.name or _REST,
        "kind": "hard" if lane.hard else "soft",
        "group": group,
        "priority": lane.priority,
        "deadline_ms": lane.deadline_ms,
        "reserved": lane.processes,
        "places": layout.most(lane, service.places.at_once(group)),
        "in_progress": None,
        "waiting": None,
        "queue_ms": None,
        "refused": None,
    }
    backend = lane.gate if layout.gated(lane) else group if lane.hard else ""
    whole = seen.get((backend, _BACKEND))
    servers = [row for (name, server), row in seen.items() if name == backend and server != _BACKEND]
    if whole is not None:
        told["in_progress"] = sum(row.current for row in servers)
        told["waiting"] = whole.queued + sum(row.queued for row in servers)
        told["queue_ms"] = whole.queue_ms
        told["refused"] = _refused(whole, servers)
    return told


def _refused(whole: Row | None, servers: Sequence[Row]) -> int:
    """Requests that the front answered with 5xx itself: no worker was free in time. Without workers' own."""
    return max(0, whole.answers[4] - sum(row.answers[4] for row in servers)) if whole else 0


def _worker(group: str, slot: Slot, seen: Mapping[tuple[str, str], Row]) -> dict[str, object]:
    row = seen.get((group, slot.name))
    serving = slot.state is State.SERVING
    return {
        "group": group,
        "worker": slot.name,
        "pid": slot.pid,
        "state": slot.state.value,
        "in_progress": row.current if row else None,
        "at_once": row.at_once if row else None,
        "requests": row.requests if row else None,
        "since_s": round(time.monotonic() - slot.since_s, 1) if serving else None,
    }


# A worker that computes answers when it has turned: within a switch interval, as a rule.
_ANSWER_S: Final = 1.0
# Workers that are asked at the same time.
_AT_ONCE: Final = 16


class Scrape(MetricsPage):
    """The page of the whole service, on the socket `metrics` in a folder.

    Args:
        folder: of the front.
        status: gives how it stands.
        workers: gives the sockets of workers that have a metrics page.
        clocks: gives what each worker has told, by process.
        alive: says whether the tree turns, to a target that asks for it; None = it asks for something else.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(
        self,
        folder: Path,
        status: Callable[[], Status],
        workers: Callable[[], Iterable[Path]],
        clocks: Callable[[], Mapping[int, Sums]] = dict,
        alive: Callable[[str], bool | None] = lambda target: None,
    ) -> None:
        def text(target: str) -> str:
            if (lives := alive(target)) is not None:
                return "alive\n" if lives else ""
            pages = list(_pages(list(workers()), target))
            return prometheus.merged([prometheus.render_serve(status()), *pages, *_clocked(clocks(), pages)])

        super().__init__(folder / METRICS, text)


def _clocked(clocks: Mapping[int, Sums], pages: Sequence[str]) -> Iterator[str]:
    """Busy time and lag of workers that do not record, for autoscalers: by clocks."""
    busy, lag = RECORDER["busy"], RECORDER["lag"]
    recording = {pid for page in pages for pid in re.findall(rf'^{busy.name}{{.*pid="(\d+)"', page, re.MULTILINE)}
    for pid, sums in clocks.items():
        if str(pid) not in recording:
            with contextlib.suppress(OSError):  # it has ended
                told = lag_histogram(sums.by_lag, sums.lag_ns)
                yield prometheus.render_metric(busy, {"pid": str(pid)}, cpu_ns_of(pid) / 1e9)
                yield prometheus.render_metric(lag, {"pid": str(pid)}, told)


def _pages(workers: list[Path], target: str) -> Iterator[str]:
    """Of all at once: one that is too busy costs the scrape `_ANSWER_S`, however many are."""
    if not workers:
        return
    with ThreadPoolExecutor(min(len(workers), _AT_ONCE)) as pool:
        yield from filter(None, pool.map(lambda path: _page_at(path, target), workers))


def _page_at(path: Path, target: str) -> str:
    with contextlib.suppress(OSError, http.client.HTTPException):  # it has ended, or is too busy: the next scrape
        connection = _Connection(path)
        try:
            connection.request("GET", target, headers={"Host": "localhost", "Connection": "close"})
            answer = connection.getresponse()
            if answer.status == http.client.OK:
                return answer.read().decode(errors="replace")
        finally:
            connection.close()
    return ""


class _Connection(http.client.HTTPConnection):
    """To a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock: Any = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_ANSWER_S)
        self.sock.connect(str(self._path))
