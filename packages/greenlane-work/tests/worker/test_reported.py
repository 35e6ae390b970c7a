"""What Sentry and OpenTelemetry, switched on as their manuals say, are sent by a worker."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.worker.site import Site, eventually

from greenlane_work.headers import RETURNS
from greenlane_work.order import DEADLINE
from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: One event: each is a death that somebody should look at.
DEATHS: dict[str, tuple[str, dict[str, object], dict[str, object]]] = {
    "raised": ("buggy", {}, {}),
    "celerys-retries": ("celerys_retries", {"failures": 9}, {}),
    "our-retries": ("our_retries", {"failures": 9}, {}),
    "rejected": ("rejected", {}, {}),
    "unpublished": ("unpublished", {}, {}),
    "soft-limit": ("burn", {}, {"soft_time_limit": 0.5}),  # until it is stopped, however late that is
    "hard-limit": ("quits_late", {}, {"time_limit": 0.5}),
    "both-limits": ("quits_late", {}, {"soft_time_limit": 0.3, "time_limit": 0.6}),
    "exits": ("quits", {}, {}),
    "lost-workers": ("send", {}, {"headers": {"x-delivery-count": 16}}),
    "too-late": ("send", {}, {"headers": {DEADLINE: 1.0}}),
    "asked": ("failing_ask", {}, {"headers": {"greenlane-deliveries": 1}}),
}
#: None: they ended as somebody wanted it.
NO_DEATHS: dict[str, tuple[str, dict[str, object], dict[str, object]]] = {
    "sent": ("send", {}, {}),
    "third-time": ("celerys_retries", {"failures": 2}, {}),
    "second-time": ("our_retries", {"failures": 1}, {}),
    "own-retry": ("own_retry", {}, {}),
    "expected": ("answers", {}, {}),
    "expired": ("send", {}, {"expires": -1}),
}


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("pool", [(), ("--green",)], ids=["threads", "green"])
@pytest.mark.gate
def test_an_order_that_dies_makes_one_event_for_sentry_and_any_other_none(
    tmp_path: Path, redis_url: str, start_process: StartProcess, pool: tuple[str, ...]
) -> None:
    site, events = Site(tmp_path, redis_url, start_process), tmp_path / "events"
    site.worker(
        *pool, "--task-attempts", "1", "--task-shutdown-s", "0.1", "--task-breaker-calls", "4", "--task-open-s", "0.2",
        EVENTS=str(events),
    )  # fmt: skip
    with site.app() as shop:
        for name, (task, arguments, options) in (DEATHS | NO_DEATHS).items():
            # Each at a merchant of its own: no breaker opens.
            getattr(shop, task).apply_async((name,), {"merchant": name, **arguments}, task_id=name, **options)
        for name in ("down0", "down1", "down2", "down3", "down4"):  # these open one
            shop.flaky.apply_async((name,), {"merchant": "down", "failures": 9}, task_id=name)
        with shop.app.connection_for_write() as connection:
            publish = connection.Producer().publish
            unknown = {"task": "no-such-task", "id": "unknown", RETURNS: 16}
            publish([["o"], {}, {}], headers=unknown, exchange="", routing_key=site.queue)
            invalid = {"task": f"{shop.__name__}.send", "id": "invalid", "eta": "hung up"}
            publish([["o"], {}, {}], headers=invalid, exchange="", routing_key=site.queue)
    deaths = [*DEATHS, "down0", "down1", "down2", "down3", "down4", "unknown", "invalid"]
    letters: list[str] = []

    def missing() -> set[str]:
        letters.extend(str(headers["id"]) for _, headers in site.dead())
        return {*deaths} - {*letters}

    with contextlib.suppress(AssertionError):
        eventually(lambda: not missing(), timeout_s=60)
    assert missing() == set()
    eventually(lambda: {"sent", "third-time", "second-time", "own-retry"} <= site.ended())
    found = {name: [_short(each) for each in lines(events) if name in _named(each)] for name in [*deaths, *NO_DEATHS]}
    wrong = {name: each for name, each in found.items() if len(each) != (name in deaths)}
    assert wrong == {}
    assert len(lines(events)) == len(deaths)
    assert sorted(letters) == sorted(deaths)


def _named(event: Any) -> set[str]:
    """The order that an event is about: Sentry's tag, or a word of the log line."""
    line = event.get("logentry") or {}
    words = [event.get("tags", {}).get("celery_task_id"), *(line.get("params") or [])]
    return {str(word) for word in words}


def _short(event: Any) -> str:
    line = (event.get("logentry") or {}).get("message")
    raised = [each["type"] for each in (event.get("exception") or {}).get("values", [])]
    return f"{event.get('level')} {event.get('logger')} {line} {raised}"


@pytest.mark.parametrize("pool", [(), ("--green",)], ids=["threads", "green"])
def test_orders_with_a_rate_limit_have_a_span_each_in_their_publishers_trace_and_keep_no_others(
    tmp_path: Path, redis_url: str, start_process: StartProcess, pool: tuple[str, ...]
) -> None:
    site, spans = Site(tmp_path, redis_url, start_process), tmp_path / "spans"
    site.worker(*pool, "--task-slots", "2", "--", "--prefetch-multiplier", "1", SPANS=str(spans))
    traces = {}
    with site.app() as shop:
        for task, count in (("rarely", 20), ("send", 20)):
            for number in range(count):
                name = f"{task}{number}"
                traces[name] = (f"run/{shop.__name__}.{task}", f"{len(traces) + 1:032x}", f"{len(traces) + 1:016x}")
                parent = f"00-{traces[name][1]}-{traces[name][2]}-01"
                getattr(shop, task).apply_async((name,), headers={"traceparent": parent})
    eventually(lambda: len([each for each in lines(spans) if each[0].startswith("run/")]) >= 40, timeout_s=60)
    found = [each for each in lines(spans) if each[0].startswith("run/")]
    assert sorted(found) == sorted([*each, "UNSET"] for each in traces.values())
    # Stock Celery receives no others while those wait for the limit.
    begun = [line.split()[1] for line in site.book.read_text().splitlines() if line.startswith("begin ")]
    assert begun.index("rarely19") == 39
