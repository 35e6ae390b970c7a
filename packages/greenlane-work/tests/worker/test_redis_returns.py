"""Redis dies, hangs or drops its connections, and comes back: what a worker had is done once, and stays nowhere."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection
from redis import Redis as Client
from tests.worker.site import Site
from tests.worker.site import eventually as eventually_within

from greenlane_work.worker.redis_leases import Leases
from greenlane_work.worker.redis_take import take_safely
from tests.fixtures import StartProcess
from tests.servers import Redis

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Celery connects again after 2, 4 and 6 s.
eventually = functools.partial(eventually_within, timeout_s=60)
#: Each command is on the disk before it is answered.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def server() -> Iterator[Redis]:
    """A Redis of this test alone that forgets nothing."""
    with Redis(*DURABLE) as redis:
        yield redis


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Orders end when it is gone."""
    path = tmp_path / "gate"
    path.touch()
    return path


def kill(server: Redis) -> None:
    """SIGKILL; `server.start()` brings it back."""
    os.kill(server.pid, signal.SIGKILL)
    server.stop()


def kill_and_start(server: Redis, _site: Site) -> None:
    kill(server)
    server.start()


def reset(server: Redis, _site: Site) -> None:
    with Client.from_url(server.url) as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def freeze(server: Redis, site: Site) -> None:
    """Until orders have ended meanwhile."""
    before = len(site.ended())
    os.kill(server.pid, signal.SIGSTOP)
    eventually(lambda: len(site.ended()) > before)
    os.kill(server.pid, signal.SIGCONT)


def unacknowledged(server: Redis) -> tuple[int, int]:
    """What somebody has taken: in the hash, and in its index."""
    with Client.from_url(server.url) as client:
        return client.hlen("unacked"), client.zcard("unacked_index")


def orders(count: int, prefix: str = "o") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def publish(site: Site, *names: str, seconds: float, **options: object) -> None:
    """Some merchants, so that more run at the same time."""
    with site.app() as shop, shop.app.producer_or_acquire() as producer:
        for number, name in enumerate(names):
            arguments = {"merchant": f"m{number % 10}", "seconds": seconds}
            shop.send.apply_async((name,), arguments, producer=producer, **options)


@pytest.mark.parametrize("pool", [(), ("--green",)], ids=["threads", "green"])
@pytest.mark.parametrize("fault", [kill_and_start, reset, freeze])
def test_what_two_workers_had_is_done_once_and_acknowledged_when_redis_is_back(
    tmp_path: Path,
    server: Redis,
    start_process: StartProcess,
    fault: Callable[[Redis, Site], None],
    pool: tuple[str, ...],
) -> None:
    site = Site(tmp_path, server.url, start_process)
    for _ in range(2):
        site.worker(*pool, "--task-slots", "20")
    publish(site, *orders(100), seconds=1)
    eventually(lambda: len(site.ended()) >= 20)
    fault(server, site)
    eventually(lambda: set(orders(100)) <= site.ended() and unacknowledged(server) == (0, 0))
    written = site.written()
    assert [(written[f"begin {name}"], written[f"end {name}"]) for name in orders(100)] == [(1, 1)] * 100
    assert site.left() == 0


def test_what_ends_while_redis_is_away_is_acknowledged_later(
    tmp_path: Path, server: Redis, start_process: StartProcess
) -> None:
    site = Site(tmp_path, server.url, start_process)
    site.worker()
    publish(site, *orders(20), seconds=1)
    eventually(lambda: "begin o0" in site.written())
    begun = {name for name in orders(20) if site.written()[f"begin {name}"]}
    kill(server)
    eventually(lambda: begun <= site.ended())
    server.start()
    eventually(lambda: set(orders(20)) <= site.ended() and unacknowledged(server) == (0, 0))
    assert [site.written()[f"begin {name}"] for name in orders(20)] == [1] * 20


def test_an_order_acknowledged_before_its_call_is_called_once(
    tmp_path: Path, server: Redis, start_process: StartProcess
) -> None:
    site = Site(tmp_path, server.url, start_process, ACKS="early")
    site.worker("--task-allow", "early-ack", "--task-slots", "4")
    publish(site, *orders(30), seconds=0.3)
    eventually(lambda: len(site.ended()) >= 4)
    kill_and_start(server, site)
    eventually(lambda: set(orders(30)) <= site.ended() and unacknowledged(server) == (0, 0))
    assert [site.written()[f"begin {name}"] for name in orders(30)] == [1] * 30


def test_an_order_with_a_time_keeps_it(tmp_path: Path, server: Redis, start_process: StartProcess) -> None:
    site = Site(tmp_path, server.url, start_process)
    for _ in range(2):
        site.worker()
    publish(site, *orders(20), seconds=0, countdown=6)
    eventually(lambda: unacknowledged(server)[0] == 20)
    kill_and_start(server, site)
    eventually(lambda: set(orders(20)) <= site.ended() and unacknowledged(server) == (0, 0))
    assert [site.written()[f"begin {name}"] for name in orders(20)] == [1] * 20


def test_an_order_that_fails_while_redis_is_away_becomes_one_dead_letter(
    tmp_path: Path, server: Redis, start_process: StartProcess, gate: Path
) -> None:
    site = Site(tmp_path, server.url, start_process)
    site.worker()
    site.publish("fails_after", *orders(5), gate=str(gate))
    eventually(lambda: all(site.written()[f"begin {name}"] for name in orders(5)))
    kill(server)
    gate.unlink()
    eventually(lambda: all(site.written()[f"failed {name}"] for name in orders(5)))
    server.start()
    eventually(lambda: unacknowledged(server) == (0, 0))
    assert [site.written()[f"begin {name}"] for name in orders(5)] == [1] * 5
    assert len(site.dead()) == 5


