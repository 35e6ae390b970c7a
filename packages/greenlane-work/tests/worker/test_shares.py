"""Workers that share a key's limit through the store never have more calls at once than it says, together."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane._native import Upstreams
from greenlane.errors import SettingsError, StoreError, StoreUnavailable
from greenlane_work.limits import CallOutcome, UpstreamRule, shared_limits
from greenlane_work.settings import WorkSettings
from greenlane_work.store.shared import Ask, Share, fair_shares, shared_out
from greenlane_work.worker.owner import do_all
from greenlane_work.worker.shares import SharedLimits
from tests.examples import examples

S = 1_000_000_000
KEY = "taco"


class Town:
    """Workers of one store, with one clock; the store answers when the test says so."""

    def __init__(self, workers: int, most: int, slots: int = 50) -> None:
        self.now_ns = 100 * S
        self.records: dict[str, str] = {}
        self.dead: set[str] = set()
        self.away = False
        self.asked = 0
        self.workers = [Worker(self, f"w{number}", most, slots) for number in range(workers)]

    @property
    def running(self) -> int:
        return sum(worker.running for worker in self.workers)

    def passes(self, seconds: float, *, answers: bool = True) -> None:
        """In steps of 10 ms: alarms ring, the store answers, orders begin."""
        until = self.now_ns + int(seconds * S)
        while self.now_ns < until:
            self.now_ns += S // 100
            for worker in self.workers:
                worker.turns(answers=answers)


class Worker:
    """A worker with real rules and an owner, alarm and store of the test's."""

    def __init__(self, town: Town, name: str, most: int, slots: int) -> None:
        self.town, self.name = town, name
        self.numbers = self.running = self.done = 0
        self.posted: deque[Callable[[], object]] = deque()
        self.alarms: list[tuple[int, int, Callable[[], object]]] = []
        self.questions: deque[tuple[list[Ask], Callable[[list[Share] | StoreError], object]]] = deque()
        self.calls: list[int] = []
        self.upstreams = Upstreams(slots, UpstreamRule(failure_rate=0, slow_call_rate=0))
        own: Any = self
        self.shares = SharedLimits(
            own, self.upstreams, own, own, limit_of=lambda key: most if key == KEY else 0,
            clock_ns=lambda: town.now_ns,
        )  # fmt: skip

    def post(self, call: Callable[[], object]) -> None:
        self.posted.append(call)

    def at(self, at_ns: int, call: Callable[[], object]) -> None:
        self.numbers += 1
        heapq.heappush(self.alarms, (at_ns, self.numbers, call))

    def share(self, asked: list[Ask], told: Callable[[list[Share] | StoreError], object]) -> None:
        self.town.asked += 1
        self.questions.append((asked, told))

    def arrive(self, orders: int = 1, key: str = KEY) -> None:
        for _ in range(orders):
            self.numbers += 1
            self.shares.arriving(key)
            self.upstreams.arrive(self.numbers, key, self.town.now_ns)
            self.shares.arrived(key)
            self.begin()

    def begin(self) -> None:
        while (start := self.upstreams.next(self.town.now_ns)) is not None:
            self.calls.append(start.order)
            self.running += 1

    def end(self, calls: int = 1) -> None:
        for _ in range(min(calls, len(self.calls))):
            assert self.upstreams.ended(self.calls.pop(0), self.town.now_ns, int(CallOutcome.OK))
            self.running -= 1
            self.done += 1
        self.begin()

    def answer(self) -> None:
        town = self.town
        while self.questions:
            asked, told = self.questions.popleft()
            if town.away:
                told(StoreUnavailable("share", name="store", value="x", rule="one that is there"))
                continue
            left_s = lambda name: 0.0 if name in town.dead else 30.0  # noqa: E731
            written, given = shared_out(town.records, asked, self.name, left_s, town.now_ns / 1e9)
            town.records.update(written)
            told(given)

    def turns(self, *, answers: bool = True) -> None:
        while self.alarms and self.alarms[0][0] <= self.town.now_ns:
            heapq.heappop(self.alarms)[2]()
        if answers:
            self.answer()
        do_all(self.posted)
        self.begin()


@given(
    workers=st.integers(1, 5),
    most=st.integers(1, 12),
    seed=st.integers(0, 2**32),
    steps=st.integers(20, 120),
)
@examples(150)
def test_together_they_never_have_more_calls_than_the_limit(workers: int, most: int, seed: int, steps: int) -> None:
    random, town = Random(seed), Town(workers, most)
    for _ in range(steps):
        worker = random.choice(town.workers)
        what = random.choice(("arrive", "arrive", "end", "end", "wait", "silence", "away"))
        if what == "arrive":
            worker.arrive(random.randrange(1, 2 * most + 2))
        elif what == "end":
            worker.end(random.randrange(1, most + 1))
        elif what == "away":
            town.away = not town.away
        else:
            town.passes(random.choice((0.01, 0.3, 6.0)), answers=what == "wait")
        assert town.running <= most


