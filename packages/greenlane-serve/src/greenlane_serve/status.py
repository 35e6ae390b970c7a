"""How a service stands, as one object of plain values: for the control socket, `greenlane top` and Prometheus.

front    HAProxy: version, where it listens, reloads of the service, lines of its access log that nobody read in time
groups   workers behind one queue: how many requests each gets at once and why, in progress, waiting
lanes    who may take how many places; those without a gate wait in their group's queue
workers  who boots, serves, leaves; requests that each has
routes   those that `auto_lane` has sent to a lane, and what they compute
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from greenlane_serve.group import Group, Slot, State
from greenlane_serve.haproxy.gates import gate_name
from greenlane_serve.haproxy.runtime import Row
from greenlane_serve.lanes import APART, FrontLane
from greenlane_serve.limits import word_of
from greenlane_serve.rounds import Service

__all__ = ["Status", "status_of"]

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
    backend = gate_name(lane) if layout.gated(lane) else group if lane.hard else ""
    whole = seen.get((backend, _BACKEND))
    servers = [row for (name, server), row in seen.items() if name == backend and server != _BACKEND]
    if whole is not None:
        told["in_progress"] = sum(row.current for row in servers)
        told["waiting"] = whole.queued + sum(row.queued for row in servers)
        told["queue_ms"] = whole.queue_ms
        told["refused"] = _refused(whole, servers)
    return told


def _refused(whole: Row | None, servers: Sequence[Row]) -> int:
    """Requests that the front answered with 5xx itself: nobody was free in time. A worker's own are not among them."""
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
