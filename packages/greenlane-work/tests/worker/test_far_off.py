"""Orders whose time is far off go back to the broker before Celery makes a request of each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker.state import revoked

from greenlane_work.worker.delivery import Line
from greenlane_work.worker.messages import OrderReader
from greenlane_work.worker.totals import Totals

ETA = (datetime.now(UTC) + timedelta(hours=10)).isoformat()


def far_off(redelivered: bool = False, **headers: object) -> Any:
    reader = OrderReader(Line(), Totals(), key_of=None, orders_of={})
    said = {"id": "1", "task": "send", "eta": ETA, "retries": 2} | headers
    message = SimpleNamespace(headers=said, body=b"{}", delivery_info={"redelivered": redelivered})
    return reader.far_off(message, 600, {"send"})


def test_one_that_nobody_had_keeps_its_identity_and_gets_no_name() -> None:
    order, left_s = far_off(eta=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert 3500 < left_s <= 3600
    assert order.identity == ("send", "1", 2, 0)
    assert order.came == (order.identity, 0, 0, 0, 0)
    assert "greenlane-order" not in order.headers()  # its task may read another one from its arguments


@pytest.mark.parametrize(
    "headers",
    [
        {"redelivered": True},
        {"task": "unknown"},
        {"task": ["send"]},
        {"id": 5},
        {"eta": None},
        {"eta": "soon"},
        {"eta": 5},
        {"eta": "2096-01-01T00:00:00"},
        pytest.param({"eta": (datetime.now(UTC) + timedelta(minutes=9)).isoformat()}, id="soon"),
        pytest.param({"expires": ETA}, id="expires"),
        {"greenlane-deliveries": 1},
    ],
    ids=str,
)
def test_all_others_are_received_as_ever(headers: dict[str, Any]) -> None:
    assert far_off(**headers) is None


def test_a_revoked_one_is_settled_now() -> None:
    revoked.add("revoked")
    try:
        assert far_off(id="revoked") is None
    finally:
        revoked.discard("revoked")