def test_a_first_order_waits_for_the_store_s_answer_alone_and_later_ones_for_nothing() -> None:
    town = Town(2, 10)
    worker = town.workers[0]
    worker.arrive()
    assert worker.running == 0
    town.passes(0.01)
    worker.arrive()
    assert worker.running == 2


def test_a_key_without_such_a_limit_asks_nobody() -> None:
    town = Town(1, 10)
    town.workers[0].arrive(30, key="sushi")
    town.passes(1)
    assert (town.workers[0].running, town.asked) == (20, 0)


def test_one_that_is_alone_has_all_and_gives_up_half_to_a_second() -> None:
    town = Town(2, 10)
    one, two = town.workers
    one.arrive(400)
    town.passes(1)
    assert one.running == 10
    two.arrive(400)
    for _ in range(20):
        town.passes(0.25)
        one.end(one.running)
        two.end(two.running)
    assert (one.running, two.running) == (5, 5)


def test_fewer_calls_than_workers_go_round() -> None:
    town = Town(3, 1)
    for worker in town.workers:
        worker.arrive(500)
    for _ in range(600):
        town.passes(0.1)
        for worker in town.workers:
            worker.end()
        assert town.running <= 1
    done = [worker.done for worker in town.workers]
    assert sum(done) > 480
    assert min(done) > 120


def test_nothing_is_kept_of_a_key_whose_orders_are_done() -> None:
    town = Town(2, 4)
    for worker in town.workers:
        worker.arrive(3)
    town.passes(1)
    while town.running:
        for worker in town.workers:
            worker.end(4)
        town.passes(0.5)
    town.passes(1)
    asked = town.asked
    town.passes(5)
    assert town.asked == asked
    assert not any(town.records.values())
    town.workers[0].arrive()
    town.passes(0.01)
    assert town.running == 1


def test_what_a_dead_worker_had_is_given_to_the_others() -> None:
    town = Town(2, 4)
    one, two = town.workers
    one.arrive(4)
    town.passes(0.1)
    two.arrive(4)
    town.passes(1)
    town.workers.remove(one)
    assert two.running < 4
    town.dead.add("w0")
    town.passes(1)
    assert two.running == 4


def test_while_the_store_is_away_the_shares_stay_as_they_are() -> None:
    town = Town(1, 4)
    worker = town.workers[0]
    worker.arrive(1)
    town.passes(0.1)
    town.away = True
    worker.arrive(9)
    town.passes(2)
    assert worker.running == 2
    town.away = False
    town.passes(0.3)
    assert worker.running == 4


@given(
    wants=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 20), max_size=6),
    most=st.integers(0, 30),
    turn=st.integers(0, 9),
)
@examples(200)
def test_shares_are_all_that_there_is_and_nobody_has_less_than_another_who_wants_no_more(
    wants: dict[str, int], most: int, turn: int
) -> None:
    shares = fair_shares(wants, most, turn)
    assert sum(shares.values()) == min(most, sum(wants.values()))
    for one, wanted in wants.items():
        assert 0 <= shares[one] <= wanted
        if shares[one] < wanted:
            assert all(shares[one] >= share - 1 for share in shares.values())


def test_a_row_that_somebody_has_written_over_says_nothing() -> None:
    for text in ("nonsense", "[1]", '{"a": 5}', '{"a": ["x", 1]}'):
        written, given = shared_out({KEY: text}, [Ask(KEY, 5, 3, 0)], "me", lambda _: 30.0, 0.0)
        assert given == [Share(3, 3)]
        assert written == {KEY: '{"me":[3,3]}'}


def test_limits_over_all_workers_are_those_of_the_settings() -> None:
    rules = {"taco": "limit:9 shared:5", "vip": "shared:0", "kiosk": "least:2"}
    settings = WorkSettings(task_key="args.0", task_rules=rules, task_shared_limit=7, task_store="sqlite:///x.db")
    limit_of = shared_limits(settings)
    assert limit_of is not None
    assert [limit_of(key) for key in ("taco", "vip", "kiosk", "other")] == [5, 0, 7, 7]
    assert "shared" not in str(UpstreamRule.of_keys(settings))
    assert shared_limits(WorkSettings(task_key="args.0", task_store="sqlite:///x.db")) is None


def test_a_limit_over_all_workers_without_a_store_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"task_store=''.*through which the workers share the limit"):
        shared_limits(WorkSettings(task_key="args.0", task_shared_limit=7))
