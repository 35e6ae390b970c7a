"""Ways to serve that are worth simulating: limits, processes, permits, lanes, placement, slots; the rest is ruled out.

What theory rules out is not simulated: more work than processes can do, a limit below what the load has in progress
(Little's law), a hard lane whose own processes, or the others, would be full. What remains is some dozens.

A lane is only suggested for routes of which enough requests were seen to say what they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from greenlane.settings import Settings
from greenlane_tools.plan import slots
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.options import Candidate
from greenlane_tools.plan.profile import LOOPS, Profile
from greenlane_tools.plan.route import NOBODY, Route, weighted
from greenlane_tools.plan.set_up import CONNECTIONS, SWITCH_MS, THREADS, SetUp, SetUpLane, costs_of

#: Of a process's CPU that a plan uses at most.
_BUSY: Final = 0.97
#: Requests of a route from which on it may be named.
_SEEN: Final = 20
#: Fewer processes than needed are not considered; up to this many more are.
_MORE: Final = 4
#: Time after which a call of a hanging upstream gives up where nobody says it.
HANG_MS: Final = 30_000.0
_HANG_TIMES: Final = 5.0


@dataclass(frozen=True, slots=True)
class Room:
    """What may be used: cores of one machine, and at most how many processes."""

    cores: int
    processes: int


def candidates(profile: Profile, goals: Sequence[Goal], base: SetUp, room: Room) -> tuple[Candidate, ...]:
    """All of them, the present one first; names are unique."""
    found = [Candidate("present", base, "what it has", 0, base.host != "permits")]
    search = _Search(profile, goals, base, room)
    by_host: dict[str, Callable[[], Iterator[Candidate]]] = {"asyncio": search.asyncio, "celery": search.celery}
    for each in by_host.get(base.host, search.wsgi)():
        if all(each.set_up != one.set_up for one in found) and all(each.name != one.name for one in found):
            found.append(each)
    return tuple(found)


def needed_processes(profile: Profile) -> int:
    """The least number of processes that can do the work."""
    return max(1, math.ceil(_cpu_per_s(profile, profile.routes) / _BUSY - 1e-9))


def heavy_routes(profile: Profile) -> tuple[Route, ...]:
    """Routes whose requests hold the GIL, or the loop, for long, as the production's permits would say."""
    heavy_ms = Settings().heavy_ms
    return tuple(route for route in profile.routes if weighted(route, lambda each: each.longest_ms()) > heavy_ms)


def lane_routes(profile: Profile, goals: Sequence[Goal]) -> tuple[str, ...]:
    """Routes that a lane would keep from waiting: those with a goal, of light ones where heavy ones have goals too."""
    heavy = {route.route for route in heavy_routes(profile)}
    wanted = {goal.route for goal in goals}
    chosen = wanted if len(wanted) < len(profile.routes) else wanted - heavy
    if len(chosen) == len(profile.routes):
        return ()
    known = {route.route for route in profile.routes if profile.source == "model" or route.requests >= _SEEN}
    return tuple(route.route for route in profile.routes if route.route in chosen & known)


def upstream_rates(profile: Profile) -> dict[str, float]:
    """Requests a second that call it, by upstream."""
    found = dict.fromkeys(sorted({name for route in profile.routes for name in route.upstreams}), 0.0)
    for route in profile.routes:
        whole = math.fsum(each.weight for each in route.sequences)
        for each in route.sequences:
            for index in {step.upstream for step in each.steps if step.upstream != NOBODY}:
                found[route.upstreams[index]] += route.rate_per_s * each.weight / whole
    return {name: rate for name, rate in found.items() if rate}


def hang_ms(profile: Profile) -> float:
    """How long a call of a hanging upstream takes: a time-out, and much longer than what requests take anyway."""
    usual = max(sum(_parts(route)) for route in profile.routes)
    return max(HANG_MS, _HANG_TIMES * usual)


def hanging(profile: Profile) -> tuple[Profile, tuple[str, ...]] | None:
    """The profile with its busiest upstream hanging until calls give up, and the routes that do not call it; None =
    there is nobody to spare."""
    rates = upstream_rates(profile)
    if len(rates) < 2:
        return None
    name = max(rates, key=lambda each: (rates[each], each))

    spared = tuple(route.route for route in profile.routes if not _calls(route, name))
    routes = tuple(_hung(route, name, hang_ms(profile)) for route in profile.routes)
    return (replace(profile, routes=routes), spared) if spared else None


def _calls(route: Route, name: str) -> bool:
    """Whether any of its requests does; of a task that was told apart by upstreams only some kinds do."""
    steps = (step for each in route.sequences for step in each.steps)
    return any(step.upstream != NOBODY and route.upstreams[step.upstream] == name for step in steps)


def _hung(route: Route, name: str, ms: float) -> Route:
    if name not in route.upstreams:
        return route
    index = route.upstreams.index(name)
    sequences = tuple(
        replace(each, steps=tuple(replace(step, ms=ms) if step.upstream == index else step for step in each.steps))
        for each in route.sequences
    )
    return replace(route, mean=None, sequences=sequences)


