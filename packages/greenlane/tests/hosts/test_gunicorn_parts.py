"""The worker's parts by themselves: pool, board, deadlines, claims, heads."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from gunicorn.http.wsgi import Response
from hypothesis import given
from hypothesis import strategies as st

from greenlane._native import rearm_now, recv_now, send_now
from greenlane.hosts.gunicorn.answers import Claim, ClaimedResponse, Deadlines, answer
from greenlane.hosts.gunicorn.connection import (
    ENDED,
    INVALID,
    PARTIAL,
    Conn,
    environ_of,
    judge_for,
    method_and_target,
)
from greenlane.hosts.gunicorn.dispatch import Dispatch
from greenlane.hosts.gunicorn.listeners import AWAY, Board
from greenlane.hosts.pool import Pool
from greenlane.settings import Settings


class Gate:
    """What a pool serves here: each item waits until it is let go."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.threads: set[int] = set()
        self._changed = threading.Condition()
        self._open: set[str] = set()

    def serve(self, item: str) -> None:
        with self._changed:
            self.entered.append(item)
            self.threads.add(threading.get_ident())
            self._changed.notify_all()
            self._changed.wait_for(lambda: item in self._open)
            self._changed.notify_all()

    def let_go(self, *items: str) -> None:
        with self._changed:
            self._open.update(items)
            self._changed.notify_all()

    def wait_entered(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.entered) >= number, timeout=10)


