"""Orders go through the real thing: backend, RabbitMQ, a Celery worker, merchants over HTTP and gRPC."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pos.backend.orders import ENDED
from pos.journal import Follower, ends
from pos.queueing import DEAD, DIVERTED
from pos.site import Site
from tests.pos.conftest import MERCHANTS, Backend

pytestmark = pytest.mark.system


def until(reached: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """The first true answer."""
    end_s = time.monotonic() + seconds
    while not (found := reached()):
        assert time.monotonic() < end_s, what
        time.sleep(0.02)
    return found


def ended(backend: Backend, order: str) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        _, found = backend.ask(f"/orders/{order}")
        return found if found.get("state") in ENDED else None

    found: dict[str, Any] = until(reached, f"an end of order {order}")
    return found


def failed(order: dict[str, Any]) -> bool:
    """An attempt has failed; it may be over before anybody looks, then the merchant was asked since."""
    return order["state"] == "retrying" or order["attempts"] > 1 or order["remark"] == "the merchant had it"


@pytest.mark.parametrize("merchant", MERCHANTS)
@pytest.mark.gate
def test_an_order_is_accepted_and_reaches_its_merchant_once(site: Site, backend: Backend, merchant: str) -> None:
    order = f"once-{merchant}"
    status, said = backend.ask("/orders", {"merchant": merchant, "order": order})
    assert (status, said) == (202, {"order": order, "status": f"/orders/{order}"})
    found = ended(backend, order)
    assert (found["state"], found["attempts"], found["merchant"]) == ("done", 1, merchant)
    assert site.effects(merchant, orders=True)["of_order"][order] == [1, 1]


def test_the_same_id_is_the_same_order_however_often_and_fast_it_comes(site: Site, backend: Backend) -> None:
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(backend.ask, "/orders", {"merchant": "taco", "order": "same"}) for _ in range(16)]
        assert {one.result()[0] for one in asked} == {202}
    assert ended(backend, "same")["attempts"] == 1
    assert site.effects("taco", orders=True)["of_order"]["same"] == [1, 1]
    status, said = backend.ask("/orders", {"merchant": "bento", "order": "same"})
    assert status == 400 and "which order 'same' went to" in said["error"]


def test_an_order_without_an_id_gets_one(backend: Backend) -> None:
    status, said = backend.ask("/orders", {"merchant": "bento"})
    assert status == 202 and ended(backend, said["order"])["state"] == "done"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/orders", b"{", "expected JSON"),
        ("/orders", [], "expected a JSON object"),
        ("/orders", {}, "merchant=None, expected one of bento, sushi, taco"),
        ("/orders", {"merchant": ["taco"]}, "expected one of"),
        ("/orders", {"merchant": "taco", "order": "a b"}, "order='a b', expected an id"),
        ("/orders", {"merchant": "taco", "order": 7}, "order=7, expected an id"),
        ("/orders", {"merchant": "taco", "order": "x" * 65}, "expected an id"),
        ("/orders", {"merchant": "taco", "within_s": -1}, "expected a number from 0"),
        ("/load", {"per_s": -1}, "expected a number from 0"),
        ("/load", {"per_s": True}, "expected a number from 0"),
        ("/diversion", {"share": 1.5}, "expected a number from 0 to 1"),
        ("/live?after=x", None, "expected a whole number"),
        ("/merchants/nobody", {}, "expected one of bento, sushi, taco"),
        ("/merchants/taco", {"median_ms": -1}, "0 <= median_ms"),
    ],
)
def test_a_wrong_question_is_answered_with_what_was_expected(backend: Backend, path: str, body: Any, said: str) -> None:
    status, answer = backend.ask(path, body)
    assert status == 400 and said in answer["error"]


def test_an_unknown_order_is_not_found(backend: Backend) -> None:
    assert backend.ask("/orders/nobody")[0] == 404


@pytest.mark.parametrize("merchant", ["sushi", "taco"])
@pytest.mark.parametrize("law", ["lie_frac", "reset_frac", "error_frac"])
def test_a_merchant_that_fails_is_asked_before_it_is_called_again(
    site: Site, backend: Backend, merchant: str, law: str
) -> None:
    order = f"{merchant}-{law}"
    site.set_law(merchant, **{law: 1})
    try:
        assert backend.ask("/orders", {"merchant": merchant, "order": order})[0] == 202
        until(lambda: failed(backend.ask(f"/orders/{order}")[1]), "a failed attempt")
    finally:
        site.set_law(merchant, **{law: 0})
    found = ended(backend, order)
    # Asked by the task in a second attempt, or before it on behalf of the store.
    assert found["state"] == "done" and (found["attempts"] > 1 or found["remark"] == "the merchant had it")
    assert site.effects(merchant, orders=True)["of_order"][order][1] == 1


def test_diverted_orders_go_to_the_other_worker_and_back(site: Site, backend: Backend) -> None:
    def queue_of(order: str) -> str:
        assert backend.ask("/orders", {"merchant": "taco", "order": order})[0] == 202
        found = ended(backend, order)
        assert (found["state"], site.effects("taco", orders=True)["of_order"][order]) == ("done", [1, 1])
        return str(found["queue"])

    def sent_to(queue: str, prefix: str) -> bool:
        return any(queue_of(f"{prefix}-{number}") == queue for number in range(20))

    assert queue_of("before") == "orders"
    assert backend.ask("/diversion", {"share": 1}) == (200, {"share": 1, "to": "greenlane"})
    assert sent_to("greenlane", "diverted")
    live = backend.ask("/live")[1]
    assert live["diversion"] == {"share": 1, "to": "greenlane"}
    upstream = until(lambda: backend.ask("/live")[1]["merchants"]["taco"]["upstream"], "what the worker tells")
    assert upstream["breaker"] == "closed" and upstream["limit"] >= 1
    assert backend.ask("/diversion", {"share": 0})[0] == 200
    assert sent_to("orders", "back")


def test_orders_of_a_merchant_that_nobody_knows_end_with_the_dead_letters(site: Site) -> None:
    follower = Follower(site.around.journal, from_end=True)
    site.app.send_task("pos.send_order", kwargs={"order": "lost", "merchant": "nobody"}, task_id="lost", queue="orders")
    entries: list[Any] = []

    def told() -> bool:
        entries.extend(follower.new())
        return "lost" in ends(entries)

    until(told, "an end of the order")
    follower.close()
    with site.app.connection_for_read() as connection:
        channel = connection.default_channel
        message = until(lambda: channel.basic_get(DEAD), "a dead letter")
        channel.basic_ack(message.delivery_tag)
    assert message.headers["id"] == "lost" and message.headers["x-death"][0]["queue"] == "orders"


def test_made_up_orders_flow_until_they_are_stopped(backend: Backend) -> None:
    def done() -> list[int]:
        return [flow["done"] for flow in backend.ask("/live")[1]["merchants"].values()]

    before = done()
    assert backend.ask("/load", {"per_s": 60}) == (200, {"per_s": 60})
    try:
        until(lambda: all(now >= was + 5 for was, now in zip(before, done(), strict=True)), "orders at each merchant")
    finally:
        backend.ask("/load", {"per_s": 0})
    live = backend.ask("/live?after=0")[1]
    assert {event[3] for event in live["events"]} >= set(MERCHANTS) and live["refused"] == 0
    assert backend.ask(f"/live?after={live['number'] + 10**6}")[1]["events"] == []


@pytest.mark.parametrize("queue", ["orders", DIVERTED])
def test_what_is_cancelled_or_too_late_when_its_turn_comes_is_not_sent(
    site: Site, backend: Backend, queue: str
) -> None:
    backend.ask("/diversion", {"share": 0 if queue == "orders" else 1})
    until(lambda: backend.ask("/live?after=0")[1]["diversion"]["share"] == (queue == DIVERTED), "a diversion")
    time.sleep(1.5)  # producers look once a second
    contender = "gevent-200" if queue == "orders" else "greenlane"
    site.workers.pop(contender).end(5)
    try:
        taken, late, sent = (f"{name}-{queue}" for name in ("taken", "late", "sent"))
        assert backend.ask("/orders", {"merchant": "taco", "order": taken, "within_s": 600})[0] == 202
        assert backend.ask("/orders", {"merchant": "taco", "order": late, "within_s": 0.1})[0] == 202
        assert backend.ask("/orders", {"merchant": "taco", "order": sent, "within_s": 600})[0] == 202
        assert backend.ask(f"/orders/{taken}/cancel", {})[0] == 202
    finally:
        site.start_worker(contender, queue)
    assert [ended(backend, order)["state"] for order in (taken, late, sent)] == ["cancelled", "refunded", "done"]
    seen = site.effects("taco", orders=True)["of_order"]
    assert taken not in seen and late not in seen and seen[sent] == [1, 1]
    status, said = backend.ask(f"/orders/{sent}/cancel", {})
    assert (status, said["state"]) == (409, "done")
    assert backend.ask("/orders/nobody/cancel", {})[0] == 404
    backend.ask("/diversion", {"share": 0})
