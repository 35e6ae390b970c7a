"""`once`: the store around a call, for workers that are not Greenlane's."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from greenlane.errors import OrderWaits
from greenlane_work import NotSent, once
from greenlane_work.keys import KEY_CHARACTERS, checked_key, fitted_key
from greenlane_work.store import Store, open_store


class Merchant:
    """Takes orders; `fails` is raised after the effect, `refuses` before it."""

    def __init__(self) -> None:
        self.effects = 0
        self.calls = 0
        self.fails: BaseException | None = None
        self.refuses: BaseException | None = None

    def post(self) -> dict[str, int]:
        self.calls += 1
        if self.refuses is not None:
            raise self.refuses
        self.effects += 1
        if self.fails is not None:
            raise self.fails
        return {"number": self.effects}

    def look_up(self) -> dict[str, int] | None:
        return {"number": self.effects} if self.effects else None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/orders.db", patience_s=20)
    yield store
    store.close(0)


def test_an_order_is_called_once_and_gives_its_result_each_time(store: Store) -> None:
    merchant = Merchant()
    assert [once(store, "send/1", merchant.post) for _ in range(3)] == [{"number": 1}] * 3
    assert merchant.calls == 1


def test_where_nobody_knows_the_merchant_is_asked(store: Store) -> None:
    merchant = Merchant()
    merchant.fails = TimeoutError("read timed out")
    with pytest.raises(TimeoutError):
        once(store, "send/1", merchant.post, ask=merchant.look_up)
    merchant.fails = None
    assert once(store, "send/1", merchant.post, ask=merchant.look_up) == {"number": 1}
    assert merchant.calls == 1


def test_a_merchant_that_has_not_seen_it_is_called_again(store: Store) -> None:
    merchant = Merchant()
    merchant.refuses = TimeoutError("connect timed out")
    with pytest.raises(TimeoutError):
        once(store, "send/1", merchant.post, ask=merchant.look_up)
    merchant.refuses = None
    assert once(store, "send/1", merchant.post, ask=merchant.look_up) == {"number": 1}
    assert (merchant.calls, merchant.effects) == (2, 1)


def test_a_question_that_fails_leaves_the_doubt(store: Store) -> None:
    merchant = Merchant()
    merchant.fails = TimeoutError()

    def unreachable() -> None:
        raise ConnectionError("no route")

    for problem in (TimeoutError, ConnectionError, ConnectionError):
        with pytest.raises(problem):
            once(store, "send/1", merchant.post, ask=unreachable)
    assert merchant.calls == 1


@pytest.mark.parametrize("refusal", [NotSent("no merchant"), ConnectionRefusedError()])
def test_what_had_no_effect_is_called_again_without_asking(store: Store, refusal: Exception) -> None:
    merchant = Merchant()
    merchant.refuses = refusal
    with pytest.raises(type(refusal)):
        once(store, "send/1", merchant.post, ask=pytest.fail, no_effect=(ConnectionRefusedError,))
    merchant.refuses = None
    assert once(store, "send/1", merchant.post, ask=pytest.fail) == {"number": 1}


def test_an_order_that_another_has_waits(store: Store, tmp_path: Path) -> None:
    other = open_store(f"sqlite:///{tmp_path}/orders.db")
    other.begin("send/1")
    with pytest.raises(OrderWaits, match=r"order='send/1', expected one that no other worker runs; .* runs it") as wait:
        once(store, "send/1", pytest.fail)
    assert 0 < wait.value.wait_s <= 30
    other.close()


def test_while_the_store_cannot_be_asked_nothing_is_called(store: Store, tmp_path: Path) -> None:
    store.check()
    hasty = open_store(f"sqlite:///{tmp_path}/orders.db", patience_s=0.1)
    stranger = sqlite3.connect(tmp_path / "orders.db", isolation_level=None)
    stranger.execute("BEGIN EXCLUSIVE")
    with pytest.raises(OrderWaits):
        once(hasty, "send/1", pytest.fail)
    stranger.execute("ROLLBACK")
    stranger.close()
    hasty.close()
    assert once(store, "send/1", Merchant().post) == {"number": 1}


def test_what_cannot_be_kept_of_a_result_leaves_the_order_done(store: Store) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert once(store, "send/1", lambda: deep) is deep
    assert once(store, "send/1", pytest.fail) is None
    store.begin("send/2")
    store.done("send/2", b"accepted")
    assert once(store, "send/2", pytest.fail) is None


def test_any_text_can_be_fitted_to_be_a_key() -> None:
    long = ["a" * 600, "a" * 599 + "b", "x\0y", "\ud800", "é" * 600]
    keys = [fitted_key(text) for text in long]
    assert len(set(keys)) == len(long)
    assert all(checked_key(key) == key and len(key) <= KEY_CHARACTERS for key in keys)
    assert fitted_key("send/1") == "send/1"


def test_a_process_that_stood_still_for_longer_than_its_lease_calls_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.db"
    slow, quick = open_store(url, lease_s=0.2), open_store(url)
    slow.begin("send/1")
    slow.unknown("send/1", "timed out")

    def taken(_: object) -> dict[str, int]:
        time.sleep(0.3)
        found: dict[str, int] = once(quick, "send/1", Merchant().post)
        return found

    def taken_meanwhile() -> None:  # asked for longer than the lease, while the store's thread stands still
        assert slow.visit(taken) == {"number": 1}

    with pytest.raises(OrderWaits, match="the lease had run out"):
        once(slow, "send/1", pytest.fail, ask=taken_meanwhile)
    assert once(slow, "send/1", pytest.fail) == {"number": 1}
    slow.close(), quick.close()