def wait_until(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.let_go(*"abcdefgh")


@pytest.fixture
def pool(gate: Gate) -> Iterator[Pool[str]]:
    made = Pool(2, gate.serve)
    yield made
    made.shutdown()
    gate.let_go(*"abcdefgh")
    wait_until(lambda: made.threads == 0)


def test_a_pool_starts_threads_on_demand_and_queues_beyond_the_ceiling(pool: Pool[str], gate: Gate) -> None:
    assert pool.threads == 0
    for item in "abc":
        pool.submit(item)
    gate.wait_entered(2)
    assert (pool.threads, pool.in_progress, pool.queued) == (2, 3, 1)
    gate.let_go("a")
    gate.wait_entered(3)
    gate.let_go("b", "c")
    wait_until(lambda: pool.in_progress == 0)
    assert len(gate.threads) == 2


def test_a_pool_wakes_the_thread_that_came_back_last(pool: Pool[str], gate: Gate) -> None:
    for item in "ab":
        pool.submit(item)
    gate.wait_entered(2)
    gate.let_go("a", "b")
    wait_until(lambda: pool.in_progress == 0)
    gate.threads.clear()
    for number, item in enumerate("cde", start=3):
        pool.submit(item)
        gate.wait_entered(number)
        gate.let_go(item)
        wait_until(lambda: pool.in_progress == 0)
    assert len(gate.threads) == 1


def test_an_idle_thread_ends(gate: Gate) -> None:
    pool: Pool[str] = Pool(2, gate.serve, idle_s=0.01)
    gate.let_go("a")
    pool.submit("a")
    wait_until(lambda: pool.threads == 0 and pool.in_progress == 0)
    pool.submit("a")
    wait_until(lambda: len(gate.entered) == 2)
    pool.shutdown()


def test_a_queued_item_can_be_withdrawn_and_a_begun_one_cannot(pool: Pool[str], gate: Gate) -> None:
    for item in "abc":
        pool.submit(item)
    gate.wait_entered(2)
    assert pool.withdraw("c")
    assert not pool.withdraw("c")
    assert not pool.withdraw("a")
    assert pool.in_progress == 2


def test_a_pool_is_stuck_only_when_full_and_nothing_ends(pool: Pool[str], gate: Gate) -> None:
    pool.submit("a")
    gate.wait_entered(1)
    later = time.monotonic_ns() + 10_000_000_000
    assert pool.stuck(later, 1_000_000_000, full=2) == 0
    pool.submit("b")
    gate.wait_entered(2)
    later = time.monotonic_ns() + 10_000_000_000
    assert pool.stuck(time.monotonic_ns(), 5_000_000_000, full=2) == 0
    assert pool.stuck(later, 5_000_000_000, full=2) == 2


def test_a_serve_that_raises_costs_no_thread(monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)

    def serve(item: int) -> None:
        raise ValueError(item)

    pool: Pool[int] = Pool(1, serve)
    for item in (1, 2):
        pool.submit(item)
    wait_until(lambda: pool.in_progress == 0)
    assert [problem.exc_value.args for problem in seen] == [(1,), (2,)]
    pool.shutdown()


def test_many_submissions_from_many_threads_are_each_served_once() -> None:
    served: list[int] = []
    pool: Pool[int] = Pool(4, served.append, idle_s=0.001)
    submitters = [
        threading.Thread(target=lambda base=base: [pool.submit(base + number) for number in range(500)])
        for base in (0, 1000, 2000)
    ]
    for submitter in submitters:
        submitter.start()
    for submitter in submitters:
        submitter.join()
    wait_until(lambda: pool.in_progress == 0)
    assert sorted(served) == [base + number for base in (0, 1000, 2000) for number in range(500)]
    pool.shutdown()


def test_an_item_is_counted_out_once() -> None:
    counts: list[int] = []

    def serve(item: str) -> None:
        assert pool.count_out() and pool.count_out()
        counts.append(pool.in_progress)

    pool: Pool[str] = Pool(1, serve)
    assert not pool.count_out()  # this is none of its threads
    pool.submit("a")
    pool.shutdown()
    wait_until(lambda: pool.threads == 0)
    assert (counts, pool.in_progress) == ([0], 0)


def test_a_pipelined_request_does_not_count_one_whose_thread_has_not_returned() -> None:
    request = b"GET / HTTP/1.1\r\n\r\n"
    counts: list[int] = []
    done = threading.Event()

    def serve(conn: Conn) -> None:
        counts.append(pool.in_progress)
        conn.requests += 1
        dispatch.next_request(conn, conn.head.removeprefix(request))
        done.wait(10)

    pool: Pool[Conn] = Pool(10, serve)
    dispatch = Dispatch(SimpleNamespace(cfg=Config(), behind_front=False), Settings(limit=1), pool)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        conn = Conn(Config(), ours, "", "", 1.0)
        conn.head = request * 10
        dispatch.dispatch(conn)
        wait_until(lambda: conn.polled or dispatch.over_limit)  # it waits for an eleventh: the ten threads are there
        assert (counts, len(dispatch.over_limit), pool.in_progress, pool.busy) == ([1] * 10, 0, 0, 10)
        done.set()
        pool.shutdown()
        wait_until(lambda: pool.threads == 0)
        assert pool.in_progress == 0
        dispatch.end()


def test_the_board_knows_the_least_busy_worker_with_room() -> None:
    board = Board()
    mine, second, third = (board.line(age) for age in (1, 2, 3))
    assert mine.alone()
    for line in (mine, second, third):
        line.enter()
    mine._looked_up_ms = 0  # look now
    assert mine.alone()  # the others do not serve yet
    assert mine.least_busy() is None
    for line, progress, capacity in ((second, 5, 8), (third, 3, 3)):
        line.progress[0] = progress
        line.show(capacity)
    assert mine.least_busy() == 5
    third.progress[0] = 2
    assert mine.least_busy() == 2
    second.show(0)
    third.show(AWAY)
    assert mine.least_busy() is None
    assert not mine.alone()


def test_a_worker_whose_beat_is_old_does_not_count() -> None:
    board = Board()
    mine, other = board.line(1), board.line(2)
    for line in (mine, other):
        line.enter()
        line.show(8)
    other._cells[other._base + 1] -= 60_000
    assert mine.least_busy() is None
    assert mine.alone()


def test_a_forked_worker_s_figures_are_seen_by_its_siblings() -> None:
    board = Board()
    mine = board.line(1)
    mine.enter()
    pid = os.fork()
    if not pid:
        line = board.line(2)
        line.enter()
        line.progress[0] = 7
        line.show(9)
        os._exit(0)
    os.waitpid(pid, 0)
    assert mine.least_busy() == 7


@pytest.fixture
def conn() -> Iterator[Conn]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Conn(Config(), ours, "", "", 1.0)


def test_a_claim_is_taken_once(conn: Conn) -> None:
    claim = Claim(conn, 1)
    start = threading.Barrier(8)
    won: list[bool] = []

    def take() -> None:
        start.wait()
        won.append(claim.take())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]


def test_deadlines_come_in_order_and_those_that_are_over_do_not(conn: Conn) -> None:
    woken: list[None] = []
    deadlines = Deadlines(lambda: woken.append(None))
    assert deadlines.first(1000) == 1000
    claims = {due: Claim(conn, due) for due in (500, 300, 400, 2000)}
    for claim in claims.values():
        deadlines.watch(claim)
    assert len(woken) == 3  # the one beyond the planned return wakes nobody
    claims[400].over = True
    assert deadlines.first(1000) == 300
    assert deadlines.take(299) is None
    assert [deadlines.take(600), deadlines.take(600), deadlines.take(600)] == [claims[300], claims[500], None]


