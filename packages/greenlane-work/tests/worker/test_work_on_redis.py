"""`greenlane celery` on a real Redis, and on a folder of files."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from tests.worker.site import Site, eventually, told

from tests.child import free_port
from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]


def orders(count: int, prefix: str = "o") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@pytest.mark.gate
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
        eventually(lambda: _unacknowledged(client, site.queue) == 0)
        # Whatever it had asked Redis for is answered while it cannot listen, and then it is dead.
        frozen.signal(signal.SIGSTOP)
        site.publish("send", *orders(5, "left"))
        frozen.signal(signal.SIGKILL)
        assert frozen.wait_exit() == -signal.SIGKILL
        assert client.llen(site.queue) + _unacknowledged(client, site.queue) == 5


def _unacknowledged(client: Redis, queue: str) -> int:
    """Of this queue: other tests' workers, which were killed, have left theirs on the same server."""
    return sum(queue.encode() in message for message in client.hvals("unacked"))


def test_what_a_killed_worker_had_comes_back_though_another_left_kombus_lock_behind(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    # The least that is accepted: an order stays for less than the time after which Redis gives it to others.
    brief = ("--task-parked-most-s", "1", "--task-shutdown-s", "0.1")
    soon = json.dumps({"visibility_timeout": 3, "unacked_restore_interval": 1, "unacked_restore_throttle": 1})
    killed = site.worker(*brief, TRANSPORT=soon)
    site.publish("send", "o", seconds=60)
    eventually(lambda: site.written()["begin o"] == 1)
    killed.signal(signal.SIGKILL)
    assert killed.wait_exit() == -signal.SIGKILL
    with Redis.from_url(redis_url) as client:
        client.set("unacked_mutex", "a worker that asked for it before Redis stopped", ex=300)
        try:
            site.worker(*brief, TRANSPORT=soon)
            eventually(lambda: site.written()["begin o"] == 2)
        finally:
            client.delete("unacked_mutex")


#: Little room, so most orders are returned.
ROOM = ("--task-slots", "1", "--task-parked-most", "2")


@pytest.fixture
def returned(tmp_path: Path, redis_url: str, start_process: StartProcess) -> Site:
    """Ten orders of several priorities, below a prefix of keys, of which a worker that is gone has returned some."""
    transport = {"global_keyprefix": f"{tmp_path.name}:", "priority_steps": [0, 3, 6, 9]}
    site = Site(tmp_path, redis_url, start_process, TRANSPORT=json.dumps(transport))
    with site.app() as shop:
        for number, name in enumerate(orders(10)):
            shop.send.apply_async((name,), {"seconds": 0.2}, priority=number)
    worker = site.worker(*ROOM, "--task-return-s", "2")
    with Redis.from_url(redis_url) as client:
        eventually(lambda: client.zcard(f"{tmp_path.name}:{site.queue}.later") >= 3)
    worker.signal(signal.SIGKILL)
    assert worker.wait_exit() == -signal.SIGKILL
    return site


def test_returned_orders_are_found_with_another_return_time_priority_and_prefix(returned: Site) -> None:
    waiting = {json.loads(json.loads(text)["headers"]["argsrepr"].replace("'", '"')[1:-2]) for text in later(returned)}
    returned.worker("--task-return-s", "7")
    eventually(lambda: waiting <= returned.ended())


def test_returned_orders_are_found_by_a_worker_that_is_told_of_their_queue_later(returned: Site) -> None:
    count = len(later(returned))
    queue, returned.queue = returned.queue, "another-queue"
    returned.worker()
    with returned.app() as shop:
        shop.app.control.add_consumer(queue)
    before = len(returned.ended())
    eventually(lambda: len(returned.ended()) >= before + count)


def test_several_workers_put_an_order_back_no_sooner_than_one(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    ports = [free_port() for _ in range(3)]
    for port in ports:
        site.worker("--task-parked-most-s", "1", "--task-return-s", "0.2", "--task-metrics", f"127.0.0.1:{port}")
    with site.app() as shop:
        for name in orders(20):
            shop.send.apply_async((name,), {"not_before": time.time() + 3}, countdown=3)
    eventually(lambda: set(orders(20)) <= site.ended())
    returned = 0
    for port in ports:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        returned += sum(
            int(line.split()[1]) for line in text.splitlines() if line.startswith("greenlane_orders_returned")
        )
    assert returned == 20
    assert [site.written()[f"begin {name}"] for name in orders(20)] == [1] * 20


def later(site: Site) -> list[str]:
    """The orders that wait at the broker."""
    with Redis.from_url(site.broker, decode_responses=True) as client:
        return list(client.zrange(f"{site.folder.name}:{site.queue}.later", 0, -1))


def test_of_exceptions_only_their_types_are_kept_where_somebody_wants_that_and_metrics_stay_on_this_machine(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site, port = Site(tmp_path, redis_url, start_process), free_port()
    store = f"sqlite:///{tmp_path}/orders.db"
    site.worker("--task-reason-characters", "0", "--task-metrics", str(port), "--task-store", store)
    site.publish("flaky", "f", failures=9)
    site.publish("rejected", "r")
    with site.app() as shop, shop.app.connection_for_write() as connection:
        headers = {"task": f"{shop.__name__}.send", "id": "x", "eta": "hung up"}
        connection.Producer().publish([["o"], {}, {}], headers=headers, exchange="", routing_key=site.queue)
    found: list[tuple[bytes, dict[str, Any]]] = []

    def dead() -> bool:
        found.extend(site.dead())
        return len(found) == 3

    eventually(dead)
    said = {told(headers)["said"] for _, headers in found}
    assert said == {"ConnectionResetError", "ValueError", "it is no valid task: InvalidTaskError"}
    assert "hung up" not in str([headers[name] for _, headers in found for name in headers if "greenlane-" in name])
    assert b"hung up" not in b"".join(path.read_bytes() for path in tmp_path.glob("orders.db*"))
    assert b"greenlane_upstream_parked" in urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read()


def test_orders_of_a_merchant_that_is_down_are_looked_at_no_faster_than_it_could_take_them(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site, port = Site(tmp_path, redis_url, start_process), free_port()
    room = ("--task-slots", "4", "--task-parked-most", "40", "--task-return-s", "0.2", "--task-limit", "1")
    with site.app() as shop:
        with shop.app.producer_or_acquire() as producer:
            for name in orders(2_000):
                shop.send.apply_async((name,), {"merchant": "down", "seconds": 60}, producer=producer)
        worker = site.worker(
            *room, "--task-shutdown-s", "0.1", "--task-metrics", str(port), "--", "-l", "WARNING", ready=False
        )

        def returned() -> int:
            text = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read().decode()
            (line,) = [line for line in text.splitlines() if line.startswith("greenlane_orders_returned")]
            return int(line.split()[1])

        eventually(lambda: "begin o0" in site.written() and returned() >= 1_900, timeout_s=60)
        with Redis.from_url(redis_url) as client:
            eventually(lambda: client.zcard(f"{site.queue}.later") >= 1_900)
        before, began = returned(), time.monotonic()
        site.publish("send", *orders(20, "well"), merchant="well")
        eventually(lambda: set(orders(20, "well")) <= site.ended(), timeout_s=10)
        time.sleep(max(0.0, began + 5 - time.monotonic()))
        # Some are returned for the first time. Every 3.2 s each it would be three thousand.
        assert returned() - before <= 100 + 30 * (time.monotonic() - began)
    worker.signal(signal.SIGTERM)
    worker.wait_exit()


def test_a_folder_is_a_broker_for_a_demonstration_only(tmp_path: Path, start_process: StartProcess) -> None:
    site = Site(tmp_path, "filesystem://", start_process)
    refused = site.worker(ready=False)
    assert refused.wait_exit() == 2
    assert "broker_url='filesystem://" in refused.output
    assert 'hint: for a demonstration: task_allow = ["broker"]' in refused.output
    site.worker("--task-allow", "broker")
    site.publish("send", *orders(5))
    eventually(lambda: set(orders(5)) <= site.ended())


def test_a_worker_that_starts_hands_orders_to_where_others_wait_already(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    for number in (1, 2):
        worker = site.worker()
        with site.app() as shop:
            shop.send.apply_async((f"far{number}",), countdown=3600)
        with Redis.from_url(redis_url) as client:
            eventually(lambda client=client, number=number: client.zcard(f"{site.queue}.later") == number)
        worker.signal(signal.SIGTERM)
        assert worker.wait_exit() == 0
        assert "cannot be handed" not in worker.output


def test_an_attempt_that_was_published_is_no_death_where_the_result_backend_is_away(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    worker = site.worker()
    site.publish("unstored_retry", "r")
    eventually(lambda: "r" in site.ended())
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert (site.written()["begin r"], site.dead()) == (2, [])


@pytest.mark.parametrize("limits", [("--task-hard-limit-s", "100"), ("--task-soft-limit-s", "95")])
def test_a_visibility_timeout_that_ends_before_a_run_may_is_refused(
    tmp_path: Path, redis_url: str, start_process: StartProcess, limits: tuple[str, ...]
) -> None:
    site = Site(tmp_path, redis_url, start_process, TRANSPORT='{"visibility_timeout": 121}')
    worker = site.worker("--task-parked-most-s", "1", *limits, ready=False)
    assert worker.wait_exit() == 2
    assert "expected at least 122 s" in worker.output


@pytest.mark.parametrize("kept", [False, True])
def test_a_hook_that_hangs_is_called_once_and_its_order_is_done(
    tmp_path: Path, redis_url: str, start_process: StartProcess, kept: bool
) -> None:
    site = Site(tmp_path, redis_url, start_process, **({"RESULTS": redis_url} if kept else {}))
    worker = site.worker("--task-shutdown-s", "0.1")
    site.publish("hangs_when_done", "o")
    worker.wait_output("is given up")
    with Redis.from_url(redis_url) as client:
        eventually(lambda: not _unacknowledged(client, site.queue), timeout_s=5)
    assert (site.written()["end o"], site.written()["hook o"], site.left(), site.dead()) == (1, 1, 0, [])
