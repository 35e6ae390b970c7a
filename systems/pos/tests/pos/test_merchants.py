"""How merchants behave and what they remember."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from pos.merchants.conduct import Conduct, Desk, Law, Turn

AT_ONCE = Law(median_ms=0, p99_ms=0)


async def placed(conduct: Conduct, order: str) -> Turn:
    async with conduct.call(order) as verdict:
        return verdict.turn


def test_a_law_draws_the_latency_that_it_names() -> None:
    source = random.Random(1)
    drawn = sorted(1e3 * Law(100, 400).delay_s(source) for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(100, rel=0.03)
    assert drawn[19_800] == pytest.approx(400, rel=0.08)
    assert {Law(300, 300).delay_s(source) for _ in range(9)} == {0.3}


def test_a_law_draws_each_turn_as_often_as_it_says() -> None:
    law = Law(error_frac=0.1, lie_frac=0.2, hang_frac=0.3, reset_frac=0.15)
    source = random.Random(2)
    drawn = Counter(law.turn(source) for _ in range(20_000))
    shares = {turn: count / 20_000 for turn, count in drawn.items()}
    expected = {Turn.ERROR: 0.1, Turn.LIE: 0.2, Turn.HANG: 0.3, Turn.RESET: 0.15, Turn.WELL: 0.25}
    assert shares == pytest.approx(expected, abs=0.015)
    assert {Law().turn(source) for _ in range(100)} == {Turn.WELL}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"median_ms": -1}, "0 <= median_ms <= p99_ms"),
        ({"median_ms": 5, "p99_ms": 4}, "0 <= median_ms <= p99_ms"),
        ({"median_ms": float("nan")}, "expected a number"),
        ({"median_ms": "fast"}, "expected a number"),
        ({"median_ms": True}, "expected a number"),
        ({"askable": 1}, "expected true or false"),
        ({"error_frac": 0.6, "lie_frac": 0.6}, "together at most 1"),
        ({"hang_frac": -0.1}, "none below 0"),
        ({"temper": 1}, "expected one of askable"),
    ],
)
def test_what_no_law_can_be_is_refused_with_the_rule(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Law().changed(given)


def test_a_median_alone_is_the_latency_of_all_where_all_took_the_same() -> None:
    assert Law(300, 300).changed({"median_ms": 30_000}) == Law(30_000, 30_000)
    assert Law(100, 400).changed({"median_ms": 200}) == Law(200, 400)
    assert Law(100, 400).changed({"median_ms": 500}) == Law(500, 500)


def test_repeated_calls_and_doubled_effects_are_counted_apart() -> None:
    desk = Desk()
    for order, idempotent in (("a", False), ("b", False), ("a", True), ("b", False), ("b", False)):
        desk.called(order)
        desk.effect(order, idempotent=idempotent)
        desk.left("well")
    look = desk.look()
    assert (look["calls"], look["calls_repeated"], look["effects"], look["effects_doubled"]) == (5, 3, 4, 2)
    assert desk.orders() == {"a": [2, 1], "b": [3, 3]}
    desk.clear()
    assert desk.look()["calls"] == desk.look()["effects"] == 0 and desk.orders() == {}


@pytest.mark.parametrize(
    ("law", "turn", "effects"),
    [({}, Turn.WELL, 1), ({"error_frac": 1}, Turn.ERROR, 0), ({"lie_frac": 1}, Turn.LIE, 1)],
)
def test_an_error_does_nothing_and_a_lie_does_what_it_denies(law: dict[str, float], turn: Turn, effects: int) -> None:
    conduct = Conduct("taco", AT_ONCE.changed(law))
    assert asyncio.run(placed(conduct, "a")) is turn
    assert conduct.desk.orders() == {"a": [1, effects]}
    assert conduct.asked("a") is bool(effects)


def test_a_reset_is_by_a_coin_done_or_not() -> None:
    async def all_of_them() -> list[Turn]:
        return [await placed(conduct, str(number)) for number in range(200)]

    conduct = Conduct("taco", AT_ONCE.changed({"reset_frac": 1}))
    assert set(asyncio.run(all_of_them())) == {Turn.RESET}
    assert 60 < conduct.desk.look()["effects"] < 140


def test_a_merchant_that_hangs_has_done_it_and_lets_go_when_the_caller_does() -> None:
    async def hung() -> int:
        task = asyncio.create_task(placed(conduct, "a"))
        while not conduct.desk.knows("a"):
            await asyncio.sleep(0)
        running = conduct.desk.running
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return running

    conduct = Conduct("taco", AT_ONCE.changed({"hang_frac": 1}))
    assert asyncio.run(hung()) == 1
    assert conduct.desk.running == 0


def test_a_caller_that_goes_away_takes_nothing_back() -> None:
    async def left() -> None:
        task = asyncio.create_task(placed(conduct, "a"))
        while conduct.desk.running == 0:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not conduct.desk.knows("a")
        while not conduct.desk.knows("a"):
            await asyncio.sleep(0)

    conduct = Conduct("taco", Law(100, 100))
    asyncio.run(left())
    assert conduct.desk.orders() == {"a": [1, 1]}


def test_who_does_not_tell_says_so_of_known_and_unknown_alike() -> None:
    conduct = Conduct("taco", AT_ONCE.changed({"askable": False}))
    asyncio.run(placed(conduct, "a"))
    assert conduct.asked("a") is None and conduct.asked("b") is None


def test_an_order_s_time_is_divided_among_its_calls() -> None:
    slept: list[float] = []

    async def noted(seconds: float) -> None:
        slept.append(seconds)

    async def all_of_them() -> None:
        conduct = Conduct("taco", Law(300, 300))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(asyncio, "sleep", noted)
            await conduct.part(3)
            async with conduct.call("o-1", 3):
                pass
            await conduct.part(3)
        assert (conduct.desk.running, conduct.desk.knows("o-1"), conduct.desk.look()["calls"]) == (0, True, 1)

    asyncio.run(all_of_them())
    assert slept == pytest.approx([0.1, 0.1, 0.1])
