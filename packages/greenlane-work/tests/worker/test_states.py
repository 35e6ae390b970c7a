"""A result backend that is away: no order is dead or called again for that, and nobody is told that one has failed."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tests.worker.relay import Relay
from tests.worker.site import Site, eventually

from tests.fixtures import StartProcess
from tests.servers import Redis

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_orders_wait_for_the_store_where_that_is_the_result_backend_too(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process, RESULTS=redis_url)
    with _relay(redis_url) as relay, site.app() as shop:
        site.worker("--task-store", f"{_over(relay)}?may_forget=1", RESULTS=_over(relay))
        assert shop.send.delay("first").get(timeout=20) == "sent first"
        relay.cut()
        results = [shop.send.delay(name) for name in "ab"]
        time.sleep(7)  # longer than the store is waited for
        relay.mend()
        assert [result.get(timeout=20) for result in results] == ["sent a", "sent b"]
    assert [site.written()[f"begin {name}"] for name in "ab"] == [1, 1]
    assert site.dead() == []


def test_an_order_that_is_done_has_its_result_when_the_backend_is_back(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process, RESULTS=redis_url)
    names = ("single", "a", "b")
    with _relay(redis_url) as relay, site.app() as shop:
        site.worker("--task-attempts", "1", RESULTS=_over(relay))
        single = shop.send.delay("single", seconds=1)
        chord = shop.chord([shop.send.s(name, seconds=1) for name in "ab"])(shop.body.s("body"))
        shop.send.apply_async(("linked",), {"seconds": 1}, link=shop.send.si("follower"))
        eventually(lambda: [site.written()[f"begin {name}"] for name in names] == [1, 1, 1])
        relay.cut()
        for answers in (shop.refused, shop.own_retry):
            answers.delay(answers.__name__)
        eventually(lambda: {*names, "own_retry"} <= site.ended() and site.written()["begin refused"] == 1)
        time.sleep(1)
        relay.mend()
        assert single.get(timeout=20) == "sent single"
        assert chord.get(timeout=20) is None
    once = (*names, "linked", "follower", "refused")
    assert [site.written()[f"begin {name}"] for name in (*once, "own_retry")] == [1, 1, 1, 1, 1, 1, 2]
    assert site.dead() == []


@pytest.fixture
def results() -> Iterator[Redis]:
    """A Redis for results alone, which can refuse them."""
    with Redis() as server:
        yield server


@pytest.mark.parametrize("revoked", [False, True])
def test_an_order_that_is_done_is_not_called_again_where_the_broker_was_away_too(
    tmp_path: Path, rabbitmq_url: str, redis_url: str, start_process: StartProcess, revoked: bool
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process, RESULTS=redis_url)
    port = rabbitmq_url.rpartition(":")[2].rstrip("/")
    with Relay(int(port)) as broker, _relay(redis_url) as results, site.app() as shop:
        worker = site.worker(BROKER=rabbitmq_url.replace(port, str(broker.port)), RESULTS=_over(results))
        done = shop.send.apply_async(("o",), {"seconds": 1}, link=shop.send.si("follower"))
        eventually(lambda: site.written()["begin o"] == 1)
        if revoked:  # too late
            shop.app.control.revoke(done.id)
            worker.wait_output("tasks flagged as revoked")
        results.cut()
        eventually(lambda: "o" in site.ended())
        time.sleep(1)
        broker.cut()
        worker.wait_output("[Cc]onnection to broker lost")
        broker.mend()
        eventually(lambda: worker.output.count(f"[{done.id}] received") == 2)
        results.mend()
        assert done.get(timeout=20) == "sent o"
        eventually(lambda: "follower" in site.ended())
        eventually(lambda: site.left() == 0)  # what the broker has taken back it delivers again
    assert [site.written()[f"begin {name}"] for name in ("o", "follower")] == [1, 1]


def test_an_order_that_is_done_is_neither_revoked_nor_late_while_its_result_cannot_be_written(
    tmp_path: Path, redis_url: str, results: Redis, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process, RESULTS=results.url)
    names = ("expired", "late", "sooner", "later", "terminated")
    with site.app() as shop:
        worker = site.worker()
        assert shop.send.delay("first").get(timeout=20) == "sent first"
        late = {"greenlane-deadline": time.time() + 3}
        with _refusing(results, "OOM"):
            done = [
                shop.send.apply_async(("expired",), expires=3),
                shop.send.apply_async(("late",), headers=late),
                *(shop.send.apply_async((name,), {"seconds": 1}) for name in names[2:]),
            ]
            eventually(lambda: site.written()["begin sooner"] == 1)
            shop.app.control.revoke(done[2].id)
            eventually(lambda: set(names) <= site.ended())
            time.sleep(0.5)  # they wait between two tries
            shop.app.control.revoke(done[3].id)
            shop.app.control.revoke(done[4].id, terminate=True)
            time.sleep(3)
        assert [result.get(timeout=20) for result in done] == [f"sent {name}" for name in names]
    assert "Discarding" not in worker.output
    assert site.dead() == []


@pytest.mark.parametrize("says", ["OOM", "READONLY", "locked"])
def test_a_backend_that_refuses_for_a_while_costs_no_result(
    tmp_path: Path, redis_url: str, results: Redis, start_process: StartProcess, says: str
) -> None:
    file = tmp_path / "results.db"
    url = f"db+sqlite:///{file}?timeout=0.1" if says == "locked" else results.url
    site = Site(tmp_path, redis_url, start_process, RESULTS=url)
    with site.app() as shop:
        site.worker("--task-attempts", "1")
        assert shop.send.delay("first").get(timeout=20) == "sent first"
        with _locked(file) if says == "locked" else _refusing(results, says):
            done, failed = shop.send.delay("done"), shop.buggy.delay("failed")
            refused = shop.refused.delay("refused")
            eventually(lambda: site.written()["end done"] == 1)
            time.sleep(2)
        assert done.get(timeout=20) == "sent done"
        for raised in (failed, refused):
            with pytest.raises(KeyError):
                raised.get(timeout=20)
    assert (site.written()["begin done"], site.written()["begin refused"]) == (1, 1)
    assert [headers["id"] for _, headers in site.dead()] == [failed.id]


def test_a_terminated_order_is_not_lost_where_the_worker_dies_before_that_is_written(
    tmp_path: Path, rabbitmq_url: str, results: Redis, start_process: StartProcess
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process, RESULTS=results.url)
    with site.app() as shop:
        worker = site.worker()
        stopped = shop.burn.delay("o")
        eventually(lambda: site.written()["begin o"] == 1)
        with _refusing(results, "OOM"):
            shop.app.control.terminate(stopped.id)
            eventually(lambda: site.written()["soft o"] == 1)
            time.sleep(0.5)
            worker.signal(signal.SIGKILL)
            worker.wait_exit()
        eventually(lambda: site.left() == 1, timeout_s=10)


def test_a_failure_that_is_written_late_is_heard_of_once(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process, RESULTS=redis_url)
    with _relay(redis_url) as relay, site.app() as shop:
        worker = site.worker(RESULTS=_over(relay), SIGNALS="task_failure,task_internal_error")
        relay.cut()
        failed = shop.heard.apply_async(("o",), link_error=[shop.failed_over.s(), shop.send.si("erred")])
        worker.wait_output("the failure of the task .* could not be written down")
        time.sleep(1)
        relay.mend()
        with pytest.raises(ConnectionResetError):
            failed.get(timeout=20)
        eventually(lambda: "erred" in site.ended() and len(site.dead()) == 1)
    heard = {"on_failure o": 1, "signal task_failure": 1, "errback ConnectionResetError": 1}
    assert site.written() == {"begin o": 1, "begin erred": 1, "end erred": 1, **heard}
    assert worker.output.count("could not be written down") == 2  # STARTED too


@contextlib.contextmanager
def _refusing(server: Redis, says: str) -> Iterator[None]:
    with redis.Redis.from_url(server.url) as client:
        refuse, take = {
            "OOM": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
            "READONLY": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        }[says]
        client.execute_command(*refuse.split())
        yield
        client.execute_command(*take.split())


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        yield
        held.execute("ROLLBACK")


def _relay(redis_url: str) -> Relay:
    return Relay(int(redis_url.rpartition(":")[2].partition("/")[0]))


def _over(relay: Relay) -> str:
    return f"redis://127.0.0.1:{relay.port}/0"


def test_a_call_that_fails_after_its_hard_limit_changes_nothing_of_its_next_attempt(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process, RESULTS=redis_url)
    site.worker("--task-hard-limit-s", "1")
    with site.app() as shop:
        result = shop.raises_late.apply_async(("o",), link_error=shop.failed_over.s())
        eventually(lambda: site.written()["late o"] == 1)
        time.sleep(1)
        assert result.get(timeout=20) == "sent o"
    assert site.written() == {"begin o": 2, "late o": 1}
    assert (site.dead(), site.left()) == ([], 0)
