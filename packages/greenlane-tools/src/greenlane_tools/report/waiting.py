"""What jobs waited for, by resource: who waited, who had it meanwhile, at which line, and what it did.

All waiting for running code of one process is one resource, whether a job met it as a wait for the GIL, for the loop or
before its first instruction: its kind follows from the one that had it most. Time of one job never decides: of each
route and kind of wait the longest job is left out, and so are jobs that waited for the start of their process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from greenlane_tools.page.quantities import duration, share
from greenlane_tools.reader.rows import Blame, Job, Resource, ResourceHolder
from greenlane_tools.report.cores import is_throttled, native_computer
from greenlane_tools.report.culprits import CodeSpot, frames
from greenlane_tools.report.lines import HolderLines
from greenlane_tools.report.split import RouteSplit, wait_ns
from greenlane_tools.report.subject import RecordedRows
from greenlane_tools.report.turns import permits_in_force
from greenlane_tools.report.uncut import uncut_fracs

__all__ = ["Holder", "ResourceWait", "boot_jobs", "host_family", "waits_of"]

#: A slice of at least this is long whatever it makes wait: what a person or a deadline notices. Arbitrary.
_LONG_NS: Final = 20_000_000
#: A shorter one is long when it is at least half of the victim's mean wait, and not below the limit above which
#: Greenlane's permits count a phase as heavy.
_SHORTEST_NS: Final = 4_000_000
#: Of the waiting for code, the share of long slices below which many short ones are the trouble. Arbitrary.
_MANY_FRAC: Final = 1 / 3
#: Of the wait for a holder, the share in stretches that the interpreter could not cut: then one C call is the cause.
_UNCUT_FRAC: Final = 0.5
#: Of the wait, the share of the collector from which on no C call is the cause.
_COLLECTED_FRAC: Final = 0.3
#: A route is the cause of the collector if it spent 3 times of that in it which others waited for it. Arbitrary.
_COLLECTS: Final = 3
#: Fewer jobs than this are looked at as they are: each of them may be the trouble.
_FEW_JOBS: Final = 10
#: Waits for code that runs, in the order in which a job can meet them.
_FOR_CODE: Final = ("accept", "gil", "loop", "permit", "stopped")
#: Who is the cause but had nothing: it says no more than that somebody else ran.
_NOBODY: Final = ("os", "unknown", "blocked", "loop", "gc")
_BLOCKED: Final = "blocked in a call"
_KNOWN_FRAC: Final = 0.05
#: Labels of what a holder does, in words that say who must answer.
_DOING: Final = {"sleep": "asleep", "future": "waiting for the result of another thread or process"}
_BARE: Final = ("socket", "ssl", "driver", "select")
_SILENT: Final = "a client's connection"
#: Requests whose own client may be what they read from.
_WITH_BODY: Final = ("POST ", "PUT ", "PATCH ")
_LOOP_HOSTS: Final = ("asgi", "asyncio", "aiohttp", "uvicorn", "hypercorn", "daphne", "tornado", "sanic", "granian")
_KINDS: Final[Mapping[str, str]] = {
    "connections": "connection_pool",
    "threads": "executor",
    "processes": "process_pool",
}
#: uvloop makes the executor that asyncio calls its default one.
_NAMES: Final = {"ThreadPoolExecutor uvloop": "uvloop's default executor"}
#: Waits of jobs that a resource's may be counted in, by its kind.
_COUNTED: Final[Mapping[str, Sequence[str]]] = {
    "connection_pool": ("pool", "lock"),
    "executor": ("pool", "queue", "lock", "accept"),
    "process_pool": ("pool", "lock"),
    "semaphore": ("lock", "pool"),
    "lock": ("lock", "pool"),
}


@dataclass(frozen=True)
class Holder:
    """Who had a resource while others waited for it."""

    #: A route, task, thread or library.
    who: str
    #: What it did with it: long, many, blocks, computes, serializes, waits, elsewhere, shared, queue …; "" = unknown.
    cause: str
    #: Where; None = not seen.
    spot: CodeSpot | None
    #: "in 127.0.0.1:9000 GET /slow"; "" = unknown.
    meanwhile: str
    #: Its longest time with it, or its longest stretch.
    held_ns: int
    #: Of the waiting, what is due to it.
    ns: float


@dataclass
class ResourceWait:
    """All waiting for one resource. `kind` is as in the verdict, or "unknown"."""

    kind: str
    name: str = ""
    capacity: int = 0
    #: ns by route, with every job but those that the module leaves out.
    victims: dict[str, float] = field(default_factory=dict)
    #: The same with all jobs.
    whole: dict[str, float] = field(default_factory=dict)
    #: Kinds of wait that jobs have it as.
    counted: set[str] = field(default_factory=set)
    holder: Holder | None = None

    @property
    def ns(self) -> float:
        """Of all victims."""
        return sum(self.victims.values())

    def add(self, victim: str, kind: str, ns: float, steady: float) -> None:
        """More waiting of a route, of which the share `steady` counts."""
        self.victims[victim] = self.victims.get(victim, 0.0) + ns * steady
        self.whole[victim] = self.whole.get(victim, 0.0) + ns
        self.counted.add(kind)


def host_family(recording: RecordedRows) -> str:
    """How most jobs are served: threads, turns (threads with permits), loop, gevent, celery."""
    hosts: dict[str, int] = {}
    for job in recording.jobs:
        hosts[job.host] = hosts.get(job.host, 0) + 1
    host = max(hosts, key=lambda each: hosts[each], default="")
    if "gevent" in host or any(process.about.get("threads_are_greenlets") for process in recording.processes):
        return "gevent"
    if host == "celery":
        return "celery"
    if permits_in_force(recording.jobs):
        return "turns"
    waits = [sum(job.wait_ns.get(kind, 0) for job in recording.jobs) for kind in ("loop", "gil")]
    return "loop" if any(name in host for name in _LOOP_HOSTS) or waits[0] > waits[1] else "threads"


def boot_jobs(jobs: Iterable[Job], routes: Iterable[str]) -> list[Job]:
    """Jobs that arrived before their process began its first one, and waited for its start, not for another job."""
    ordered = sorted(jobs, key=lambda job: job.handler_ns or job.arrival_ns)
    begun: dict[int, int] = {}
    for job in ordered:
        begun.setdefault(job.process, job.handler_ns or job.arrival_ns)
    named = set(routes)
    return [
        job
        for job in ordered
        if job.arrival_ns < begun[job.process]
        and 2 * job.wait_ns.get("accept", 0) > job.latency_ns
        and not any(culprit in named for culprit, _ in job.culprits[:1])
    ]


def waits_of(recording: RecordedRows, routes: Sequence[RouteSplit]) -> list[ResourceWait]:
    """All that was waited for, most ns first."""
    return _Waits(recording, routes).ranked()


class _Waits:
    def __init__(self, recording: RecordedRows, routes: Sequence[RouteSplit]) -> None:
        self._recording = recording
        self._routes = {split.route: split for split in routes}
        self._uncut = uncut_fracs(recording)
        self._family = host_family(recording)
        self._places = HolderLines(recording)
        self._machine = "quota" if is_throttled(recording) else "machine"
        boot = boot_jobs(recording.jobs, self._routes)
        self._steady = _steady(routes, boot)
        self._blame = _without(recording.blame, boot)
        self._waits: dict[tuple[str, str], ResourceWait] = {}
        self._code: list[Blame] = []

    def ranked(self) -> list[ResourceWait]:
        taken = self._named()
        blocked: dict[str, float] = {}
        for row in self._blame:
            key = (row.victim, row.kind)
            left = max(0.0, row.ns - taken.get(key, 0.0))
            taken[key] = taken.get(key, 0.0) - (row.ns - left)
            if left:
                self._unnamed(row, left / row.ns, blocked)
        self._for_code()
        for split in self._routes.values():
            residual_ns = sum(max(0, job.residual_ns) for job in split.jobs)
            if residual_ns:
                self._wait("unknown", "residual").add(split.route, "residual", residual_ns, 1.0)
        self._native_threads()
        return sorted(self._waits.values(), key=lambda each: -each.ns)

    def _wait(self, kind: str, name: str = "", capacity: int = 0) -> ResourceWait:
        return self._waits.setdefault((kind, name), ResourceWait(kind, name, capacity))

    def _add(self, wait: ResourceWait, row: Blame, ns: float) -> None:
        wait.add(row.victim, row.kind, ns, self._steady.get((row.victim, row.kind), 1.0))

    # --- resources that say their name

    def _named(self) -> dict[tuple[str, str], float]:
        """Takes resources as they are; gives what of the rows of blame is told with them, by victim and kind."""
        taken: dict[tuple[str, str], float] = {}
        for row in self._recording.resources:
            resource = row._replace(name=_NAMES.get(row.name, row.name))
            kind = _KINDS.get(resource.kind, resource.kind)
            wait = self._wait(kind, resource.name, resource.capacity)
            for victim in resource.victims:
                left = float(victim.ns)
                for counted in _COUNTED.get(kind, ("lock",)):
                    rows = [each for each in self._blame if each.victim == victim.route]
                    whole = sum(each.ns for each in rows if each.kind == counted)
                    ns = min(left, whole - taken.get((victim.route, counted), 0.0))
                    if ns > 0:
                        taken[victim.route, counted] = taken.get((victim.route, counted), 0.0) + ns
                        wait.add(victim.route, counted, ns, self._steady.get((victim.route, counted), 1.0))
                        left -= ns
            if resource.holders:
                wait.holder = self._holder_of(wait, resource, resource.holders[0])
        return taken

    def _holder_of(self, wait: ResourceWait, resource: Resource, holder: ResourceHolder) -> Holder:
        whole = sum(ns for _, _, ns in holder.meanwhile) or 1
        # A client's pool without an address: its connections are held by the calls themselves.
        address = resource.name.partition(" to ")[2]
        inside = [
            (state, label, ns)
            for state, label, ns in holder.meanwhile
            # A library whose calls are not seen has no more than the kind of I/O.
            if state == "io" and label != "sleep" and (address in label or label in _BARE)
        ]
        cause, doing = "", holder.meanwhile
        if wait.kind == "connection_pool" and holder.meanwhile:
            cause = "query" if 2 * sum(ns for _, _, ns in inside) >= whole else "elsewhere"
            doing = inside if cause == "query" else [each for each in holder.meanwhile if each not in inside]
        elif wait.kind == "executor" and holder.meanwhile:
            computes = sum(ns for state, _, ns in holder.meanwhile if state == "cpu") / whole
            shared = "default executor" in resource.name and any(
                each.route != holder.route for each in resource.victims
            )
            cause = "computes" if computes >= 0.5 else "shared" if shared else "waits"
        frame = next(iter(frames(holder.line)), None)
        spot = CodeSpot(frame, "", False, False) if frame is not None else None
        if frame is None or frame.library or (wait.kind == "executor" and cause != "computes"):
            spot = self._places.blocked(holder.route, frame.function if frame and not frame.library else "") or spot
        return Holder(holder.route, cause, spot, _meanwhile(doing, holder.holds), holder.longest_ns, holder.ns)

    # --- rows of blame

    def _unnamed(self, row: Blame, part: float, blocked: dict[str, float]) -> None:
        if row.culprit == "os":
            self._add(self._wait(self._machine), row, row.ns * part)
        elif row.kind in _FOR_CODE and row.culprit not in ("unknown", "blocked"):
            sync = row.kind == "accept" and self._one_thread(row.victim)
            busy = self._busy_ns(row)
            if busy < row.ns or (sync and row.culprit in self._routes):
                self._occupied(row, (row.ns if sync else row.ns - busy) * part, blocked, busy / row.ns)
            if not sync and busy:
                self._code.append(row._replace(ns=round(busy * part)))
        elif row.kind == "accept" and self._one_thread(row.victim):
            # Its only thread had no job.
            wait = self._wait("accept")
            self._add(wait, row, row.ns * part)
            wait.holder = wait.holder or Holder(_SILENT, "silent", None, "sending nothing", 0, 0.0)
        elif row.kind == "pool" and (known := self._known(row.victim)) is not None:
            # The same pool, by a path that does not tell its name.
            self._add(known, row, row.ns * part)
        elif row.kind == "pool":
            self._held(self._wait("executor"), row, part)
        elif row.kind == "queue":
            wait = self._wait("executor", row.culprit, 1)
            self._held(wait, row, part, "queue")
        elif row.kind == "lock":
            wait = self._wait("lock")
            self._held(wait, row, part)
        elif row.kind == "parked":
            self._held(self._wait("parked", row.culprit), row, part)
        else:
            wait = self._wait("unknown", _BLOCKED if row.kind == "blocked" else "no culprit")
            self._add(wait, row, row.ns * part)

    def _known(self, victim: str) -> ResourceWait | None:
        """The only pool with a name that it waits for, where that is no small part of its waiting for pools."""
        whole = sum(row.ns for row in self._blame if (row.victim, row.kind) == (victim, "pool"))
        named = [wait for wait in self._waits.values() if wait.name and "pool" in wait.counted]
        named = [wait for wait in named if wait.whole.get(victim, 0.0) >= _KNOWN_FRAC * whole]
        return named[0] if len(named) == 1 else None

    def _held(self, wait: ResourceWait, row: Blame, part: float, cause: str = "") -> None:
        """Waiting for something without a name, of which at most its holder is known."""
        self._add(wait, row, row.ns * part)
        known = wait.holder.ns if wait.holder else 0.0
        if row.culprit not in _NOBODY and row.ns * part > known:
            doing, cause = ("", cause) if cause else self._doing(row.culprit)
            spot = self._places.of(row.culprit, cause)
            wait.holder = Holder(row.culprit, cause, spot, doing, row.longest_ns, row.ns * part)

    def _busy_ns(self, row: Blame) -> int:
        """For how long the culprit ran meanwhile; a job that has a worker may be blocked as well."""
        if row.kind != "accept" or row.culprit not in self._routes:
            return row.ns
        return min(row.ns, sum(row.by_length_ns))

    def _one_thread(self, route: str) -> bool:
        split = self._routes.get(route)
        return split is not None and split.jobs[0].host == "gunicorn.sync"

    def _occupied(self, row: Blame, ns: float, blocked: dict[str, float], busy: float) -> None:
        """Waiting for a server whose workers are all taken."""
        doing, cause = self._doing(row.culprit)
        if busy >= 0.5:
            doing, cause = "computing", "computes"
        wait = self._wait(*self._workers(row, cause))
        self._add(wait, row, ns)
        blocked[row.culprit] = blocked.get(row.culprit, 0.0) + ns
        if wait.holder is None or blocked[row.culprit] >= wait.holder.ns:
            spot = self._places.of(row.culprit, cause)
            split = self._routes.get(row.culprit)
            held = round(split.levels["mean"].latency_ns - _mean_wait(split)) if split else row.longest_ns
            wait.holder = Holder(row.culprit, cause, spot, doing, held, blocked[row.culprit])

    def _workers(self, row: Blame, cause: str) -> tuple[str, str, int]:
        """Kind, name and number of what a job waited for that had arrived at its server."""
        if cause == "client":
            return "accept", "", 0
        # Its worker had taken it from the broker, and ran another task: a free worker can no longer take it.
        if (
            self._family == "celery"
            and row.victim != row.culprit
            and self._routes[row.victim].jobs[0].clock == "accept"
        ):
            return "prefetch", "", 0
        return "executor", *_workers(self._recording, self._family)

    def _doing(self, route: str) -> tuple[str, str]:
        """What jobs of a route do most of the time that they do not wait: in words, and the cause."""
        split = self._routes.get(route)
        if split is None:
            return "", ""
        io_ns = sum(split.io_ns.values())
        if split.cpu_ns >= io_ns:
            return ("computing", "computes") if split.cpu_ns else ("", "")
        by_upstream: dict[str, int] = {}
        for call in self._recording.calls:
            if call.route == route:
                by_upstream[call.upstream] = by_upstream.get(call.upstream, 0) + call.to_ns - call.from_ns
        most = max(by_upstream, key=lambda each: by_upstream[each], default="")
        if most and 2 * by_upstream[most] >= io_ns:
            return f"in calls of {most}", "waits"
        if not most and route.startswith(_WITH_BODY):
            return "reading what its client sends", "client"
        return {"sleep": "asleep"}.get(next(iter(split.io_ns)), "waiting outside"), "waits"

    def _native_threads(self) -> None:
        """A process shares the cores with its own native threads."""
        recording, machine = self._recording, self._waits.get(("machine", ""))
        who = native_computer(recording) if machine is not None else ""
        if machine is None or who not in self._routes:
            return
        blocked = self._waits.pop(("unknown", _BLOCKED), None)
        if blocked is not None:
            machine.counted |= blocked.counted
            for of, more in ((machine.victims, blocked.victims), (machine.whole, blocked.whole)):
                of.update({route: of.get(route, 0.0) + ns for route, ns in more.items()})
        machine.name = "native threads (BLAS, OpenMP)"
        split, spot = self._routes[who], self._places.computed(who)
        mean_ns = round(split.cpu_ns / len(split.jobs))
        machine.holder = Holder(who, "native_threads", spot, "computing in native threads", mean_ns, machine.ns)

    # --- running code

    def _for_code(self) -> None:
        rows = self._code
        if not rows:
            return
        held: dict[str, float] = {}
        longest: dict[str, int] = {}
        wait = ResourceWait("")
        for row in rows:
            self._add(wait, row, row.ns)
            held[row.culprit] = held.get(row.culprit, 0.0) + row.ns * self._steady.get((row.victim, row.kind), 1.0)
            longest[row.culprit] = max(longest.get(row.culprit, 0), row.longest_ns)
        long_ns = _long_ns(rows)
        many = sum(long_ns.values()) < _MANY_FRAC * sum(row.ns for row in rows)
        named = {who: ns for who, ns in held.items() if who not in _NOBODY}
        weighed = named if many else {who: ns for who, ns in long_ns.items() if who in named and ns} or named
        who = max(weighed, key=lambda each: weighed[each], default=max(held, key=lambda each: held[each]))
        collector_ns = held.get("gc", 0.0)
        collects = collector_ns > _COLLECTS * held[who] or who == "gc"
        if collects:
            # It runs in the thread that allocates: it is on the account of the route that computes most.
            who = max(self._routes, key=self._cpu_ns)
        wait.kind, cause = ("collector", "") if collects else self._kind_of(who, many)
        if wait.kind == "c_call" and collector_ns > _COLLECTED_FRAC * wait.ns and not self._calls(who):
            wait.kind, cause = "gil", "long"  # the collector runs between bytecodes and is not cut either
        doing = (
            "collecting"
            if collects
            else {"blocks": "blocked", "many": "in many short stretches"}.get(cause, "computing")
        )
        if not collects and collector_ns > 0.2 * wait.ns:
            doing += f", and the collector that its objects start ({share(collector_ns / wait.ns)} of it)"
        calls = [row.longest_call_ns for row in self._recording.stacks if row.culprit == who and row.calls]
        longest_ns = longest.get(who, 0)
        held_ns = max(calls, default=longest_ns) if wait.kind == "c_call" else longest_ns
        wait.holder = Holder(who, cause, self._places.of(who, cause), doing, held_ns, held.get(who, 0.0))
        self._waits[wait.kind, ""] = wait

    def _kind_of(self, who: str, many: bool) -> tuple[str, str]:
        spot = self._places.while_waited(who)
        if self._family == "gevent" or (self._family == "loop" and (spot is None or spot.coroutine)):
            if self._blocked_ns(who) > self._cpu_ns(who):
                return "loop", "blocks"
            return "loop", "serializes" if spot and spot.after_handler else "many" if many else "computes"
        if who == "native" or self._one_call(who):
            return "c_call", ""
        return "gil", "serializes" if spot and spot.after_handler else "many" if many else "long"

    def _one_call(self, who: str) -> bool:
        """Whether most of what others waited for it was one C call at a time, as its stacks or its slices say."""
        return self._calls(who) or self._uncut.get(who, 0.0) >= _UNCUT_FRAC

    def _calls(self, who: str) -> bool:
        # On a busy machine a thread that waits for a core seems to stand in a call now and then: each look counts.
        rows = [row for row in self._recording.stacks if row.culprit == who]
        return 2 * sum(row.ns * row.calls / row.looks for row in rows) > sum(row.ns for row in rows)

    def _blocked_ns(self, who: str) -> int:
        return sum(row.ns for row in self._recording.held if row.route == who)

    def _cpu_ns(self, who: str) -> int:
        return self._routes[who].cpu_ns if who in self._routes else 0


def _without(blame: Iterable[Blame], boot: Iterable[Job]) -> list[Blame]:
    """Without what these jobs waited, nearly all of it for their first instruction."""
    left_out: dict[tuple[str, str], int] = {}
    for job in boot:
        for culprit, ns in job.culprits:
            left_out[job.route, culprit] = left_out.get((job.route, culprit), 0) + ns
    found = []
    for row in blame:
        less = min(row.ns, left_out.get((row.victim, row.culprit), 0)) if row.kind == "accept" else 0
        if less:
            left_out[row.victim, row.culprit] -= less
        found.append(row._replace(ns=row.ns - less))
    return [row for row in found if row.ns]


def _steady(routes: Iterable[RouteSplit], boot: Iterable[Job]) -> dict[tuple[str, str], float]:
    """By route and kind of wait: the share that counts, of what jobs waited but those of the boot."""
    left_out = {(job.process, job.job) for job in boot}
    found: dict[tuple[str, str], float] = {}
    splits = list(routes)
    few = sum(len(split.jobs) for split in splits) < _FEW_JOBS
    for split in splits:
        jobs = [job for job in split.jobs if (job.process, job.job) not in left_out]
        for kind in {kind for job in jobs for kind in job.wait_ns}:
            waits = [job.wait_ns.get(kind, 0) for job in jobs]
            found[split.route, kind] = 1 if few else 1 - max(waits) / (sum(waits) or 1)
    return found


def _long_ns(rows: Sequence[Blame]) -> dict[str, float]:
    """By culprit: the waiting for slices that are long by themselves."""
    total: dict[tuple[str, str], int] = {}
    waits: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.victim, row.kind)
        total[key] = total.get(key, 0) + row.ns
        waits[key] = max(waits.get(key, 0), row.waits)
    found: dict[str, float] = {}
    for row in rows:
        usual_ns = total[row.victim, row.kind] / max(1, waits[row.victim, row.kind])
        for place, ns in enumerate(row.by_length_ns):
            # By the middle of the bin (its edges are powers of two): 16 to 33 ms counts as over 20 ms.
            length_ns = 1.5 * (1000 << place)
            if length_ns >= _LONG_NS or (length_ns >= _SHORTEST_NS and 2 * length_ns >= usual_ns):
                found[row.culprit] = found.get(row.culprit, 0.0) + ns
    return found


def _mean_wait(split: RouteSplit) -> float:
    return sum(wait_ns(job) for job in split.jobs) / len(split.jobs)


def _meanwhile(doing: Sequence[tuple[str, str, int]], holds: int) -> str:
    """What a holder did most, and for how long in the mean of its holds."""
    if not doing:
        return ""
    state, label, ns = doing[0]
    mean = f" for {duration(ns / max(1, holds))}"
    if state == "cpu" or label in _DOING:
        return ("computing" if state == "cpu" else _DOING[label]) + mean
    inside = "waiting for" if state == "wait" else "in" if label in _BARE else "in its call"
    return f"{inside} {label}{mean}" if label else ""


def _workers(recording: RecordedRows, family: str) -> tuple[str, int]:
    """Name and number of what a server runs requests in, as its command says."""
    serving = {job.process for job in recording.jobs}
    argv: list[str] = []
    for process in recording.processes:
        said = process.about.get("argv")
        if process.number in serving and isinstance(said, list):
            argv = [str(word) for word in said]
            break
    if family == "celery":
        return "the Celery worker", _option(argv, ("-c", "--concurrency"))
    host = next((job.host for job in recording.jobs), "")
    return host.replace(".", " "), _option(argv, ("--threads",)) or (1 if host == "gunicorn.sync" else 0)


def _option(argv: Sequence[str], names: Sequence[str]) -> int:
    for word, after in pairwise([*argv, ""]):
        name, _, value = word.partition("=")
        if name in names and (value or after).isdecimal():
            return int(value or after)
    return 0
