"""The Celery router, on a real Celery application."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Queue

from greenlane.errors import DiversionError, SettingsError
from greenlane_work.diversion import Router, open_place
from greenlane_work.diversion.effect import set_share
from greenlane_work.diversion.opening import watch


class Shop:
    """An application whose orders go to a broker in memory; `sent` says to which queue."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.url = f"file://{folder}/shares"
        self.router = Router("orders", **{"by": "kwargs.order", "tasks": ["shop.send*"], "at": self.url, **options})
        self.app = Celery("shop", broker="memory://")
        self.app.conf.update(
            task_routes=[self.router, {"shop.other": {"queue": "others"}}],
            task_default_queue="orders",
            task_queues=[Queue(name) for name in ("orders", "new", "others")],
        )
        self.send = self.app.task(name="shop.send_order")(_ordered)
        self.other = self.app.task(name="shop.other")(_ordered)

    def divert(self, share_frac: float) -> None:
        self.revision = set_share(open_place(self.url), "orders", share_frac, "new").revision
        found = watch("orders", self.url)
        assert found is not None
        while found.share.revision != self.revision:
            pass

    def sent(self, task: Any, **options: Any) -> str:
        """Publish one order; the queue that it is found in."""
        task.apply_async(**options)
        with self.app.connection_for_read() as connection:
            for name in ("orders", "new", "others"):
                with connection.SimpleQueue(name) as queue:
                    if queue.qsize():
                        queue.get(block=False).ack()
                        return name
        return "nowhere"


def _ordered(order: str = "", merchant: str = "") -> None:
    pass


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    found = watch("orders", shop.url)
    if found is not None:
        found.close()


def test_orders_go_where_the_share_says(shop: Shop) -> None:
    assert shop.sent(shop.send, kwargs={"order": "1"}) == "orders"
    for share, queue in ((1.0, "new"), (0.0, "orders"), (1.0, "new")):
        shop.divert(share)
        assert shop.sent(shop.send, kwargs={"order": "1"}) == queue


def test_the_caller_s_own_word_for_the_queue_is_diverted_too(shop: Shop) -> None:
    shop.divert(1.0)
    assert shop.sent(shop.send, kwargs={"order": "1"}, queue="orders") == "new"
    assert shop.sent(shop.other, kwargs={"order": "1"}, queue="orders") == "new"


def test_what_goes_elsewhere_is_left_alone(shop: Shop) -> None:
    shop.divert(1.0)
    assert shop.sent(shop.other, kwargs={"order": "1"}) == "others"
    assert shop.sent(shop.send, kwargs={"order": "1"}, queue="others") == "others"


def test_a_retry_stays_on_the_side_that_began_it(shop: Shop) -> None:
    shop.divert(1.0)

    @shop.app.task(name="shop.send_again", bind=True)
    def again(self: Any, order: str, retrying: bool = False) -> str:
        return shop.sent(self, kwargs={"order": order}, **({"queue": "orders"} if retrying else {}))

    assert shop.sent(again, kwargs={"order": "1"}) == "new"
    assert again.apply(kwargs={"order": "1", "retrying": True}).get() == "orders"


def test_an_order_without_a_key_stays_and_is_counted(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.divert(1.0)
    for _ in range(3):
        assert shop.sent(shop.send, kwargs={}) == "orders"
    assert shop.router.keyless == 3
    assert caplog.text.count("task shop.send_order has no key to divert it by") == 1


def test_orders_of_one_merchant_go_together(tmp_path: Path) -> None:
    shop = Shop(tmp_path, by="kwargs.merchant")
    shop.divert(0.5)
    merchants = {
        merchant: {shop.sent(shop.send, kwargs={"order": str(order), "merchant": merchant}) for order in range(5)}
        for merchant in ("taco", "sushi", "pizza", "curry", "ramen", "poke")
    }
    assert all(len(queues) == 1 for queues in merchants.values())
    assert set.union(*merchants.values()) == {"orders", "new"}


@pytest.mark.parametrize(
    ("options", "says"),
    [({"by": ""}, "by='', expected kwargs.NAME"), ({"by": "order"}, "by='order', expected kwargs.NAME")],
)
def test_a_router_without_a_key_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Router("orders", **options)
    with pytest.raises(DiversionError, match="flow='a b'"):
        Router("a b", by="args.0")
