"""Which workers rest from measuring, by what the front and the kernel tell of them: `spells` for each group."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from greenlane_serve.group import State
from greenlane_serve.haproxy.runtime import Row
from greenlane_serve.measured import Told
from greenlane_serve.rounds import Service
from greenlane_serve.spells import Seen, Spells

__all__ = ["Resting"]

_NS_PER_S: Final = 1_000_000_000
# Linux: a process's CPU clock is (~pid << 3) | 2; include/linux/posix-timers.h.
_CPUCLOCK_SCHED: Final = 2


class _Sums(NamedTuple):
    """Of a worker, since its start and the front's."""

    cpu_ns: int
    requests: int


class Resting:
    """Who rests, of all groups. Cost: a system call a worker and look."""

    def __init__(self) -> None:
        self._spells: dict[str, Spells] = {}
        # By group, by process.
        self._before: dict[str, dict[int, _Sums]] = {}
        self._looked_s = 0.0

    def look(self, service: Service, now_s: float, told: Mapping[int, Told], rows: Sequence[Row]) -> list[int]:
        """Processes that should rest from now on."""
        span_s, self._looked_s = now_s - self._looked_s, now_s
        found = {(row.backend, row.server): row for row in rows}
        resting: list[int] = []
        for name, group in service.groups.items():
            slots = group.of(State.SERVING)
            sums = {slot.pid: _sums(slot.pid, found.get((name, slot.name))) for slot in slots}
            before, self._before[name] = self._before.get(name), sums
            if not (service.places.live or service.settings.auto_lane):
                self._spells.pop(name, None)
                resting += sums
            elif before is not None:
                in_progress = sum(row.current for slot in slots if (row := found.get((name, slot.name))))
                oldest_s = max((told[pid].oldest_s for pid in sums if pid in told), default=0.0)
                seen = _seen(sums, before, span_s, in_progress, oldest_s)
                spells = self._spells.setdefault(name, Spells())
                if not spells.look(seen, service.places.at_once(name)):
                    resting += sums
        return resting


def _seen(
    sums: Mapping[int, _Sums], before: Mapping[int, _Sums], span_s: float, in_progress: int, oldest_s: float
) -> Seen:
    known = [(now, before[pid]) for pid, now in sums.items() if pid in before]
    return Seen(
        span_s=span_s,
        workers=len(sums),
        cpu_s=sum(now.cpu_ns - then.cpu_ns for now, then in known) / _NS_PER_S,
        requests=sum(max(0, now.requests - then.requests) for now, then in known),  # a new front counts from 0
        in_progress=in_progress,
        oldest_s=oldest_s,
        renewed=len(known) < len(sums),
    )


def _sums(pid: int, row: Row | None) -> _Sums:
    try:
        spent_ns = time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:  # it is gone
        spent_ns = 0
    return _Sums(spent_ns, row.requests if row is not None else 0)