class _Search:
    def __init__(self, profile: Profile, goals: Sequence[Goal], base: SetUp, room: Room) -> None:
        self._profile, self._base, self._room = profile, base, room
        self._lane = lane_routes(profile, goals)
        least = needed_processes(profile)
        most = min(room.processes, max(least, base.processes) + _MORE)
        self._processes = range(least, max(least, most) + 1) if least <= room.processes else range(0)
        self._share = _share(profile, self._lane)

    def wsgi(self) -> Iterator[Candidate]:
        """gevent and threads, stock and with permits."""
        for processes in self._processes:
            yield from self._stock("gevent", processes, CONNECTIONS)
            yield from self._stock("threads", processes, THREADS)
            yield from self._permits(processes)

    def asyncio(self) -> Iterator[Candidate]:
        """One loop a process, work that computes for long beside it."""
        heavy = tuple(route.route for route in heavy_routes(self._profile) if self._known(route))
        for processes in self._processes:
            plain = self._served("asyncio", processes, 0)
            yield self._made(f"asyncio x{processes}", plain, f"{_processes(processes)} of asyncio", stock=True)
            if not heavy:
                continue
            names = ", ".join(heavy)
            thread = replace(plain, placement=dict.fromkeys(heavy, "thread"))
            said = f"{_processes(processes)} of asyncio, all CPU of {names} on Greenlane's native thread"
            yield self._made(f"placed-thread x{processes}", thread, said, effort=3)
            for pool in self._pools(heavy, processes):
                process = replace(plain, placement=dict.fromkeys(heavy, "process"), pool=pool)
                said = f"{_processes(processes)} of asyncio, all CPU of {names} in {_processes(pool)} beside"
                yield self._made(f"placed-process{pool} x{processes}", process, said, effort=3)

    def celery(self) -> Iterator[Candidate]:
        """Slots by Little's law, with bulkheads and without."""
        profile = self._profile
        rate_per_s = profile.arrivals.rate_per_s
        stay_ms = _mean(profile, lambda route: sum(_parts(route)))
        cpu_ms = _mean(profile, lambda route: _parts(route)[0])
        wanted = slots.slots(rate_per_s, stay_ms, cpu_ms)
        most = min(self._room.processes, max(wanted.processes, self._base.processes) + _MORE)
        for processes in range(wanted.processes, max(wanted.processes, most) + 1):
            number = max(1, math.ceil(wanted.needed / processes))
            plain = replace(self._base, processes=processes, limit=number, upstream_limits={})
            law = f"Little's law: {wanted.busy:.3g} busy on average"
            said = f"{_processes(processes)} with {number} slots{_each(processes)} ({law})"
            yield self._made(f"slots {processes}x{number}", plain, said, stock=True)
            yield from self._held(plain, said, stay_ms)

    def _pools(self, heavy: Sequence[str], processes: int) -> range:
        """Sizes of a pool that can do the work of these routes, on the cores that the loops leave; one at least."""
        away = [route for route in self._profile.routes if route.route in heavy]
        least = max(1, math.ceil(_cpu_per_s(self._profile, away) / _BUSY - 1e-9))
        most = min(self._room.cores - processes, least + _MORE)
        return range(least, max(least, most) + 1)

    def _held(self, plain: SetUp, said: str, stay_ms: float) -> Iterator[Candidate]:
        """The same with a bulkhead for each upstream: out of the slots that there are, and with so many that the
        busiest upstream can hang and the others still have theirs."""
        rates = upstream_rates(self._profile)
        if len(rates) < 2:
            return
        processes, number = plain.processes, plain.limit
        most = max(rates, key=lambda name: (rates[name], name))
        own = slots.slots(rates[most], stay_ms).needed
        others = slots.slots(math.fsum(rates.values()) - rates[most], stay_ms).needed
        tight = slots.bulkhead(processes * number, rates, stay_ms, most)
        # Each process has its own limit: what is simulated is what can be shared out among them.
        limit = _shared_out(math.ceil(own), processes, math.ceil)
        tight = _shared_out(tight, processes, math.floor)
        wide = max(number, math.ceil((max(own, limit) + others) / processes))
        # Production shares slots out fairly: with k upstreams that all want more each has 1/(k + 1) of them.
        fair = max(wide, math.ceil(limit * (len(rates) + 1) / processes))
        for each, most_of_one in dict.fromkeys(((number, tight), (wide, limit), (fair, limit))):
            held = replace(plain, limit=each, upstream_limits=dict.fromkeys(rates, most_of_one))
            spare = f" and {each - number} more{_each(processes)}, so that the others keep theirs when one hangs"
            more = "" if each == number else spare
            words = f"{said}{more}, at most {most_of_one} for one upstream"
            yield self._made(f"bulkhead{most_of_one} {processes}x{each}", held, words, effort=2)

    def _stock(self, host: str, processes: int, places: int) -> Iterator[Candidate]:
        same = host == self._base.host
        limit = max(self._base.limit, places) if same else places
        plain = self._served(host, processes, limit)
        if self._holds(plain):
            name, word = ("gevent", "gevent") if host == "gevent" else (f"threads-{limit}", _threads(limit, processes))
            said = f"{_processes(processes)} of stock {word}"
            yield self._made(f"{name} x{processes}", plain, said, stock=True, effort=1 if same else 2)

    def _permits(self, processes: int) -> Iterator[Candidate]:
        plain = self._served("permits", processes, THREADS)
        due = any(route.deadline_ms for route in self._profile.routes)
        plain = replace(plain, shed=due)
        said = f"{_processes(processes)} of Greenlane's worker: threads with CPU permits"
        yield self._made(f"permits x{processes}", plain, said, effort=2)
        if processes == 1:
            return
        front = costs_of(self._profile, "permits", front=True)
        serve = replace(plain, queue="central", costs=front)
        said = f"`greenlane serve` with {processes} workers: one queue, permits in each"
        yield self._made(f"serve x{processes}", serve, said, effort=2)
        if self._lane:
            lane = SetUpLane("kept", self._lane, "soft", processes=1, priority=10)
            soft = replace(serve, lanes=(lane,))
            words = (
                f"{said}; a soft lane for {_listed(self._lane)}: it goes first, and one worker's places are kept for it"
            )
            yield self._made(f"serve-soft x{processes}", soft, words, effort=2)
            for own in self._own(processes):
                hard = replace(serve, lanes=(replace(lane, kind="hard", processes=own),))
                words = f"{said}; {_of_them(own)} as a hard lane for {_listed(self._lane)} alone"
                yield self._made(f"serve-hard{own} x{processes}", hard, words, effort=2)

    def _own(self, processes: int) -> Iterator[int]:
        """Sizes of a hard lane that are stable: by theory, not by trial."""
        load = _cpu_per_s(self._profile, self._profile.routes) / processes
        if not 0 < self._share < 1:
            return
        stable = [own for own in range(1, processes) if load < _BUSY * _hard_lane(processes, own, self._share)]
        yield from stable[:2]

    def _served(self, host: str, processes: int, limit: int) -> SetUp:
        return replace(
            self._base, host=host, processes=processes, cores=self._room.cores, queue="accept", limit=limit,
            shed=False, lanes=(), placement={}, switch_interval_ms=self._switch_ms(host),
            costs=costs_of(self._profile, host, front=False),
        )  # fmt: skip

    def _switch_ms(self, host: str) -> float:
        """The present one where the host stays; a what-if may have changed it."""
        return self._base.switch_interval_ms if host == self._base.host else SWITCH_MS

    def _holds(self, set_up: SetUp) -> bool:
        """Whether the places of its processes are enough for what is in progress without any waiting."""
        stay_ms = _mean(self._profile, lambda route: sum(_parts(route)))
        there = _in_progress(self._profile.arrivals.rate_per_s / set_up.processes, stay_ms)
        return not set_up.limit or set_up.limit > there

    def _known(self, route: Route) -> bool:
        return self._profile.source == "model" or route.requests >= _SEEN

    def _made(self, name: str, set_up: SetUp, said: str, *, stock: bool = False, effort: int = 1) -> Candidate:
        return Candidate(name, set_up, said, effort, stock)