def test_claims_that_are_over_are_cleared_away(conn: Conn) -> None:
    deadlines = Deadlines(lambda: None)
    for due in range(5000):
        claim = Claim(conn, 10_000 + due)
        claim.over = True
        deadlines.watch(claim)
    assert deadlines.take(1) is None
    assert len(deadlines._heap) == 0


HEADS = {
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n": ENDED,
    b"GET / HTTP/1.0\r\n\r\nbody": ENDED,
    b"\r\nGET / HTTP/1.1\r\n\r\n": ENDED,
    b"GET / HT": PARTIAL,
    b"GET / HTTP/1.1\r\nHost: x\r\n": PARTIAL,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r": PARTIAL,
    b"GET / HTTP/1.1\n": INVALID,
    b"G" * 4097: INVALID,
    b"GET / HTTP/1.1\r\n" + b"a" * 900_000: INVALID,
}


@pytest.mark.parametrize(("head", "verdict"), HEADS.items())
def test_a_head_is_judged(head: bytes, verdict: int) -> None:
    assert judge_for(Config())(head, 0, True) == verdict


@given(st.sampled_from([head for head, verdict in HEADS.items() if verdict == ENDED]), st.data())
def test_a_whole_head_is_judged_alike_however_it_is_cut(head: bytes, data: st.DataObject) -> None:
    judge = judge_for(Config())
    judged = 0
    while True:
        size = data.draw(st.integers(judged + 1, len(head)))
        verdict = judge(head[:size], judged, True)
        if verdict != PARTIAL:
            break
        judged = size
    assert verdict == ENDED
    assert b"\r\n\r\n" in head[:size]


@pytest.mark.parametrize(
    ("mode", "header"),
    [
        ("v1", b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 80\r\n"),
        ("auto", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12)),
    ],
)
def test_a_proxy_header_is_no_head(mode: str, header: bytes) -> None:
    cfg = Config()
    cfg.set("proxy_protocol", mode)
    judge = judge_for(cfg)
    whole = header + b"GET / HTTP/1.1\r\n\r\n"
    assert [judge(whole[:size], 0, True) for size in range(1, len(whole) + 1)] == [PARTIAL] * (len(whole) - 1) + [ENDED]


def test_what_a_waiting_request_s_head_says_of_its_deadline() -> None:
    head = b"GET /a%20b?c HTTP/1.1\r\nX-Time: 5\r\nOther: 1\r\n\r\nX-Time: 9\r\n"
    assert environ_of(head, ["x-time"]) == {"PATH_INFO": "/a b", "HTTP_X_TIME": "5"}
    assert environ_of(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", [])["PATH_INFO"] == ""
    assert method_and_target(b"nonsense\r\n\r\n") == (b"", b"")


def test_an_answer_to_head_says_the_length_and_has_no_body() -> None:
    whole, head = answer("200 OK", "ok\n"), answer("200 OK", "ok\n", head_only=True)
    assert whole == head + b"ok\n"
    assert b"Content-Length: 3\r\n" in head


class Asked:
    """A request, as far as an answer's head goes."""

    version = (1, 1)
    method = "GET"
    closes = False

    def should_close(self) -> bool:
        return self.closes


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("headers", [[], [("Content-Length", "3")], [("Connection", "upgrade"), ("Upgrade", "ws")]])
def test_the_lines_before_the_application_s_are_gunicorn_s(closes: bool, headers: list[tuple[str, str]]) -> None:
    asked = Asked()
    asked.closes = closes
    ours, theirs = ClaimedResponse(asked, None, Config(), None, None), Response(asked, None, Config())  # type: ignore[arg-type]
    for one in (ours, theirs):
        one.start_response("200 OK", headers)
    for _ in range(3):  # a second may begin between the two
        lines = ours.default_headers()
        if lines == theirs.default_headers():
            return
    raise AssertionError((lines, theirs.default_headers()))


def test_calls_that_keep_the_gil_never_block_and_fail_by_the_system_s_errors() -> None:
    near, far = socket.socketpair()
    with near, far:
        with pytest.raises(BlockingIOError):
            recv_now(near.fileno())
        assert send_now(far.fileno(), b"x" * 20_000) == 20_000
        assert recv_now(near.fileno()) == b"x" * 16_384
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                sent += send_now(near.fileno(), b"x" * 65_536)
        while sent:
            sent -= len(far.recv(1 << 20))
        recv_now(near.fileno())
        far.close()
        assert recv_now(near.fileno()) == b""
        with pytest.raises(BrokenPipeError):
            send_now(near.fileno(), b"x")
    with pytest.raises(OSError, match="Bad file descriptor"):
        send_now(-1, b"x")
    with pytest.raises(OSError, match="Bad file descriptor"):
        rearm_now(-1, 0, 1)
