"""Orders that the backend makes up."""

from __future__ import annotations

import asyncio

import pytest

from pos.backend.publisher import Demand


class Counter:
    """Takes orders, all of them or none."""

    def __init__(self, error: Exception | None = None) -> None:
        self.placed: list[tuple[str, str]] = []
        self._error = error

    async def place(self, order: str, merchant: str) -> None:
        self.placed.append((order, merchant))
        if self._error:
            raise self._error


async def ran(demand: Demand, counter: Counter, until: int) -> None:
    """Runs it until this many orders have come."""
    running = asyncio.create_task(demand.run())
    while len(counter.placed) < until:
        await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_merchants_get_orders_in_turn_and_each_has_an_id_of_its_own() -> None:
    counter = Counter()
    asyncio.run(ran(Demand(counter.place, ("bento", "taco"), 300, "made"), counter, 6))
    assert counter.placed[:6] == [(f"made-{number + 1}", ("bento", "taco")[number % 2]) for number in range(6)]


def test_an_order_that_is_not_taken_is_counted_and_the_next_one_comes() -> None:
    counter = Counter(RuntimeError("no broker"))
    demand = Demand(counter.place, ("taco",), 300, "made")
    asyncio.run(ran(demand, counter, 3))
    assert demand.refused >= 2


@pytest.mark.slow
def test_a_rate_below_one_waits_and_a_change_of_it_does_not() -> None:
    async def changed() -> None:
        running = asyncio.create_task(demand.run())
        await asyncio.sleep(0.3)
        assert counter.placed == []
        demand.per_s = 300
        while not counter.placed:
            await asyncio.sleep(0.001)
        demand.per_s = 0
        # What is under way by then is not called back.
        await asyncio.sleep(0.25)
        before = len(counter.placed)
        await asyncio.sleep(0.25)
        assert len(counter.placed) == before
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    counter = Counter()
    demand = Demand(counter.place, ("taco",), 0.01, "made")
    asyncio.run(changed())