def _shared_out(limit: int, processes: int, rounded: Callable[[float], int]) -> int:
    """A limit of which each process has as much, one at least."""
    return processes * max(1, rounded(limit / processes))


def _share(profile: Profile, routes: Sequence[str]) -> float:
    """Of all CPU, that of these routes."""
    whole = _cpu_per_s(profile, profile.routes)
    return _cpu_per_s(profile, [route for route in profile.routes if route.route in routes]) / whole if whole else 0.0


def _hard_lane(processes: int, own: int, share: float) -> float:
    """The utilisation of all processes up to which a hard lane is stable: `own` of them, `share` of the CPU work."""
    return min((processes - own) / (processes * (1 - share)), own / (processes * share), 1.0)


def _in_progress(rate_per_s: float, stay_ms: float) -> float:
    """Mean number that are there: Little's law."""
    return rate_per_s * stay_ms / 1000


def _cpu_per_s(profile: Profile, routes: Sequence[Route]) -> float:
    """CPU that needs the GIL, or the loop, in one second, s."""
    held = profile.host in LOOPS
    return math.fsum(
        route.rate_per_s * (route.demand.cpu_ms + profile.overhead_ms + (route.demand.held_ms if held else 0.0)) / 1000
        for route in routes
    )


def _parts(route: Route) -> tuple[float, float]:
    """C and S, ms."""
    mean = route.demand
    return mean.cpu_ms, mean.io_ms + mean.free_ms + mean.held_ms


def _mean(profile: Profile, of: Callable[[Route], float]) -> float:
    """Over all requests."""
    rate = math.fsum(route.rate_per_s for route in profile.routes)
    return math.fsum(route.rate_per_s * of(route) for route in profile.routes) / rate if rate else 0.0


def _processes(number: int) -> str:
    return "one process" if number == 1 else f"{number} processes"


def _of_them(number: int) -> str:
    return "one of them" if number == 1 else f"{number} of them"


def _each(processes: int) -> str:
    return "" if processes == 1 else " each"


def _threads(number: int, processes: int) -> str:
    return f"threads ({number}{_each(processes)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
