"""`greenlane work` on a real Redis, and on a folder of files."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from redis import Redis
from tests.worker.site import Site, eventually

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]


def orders(count: int, prefix: str = "o") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_orders_on_redis_are_done_returned_and_given_back(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    room = ("--task-slots", "2", "--task-parked-most", "4", "--task-return-s", "0.1", "--task-retries", "1")
    worker = site.worker(*room)
    site.publish("send", *orders(10), merchant="slow", seconds=0.05)
    site.publish("flaky", "f", failures=1)
    eventually(lambda: {*orders(10), "f"} <= site.ended(), timeout_s=40)
    assert [site.written()[f"begin {name}"] for name in orders(10)] == [1] * 10
    site.publish("send", *orders(6, "late"), seconds=0.5)
    eventually(lambda: any(line.startswith("begin late") for line in site.written()))
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    begun = [name for name in orders(6, "late") if site.written()[f"begin {name}"]]
    frozen = site.worker("--green")
    eventually(lambda: set(orders(6, "late")) <= site.ended())
    assert len(begun) < 6
    assert [site.written()[f"begin {name}"] for name in orders(6, "late")] == [1] * 6
    with Redis.from_url(redis_url) as client:
        eventually(lambda: client.hlen("unacked") == 0)
        # Whatever it had asked Redis for is answered while it cannot listen, and then it is dead.
        frozen.signal(signal.SIGSTOP)
        site.publish("send", *orders(5, "left"))
        frozen.signal(signal.SIGKILL)
        assert frozen.wait_exit() == -signal.SIGKILL
        assert client.llen(site.queue) + client.hlen("unacked") == 5


def test_what_a_killed_worker_had_comes_back_though_another_left_kombus_lock_behind(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    # The least that is accepted: an order stays for less than the time after which Redis gives it to others.
    brief = ("--task-parked-most-s", "1", "--task-retry-most-s", "0.1", "--task-shutdown-s", "0.1")
    soon = json.dumps({"visibility_timeout": 2, "unacked_restore_interval": 1, "unacked_restore_throttle": 1})
    killed = site.worker(*brief, TRANSPORT=soon)
    site.publish("send", "o", seconds=60)
    eventually(lambda: site.written()["begin o"] == 1)
    killed.signal(signal.SIGKILL)
    assert killed.wait_exit() == -signal.SIGKILL
    with Redis.from_url(redis_url) as client:
        client.set("unacked_mutex", "whoever asked for it when Redis stood still", ex=300)
        try:
            site.worker(*brief, TRANSPORT=soon)
            eventually(lambda: site.written()["begin o"] == 2)
        finally:
            client.delete("unacked_mutex")


def test_a_folder_is_a_broker_for_a_demonstration_only(tmp_path: Path, start_process: StartProcess) -> None:
    site = Site(tmp_path, "filesystem://", start_process)
    refused = site.worker(ready=False)
    assert refused.wait_exit() == 2
    assert "broker_url='filesystem://" in refused.output
    assert 'hint: for a demonstration: task_allow = ["broker"]' in refused.output
    site.worker("--task-allow", "broker")
    site.publish("send", *orders(5))
    eventually(lambda: set(orders(5)) <= site.ended())
