"""While the result backend is away, results that cannot be written keep no order waiting, and no order is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.worker.site import Site, asked, eventually

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
