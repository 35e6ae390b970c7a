"""0 -> 100 -> 0 % while producers publish to a real RabbitMQ: nothing lost or doubled, no order on the wrong side.

One producer is a Celery application with a router, one publishes with kombu and `divert`; both with confirms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kombu
import pytest

PRODUCER = """
import json, sys, time
kind, broker, old = sys.argv[1:]
import kombu
from greenlane_work.diversion import Router, divert

def by_celery():
    from celery import Celery
    app = Celery("shop", broker=broker)
    app.conf.update(
        task_routes=[Router(old, by="kwargs.order", tasks=["send"])], task_default_queue=old,
        broker_transport_options={"confirm_publish": True},
        task_queues=[kombu.Queue(name) for name in (old, old + "-new")],
    )
    def send(order):
        app.send_task("send", kwargs={"order": order}, headers={"order": order})
    return send

def by_kombu():
    connection = kombu.Connection(broker, transport_options={"confirm_publish": True})
    producer = connection.Producer()
    def send(order):
        producer.publish({}, routing_key=divert(old, order), headers={"order": order}, delivery_mode=2)
    return send

send = {"celery": by_celery, "kombu": by_kombu}[kind]()
number = 0
while True:
    order, began = f"{kind}-{number}", time.time()
    send(order)
    number += 1
    print(json.dumps([order, began]), flush=True)
    time.sleep(0.002)
"""


@pytest.mark.slow
@pytest.mark.system
def test_orders_change_sides_while_producers_publish(
    rabbitmq_url: str, tmp_path: Path, run_cli: Callable[..., Any], start_process: Callable[..., Any]
) -> None:
    old, new, url = "load", "load-new", f"file://{tmp_path}/shares"
    with kombu.Connection(rabbitmq_url) as connection:
        for name in (old, new):
            kombu.Queue(name, durable=True)(connection).declare()
        producers = [
            start_process([sys.executable, "-c", PRODUCER, kind, rabbitmq_url, old], env={"GREENLANE_DIVERSION": url})
            for kind in ("celery", "kombu")
        ]
        changes = []
        for number, share in enumerate(("100%", "0")):
            for producer in producers:
                producer.wait_output(f'"[a-z]+-{number * 150 + 100}"')
            options = ("--to", new, "--share", share, "--diversion", url, "--json", "--wait-s", "20")
            changes.append(json.loads(run_cli("divert", old, *options).out))
        for producer in producers:
            last = producer.output.count("\n")
            producer.wait_output(f'"[a-z]+-{last + 50}"')
            producer.end()
        published = dict(
            json.loads(line) for each in producers for line in each.output.splitlines() if line[-1:] == "]"
        )
        found = {name: _drained(connection, name) for name in (old, new)}
    everything = [*found[old], *found[new]]
    # A producer that is ended may have been confirmed one order that it did not print.
    assert 0 <= len(everything) - len(published) <= len(producers)
    assert len(set(everything)) == len(everything)
    assert set(published) <= set(everything)
    shares = [change["rows"][0] for change in changes]
    seen_s = [max(row["seen_s"] for row in change["rows"][1:]) for change in changes]
    assert all(len(change["rows"]) == 3 and all(row["seen"] for row in change["rows"][1:]) for change in changes)
    # After the last producer has seen it, each order goes to the new side, until the next change is made; then back.
    on_new = {order for order, began in published.items() if seen_s[0] < began < shares[1]["set_s"]}
    on_old = {order for order, began in published.items() if began > seen_s[1] or began < shares[0]["set_s"]}
    assert on_new and on_new <= set(found[new])
    assert on_old and on_old <= set(found[old])
    print("time to effect, s:", [share["effect_s"] for share in shares])


def _drained(connection: kombu.Connection, name: str) -> list[str]:
    with connection.channel() as channel:
        orders = []
        while (message := kombu.Queue(name, channel=channel).get(no_ack=True)) is not None:
            orders.append(message.headers["order"])
        return orders
