"""An order that is delivered again after it was done: what follows it has its result, and is called once."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from celery.exceptions import Reject
from tests.worker.relay import Relay
from tests.worker.site import Site, asked, eventually

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_the_next_of_a_chain_has_the_result_and_each_link_is_called_once(
    tmp_path: Path, rabbitmq_url: str, redis_url: str, start_process: StartProcess, serializer: str
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process, SERIALIZER=serializer, RESULTS=redis_url)
    store = ("--task-store", f"sqlite:///{tmp_path}/orders.db", "--task-store-lease-s", "1")
    # Its one slot keeps it from calling what follows: such a call may be cut off too, and then it is repeated.
    dies = site.worker(*store, "--task-slots", "1")
    with site.app() as shop:
        twice = shop.send.si("twice")  # one object: the two calls of it are two orders all the same
        links = [
            shop.follows.s("linked"),
            shop.chain(shop.send.si("second"), shop.send.si("third")),
            shop.group(twice, twice),
            shop.chord([shop.send.si("member"), shop.send.si("other")], shop.body.s("body")),
        ]
        (shop.dies_when_done.s("first", serializer).set(link=links) | shop.follows.s("next")).apply_async()
        assert dies.wait_exit(timeout_s=30) == -signal.SIGKILL
        # What follows it was published by the worker that died, and is once more by this one.
        site.worker(*store)
        followers = {"next", "linked", "second", "third", "twice", "member", "other", "body"}
        eventually(lambda: followers <= site.ended(), timeout_s=40)
        eventually(lambda: not (asked(shop, "active") or asked(shop, "reserved") or site.left()))
    written = site.written()
    expected = dict.fromkeys(("begin first", *(f"end {name}" for name in followers)), 1) | {"end twice": 2}
    assert {line: written[line] for line in expected} == expected
    ends = [line.split() for line in site.book.read_text().splitlines() if line.startswith(("end linked", "end next"))]
    kinds = {kind for _, _, kind in ends}
    assert kinds == {"datetime" if serializer == "json" else "Odd"}


@pytest.mark.parametrize("broker", ["rabbitmq", "redis"])
def test_what_follows_a_task_waits_for_the_broker(
    tmp_path: Path, request: pytest.FixtureRequest, redis_url: str, start_process: StartProcess, broker: str
) -> None:
    url = redis_url if broker == "redis" else request.getfixturevalue("rabbitmq_url")
    direct = Site(tmp_path, url, start_process, RESULTS=redis_url)
    port = int(url.rpartition(":")[2].partition("/")[0])
    with Relay(port) as relay:
        site = Site(tmp_path, url.replace(str(port), str(relay.port)), start_process, RESULTS=redis_url)
        direct.queue = site.queue
        # Their calls end while the broker is away: what follows them could be called twice if a confirmation were lost.
        worker = site.worker("--task-soft-limit-s", "3", "--task-hard-limit-s", "60")
        with direct.app() as shop:
            link, errback = shop.follows.s("linked"), shop.send.si("erred")
            chain = (shop.send.s("first", seconds=2).set(link=link) | shop.follows.s("next")).apply_async()
            chord = shop.chord([shop.send.s(name, seconds=2) for name in "ab"])(shop.follows.s("body"))
            failed = shop.rejected_late.apply_async(("failed", 2.0), link_error=errback)
            eventually(lambda: sum(site.written()[f"begin {name}"] for name in ("first", "a", "b", "failed")) == 4)
            relay.cut()
            eventually(lambda: {"first", "a", "b"} <= site.ended())
            worker.wait_output("waits for the broker to take what follows it")
            time.sleep(6)  # longer than Celery tries to publish, and past the soft limit
            relay.mend()
            assert chain.get(timeout=60) is None
            assert chord.get(timeout=60) is None
            with pytest.raises(Reject):
                failed.get(timeout=60)
            eventually(lambda: {"next", "linked", "body", "erred"} <= site.ended(), timeout_s=40)
    written = direct.written()
    for name in ("first", "a", "b", "failed"):
        assert written[f"begin {name}"] == 1, name
    for name in ("first", "a", "b", "next", "linked", "body", "erred"):
        assert written[f"end {name}"] == 1, name


def test_a_chord_fires_though_the_worker_that_had_claimed_its_body_was_killed(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    soon = {"visibility_timeout": 3, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
    site = Site(tmp_path, redis_url, start_process, RESULTS=redis_url, TRANSPORT=json.dumps(soon))
    options = ("--task-store", f"sqlite:///{tmp_path}/orders.db", "--task-store-lease-s", "1")
    options = (*options, "--task-parked-most-s", "1", "--task-shutdown-s", "0.1")
    dies = site.worker(*options, DIES_WITH_CLAIM="1")
    with site.app() as shop:
        chord = shop.chord([shop.send.s(name) for name in "ab"])(shop.body.s("body"))
        assert dies.wait_exit(timeout_s=30) == -signal.SIGKILL
        site.worker(*options)
        assert chord.get(timeout=80) is None
    written = site.written()
    assert [written[f"begin {name}"] for name in "ab"] == [1, 1]
    assert written["end body"] == 1


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


def test_an_order_s_name_swallows_no_order_of_somebody_else(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    names = "tests.worker.shop.send=kwargs.merchant args.0"
    site.worker("--task-store", f"sqlite:///{tmp_path}/orders.db", "--task-order", names)
    with site.app() as shop:
        for merchant in ("taco", "pizza", "taco"):
            shop.send.apply_async(["4711"], {"merchant": merchant})
    eventually(lambda: site.written()["end 4711"] == 2 and site.left() == 0)
    assert site.written()["begin 4711"] == 2


@pytest.mark.parametrize("mode", ["--threads", "--green"])
def test_time_limits_begin_when_the_store_has_answered(
    tmp_path: Path, redis_url: str, start_process: StartProcess, mode: str
) -> None:
    site = Site(tmp_path, redis_url, start_process)
    limits = ("--task-soft-limit-s", "0.5", "--task-hard-limit-s", "30", "--task-breaker-calls", "2")
    worker = site.worker(mode, "--task-store", f"sqlite:///{tmp_path}/orders.db", *limits)
    site.publish("send", "before")
    eventually(lambda: "before" in site.ended())
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as locked:
        locked.execute("BEGIN EXCLUSIVE")
        site.publish("send", "a", "b", "c", "d")
        eventually(lambda: site.left() == 0)
        time.sleep(1.2)  # longer than the limit
        assert site.ended() == {"before"}
        locked.execute("ROLLBACK")
    eventually(lambda: {"a", "b", "c", "d"} <= site.ended())
    assert [site.written()[f"begin {name}"] for name in "abcd"] == [1] * 4
    assert not any(word in worker.output for word in ("goes to the dead letters", "soft time limit"))
