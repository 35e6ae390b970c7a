"""While the result backend is away, results that cannot be written keep no order waiting, and no order is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.worker.site import Site, asked, eventually, told

from tests.child import Child
from tests.fixtures import StartProcess
from tests.servers import Redis

pytestmark = [pytest.mark.system, pytest.mark.slow]

ORDERS = [f"o{number}" for number in range(20)]


class Results:
    """A Redis for results, which hangs or is not there for a while."""

    def __init__(self, server: Redis, hangs: bool) -> None:
        self.server = server
        self.hangs = hangs

    def leave(self) -> None:
        """Answer nobody from here on."""
        if self.hangs:
            os.kill(self.server.pid, signal.SIGSTOP)
        else:
            self.server.stop()

    def return_(self) -> None:
        """Answer again."""
        if self.hangs:
            os.kill(self.server.pid, signal.SIGCONT)
        else:
            self.server.start()


@pytest.fixture(params=["refuses", "hangs"])
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    with Redis() as server:
        yield Results(server, request.param == "hangs")


@pytest.fixture
def site(tmp_path: Path, results: Results, redis_url: str, start_process: StartProcess) -> Site:
    return Site(tmp_path, redis_url, start_process, RESULTS=results.server.url)


def beside(shop: Any, site: Site, merchant: str = "other") -> None:
    """An order that needs no result goes through meanwhile."""
    shop.send.apply_async(("beside",), {"merchant": merchant}, ignore_result=True)
    eventually(lambda: "beside" in site.ended(), timeout_s=10)


@pytest.mark.parametrize("mode", ["--threads", "--green"])
@pytest.mark.parametrize("results", ["hangs"], indirect=True)
def test_a_call_that_raised_is_not_repeated_though_its_failure_cannot_be_written(
    site: Site, results: Results, mode: str
) -> None:
    worker = site.worker(mode, "--task-hard-limit-s", "3")
    with site.app() as shop:
        failed = shop.heard.apply_async(("o",), {"seconds": 1}, link_error=shop.failed_over.s())
        eventually(lambda: site.written()["begin o"] == 1)
        results.leave()
        worker.wait_output("is given up")
        time.sleep(2)
        results.return_()
        with pytest.raises(ConnectionResetError):
            failed.get(timeout=20)
        letters: list[tuple[bytes, dict[str, Any]]] = []
        eventually(lambda: bool(letters.extend(site.dead()) or letters))
    ((_, headers),) = letters
    assert told(headers)["reason"] == "failed"
    assert site.written() == {"begin o": 1, "on_failure o": 1, "errback ConnectionResetError": 1}


@pytest.mark.parametrize("results", ["hangs"], indirect=True)
def test_a_run_that_was_given_up_before_its_call_makes_none(site: Site, results: Results) -> None:
    worker = site.worker("--task-hard-limit-s", "3")
    with site.app() as shop:
        assert shop.send.delay("first").get(timeout=20) == "sent first"
        results.leave()
        sent = shop.send.delay("o", seconds=1)
        worker.wait_output("is given up")
        results.return_()
        assert sent.get(timeout=20) == "sent o"
    assert site.written()["begin o"] == 1


def nothing_is_left(worker: Child, site: Site, results: Results, expired: list[str]) -> None:
    """They have their results, where the backend could still take them; none was begun, and none is a dead letter."""
    results.return_()
    with site.app() as shop:
        eventually(lambda: asked(shop, "greenlane_requests") == "[]")
    if results.hangs:
        with redis.Redis.from_url(results.server.url) as client:
            keys = [f"celery-task-meta-{number}" for number in expired]
            eventually(lambda: [b'"REVOKED"' in (kept or b"") for kept in client.mget(keys)] == [True] * len(expired))
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert not {line.split()[1] for line in site.written()} & set(ORDERS)
    assert (site.left(), site.dead()) == (0, [])
    assert "Traceback" not in worker.output


def test_parked_orders_that_expire_keep_no_others_waiting(site: Site, results: Results) -> None:
    worker = site.worker("--task-limit", "1", "--task-slots", "4")
    with site.app() as shop:
        shop.send.apply_async(("first",), {"seconds": 8}, ignore_result=True)
        eventually(lambda: site.written()["begin first"] == 1)
        expired = [shop.send.apply_async((name,), expires=4).id for name in ORDERS]
        eventually(lambda: len(asked(shop, "reserved")) == len(ORDERS))
        results.leave()
        eventually(lambda: worker.output.count("Discarding revoked task") == len(ORDERS), timeout_s=15)
        beside(shop, site)
    nothing_is_left(worker, site, results, expired)


def test_orders_that_expired_in_their_queue_keep_no_others_waiting(site: Site, results: Results) -> None:
    with site.app() as shop:
        expired = [shop.send.apply_async((name,), expires=0.5).id for name in ORDERS]
        time.sleep(0.6)  # what has expired when it arrives is another case than what expires here
        results.leave()
        worker = site.worker()
        beside(shop, site)
    nothing_is_left(worker, site, results, expired)


def test_orders_that_expire_while_the_store_is_asked_keep_no_places(site: Site, results: Results) -> None:
    store = site.folder / "orders.db"
    worker = site.worker("--task-slots", "4", "--task-store", f"sqlite:///{store}")
    with site.app() as shop, contextlib.closing(sqlite3.connect(store, isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        expired = [shop.send.apply_async((name,), expires=1).id for name in ORDERS[:2]]  # their merchant's places
        time.sleep(1.1)  # until then the store does not answer
        results.leave()
        stranger.execute("ROLLBACK")
        eventually(lambda: worker.output.count("Discarding revoked task") == len(expired), timeout_s=15)
        beside(shop, site, "m")
    nothing_is_left(worker, site, results, expired)


def test_revoking_and_terminating_keep_no_others_waiting(site: Site, results: Results) -> None:
    worker = site.worker()
    with site.app() as shop:
        stopped = shop.burn.delay("stopped")
        eventually(lambda: site.written()["begin stopped"] == 1)
        results.leave()
        shop.app.control.revoke("unknown")
        shop.app.control.terminate(stopped.id)
        worker.wait_output(rf"tasks flagged as revoked: {stopped.id}", timeout_s=5)
        beside(shop, site)
        results.return_()
        if results.hangs:
            with redis.Redis.from_url(results.server.url) as client:
                for number in ("unknown", stopped.id):
                    key = f"celery-task-meta-{number}"
                    eventually(lambda key=key: b'"REVOKED"' in (client.get(key) or b""))  # type: ignore[misc]
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert (site.written()["soft stopped"], site.left(), site.dead()) == (1, 0, [])


def test_a_result_is_waited_for_no_longer_than_redis_leaves_its_message_here(site: Site, results: Results) -> None:
    shown = json.dumps({"visibility_timeout": 10})
    site.worker("--task-parked-most-s", "1", "--task-shutdown-s", "1", TRANSPORT=shown)
    site.publish("rejected_late", "r", seconds=1)
    eventually(lambda: site.written()["begin r"] == 1)
    results.leave()
    dead: list[object] = []
    eventually(lambda: bool(dead.extend(site.dead()) or dead), timeout_s=8)
    assert site.written()["begin r"] == 1


def test_a_worker_that_ends_publishes_the_letters_of_results_that_cannot_be_written(
    site: Site, results: Results
) -> None:
    worker = site.worker("--task-shutdown-s", "2")
    site.publish("rejected_late", "failed", seconds=1)
    eventually(lambda: site.written()["begin failed"] == 1)
    results.leave()
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert (site.left(), len(site.dead())) == (0, 1)
