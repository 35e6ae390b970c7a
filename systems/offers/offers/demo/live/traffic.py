"""Riders and callers without end, on the page's event loop: each request when it is due, whatever became of others."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import aiohttp

from offers.load import direct
from offers.table import Region, Table

from ..riders import PERIOD_S

#: Callers are drawn for so long at once.
_DRAWN_S: Final = 30.0

#: When, from the stretch's begin; path; query.
Asked = tuple[float, str, dict[str, str]]


class Drawn:
    """Callers of a region: both sides have the same, and so draw them once.

    Args:
        table: of endpoints.
        region: as it is asked live.
        seed: of everything drawn.
    """

    def __init__(self, table: Table, region: Region, seed: str) -> None:
        self.region, self.seed = region, seed
        self._table = table
        self._parts: dict[int, asyncio.Task[list[Asked]]] = {}

    async def part(self, number: int) -> list[Asked]:
        """The callers of one stretch of `_DRAWN_S`, by time from its begin."""
        # The next one is drawn meanwhile; who is late may still want the one before.
        for wanted in (number, number + 1):
            if wanted not in self._parts:
                self._parts[wanted] = asyncio.create_task(asyncio.to_thread(self._draw, wanted))
        self._parts.pop(number - 2, None)
        return await asyncio.shield(self._parts[number])

    def _draw(self, number: int) -> list[Asked]:
        load = direct(self._table, self.region, "127.0.0.1:0", _DRAWN_S, f"{self.seed}-{number}")
        paths = [self._table.endpoints[stream.name].path for stream in load.plan.streams]
        columns = (load.schedule.at_ns.tolist(), load.schedule.stream.tolist(), load.schedule.work_ms.tolist())
        return [
            (at_ns / 1e9, paths[stream], {"region": self.region.name, "w": repr(w)})
            for at_ns, stream, w in zip(*columns, strict=True)
        ]


class Traffic:
    """What one service is asked.

    Args:
        session: of all.
        drawn: callers of its region.
        offers: where riders ask: a URL.
        pricing: where callers ask now: host:port.
    """

    def __init__(self, session: aiohttp.ClientSession, drawn: Drawn, offers: str, pricing: Callable[[], str]) -> None:
        self._session, self._drawn, self._offers, self._pricing = session, drawn, offers, pricing
        self._asking = set[asyncio.Task[None]]()

    async def run(self) -> None:
        """Asks until it is cancelled."""
        source = random.Random(f"{self._drawn.seed}/riders")
        riders = range(round(self._drawn.region.riders_per_s * PERIOD_S))
        async with asyncio.TaskGroup() as group:
            for rider in riders:
                group.create_task(self._rider(rider, source.uniform(0, PERIOD_S)))
            group.create_task(self._callers())

    async def _rider(self, rider: int, first_s: float) -> None:
        await asyncio.sleep(first_s)
        for number in itertools.count():
            began_s = time.monotonic()
            asked = {"region": self._drawn.region.name, "id": f"{self._drawn.seed}-{rider}-{number}"}
            self._ask(f"{self._offers}/offers", asked)
            await asyncio.sleep(max(0.0, began_s + PERIOD_S - time.monotonic()))

    async def _callers(self) -> None:
        begin_s = time.monotonic()
        for number in itertools.count():
            for at_s, path, asked in await self._drawn.part(number):
                if (left_s := begin_s + number * _DRAWN_S + at_s - time.monotonic()) > 0:
                    await asyncio.sleep(left_s)
                self._ask(f"http://{self._pricing()}{path}", asked)

    def _ask(self, url: str, asked: dict[str, str]) -> None:
        task = asyncio.create_task(self._asked(url, asked))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _asked(self, url: str, asked: dict[str, str]) -> None:
        try:
            async with self._session.get(url, params=asked) as answer:
                await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            # Who is asked counts it; a rider would poll again.
            return


# --- What the live services are asked: each region as in measured runs, thinned out, its bursts more frequent.
#
# Six services share the machine with their page: each side may take some 0.4 of a core for all regions together. Steady
# callers are fewer; what makes offers late, a burst, is as large as ever and comes more often, so that a minute shows
# what a rider of the measured region waits longer for.

#: Polls a second of each region.
POLLS_PER_S: Final = 4.0
#: Of the region's steady callers.
_CALLERS_FRAC: Final = 0.15
#: Length of the periods where the region has bursts; each has one.
BURST_EVERY_S: Final = 14.0


def rush(region: Region) -> Region:
    """The region as it is asked live."""
    kinds = {name: replace(kind, per_s=kind.per_s * _CALLERS_FRAC) for name, kind in region.kinds.items()}
    bursts = tuple(replace(one, every_s=BURST_EVERY_S) for one in region.bursts)
    return replace(region, riders_per_s=POLLS_PER_S, kinds=kinds, bursts=bursts)
