"""Everything that runs behind the page: services of both sides, their traffic, who looks at them each second."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import aiohttp

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.processes import StartFailed, cpu_ns
from greenlane_tools.lab.run.talk import Talk
from offers.contenders import FIXES, Fix
from offers.demo.live.service import Service
from offers.demo.live.traffic import Drawn, Traffic, rush
from offers.demo.results import nines
from offers.demo.turn import Counts, priced
from offers.site import CAP_MS, Site

# --- What is seen of each service, second by second: offerservice's counters, cut.


#: So long is kept, and shown.
KEPT_S: Final = 240
#: Success and percentiles are of this many last seconds; nines since the service began, or was switched.
WINDOW_S: Final = 20
_SHARES: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}


@dataclass(frozen=True)
class Mark:
    """The fix of a service was switched."""

    at_s: float
    region: str
    fix: str


@dataclass(frozen=True)
class Seen:
    """One second of one service, as the page has it: None = nothing was asked."""

    number: int
    at_s: float
    success_frac: float | None
    timeouts_per_s: float
    nines: float | None
    nines_is_bound: bool
    percentiles_ms: dict[str, float | None]
    cpu_frac: float

    def row(self) -> dict[str, Any]:
        """For the page."""
        return {
            "t": round(self.at_s, 2), "success_frac": self.success_frac, "timeouts_per_s": self.timeouts_per_s,
            "nines": self.nines, "nines_is_bound": self.nines_is_bound, "cpu_frac": round(self.cpu_frac, 3),
            **self.percentiles_ms,
        }  # fmt: skip


@dataclass
class Series:
    """Of one service."""

    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT_S))
    _looks: deque[tuple[float, Counts]] = field(default_factory=lambda: deque(maxlen=WINDOW_S + 1))
    _from: Counts | None = None
    #: When nines start over; None = they have.
    _anew_s: float | None = None

    def switched(self, at_s: float) -> None:
        """Its nines are counted again from the first look on by which all that was asked before is made or late."""
        self._anew_s = at_s + CAP_MS / 1e3

    def look(self, number: int, at_s: float, counts: Counts, cpu_frac: float) -> None:
        """Once a second.

        Args:
            number: of the look, the same for all services.
            at_s: when.
            counts: cumulative.
            cpu_frac: of one core, since the last look.
        """
        if self._anew_s is not None and at_s >= self._anew_s:
            self._from, self._anew_s = counts, None
        elif self._from is None:
            self._from = counts
        before_s, before = self._looks[-1] if self._looks else (at_s, counts)
        self._looks.append((at_s, counts))
        recent, whole, last = counts.since(self._looks[0][1]), counts.since(self._from), counts.since(before)
        its_nines, is_bound = nines(whole.made, whole.ended)
        self.seen.append(Seen(
            number, at_s, recent.made / recent.ended if recent.ended else None,
            last.late / (at_s - before_s) if at_s > before_s else 0.0, its_nines, is_bound,
            {name: _known(recent.quantile_ms(share)) for name, share in _SHARES.items()}, cpu_frac,
        ))  # fmt: skip

    def since(self, number: int) -> list[dict[str, Any]]:
        """Rows of later looks."""
        return [one.row() for one in self.seen if one.number > number]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)


#: The two sides: the one whose fix is switched, and the one that has it from the beginning.
CHANGING: Final = "changing"
FIXED: Final = "fixed"
_LOOK_S: Final = 1.0
_SETTLED_S: Final = 4.0
_TIMEOUT_S: Final = 15.0
#: Service and its ports -> when it was looked at, and the CPU that it had used by then, ns.
Used = dict[tuple[str, tuple[int, ...]], tuple[int, int]]


class Show:
    """Both sides.

    Args:
        site: with its upstreams.
        regions: which are shown.
        first: the one that is shown first, and switched first.
        fix: of the fixed side.
        talk: hears what is being done, and why a fix did not start.
        cancel, propagate_deadline: of offerservice.
    """

    def __init__(
        self, site: Site, regions: Sequence[str], first: str, fix: Fix, talk: Talk, *,
        cancel: bool = False, propagate_deadline: bool = False,
    ) -> None:  # fmt: skip
        self.regions, self.first, self.state = tuple(regions), first, ""
        self.session: aiohttp.ClientSession
        self._site, self._talk = site, talk
        # One thread for the processes' whole life: they end with the thread that started them.
        self._starter = ThreadPoolExecutor(1, "starter")
        fixes: Mapping[str, Fix] = {CHANGING: "none", FIXED: fix}
        options = {"cancel": cancel, "propagate_deadline": propagate_deadline}
        all_services = [
            Service(site, self._starter, side, region, its, **options)
            for region in self._in_order() for side, its in fixes.items()
        ]  # fmt: skip
        self.services = {one.name: one for one in all_services}
        self._series = {name: Series() for name in self.services}
        self._marks: list[Mark] = []
        self._number = 0
        self._began_s = time.monotonic()
        self._switching: asyncio.Task[None] | None = None

    def bursty(self) -> list[str]:
        """Regions whose callers come in bursts: the bad ones."""
        return [name for name in self.regions if self._site.table.regions[name].bursts]

    def _in_order(self) -> list[str]:
        return sorted(self.regions, key=lambda region: region != self.first)

    def start(self) -> None:
        """Starts all services; blocks.

        Raises:
            StartFailed: one did not come up.
        """
        for service in self.services.values():
            checkpoint()
            self._talk.progress(f"starting {service.name} ({FIXES[service.fix]}) …")
            self._starter.submit(service.start).result()

    def close(self) -> None:
        """The site ends what runs and starts no further process. Blocks until then."""
        # On the thread that started them: with it would end gunicorn, but its workers only when they notice that.
        self._starter.submit(self._site.end).result()
        self._starter.shutdown()

    async def run(self) -> None:
        """Traffic and looks, until it is cancelled."""
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as self.session:
            # Both sides have the same riders, callers and bursts at the same instants.
            table = self._site.table
            drawn = {name: Drawn(table, rush(table.regions[name]), f"live-{name}") for name in self.regions}
            async with asyncio.TaskGroup() as group:
                for service in self.services.values():
                    group.create_task(self._traffic(service, drawn[service.region]).run())
                group.create_task(self._looks())

    def _traffic(self, service: Service, drawn: Drawn) -> Traffic:
        return Traffic(self.session, drawn, service.offers.url, lambda: service.pricing.address)

    async def _looks(self) -> None:
        # The first requests of all open their connections.
        await asyncio.sleep(_SETTLED_S)
        used_ns: Used = {}
        next_s = time.monotonic()
        while True:
            checkpoint()
            self._number += 1
            for service in self.services.values():
                await self._look(service, used_ns)
            # What was missed on a busy machine is not made up for.
            next_s = max(next_s + _LOOK_S, time.monotonic())
            await asyncio.sleep(next_s - time.monotonic())

    async def _look(self, service: Service, used_ns: Used) -> None:
        try:
            async with self.session.get(f"{service.offers.url}/counts") as answer:
                counts = priced(await answer.json())
        except (aiohttp.ClientError, TimeoutError):
            service.check()
            return
        now_ns, spent_ns = time.monotonic_ns(), cpu_ns(service.pricing.pids())
        # After a switch they are other processes, whose warm-up is no look's.
        whose = service.name, service.pricing.ports
        before_ns, before_spent_ns = used_ns.get(whose, (now_ns, spent_ns))
        used_ns[whose] = now_ns, spent_ns
        share = max(0, spent_ns - before_spent_ns) / max(1, now_ns - before_ns)
        self._series[service.name].look(self._number, now_ns / 1e9 - self._began_s, counts, share)

    def switch(self, fix: Fix) -> bool:
        """Begins to switch the changing side, region by region; False while it is being switched."""
        if self._is_switching():
            return False
        self._switching = asyncio.create_task(self._switched(fix))
        return True

    def _is_switching(self) -> bool:
        return self._switching is not None and not self._switching.done()

    async def _switched(self, fix: Fix) -> None:
        try:
            for region in self._in_order():
                service = self.services[f"{CHANGING}/{region}"]
                if service.fix == fix:
                    continue
                self.state = f"{region}: {FIXES[fix]} is started and warmed while {FIXES[service.fix]} serves"
                await service.switch(fix, partial(self._marked, service))
            self.state = ""
        except (GreenlaneError, StartFailed, OSError) as error:
            self.state = (
                f"{service.region} stays on {FIXES[service.fix]}: {FIXES[fix]} could not be started "
                "(the terminal says why)"
            )
            self._talk.say(str(error))

    def _marked(self, service: Service) -> None:
        at_s = time.monotonic() - self._began_s
        self._series[service.name].switched(at_s)
        self._marks.append(Mark(at_s, service.region, service.fix))
        self.state = f"{service.region}: {FIXES[service.fix]} serves; the one before it finishes its requests"

    def since(self, number: int) -> dict[str, Any]:
        """What the page shows, with rows of looks after this number."""
        now_s = time.monotonic() - self._began_s
        return {
            "number": self._number, "now_s": round(now_s, 2), "state": self.state,
            "is_switching": self._is_switching(),
            "sides": {
                side: {region: self._of(f"{side}/{region}") for region in self.regions} for side in (CHANGING, FIXED)
            },
            "rows": {name: series.since(number) for name, series in self._series.items()},
            "marks": [vars(mark) for mark in self._marks if mark.at_s > now_s - KEPT_S],
        }  # fmt: skip

    def _of(self, name: str) -> dict[str, str]:
        fix = self.services[name].fix
        return {"fix": fix, "contender": FIXES[fix]}
