"""The one verdict: who waits for what, who has it, at which line, what it costs, what to do, how to check it.

Found once, from one study, so that headline, culprit and remedy are one thing: page, text, `--brief`, `--json`, `top`
and `plan` show this object. A cause is ranked by the time that all its victims lose, weighed by whether one can act on
it: what the machine, the start of a process or the recording did is a note unless it is far more than all the rest. An
upstream's own time and a route's own computing are work, and win only where hardly anybody waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from greenlane_tools.page.quantities import count, duration, share
from greenlane_tools.reader.rows import Job, Own
from greenlane_tools.report.clocks import UpstreamClocks
from greenlane_tools.report.culprits import called, spots
from greenlane_tools.report.remedies import Remedy, remedy_for
from greenlane_tools.report.split import RouteSplit, nearest, neighbours, parts
from greenlane_tools.report.waiting import Holder, ResourceWait, boot_jobs

__all__ = ["Verdict", "Victim", "verdict_of"]

#: What a ns of each counts, where it is not 1. Arbitrary: what one cannot act on must be several times as much.
_WEIGHTS: Final[Mapping[str, float]] = {
    "machine": 0.2, "unknown": 0.3, "collector": 0.8, "parked": 0.5, "upstream": 0.15, "none": 0.15,
}  # fmt: skip
#: I/O with somebody else.
_OUTSIDE: Final = ("socket", "ssl", "dns", "select", "driver")
#: Below this share of the victim's time, or this time at p99, waiting is not worth a sentence. Between the two times,
#: and of what has no name, it is worth one from the larger share on.
_WORTH_FRAC: Final = 0.05
_WORTH_NS: Final = 1_000_000
_FELT_NS: Final = 10_000_000
_FELT_FRAC: Final = 0.25
#: Of all time: less waiting is hardly any.
_HARDLY_FRAC: Final = 0.1
#: Jobs around p99, at least: one job never decides.
_LEAST_SLOW: Final = 5
#: Another route than the holder's is the victim if it loses this part of what the one loses that loses most.
_OTHER_FRAC: Final = 1 / 3
#: Causes with this part of the first one's cost are notes beside it.
_ALSO_FRAC: Final = 0.2
_MOST_ALSO: Final = 2
#: Without a name, or with a note of their own.
_NO_NEWS: Final = ("none", "upstream", "unknown", "machine")
#: From this share of failed answers on they are the trouble; from the second one on they are told first.
_FAILED_FRAC: Final = 0.5
_SOME_FAILED_FRAC: Final = 0.01
#: A job that failed because it waited has run into a time-out: it has waited for this long at least. Arbitrary.
_TIME_OUT_NS: Final = 100_000_000
#: How a resource reads; {name} may be empty.
_RESOURCES: Final[Mapping[str, str]] = {
    "gil": "the GIL",
    "c_call": "the GIL",
    "loop": "the event loop",
    "executor": "a thread of {name}",
    "connection_pool": "a connection of {name}",
    "process_pool": "a process of {name}",
    "lock": "the lock {name}",
    "semaphore": "its turn at {name}",
    "parked": "its turn ({name})",
    "accept": "a worker of its server",
    "prefetch": "its worker, which took it from the broker while it ran another task",
    "collector": "the garbage collector",
    "quota": "its CPU quota",
    "machine": "a core",
    "unknown": "something that the recording cannot name ({name})",
}
_NAMELESS: Final[Mapping[str, str]] = {
    "executor": "a pool of threads or connections, of which the recording has no name",
    "connection_pool": "a connection",
    "process_pool": "a process of a pool",
    "lock": "a lock",
    "semaphore": "its turn at a limit",
}
#: What a holder does with it, by kind and cause, then by kind.
_HOLDS: Final[Mapping[str, str]] = {
    "gil many": "which {who} takes most, in many stretches of up to {held}",
    "gil": "with which {who} computes for up to {held} at a time",
    "gil serializes": "with which {who}'s answers are encoded for up to {held} at a time",
    "c_call": "which one C call of {who} keeps for up to {held}",
    "loop blocks": "which {who} blocks for up to {held} at a time",
    "loop many": "which {who} takes most, in many stretches of up to {held}",
    "loop serializes": "on which {who}'s answers are encoded for up to {held} at a time",
    "loop": "on which {who} computes for up to {held} at a time",
    "collector": "which {who} starts and which stops all threads",
    "executor": "of which {all} {are} taken by {who} for up to {held}{meanwhile}",
    "machine": "which {who} uses with its {name}",
    "accept silent": "which {who} holds and sends nothing",
    "accept": "which {who} holds for up to {held}{meanwhile}",
    "connection_pool": "of which {all} {are} held by {who} for up to {held}{meanwhile}",
    "process_pool": "of which {all} {are} taken by {who} for up to {held}{meanwhile}",
    "prefetch": "{who}, for up to {held}{meanwhile}",
    "": "which {who} holds for up to {held}{meanwhile}",
}
_JSON_KINDS: Final = {"unknown": "none", "parked": "semaphore"}


@dataclass(frozen=True)
class Victim:
    """The route that loses most."""

    route: str
    p50_ns: float
    p99_ns: float
    jobs: int
    #: Of all that is lost to the resource, what this route loses; 0 to 1.
    share: float


@dataclass(frozen=True)
class Verdict:
    """What the recording says; `kind` is "none" where nobody waits, and where the cause has no name."""

    kind: str
    #: "who waits how long for what, because of which line": one sentence.
    sentence: str
    remedy: Remedy
    victim: Victim | None = None
    name: str = ""
    #: Places of the resource; None = unknown, or it has none.
    capacity: int | None = None
    holder: Holder | None = None
    #: Of the victim's p99, what its jobs around there wait for it; and the share of their latency that this is.
    wait_ns: float = 0.0
    share: float = 0.0
    #: ns that all victims lose to it.
    cost_ns: float = 0.0
    notes: Sequence[str] = ()

    @property
    def line(self) -> str:
        """ "pricing.py:88 total"; "" = not seen."""
        return self.holder.spot.text if self.holder and self.holder.spot else ""

    def to_json(self) -> dict[str, object]:
        """The object of `--json`: times in ms, shares 0 to 1."""
        victim, holder = self.victim, self.holder
        return {
            "sentence": self.sentence,
            "victim": victim and {"route": victim.route, "p50_ms": _ms(victim.p50_ns), "p99_ms": _ms(victim.p99_ns),
                                  "jobs": victim.jobs, "share": round(victim.share, 4)},
            "resource": {"kind": _JSON_KINDS.get(self.kind, self.kind), "name": self.name, "capacity": self.capacity},
            "holder": holder and {"who": holder.who, "line": self.line or None, "meanwhile": holder.meanwhile,
                                  "held_ms": _ms(holder.held_ns)},
            "wait_ms": _ms(self.wait_ns),
            "share": round(self.share, 4),
            "remedy": {"key": self.remedy.key, "text": self.remedy.text, "check": self.remedy.check},
            "notes": list(self.notes),
        }  # fmt: skip


def verdict_of(
    routes: Sequence[RouteSplit],
    waits: Sequence[ResourceWait],
    upstreams: Sequence[UpstreamClocks],
    own: Sequence[Own],
    family: str,
    notes: Sequence[str] = (),
) -> Verdict:
    """The verdict.

    Args:
        waits: as `waiting.waits_of` gives them.
        upstreams, own: for routes that hardly wait.
        family: as `waiting.host_family` says it.
        notes: what else is to be said.
    """
    if not routes:
        said = "No job ended while this was recorded."
        return Verdict("none", said, remedy_for("none", "", family, _words("", None, "", None)), notes=notes)
    # Those that waited for the start of their process are told in a note.
    every = [job for split in routes for job in split.jobs]
    boot = {(job.process, job.job) for job in boot_jobs(every, [split.route for split in routes])}
    verdicts = [found for each in waits if (found := _waiting(each, routes, boot, family)) is not None]
    verdicts.sort(key=lambda each: -_counts(each))
    working = _working(routes, upstreams, own, family)
    # A route's computing for which others wait is told by their waiting.
    felt = verdicts and verdicts[0].share >= _FELT_FRAC and _who(verdicts[0]) == _who(working) != ""
    if not felt:
        verdicts = sorted([*verdicts, working], key=lambda each: -_counts(each))
    first, *others = verdicts
    also = [
        f"Also: {each.sentence}"
        for each in others
        if each.kind not in _NO_NEWS and each.share >= _WORTH_FRAC and _counts(each) >= _ALSO_FRAC * _counts(first)
    ]
    failed = _failures(routes)
    if failed and _all_failed(routes, first):
        worst = max(routes, key=lambda split: split.failed)
        remedy = remedy_for("errors", "", family, _words(worst.route, None, "", None))
        first = Verdict("errors", failed, remedy, _victim(worst, worst.failed / sum(each.failed for each in routes)))
    elif failed:
        first = replace(first, sentence=f"{failed} {first.sentence}")
    return replace(first, notes=[*also[:_MOST_ALSO], *notes])


def _who(verdict: Verdict) -> str:
    return verdict.holder.who if verdict.holder else ""


def _counts(verdict: Verdict) -> float:
    if verdict.kind == "lock" and verdict.holder is None:
        return verdict.cost_ns * _WEIGHTS["unknown"]
    if verdict.kind == "machine" and verdict.holder is not None:
        return verdict.cost_ns  # its own native threads: one can act on that
    return verdict.cost_ns * _WEIGHTS.get(verdict.kind, 1.0)


def _victim(split: RouteSplit, part: float) -> Victim:
    level = split.levels
    return Victim(split.route, level["p50"].latency_ns, level["p99"].latency_ns, len(split.jobs), part)


# --- somebody waits


def _waiting(
    wait: ResourceWait, routes: Sequence[RouteSplit], boot: Set[tuple[int, int]], family: str
) -> Verdict | None:
    """The verdict on one resource; None = its victims hardly wait for it."""
    by_route = {split.route: split for split in routes}
    victims = {route: ns for route, ns in wait.victims.items() if route in by_route and ns > 0}
    if not victims:
        return None
    who = wait.holder.who if wait.holder else ""
    others = {route: ns for route, ns in victims.items() if route != who}
    route = max(victims, key=lambda each: victims[each])
    if others:
        other = max(others, key=lambda each: others[each])
        route = other if others[other] >= _OTHER_FRAC * victims[route] else route
    split = by_route[route]
    jobs = [job for job in split.jobs if (job.process, job.job) not in boot] or split.jobs
    slow = neighbours(jobs, 0.99)
    slow = slow if len(slow) >= _LEAST_SLOW else jobs[-_LEAST_SLOW:]
    part = min(1.0, wait.whole[route] / max(1, _counted(jobs, wait)))
    frac = min(1.0, part * _counted(slow, wait) / max(1, sum(job.latency_ns for job in slow)))
    wait_ns = frac * nearest(jobs, 0.99).latency_ns
    most = max(frac, part * _counted(jobs, wait) / max(1, sum(job.latency_ns for job in jobs)))
    # Nor can one act on a server's own threads.
    has_no_name = wait.kind == "unknown" or (wait.holder is not None and who not in by_route)
    least = _FELT_FRAC if wait_ns < _FELT_NS or has_no_name else _WORTH_FRAC
    if wait_ns < (_FELT_NS if has_no_name else _WORTH_NS) or most < least:
        return None
    waited = f"{_route(route)} waits {duration(wait_ns)} ({share(frac)} of its p99) for "
    holder = wait.holder
    cause = wait.name if wait.kind == "unknown" else holder.cause if holder else ""
    if (wait.kind == "executor" and not wait.name) or (wait.kind == "lock" and holder is None):
        cause = "unnamed"
    resource = _resource(wait)
    return Verdict(
        kind=wait.kind,
        sentence=f"{waited}{resource}{_holding(wait)}.",
        remedy=remedy_for(wait.kind, cause, family, _words(route, holder, resource, wait)),
        victim=_victim(split, victims[route] / wait.ns),
        name=wait.name or (holder.spot.call if wait.kind == "c_call" and holder and holder.spot else ""),
        capacity=wait.capacity or None,
        holder=holder,
        wait_ns=wait_ns,
        share=frac,
        cost_ns=wait.ns,
    )


def _counted(jobs: Sequence[Job], wait: ResourceWait) -> int:
    return sum(ns for job in jobs for kind, ns in parts(job).items() if kind in wait.counted)


def _resource(wait: ResourceWait) -> str:
    if not wait.name and wait.kind in _NAMELESS:
        return _NAMELESS[wait.kind]
    return _RESOURCES.get(wait.kind, wait.kind).format(name=wait.name)


def _holding(wait: ResourceWait) -> str:
    holder = wait.holder
    if holder is None:
        unnamed = {"machine": ", which other processes use", "unknown": "", "quota": ""}
        return unnamed.get(wait.kind, "; the recording does not say who holds it")
    form = _HOLDS.get(f"{wait.kind} {holder.cause}") or _HOLDS.get(wait.kind) or _HOLDS[""]
    held = form.format(
        who=called(holder.who),
        name=wait.name,
        held=duration(holder.held_ns),
        all={0: "most", 1: "the only one", 2: "both"}.get(wait.capacity, f"all {wait.capacity}"),
        are="is" if wait.capacity == 1 else "are",
        meanwhile=f", {holder.meanwhile}" if holder.meanwhile else "",
    )
    return f", {held}{_because(holder)}"


def _because(holder: Holder) -> str:
    if holder.spot is None:
        return ""
    behind = f", in {holder.spot.call}" if holder.spot.call else ""
    return f", because of {holder.spot.text}{behind}"


def _words(victim: str, holder: Holder | None, resource: str, wait: ResourceWait | None) -> dict[str, str]:
    """For the placeholders of remedies."""
    spot = holder.spot if holder else None
    who = called(holder.who) if holder else "what holds it"
    return {
        "victim": _route(victim),
        "holder": who,
        "at": f"at {spot.text}" if spot else f"in {who}",
        "line": spot.text if spot else f"the code of {who}",
        "call": _arguments(spot.call or spot.frame.function if spot else ""),
        "resource": (wait.name if wait else "") or resource or "it",
        "more": f"{wait.capacity + 1} or more" if wait and wait.capacity else "more",
        "meanwhile": holder.meanwhile if holder else "",
    }


def _arguments(call: str) -> str:
    """As arguments that one can type: a function's name; of a class's constructor, the class's."""
    name = call.removesuffix(".__init__")
    return f"{name}, …" if name.isidentifier() else "f, …"


