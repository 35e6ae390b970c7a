"""`greenlane celery` on a real RabbitMQ: what is done once, tried again or given back, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection
from tests.worker.relay import Relay
from tests.worker.site import SHOP, Site, asked, eventually, told

from greenlane.cli.main import main
from greenlane.control.client import ask, processes
from greenlane_work.dead_letters import dead_letters
from tests.fixtures import StartProcess
from tests.servers import RabbitMQ

pytestmark = [pytest.mark.system, pytest.mark.slow]

MODES = ["--threads", "--green"]
#: One mode in each run of the tests, the other with the long ones.
MOSTLY_THREADS = ["--threads", pytest.param("--green", marks=pytest.mark.soak)]


@pytest.fixture
def site(tmp_path: Path, rabbitmq_url: str, start_process: StartProcess) -> Site:
    return Site(tmp_path, rabbitmq_url, start_process)


def orders(count: int, prefix: str = "o") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.gate
def test_each_order_is_done_once_tried_again_or_given_back(site: Site, mode: str, free_port: int) -> None:
    seen = ("--task-metrics", f"127.0.0.1:{free_port}", "--control-dir", str(site.folder / "control"))

    def switched(state: str) -> int:
        return main(["breaker", "m", state, "--control-dir", str(site.folder / "control")])

    worker = site.worker(
        mode, "--task-slots", "10", "--task-retries", "2", "--task-shutdown-s", "20", *seen, ACKERS="1"
    )
    site.publish("send", *orders(60), merchant="m")
    site.publish("flaky", "f", failures=2, headers={"greenlane-order": "business-7"})
    site.publish("flaky", "never", failures=99, merchant="ill")
    site.publish("own_retry", "r")
    site.publish("refused", "n")
    site.publish("replaced", "x")
    site.publish("quits", "q")
    site.publish("rejected", "j")
    site.publish("unpublished", "u", merchant="ill")
    with site.app() as shop:
        at = time.time() + 0.5
        for name in orders(40, "eta"):
            shop.send.apply_async((name,), {"not_before": at}, countdown=0.5)
        # Room for those that run and the next ones; those that wait for their time had some of their own.
        eventually(lambda: asked(shop, "stats")["prefetch_count"] == 4 * 10)
    ended = {*orders(60), *orders(40, "eta"), "f", "r", "x", "q"}
    eventually(lambda: ended <= site.ended() and site.written()["begin never"] == site.written()["begin u"] == 3)
    lines = [line.split() for line in site.book.read_text().splitlines()]
    assert [line[2:] for line in lines if line[:2] == ["begin", "f"]] == [[str(n), "business-7"] for n in (1, 2, 3)]
    written = site.written()
    assert [written[f"begin {name}"] for name in orders(60)] == [1] * 60
    assert [written[f"begin {name}"] for name in ("r", "n", "x", "q", "j")] == [2, 1, 3, 2, 1]
    assert [written[f"begin {name}"] for name in orders(40, "eta")] == [1] * 40
    eventually(lambda: worker.output.count("goes to the dead letters") == 3)
    (process,) = processes(site.folder / "control")
    # The end of an order is written before its run has ended.
    eventually(lambda: ask(process.socket, {"do": "show"})["tasks"]["running"] == 0)
    text = urllib.request.urlopen(f"http://127.0.0.1:{free_port}/metrics", timeout=10).read().decode()
    assert 'greenlane_upstream_parked{key="m"' in text
    assert f'greenlane_orders_ended_total{{end="dead",pid="{worker.pid}"}} 3\n' in text
    tasks = ask(process.socket, {"do": "show"})["tasks"]
    assert (tasks["slots"], tasks["running"], tasks["parked"], tasks["totals"]["orders_dead"]) == (10, 0, 0, 3)
    assert {row["key"]: row["ok"] for row in tasks["keys"]}["m"] == 60
    assert switched("open") == 0
    site.publish("send", "held", merchant="m")
    eventually(lambda: ask(process.socket, {"do": "show"})["tasks"]["parked"] == 1)
    assert switched("closed") == 0
    eventually(lambda: "held" in site.ended())
    # Ten slots are full, a third of what comes is begun: the rest goes back when the worker is asked to end.
    site.publish("send", *orders(30, "late"), seconds=0.7)
    eventually(lambda: sum(site.written()[f"begin {name}"] for name in orders(30, "late")) >= 5)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    written = site.written()
    begun = [name for name in orders(30, "late") if written[f"begin {name}"]]
    assert all(written[f"end {name}"] == 1 for name in begun)
    assert site.left() == 30 - len(begun)
    dead = {json.loads(body)[0][0]: headers for body, headers in site.dead()}
    assert {name: told(headers)["reason"] for name, headers in dead.items()} == {
        "never": "attempts",
        "u": "attempts",
        "j": "rejected",
    }
    if mode == "--threads":
        assert {line for line in site.written() if line.startswith("acked-by")} == {"acked-by 0"}
    assert [tried["attempt"] for tried in json.loads(dead["never"]["greenlane-history"])] == [1, 2, 3]
    assert "EncodeError" in told(dead["u"])["said"]


@pytest.mark.parametrize("mode", MODES)
def test_a_time_limit_stops_and_never_acknowledges(site: Site, mode: str) -> None:
    limits = ("--task-soft-limit-s", "0.3", "--task-hard-limit-s", "0.8", "--task-retries", "49")
    worker = site.worker(mode, "--task-slots", "4", *limits)
    site.publish("hang", "h", merchant="a", seconds=3)
    site.publish("stubborn", "s", merchant="b")
    due = {"greenlane-deadline": time.time() + 1}
    site.publish("flaky", "due", failures=99, merchant="c", headers=due)
    eventually(lambda: {"h", "s"} <= site.ended() and site.written()["begin s"] == 2)
    site.publish("burn", "b")
    eventually(lambda: "b" in site.ended())
    written = site.written()
    assert (written["begin h"], written["begin s"], written["begin b"]) == (2, 2, 2)
    # Each run meets its soft limit once, the one that does not heed it too; that one is given up at its hard limit.
    assert (written["soft b"], written["soft s"]) == (1, 1)
    assert "hard time limit of 0.8 s: order" in worker.output
    # A thread in a system call meets the soft limit when the call returns; everything else immediately.
    assert mode == "--threads" or written["soft h"] == 1
    # One deadline for all attempts: there were several, and not as many as there may be.
    worker.wait_output(r"goes to the dead letters \(deadline\)")
    assert 1 <= site.written()["begin due"] < 50


def test_what_a_killed_worker_had_is_asked_about_and_sent_once(site: Site) -> None:
    store = ("--task-store", f"sqlite:///{site.folder}/orders.db")
    first = site.worker(*store)
    site.publish("send", "slow", seconds=2)
    eventually(lambda: site.written()["begin slow"] == 1)
    site.publish("send", "quick")
    eventually(lambda: "quick" in site.ended())
    site.publish("doubt", "d")
    assert first.wait_exit() == -signal.SIGKILL
    site.worker(*store)
    eventually(lambda: "slow" in site.ended() and site.written()["asked d"] == 1, timeout_s=60)
    written = site.written()
    assert (written["begin d"], written["effect d"], written["begin quick"], written["begin slow"]) == (1, 1, 1, 2)


@pytest.mark.soak
def test_an_order_that_kills_its_workers_goes_to_the_dead_letters(site: Site) -> None:
    options = ("--task-store", f"sqlite:///{site.folder}/orders.db", "--task-attempts", "1")
    first = site.worker(*options)
    site.publish("poison", "p")
    assert first.wait_exit() == -signal.SIGKILL
    second = site.worker(*options)
    second.wait_output("goes to the dead letters", timeout_s=60)
    second.signal(signal.SIGTERM)
    assert second.wait_exit() == 0
    assert site.written()["begin p"] == 1
    ((_, headers),) = site.dead()
    assert told(headers)["reason"] == "attempts"


@pytest.mark.soak
def test_without_a_store_too_the_worker_counts_how_often_an_order_ended_it(site: Site) -> None:
    for _ in range(2):
        worker = site.worker("--task-deliveries", "2")
        if not site.written():
            site.publish("poison", "p")
        assert worker.wait_exit(timeout_s=30) == -signal.SIGKILL
    last = site.worker("--task-deliveries", "2")
    last.wait_output("delivered 3 times", timeout_s=30)
    last.signal(signal.SIGTERM)
    assert last.wait_exit() == 0
    assert site.written()["begin p"] == 2
    ((_, headers),) = site.dead()
    assert told(headers)["reason"] == "deliveries"


def test_messages_that_are_none_go_to_the_dead_letters(site: Site) -> None:
    worker = site.worker()
    with site.app() as shop, shop.app.connection_for_write() as connection:
        producer = connection.Producer()
        publish = {"exchange": "", "routing_key": site.queue}
        producer.publish(b"no json at all", content_type="application/json", content_encoding="utf-8", **publish)
        producer.publish({"neither": "task"}, **publish)
        text = {"content_type": "application/json", "content_encoding": "utf-8"}
        producer.publish(b"{", headers={"task": f"{shop.__name__}.send", "id": "x"}, **text, **publish)
        producer.publish({"a": 1}, headers={"task": f"{shop.__name__}.send", "id": "z"}, **publish)
        producer.publish([[], {}, {}], headers={"task": f"{shop.__name__}.send"}, **publish)
        odd = [{"id": [1]}, {"id": 5}, {"timelimit": [1]}, {"timelimit": ["a", "b"]}, {"eta": "soon"}]
        for number, header in enumerate(odd):
            headers = {"task": f"{shop.__name__}.send", "id": f"odd{number}"} | header
            producer.publish([["o"], {}, {}], headers=headers, **publish)
        producer.publish([["o"], [], {}], headers={"task": f"{shop.__name__}.send", "id": "odd"}, **publish)
        strange = {"task": f"{shop.__name__}.send", "id": "well", "retries": [1], "replaced_task_nesting": {"a": 1}}
        producer.publish([["well"], {}, {}], headers=strange, **publish)
        producer.publish({"a": 1}, headers={"task": "of.another.version", "id": "y"}, **publish)
    site.publish("send", "after")
    eventually(lambda: {"well", "after"} <= site.ended())
    eventually(lambda: worker.output.count("goes to the dead letters") == 11)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    # RabbitMQ 4 drops what was put back 21 times; 3.x would at the first, if it were told "no limit" as 4 wants it.
    for _ in range(25):
        assert len(dead_letters(site.broker, site.queue, 20)) == 11
    dead = site.dead()
    assert sorted(told(headers)["reason"] for _, headers in dead) == ["malformed"] * 11
    assert any(body == b"no json at all" for body, _ in dead)


def test_a_letter_that_cannot_be_published_keeps_no_other_order_waiting(site: Site) -> None:
    with Connection(site.broker) as connection:
        channel = connection.channel()
        full = {"x-max-length": 0, "x-overflow": "reject-publish"}
        channel.queue_declare(f"{site.queue}.dead", durable=True, auto_delete=False, arguments=full)
        worker = site.worker("--task-slots", "2", "--task-parked-most", "4", "--task-return-s", "0.3")
        site.publish("rejected", "j", merchant="other")
        worker.wait_output("an order cannot be handed to")
        # They have no room, and are published to be returned.
        site.publish("send", *orders(20), seconds=0.05)
        eventually(lambda: set(orders(20)) <= site.ended())
        channel.queue_delete(f"{site.queue}.dead")
    site.publish("huge", "h")
    found: list[tuple[bytes, dict[str, Any]]] = []

    def dead() -> bool:
        found.extend(site.dead())
        return len(found) == 2

    eventually(dead)
    assert site.written()["begin j"] == 1
    assert sorted(told(headers)["reason"] for _, headers in found) == ["failed", "rejected"]
    assert max(len(told(headers)["said"]) for _, headers in found) == 500


def test_what_waits_for_a_slot_waits_in_its_queue_where_its_priority_counts(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process, ARGUMENTS='{"x-max-priority": 9}')
    with site.app() as shop:
        low = [shop.send.apply_async((name,), {"seconds": 0.1}, priority=1) for name in orders(80, "low")]
        worker = site.worker("--key", "", "--task-slots", "2")
        eventually(lambda: len(site.ended()) >= 4)
        # Two run, and six are the next: Celery's multiplier is 4.
        assert site.left() >= 80 - len(site.ended()) - 4 * 2 - 4
        for name in orders(10, "high"):
            shop.send.apply_async((name,), {"seconds": 0.1}, priority=9)
        eventually(lambda: len(site.ended()) == len(low) + 10)
    assert "later" not in worker.output
    ends = [line.split()[1] for line in site.book.read_text().splitlines() if line.startswith("end ")]
    assert all(name in ends[:40] for name in orders(10, "high"))


@pytest.mark.parametrize("key", ["", "kwargs.merchant"])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_orders_that_wait_for_their_time_keep_no_others_from_being_received(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess, key: str, kind: str
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process, ARGUMENTS=json.dumps({"x-queue-type": kind}))
    with site.app() as shop:
        for name in orders(60, "later"):
            shop.send.apply_async((name,), {"merchant": "m"}, countdown=300)
        site.publish("send", *orders(5, "now"), merchant="m")
    site.worker("--key", key, "--task-slots", "2", "--task-parked-most", "20", "--task-shutdown-s", "0.1")
    eventually(lambda: set(orders(5, "now")) <= site.ended(), timeout_s=10)


def test_retries_that_have_no_room_in_the_worker_wait_at_the_broker_for_their_tokens(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process, ARGUMENTS=json.dumps({"x-queue-type": "quorum"}))
    # 15 have room; ten tokens are there, and each second brings one more.
    rare = ("--key", "", "--task-slots", "10", "--task-return-s", "0.3", "--task-shutdown-s", "0.1")
    site.worker(*rare, "--task-retries", "1")
    began = time.monotonic()
    site.publish("flaky", *orders(60), failures=99)

    def retried() -> int:
        return sum(max(0, site.written()[f"begin {name}"] - 1) for name in orders(60))

    eventually(lambda: retried() >= 10 + 4)
    assert retried() <= 10 + 1 + time.monotonic() - began


def test_a_slow_keys_orders_keep_no_others_from_being_received(site: Site) -> None:
    with site.app() as shop:
        for name in orders(300, "slow"):
            shop.send.apply_async((name,), {"merchant": "slow", "seconds": 20})
        site.publish("send", *orders(10, "well"), merchant="well")
    site.worker("--task-slots", "4", "--task-limit", "2", "--task-shutdown-s", "0.1")
    eventually(lambda: set(orders(10, "well")) <= site.ended(), timeout_s=10)


@pytest.mark.soak
def test_what_has_no_room_waits_at_the_broker_and_comes_back(site: Site) -> None:
    room = ("--task-slots", "2", "--task-parked-most", "4", "--task-return-s", "0.3")
    worker = site.worker(*room)
    site.publish("send", *orders(20), merchant="slow", seconds=0.1)
    eventually(lambda: len(site.ended()) == 20)
    assert [site.written()[f"begin {name}"] for name in orders(20)] == [1] * 20
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert site.left() == 0


def test_what_runs_too_long_is_cut_off_and_the_exit_code_says_so(site: Site) -> None:
    worker = site.worker("--task-shutdown-s", "0.3")
    site.publish("send", "long", seconds=60)
    eventually(lambda: site.written()["begin long"] == 1)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 1
    assert site.left() == 1


@pytest.mark.parametrize("mode", MOSTLY_THREADS)
def test_an_order_that_fails_late_in_the_shutdown_is_a_dead_letter_and_not_run_again(site: Site, mode: str) -> None:
    worker = site.worker(mode)
    site.publish("rejected_late", "late", seconds=6)
    eventually(lambda: site.written()["begin late"] == 1)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert (site.left(), len(site.dead())) == (0, 1)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_a_worker_ends_within_the_time_of_kubernetes_by_default(site: Site, mode: str) -> None:
    worker = site.worker(mode, "--task-store", f"sqlite:///{site.folder}/orders.db")
    site.publish("send", *orders(5), seconds=300)
    eventually(lambda: len(site.written()) == 5)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit(timeout_s=40) == 1
    assert time.monotonic() - began < 30
    assert site.left() == 5


@pytest.mark.parametrize("mode", MOSTLY_THREADS)
def test_what_ends_while_the_broker_is_away_is_acknowledged_without_a_second_call(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess, mode: str
) -> None:
    direct = Site(tmp_path, rabbitmq_url, start_process)
    port = int(rabbitmq_url.rpartition(":")[2].rstrip("/"))
    with Relay(port) as relay:
        site = Site(tmp_path, rabbitmq_url.replace(str(port), str(relay.port)), start_process)
        direct.queue = site.queue
        worker = site.worker(mode, "--task-slots", "11", "--task-limit", "11")
        direct.publish("send", *orders(9), seconds=1)
        with direct.app() as shop:
            (shop.send.s("first", seconds=1) | shop.send.si("second")).apply_async()
        direct.publish("own_retry", "o9", seconds=1)
        direct.publish("send", *orders(5, "parked"))
        eventually(lambda: sum(site.written()[f"begin {name}"] for name in (*orders(10), "first")) == 11)
        relay.cut()
        # These end, and nobody can be told; one cannot publish its next attempt, one what follows it.
        eventually(lambda: {"first", *orders(9)} <= site.ended())
        worker.wait_output("waits for the broker to take its next attempt")
        relay.mend()
        eventually(lambda: {"o9", "second", *orders(5, "parked")} <= site.ended(), timeout_s=40)
        worker.signal(signal.SIGTERM)
        assert worker.wait_exit() == 0
    written = direct.written()
    assert [written[f"begin {name}"] for name in (*orders(9), *orders(5, "parked"), "first", "second")] == [1] * 16
    assert (written["begin o9"], written["end o9"]) == (2, 1)
    assert direct.left() == 0
    assert "Couldn't ack" not in worker.output
    assert worker.output.count("the connection to the broker was lost") <= 1


@pytest.mark.parametrize("mode", MOSTLY_THREADS)
def test_what_a_worker_had_is_done_once_when_rabbitmq_was_killed_and_is_back(
    tmp_path: Path, start_process: StartProcess, mode: str
) -> None:
    with RabbitMQ() as server:
        site = Site(tmp_path, server.url, start_process)
        worker = site.worker(mode, "--task-slots", "10")
        for merchant in range(4):
            site.publish("send", *orders(10, f"o{merchant}-"), merchant=f"m{merchant}", seconds=0.5)
        eventually(lambda: len(site.ended()) >= 5)
        os.kill(server.pid, signal.SIGKILL)
        server.stop()
        server.start()
        eventually(lambda: len(site.ended()) == 40, timeout_s=60)
        worker.signal(signal.SIGTERM)
        assert worker.wait_exit() == 0
        # What was not acknowledged would be ready again.
        assert site.left() == 0
        assert [count for line, count in site.written().items() if line.startswith("begin")] == [1] * 40


def test_celerys_own_command_takes_the_pool_and_its_step(site: Site, start_process: StartProcess) -> None:
    environment = site.environment | {
        "CELERY_CUSTOM_WORKER_POOL": "greenlane_work.celery:Pool",
        "GREENLANE_TASK_KEY": "kwargs.merchant",
        "GREENLANE_TASK_RETRY_S": "0.05",
        "GREENLANE_TASK_RETRIES": "1",
    }
    celery = [sys.executable, "-m", "celery", "-A", "tests.worker.shop", "worker", "-P", "custom", "-c", "3"]
    worker = start_process([*celery, "-Q", site.queue, "-l", "INFO"], env=environment, cwd=site.folder)
    worker.wait_output(r"ready\.", timeout_s=40)
    site.publish("send", *orders(12), seconds=0.05)
    site.publish("flaky", "f", failures=1)
    eventually(lambda: {*orders(12), "f"} <= site.ended())
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert [site.written()[f"begin {name}"] for name in orders(12)] == [1] * 12
    assert site.left() == 0


@pytest.mark.soak
@pytest.mark.parametrize(
    "pool", [["-P", "custom", "-c", "5"], ["--concurrency=200", "--pool", "gevent"]], ids=["custom", "article"]
)
def test_a_patched_module_runs_under_celerys_own_command(
    site: Site, start_process: StartProcess, pool: list[str]
) -> None:
    environment = site.environment | {"CELERY_CUSTOM_WORKER_POOL": "greenlane_work.celery:GreenPool"}
    celery = [sys.executable, "-m", "celery", "-A", "tests.worker.gcelery", "worker", *pool]
    worker = start_process([*celery, "--loglevel=info", "--without-mingle"], env=environment, cwd=site.folder)
    worker.wait_output(r"ready\.", timeout_s=40)
    site.publish("send", *orders(50), seconds=0.1)
    eventually(lambda: set(orders(50)) <= site.ended())
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert [site.written()[f"begin {name}"] for name in orders(50)] == [1] * 50


@pytest.mark.soak
def test_the_articles_first_command_runs_as_it_is_printed(site: Site, start_process: StartProcess) -> None:
    celery = [sys.executable, "-m", "celery", "-A", "tests.worker.shop", "worker"]
    printed = ["--concurrency=3", "--loglevel=info", "--without-mingle"]
    worker = start_process([*celery, *printed], env=site.environment, cwd=site.folder)
    worker.wait_output(r"ready\.", timeout_s=40)
    site.publish("send", *orders(9), seconds=0.05)
    eventually(lambda: set(orders(9)) <= site.ended())
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0


@pytest.mark.soak
def test_a_broker_that_is_not_there_at_the_start_is_waited_for(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess
) -> None:
    direct = Site(tmp_path, rabbitmq_url, start_process)
    port = int(rabbitmq_url.rpartition(":")[2].rstrip("/"))
    with Relay(port) as relay:
        relay.cut()
        site = Site(tmp_path, rabbitmq_url.replace(str(port), str(relay.port)), start_process)
        direct.queue = site.queue
        worker = site.worker(ready=False)
        worker.wait_output("Trying again", timeout_s=40)
        direct.publish("send", *orders(3))
        relay.mend()
        eventually(lambda: set(orders(3)) <= site.ended(), timeout_s=40)


@pytest.mark.soak
def test_a_green_task_that_never_yields_is_named(site: Site) -> None:
    worker = site.worker("--green", "--task-soft-limit-s", "4", "--task-retries", "1")
    site.publish("burn", "b", merchant="busy")
    site.publish("send", "after")
    worker.wait_output(r"at 'busy' \(tests.worker.shop.burn\) has not yielded for 3", timeout_s=30)
    eventually(lambda: {"b", "after"} <= site.ended())
    assert (site.written()["soft b"], site.written()["begin after"]) == (1, 1)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("nowhere:key", "No module named 'nowhere'"),
        (f"{SHOP}:no_such", "has no attribute 'no_such'"),
        ("merchant", "expected kwargs.NAME"),
    ],
)
def test_a_key_function_that_is_none_is_said_at_the_start(site: Site, key: str, said: str) -> None:
    worker = site.worker("--key", key, ready=False)
    assert worker.wait_exit() == 2
    assert f"task_key='{key}'" in worker.output
    assert said in worker.output
    assert "Traceback" not in worker.output


def test_a_key_function_that_fails_is_told_once_and_the_orders_run(site: Site) -> None:
    worker = site.worker("--key", f"{SHOP}:failing_key")
    site.publish("send", *orders(20))
    eventually(lambda: set(orders(20)) <= site.ended())
    assert worker.output.count("the key function failed") == 1


@pytest.mark.soak
def test_a_login_that_the_broker_refuses_is_said_at_the_start(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, rabbitmq_url.replace("guest:guest", "guest:wrong"), start_process)
    worker = site.worker(ready=False)
    assert worker.wait_exit() == 2
    assert "connect to the broker: broker_url='amqp://guest:***@" in worker.output
    assert "wrong" not in worker.output.replace("hint", "")
