"""What of Celery's surface works here, is refused, or differs: docs/tasks.md says it, and here it is seen."""

from __future__ import annotations

import functools
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from celery import canvas, signals
from celery.worker.control import Panel
from tests.worker.site import Site, eventually

from tests.fixtures import StartProcess
from tests.where import ROOT

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Signals that a worker sends here. `setup_logging` keeps Celery from sending those of the loggers.
LOGGERS = {"after_setup_logger", "after_setup_task_logger"}
SENT = LOGGERS | {
    "before_task_publish", "after_task_publish", "task_prerun", "task_postrun", "task_success", "task_received",
    "task_rejected", "task_unknown", "task_retry", "task_failure", "task_revoked", "task_internal_error",
    "celeryd_init", "celeryd_after_setup", "worker_init", "worker_process_init", "worker_process_shutdown",
    "worker_ready", "worker_shutdown", "worker_shutting_down", "setup_logging", "beat_embedded_init", "heartbeat_sent",
}  # fmt: skip
LAST = {"worker_shutting_down", "worker_shutdown", "worker_process_shutdown"}
#: Remote control commands with arguments, and a word of what they answer.
COMMANDS: dict[str, tuple[dict[str, Any], str]] = {
    "report": ({}, "software ->"), "conf": ({}, "task_acks_late"), "query_task": ({"ids": ["x"]}, "{}"),
    "revoke": ({"task_id": "x"}, "flagged as revoked"), "terminate": ({"task_id": "x", "signal": "TERM"}, "unknown"),
    "revoke_by_stamped_headers": ({"headers": {"h": "1"}}, "flagged"),
    "rate_limit": ({"task_name": "tests.worker.shop.send", "rate_limit": "9/s"}, "new rate limit set"),
    "time_limit": ({"task_name": "tests.worker.shop.send", "soft": 50, "hard": 60}, "time limits set"),
    "clock": ({}, "clock"), "enable_events": ({}, "task events enabled"),
    "disable_events": ({}, "task events disabled"), "heartbeat": ({}, "None"),
    "hello": ({"from_node": "n", "revoked": {}}, "clock"), "ping": ({}, "pong"),
    "stats": ({}, "prefetch_count"), "scheduled": ({}, "[]"), "reserved": ({}, "[]"), "active": ({}, "[]"),
    "revoked": ({}, "x"), "registered": ({}, "tests.worker.shop.send"), "memsample": ({}, ""), "memdump": ({}, ""),
    "objgraph": ({}, ""), "add_consumer": ({"queue": "beside"}, "add consumer beside"),
    "active_queues": ({}, "routing_key"), "cancel_consumer": ({"queue": "beside"}, "no longer consuming from beside"),
}  # fmt: skip
REFUSED = {
    "pool_grow": "expected the number that the worker was started with",
    "pool_shrink": "expected the number that the worker was started with",
    "pool_restart": "Pool restarts not enabled",
    "autoscale": "Autoscale not enabled",
}
MODES = ["--threads", pytest.param("--green", marks=pytest.mark.soak)]


@pytest.fixture(params=["rabbitmq", "redis"])
def site(request: pytest.FixtureRequest, tmp_path: Path, redis_url: str, start_process: StartProcess) -> Site:
    broker = redis_url if request.param == "redis" else request.getfixturevalue("rabbitmq_url")
    return Site(tmp_path, broker, start_process, RESULTS=redis_url)


def test_each_signal_of_celerys_is_sent_once_its_time_has_come(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process, RESULTS=redis_url)
    for starts, wanted in enumerate((SENT - {"setup_logging"}, {"setup_logging", "worker_ready"}), start=1):
        names = ",".join(sorted(wanted))
        beat = ("--beat", "--schedule", str(tmp_path / "schedule"))
        worker = site.worker("--", *beat, "--heartbeat-interval", "1", ready=False, SIGNALS=names)
        ready = functools.partial(lambda starts: site.written()["signal worker_ready"] == starts, starts)
        eventually(ready, timeout_s=40)
        if "task_retry" in wanted:
            with site.app() as shop:
                shop.app.control.revoke("revoked")
                (shop.retries_once.s("r") | shop.text.si("next")).apply_async()
                shop.buggy.delay("b")
                shop.unstored.delay("u")
                shop.app.send_task("of.another.version")
                shop.send.apply_async(("o",), task_id="revoked")
                with shop.app.connection_for_write() as connection:
                    connection.Producer().publish({"neither": "task"}, exchange="", routing_key=site.queue)
            eventually(lambda: {f"signal {name}" for name in SENT - LAST - {"setup_logging"}} <= set(site.written()))
        worker.signal(signal.SIGTERM)
        worker.wait_exit(timeout_s=40)
    assert {line.split()[1] for line in site.written() if line.startswith("signal ")} == SENT
    once = ("worker_process_init", "worker_process_shutdown", "worker_shutting_down", "setup_logging")
    assert [site.written()[f"signal {name}"] for name in once] == [1] * len(once)