# --- nobody waits


def _working(
    routes: Sequence[RouteSplit], upstreams: Sequence[UpstreamClocks], own: Sequence[Own], family: str
) -> Verdict:
    """The verdict on the work itself: an upstream's time, a route's own computing, or hardly anything."""
    wire = {(each.route, each.upstream): 0 for each in upstreams if each.route and each.upstream}
    for each in upstreams:
        if each.route and each.upstream:
            wire[each.route, each.upstream] += sum(call.wire_ns for call in each.calls if call.ready_ns)
    by_route = {split.route: split for split in routes}
    route, upstream = max(wire, key=lambda key: wire[key], default=("", ""))
    busiest = max(routes, key=lambda split: split.cpu_ns)
    waited = sum(split.wait_ns for split in routes) / (sum(split.latency_ns for split in routes) or 1)
    hardly = "; hardly any waiting" if waited < _HARDLY_FRAC else ""
    waits = max(routes, key=lambda split: sum(split.io_ns.values()))
    named = bool(upstream)
    if not named and 2 * sum(waits.io_ns.get(kind, 0) for kind in _OUTSIDE) > waits.latency_ns:
        # By a library whose calls are not seen.
        route, upstream = waits.route, "something outside"
        wire[route, upstream] = sum(waits.io_ns.values())
    if route in by_route and wire[route, upstream] >= max(busiest.cpu_ns, by_route[route].latency_ns / 2):
        split, ns = by_route[route], wire[route, upstream]
        frac = min(1.0, ns / split.latency_ns)
        said = f"{_route(route)} takes {duration(split.levels['p99'].latency_ns)} at p99, {share(frac)} of its time in "
        words = {**_words(route, None, upstream, None), "resource": upstream if named else "what it calls"}
        remedy = remedy_for("upstream", "", family, words)
        return Verdict("upstream", f"{said}calls of {upstream}{hardly}.", remedy, _victim(split, 1.0),
                       upstream, None, None, ns / len(split.jobs), frac, float(ns))  # fmt: skip
    waits = max(routes, key=lambda split: _elsewhere_ns(split))
    if 2 * _elsewhere_ns(waits) > waits.latency_ns:
        said = (
            f"{_route(waits.route)} takes {duration(waits.levels['p99'].latency_ns)} at p99, "
            f"{share(_elsewhere_ns(waits) / waits.latency_ns)} of its time for results of other threads or processes."
        )
        remedy = remedy_for("unknown", "elsewhere", family, _words(waits.route, None, "", None))
        return Verdict("unknown", said, remedy, _victim(waits, 1.0), cost_ns=_elsewhere_ns(waits))
    split = busiest
    frac = split.cpu_ns / max(1, split.latency_ns)
    if frac < 0.5 or split.cpu_ns / len(split.jobs) < _WORTH_NS:
        latency_ns = sum(each.latency_ns for each in routes) or 1
        io, cpu = (sum(ns) / latency_ns for ns in zip(*((sum(each.io_ns.values()), each.cpu_ns) for each in routes),
                                                      strict=True))  # fmt: skip
        # By all of its time, without its longest job.
        slowest = max(routes, key=lambda each: each.latency_ns - each.jobs[-1].latency_ns)
        said = (
            f"Requests hardly wait for each other: {share(io)} of their time is I/O, {share(cpu)} their own computing. "
            f"Most is {_route(slowest.route)}, p99 {duration(slowest.levels['p99'].latency_ns)}."
        )
        remedy = remedy_for("none", "", family, _words(slowest.route, None, "", None))
        return Verdict("none", said, remedy, _victim(slowest, 0.0))
    spot = spots([(row.route, row.stack, row.cpu_ns) for row in own if row.route == split.route]).get(split.route)
    holder = Holder(split.route, "computes", spot, "computing", round(split.cpu_ns / len(split.jobs)), split.cpu_ns)
    said = (
        f"{_route(split.route)} takes {duration(split.levels['p99'].latency_ns)} at p99, {share(frac)} of its time its "
        f"own computing{_because(holder)}{hardly}."
    )
    remedy = remedy_for("none", "computes", family, _words(split.route, holder, "", None))
    return Verdict("none", said, remedy, _victim(split, 1.0), "", None, holder, 0.0, 0.0, float(split.cpu_ns))


