"""What is set live, by what the workers measured: requests at once per worker, and routes of lane `apart`.

The rules are greenlane-policy's `worker_concurrency` and `heavy_route_lane`. They get their measurements here;
the front gets the decisions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from greenlane._native import HeavyRouteLane, WorkerConcurrency
from greenlane.settings import APART
from greenlane_serve.group import Group, State
from greenlane_serve.haproxy.routing import FILE, assigned, change
from greenlane_serve.lanes import SHARED
from greenlane_serve.measured import Cores, GroupWork, Times, times_of
from greenlane_serve.rounds import Service
from greenlane_serve.settings import ApartRule, AtOnceRule

_NS_PER_MS: Final = 1_000_000
_UNKNOWN: Final = "unknown"


class Limits:
    """The numbers of all groups.

    Args:
        threads: whether a worker has no more places than threads (WSGI).
    """

    def __init__(self, *, threads: bool) -> None:
        self._threads = threads
        #: A worker that has not turned for so long is busy, whatever its CPU does: its loop or its GIL is held. Twice
        #: the pause between two signs of life.
        self.silent_s = 1.0 if threads else 0.2
        self._known: dict[str, tuple[AtOnceRule, WorkerConcurrency]] = {}

    def look(self, service: Service, worked: Mapping[str, GroupWork]) -> None:
        """Set what should be, by what each group did since the last call; one of which nothing is known is left out."""
        if not service.places.live:
            self._known.clear()
            return
        for name, group in service.groups.items():
            if name in worked:
                self._look(service, group, worked[name])

    def _look(self, service: Service, group: Group, worked: GroupWork) -> None:
        rule, known = self._of(service, group)
        closed = known.look(
            worked.times, jobs=worked.jobs, blocked_ns=worked.blocked_ns, wakes=worked.wakes, late_ns=worked.late_ns
        )
        if not self._set(service, group) and closed:
            service.places.explain(group.name, reason(known, rule))

    def may_rise(self, service: Service, group: Group) -> bool:
        """Whether the settings allow a group more than it has."""
        rule, known = self._of(service, group)
        return known.number() < rule.most

    def make_room(self, service: Service, group: Group, times: Times, workers: int, in_progress: int) -> None:
        """Raise a group's number if its CPU has had time to spare."""
        self._of(service, group)[1].make_room(times, workers, in_progress)
        self._set(service, group)

    def _of(self, service: Service, group: Group) -> tuple[AtOnceRule, WorkerConcurrency]:
        rule = AtOnceRule.of(service.settings, threads=self._threads)
        if group.name not in self._known or self._known[group.name][0] != rule:
            first = service.places.at_once(group.name)
            self._known[group.name] = rule, WorkerConcurrency(**dataclasses.asdict(rule), first=first)
        return self._known[group.name]

    def _set(self, service: Service, group: Group) -> bool:
        rule, known = self._known[group.name]
        changed = known.number() != service.places.at_once(group.name)
        if changed:
            service.set_at_once(group, known.number(), reason(known, rule))
        return changed


class Room:
    """A round of the tree: makes room at workers whose places are half taken, while their CPU has time to spare.

    Requests that only wait would keep others out until the numbers are set again.
    """

    #: Pause between two looks, in s.
    every_s = 0.1

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._cores = Cores()
        # Workers whose CPU was read at the last look.
        self._read: set[int] = set()

    def look(self, service: Service, now_s: float) -> None:
        """Look at the front, then at the CPU of those that have little room left."""
        loads = service.front.runtime.loads() if service.places.live else {}
        read: set[int] = set()
        for name, group in service.groups.items():
            slots = [slot for slot in group.of(State.SERVING) if slot.open]
            in_progress = loads.get(name, 0)
            half_free = 2 * in_progress <= service.places.at_once(name) * len(slots)
            if half_free or not slots or not self._limits.may_rise(service, group):
                continue
            pids = {slot.pid for slot in slots}
            shares = self._cores.take(pids)
            read |= pids
            turns = all(now_s - service.last_turn_s(slot) < self._limits.silent_s for slot in slots)
            if turns and pids <= self._read and pids <= shares.keys():
                times = times_of(dict.fromkeys(pids, _NS_PER_MS), shares)
                self._limits.make_room(service, group, times, len(slots), in_progress)
        self._read = read


def reason(known: WorkerConcurrency, rule: AtOnceRule) -> str:
    """Why the number is what it is: the rule's word, a colon, the same in words."""
    why, cpu_ns, io_ns = known.why()
    if why == _UNKNOWN:
        return f"{why}: too few requests yet"
    meant = {
        "model": "this many keep a worker busy",
        "room": "more than keep a worker busy, while its CPU has time to spare",
        "least": f"fewer would do; {rule.least} is the least",
        "most": f"more would be of use; the least of threads, limit and 1000 is {rule.most}",
    }[why]
    return f"{why}: {cpu_ns / _NS_PER_MS:.3g} ms CPU and {io_ns / _NS_PER_MS:.3g} ms I/O a request; {meant}"


def word_of(why: str) -> str:
    """The word before the colon; `setting` or `unknown` for reasons that are not of here."""
    word, colon, _ = why.partition(":")
    return word if colon else "setting" if word.startswith("setting") else _UNKNOWN


# Routes that are kept from going with others; the rule knows as many. Arbitrary.
_MOST_ROUTES: Final = 1024


class Assignment:
    """The routes of lane `apart`."""

    def __init__(self) -> None:
        self._known: tuple[ApartRule, HeavyRouteLane] | None = None
        self._routes: set[str] = set()
        self._there: list[tuple[str, str]] | None = []
        self._said: set[str] = set()

    @property
    def apart(self) -> list[tuple[str, int]]:
        """(route, mean CPU of a request in ns)."""
        return [] if self._known is None else self._known[1].routes()

    def look(self, service: Service, worked: Mapping[str, GroupWork]) -> None:
        """Assign what should be, by what the shared workers, and those of lane `apart`, did since the last call.

        Raises:
            ServeError: the front does not answer. The next call tries again.
        """
        if not any(lane.auto for lane in service.layout.lanes):
            self._known = None
            return
        rule = ApartRule.of(service.settings)
        if self._known is None or self._known[0] != rule:
            self._known = rule, HeavyRouteLane(**dataclasses.asdict(rule))
        groups = {SHARED, *(service.layout.group_of(lane) for lane in service.layout.lanes if lane.auto)}
        rows = [row for name in sorted(groups & worked.keys()) for row in worked[name].ended]
        self._known[1].look(rows)
        if len(self._routes) < _MOST_ROUTES:
            self._routes.update(row[0] for row in rows)
        apart = {route for route, _ in self.apart}
        wanted = assigned(APART, sorted(apart), sorted(self._routes - apart))
        if wanted != self._there:
            self._there = None
            change(service.folder / FILE, wanted, service.front.runtime)
            self._there = wanted
        if apart != self._said:
            self._said = apart
            named = ", ".join(f"{route} ({cpu_ns / 1e6:.3g} ms CPU)" for route, cpu_ns in self.apart)
            service.say(f"lane {APART}: {named or 'no route'}")
