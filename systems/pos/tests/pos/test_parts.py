"""What pos's services are made of: nothing that measures is in a process that serves orders."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from greenlane_tools.lab.processes import found_by
from pos.backend.publisher import Demand
from pos.children import ROOT
from pos.contenders import look, look_at_all, together
from pos.surroundings import VARIABLE, Surroundings

LOADED = "import sys, importlib; importlib.import_module(sys.argv[1]); print(*sorted(sys.modules))"


@pytest.mark.slow
@pytest.mark.parametrize("module", ["pos.worker", "pos.backend.application", "pos.merchants.serve"])
def test_a_service_never_loads_what_measures(module: str, tmp_path: Path) -> None:
    Surroundings("amqp://nobody").write(tmp_path / "surroundings.json")
    env = {**found_by(ROOT), VARIABLE: str(tmp_path / "surroundings.json")}
    ran = subprocess.run([sys.executable, "-c", LOADED, module], env=env, check=True, stdout=subprocess.PIPE, text=True)
    loaded = ran.stdout.split()
    assert module in loaded
    assert not [
        name for name in loaded if name.startswith(("greenlane_tools.lab", "greenlane_tools.page", "pos.children"))
    ]


# --- What is made of workers' answers on their sockets.


def key(name: str, parked: int, breaker: str = "closed") -> dict[str, object]:
    return {"key": name, "parked": parked, "running": 1, "limit": 20, "breaker": breaker}


def answering(path: Path, line: bytes) -> threading.Thread:
    """Answers one question with this line."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def answer() -> None:
        with server, server.accept()[0] as asked:
            assert json.loads(asked.recv(1_000)) == {"do": "show"}
            asked.sendall(line)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_a_worker_is_asked_and_what_is_no_answer_is_none(tmp_path: Path) -> None:
    assert look(tmp_path / "nobody.sock") is None
    tasks = {"slots": 200, "keys": [key("taco", 3)]}
    for number, line in enumerate((json.dumps({"ok": True, "tasks": tasks}).encode() + b"\n", b"{\n", b"")):
        thread = answering(tmp_path / f"{number}.sock", line)
        assert look(tmp_path / f"{number}.sock") == (None if number else tasks)
        thread.join()
    assert look_at_all(tmp_path) == []


def test_several_workers_are_added_up_and_an_open_breaker_is_not_hidden() -> None:
    workers = [{"keys": [key("taco", 3), key("bento", 1, "open")]}, {"keys": [key("taco", 4), key("bento", 0)]}]
    assert together(workers) == {
        "taco": {"parked": 7, "running": 2, "limit": 40, "breaker": "closed"},
        "bento": {"parked": 1, "running": 2, "limit": 40, "breaker": "open"},
    }


# --- Orders that the backend makes up.


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
