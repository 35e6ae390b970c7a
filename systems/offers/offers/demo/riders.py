"""Riders: each polls every two seconds whatever becomes of its polls, and sees which modes are offered.

They are few and light, so one event loop on a thread of its own stands for all of them; latencies of pricingservice are
measured by offerservice, not here. The same seed makes the same polls, with the same ids, for every contender.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

PERIOD_S: Final = 2.0
#: Phones do not tick together: each poll is up to so much later than its turn.
_JITTER_S: Final = 0.2
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class Poll:
    """One poll of one rider, when it was answered.

    Args:
        rider: number of the rider.
        due_s: when it was due, from the load's begin.
        took_ms: from then to the end of the answer.
        made: modes that were offered.
        missing: mode -> why it was not: late, refused, failed.
    """

    rider: int
    due_s: float
    took_ms: float
    made: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        """False = no answer of offerservice's at all."""
        return bool(self.made or self.missing)


def due_s(seed: str, per_s: float, seconds: float) -> list[tuple[float, int, int]]:
    """Every poll in order: when it is due, whose it is, its number among that rider's."""
    source, polls = random.Random(f"{seed}/riders"), []
    for rider in range(round(per_s * PERIOD_S)):
        first_s = source.uniform(0, PERIOD_S - _JITTER_S)
        number = 0
        while (turn_s := first_s + number * PERIOD_S) < seconds:
            polls.append((turn_s + source.uniform(0, _JITTER_S), rider, number))
            number += 1
    return sorted(poll for poll in polls if poll[0] < seconds)


class Riders:
    """Polls offerservice in an open loop, on a thread of its own, until all polls are answered.

    Args:
        url: of offerservice.
        region: where they are.
        seed: of the ids and instants.
        per_s: polls a second, of all riders together.
        seconds: polls end then.
    """

    def __init__(self, url: str, region: str, seed: str, per_s: float, seconds: float) -> None:
        self._url = url
        self.polls: list[Poll] = []
        self._region = region
        self._seed = seed
        self._due = due_s(seed, per_s, seconds)
        self._began_s = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._ride()), daemon=True)

    @property
    def began_s(self) -> float:
        """`time.monotonic()` at their begin."""
        return self._began_s

    @property
    def left(self) -> int:
        """Polls that are not over: 0 once all have been answered or given up."""
        return len(self._due) - len(self.polls)

    def start(self) -> None:
        """Begin; does not wait."""
        self._began_s = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Poll no more, and leave what is not answered."""
        self._stopped.set()
        self._thread.join(timeout=_TIMEOUT_S)

    def join(self, seconds: float) -> bool:
        """Blocks until all are answered, at most so long; whether they are."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    async def _ride(self) -> None:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        polls = set[asyncio.Task[None]]()
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            for at_s, rider, number in self._due:
                await self._until(at_s)
                if self._stopped.is_set():
                    break
                poll = asyncio.create_task(self._poll(session, at_s, rider, number))
                polls.add(poll)
                poll.add_done_callback(polls.discard)
            while polls and not self._stopped.is_set():
                await asyncio.wait(polls, timeout=0.2)
            for poll in polls:
                poll.cancel()

    async def _until(self, at_s: float) -> None:
        while (left_s := self._began_s + at_s - time.monotonic()) > 0 and not self._stopped.is_set():
            await asyncio.sleep(min(left_s, 0.2))

    async def _poll(self, session: aiohttp.ClientSession, at_s: float, rider: int, number: int) -> None:
        asked = {"region": self._region, "id": f"{self._seed}-{rider}-{number}"}
        made, missing = await _offers(session, f"{self._url}/offers", asked)
        self.polls.append(Poll(rider, at_s, 1e3 * (time.monotonic() - self._began_s - at_s), made, missing))


async def _offers(
    session: aiohttp.ClientSession, url: str, asked: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Modes that were offered, and those that were not with the reason; neither = no answer."""
    try:
        async with session.get(url, params=asked) as answer:
            if answer.status != 200:
                return (), {}
            found: dict[str, Any] = json.loads(await answer.read())
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return (), {}
    return tuple(one["mode"] for one in found["offers"]), {one["mode"]: one["why"] for one in found["missing"]}


def changes_per_minute(polls: Sequence[Poll]) -> float:
    """Flicker: how often a mode appears or vanishes between two polls of a rider that follow each other, per minute.

    Over all modes; the mean over riders. A poll without an answer changes no screen and is left out.
    """
    pairs = list(_pairs(polls))
    changes = sum(len(set(one.made) ^ set(next_.made)) for one, next_ in pairs)
    return changes / (len(pairs) * PERIOD_S / 60) if pairs else 0.0


def _pairs(polls: Sequence[Poll]) -> Iterator[tuple[Poll, Poll]]:
    of_rider: dict[int, list[Poll]] = {}
    for poll in polls:
        if poll.is_answered:
            of_rider.setdefault(poll.rider, []).append(poll)
    for theirs in of_rider.values():
        theirs.sort(key=lambda poll: poll.due_s)
        yield from itertools.pairwise(theirs)
