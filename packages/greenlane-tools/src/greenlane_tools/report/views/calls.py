"""The upstream's clock beside the application's, spans as they were, and calls that blocked a whole loop."""

from __future__ import annotations

from greenlane_tools.page.blocks import Row, details, figure, legend, section, table, wide
from greenlane_tools.page.charts.stacked_bars import Bar, stacked_bars
from greenlane_tools.page.html import Html, joined
from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.report.clocks import Upstream
from greenlane_tools.report.study import Study
from greenlane_tools.report.views.limits import MOST_DRAWN, shortened

__all__ = ["view"]


def view(study: Study) -> Html:
    """The section."""
    if not study.upstreams and not study.recording.held:
        return Html("")
    return section(
        "Upstreams: their clock beside yours",
        _bars([each for each in study.upstreams if each.known][:MOST_DRAWN]),
        _table(study),
        _branches(study),
        _held(study),
        about="On the wire: from the send until the reply was there. In the process: the reply was there and the code "
        "did not go on; a client's span contains both, which is how a database gets the blame.",
        name="upstreams",
    )


def _bars(found: list[Upstream]) -> Html:
    if not found:
        return Html("")
    bars = []
    for each in found:
        times = f" ({factor(each.factor)})" if each.factor >= 1 else ""
        said = f"{duration(each.slow_wire_ns)}, then {duration(each.slow_late_ns)}{times}"
        bars.append(Bar(_named(each), {"io": each.slow_wire_ns, "loop": each.slow_late_ns}, said))
    key = legend({"k-io": "on the wire", "k-loop": "in the process"})
    drawing = wide(stacked_bars(bars, "slow calls: on the wire, then in the process"))
    return joined([figure("Slow calls", drawing, "means around p99 of what the code saw"), key])


def _named(each: Upstream) -> str:
    return f"{each.upstream or each.operation or 'unknown'} in {each.route}"


def _table(study: Study) -> Html:
    if not study.upstreams:
        return Html("")
    found, more = shortened(study.upstreams)
    rows = [
        Row(
            [
                each.route,
                f"{each.upstream} {each.operation}".strip(),
                count(len(each.calls)),
                _pair(each.seen_p50_ns, each.seen_p99_ns),
                _pair(each.own_p50_ns, each.own_p99_ns),
                _pair(each.wire_p50_ns, each.wire_p99_ns),
                _pair(each.late_p50_ns, each.late_p99_ns),
                share(each.inflated_frac) if each.known else "-",
                f"{count(each.late_resumed + each.late_replied)} of {count(each.with_deadline)}"
                if each.with_deadline
                else "-",
                count(each.failed),
            ]
        )
        for each in found
    ]
    heads = ["route", "upstream", "calls", "span p50 / p99", "its clock p50 / p99", "corrected p50 / p99"]
    heads += ["in the process p50 / p99", "span inflated by", "data after its deadline", "failed"]
    return joined([details("All calls", table(heads, rows, "upstreams", names=2), more)])


def _branches(study: Study) -> Html:
    if not study.branches:
        return Html("")
    found, more = shortened(study.branches)
    rows = [
        Row(
            [
                each.route,
                f"{each.upstream} {each.operation}".strip(),
                f"{count(each.missed)} of {count(each.calls)}",
                share(each.missed_frac),
                count(each.was_ready),
            ]
        )
        for each in found
    ]
    heads = ["route", "branch", "after the job's deadline", "of its calls", "reply was there in time"]
    told = "data that reached the code after the job's own deadline"
    return joined([figure("Branches that miss the deadline", table(heads, rows, "branches", names=2), told), more])


def _held(study: Study) -> Html:
    if not study.recording.held:
        return Html("")
    found, more = shortened(sorted(study.recording.held, key=lambda row: -row.ns))
    rows = [
        Row([row.call, row.route, _innermost(row.stack), count(row.calls), duration(row.ns), duration(row.longest_ns)])
        for row in found
    ]
    heads = ["call", "route", "from", "calls", "time", "longest"]
    told = "the thread slept in a system call, and every job of its loop with it: no CPU profile shows this"
    drawn = table(heads, rows, "calls that blocked a loop", names=3)
    return joined([figure("Calls that blocked a whole loop", drawn, told), more])


def _innermost(stack: str) -> str:
    return stack.rpartition(";")[2] or "-"


def _pair(p50: int | None, p99: int | None) -> str:
    return "-" if p50 is None or p99 is None else f"{duration(p50)} / {duration(p99)}"
