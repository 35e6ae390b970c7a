"""Small parts of the service: laws of delay, the pace of computations, stages, slots."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import statistics
import subprocess
import sys
import time

import pytest

from feed.children import ROOT
from feed.first_level.server import Law
from feed.service.stages import Stages, timed_loop
from feed.stores.items import SLOTS, json_key, packed_key, shard_of, slot
from feed.variants.plain import Pace
from greenlane_tools.lab.processes import found_by


def test_a_law_has_the_median_and_the_99th_percentile_that_it_says() -> None:
    source = random.Random(1)
    delays = sorted(Law(20, 60).delay_s(source) for _ in range(20_000))
    assert statistics.median(delays) == pytest.approx(0.020, rel=0.03)
    assert delays[19_800] == pytest.approx(0.060, rel=0.06)
    assert Law(0, 0).delay_s(source) == 0


def test_a_law_fails_the_share_that_it_says() -> None:
    source = random.Random(1)
    law = Law(fail_frac=0.25)
    assert sum(law.fails(source) for _ in range(10_000)) == pytest.approx(2_500, rel=0.1)
    assert not any(Law().fails(source) for _ in range(100))


@pytest.mark.parametrize("wrong", [{"median_ms": 5, "p99_ms": 4}, {"median_ms": -1}, {"fail_frac": 1.5}])
def test_a_law_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="setting a law: "):
        Law(**wrong)


def test_a_pace_refuses_what_would_take_too_long_and_tries_again_after_a_while() -> None:
    pace = Pace()
    assert pace.fits(1_000, 0.01)
    pace.took(1_000, 0.1)
    assert pace.fits(1_000, 0.11)
    assert not pace.fits(2_000, 0.11)
    refused = 0
    while not pace.fits(2_000, 0.11):
        refused += 1
    assert 5 < refused < 30


def test_a_pace_never_fits_into_no_time() -> None:
    assert not Pace().fits(1, 0.0)


def test_keys_lie_in_the_slots_that_redis_gives_them() -> None:
    # From the cluster specification: CRC-16 of "123456789" is 0x31C3.
    assert slot(b"123456789") == 0x31C3
    assert slot(b"{user1000}.following") == slot(b"{user1000}.followers") == slot(b"user1000")
    # An empty tag is no tag.
    assert slot(b"foo{}{bar}") != slot(b"bar")


def test_shards_share_the_slots_and_buckets_keep_keys_together() -> None:
    shards = [shard_of(number) for number in range(SLOTS)]
    assert [shards.count(shard) for shard in range(3)] == [5461, 5461, 5462]
    assert slot(packed_key(10_000_001).encode()) == slot(packed_key(10_000_049).encode())
    assert len({shard_of(slot(json_key(item_id).encode())) for item_id in range(50)}) == 3


def run_timed(coroutine_function) -> Stages:  # type: ignore[no-untyped-def]
    with asyncio.Runner(loop_factory=timed_loop) as runner:
        return runner.run(coroutine_function())


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_a_stage_counts_the_cpu_of_its_own_steps_only() -> None:
    async def work() -> None:
        burn(0.02)
        await asyncio.sleep(0)
        burn(0.02)

    async def main() -> Stages:
        stages = Stages()
        async with stages.running("mine"):
            await asyncio.gather(stages.task("mine", work()), stages.task("other", work()))
        return stages

    stages = run_timed(main)
    assert 40 <= stages.rows()["mine"]["cpu_ms"] < 60
    assert 40 <= stages.rows()["other"]["cpu_ms"] < 60
    assert stages.tasks == 3


def test_a_stage_counts_what_the_loop_reads_for_it() -> None:
    class Slow(asyncio.Protocol):
        """A parser that computes for 20 ms, in the loop and in no coroutine."""

        def __init__(self) -> None:
            self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def data_received(self, data: bytes) -> None:
            burn(0.02)
            self.answer.set_result(data)

        async def answer_of(self) -> None:
            await asyncio.shield(self.answer)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1))
        writer.close()

    async def asked(transport: asyncio.WriteTransport, slow: Slow) -> None:
        transport.write(b"?")
        await slow.answer

    async def main() -> Stages:
        stages, loop = Stages(), asyncio.get_running_loop()
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            # The connection is older than the stage, as those of a pool are.
            transport, slow = await loop.create_connection(Slow, "127.0.0.1", port)
            async with stages.running("mine"):
                await asyncio.gather(
                    stages.task("mine", asked(transport, slow)), stages.task("other", slow.answer_of())
                )
            transport.close()
        return stages

    rows = run_timed(main).rows()
    assert rows["mine"]["cpu_ms"] >= 20
    assert rows["other"]["cpu_ms"] < 20


def test_a_stage_counts_tasks_that_are_begun_for_it() -> None:
    async def below() -> int:
        burn(0.01)
        await asyncio.sleep(0)
        burn(0.01)
        return 7

    async def library() -> None:
        assert await asyncio.gather(below(), asyncio.create_task(below())) == [7, 7]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.create_task(asyncio.sleep(9)), 0.01)
        asyncio.create_task(below()).cancel()

    async def main() -> Stages:
        stages = Stages()
        async with stages.running("mine"):
            await asyncio.gather(stages.task("mine", library()), stages.task("other", asyncio.sleep(0.05)))
        return stages

    rows = run_timed(main).rows()
    assert 40 <= rows["mine"]["cpu_ms"] < 60
    assert rows["other"]["cpu_ms"] < 20


def test_who_is_ready_while_another_computes_has_waited_and_not_done_io() -> None:
    async def main() -> Stages:
        stages = Stages()
        async with stages.running("sleeper"):
            sleeper = stages.task("sleeper", asyncio.sleep(0.01))
            await asyncio.sleep(0)
            # Due at 10 ms, resumed after 60.
            burn(0.06)
            await sleeper
        return stages

    row = run_timed(main).rows()["sleeper"]
    # When it became ready within the computation cannot be seen: only that it was, at its end.
    assert row["wait_most_ms"] > 50
    assert row["wait_ms"] <= row["wait_most_ms"] <= row["wall_ms"]


def test_who_stands_behind_another_in_the_same_round_has_certainly_waited() -> None:
    async def main() -> Stages:
        stages = Stages()
        loop = asyncio.get_running_loop()
        door = loop.create_future()

        async def comes() -> None:
            await door

        async def burns() -> None:
            await door
            burn(0.05)

        async with stages.running("second"):
            tasks = [stages.task("first", burns()), stages.task("second", comes())]
            loop.call_later(0.005, door.set_result, None)
            await asyncio.gather(*tasks)
        return stages

    row = run_timed(main).rows()["second"]
    assert 50 <= row["wait_ms"] <= row["wait_most_ms"]


def test_nobody_waits_for_a_loop_that_sleeps() -> None:
    async def main() -> Stages:
        stages = Stages()
        async with stages.running("sleeper"):
            await stages.task("sleeper", asyncio.sleep(0.2))
        return stages

    row = run_timed(main).rows()["sleeper"]
    assert row["wait_most_ms"] < 100 < row["io_ms"]


def test_a_measured_coroutine_is_as_it_was_results_errors_cancellation() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    async def gives() -> int:
        await asyncio.sleep(0)
        return 7

    caught: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            caught.append("cancelled")
            raise

    async def main() -> Stages:
        stages = Stages()
        assert await stages.measured("a", gives()) == 7
        with pytest.raises(KeyError):
            await stages.measured("a", fails())
        task = stages.task("a", waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stages

    run_timed(main)
    assert caught == ["cancelled"]


def test_a_task_that_is_cancelled_before_its_first_step_leaves_no_coroutine_unawaited() -> None:
    async def never() -> None:
        raise AssertionError("it began")

    coroutine = never()

    async def main() -> None:
        task = Stages().task("part", coroutine)
        task.cancel()
        await asyncio.wait([task])
        # Callbacks of a task run in the round after it.
        await asyncio.sleep(0)

    asyncio.run(main())
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


# --- What Greenlane is measured against carries nothing of it.


LOADED = """
import sys, importlib, feed.service.__main__
importlib.import_module(f"feed.variants.{sys.argv[1]}")
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "greenlane"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["inline", "pool", "split", "native_go"])
def test_a_stock_variants_process_loads_nothing_of_greenlane(variant: str) -> None:
    command, env = [sys.executable, "-c", LOADED, variant], {**os.environ, **found_by(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