def test_a_worker_that_ends_acknowledges_what_ended_though_redis_was_away_then(
    tmp_path: Path, server: Redis, start_process: StartProcess, gate: Path
) -> None:
    site = Site(tmp_path, server.url, start_process)
    worker = site.worker("--task-slots", "5")
    site.publish("waits", *orders(20), gate=str(gate))
    eventually(lambda: len(site.begun()) == 5)
    worker.signal(signal.SIGTERM)
    worker.wait_output("ending: ")
    kill(server)
    gate.unlink()
    eventually(lambda: len(site.ended()) == 5)
    server.start()
    assert worker.wait_exit() == 0
    assert (unacknowledged(server), site.left()) == ((0, 0), 15)
    assert site.begun() == site.ended()


def test_a_worker_that_is_ended_while_redis_is_away_gives_back_what_it_had_when_redis_is_there_in_time(
    tmp_path: Path, server: Redis, start_process: StartProcess, gate: Path
) -> None:
    site = Site(tmp_path, server.url, start_process)
    worker = site.worker("--task-slots", "5")
    site.publish("waits", *orders(20), gate=str(gate))
    eventually(lambda: len(site.begun()) == 5)
    kill(server)
    worker.wait_output("Cannot connect to redis")
    worker.signal(signal.SIGTERM)
    worker.wait_output("ending: ")
    server.start()
    gate.unlink()
    assert worker.wait_exit() == 0
    assert (unacknowledged(server), site.left()) == ((0, 0), 15)
    assert (site.begun(), len(site.ended())) == (site.ended(), 5)


def test_a_redis_that_has_forgotten_the_orders_is_named_and_what_runs_ends_once(
    tmp_path: Path, start_process: StartProcess
) -> None:
    with Redis() as server:
        site = Site(tmp_path, server.url, start_process)
        worker = site.worker("--task-slots", "5")
        publish(site, *orders(20), seconds=1)
        eventually(lambda: "begin o0" in site.written())
        kill_and_start(server, site)
        worker.wait_output("Redis has lost [0-9]+ orders that this worker had")
        publish(site, *orders(5, "new"), seconds=0)
        eventually(lambda: set(orders(5, "new")) <= site.ended() and unacknowledged(server) == (0, 0))
        assert {line.split()[1] for line in site.written() if line.startswith("begin")} == site.ended()
        assert max(site.written().values()) == 1


def test_what_redis_has_forgotten_to_be_done_is_not_done_again_by_the_worker_that_did_it(
    tmp_path: Path, start_process: StartProcess
) -> None:
    with Redis() as server:
        site = Site(tmp_path, server.url, start_process)
        # Both before they are taken: at one moment the snapshot has one in its queue, and one as taken.
        publish(site, "o0", seconds=1)
        publish(site, "o1", seconds=0)
        worker = site.worker("--task-slots", "1", "--", "--prefetch-multiplier", "1")
        eventually(lambda: "begin o0" in site.written())
        with Client.from_url(server.url) as client:
            client.save()
        eventually(lambda: {"o0", "o1"} <= site.ended() and unacknowledged(server) == (0, 0))
        kill_and_start(server, site)
        worker.wait_output("Connected to redis[^$]*Connected to redis")
        publish(site, "o2", seconds=0)
        eventually(lambda: "o2" in site.ended() and unacknowledged(server) == (0, 0))
        assert [site.written()[f"begin {name}"] for name in orders(3)] == [1] * 3
        assert site.left() == 0


def test_replies_of_other_workers_do_not_count_as_taken(
    tmp_path: Path, server: Redis, start_process: StartProcess
) -> None:
    site = Site(tmp_path, server.url, start_process)
    for _ in range(2):
        worker = site.worker()
    worker.wait_output("mingle: sync complete")
    assert unacknowledged(server) == (0, 0)


@contextlib.contextmanager
def consumer(server: Redis, leases: Leases, queue: str) -> Iterator[Any]:
    """A channel that takes from this queue as a worker's does."""
    connection = Connection(server.url)
    take_safely(connection, leases)
    with connection:
        channel = connection.default_channel
        channel.basic_consume(queue, no_ack=False, callback=lambda _message: None, consumer_tag="c")
        channel.client.connection = channel.client.connection_pool.get_connection()
        yield channel


@pytest.mark.parametrize("lost", ["answer", "question"])
def test_an_order_whose_taking_was_not_answered_is_taken_again(server: Redis, lost: str) -> None:
    leases, queue = Leases(), "orders"
    with Connection(server.url) as publisher, publisher.SimpleQueue(queue) as simple:
        simple.put("o")
    with consumer(server, leases, queue) as channel:
        leases.take_over(channel)
        if lost == "question":
            kill(server)
            with contextlib.suppress(*channel.connection_errors):
                channel._brpop_start()
            server.start()
        else:
            channel._brpop_start()
            eventually(lambda: unacknowledged(server)[0] == 1)
            channel.client.connection.disconnect()
    assert unacknowledged(server)[0] == (lost == "answer")
    with consumer(server, leases, queue) as channel:
        leases.take_over(channel)
        assert (unacknowledged(server), channel.client.llen(queue)) == ((0, 0), 1)
