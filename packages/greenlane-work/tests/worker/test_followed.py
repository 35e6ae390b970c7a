"""An order that is delivered again after it was done: what follows it has its result, and is called once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.worker.site import Site, eventually

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_the_next_of_a_chain_has_the_result_and_a_link_is_called_once(
    tmp_path: Path, rabbitmq_url: str, redis_url: str, start_process: StartProcess, serializer: str
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process, SERIALIZER=serializer, RESULTS=redis_url)
    store = ("--task-store", f"sqlite:///{tmp_path}/orders.db", "--task-store-lease-s", "1")
    dies = site.worker(*store)
    with site.app() as shop:
        link = shop.follows.s("linked")
        (shop.dies_when_done.s("first", serializer).set(link=link) | shop.follows.s("next")).apply_async()
        assert dies.wait_exit(timeout_s=30) == -signal.SIGKILL
        # What follows it was published by the worker that died, and is once more by this one.
        site.worker(*store)
        eventually(lambda: {"next", "linked"} <= site.ended(), timeout_s=40)
        eventually(lambda: site.left() == 0)
    written = site.written()
    assert (written["begin first"], written["end next"], written["end linked"]) == (1, 1, 1)
    kinds = {line.split()[2] for line in site.book.read_text().splitlines() if line.startswith("end ")}
    assert kinds == {"datetime" if serializer == "json" else "Odd"}


def test_task_order_names_its_tasks_and_swallows_no_others(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    store = ("--task-store", f"sqlite:///{tmp_path}/orders.db", "--task-order", "tests.worker.shop.send=args.0")
    site.worker(*store)
    site.publish("send", "one", "one", "two")
    site.publish("compute", "one", "one")
    eventually(lambda: site.written()["end two"] == 1 and site.written()["end one"] == 3)
    assert (site.written()["begin one"], site.left()) == (1, 0)


def test_a_soft_limit_while_the_store_is_waited_for_is_no_death_and_no_mark_against_the_merchant(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    import sqlite3

    site = Site(tmp_path, redis_url, start_process)
    limits = ("--task-soft-limit-s", "0.5", "--task-hard-limit-s", "30", "--task-breaker-calls", "2")
    worker = site.worker("--green", "--task-store", f"sqlite:///{tmp_path}/orders.db", *limits)
    site.publish("send", "before")
    eventually(lambda: "before" in site.ended())
    locked = sqlite3.connect(tmp_path / "orders.db", isolation_level=None)
    locked.execute("BEGIN EXCLUSIVE")
    site.publish("send", "a", "b", "c", "d")
    worker.wait_output(r"soft time limit of 0.5 s: order", timeout_s=20)
    locked.execute("ROLLBACK")
    locked.close()
    eventually(lambda: {"a", "b", "c", "d"} <= site.ended())
    assert [site.written()[f"begin {name}"] for name in "abcd"] == [1] * 4
    assert "goes to the dead letters" not in worker.output
