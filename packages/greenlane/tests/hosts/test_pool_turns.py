"""Who gets a thread while many requests wait for a permit: counts, no times."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from gunicorn.config import Config
from tests.hosts.test_gunicorn_parts import Gate, wait_until

from greenlane.hosts.gunicorn.connection import Conn
from greenlane.hosts.gunicorn.heavy_predictor import MOST_PATHS, HeavyPredictor
from greenlane.hosts.pool import Pool

CEILING = 8


class Queue:
    """Capitals are heavy; how long the queue at the permit is, the test says."""

    long = False

    def is_heavy(self, item: str) -> bool:
        return item.isupper()

    def waiting(self) -> int:
        return CEILING if self.long else 0


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.let_go(*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def pool(gate: Gate, queue: Queue) -> Iterator[Pool[str]]:
    made = Pool(CEILING, gate.serve, turns=queue)
    yield made
    made.shutdown()
    gate.let_go(*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    wait_until(lambda: made.threads == 0)


def submitted(pool: Pool[str], items: str) -> None:
    for item in items:
        pool.submit(item)


def test_while_the_queue_at_the_permit_is_long_the_last_quarter_of_threads_is_for_light_ones(pool, gate, queue) -> None:
    queue.long = True
    submitted(pool, "ABCDEFGH")
    gate.wait_entered(6)
    assert (sorted(gate.entered), pool.threads, pool.queued, pool.in_progress) == (list("ABCDEF"), 6, 2, 8)
    submitted(pool, "xy")
    gate.wait_entered(8)
    assert (sorted(gate.entered[6:]), pool.queued) == (["x", "y"], 2)


def test_below_three_quarters_of_the_threads_nothing_waits(pool, gate, queue) -> None:
    queue.long = True
    submitted(pool, "ABCDEF")
    gate.wait_entered(6)
    assert pool.queued == 0


def test_without_a_long_queue_items_are_served_as_they_come(pool, gate) -> None:
    submitted(pool, "ABCDEFGH" + "IxJy")
    gate.wait_entered(8)
    for number, (ended, began) in enumerate(zip("ABCD", "IxJy", strict=True), start=9):
        gate.let_go(ended)
        gate.wait_entered(number)
        assert gate.entered[-1] == began


def test_in_a_full_pool_light_items_go_before_heavy_ones_that_came_before_them(pool, gate, queue) -> None:
    submitted(pool, "abcdefgh" + "IJxy")
    gate.wait_entered(8)
    queue.long = True
    for number, (ended, began) in enumerate(zip("abcd", "xyIJ", strict=True), start=9):
        if number == 11:
            queue.long = False
        gate.let_go(ended)
        gate.wait_entered(number)
        assert gate.entered[number - 1] == began


def test_heavy_items_are_served_in_their_order(pool, gate, queue) -> None:
    queue.long = True
    submitted(pool, "ABCDEFGHIJ")
    gate.wait_entered(6)
    for number, ended in enumerate("ABCD", start=7):
        gate.let_go(ended)
        gate.wait_entered(number)
    assert "".join(gate.entered[6:]) == "GHIJ"


def test_when_the_queue_at_the_permit_has_gone_those_that_waited_get_the_idle_threads(pool, gate, queue) -> None:
    queue.long = True
    submitted(pool, "ABCDEFGHI")
    gate.wait_entered(6)
    assert pool.queued == 3
    queue.long = False
    gate.let_go("A")
    gate.wait_entered(8)  # A's thread takes G, and one more is started for H
    gate.let_go("B")
    gate.wait_entered(9)
    assert (sorted(gate.entered[6:]), pool.queued) == (["G", "H", "I"], 0)


def test_heavy_items_do_not_starve_while_light_ones_fill_the_pool(pool, gate, queue) -> None:
    """The queue at the permit drains as long as no heavy item is let in; then they are served as they come."""
    queue.long = True
    submitted(pool, "abcdefgh" + "I" + "xy")
    gate.wait_entered(8)
    queue.long = False
    gate.let_go("a")
    gate.wait_entered(9)
    assert gate.entered[-1] == "I"


def test_a_heavy_item_that_waits_can_be_withdrawn(pool, gate, queue) -> None:
    queue.long = True
    submitted(pool, "ABCDEFGH")
    gate.wait_entered(6)
    assert pool.withdraw("G")
    assert not pool.withdraw("G")
    assert (pool.queued, pool.in_progress) == (1, 7)


@pytest.mark.parametrize("ceiling", [1, 2, 3])
def test_a_small_pool_has_no_threads_to_spare(gate, queue, ceiling: int) -> None:
    queue.long = True
    pool: Pool[str] = Pool(ceiling, gate.serve, turns=queue)
    submitted(pool, "ABC"[:ceiling])
    gate.wait_entered(ceiling)
    pool.shutdown()


def expected() -> HeavyPredictor:
    return HeavyPredictor(lambda: 0)


def test_a_path_is_expected_to_be_heavy_once_most_of_its_requests_are() -> None:
    paths = expected()
    assert not paths.expects("GET", "/api/quote")
    for _ in range(4):
        paths.learn("GET", "/api/quote", True)
        paths.learn("GET", "/api/bikes", False)
        paths.learn("POST", "/api/quote", False)
    assert paths.expects("GET", "/api/quote")
    assert not paths.expects("GET", "/api/bikes")
    assert not paths.expects("POST", "/api/quote")
    for _ in range(4):
        paths.learn("GET", "/api/quote", False)
    assert not paths.expects("GET", "/api/quote")


def test_a_path_never_seen_counts_as_its_siblings_do() -> None:
    paths = expected()
    for name in ("red-shoes", "blue-shoes", "hat"):
        paths.learn("GET", f"/items/{name}", True)
        paths.learn("GET", f"/users/{name}", False)
    assert paths.expects("GET", "/items/green-shoes")
    assert paths.expects("GET", "/items/17")
    assert not paths.expects("GET", "/users/eve")
    assert not paths.expects("GET", "/nothing/here")
    paths.learn("GET", "/quote", True)
    assert not paths.expects("GET", "/")
    assert not paths.expects("GET", "/bikes")


def test_a_scanner_s_paths_drive_out_no_path_that_is_asked_for() -> None:
    paths = expected()
    for number in range(20 * MOST_PATHS):
        paths.learn("GET", "/scan/" + "".join(chr(97 + number // 26**place % 26) for place in range(4)), False)
        if number % 100 == 0:
            paths.learn("GET", "/quote", True)
    assert paths.expects("GET", "/quote")
    assert paths.known() <= 2 * (MOST_PATHS + 1)


def test_the_query_and_numbers_say_nothing_of_a_request(client) -> None:
    paths = expected()
    for number in range(4):
        paths.learn("GET", f"/offers/{number}/price", True)
        paths.learn("GET", f"/offers/{number}/name", False)
    conn = Conn(Config(), client, None, None, 1.0)
    for target, heavy in ((b"/offers/99/price?full=1", True), (b"/offers/99/name?price", False)):
        conn.head = b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        assert paths.is_heavy(conn) is heavy
    conn.head = b""  # TLS: a thread has yet to open it
    assert not paths.is_heavy(conn)


@pytest.fixture
def client() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made
