"""What Celery programs rely on besides calls: results, revokes, `expires`, rate limits, `inspect`."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import NotRegistered, Reject, TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeoutError
from kombu import Connection
from kombu.exceptions import ContentDisallowed
from tests.worker.site import Site, asked, eventually, told

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]


def orders(count: int, prefix: str = "o") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@pytest.fixture(params=["rabbitmq", "redis"])
def site(request: pytest.FixtureRequest, tmp_path: Path, redis_url: str, start_process: StartProcess) -> Site:
    """With a result backend, on either broker."""
    broker = redis_url if request.param == "redis" else request.getfixturevalue("rabbitmq_url")
    return Site(tmp_path, broker, start_process, RESULTS=redis_url)


def test_an_order_that_expires_or_is_revoked_while_it_is_parked_is_settled_once(site: Site) -> None:
    worker = site.worker("--task-limit", "1", "--task-slots", "4")
    with site.app() as shop:
        site.publish("send", "first", seconds=2)
        eventually(lambda: site.written()["begin first"] == 1)
        expired = [shop.send.apply_async((name,), expires=1) for name in orders(3, "e")]
        revoked = [shop.send.delay(name) for name in orders(3, "r")]
        eventually(lambda: len(asked(shop, "reserved")) >= 3)
        for result in revoked:
            result.revoke()
        # One that is revoked while it runs is stopped, and not tried again.
        stopped = shop.hang.delay("stopped", merchant="other", seconds=3)
        eventually(lambda: site.written()["begin stopped"] == 1)
        stopped.revoke(terminate=True)
        site.publish("send", "after", merchant="m")
        for result in (*expired, *revoked, stopped):
            with pytest.raises(TaskRevokedError):
                result.get(timeout=20)
        eventually(lambda: {"first", "after"} <= site.ended())
        eventually(lambda: not known(shop))
    assert worker.output.count("Traceback") == 0, worker.output
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert site.written()["soft stopped"] == site.written()["begin stopped"] == 1
    with site.app() as shop:
        assert shop.app.AsyncResult(stopped.id).state == "REVOKED"
    assert not {*orders(3, "e"), *orders(3, "r")} & {line.split()[1] for line in site.written()}
    assert (site.left(), site.dead()) == (0, [])


def test_a_task_that_sends_itself_back_comes_again_at_once_and_then_after_a_while(site: Site) -> None:
    site.worker("--task-return-s", "4")
    with site.app() as shop:
        started_s = time.monotonic()
        assert shop.rejected_at_first.delay("once").get(timeout=10) == 2
        assert time.monotonic() - started_s < 4
        assert shop.rejected_at_first.delay("twice", most=2).get(timeout=20) == 3
        assert time.monotonic() - started_s > 4


def test_each_death_is_the_failure_of_its_task(site: Site) -> None:
    limits = ("--task-attempts", "1", "--task-hard-limit-s", "0.5", "--task-grace-s", "0.2")
    worker = site.worker(*limits)
    with site.app() as shop:
        rejected = shop.rejected.delay("rejected")
        hard = shop.stubborn.delay("hard", merchant="h", seconds=3)
        late = shop.send.apply_async(("late",), headers={"greenlane-deadline": time.time() - 1})
        chord = shop.chord([shop.rejected.s("member"), shop.send.s("other")])(shop.send.si("never"))
        with pytest.raises(Reject):
            rejected.get(timeout=20)
        for result, said in ((hard, "hard time limit"), (late, "deadline passed")):
            with pytest.raises(Exception, match=said):
                result.get(timeout=20)
        with pytest.raises(Exception, match=r"raised|no such shop"):
            chord.get(timeout=20)
        eventually(lambda: not known(shop))
    eventually(lambda: worker.output.count("goes to the dead letters") == 4)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() in (0, 1)
    assert sorted(told(headers)["reason"] for _, headers in site.dead()) == [
        "attempts", "deadline", "rejected", "rejected"
    ]  # fmt: skip


def test_what_never_becomes_an_order_has_a_result_and_ends_its_chord(site: Site) -> None:
    worker = site.worker("--task-deliveries", "1", "--task-return-s", "0.1")
    with site.app() as shop:
        unknown = shop.app.signature("of.another.version", app=shop.app)
        disallowed = shop.send.s("yaml").set(serializer="yaml")
        malformed = shop.send.s("malformed").set(soft_time_limit="soon")

        def heard() -> bool:
            shop.app.control.revoke("revoked")  # a broadcast: who is just starting misses it
            return asked(shop, "revoked") == ["revoked"]

        eventually(heard)
        revoked = shop.send.s("revoked").set(task_id="revoked")
        pickled = shop.send.apply_async(("pickled",), serializer="pickle")
        results = [
            (pickled, ContentDisallowed),
            (disallowed.clone().apply_async(), ContentDisallowed),
            (unknown.clone().apply_async(), NotRegistered),
            *(
                (shop.chord([shop.send.s("a"), each])(shop.send.si("never")), Exception)
                for each in (unknown, malformed)
            ),
            (shop.chord([shop.send.s("a"), revoked])(shop.send.si("never")), Exception),
            ((malformed.clone() | shop.send.si("never")).apply_async(), ValueError),
        ]
        for result, kind in results:
            with pytest.raises(kind) as raised:
                result.get(timeout=20)
            assert not isinstance(raised.value, CeleryTimeoutError)
        eventually(lambda: not known(shop))
    eventually(lambda: worker.output.count("goes to the dead letters") == 6)
    assert "end never" not in site.written()
    assert "could not be written down" not in worker.output


def test_what_ends_whoever_takes_it_has_a_result(site: Site) -> None:
    brief, transport = quickly_given_back(site)
    dies = site.worker(*brief, "--task-deliveries", "1", TRANSPORT=transport)
    with site.app() as shop:
        chord = shop.chord([shop.send.s("a"), shop.poison.s("p")])(shop.send.si("never"))
        assert dies.wait_exit() == -signal.SIGKILL
        site.worker(*brief, "--task-deliveries", "1", TRANSPORT=transport)
        with pytest.raises(Exception, match="delivered 2 times"):
            chord.get(timeout=30)
    assert site.written()["begin p"] == 1


def test_after_a_soft_limit_a_task_publishes_and_its_result_is_stored(site: Site) -> None:
    # Long enough that on a busy machine a run sleeps by then.
    site.worker("--task-soft-limit-s", "3", "--task-hard-limit-s", "20")
    with site.app() as shop:
        assert shop.softened.delay("s").get(timeout=20) == "softened"
        eventually(lambda: "s-next" in site.ended())
        assert shop.retried_softened.delay("r").get(timeout=20) == "retried"
        eventually(lambda: not known(shop))
    assert site.written()["begin r"] == 2


@pytest.mark.parametrize("stored", [False, True])
def test_a_task_that_raises_is_run_as_often_as_celery_runs_it_and_more_where_it_says_so(
    site: Site, stored: bool
) -> None:
    site.worker(*(("--task-store", f"sqlite:///{site.folder}/orders.db") if stored else ()))
    with site.app() as shop:
        for task, order, runs in (
            (shop.flaky, "plain", 1),
            (shop.celerys_retries, "twice-more", 3),
            (shop.many_retries, "seven-more", 8),
            (shop.our_retries, "four-more", 5),
        ):
            with pytest.raises(ConnectionResetError):
                task.delay(order, failures=99, merchant=order).get(timeout=30)
            assert site.written()[f"begin {order}"] == runs


@pytest.mark.parametrize("stored", [False, True])
def test_celerys_own_retries_use_up_no_attempts(site: Site, stored: bool) -> None:
    store = ("--task-store", f"sqlite:///{site.folder}/orders.db") if stored else ()
    site.worker(*store, "--task-attempts", "2", "--task-hard-limit-s", "1")
    site.publish("retried_both_ways", "raises", "unsent", "hangs")
    eventually(lambda: site.ended() == {"raises", "unsent", "hangs"}, timeout_s=15)
    assert [site.written()[f"begin {name}"] for name in ("raises", "unsent", "hangs")] == [4, 4, 4]
    assert site.dead() == []


def test_without_a_store_too_an_order_is_asked_about_before_it_is_sent_again(site: Site) -> None:
    brief, transport = quickly_given_back(site)
    first = site.worker(*brief, TRANSPORT=transport)
    with site.app() as shop:
        assert shop.hung_up.delay("had", reached=True).get(timeout=20) == "has it"
        assert shop.hung_up.delay("new", reached=False).get(timeout=20) is None
        killed = shop.doubt.delay("killed")
        assert first.wait_exit() == -signal.SIGKILL
        site.worker(*brief, TRANSPORT=transport)
        assert killed.get(timeout=30) == "has it"
    written = site.written()
    assert [written[f"begin {name}"] for name in ("had", "new", "killed")] == [1, 2, 1]
    assert [written[f"asked {name}"] for name in ("had", "new", "killed")] == [1, 1, 1]


def test_the_bug_of_a_task_opens_nobodys_breaker(site: Site) -> None:
    site.worker("--task-breaker-calls", "4", "--task-open-s", "600")
    with site.app() as shop:
        for number in range(8):
            with pytest.raises(KeyError):
                shop.buggy.delay(f"bug{number}").get(timeout=20)
        assert shop.send.delay("after").get(timeout=20) == "sent after"


def test_an_upstream_that_says_when_to_come_again_is_left_alone_by_all_workers(site: Site) -> None:
    for _ in range(2):
        site.worker("--task-slots", "4", "--", "--prefetch-multiplier", "1")
    with site.app() as shop:
        shop.refuses.delay("refused", again_s=6)
        eventually(lambda: site.written()["begin refused"] == 1)
        began = time.monotonic()
        time.sleep(0.5)  # for the word to get around
        for name in orders(40):
            shop.by_process.delay(name)
        assert shop.send.delay("another", merchant="other").get(timeout=20) == "sent another"
        assert time.monotonic() - began < 5
        eventually(lambda: site.ended() >= set(orders(40)))
    assert time.monotonic() - began > 5.9
    processes = {line.split()[2] for line in site.book.read_text().splitlines() if line.startswith("begin o")}
    assert len(processes) == 2


def test_orders_that_wait_for_their_time_are_scheduled_and_those_of_a_rate_limit_are_parked(
    site: Site, free_port: int
) -> None:
    site.worker("--task-parked-most", "10", "--task-metrics", f"127.0.0.1:{free_port}", "--task-return-s", "0.2")
    with site.app() as shop:
        later = [shop.send.apply_async((name,), countdown=30) for name in orders(3, "later")]
        eventually(
            lambda: {row["request"]["id"] for row in asked(shop, "scheduled")} == {result.id for result in later}
        )
        assert all(row["eta"] for row in asked(shop, "scheduled"))
        for result in later:
            result.revoke()
        # Twenty a second, and only a few have room to wait here: the others do not keep this one from being received.
        began = time.monotonic()
        limited = [shop.limited.delay(name) for name in orders(40, "limited")]
        assert shop.send.delay("beside").get(timeout=10) == "sent beside"
        assert [result.get(timeout=30) for result in limited] == [None] * 40
        assert time.monotonic() - began > 39 / 20 - 0.5
    assert all(site.written()[f"end {name}"] == 1 for name in orders(40, "limited"))


@pytest.mark.parametrize("spelt", [("--autoscale", "5,1"), ("--autoscale=5,1",)])
def test_autoscale_is_refused_however_it_is_spelt(
    tmp_path: Path, redis_url: str, start_process: StartProcess, spelt: tuple[str, ...]
) -> None:
    worker = Site(tmp_path, redis_url, start_process).worker("--", *spelt, ready=False)
    assert worker.wait_exit() == 2
    assert "autoscale='5,1', expected a fixed number of places" in worker.output
    assert "Traceback" not in worker.output


def quickly_given_back(site: Site) -> tuple[tuple[str, ...], str]:
    """Options and transport with which Redis gives back soon what a killed worker had."""
    soon = {"visibility_timeout": 3, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
    transport = json.dumps(soon if site.broker.startswith("redis") else {})
    return ("--task-parked-most-s", "1", "--task-shutdown-s", "0.1"), transport


def known(shop: Any) -> Any:
    """Requests in Celery's own tables."""
    return json.loads(asked(shop, "greenlane_requests"))


def test_far_etas_wait_at_the_broker_and_keep_nobody_waiting(site: Site) -> None:
    with site.app() as shop:
        for name in orders(500, "far"):
            shop.send.apply_async((name,), countdown=3600)
        site.publish("send", *orders(20))
        worker = site.worker()
        eventually(lambda: site.ended() >= set(orders(20)))
        eventually(lambda: waiting(site) == 500)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert (site.left(), site.dead(), waiting(site)) == (0, [], 500)
    assert site.ended() == set(orders(20))


def waiting(site: Site) -> int:
    """Orders that wait at the broker for the longest step of an hour."""
    with Connection(site.broker) as connection:
        channel = connection.channel()
        if connection.transport.driver_type == "redis":
            return int(channel.client.zcard(f"{site.queue}.later"))
        return int(channel.queue_declare(f"{site.queue}.later.2560s", passive=True).message_count)