def _elsewhere_ns(split: RouteSplit) -> int:
    return split.io_ns.get("future", 0) + split.io_ns.get("process", 0)


# --- failures


def _failures(routes: Sequence[RouteSplit]) -> str:
    failed, jobs = sum(split.failed for split in routes), sum(len(split.jobs) for split in routes)
    if failed < max(1, _SOME_FAILED_FRAC * jobs):
        return ""
    worst = max(routes, key=lambda split: split.failed)
    kind = "tasks" if any(job.status == 1 for job in worst.jobs) else "answers"
    of = f"{count(failed)} of {count(jobs)} {kind}"
    where = (
        f" of {_route(worst.route)}"
        if len(routes) == 1 or worst.failed == failed
        else f", most of {_route(worst.route)}"
    )
    return f"{of}{where} failed{' (5xx)' if kind == 'answers' else ''}."


def _all_failed(routes: Sequence[RouteSplit], first: Verdict) -> bool:
    """Whether failing is the trouble, and no effect of the waiting."""
    jobs = [job for split in routes for job in split.jobs]
    failed = [job for job in jobs if job.status >= 500 or job.status == 1]
    waited_ns = sum(sum(job.wait_ns.values()) for job in failed)
    timed_out = waited_ns >= max(0.5 * sum(job.latency_ns for job in failed), _TIME_OUT_NS * len(failed))
    named = first.cost_ns and first.kind not in ("unknown", "machine", "none", "upstream")
    return len(failed) >= _FAILED_FRAC * len(jobs) and not (timed_out and named)


def _route(route: str) -> str:
    return route or "a request"


def _ms(ns: float) -> float:
    return round(ns / 1e6, 3)
