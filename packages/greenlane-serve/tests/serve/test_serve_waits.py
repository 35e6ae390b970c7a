"""Requests that only wait keep no place that others need, whatever the requests before them did."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.serve.served import Served, until

pytestmark = [pytest.mark.system, pytest.mark.slow]

# Of one worker: more than the model gives to requests that compute, and more than half of the threads.
WAITING = 40


def number(served: Served) -> int:
    return max(row.at_once for row in served.runtime.rows("shared") if row.server != "BACKEND")


def compute_until(served: Served, most: int) -> None:
    """Four clients that let a worker compute, until it gets this many at once."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            served.get("/burn")

    clients = [threading.Thread(target=run) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        until(lambda: number(served) <= most)
    finally:
        over.set()
        for client in clients:
            client.join()


@pytest.mark.parametrize("application", ["held:app", "looped:app"], ids=["wsgi", "asgi"])
@pytest.mark.parametrize("computes_first", [False, True], ids=["from the start", "after computing"])
def test_another_request_is_answered_while_many_wait(tmp_path: Path, application: str, computes_first: bool) -> None:
    with Served(tmp_path, application, "workers = 1\n") as served:
        if computes_first:
            compute_until(served, 2)
        else:
            assert number(served) == 64
        held = [served.hold("/x") for _ in range(WAITING)]
        for one in held:
            one.begun()
        assert served.get("/health")
        assert all(one.waits for one in held), "they still wait"
        served.finish()
