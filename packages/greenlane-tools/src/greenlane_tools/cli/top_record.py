"""What recorded processes say of themselves, for `greenlane top`: since the last look, at first since their start.

Percentiles are of the last minute, as far as `top` has looked so long, and of the last 10 s once it has; those of a
route are over all processes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from greenlane.cli.recent import LAG, LATENCY, Recent, quantile_ms
from greenlane.errors import RecordingError
from greenlane.record.recorder import PARTS
from greenlane_tools.reader.recording import open_recording
from greenlane_tools.reader.window import Window
from greenlane_tools.report.study import study_of
from greenlane_tools.report.verdict import Verdict

__all__ = ["PROCESS_COLUMNS", "ROUTE_COLUMNS", "LiveVerdict", "Looks"]

PROCESS_COLUMNS: Final = (
    *("pid", "record", "jobs", "jobs_per_s", "in_progress", "lag_ms_p99", "lag_10s_ms_p99"),
    *("busy_frac", "file_mb", "lost"),
)
#: `p50_ms` and `p99_ms` of the last minute; `cpu_ms`, `io_ms`, `wait_ms` of a mean job.
ROUTE_COLUMNS: Final = (
    *("route", "jobs", "jobs_per_s", "p50_ms", "p99_ms", "p99_10s_ms", "cpu_ms", "io_ms", "wait_ms", "wait_frac"),
)
_MINUTE_S: Final = 60.0
_MOMENT_S: Final = 10.0
#: Reading the last minute takes at most this share of one core.
_VERDICT_FRAC: Final = 0.05

Answer = Mapping[str, Any]
Line = dict[str, object]

_SUMS: Final = ("jobs", "cpu_ms", "io_ms", "wait_ms")


class LiveVerdict:
    """The verdict on the last minute of a recording that runs, as `greenlane report --last 60` gives it.

    Args:
        target: as `top` was told it; None, or a process id: no file is known, and there is no verdict.
    """

    def __init__(self, target: str | None) -> None:
        path = Path(target or "")
        parts = path if path.suffix == PARTS else Path(f"{path}{PARTS}")
        self._parts = parts if target and parts.is_dir() else None
        self._next_s = 0.0
        self._verdict: Verdict | None = None

    def take(self, now_s: float) -> Verdict | None:
        """The last one; a new one every 10 s, or less often where reading takes long. None = no job ended yet."""
        if self._parts is not None and now_s >= self._next_s:
            began_s = time.monotonic()
            try:
                study = study_of(open_recording(self._parts, Window(_MINUTE_S, "", "")), 0)
                self._verdict = study.verdict if study.routes else None
            except RecordingError:
                self._verdict = None  # nothing is written yet, or it has just been merged
            self._next_s = now_s + max(_MOMENT_S, (time.monotonic() - began_s) / _VERDICT_FRAC)
        return self._verdict


class Looks:
    """Answers of `show`, one look after the other; what has no field "record" is passed over.

    Args:
        route: only routes with this text in their name.
        sort: a column of the routes' lines, most first; None = what waits most since the last look.
    """

    def __init__(self, route: str = "", sort: str | None = None) -> None:
        self._route_text, self.sort = route, sort
        self._at_s: float | None = None
        self._first_s: float | None = None
        self._busy: dict[int, float] = {}
        self._jobs: dict[int, int] = {}
        self._routes: dict[str, dict[str, float]] = {}
        self._recent: dict[tuple[object, float], Recent] = {}

    def take(self, found: Sequence[Answer], now_s: float) -> tuple[list[Line], list[Line]]:
        """The lines of the processes, and of the routes of all of them, those that wait most first."""
        self._first_s = now_s if self._first_s is None else self._first_s
        recorded = [answer for answer in found if isinstance(answer.get("record"), Mapping)]
        span_s = None if self._at_s is None else max(now_s - self._at_s, 1e-6)
        processes = [self._process(answer["pid"], answer["record"], span_s, now_s) for answer in recorded]
        routes = self._route_lines([answer["record"] for answer in recorded], span_s, now_s)
        self._at_s = now_s
        return processes, routes

    def _percentile(
        self, of: object, counts: Mapping[int, int], frac: float, span_s: float, now_s: float
    ) -> float | None:
        """Of a histogram in the last `span_s`; of the last 10 s only what is no repetition of the last minute."""
        recent = self._recent.setdefault((of, span_s), Recent(span_s)).take(counts, now_s)
        if span_s == _MOMENT_S and now_s - (self._first_s or 0.0) < span_s:
            return None
        return quantile_ms(recent, frac, LAG if isinstance(of, int) else LATENCY)

    def _process(self, pid: int, record: Answer, span_s: float | None, now_s: float) -> Line:
        jobs, busy_ms = int(record.get("jobs") or 0), record.get("busy_ms")
        row: Line = {name: record.get(name) for name in PROCESS_COLUMNS}
        row |= {"pid": pid, "record": "on" if record.get("on", True) else "off", "jobs": jobs}
        lag = _counts(record.get("by_lag"))
        row["lag_ms_p99"] = self._percentile(pid, lag, 0.99, _MINUTE_S, now_s)
        row["lag_10s_ms_p99"] = self._percentile(pid, lag, 0.99, _MOMENT_S, now_s)
        if span_s is not None and pid in self._jobs:
            row["jobs_per_s"] = round(max(0, jobs - self._jobs[pid]) / span_s, 1)
        if busy_ms is not None:
            if span_s is not None and pid in self._busy:
                row["busy_frac"] = round(max(0.0, busy_ms - self._busy[pid]) / 1000 / span_s, 3)
            self._busy[pid] = float(busy_ms)
        self._jobs[pid] = jobs
        return row

    def _route_lines(self, records: Iterable[Answer], span_s: float | None, now_s: float) -> list[Line]:
        totals: dict[str, dict[str, float]] = {}
        latencies: dict[str, Counter[int]] = {}
        for record in records:
            for each in record.get("routes") or ():
                route = str(each.get("route", ""))
                if self._route_text not in route:
                    continue
                sums = totals.setdefault(route, dict.fromkeys(_SUMS, 0.0))
                for name in _SUMS:
                    sums[name] += float(each.get(name) or 0)
                latencies.setdefault(route, Counter()).update(_counts(each.get("by_latency")))
        lines = []
        for route, sums in totals.items():
            minute = self._minute(route, latencies[route], now_s)
            lines.append(self._route(route, sums, minute, span_s))
        self._routes = totals
        return [line for _, line in sorted(lines, key=self._place)]

    def _place(self, one: tuple[float, Line]) -> tuple[float, str]:
        waited, line = one
        most: Any = waited if self.sort is None else line.get(self.sort)
        return -float(most or 0) if self.sort != "route" else 0.0, str(line["route"])

    def _minute(self, route: str, counts: Counter[int], now_s: float) -> dict[str, float | None]:
        recent = self._recent.setdefault((route, _MINUTE_S), Recent(_MINUTE_S)).take(counts, now_s)
        return {
            "p50_ms": quantile_ms(recent, 0.5, LATENCY),
            "p99_ms": quantile_ms(recent, 0.99, LATENCY),
            "p99_10s_ms": self._percentile(route, counts, 0.99, _MOMENT_S, now_s),
        }

    def _route(
        self, route: str, sums: Mapping[str, float], minute: Mapping[str, float | None], span_s: float | None
    ) -> tuple[float, Line]:
        before = self._routes.get(route) if span_s is not None else None
        since = {name: max(0.0, sums[name] - (before or {}).get(name, 0.0)) for name in _SUMS}
        fresh = since if since["jobs"] else sums  # nothing ended since: what is known of it stays
        jobs = fresh["jobs"] or 1.0
        whole = fresh["cpu_ms"] + fresh["io_ms"] + fresh["wait_ms"]
        line: Line = {"route": route, "jobs": int(sums["jobs"])}
        if before is not None and span_s is not None:
            line["jobs_per_s"] = round(since["jobs"] / span_s, 1)
        line |= {name: None if value is None else round(value, 1) for name, value in minute.items()}
        line |= {name: round(fresh[name] / jobs, 2) for name in ("cpu_ms", "io_ms", "wait_ms")}
        line["wait_frac"] = round(fresh["wait_ms"] / whole, 3) if whole else None
        return since["wait_ms"], line


def _counts(found: object) -> dict[int, int]:
    """Of the answer's JSON, whose keys are texts."""
    return {int(index): int(count) for index, count in found.items()} if isinstance(found, Mapping) else {}
