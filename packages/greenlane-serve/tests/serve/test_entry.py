"""What an ASGI worker does for each request beside the application: counted, not timed."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import deque
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from greenlane_serve.worker.asgi import _NO_HEAD, protocol
from greenlane_serve.worker.bodies import Bounds
from greenlane_serve.worker.clocks import Lateness, Tally
from greenlane_serve.worker.entry import Behind
from greenlane_serve.worker.ledger import Ledger

CLOCKS = {"monotonic", "monotonic_ns", "time_ns", "thread_time_ns", "perf_counter_ns"}
HEADERS = [(b"host", b"a"), (b"x-forwarded-for", b"1.2.3.4"), (b"x-forwarded-proto", b"https"),
           (b"x-request-start", b"t=1700000000000000")]  # fmt: skip


class Cycle:
    """As uvicorn's."""

    disconnected = False

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def receive(self) -> Any:
        return {"type": "http.request", "body": b""}


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{scope['client'][0]} {scope['scheme']}".encode()})


class Tallied:
    """An entry that samples no request, unless told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GREENLANE_CONFIG", "")
        self.ledger = Ledger()
        self.tally = Tally(self.ledger, Lateness())
        self.tally._left = 1_000_000
        self.entry = Behind(app, Bounds(0, 30.0, 500), self.tally, Lateness())

    def counted(self) -> int:
        self.tally._told_ns = 0
        self.tally.turn()
        sums = self.ledger.read()
        assert sums is not None
        return sum(row.jobs for row in sums.routes.values())


@pytest.fixture
def tallied(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tallied]:
    made = Tallied(monkeypatch)
    yield made
    made.ledger.close()


def calls(entry: Any, *more: tuple[bytes, bytes]) -> tuple[list[str], list[str], bytes]:
    """(functions of Python, of C) that one request calls, and its answer."""
    python: list[str] = []
    native: list[str] = []

    def seen(frame: FrameType, event: str, what: Any) -> None:
        if event == "call":
            python.append(frame.f_code.co_qualname)
        elif event == "c_call":
            native.append(what.__name__)

    cycle = Cycle()
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [*HEADERS, *more], "client": ("", 0),
             "scheme": "http"}  # fmt: skip
    gc.disable()  # Callbacks of a collection, hypothesis's for one, would be counted too.
    sys.setprofile(seen)
    try:
        entry(scope, cycle.receive, cycle.send).send(None)
    except StopIteration:
        pass
    finally:
        sys.setprofile(None)
        gc.enable()
    return python, native, cycle.sent[-1]["body"]


def test_a_request_behind_the_front_costs_few_calls_and_reads_no_clock(tallied: Tallied) -> None:
    python, native, said = calls(tallied.entry)
    ours = [name for name in python if name not in ("app", "Cycle.send")]
    assert len(ours) <= 11, ours
    assert not CLOCKS & set(native)
    assert said == b"1.2.3.4 https"
    assert tallied.counted() == 1


def test_once_one_brings_a_deadline_what_the_others_take_is_noted(tallied: Tallied) -> None:
    assert "served" not in calls(tallied.entry)[1]
    assert calls(tallied.entry, (b"grpc-timeout", b"10S"))[2] == b"1.2.3.4 https"
    assert {"refuses", "served"} <= set(calls(tallied.entry)[1])
    assert tallied.counted() == 3


def test_tasks_are_looked_at_only_while_a_request_is_sampled(tallied: Tallied) -> None:
    factories: list[Any] = []

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        factories.append(asyncio.get_running_loop().get_task_factory())
        await app(scope, receive, send)

    async def main() -> None:
        tallied.entry.app = asked
        tallied.entry.clocks.begin()
        for left in (1, 1_000_000):  # this one is sampled, that one is not
            tallied.tally._left = left
            cycle = Cycle()
            scope = {"type": "http", "method": "GET", "path": "/", "headers": HEADERS, "scheme": "http"}
            await tallied.entry(scope, cycle.receive, cycle.send)

    asyncio.run(main())
    assert factories[0] is not None
    assert factories[1] is None
    assert tallied.counted() == 2


def test_a_trailer_is_part_of_nothing() -> None:
    pytest.importorskip("httptools")
    assert isinstance(protocol(), type)
    _NO_HEAD.append((b"x-forwarded-proto", b"https"))
    assert _NO_HEAD == deque()
