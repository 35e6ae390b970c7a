"""The study as rows of `--json`: one flat object each, told apart by `view`; times in `_ms`, shares in `_frac`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from greenlane_tools.report.clocks import RouteClocks, UpstreamClocks, late
from greenlane_tools.report.culprits import by_function, by_work
from greenlane_tools.report.ending import place_of
from greenlane_tools.report.overhead import LEFT_OUT
from greenlane_tools.report.story import Story
from greenlane_tools.report.study import ReportStudy
from greenlane_tools.report.turns import counted_turns

__all__ = ["VIEWS", "rows_of"]

Row = dict[str, object]
#: Every `view` that can occur, in the order of the rows.
VIEWS: Final = (
    *(
        "finding",
        "route",
        "tail",
        "blame",
        "upstream",
        "clock",
        "worker",
        "unfinished",
        "branch",
        "load",
        "cost",
        "own",
    ),
    *("held", "scaling", "turns", "job", "call", "process", "overhead", "note"),
)


def rows_of(study: ReportStudy) -> list[Row]:
    """All rows; None = unknown or not applicable."""
    found: list[Row] = [{"view": "finding", "name": note.name, "said": note.text} for note in study.notes]
    views = (_routes, _tails, _blame, _upstreams, _clocks, _workers, _branches, _load, _costs, _own, _held)
    for each in (*views, _unfinished, _scaling, _turns):
        found += each(study)
    found += [{"view": "job", **_job(story)} for story in study.stories]
    found += _job_calls(study)
    found += _processes(study)
    found += _overhead(study)
    notes = [*study.recording.notes, *([study.unobserved] if study.unobserved else ())]
    found += [{"view": "note", "said": said} for said in notes]
    return found


def _routes(study: ReportStudy) -> Iterator[Row]:
    for split in study.routes:
        mean = split.levels["mean"]
        levels = {f"{name}_ms": ms(level.latency_ns) for name, level in split.levels.items()}
        yield {
            "view": "route",
            "route": split.route,
            "samples": len(split.jobs),
            "p999_ms": None,
            **levels,
            **{f"{kind}_ms": ms(ns) for kind, ns in mean.parts.items()},
            "io_by_kind_ms": {kind: ms(ns / len(split.jobs)) for kind, ns in split.io_ns.items()},
            "wait_frac": frac(split.wait_ns, split.latency_ns),
            "uncertain_frac": frac(split.uncertain_ns, split.latency_ns),
            "errors": split.failed,
            "within_deadline_frac": 1 - split.late / split.with_deadline if split.with_deadline else None,
        }


def _turns(study: ReportStudy) -> Iterator[Row]:
    for each in study.turns:
        # No counts in recordings by earlier releases.
        yield _fields("turns", each, "route", "jobs", "waited", "pays_ns", "gains_ns", **counted_turns(each))


def _tails(study: ReportStudy) -> Iterator[Row]:
    for route, found in study.excesses.items():
        for each in found:
            yield {
                "view": "tail",
                "route": route,
                "at": each.at,
                "latency_ms": ms(each.latency_ns),
                "excess_ms": ms(each.excess_ns),
                "wait_frac": rounded(each.wait_frac),
                "kind": each.kind,
                **{f"{kind}_ms": ms(ns) for kind, ns in each.parts.items()},
                "culprits": [
                    {"culprit": name, "frac": rounded(share), "place": _place(study, name)}
                    for name, share in each.culprits[:5]
                ],
            }


def _blame(study: ReportStudy) -> Iterator[Row]:
    for row in sorted(study.recording.blame, key=lambda row: -row.ns):
        yield {
            "view": "blame",
            "victim": row.victim,
            "kind": row.kind,
            "culprit": row.culprit,
            "phase": row.phase if row.phase >= 0 else None,
            "place": _place(study, row.culprit),
            "wait_ms": ms(row.ns),
            "wait_frac": frac(row.ns, study.matrix.by_victim.get(row.victim, 0)),
            "waits": row.waits,
            "slices": row.slices,
            "longest_ms": ms(row.longest_ns),
        }


def _upstreams(study: ReportStudy) -> Iterator[Row]:
    for each in study.upstreams:
        yield {
            **_fields("upstream", each, "route", "upstream", "operation", samples=len(each.calls)),
            **_fields("upstream", each, "known", "slow_wire_ns", "slow_late_ns", "with_deadline"),
            **_percentiles(each, "seen", "wire", "own", "late"),
            "factor": rounded(each.factor) if each.known else None,
            "inflated_frac": rounded(each.inflated_frac) if each.known else None,
            "after_deadline": sum(map(late, each.calls)),
            "after_deadline_resumed": each.late_resumed,
            "errors": each.failed,
        }


def _clocks(study: ReportStudy) -> Iterator[Row]:
    for each in study.clocks:
        more = {"arrival_clock": ", ".join(each.clocks), **_percentiles(each, "arrival", "spawn", "handler")}
        yield _fields("clock", each, "route", samples=each.jobs, **more)


def _workers(study: ReportStudy) -> Iterator[Row]:
    names = ("pid", "jobs", "jobs_frac", "busy_frac", "busiest_second_frac", "lag_p50_ns", "lag_p99_ns", "in_progress")
    for each in study.balance.workers:
        more = {"p99_ms": ms(each.latency_p99_ns), "rss_mb": rounded(each.rss_bytes / 1e6)}
        yield _fields("worker", each, *names, "os_wait_frac", "waking_frac", "hand_overs", **more)


def _branches(study: ReportStudy) -> Iterator[Row]:
    for each in study.branches:
        more = {"samples": each.calls, "missed_but_ready": each.was_ready, "missed_unknown": each.unknown}
        yield _fields("branch", each, "route", "upstream", "operation", "missed", "missed_frac", **more)


def _load(study: ReportStudy) -> Iterator[Row]:
    found = study.load
    more = {"done_per_s": rounded(found.per_s), "mean_ms": ms(found.latency_ns)}
    yield _fields("load", found, "in_progress", "most_in_progress", "closed", **more)


def _costs(study: ReportStudy) -> Iterator[Row]:
    for by, found in (("function", by_function), ("work", by_work)):
        for each in found(study.recording.stacks):
            more = {"by": by, "culprits": list(each.culprits[:5])}
            yield _fields("cost", each, "name", "place", "lateness_ns", "lateness_frac", "looks", **more)


def _held(study: ReportStudy) -> Iterator[Row]:
    for row in sorted(study.recording.held, key=lambda row: -row.ns):
        yield _fields("held", row, "route", "call", "stack", "calls", "longest_ns", blocked_ms=ms(row.ns))


def _scaling(study: ReportStudy) -> Iterator[Row]:
    names = ("lag_p99_ns", "queue_wait_p99_ns", "hottest_busy_frac", "hottest_second_frac", "mean_busy_frac")
    yield _fields("scaling", study.scaling, *names)


def _own(study: ReportStudy) -> Iterator[Row]:
    for line in study.own:
        more = {"function": line.frame.function, "place": line.frame.place, "cpu_frac": line.frac}
        yield _fields("own", line, "route", "cpu_ns", "looks", **more)


def _unfinished(study: ReportStudy) -> Iterator[Row]:
    for ending in study.endings:
        for job in ending.jobs:
            frame = place_of(job)
            yield {
                "view": "unfinished",
                "process": job.process,
                "pid": ending.process.pid,
                "end": ending.how,
                "job": job.job,
                "route": job.route,
                "host": job.host,
                "in_progress_ms": ms(ending.at_ns - job.arrival_ns),
                "running_ms": ms(job.running_ns),
                "kept_the_loop": job.held,
                "cpu_ms": ms(job.cpu_ns),
                "io_ms": ms(sum(job.io_ns.values())),
                "wait_ms": ms(sum(job.wait_ns.values())),
                "unknown_ms": ms(max(0, ending.at_ns - job.last_ns)),
                "place": frame.place if frame else None,
                "stack": job.stack or None,
            }


def _overhead(study: ReportStudy) -> Iterator[Row]:
    found = study.overhead
    if found is not None:
        more = {"cpu_frac": rounded(found.frac), "event_ns": round(found.event_ns, 1), "left_out": LEFT_OUT}
        names = ("processes", "events", "hooks_ns", "writer_ns", "sampler_ns", "lost_events")
        yield _fields("overhead", found, *names, **more)


def _job(story: Story) -> Row:
    job = story.job
    return {
        "process": job.process,
        "job": job.job,
        "route": job.route,
        "host": job.host,
        "status": job.status,
        "clock": job.clock,
        "trace": story.trace or None,
        "latency_ms": ms(job.latency_ns),
        "cpu_ms": ms(job.cpu_ns),
        "io_ms": ms(sum(job.io_ns.values())),
        "wait_ms": ms(sum(job.wait_ns.values())),
        "residual_ms": ms(job.residual_ns),
        "wait_by_kind_ms": {kind: ms(ns) for kind, ns in job.wait_ns.items()},
        "culprits": [{"culprit": name, "wait_ms": ms(ns)} for name, ns in job.culprits],
    }


def _job_calls(study: ReportStudy) -> Iterator[Row]:
    for story in study.stories:
        for each in story.calls:
            call = each.call
            yield {
                "view": "call",
                "process": story.job.process,
                "job": story.job.job,
                "route": story.job.route,
                "upstream": call.upstream,
                "operation": call.operation,
                "at_ms": ms(call.from_ns - story.job.arrival_ns),
                "own_ms": ms(call.own_ns or None),
                "wire_ms": ms(call.wire_ns if call.ready_ns else None),
                "seen_ms": ms(each.seen_ns),
                "factor": rounded(each.factor) if each.factor else None,
                "outcome": call.outcome,
                "culprits": [
                    {"culprit": name, "wait_ms": ms(ns), "place": _place(study, name)} for name, ns in each.culprits[:5]
                ],
            }


def _processes(study: ReportStudy) -> Iterator[Row]:
    for each in study.recording.processes:
        more = {"seconds": round((each.to_ns - each.from_ns) / 1e9, 3), "about": each.about}
        yield _fields("process", each, "pid", "lost_events", "torn_bytes", **more)


def _fields(view: str, each: object, *names: str, **more: object) -> Row:
    """A row of these attributes: times become ms, and fractions have four places."""
    row: Row = {"view": view}
    for name in names:
        value = getattr(each, name)
        if name.endswith("_ns"):
            row[f"{name.removesuffix('_ns')}_ms"] = ms(value)
        else:
            row[name] = rounded(value) if isinstance(value, float) else value
    return {**row, **more}


def _percentiles(each: UpstreamClocks | RouteClocks, *clocks: str) -> Row:
    known = {clock: getattr(each, clock) for clock in clocks}
    return {
        f"{clock}_{at}_ms": ms(of and getattr(of, f"{at}_ns")) for clock, of in known.items() for at in ("p50", "p99")
    }


def _place(study: ReportStudy, culprit: str) -> str | None:
    return study.places[culprit].place if culprit in study.places else None


def ms(ns: float | None) -> float | None:
    """Milliseconds to the microsecond."""
    return None if ns is None else round(ns / 1e6, 3)


def frac(part: float, whole: float) -> float | None:
    """A share to four places; None of nothing."""
    return round(part / whole, 4) if whole else None


def rounded(value: float | None) -> float | None:
    """To four places."""
    return None if value is None else round(value, 4)