@pytest.mark.gate
def test_each_remote_command_answers_or_is_refused_by_name(site: Site) -> None:
    worker = site.worker()
    with site.app() as shop:

        def answer(name: str, arguments: dict[str, Any]) -> str:
            replies = shop.app.control.broadcast(name, arguments=arguments, reply=True, timeout=5, limit=1)
            return str(next(iter(replies[0].values()))) if replies else ""

        eventually(lambda: "pong" in answer("ping", {}))
        expected = COMMANDS | {name: ({}, said) for name, said in REFUSED.items()}
        answers = {name: answer(name, arguments) for name, (arguments, _) in expected.items()}
        assert {name: answers[name] for name, (_, said) in expected.items() if said not in answers[name]} == {}
        shop.app.control.broadcast("election", arguments={"id": "x", "topic": "task", "action": "y"})
        assert shop.send.delay("o").get(timeout=20) == "sent o"
        shop.app.control.shutdown()
    assert worker.wait_exit(timeout_s=40) == 0


@pytest.mark.parametrize("mode", MODES)
def test_each_form_of_celerys_canvas_gives_what_celery_gives(site: Site, mode: str) -> None:
    site.worker(mode)
    with site.app() as shop:
        text, members = shop.text, [shop.text.si(word) for word in "abc"]
        stamped = text.si("stamped")
        stamped.stamp(order="7")
        forms: list[tuple[Any, object]] = [
            (shop.chain(text.si("a"), text.s("b"), text.s("c")), "a b c"),
            (shop.group(members), ["a", "b", "c"]),
            (shop.chord(members, shop.joined.s()), "a+b+c"),
            (shop.chain(shop.group(members), shop.joined.s(), text.s("then")), "a+b+c then"),
            (shop.chord([shop.adds.s("a"), text.si("b")], shop.joined.s()), "a+a-more+b"),
            (shop.chord([shop.replaces.s("a"), text.si("b")], shop.joined.s()), "a+b"),
            (shop.chord([shop.chord(members, shop.joined.s()), text.si("b")], shop.joined.s()), "a+b+c+b"),
            (text.map(["a", "b"]), ["a", "b"]),
            (text.starmap([("a", 1), ("b", 2)]), ["a 1", "b 2"]),
            (text.chunks([("a", 1), ("b", 2), ("c", 3)], 2).group(), [["a 1", "b 2"], ["c 3"]]),
            (shop.replaces.s("r"), "r"),
            (stamped, "stamped"),
        ]
        for form, expected in [(form.apply_async(), expected) for form, expected in forms]:
            assert form.get(timeout=30) == expected
        text.apply_async(("linked",), link=shop.send.si("link"))
        shop.buggy.apply_async(("bug",), link_error=shop.failed_over.s())
        eventually(lambda: "link" in site.ended() and site.written()["errback KeyError"] == 1)


def rows(heading: str) -> dict[str, str]:
    """Name -> what is said of it, of a table of the docs."""
    text = (ROOT / "docs" / "tasks.md").read_text()
    table = text[text.index(f"| {heading} |") :].partition("\n\n")[0]
    cells = [row.split("|") for row in table.splitlines()[2:]]
    return {name: row[2].strip() for row in cells for name in re.findall(r"`([^`]+)`", row[1])}


def test_the_tables_in_the_docs_name_all_that_celery_has_and_say_what_is_seen_here() -> None:
    told = rows("signal of Celery's")
    assert set(told) == set(signals.__all__)
    assert {name for name, said in told.items() if said.startswith("sent")} == SENT
    told = rows("remote control command")
    assert set(told) == set(Panel.meta) - {"greenlane_requests"} == {*COMMANDS, *REFUSED, "election", "shutdown"}
    assert {name for name, said in told.items() if said.startswith("refused")} == set(REFUSED)
    forms = {"xmap": "map", "xstarmap": "starmap"}
    functions = {"signature", "maybe_signature"}
    classes = {forms.get(name, name) for name in canvas.__all__ if name not in functions}
    assert classes <= set(rows("form of Celery's canvas"))
