"""`await greenlane.run(...)` on asyncio and uvloop."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lanes.burners import until
from tests.placement import work
from tests.placement.placements import LOOPS, Placed, on_loop, placed

from greenlane import checkpoint, within_ms
from greenlane.errors import DeadlineExceeded, Overloaded, PlacementError

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="")
Do = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture(params=LOOPS)
def do(request: pytest.FixtureRequest) -> Do:
    """Runs a program on each loop."""
    return lambda program: on_loop(request.param, program)


@pytest.fixture
def run() -> Iterator[Placed]:
    with placed() as made:
        yield made


async def appears(path: Path) -> None:
    """Wait for a file, the loop going on."""
    give_up = time.monotonic() + work.LONGEST_S
    while not path.exists():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.002)


async def written(path: Path, text: str) -> None:
    """Wait until a file holds a text; another text fails the test."""
    await appears(path)
    give_up = time.monotonic() + work.LONGEST_S
    while path.read_text() == "":
        assert time.monotonic() < give_up
        await asyncio.sleep(0.002)
    assert path.read_text() == text


def test_it_gives_the_result_and_runs_on_the_lanes_thread(do: Do, run: Placed) -> None:
    async def program() -> None:
        assert await run(work.echo, 1, two=2) == (1, ("two", 2))
        assert await run(threading.get_ident) != threading.get_ident()

    do(program)


def test_the_loop_goes_on_while_calls_run_one_after_the_other(do: Do, run: Placed) -> None:
    async def program() -> int:
        turns = 0
        calls = asyncio.gather(*(run(work.burn, 20) for _ in range(4)))
        while not calls.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert await calls == [20] * 4
        return turns

    assert do(program) >= 8


def test_what_the_function_raises_is_raised_with_the_callers_frames_and_its_own(do: Do, run: Placed) -> None:
    async def caller_of_it() -> None:
        await run(work.fail, ValueError, "reason")

    with pytest.raises(ValueError, match="reason") as caught:
        do(caller_of_it)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-3:] == ["caller_of_it", "_awaitable", "fail"]


def test_light_and_heavy_calls_raise_alike(do: Do, run: Placed) -> None:
    async def raised() -> list[str]:
        with pytest.raises(ValueError) as caught:
            await run(work.fail, ValueError)
        return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

    async def program() -> None:
        on_lane = await raised()
        while run.placement.counters()["placed_inline"] == 0:
            assert await raised() == on_lane

    do(program)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_raised_in_the_function_ends_the_program_as_inline(do: Do, run: Placed, kind: Any) -> None:
    async def program() -> None:
        await run(work.fail, kind, 3)

    with pytest.raises(kind) as caught:
        do(program)
    assert caught.value.args == (3,)


def test_a_stop_iteration_becomes_a_runtime_error_and_hangs_nobody(do: Do, run: Placed) -> None:
    async def program() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await run(next, iter(()))

    do(program)


def test_cancelling_a_waiting_task_keeps_its_call_from_beginning(do: Do, run: Placed, tmp_path: Path) -> None:
    async def program() -> None:
        running = asyncio.ensure_future(run(work.held, tmp_path / "begun", tmp_path / "let go"))
        await appears(tmp_path / "begun")
        waiting = asyncio.ensure_future(run(work.touch, tmp_path / "ran"))
        while run.lane.stats().queued == 0:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert run.lane.stats().queued == 0
        (tmp_path / "let go").touch()
        await running
        await run(work.echo)
        assert not (tmp_path / "ran").exists()

    do(program)


def test_cancelling_a_running_call_frees_its_task_at_once_and_its_thread_at_a_checkpoint(
    do: Do, run: Placed, tmp_path: Path
) -> None:
    async def program() -> None:
        task = asyncio.ensure_future(run(work.until_told, tmp_path / "begun", tmp_path / "met"))
        await appears(tmp_path / "begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await run(work.echo, 1) == (1,)
        await written(tmp_path / "met", "Cancelled")

    do(program)


def test_a_timeout_around_the_call_cancels_it(do: Do, run: Placed, tmp_path: Path) -> None:
    async def program() -> None:
        for span_ms in work.SPANS_MS:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(span_ms / 1000):
                    await run(work.until_told, tmp_path / "begun", tmp_path / "met")
            if (tmp_path / "begun").exists():
                break
        await written(tmp_path / "met", "Cancelled")

    do(program)


def test_a_deadline_answers_the_caller_while_the_function_still_runs(do: Do, run: Placed, tmp_path: Path) -> None:
    async def program() -> None:
        for span_ms in work.SPANS_MS:
            with pytest.raises(DeadlineExceeded), within_ms(span_ms):
                await run(work.held, tmp_path / "begun", tmp_path / "let go")
            if (tmp_path / "begun").exists():
                break
        assert run.lane.stats().running == 1
        (tmp_path / "let go").touch()
        await run(work.echo)

    do(program)


def test_a_running_function_meets_its_deadline_at_a_checkpoint(do: Do, run: Placed, tmp_path: Path) -> None:
    async def program() -> None:
        for span_ms in work.SPANS_MS:
            with pytest.raises(DeadlineExceeded), within_ms(span_ms):
                await run(work.until_told, tmp_path / "begun", tmp_path / "met")
            if (tmp_path / "begun").exists():
                break
        await written(tmp_path / "met", "DeadlineExceeded")

    do(program)


def test_the_sooner_of_two_deadlines_holds_and_ends_with_its_block() -> None:
    async def program() -> None:
        with within_ms(60_000), within_ms(0.001), within_ms(60_000):
            time.sleep(0.001)
            with pytest.raises(DeadlineExceeded):
                checkpoint()
        checkpoint()

    asyncio.run(program())


def test_context_variables_go_in_and_changes_stay_inside(do: Do, run: Placed) -> None:
    def see_and_set() -> str:
        seen = NAME.get()
        NAME.set("inside")
        return seen

    async def program() -> None:
        NAME.set("caller")
        while run.placement.counters()["placed_inline"] == 0:  # On the lane, then inline.
            assert await run(see_and_set) == "caller"
            assert NAME.get() == "caller"

    do(program)


def test_a_light_function_is_learned_and_runs_on_the_loops_thread(do: Do, run: Placed) -> None:
    async def program() -> None:
        assert await run(threading.get_ident) != threading.get_ident()
        while await run(threading.get_ident) != threading.get_ident():
            pass
        assert run.placement.counters()["placed_inline"] == 1

    do(program)


def test_a_light_function_that_surprises_goes_back_to_the_lane(do: Do, run: Placed) -> None:
    def sometimes(cpu_ms: float) -> int:
        work.burn(cpu_ms)
        return threading.get_ident()

    async def program() -> None:
        surprised = False
        while not surprised:
            while await run(sometimes, 0) != threading.get_ident():
                pass
            surprised = await run(sometimes, 20) == threading.get_ident()
        assert await run(sometimes, 0) != threading.get_ident()

    do(program)


def test_a_function_that_sleeps_is_not_light(do: Do, run: Placed) -> None:
    async def program() -> None:
        for _ in range(6):
            await run(time.sleep, 0.004)
        assert run.placement.counters()["placed_inline"] == 0

    do(program)


def test_light_calls_in_a_row_let_the_loop_turn(do: Do) -> None:
    async def program() -> None:
        turned = 0

        async def other() -> None:
            nonlocal turned
            while True:
                await asyncio.sleep(0)
                turned += 1

        task = asyncio.create_task(other())
        while run.placement.counters()["placed_inline"] < 5:
            await run(work.burn, 0.3)
        before = turned
        for _ in range(40):
            await run(work.burn, 0.3)
        assert turned > before
        task.cancel()

    with placed(inline_ms=5.0) as run:
        do(program)


def test_a_placed_function_that_places_another_runs_it_itself(do: Do, run: Placed) -> None:
    def outer() -> tuple[int, int]:
        return threading.get_ident(), run(threading.get_ident)

    def outer_with_a_loop() -> tuple[int, int]:
        async def inner() -> int:
            return await run(threading.get_ident)

        return threading.get_ident(), asyncio.run(inner())

    async def program() -> None:
        for function in (outer, outer_with_a_loop):
            one, other = await run(function)
            assert one == other != threading.get_ident()
        while run.placement.counters()["placed_inline"] < 20:  # The same when it is inline, on the loop's thread.
            one, other = await run(outer)
            assert one == other

    do(program)


def test_many_tasks_of_which_many_are_cancelled_leave_nothing_behind(do: Do) -> None:
    async def program() -> None:
        tasks = [asyncio.ensure_future(run(work.burn, 0.2)) for _ in range(300)]
        await asyncio.sleep(0.005)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result == 0.2 or isinstance(result, asyncio.CancelledError) for result in results)
        assert all(result == 0.2 for result in results[1::2])

    with placed(placed_queue=1000, inline_ms=0.0) as run:
        do(program)
        until(lambda: run.lane.stats().running == run.lane.stats().queued == 0)


def test_a_full_queue_refuses_at_once(do: Do, tmp_path: Path) -> None:
    async def program() -> None:
        running = asyncio.ensure_future(run(work.held, tmp_path / "begun", tmp_path / "let go"))
        await appears(tmp_path / "begun")
        waiting = asyncio.ensure_future(run(work.echo))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await run(work.echo)
        run.permits.set_mode("off")
        further = asyncio.ensure_future(run(work.echo))
        await asyncio.sleep(0)
        (tmp_path / "let go").touch()
        assert await waiting == await further == ()
        await running

    with placed(placed_queue=1) as run:
        do(program)


def test_switched_off_calls_still_leave_the_loop_and_nothing_is_learned(do: Do, run: Placed) -> None:
    async def program() -> None:
        run.permits.set_mode("off")
        threads = {await run(threading.get_ident) for _ in range(10)}
        assert threading.get_ident() not in threads
        assert run.placement.learned() == {}
        run.permits.set_mode("on")
        while await run(threading.get_ident) != threading.get_ident():
            pass

    do(program)


def test_the_interval_is_short_only_while_a_heavy_call_runs(do: Do, run: Placed) -> None:
    async def program() -> None:
        before_s = sys.getswitchinterval()
        assert before_s > 0.001
        assert await run(sys.getswitchinterval) == pytest.approx(0.001)
        while sys.getswitchinterval() != before_s:
            await asyncio.sleep(0)
        run.permits.set_mode("observe")
        assert await run(lambda: sys.getswitchinterval()) == before_s

    do(program)


def test_a_loop_that_is_closed_meanwhile_disturbs_nobody(do: Do, run: Placed, tmp_path: Path) -> None:
    async def abandon() -> None:
        task = asyncio.ensure_future(run(work.held, tmp_path / "begun", tmp_path / "let go"))
        await appears(tmp_path / "begun")
        assert not task.done()

    async def after() -> None:
        assert await run(work.echo, 1) == (1,)

    do(abandon)
    (tmp_path / "let go").touch()
    do(after)


def test_two_loops_on_two_threads_share_the_lane(do: Do, run: Placed) -> None:
    async def program() -> list[Any]:
        return await asyncio.gather(*(run(work.echo, number) for number in range(50)))

    others: list[Any] = []
    thread = threading.Thread(target=lambda: others.append(do(program)))
    thread.start()
    mine = do(program)
    thread.join(work.LONGEST_S)
    assert [mine] == others == [[(number,) for number in range(50)]]


def test_a_call_that_is_never_awaited_never_runs_and_is_warned_of(run: Placed, tmp_path: Path) -> None:
    async def program() -> None:
        run(work.touch, tmp_path / "ran")
        gc.collect()

    with pytest.warns(RuntimeWarning, match="never awaited"):
        asyncio.run(program())
    assert not (tmp_path / "ran").exists()


def test_an_async_function_is_refused_with_a_hint(do: Do, run: Placed) -> None:
    async def fetch() -> None:
        """Nothing."""

    async def program() -> None:
        with pytest.raises(PlacementError, match="hint: await"):
            run(fetch)
        with pytest.raises(PlacementError, match="await it"):
            run(fetch())

    do(program)
