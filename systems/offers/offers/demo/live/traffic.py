"""Riders and callers without end, on the page's event loop: each request when it is due, whatever became of others."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import aiohttp

from offers.load import direct
from offers.table import Region, Table

from ..riders import PERIOD_S

__all__ = ["Traffic"]

#: Callers are drawn for so long at once.
_DRAWN_S: Final = 30.0


class Traffic:
    """What one service is asked.

    Args:
        session: of all.
        table: of endpoints.
        region: as it is asked live.
        seed: of everything drawn.
        offers: where riders ask: a URL.
        pricing: where callers ask now: host:port.
    """

    def __init__(
        self, session: aiohttp.ClientSession, table: Table, region: Region, seed: str, offers: str,
        pricing: Callable[[], str],
    ) -> None:  # fmt: skip
        self._session, self._table, self._region, self._seed = session, table, region, seed
        self._offers, self._pricing = offers, pricing
        self._asking = set[asyncio.Task[None]]()

    async def run(self) -> None:
        """Asks until it is cancelled."""
        source = random.Random(f"{self._seed}/riders")
        riders = range(round(self._region.riders_per_s * PERIOD_S))
        async with asyncio.TaskGroup() as group:
            for rider in riders:
                group.create_task(self._rider(rider, source.uniform(0, PERIOD_S)))
            group.create_task(self._callers())

    async def _rider(self, rider: int, first_s: float) -> None:
        await asyncio.sleep(first_s)
        for number in itertools.count():
            began_s = time.monotonic()
            asked = {"region": self._region.name, "id": f"{self._seed}-{rider}-{number}"}
            self._ask(f"{self._offers}/offers", asked)
            await asyncio.sleep(max(0.0, began_s + PERIOD_S - time.monotonic()))

    async def _callers(self) -> None:
        begin_s = time.monotonic()
        async for at_s, path, asked in self._drawn():
            if (left_s := begin_s + at_s - time.monotonic()) > 0:
                await asyncio.sleep(left_s)
            self._ask(f"http://{self._pricing()}{path}", asked)

    async def _drawn(self) -> AsyncIterator[tuple[float, str, dict[str, str]]]:
        for part in itertools.count():
            draw = (self._table, self._region, "127.0.0.1:0", _DRAWN_S, f"{self._seed}-{part}")
            load = await asyncio.to_thread(direct, *draw)
            for at_ns, number, w in zip(*map(list, _columns(load.schedule)), strict=True):
                path = self._table.endpoints[load.plan.streams[number].name].path
                yield part * _DRAWN_S + at_ns / 1e9, path, {"region": self._region.name, "w": repr(float(w))}

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


def _columns(schedule: Any) -> tuple[Any, Any, Any]:
    return schedule.at_ns, schedule.stream, schedule.work_ms
