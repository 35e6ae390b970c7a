"""What recorded processes say of themselves, for `greenlane top`: since the last look, at first since their start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__all__ = ["PROCESS_COLUMNS", "ROUTE_COLUMNS", "Looks"]

PROCESS_COLUMNS: Final = (
    *("pid", "record", "jobs", "jobs_per_s", "in_progress", "lag_ms_p99", "busy_frac", "file_mb", "lost"),
)
#: `p50_ms` and `p99_ms` are the worst process's, since its start; `cpu_ms`, `io_ms`, `wait_ms` of a mean job.
ROUTE_COLUMNS: Final = (
    *("route", "jobs", "jobs_per_s", "p50_ms", "p99_ms", "cpu_ms", "io_ms", "wait_ms", "wait_frac"),
)

Answer = Mapping[str, Any]
Line = dict[str, object]

_SUMS: Final = ("jobs", "cpu_ms", "io_ms", "wait_ms")


class Looks:
    """Answers of `show`, one look after the other; what has no field "record" is passed over."""

    def __init__(self) -> None:
        self._at_s: float | None = None
        self._busy: dict[int, float] = {}
        self._jobs: dict[int, int] = {}
        self._routes: dict[str, dict[str, float]] = {}

    def take(self, found: Sequence[Answer], now_s: float) -> tuple[list[Line], list[Line]]:
        """The lines of the processes, and of the routes of all of them, those that wait most first."""
        recorded = [answer for answer in found if isinstance(answer.get("record"), Mapping)]
        span_s = None if self._at_s is None else max(now_s - self._at_s, 1e-6)
        processes = [self._process(answer["pid"], answer["record"], span_s) for answer in recorded]
        routes = self._route_lines([answer["record"] for answer in recorded], span_s)
        self._at_s = now_s
        return processes, routes

    def _process(self, pid: int, record: Answer, span_s: float | None) -> Line:
        jobs, busy_ms = int(record.get("jobs") or 0), record.get("busy_ms")
        row: Line = {name: record.get(name) for name in PROCESS_COLUMNS}
        row |= {"pid": pid, "record": "on" if record.get("on", True) else "off", "jobs": jobs}
        if span_s is not None and pid in self._jobs:
            row["jobs_per_s"] = round(max(0, jobs - self._jobs[pid]) / span_s, 1)
        if busy_ms is not None:
            if span_s is not None and pid in self._busy:
                row["busy_frac"] = round(max(0.0, busy_ms - self._busy[pid]) / 1000 / span_s, 3)
            self._busy[pid] = float(busy_ms)
        self._jobs[pid] = jobs
        return row

    def _route_lines(self, records: Iterable[Answer], span_s: float | None) -> list[Line]:
        totals: dict[str, dict[str, float]] = {}
        worst: dict[str, dict[str, float]] = {}
        for record in records:
            for each in record.get("routes") or ():
                route = str(each.get("route", ""))
                sums, most = totals.setdefault(route, dict.fromkeys(_SUMS, 0.0)), worst.setdefault(route, {})
                for name in _SUMS:
                    sums[name] += float(each.get(name) or 0)
                for name in ("p50_ms", "p99_ms"):
                    most[name] = max(most.get(name, 0.0), float(each.get(name) or 0))
        lines = [self._route(route, sums, worst[route], span_s) for route, sums in totals.items()]
        self._routes = totals
        return [line for _, line in sorted(lines, key=lambda item: (-item[0], str(item[1]["route"])))]

    def _route(
        self, route: str, sums: Mapping[str, float], worst: Mapping[str, float], span_s: float | None
    ) -> tuple[float, Line]:
        before = self._routes.get(route) if span_s is not None else None
        since = {name: max(0.0, sums[name] - (before or {}).get(name, 0.0)) for name in _SUMS}
        fresh = since if since["jobs"] else sums  # nothing ended since: what is known of it stays
        jobs = fresh["jobs"] or 1.0
        whole = fresh["cpu_ms"] + fresh["io_ms"] + fresh["wait_ms"]
        line: Line = {"route": route, "jobs": int(sums["jobs"])}
        if before is not None and span_s is not None:
            line["jobs_per_s"] = round(since["jobs"] / span_s, 1)
        line |= {name: round(value, 1) for name, value in worst.items()}
        line |= {name: round(fresh[name] / jobs, 2) for name in ("cpu_ms", "io_ms", "wait_ms")}
        line["wait_frac"] = round(fresh["wait_ms"] / whole, 3) if whole else None
        return since["wait_ms"], line
