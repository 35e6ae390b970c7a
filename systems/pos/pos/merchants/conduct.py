"""One call at a merchant: it arrives, takes its time, has its effect or not, and is answered or not."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Self

# --- How a merchant behaves: its latency, and what goes wrong how often. Changed live by `POST /law`.


_Z99: Final = 2.3263478740408408
_SHARES: Final = ("error_frac", "lie_frac", "hang_frac", "reset_frac")


class Turn(Enum):
    """What happens to one call."""

    WELL = "well"
    #: Nothing is done, and an error is answered.
    ERROR = "error"
    #: It is done, and an error is answered.
    LIE = "lie"
    #: It is done, and nothing is ever answered.
    HANG = "hang"
    #: By a coin it is done or not; the connection is reset in place of an answer.
    RESET = "reset"


@dataclass(frozen=True)
class Law:
    """A merchant's behaviour. Shares are of calls, and add up to at most 1; the rest goes well.

    Args:
        median_ms: half of the answers take less (lognormal); 0 = immediately.
        p99_ms: one of a hundred takes more; equal to median_ms = all take the same.
        error_frac: answered 500, nothing done.
        lie_frac: answered 500 although it is done.
        hang_frac: done, never answered.
        reset_frac: the connection is reset, half of them done.
        idempotent: a second call with the same order id has no second effect.
        askable: it tells whether it knows an order id.
    """

    median_ms: float = 300.0
    p99_ms: float = 300.0
    error_frac: float = 0.0
    lie_frac: float = 0.0
    hang_frac: float = 0.0
    reset_frac: float = 0.0
    idempotent: bool = False
    askable: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            is_switch = field.type == "bool"
            if isinstance(value, bool) != is_switch or not isinstance(value, int | float) or not math.isfinite(value):
                rule = "true or false" if is_switch else "a number"
                raise ValueError(f"set a law: {field.name}={value!r}, expected {rule}")
        if not 0 <= self.median_ms <= self.p99_ms:
            rule = "0 <= median_ms <= p99_ms"
            raise ValueError(f"set a law: median_ms={self.median_ms!r}, p99_ms={self.p99_ms!r}, expected {rule}")
        shares = [getattr(self, name) for name in _SHARES]
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError(f"set a law: {', '.join(_SHARES)}={shares!r}, expected none below 0, together at most 1")

    def changed(self, to: Mapping[str, Any]) -> Self:
        """This law with some of its parts changed; a median alone takes a shorter p99 with it.

        Raises:
            ValueError: a part that no law has, or a value that it cannot have.
        """
        known = {field.name for field in dataclasses.fields(self)}
        if unknown := sorted(set(to) - known):
            raise ValueError(f"set a law: {unknown[0]}={to[unknown[0]]!r}, expected one of {', '.join(sorted(known))}")
        given = dict(to)
        if "p99_ms" not in given and isinstance(given.get("median_ms"), int | float):
            given["p99_ms"] = given["median_ms"] if self.p99_ms == self.median_ms else max(
                self.p99_ms, given["median_ms"]
            )  # fmt: skip
        return dataclasses.replace(self, **given)

    def delay_s(self, source: random.Random) -> float:
        """One draw."""
        if self.median_ms == self.p99_ms or self.median_ms == 0:
            return self.median_ms / 1e3
        spread = math.log(self.p99_ms / self.median_ms) / _Z99
        return self.median_ms / 1e3 * math.exp(source.gauss(0, spread))

    def turn(self, source: random.Random) -> Turn:
        """One draw."""
        left = source.random()
        for share, turn in zip(_SHARES, (Turn.ERROR, Turn.LIE, Turn.HANG, Turn.RESET), strict=True):
            left -= getattr(self, share)
            if left < 0:
                return turn
        return Turn.WELL


class Verdict(NamedTuple):
    """How a call is to be answered.

    Args:
        turn: what happened to it; never HANG.
        known: the order had been carried out before.
    """

    turn: Turn
    known: bool


class Conduct:
    """A merchant's behaviour, whatever its orders come over.

    Args:
        name: whose; its draws are always the same.
        law: until it is changed.
    """

    def __init__(self, name: str, law: Law) -> None:
        self.name = name
        self.law = law
        self.desk = Desk()
        self._source = random.Random(f"merchant/{name}")
        # The loop itself holds no task that nobody waits for.
        self._works: set[asyncio.Future[None]] = set()

    async def part(self, of: int) -> None:
        """One of `of` calls of an order, beside the one that places it: it takes its part of the order's time."""
        self.desk.began()
        try:
            await asyncio.sleep(self.law.delay_s(self._source) / of)
        finally:
            self.desk.left("part")

    @asynccontextmanager
    async def call(self, order: str, of: int = 1) -> AsyncIterator[Verdict]:
        """Takes an order in; the block answers as the verdict says, or never begins when the merchant hangs.

        A caller that goes away takes nothing back: what has arrived is carried out. `of`: the order's calls, among
        which its time is divided.
        """
        turn = self.law.turn(self._source)
        known = self.desk.knows(order)
        self.desk.called(order)
        work = asyncio.ensure_future(self._carried_out(order, turn, of))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        try:
            await asyncio.shield(work)
            if turn is Turn.HANG:
                # Until the caller goes away.
                await asyncio.Event().wait()
            yield Verdict(turn, known)
        finally:
            self.desk.left(turn.value)

    async def _carried_out(self, order: str, turn: Turn, of: int) -> None:
        law = self.law
        await asyncio.sleep(law.delay_s(self._source) / of)
        if turn in (Turn.WELL, Turn.LIE, Turn.HANG) or (turn is Turn.RESET and self._source.random() < 0.5):
            self.desk.effect(order, idempotent=law.idempotent)

    def asked(self, order: str) -> bool | None:
        """Whether the order was carried out; None = this merchant does not tell."""
        return self.desk.knows(order) if self.law.askable else None


# --- What a merchant remembers: how often each order was called for, and how often it took effect.


class Desk:
    """One merchant's memory. An effect is what cannot be undone: a meal that is cooked."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._effects: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self.running = 0
        self.running_most = 0

    def called(self, order: str) -> None:
        """A call for an order arrived."""
        self._calls[order] += 1
        self.began()

    def began(self) -> None:
        """A call arrived."""
        self.running += 1
        self.running_most = max(self.running_most, self.running)

    def left(self, turn: str) -> None:
        """A call is over, in this way."""
        self.running -= 1
        self._turns[turn] += 1

    def effect(self, order: str, *, idempotent: bool) -> None:
        """The order is carried out; once more, unless it is known and the merchant is idempotent."""
        if not (idempotent and order in self._effects):
            self._effects[order] += 1

    def knows(self, order: str) -> bool:
        """It was carried out."""
        return order in self._effects

    def clear(self) -> None:
        """Forgets all but the calls that run."""
        for counter in (self._calls, self._effects, self._turns):
            counter.clear()
        self.running_most = self.running

    def look(self) -> dict[str, Any]:
        """The sums."""
        return {
            "calls": self._calls.total(),
            "calls_repeated": self._calls.total() - len(self._calls),
            "effects": self._effects.total(),
            "effects_doubled": self._effects.total() - len(self._effects),
            "orders": len(self._effects),
            "running": self.running,
            "running_most": self.running_most,
            "turns": dict(self._turns),
        }

    def orders(self) -> dict[str, list[int]]:
        """Order -> [calls, effects], of all that were called for."""
        return {order: [calls, self._effects[order]] for order, calls in self._calls.items()}
