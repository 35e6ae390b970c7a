"""The store is asked for an order before a thread is woken for it, and told of its end beside the thread."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from tests.worker.site import Site, eventually

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_orders_wait_for_the_store_without_a_thread(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process)
    worker = site.worker("--task-slots", "40", "--task-store", f"sqlite:///{tmp_path}/orders.db")
    orders = [f"o{number}" for number in range(30)]
    site.publish("send", "first")
    eventually(lambda: "first" in site.ended())
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        threads = len(os.listdir(f"/proc/{worker.pid}/task"))
        site.publish("send", *orders)
        eventually(lambda: site.left() == 0)
        assert len(os.listdir(f"/proc/{worker.pid}/task")) <= threads + 1
        assert site.ended() == {"first"}
        held.execute("ROLLBACK")
    eventually(lambda: site.ended() == {"first", *orders})
    written = site.written()
    assert all(written[f"begin {order}"] == 1 for order in orders)


def test_an_order_that_is_done_is_acknowledged_only_when_the_store_knows(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process)
    store = ("--task-store", f"sqlite:///{tmp_path}/orders.db", "--task-store-lease-s", "1")
    worker = site.worker(*store)
    site.publish("send", "o", seconds=1.0)
    eventually(lambda: site.written()["begin o"] == 1)
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        eventually(lambda: "o" in site.ended())
        # Its effect is there, and nobody could write that down: the broker must still have it.
        os.kill(worker.pid, signal.SIGKILL)
        held.execute("ROLLBACK")
    eventually(lambda: site.left() == 1)


def test_a_retry_that_is_asked_for_survives_a_soft_limit_while_the_store_is_away(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    store = ("--task-store", f"sqlite:///{tmp_path}/orders.db")
    worker = site.worker(*store, "--task-soft-limit-s", "1.5", "--task-hard-limit-s", "30")
    site.publish("unsent", "u", seconds=0.7)
    eventually(lambda: site.written()["begin u"] == 1)
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        time.sleep(2.5)  # it says that nothing was sent, and then it meets its limit
        held.execute("ROLLBACK")
    eventually(lambda: "u" in site.ended())
    assert (site.written()["begin u"], site.dead()) == (3, [])
    assert "soft time limit" not in worker.output


@pytest.mark.parametrize("mode", ["--threads", "--green"])
def test_a_hard_limit_while_the_store_is_away_repeats_no_call_that_is_over(
    tmp_path: Path, redis_url: str, start_process: StartProcess, mode: str
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    store = ("--task-store", f"sqlite:///{tmp_path}/orders.db")
    worker = site.worker(mode, *store, "--task-hard-limit-s", "1.5", "--task-attempts", "1")
    for task in ("send", "own_retry"):
        site.publish(task, task, seconds=0.7)
    eventually(lambda: site.written()["begin send"] == site.written()["begin own_retry"] == 1)
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        eventually(lambda: worker.output.count("hard time limit of 1.5 s") >= 2)
        held.execute("ROLLBACK")
    eventually(lambda: {"send", "own_retry"} <= site.ended())
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert (site.written()["begin send"], site.written()["begin own_retry"]) == (1, 2)
    assert (site.left(), site.dead()) == (0, [])
