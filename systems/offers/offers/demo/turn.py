"""One contender's turn in one region: it starts, is warmed, serves riders and callers, and is looked at meanwhile."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.load.generate import Generated, generate
from greenlane_tools.lab.processes import core_wait_ns, cpu_ns, machine_busy_ns, pss_mb
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.samples import Samples
from offers.demo.riders import Poll, Riders
from offers.demo.warm import FROM_S, asked_before, offer_cpu_ms
from offers.load import OFFERS, Load, direct
from offers.site import Offerservice, Pricing, Site
from offers.table import Table

# --- What offerservice has counted, between two instants: its counters are cumulative, the reader cuts them.


_NAMES = ("asked", "made", "late", "refused", "failed", "wasted")


@dataclass(frozen=True)
class Counts:
    """Offers of some modes, and how long pricingservice took for them.

    Args:
        asked, made, late, refused, failed: offers.
        wasted: replies of pricingservice that came after the cap.
        buckets: upper edge in ms -> calls of pricingservice, from the sending of the request to the end of the reply.
    """

    asked: int
    made: int
    late: int
    refused: int
    failed: int
    wasted: int
    buckets: Mapping[float, int]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Self:
        """The sum of some rows of GET /counts."""
        sums, buckets = dict.fromkeys(_NAMES, 0), dict[float, int]()
        for row in rows:
            for name in _NAMES:
                sums[name] += row[name]
            for upper_ms, count in row["buckets_ms"]:
                buckets[float(upper_ms)] = buckets.get(float(upper_ms), 0) + count
        return cls(**sums, buckets=buckets)

    def since(self, before: Counts) -> Counts:
        """What has been added."""
        sums = {name: getattr(self, name) - getattr(before, name) for name in _NAMES}
        added = {upper_ms: count - before.buckets.get(upper_ms, 0) for upper_ms, count in self.buckets.items()}
        return Counts(**sums, buckets={upper_ms: count for upper_ms, count in added.items() if count})

    def __add__(self, other: Counts) -> Counts:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _NAMES}
        edges = sorted({*self.buckets, *other.buckets})
        return Counts(**sums, buckets={ms: self.buckets.get(ms, 0) + other.buckets.get(ms, 0) for ms in edges})

    @property
    def samples(self) -> int:
        """Calls of pricingservice that were answered."""
        return sum(self.buckets.values())

    @property
    def ended(self) -> int:
        """Offers that were made, or not."""
        return self.made + self.late + self.refused + self.failed

    def quantile_ms(self, share: float) -> float:
        """What at least `share` of the calls do not exceed, as exact as the buckets; NaN of none."""
        left = max(1, math.ceil(share * self.samples))
        for upper_ms, count in sorted(self.buckets.items()):
            left -= count
            if left <= 0:
                return upper_ms
        return math.nan


def priced(document: Mapping[str, Any]) -> Counts:
    """Of GET /counts: the modes whose price pricingservice makes."""
    return Counts.of(row for row in document["modes"] if row["priced"])


#: Bursts are learned, connections opened, caches filled: not counted.
WARM_S: Final = 3.0
#: Offers by themselves.
_ALONE_S: Final = 2.0
_DRAIN_S: Final = 30.0
_LOOK_S: Final = 0.1


@dataclass(frozen=True)
class Used:
    """What pricingservice with all its processes used between two instants.

    Args:
        cpu_ns: CPU time.
        wall_ns: between the instants.
        core_wait_ns: how long its threads could have run and others had the cores.
        machine_ns: CPU time of the whole machine.
        pss_mb: memory at the end, shared pages divided.
        processes: how many.
    """

    cpu_ns: int
    wall_ns: int
    core_wait_ns: int
    machine_ns: int
    pss_mb: float
    processes: int


@dataclass(frozen=True)
class Turn:
    """The result, between the warm-up and the end.

    Args:
        contender, region: whose and where.
        seconds: how long.
        counts: offerservice's, of the modes that are priced; a poll without an answer is two that failed.
        polls: of riders.
        others: kind -> (status, latency in ms) of each request of the direct callers.
        used: by pricingservice.
        offer_cpu_ms: what one offer costs pricingservice when it has nothing else.
        offers_worked: how many offers' worth of upstream calls pricingservice has made.
        offers_direct: of them, for direct callers.
        warning: of the generator and the riders.
    """

    contender: str
    region: str
    seconds: float
    counts: Counts
    polls: list[Poll]
    others: dict[str, list[tuple[int, float]]]
    used: Used
    offer_cpu_ms: float
    offers_worked: float
    offers_direct: int
    warning: str


@dataclass(frozen=True)
class _Look:
    """Everything cumulative at one instant."""

    at_ns: int
    counts: Counts
    cpu_ns: int
    core_wait_ns: int
    machine_ns: int
    calls: dict[str, int]


def turn(
    site: Site, contender: str, region: str, seconds: float, seed: str, talk: Talk, *,
    cancel: bool = False, propagate_deadline: bool = False,
) -> Turn:  # fmt: skip
    """One run: blocks for start, warm-up, its seconds and the drain. A short run is warmed for as long as it takes.

    Raises:
        StartFailed: a part did not come up, or did not stay.
        HostError: the load could not be sent.
    """
    talk.progress(f"{contender} in {region}: starting")
    pricing = site.pricing(contender)
    parts: list[Pricing | Offerservice] = [pricing]
    try:
        offers = site.offerservice(pricing, cancel=cancel, propagate_deadline=propagate_deadline)
        parts.insert(0, offers)
        alone_ms = offer_cpu_ms(site.table, pricing, min(_ALONE_S, seconds))
        if seconds >= FROM_S:
            asked_before(site.table, site.table.regions[region], pricing)
        return _under_load(site, pricing, offers, region, seconds, seed, talk, alone_ms)
    finally:
        site.stop(*parts)


def _under_load(
    site: Site, pricing: Pricing, offers: Offerservice, region: str, seconds: float, seed: str, talk: Talk,
    alone_ms: float,
) -> Turn:  # fmt: skip
    place, warm_s = site.table.regions[region], min(WARM_S, seconds)
    callers = Callers(direct(site.table, place, pricing.address, warm_s + seconds, seed))
    riders = Riders(offers.url, region, seed, place.riders_per_s, warm_s + seconds)
    callers.start()
    riders.start()
    try:
        _wait(riders.began_s + warm_s, pricing, callers)
        before = _look(site, pricing, offers)
        talk.progress(f"{pricing.contender.name} in {region}: {seconds:g} s")
        _wait(riders.began_s + warm_s + seconds, pricing, callers)
        after, pids = _look(site, pricing, offers), pricing.pids()
        used = Used(
            after.cpu_ns - before.cpu_ns, after.at_ns - before.at_ns, max(0, after.core_wait_ns - before.core_wait_ns),
            after.machine_ns - before.machine_ns, pss_mb(pids), len(pids),
        )  # fmt: skip
        _drained(pricing, callers, riders)
        left = riders.left
    finally:
        riders.stop()
    found, polls = callers.found, [poll for poll in riders.polls if poll.due_s >= warm_s]
    samples = found.samples.chosen(found.samples.scheduled_ns >= warm_s * 1e9)
    worked = {name: after.calls.get(name, 0) - before.calls.get(name, 0) for name in OFFERS}
    return Turn(
        pricing.contender.name, region, seconds, with_unanswered(after.counts.since(before.counts), polls), polls,
        _by_kind(site.table, samples), used, alone_ms,
        sum(calls / len(site.table.endpoints[name].calls) for name, calls in worked.items()),
        sum(samples.streams[number] in OFFERS for number in samples.stream), _warning(found, left),
    )  # fmt: skip


def _warning(found: Generated, left: int) -> str:
    polls = f"{left} polls were not over {_DRAIN_S:g} s after the last: they are not counted" if left else ""
    return "; ".join(part for part in (found.warning(), polls) if part)


def with_unanswered(counts: Counts, polls: Sequence[Poll]) -> Counts:
    """A poll that offerservice did not answer has shown its rider no offer, whatever was counted."""
    offers = len(OFFERS) * sum(not poll.is_answered for poll in polls)
    return replace(counts, asked=counts.asked + offers, failed=counts.failed + offers)


def _by_kind(table: Table, samples: Samples) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for number, status, latency_ms in zip(samples.stream, samples.status, samples.latency_ms(), strict=True):
        kind = table.endpoints[samples.streams[number]].kind
        found.setdefault(kind, []).append((int(status), float(latency_ms)))
    return found


def _look(site: Site, pricing: Pricing, offers: Offerservice) -> _Look:
    counts, pids = priced(offers.counts()), pricing.pids()
    return _Look(
        time.monotonic_ns(), counts, cpu_ns(pids), core_wait_ns(pids), machine_busy_ns(), site.upstream_calls()
    )


def _wait(until_s: float, pricing: Pricing, callers: Callers) -> None:
    while (left_s := until_s - time.monotonic()) > 0:
        checkpoint()
        pricing.check()
        callers.join(0)
        time.sleep(min(left_s, _LOOK_S))


def _drained(pricing: Pricing, callers: Callers, riders: Riders) -> None:
    until_s = time.monotonic() + _DRAIN_S
    while not (riders.join(_LOOK_S) and callers.join(_LOOK_S)) and time.monotonic() < until_s:
        checkpoint()
        pricing.check()


def summary(found: Turn) -> dict[str, Any]:
    """Of one run, for the file of raw results."""
    made = [[poll.rider, round(poll.due_s, 3), round(poll.took_ms, 2), list(poll.made), dict(poll.missing)]
            for poll in found.polls]  # fmt: skip
    return {
        "contender": found.contender, "region": found.region, "seconds": found.seconds,
        "counts": {**vars(found.counts), "buckets": sorted(found.counts.buckets.items())},
        "polls": made, "others": found.others, "used": vars(found.used), "offer_cpu_ms": found.offer_cpu_ms,
        "offers_worked": found.offers_worked, "offers_direct": found.offers_direct, "warning": found.warning,
    }  # fmt: skip


# --- The direct callers of pricingservice beside offerservice: an open loop by the lab's generator, on a thread.


class Callers:
    """Sends a plan while its starter does something else.

    Args:
        load: what is sent, and when.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._found: Generated | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        """Begin; does not wait."""
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Blocks until all is answered or given up, at most so long; whether it is.

        Raises:
            HostError: the load could not be sent.
        """
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    @property
    def found(self) -> Generated:
        """The result, once `join` has said True."""
        assert self._found is not None, "joined"
        return self._found

    def _send(self) -> None:
        try:
            self._found = generate(self._load.plan, arrivals=self._load.schedule)
        except BaseException as error:
            self._error = error
