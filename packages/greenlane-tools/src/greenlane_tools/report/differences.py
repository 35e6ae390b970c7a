"""Two recordings of a service beside each other: what each route has more or less of, and whether they are alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from greenlane.errors import SettingsError
from greenlane_tools.page.quantities import count, duration
from greenlane_tools.report.split import RouteSplit, split_routes
from greenlane_tools.report.subject import RecordedRows
from greenlane_tools.report.turns import permits_in_force

__all__ = ["COLUMNS", "differences", "unlike"]

COLUMNS: Final = ("route", "jobs", "p50", "p99", "CPU", "I/O", "wait", "p99 ÷ before")
#: Fields of `about`, and how they read: where they differ, a difference of times has more than one reason.
_ABOUT: Final = {
    "machine": "machine",
    "cores": "cores",
    "python": "Python",
    "greenlane": "Greenlane",
    "interval_ms": "switch interval, ms",
    "record_stacks": "stacks recorded",
    "threads_are_greenlets": "gevent replaces threads",
}
_WORDS: Final = {True: "yes", False: "no"}
_FEWEST_JOBS: Final = 100


def unlike(before: RecordedRows, after: RecordedRows) -> list[str]:
    """What the recordings were not made alike in, a sentence each: `permits: off before, on after`.

    Raises:
        SettingsError: they have no route in common.
    """
    if not {job.route for job in before.jobs} & {job.route for job in after.jobs}:
        rule = "a recording of the same service (no route is in both)"
        raise SettingsError("--compare", "", rule, "name one of the same routes", attempted="compare recordings")
    found = []
    modes = _mode(before), _mode(after)
    for name in modes[0]:
        was, now = modes[0][name], modes[1][name]
        if was != now:
            found.append(f"{name}: {was} before, {now} after")
    return found


def differences(before: RecordedRows, after: RecordedRows) -> Iterator[Mapping[str, object]]:
    """Two rows a route that is in both, most wait after the change first; the factor stands in the second."""
    old = {split.route: split for split in split_routes(before.jobs)}
    for split in split_routes(after.jobs):
        if split.route in old:
            yield _row(old[split.route], f"{split.route} before", "")
            ratio = split.levels["p99"].latency_ns / max(1, old[split.route].levels["p99"].latency_ns)
            few = min(len(split.jobs), len(old[split.route].jobs)) < _FEWEST_JOBS
            yield _row(split, f"{split.route} after", f"{ratio:.2f}{' (few jobs)' if few else ''}")


def _row(split: RouteSplit, name: str, factor: str) -> Mapping[str, object]:
    levels, mean = split.levels, split.levels["mean"].parts
    waited = sum(ns for kind, ns in mean.items() if kind not in ("cpu", "io", "residual"))
    told: Sequence[object] = (
        *(name, count(len(split.jobs)), duration(levels["p50"].latency_ns), duration(levels["p99"].latency_ns)),
        *(duration(mean["cpu"]), duration(mean["io"]), duration(waited), factor),
    )
    return dict(zip(COLUMNS, told, strict=True))


def _mode(recording: RecordedRows) -> dict[str, str]:
    serving = {job.process for job in recording.jobs}
    # A server's parent differs from its workers, and serves nothing.
    abouts = [process.about for process in recording.processes if process.number in serving]
    hosts = sorted({job.host for job in recording.jobs if job.host})
    clocks = sorted({job.clock for job in recording.jobs})
    return {
        "server": ", ".join(hosts) or "none",
        "arrival by": ", ".join(clocks),
        "permits": "on" if permits_in_force(recording.jobs) else "off, or never waited for",
        "processes with jobs": str(len(serving)),
        **{name: ", ".join(sorted({_told(about, field) for about in abouts})) for field, name in _ABOUT.items()},
    }


def _told(about: Mapping[str, object], field: str) -> str:
    value = about.get(field, "unknown")
    return _WORDS[value] if isinstance(value, bool) else str(value)
