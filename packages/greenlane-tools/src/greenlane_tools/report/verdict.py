"""The one sentence: what the dependency took, what the process took, who that was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.reader.rows import Job
from greenlane_tools.report.clocks import UpstreamClocks
from greenlane_tools.report.contention import WORTH_FRAC, Contention
from greenlane_tools.report.culprits import StackFrame, called
from greenlane_tools.report.split import RouteSplit, neighbours, told
from greenlane_tools.report.tail import culprits_of, excesses

__all__ = ["contention_sentence", "verdict_of"]

#: A second culprit below this share is not worth a name.
_WORTH_NAMING: Final = 0.1
#: Lateness of slow calls below this is not what somebody was called for.
_WORTH_LATE_NS: Final = 2_000_000


def verdict_of(
    routes: Sequence[RouteSplit],
    upstreams: Sequence[UpstreamClocks],
    jobs: Mapping[tuple[int, int], Job],
    places: Mapping[str, StackFrame],
    occupied: bool = False,
) -> str:
    """The sentence about the worst that the recording holds.

    Args:
        upstreams: as `clocks.upstreams` gives them.
        jobs: by process and number.
        places: the line of each culprit.
        occupied: jobs wait for workers that are blocked; then late replies are not the trouble.
    """
    if not routes:
        return "No job ended while this was recorded."
    # A worker's own calls, outside of jobs, make nobody wait.
    worst = next((each for each in upstreams if each.route and not occupied and _late(each)), None)
    latency_ns, wait_ns = sum(split.latency_ns for split in routes), sum(split.wait_ns for split in routes)
    if worst is not None and wait_ns >= WORTH_FRAC * latency_ns:
        return _about_upstream(worst, jobs, places)
    if wait_ns < WORTH_FRAC * latency_ns:
        return _quiet(routes, latency_ns)
    return _about_route(max(routes, key=_victim_weight), places)


def contention_sentence(found: Contention) -> str:
    """Hog or overcommit, in words; "" when nobody waited enough."""
    load = f" at {share(found.busy_frac)} of a core" if found.busy_frac is not None else ""
    crowd = f"{found.in_progress:.1f} jobs in progress in one process{load}"
    if found.verdict == "hog" and found.hogs:
        name, _, longest = found.hogs[0]
        return (
            f"A hog: {share(found.long_frac)} of the waiting is for long slices, most of {called(name)} "
            f"(the longest {duration(longest)})."
        )
    if found.verdict == "overcommit":
        return (
            f"Overcommit: no slice is long (about {duration(found.typical_slice_ns)}), there are many "
            f"({count(found.slices)}): {crowd}. A detector of blocked loops sees none of it."
        )
    if found.verdict == "occupied":
        whole_ns = found.wait_ns + found.occupied_ns
        return (
            f"Workers: {share(found.occupied_ns / whole_ns)} of the waiting is for workers that were blocked "
            f"themselves, most of them in {called(found.occupied[0][0])}. More threads, an event loop or a faster "
            "upstream help; permits do not."
        )
    if found.verdict == "both" and found.hogs:
        name, _, longest = found.hogs[0]
        return (
            f"A hog and overcommit: {share(found.long_frac)} of the waiting is for long slices (most of "
            f"{called(name)}, the longest {duration(longest)}), the rest for many short ones: {crowd}."
        )
    return ""


def _late(each: UpstreamClocks) -> bool:
    return each.slow_late_ns >= _WORTH_LATE_NS and each.slow_late_ns >= 0.2 * each.slow_wire_ns


def _victim_weight(split: RouteSplit) -> float:
    """Wait of the route's p99 by its latency, weighed with all of its wait: much waiting that is felt."""
    slow = neighbours(split.jobs, 0.99)
    latency_ns = sum(job.latency_ns for job in slow) or 1
    waited = sum(sum(job.wait_ns.values()) for job in slow) / latency_ns
    return waited * split.wait_ns


def _about_upstream(
    worst: UpstreamClocks, jobs: Mapping[tuple[int, int], Job], places: Mapping[str, StackFrame]
) -> str:
    slow = neighbours([call for call in worst.calls if call.ready_ns], 0.99)
    concerned = {
        (call.process, call.job): jobs[call.process, call.job] for call in slow if (call.process, call.job) in jobs
    }
    what = worst.upstream or worst.operation or "the dependency"
    times = f" ({factor(worst.factor)})" if worst.slow_wire_ns and worst.factor >= 1 else ""
    return (
        f"{worst.route}: {what} took {duration(worst.slow_wire_ns)}, your process {duration(worst.slow_late_ns)}{times}"
        f"{_culprit(list(concerned.values()), places)}."
    )


def _about_route(split: RouteSplit, places: Mapping[str, StackFrame]) -> str:
    level = split.levels.get("p99", split.levels["mean"])
    slow = neighbours(split.jobs, 0.99)
    waits = {kind: ns for kind, ns in level.parts.items() if kind not in ("cpu", "io", "residual")}
    kind = max(waits, key=lambda each: waits[each])
    waited = share(min(1.0, sum(waits.values()) / max(1.0, sum(level.parts.values()))))
    excess = next((each for each in excesses(split) if each.at == "p99"), None)
    over = ""
    if excess is not None and excess.excess_ns > 0 and excess.wait_frac > 0:
        over = f" ({share(excess.wait_frac)} of what it exceeds p50 by)"
    return (
        f"{split.route}: p99 is {duration(level.latency_ns)}, of which {waited} is waiting{over}, mostly "
        f"{told(kind).removeprefix('waiting ')}{_culprit(slow, places)}."
    )


def _quiet(routes: Sequence[RouteSplit], latency_ns: int) -> str:
    cpu_ns = sum(split.cpu_ns for split in routes)
    io_ns = sum(sum(split.io_ns.values()) for split in routes)
    whole = max(1, latency_ns)
    slowest = max(routes, key=lambda split: split.levels["p99"].latency_ns)
    return (
        f"There was hardly any waiting: {share(io_ns / whole)} of the time is I/O, {share(cpu_ns / whole)} CPU. "
        f"The slowest is {slowest.route}, p99 {duration(slowest.levels['p99'].latency_ns)}."
    )


def _culprit(jobs: Sequence[Job], places: Mapping[str, StackFrame]) -> str:
    """The largest culprit; when that is no route, the largest that has a line of code as well."""
    found = culprits_of(jobs)
    if not found:
        return ""
    chosen = found[:1]
    if found[0][0] not in places:
        chosen += [each for each in found[1:] if each[0] in places and each[1] >= _WORTH_NAMING][:1]
    said = [f"{share(frac)} {called(name)}{_place(name, places)}" for name, frac in chosen]
    first, *rest = said
    return f"; {first.replace(' %', ' % of that was', 1)}" + "".join(f", {each}" for each in rest)


def _place(name: str, places: Mapping[str, StackFrame]) -> str:
    return f", {places[name].place}" if name in places else ""
