"""What every store keeps to: one suite over SQLite, PostgreSQL and Redis, each a real one."""

from __future__ import annotations

import os
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.store.places import Place

from greenlane.errors import StoreError, StoreRefused
from greenlane_work.store import Answer, Kind, Outcome, State, Store
from greenlane_work.store.shared import Ask, Share
from greenlane_work.store.store import RESULT_BYTES


@pytest.mark.gate
def test_an_order_is_called_once_and_its_result_is_there_for_every_worker(place: Place) -> None:
    one, other = place.open(), place.open()
    assert one.begin("k").state is State.NEW
    assert one.holds
    running = other.begin("k")
    assert (running.state, running.owner) == (State.RUNNING, one.owner)
    assert 0 < running.wait_s <= 30
    one.done("k", b"\x00result\n\xff")
    for store in (one, other, place.open()):
        found = store.begin("k")
        assert (found.state, found.result) == (State.DONE, b"\x00result\n\xff")


def test_what_is_known_to_have_had_no_effect_is_new_again(place: Place) -> None:
    one, other = place.open(), place.open()
    one.begin("k")
    one.failed("k", "connection refused")
    assert other.begin("k").state is State.NEW
    record = other.history("k")
    assert record is not None
    assert [(tried.number, tried.owner, tried.outcome, tried.reason) for tried in record.attempts] == [
        (1, one.owner, Outcome.FAILED, "connection refused"),
        (2, other.owner, Outcome.RUNNING, ""),
    ]


def test_an_outcome_that_nobody_knows_stays_unknown_until_the_upstream_is_asked(place: Place) -> None:
    store = place.open()
    store.begin("k")
    store.unknown("k", "read timed out")
    assert store.begin("k").state is State.UNKNOWN
    store.failed("k", "connection refused")
    assert store.begin("k").state is State.UNKNOWN
    store.absent("k")
    store.failed("k", "connection refused")
    assert store.begin("k").state is State.NEW


def test_orders_of_a_worker_that_has_left_are_in_doubt_for_exactly_one_other(place: Place) -> None:
    gone = place.open()
    gone.begin("k")
    assert gone.close()
    states = [place.open().begin("k").state for _ in range(4)]
    assert states == [State.UNKNOWN, State.RUNNING, State.RUNNING, State.RUNNING]


def test_of_many_workers_that_begin_an_order_at_once_one_has_it(place: Place) -> None:
    stores = [place.open() for _ in range(4)]
    keys = [f"k{number}" for number in range(20)]
    with ThreadPoolExecutor(40) as pool:
        asked = [(key, pool.submit(store.begin, key)) for key in keys for store in stores for _ in range(2)]
    states = [(key, future.result().state) for key, future in asked]
    for key in keys:
        assert sorted(state.value for name, state in states if name == key) == ["new", *["running"] * 7]


def test_workers_that_begin_and_end_the_same_orders_crosswise_never_stop_each_other(place: Place) -> None:
    def work(store: object, keys: list[str]) -> int:
        done = 0
        for key in keys:
            if place_stores[store].begin(key).state is State.NEW:
                place_stores[store].done(key, key.encode())
                done += 1
        return done

    place_stores = {name: place.open() for name in ("a", "b", "c")}
    keys = [f"k{number}" for number in range(60)]
    orders = {"a": keys, "b": keys[::-1], "c": keys[30:] + keys[:30]}
    with ThreadPoolExecutor(12) as pool:
        done = [pool.submit(work, name, orders[name][part::4]) for name in orders for part in range(4)]
    assert sum(future.result() for future in done) == len(keys)
    assert len(place_stores["a"].find(State.DONE, 1000)) == len(keys)


def test_one_commit_serves_what_came_in_during_the_one_before(place: Place) -> None:
    store = place.open()
    store.check()
    held, go = threading.Event(), threading.Event()
    pool = ThreadPoolExecutor(1)
    pool.submit(store.visit, lambda _: (held.set(), go.wait(10)))
    held.wait(10)
    answers: list[object] = []
    for number in range(100):
        store.submit(Kind.BEGIN, f"k{number}", answers.append)
    before, last = store.counts.commits, threading.Event()
    store.submit(Kind.BEGIN, "last", lambda _: last.set())
    go.set()
    assert last.wait(10)
    assert store.counts.commits - before == 1
    assert [answer.state for answer in answers if isinstance(answer, Answer)] == [State.NEW] * 100
    pool.shutdown()


