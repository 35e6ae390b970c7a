"""The ASGI middleware: where synchronous code of Starlette and FastAPI runs, deadlines, refusals."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import os
import random
import statistics
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.placement import work

import greenlane
from greenlane.errors import SettingsError
from greenlane.hosts import asgi_threads
from greenlane.hosts.asgi import SYNCHRONOUS, Greenlane
from greenlane.wiring import placed_calls, process

fastapi = pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")
anyio = pytest.importorskip("anyio")

pytestmark = [pytest.mark.slow, pytest.mark.measured]

LANE = "greenlane-lane"
#: Less is lost in what a thread's wake-up takes, s.
_SLACK_S = 0.002
USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="")


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Each test starts Greenlane again; what is learned of its functions stays, so each has functions of its own."""
    yield
    stop()


def stop() -> None:
    SYNCHRONOUS.uninstall()
    running = process.running()
    if running is not None:
        running.stop()


def here() -> str:
    return threading.current_thread().name


def served(app: Any, program: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Run a program with a client of the application behind the middleware."""
    return asked(Greenlane(app), program)


def asked(app: Any, program: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await program(client)

    return asyncio.run(run())


async def until_it_says(client: Any, path: str, wanted: Callable[[Any], bool]) -> Any:
    """Ask again and again, as it is being learned; failing to get there fails the test."""
    give_up = time.monotonic() + work.LONGEST_S
    while True:
        said = (await client.get(path)).json()
        if wanted(said):
            return said
        assert time.monotonic() < give_up, said


def test_an_endpoint_that_computes_goes_to_the_lane_once_it_is_known() -> None:
    app = fastapi.FastAPI()

    @app.get("/quote")
    def quote() -> str:
        work.burn(6)
        return here()

    async def program(client: Any) -> None:
        assert (await client.get("/quote")).json() != LANE
        await until_it_says(client, "/quote", lambda thread: thread == LANE)

    served(app, program)
    assert any(row.endswith("quote") for row in placed_calls.placement().learned())


def test_a_short_endpoint_never_queues_behind_those_that_compute_for_long() -> None:
    app = fastapi.FastAPI()

    @app.get("/short")
    def short() -> str:
        work.burn(2)
        return here()

    @app.get("/long")
    def long() -> str:
        work.burn(30)
        return here()

    async def program(client: Any) -> None:
        await until_it_says(client, "/long", lambda thread: thread == LANE)
        for _ in range(8):
            queue = [asyncio.ensure_future(client.get("/long")) for _ in range(8)]
            await asyncio.sleep(0.005)
            answer = await client.get("/short")
            assert answer.json() != LANE
            assert sum(not one.done() for one in queue) >= 4, "it has waited for those that compute"
            await asyncio.gather(*queue)

    served(app, program)


def test_a_long_endpoint_stops_no_other(tmp_path: Path) -> None:
    app = fastapi.FastAPI()
    begun, let_go = tmp_path / "begun", tmp_path / "let go"

    @app.get("/long")
    def long() -> str:
        work.burn(6)
        work.held(begun, let_go)
        return here()

    @app.get("/quote")
    def quote() -> str:
        work.burn(45)
        return here()

    async def program(client: Any) -> None:
        let_go.touch()
        for path in ("/long", "/quote"):
            await until_it_says(client, path, lambda thread: thread == LANE)
        begun.unlink()
        let_go.unlink()
        running = asyncio.ensure_future(client.get("/long"))
        while not begun.exists():
            await asyncio.sleep(0.001)
        answers = await asyncio.gather(*[client.get("/quote") for _ in range(8)])
        assert [answer.json() for answer in answers] == [LANE] * 8
        assert not running.done(), "they have waited for its end"
        let_go.touch()
        await running

    served(app, program)


def test_neither_short_nor_long_endpoints_pay_for_turns() -> None:
    app = fastapi.FastAPI()

    @app.get("/tiny")
    def tiny() -> str:
        work.burn(1)
        return here()

    @app.get("/big")
    def big() -> str:
        work.burn(45)
        return here()

    async def warm(client: Any) -> None:
        await until_it_says(client, "/big", lambda thread: thread == LANE)

    due_s = drawn(random.Random(1), {"/tiny": 0.015, "/big": 0.11}, 1.4)
    took_s: dict[tuple[str, str], list[float]] = {}
    for mode in ("on", "off") * 3:
        for path, latencies_s in measured(app, mode, warm, due_s).items():
            took_s.setdefault((path, mode), []).extend(latencies_s)
    ratios = {}
    for path in ("/tiny", "/big"):
        for name, part in (("p50", 0.5), ("p99", 0.99)):
            on_s, off_s = (percentile(took_s[path, mode], part) for mode in ("on", "off"))
            ratios[path, name] = on_s / (off_s + _SLACK_S)
    print({key: round(ratio, 2) for key, ratio in ratios.items()})
    assert max(ratios.values()) <= 1.2, ratios


@pytest.mark.soak
def test_no_endpoint_pays_for_one_of_1500_ms() -> None:
    app = fastapi.FastAPI()

    @app.get("/short")
    def short() -> str:
        work.burn(6)
        return here()

    @app.get("/quote")
    def quote() -> str:
        work.burn(45)
        return here()

    @app.get("/long")
    def long() -> str:
        work.burn(1500)
        return here()

    async def warm(client: Any) -> None:
        for path in ("/short", "/quote", "/long"):
            await until_it_says(client, path, lambda thread: thread == LANE)

    ratios: dict[str, list[float]] = {}
    for seed in range(4):  # Each with other arrivals: with one pattern of arrivals alone a rule may pass by luck.
        due_s = [(0.2, "/long"), *drawn(random.Random(seed), {"/short": 0.06, "/quote": 0.09}, 2.2)]
        on_s, off_s = (measured(app, mode, warm, due_s) for mode in ("on", "off"))
        for path, latencies_s in on_s.items():
            ratios.setdefault(path, []).append(statistics.mean(latencies_s) / (statistics.mean(off_s[path]) + _SLACK_S))
    print({path: [round(ratio, 2) for ratio in found] for path, found in ratios.items()})
    assert max(statistics.median(found) for found in ratios.values()) <= 1.2, ratios


def drawn(drawn: random.Random, every_s: dict[str, float], until_s: float) -> list[tuple[float, str]]:
    """When requests are due, by a Poisson process for each path."""
    found = []
    for path, mean_s in every_s.items():
        at_s = 0.0
        while (at_s := at_s + drawn.expovariate(1 / mean_s)) < until_s:
            found.append((at_s, path))
    return found


def measured(
    app: Any, mode: str, warm: Callable[[Any], Coroutine[Any, Any, None]], due_s: list[tuple[float, str]]
) -> dict[str, list[float]]:
    """Latencies by path, s, from when each request was due."""
    found: dict[str, list[float]] = {}

    async def paced(client: Any) -> None:
        if mode == "on":
            await warm(client)
        began_s = time.monotonic() + 0.01

        async def ask(at_s: float, path: str) -> None:
            await asyncio.sleep(began_s + at_s - time.monotonic())
            assert (await client.get(path)).status_code == 200
            found.setdefault(path, []).append(time.monotonic() - began_s - at_s)

        await asyncio.gather(*[ask(*each) for each in due_s])

    if mode == "on":
        served(app, paced)
        stop()
    else:
        asked(app, paced)
    return found


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))]


def test_an_endpoint_that_blocks_stays_on_threads_of_its_own_also_if_it_computes_too() -> None:
    app = fastapi.FastAPI()

    @app.get("/blocks")
    def blocks() -> str:
        time.sleep(0.005)
        return here()

    @app.get("/mixed")
    def mixed() -> str:
        work.burn(6)
        time.sleep(0.001)
        return here()

    async def program(client: Any) -> None:
        for path in ("/blocks", "/mixed") * 8:
            assert (await client.get(path)).json() != LANE

    served(app, program)


def test_a_dependency_and_a_background_task_are_placed_as_endpoints_are() -> None:
    app = fastapi.FastAPI()
    after: list[str] = []

    def features() -> str:
        work.burn(6)
        return here()

    def report() -> None:
        work.burn(6)
        after.append(here())

    @app.get("/")
    async def answer(background: fastapi.BackgroundTasks, thread: str = fastapi.Depends(features)) -> dict[str, str]:
        background.add_task(report)
        return {"dependency": thread, "background": after[-1] if after else ""}

    async def program(client: Any) -> None:
        await until_it_says(client, "/", lambda said: set(said.values()) == {LANE})

    # FastAPI reads the annotations where they are defined.
    answer.__annotations__ = {"background": fastapi.BackgroundTasks, "thread": str}
    app = fastapi.FastAPI()
    app.get("/")(answer)
    served(app, program)


def test_dependencies_with_yield_are_told_apart_by_their_functions() -> None:
    def session() -> Iterator[int]:
        yield 1

    names = {asgi_threads.name_of(asgi_threads._function(made.__enter__)) for made in _managers(session)}
    assert len(names) == 2
    assert any(name.endswith("session") for name in names)


def _managers(session: Any) -> list[Any]:
    import contextlib

    def other() -> Iterator[int]:
        yield 2

    return [contextlib.contextmanager(each)() for each in (session, other)]


@pytest.mark.gate
def test_marks_decide(tmp_path: Path) -> None:
    app = fastapi.FastAPI()

    @app.get("/light")
    @greenlane.light
    def light() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def program(client: Any) -> None:
        assert (await client.get("/light")).json() is True

    served(app, program)


def test_a_wrong_setting_is_said_even_where_the_server_passes_over_what_is_raised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GREENLANE_MOD", "on")
    with pytest.raises(SettingsError):
        Greenlane(fastapi.FastAPI())
    assert "did you mean 'GREENLANE_MODE'?" in caplog.text


def test_switched_off_anyio_runs_everything_as_it_would() -> None:
    app = fastapi.FastAPI()

    @app.get("/off")
    def computes_when_off() -> str:
        work.burn(6)
        return here()

    async def program(client: Any) -> None:
        await until_it_says(client, "/off", lambda thread: thread == LANE)
        running = process.running()
        assert running is not None
        running.set_mode("off")
        assert (await client.get("/off")).json() == "AnyIO worker thread"
        running.set_mode("on")
        assert (await client.get("/off")).json() == LANE

    served(app, program)


def test_on_the_lane_context_goes_in_and_the_loop_can_be_called_back() -> None:
    app = fastapi.FastAPI()

    @app.get("/")
    def calls_back() -> list[str]:
        work.burn(6)

        async def on_loop() -> str:
            return here()

        if here() != LANE:  # RemoteExecutors it would block, and never come to the lane.
            return [here(), "", USER.get()]
        anyio.from_thread.check_cancelled()
        return [here(), anyio.from_thread.run(on_loop), USER.get()]

    async def program(client: Any) -> None:
        USER.set("ada")
        said = await until_it_says(client, "/", lambda said: said[0] == LANE)
        assert said == [LANE, threading.main_thread().name, "ada"]

    served(app, program)


def test_what_an_endpoint_raises_on_the_lane_is_raised_to_the_framework() -> None:
    app = fastapi.FastAPI()

    @app.get("/")
    def teapot() -> None:
        work.burn(6)
        raise fastapi.HTTPException(418, here())

    async def program(client: Any) -> None:
        await until_it_says(client, "/", lambda said: said["detail"] == LANE)
        assert (await client.get("/")).status_code == 418

    served(app, program)


def test_a_cancelled_request_waits_for_its_function_once_that_has_begun(tmp_path: Path) -> None:
    from anyio import to_thread

    begun, let_go, ended = tmp_path / "begun", tmp_path / "let go", tmp_path / "ended"

    def computes_until_let_go() -> str:
        work.burn(6)
        work.held(begun, let_go)
        ended.touch()
        return here()

    async def program(_: Any) -> None:
        let_go.touch()
        while await to_thread.run_sync(computes_until_let_go) != LANE:
            pass
        for file in (begun, let_go, ended):
            file.unlink()
        running = asyncio.create_task(to_thread.run_sync(computes_until_let_go))
        while not begun.exists():
            await asyncio.sleep(0.001)
        waiting = asyncio.create_task(to_thread.run_sync(computes_until_let_go))
        lane = placed_calls.placement().lane
        while lane.stats().queued == 0:
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert lane.stats().queued == 0, "one that has not begun is free at once"
        for _ in range(3):
            running.cancel()
            await asyncio.sleep(0.005)
        assert not running.done()
        let_go.touch()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended.exists()

    served(fastapi.FastAPI(), program)


def test_a_limiter_of_the_applications_own_is_left_alone() -> None:
    from anyio import to_thread

    def limited() -> str:
        work.burn(6)
        return here()

    async def program(_: Any) -> None:
        limiter = anyio.CapacityLimiter(1)
        assert {await to_thread.run_sync(limited, limiter=limiter) for _ in range(8)} == {"AnyIO worker thread"}

    served(fastapi.FastAPI(), program)


def test_blocking_functions_have_more_threads_than_anyio_gives_unless_the_application_says_otherwise() -> None:
    from anyio import to_thread

    async def most_at_once(patience_s: float) -> int:
        inside, most, all_in = 0, 0, threading.Event()

        def waits() -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            if inside == 45:
                all_in.set()
            all_in.wait(patience_s)
            inside -= 1

        async with anyio.create_task_group() as group:
            for _ in range(45):
                group.start_soon(to_thread.run_sync, waits)
        return most

    async def program(_: Any) -> None:
        assert await most_at_once(work.LONGEST_S) == 45
        limiter = to_thread.current_default_thread_limiter()
        assert limiter.borrowed_tokens == 0
        limiter.total_tokens = 5
        assert await most_at_once(0.01) <= 5

    served(fastapi.FastAPI(), program)


async def asked_while_threads_block(client: Any, path: str, threads: int) -> list[Any]:
    """Ask 20 times while this many functions wait on threads."""
    from anyio import to_thread

    over = threading.Event()
    async with anyio.create_task_group() as group:
        for _ in range(threads):
            group.start_soon(to_thread.run_sync, over.wait)
        try:
            await asyncio.sleep(0.05)
            answers = [asyncio.wait_for(client.get(path), work.LONGEST_S / 4) for _ in range(20)]
            return [each.json() for each in await asyncio.gather(*answers)]
        finally:
            over.set()


@pytest.mark.parametrize("threads_of_its_own", [0, 70])
def test_what_is_short_never_waits_for_the_threads_that_block(threads_of_its_own: int) -> None:
    from anyio import to_thread

    app = fastapi.FastAPI()

    @app.get("/alive")
    def alive() -> str:
        return "yes"

    async def program(client: Any) -> None:
        if threads_of_its_own:
            to_thread.current_default_thread_limiter().total_tokens = threads_of_its_own
        for _ in range(5):
            await client.get("/alive")
        assert await asked_while_threads_block(client, "/alive", 80) == ["yes"] * 20

    served(app, program)


def test_what_is_short_stays_so_while_others_compute() -> None:
    app = fastapi.FastAPI()

    @app.get("/ready")
    def ready() -> str:
        work.burn(2)
        for _ in range(3):
            os.stat("/")  # Gives the GIL up, and has to wait for it.
        return "yes"

    @app.get("/mixed")
    def mixed() -> str:
        work.burn(20)
        time.sleep(0.01)
        work.burn(20)
        return "done"

    async def program(client: Any) -> None:
        for path in ("/mixed", "/ready") * 5:
            await client.get(path)
        for _ in range(4):
            others = [asyncio.ensure_future(client.get("/mixed")) for _ in range(4)]
            await asyncio.gather(*[client.get("/ready") for _ in range(5)])
            await asyncio.gather(*others)
        assert await asked_while_threads_block(client, "/ready", 80) == ["yes"] * 20

    served(app, program)


def test_what_blocks_where_nobody_sees_it_is_not_short() -> None:
    def in_c() -> None:
        ctypes.CDLL(None).usleep(30_000)

    async def program(_: Any) -> None:
        for _ in range(5):
            await anyio.to_thread.run_sync(in_c)
        assert not placed_calls.placement().is_short(asgi_threads.name_of(in_c))

    served(fastapi.FastAPI(), program)


def test_the_default_limiter_counts_the_threads_that_block() -> None:
    from anyio import from_thread, to_thread

    async def program(_: Any) -> None:
        limiter = to_thread.current_default_thread_limiter()

        def counted() -> Any:
            return from_thread.run_sync(lambda: limiter.borrowed_tokens)

        assert {await to_thread.run_sync(counted) for _ in range(3)} == {1}
        assert limiter.borrowed_tokens == 0

    served(fastapi.FastAPI(), program)


def test_a_deadline_from_the_headers_holds_for_placed_calls_and_answers_504() -> None:
    app = fastapi.FastAPI()

    @app.get("/")
    async def late() -> None:
        await greenlane.run(work.burn, 2000)

    @app.get("/checked")
    async def checked() -> str:
        greenlane.checkpoint()
        return "in time"

    async def program(client: Any) -> None:
        headers = {"x-envoy-expected-rq-timeout-ms": "30"}
        began = time.monotonic()
        assert (await client.get("/", headers=headers)).status_code == 504
        assert time.monotonic() - began < 2
        assert (await client.get("/checked")).json() == "in time"

    served(app, program)


def test_an_overloaded_lane_answers_503_with_the_time_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    app = fastapi.FastAPI()

    @app.get("/")
    async def refused() -> None:
        raise greenlane.Overloaded("place a function")

    async def program(client: Any) -> None:
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")

    served(app, program)


def test_a_response_that_has_begun_stays_what_it_is() -> None:
    from starlette.responses import StreamingResponse

    app = fastapi.FastAPI()

    async def parts() -> AsyncIterator[bytes]:
        yield b"begun"
        raise greenlane.DeadlineExceeded

    async def stream() -> Any:
        return StreamingResponse(parts())

    app.add_api_route("/", stream)

    async def program(client: Any) -> None:
        with pytest.raises(greenlane.DeadlineExceeded):
            await client.get("/")

    served(app, program)


def test_it_can_be_added_as_the_frameworks_middleware() -> None:
    app = fastapi.FastAPI()
    app.add_middleware(Greenlane)

    @app.get("/added")
    def added() -> str:
        work.burn(6)
        return here()

    async def run() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
            await until_it_says(client, "/added", lambda thread: thread == LANE)

    asyncio.run(run())
