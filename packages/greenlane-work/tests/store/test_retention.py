"""Records are kept for their time and no longer, and a store does not grow beyond that."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

import pytest
from tests.store.places import Place

from greenlane_work.settings import WorkSettings
from greenlane_work.store import Kind, Retention, State, open_store
from greenlane_work.store.opening import store_of

SHORT = Retention(settled_s=0.02, unsettled_s=1000)


def forget(store: object) -> int:
    """What the store's thread does each minute, until nothing is over its time."""
    time.sleep(0.03)
    gone = 0
    for _ in range(2):  # it may have been at it by itself, and go on in the middle
        more = True
        while more:
            forgotten, more = store.visit(lambda backend: backend.tidy())  # type: ignore[attr-defined]
            gone += forgotten
    return gone


def test_what_is_settled_is_forgotten_after_its_time_and_what_is_in_doubt_is_not(place: Place) -> None:
    store = place.open(retention=SHORT)
    for key in ("done", "failed", "unknown", "running"):
        store.begin(key)
    store.done("done")
    store.failed("failed", "refused")
    store.unknown("unknown", "timed out")
    forget(store)
    assert sorted(key for key, _ in store.find()) == ["running", "unknown"]
    assert store.begin("done").state is State.NEW
    assert store.begin("unknown").state is State.UNKNOWN


@pytest.mark.slow
def test_a_store_forgets_by_itself(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.db"
    before = open_store(url)
    before.begin("done")
    before.done("done")
    before.close()
    store, end = open_store(url, retention=SHORT), time.monotonic() + 20
    store.check()
    while not store.counts.forgotten:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert store.find() == []
    store.close()


def test_the_settings_say_how_long_results_and_reasons_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    settings = WorkSettings(task_store=f"sqlite:///{path}", task_store_keep_s=100.0)
    store = store_of(settings)
    for key in ("done", "failed", "unknown", "young"):
        store.begin(key)
    store.done("done", b"what a customer ordered")
    store.done("young", b"result")
    store.failed("failed", "what a customer typed")
    store.unknown("unknown", "timed out")

    def older(seconds: float, *keys: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            for key in keys:
                other.execute("UPDATE orders SET changed = changed - ? WHERE key = ?", (seconds, key))

    older(101, "done", "failed", "unknown")
    older(60, "young")
    forget(store)
    assert sorted(key for key, _ in store.find()) == ["unknown", "young"]
    older(90 * 86_400, "unknown")
    forget(store)
    assert [key for key, _ in store.find()] == ["young"]
    store.close()


def test_what_is_within_its_time_stays(place: Place) -> None:
    store = place.open()
    store.begin("done")
    store.done("done", b"r")
    assert store.visit(lambda backend: backend.tidy()) == (0, False)
    assert store.begin("done").result == b"r"


def test_more_than_one_piece_is_forgotten(place: Place) -> None:
    store = place.open(retention=SHORT)
    for number in range(2100):
        store.submit(Kind.BEGIN, f"k{number}", lambda _: None)
        store.submit(Kind.DONE, f"k{number}", lambda _: None)
    store.begin("last")
    forget(store)
    assert [key for key, _ in store.find()] == ["last"]


@pytest.mark.slow
def test_a_file_in_a_steady_state_does_not_grow(tmp_path: Path) -> None:
    store, path = open_store(f"sqlite:///{tmp_path}/orders.db", retention=SHORT), tmp_path / "orders.db"
    sizes = []
    for turn in range(8):
        for number in range(300):
            store.submit(Kind.BEGIN, f"{turn}-{number}", lambda _: None)
            store.submit(Kind.DONE, f"{turn}-{number}", lambda _: None, result=b"r" * 1000)
        store.begin(f"last-{turn}")
        forget(store)
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes.append(path.stat().st_size)
    assert max(sizes[4:]) <= max(sizes[:4])
    store.close()


def test_the_settings_say_how_much_of_a_result_is_kept(tmp_path: Path) -> None:
    store = store_of(WorkSettings(task_store=f"sqlite:///{tmp_path}/orders.db", task_result_kb=1.0))
    for key, size in (("short", 1024), ("long", 1025)):
        store.begin(key)
        store.done(key, b"x" * size)
    assert [len(store.begin(key).result) for key in ("short", "long")] == [1024, 0]
    store.close()