def test_a_late_word_of_a_former_attempt_is_said_of_that_attempt(place: Place) -> None:
    store = place.open()
    first = store.begin("k")
    store.unknown("k", "it hangs", token=first.token)
    second = store.begin("k")
    store.failed("k", "it was never sent", token=first.token)
    assert place.open().begin("k").state is State.RUNNING
    store.failed("k", "refused", token=second.token)
    assert store.begin("k").state is State.NEW


def test_orders_are_found_by_state(place: Place) -> None:
    store = place.open()
    for key in ("a", "b", "c", "d"):
        store.begin(key)
    store.done("a", b"1")
    store.unknown("b", "?")
    store.failed("c", "no")
    found = {state: [key for key, _ in store.find(state)] for state in State}
    assert found == {State.DONE: ["a"], State.UNKNOWN: ["b"], State.NEW: ["c"], State.RUNNING: ["d"]}
    assert sorted(key for key, _ in store.find()) == ["a", "b", "c", "d"]
    assert len(store.find(None, 2)) == 2


def test_no_result_is_kept_where_none_may_be(place: Place) -> None:
    store = place.open(result_bytes=0)
    store.begin("k")
    store.done("k", b"null")
    assert store.begin("k") == Answer(State.DONE, b"", 1, store.owner)


def test_a_result_that_is_too_long_is_dropped_and_the_order_done(place: Place) -> None:
    store = place.open()
    store.begin("k")
    store.done("k", b"x" * (RESULT_BYTES + 1))
    assert store.begin("k") == Answer(State.DONE, b"", 1, store.owner)
    store.begin("l")
    store.done("l", b"x" * RESULT_BYTES)
    assert len(store.begin("l").result) == RESULT_BYTES


@pytest.mark.parametrize("key", ["ø/é 'quote' \"two\" %s $1 \\ * [x]?", "k" * 512, "a:b:c", "-1", "\n\t"])
def test_any_text_is_a_key(place: Place, key: str) -> None:
    store = place.open()
    assert store.begin(key).state is State.NEW
    store.unknown(key, "reason\0 with \udc80 what cannot be written")
    assert store.begin(key).state is State.UNKNOWN
    assert [found for found, _ in store.find()] == [key]


@pytest.mark.parametrize("key", ["", "k" * 513, "a\0b", "\ud800", b"k"])
def test_what_is_no_key_is_refused_before_the_store_is_asked(place: Place, key: str) -> None:
    store = place.open()
    for ask in (store.begin, store.done, store.history):
        with pytest.raises(ValueError, match="name an order: key="):
            ask(key)
    assert store.begin("good").state is State.NEW


def test_a_damaged_record_stops_its_own_order_and_no_other(place: Place) -> None:
    store = place.open()
    store.begin("bad")
    place.damage("bad")
    with pytest.raises(StoreRefused, match="key='bad', expected a record"):
        store.begin("bad")
    with pytest.raises(StoreRefused, match="key='bad', expected a record"):
        store.history("bad")
    assert store.begin("good").state is State.NEW
    assert [key for key, _ in store.find()] == ["good"]


def test_a_forked_child_is_a_worker_of_its_own(place: Place) -> None:
    store = place.open()
    store.begin("parent")
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        said = b"nothing"
        try:
            states = [store.begin("parent").state, store.begin("child").state]
            store.done("child", b"c")
            said = f"{states} {store.owner}".encode()
        finally:
            os.write(write, said)
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 1000).decode().startswith("[<State.RUNNING: 'running'>, <State.NEW: 'new'>]")
    os.close(read), os.close(write)
    assert store.begin("child").result == b"c"
    store.done("parent", b"p")


def test_a_closed_store_answers_nothing(place: Place) -> None:
    store = place.open()
    store.begin("k")
    assert store.close()
    for ask in (lambda: store.begin("k"), lambda: store.done("k"), lambda: store.history("k"), store.check):
        with pytest.raises(StoreError, match="store='closed', expected one that is open"):
            ask()


