"""A stock Celery worker and `greenlane celery` on two sides of a diversion, one store: every order has one effect.

Orders are published while the share goes 0 -> 100 -> 0 %, and each tenth of them to both sides at once, as a message
that a broker delivers again on the other side would be.
"""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kombu
import pytest
from celery import Celery

from greenlane_work.diversion import Router, open_place, set_share, wait_seen

SHOP = """
import os, time
import kombu
from celery import Celery
from greenlane.errors import OrderWaits
from greenlane_work import once
from greenlane_work.store import open_store

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(
    task_acks_late=True, task_ignore_result=True, worker_prefetch_multiplier=1,
    broker_transport_options={"confirm_publish": True}, broker_connection_retry_on_startup=True,
    task_queues=[kombu.Queue("two-sides"), kombu.Queue("two-sides-new")],
)
store = open_store(os.environ["SHOP_STORE"]) if os.environ["SHOP_SIDE"] == "old" else None

def effect(order):
    time.sleep(0.01)
    with open(os.environ["SHOP_EFFECTS"], "a") as effects:
        effects.write(f"{order} {os.environ['SHOP_SIDE']}\\n")
    return order

@app.task(bind=True, name="send", max_retries=None)
def send(self, order):
    if store is None:
        return effect(order)
    try:
        return once(store, f"{self.name}/{order}", lambda: effect(order))
    except OrderWaits as wait:
        raise self.retry(countdown=wait.wait_s)
"""
ORDERS = 150


@pytest.mark.slow
@pytest.mark.system
def test_two_workers_and_one_store_give_each_order_one_effect(
    rabbitmq_url: str, tmp_path: Path, start_process: Callable[..., Any]
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    effects, url = tmp_path / "effects", f"file://{tmp_path}/shares"
    store = f"sqlite:///{tmp_path}/orders.db"
    around = {"SHOP_BROKER": rabbitmq_url, "SHOP_EFFECTS": str(effects), "SHOP_STORE": store}
    celery = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-P", "threads", "-c", "16", "-Q", "two-sides"]
    alone = ["--without-heartbeat", "--without-gossip", "--without-mingle", "-l", "INFO"]
    greenlane = [sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())"]
    ours = ["--task-store", store, "--task-order", "send=kwargs.order", "--task-slots", "32"]
    workers = [
        start_process([*celery, *alone], env={**around, "SHOP_SIDE": "old"}, cwd=tmp_path),
        start_process(
            [*greenlane, "celery", "shop", *ours, "--", "-Q", "two-sides-new", "-l", "INFO"],
            env={**around, "SHOP_SIDE": "new"},
            cwd=tmp_path,
        ),
    ]
    for worker in workers:
        worker.wait_output(" ready")
    app = Celery("shop", broker=rabbitmq_url, set_as_current=False)
    app.conf.update(
        task_routes=[Router("two-sides", by="kwargs.order", tasks=["send"], at=url)],
        task_default_queue="two-sides",
        task_queues=[kombu.Queue("two-sides"), kombu.Queue("two-sides-new")],
        broker_transport_options={"confirm_publish": True},
    )
    place, third = open_place(url), ORDERS // 3
    with app, kombu.Connection(rabbitmq_url) as connection:
        for number in range(ORDERS):
            if number in (third, 2 * third):
                share = set_share(place, "two-sides", 1.0 if number == third else 0.0, "two-sides-new")
                assert not wait_seen(place, share, 20).unseen
            app.send_task("send", kwargs={"order": str(number)})
            if number % 10 == 0:
                for queue in ("two-sides", "two-sides-new"):
                    _again(app, connection, queue, str(number))
        _made(effects, ORDERS, workers)
        _until_empty(connection, workers)
    made = _made(effects, ORDERS, workers)
    assert collections.Counter(order for order, _ in made) == {str(number): 1 for number in range(ORDERS)}
    sides = dict(made)
    assert {sides[str(number)] for number in range(third, 2 * third) if number % 10} == {"new"}
    assert {sides[str(number)] for number in (*range(third), *range(2 * third, ORDERS)) if number % 10} == {"old"}


def _again(app: Celery, connection: Any, queue: str, order: str) -> None:
    """Publish an order to one side, whatever is diverted."""
    message = app.amqp.create_task_message(order + queue, "send", (), {"order": order})
    kombu.Producer(connection).publish(
        message.body, routing_key=queue, headers=message.headers, serializer="json", **message.properties
    )


def _made(effects: Path, orders: int, workers: list[Any]) -> list[list[str]]:
    end = time.monotonic() + 60
    while True:
        made = [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []
        if len({order for order, _ in made}) == orders:
            return made
        assert time.monotonic() < end, [worker.output[-2000:] for worker in workers]
        time.sleep(0.05)


def _until_empty(connection: Any, workers: list[Any]) -> None:
    """Wait until what was published twice has been taken, too, and was found done."""
    end = time.monotonic() + 60
    while True:
        with connection.channel() as channel:
            counts = [
                channel.queue_declare(name, passive=True).message_count for name in ("two-sides", "two-sides-new")
            ]
        if not any(counts):
            break
        assert time.monotonic() < end, [worker.output[-2000:] for worker in workers]
        time.sleep(0.05)
    for worker in workers:
        worker.end(grace_s=0.5)  # stock Celery takes ten seconds to end with nothing to do