def test_a_store_that_was_never_used_closes(place: Place) -> None:
    assert place.open().close()


def test_a_lease_is_renewed_while_an_order_runs_and_not_longer(place: Place) -> None:
    one, other = place.open(lease_s=0.3), place.open(lease_s=0.3)
    token = one.begin("k").token
    began = one.counts.commits
    while one.counts.commits < began + 3:
        state = other.begin("k").state
        # On a busy machine a renewal may come too late; what holds again after that holds no longer for this attempt.
        assert state is State.RUNNING or not one.holds_since_begin(token)
        time.sleep(0.02)
    one.done("k", b"")
    began, until = one.counts.commits, time.monotonic() + 0.25
    while time.monotonic() < until:
        time.sleep(0.05)
    assert one.counts.commits == began


def test_a_lease_that_ran_out_is_not_brought_back_for_what_had_begun(place: Place) -> None:
    one = place.open(lease_s=0.2)
    _, before = begun_within_the_lease(one, "before")
    one.visit(lambda _: time.sleep(0.3))  # the store's thread stands still, and with it the renewal
    key, after = begun_within_the_lease(one, "after")
    assert not one.holds_since_begin(before)
    one.done(key, b"")
    assert not one.holds_since_begin(after)


def begun_within_the_lease(store: Store, name: str) -> tuple[str, str]:
    """Key and token of an attempt whose lease still holds: a busy machine may take longer than that for a begin."""
    for number in range(20):
        token = store.begin(key := f"{name}-{number}").token
        if store.holds_since_begin(token):
            return key, token
    raise AssertionError("no lease holds when an attempt has begun")


def test_a_callback_that_fails_stops_nobody(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    store = place.open()

    def fails(_: object) -> None:
        raise ArithmeticError("of the callback")

    store.submit(Kind.BEGIN, "k", fails)
    assert store.begin("k").state is State.RUNNING
    assert "ArithmeticError: of the callback" in capsys.readouterr().err


@pytest.mark.gate
def test_limits_are_shared_by_the_workers_that_live(place: Place) -> None:
    one, two, three = place.open(), place.open(), place.open()
    assert shares(one, Ask("taco", 10, 20, 0), Ask("sushi", 3, 1, 0)) == [Share(10, 10), Share(1, 1)]
    assert shares(two, Ask("taco", 10, 20, 0)) == [Share(0, 5)]
    assert shares(one, Ask("taco", 10, 20, 6)) == [Share(6, 5)]
    assert shares(two, Ask("taco", 10, 20, 0)) == [Share(4, 5)]
    assert one.close()
    assert shares(two, Ask("taco", 10, 20, 4)) == [Share(10, 10)]
    assert shares(two, Ask("taco", 10, 0, 0)) == [Share(0, 0)]
    assert shares(three, Ask("taco", 10, 20, 0)) == [Share(10, 10)]


def test_workers_that_ask_at_once_never_have_more_than_the_limit(place: Place) -> None:
    stores = [place.open() for _ in range(4)]
    has = [0] * 4

    def ask(number: int) -> None:
        for _ in range(10):
            has[number] = shares(stores[number], Ask("taco", 7, 5, has[number]))[0].has

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))
    assert sum(has) == 7


def test_a_limit_that_nobody_uses_leaves_nothing_in_the_store(place: Place) -> None:
    stores = [place.open() for _ in range(4)]

    def use(number: int) -> None:
        for _ in range(10):
            assert shares(stores[number], Ask("taco", 40, 5, 0), Ask("sushi", 40, 5, 0)) == [Share(5, 5)] * 2
            assert shares(stores[number], Ask("taco", 40, 0, 0), Ask("sushi", 40, 0, 0)) == [Share(0, 0)] * 2

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert place.limits_kept() == 0


def shares(store: Store, *asked: Ask) -> list[Share]:
    """Ask and wait for the answer."""
    answers: queue.SimpleQueue[list[Share] | StoreError] = queue.SimpleQueue()
    store.share(asked, answers.put)
    given = answers.get(timeout=10)
    assert not isinstance(given, StoreError), given
    return given
