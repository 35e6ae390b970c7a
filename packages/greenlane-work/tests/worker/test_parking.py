"""Orders behind the receive and before a thread, under the real rules and a clock that jumps."""

from __future__ import annotations

import dataclasses
import time

import pytest

from greenlane._native import Upstreams
from greenlane_work.keys import key_function
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.order import DEADLINE, Done, Order, Parked
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.parking import Begins, Parking

S = 1_000_000_000


class Shop:
    """A parked set, what it began, and what it let go."""

    def __init__(self, slots: int = 2, most_s: float = 600, **rule: object) -> None:
        self.now_ns = S
        self.began: list[Begins] = []
        self.gone: list[Order] = []
        self.late: list[Order] = []
        self.numbers = 0
        self.parked = Parking(
            Upstreams(slots, UpstreamRule(**rule)),  # type: ignore[arg-type]
            most_ns=round(most_s * S),
            stored=False,
            clock_ns=lambda: self.now_ns,
        )

    @property
    def begun(self) -> list[Order]:
        return [begins.order for begins in self.began]

    def turn(self) -> int | None:
        """Let begin and leave what may."""
        turn = self.parked.turn()
        self.began += turn.begins
        self.late += turn.late
        self.gone += turn.gone
        return turn.wake_ns

    def with_providers(self, **rule: object) -> Shop:
        """Keys have two parts from now on."""
        settings = WorkSettings(task_key="args.0 args.1", task_slots=2)
        general = UpstreamRule.of_providers(settings)
        assert general is not None
        self.parked.providers = Upstreams(general.limit, dataclasses.replace(general, **rule))  # type: ignore[arg-type]
        return self

    def run(self, order: Order, outcome: CallOutcome) -> None:
        """It is begun, and ends so."""
        self.turn()
        assert self.begun[-1] is order
        self.parked.ended(order, outcome)

    def call(self, key: str, took_s: float) -> None:
        """One order of this key is begun and takes so long."""
        order = self.arrive(key)
        self.turn()
        assert self.begun[-1] is order
        self.now_ns += round(took_s * S)
        self.parked.ended(order, CallOutcome.OK)

    def begins(self, key: str) -> bool:
        """An order of this key that arrives now is begun."""
        order = self.arrive(key)
        self.turn()
        return order in self.begun

    def arrive(self, key: str, deadline_s: float = 0) -> Order:
        self.numbers += 1
        order = Order(self.numbers, id=f"o{self.numbers}", key=key, name="send", size=10)
        order.deadline_at = deadline_s
        order.received_ns = self.now_ns
        self.parked.arrive(order)
        return order


def test_a_slow_key_never_holds_all_places() -> None:
    shop = Shop(slots=12, limit=2)
    slow = [shop.arrive("slow") for _ in range(10)]
    healthy = [shop.arrive("healthy") for _ in range(3)]
    shop.turn()
    assert set(shop.begun) == {*slow[:2], *healthy[:2]}
    assert (shop.parked.running, shop.parked.parked) == (4, 9)
    shop.parked.ended(healthy[0], CallOutcome.OK)
    shop.turn()
    assert shop.begun[-1] is healthy[2]


def test_a_retry_waits_for_its_time_without_a_place() -> None:
    shop = Shop()
    order = shop.arrive("m")
    shop.turn()
    shop.parked.ended(order, CallOutcome.FAILED)
    shop.parked.later(order, 5 * S)
    assert shop.turn() == 5 * S
    assert (shop.parked.running, shop.parked.parked, shop.parked.timed()) == (0, 1, [(order, 5 * S)])
    shop.now_ns = 5 * S
    shop.turn()
    assert shop.begun == [order, order]


def test_what_has_no_room_leaves_and_is_known_no_more() -> None:
    shop = Shop(slots=1, limit=1, all_parked_most=3, parked_most=3)
    orders = [shop.arrive("m") for _ in range(6)]
    shop.turn()
    assert len(shop.gone) == 6 - 3 - len(shop.begun) or len(shop.gone) == 3
    assert all(shop.parked.known(order.identity) is None for order in shop.gone)
    assert len(shop.parked) == len(orders) - len(shop.gone)


def test_an_order_that_waits_for_its_time_its_provider_and_its_key_leaves_in_the_time_of_one_wait() -> None:
    shop = Shop(slots=50, most_s=600).with_providers()
    assert shop.parked.providers is not None
    shop.run(shop.arrive("p/m"), CallOutcome.OK)
    shop.parked.providers.open("p", shop.now_ns)
    shop.parked.upstreams.open("p/m", shop.now_ns)
    order, at_provider = shop.arrive("p/m"), shop.arrive("p/m")
    received_ns = shop.now_ns
    shop.parked.withdraw(order)
    shop.parked.later(order, received_ns + 300 * S)
    shop.now_ns += 400 * S
    shop.turn()
    shop.parked.providers.close("p", shop.now_ns)
    shop.now_ns += 199 * S
    assert shop.turn() == received_ns + 600 * S
    assert shop.gone == []
    shop.now_ns += S
    shop.turn()
    assert (set(shop.gone), shop.late, len(shop.parked)) == ({order, at_provider}, [], 0)
    assert (shop.parked.providers.totals().running, shop.parked.upstreams.totals().parked) == (0, 0)


def test_an_order_past_its_deadline_is_told_and_never_begun() -> None:
    shop = Shop(slots=1)
    running = shop.arrive("m")
    shop.turn()
    waiting = shop.arrive("m", deadline_s=time.time() + 1)
    shop.now_ns = 3 * S
    shop.turn()
    shop.parked.ended(running, CallOutcome.OK)
    shop.turn()
    assert (shop.late, shop.begun) == ([waiting], [running])


def test_an_order_that_nobody_else_knows_is_done_stays_however_long_it_has_been_here() -> None:
    shop = Shop(slots=1, most_s=10)
    shop.arrive("m")
    shop.turn()
    done, waiting = (Order(number, id=f"o{number}", key="m", name="send", size=10) for number in (8, 9))
    done.state = Parked(done=Done("a result"))
    for order in (done, waiting):
        order.received_ns = shop.now_ns
        shop.parked.arrive(order)
    shop.now_ns += 20 * S
    shop.turn()
    assert (shop.gone, len(shop.parked)) == ([waiting], 2)


@pytest.mark.parametrize("deadline", ["inf", "nan", -9e9, 9_999_999_999.9, 1e10, 1e18, 1e300])
def test_whatever_a_deadline_says_the_order_is_begun_or_told(deadline: object) -> None:
    shop = Shop()
    order = Order(1, id="o", key="m", name="send", size=10)
    order.read({DEADLINE: deadline})
    shop.parked.arrive(order)
    shop.turn()
    assert [*shop.begun, *shop.late] == [order]


def test_an_order_that_waits_can_be_taken_out_and_one_that_runs_cannot() -> None:
    shop = Shop(slots=1)
    first, second = shop.arrive("m"), shop.arrive("m")
    shop.turn()
    assert (shop.parked.withdraw(first), shop.parked.withdraw(second)) == (False, True)
    shop.parked.ended(first, CallOutcome.OK)
    shop.turn()
    assert shop.begun == [first]
    assert len(shop.parked) == 0


def test_a_closed_set_begins_nothing() -> None:
    shop = Shop()
    shop.arrive("m")
    shop.parked.open = False
    assert shop.turn() is None
    assert shop.begun == []


def test_a_provider_that_is_down_is_learned_from_merchants_with_one_order_each() -> None:
    shop = Shop(slots=50).with_providers()
    for number in range(10):
        shop.run(shop.arrive(f"ill/m{number}"), CallOutcome.FAILED)
    waiting = [shop.arrive(f"ill/new{number}") for number in range(5)]
    well = shop.arrive("well/m")
    shop.run(well, CallOutcome.OK)
    assert shop.begun[-1] is well and len(shop.parked) == 5
    at_ns = shop.turn()
    assert at_ns is not None
    shop.now_ns = at_ns
    shop.turn()
    assert shop.begun[-3:] == waiting[:3]
    for probe in shop.began[-3:]:
        assert probe.passed is not None
        assert probe.passed.time_limit_ns == 5 * S
        shop.parked.ended(probe.order, CallOutcome.OK)
    shop.turn()
    assert set(shop.begun[-2:]) == set(waiting[3:])


def test_a_provider_that_hangs_is_learned_from_merchants_with_one_order_each() -> None:
    shop = Shop(slots=60).with_providers()
    for number in range(20):
        shop.call(f"ill/m{number}", 0.1)
    assert all(shop.begins(f"ill/m{number}") for number in range(20))
    shop.now_ns += S
    assert not shop.begins("ill/m20")
    assert shop.begins("well/m")


def test_a_merchant_that_hangs_does_not_stop_its_provider() -> None:
    shop = Shop(slots=60).with_providers()
    for number in range(20):
        shop.call(f"p/m{number}", 0.1)
    assert all(shop.begins("p/m0") for _ in range(20))
    shop.now_ns += S
    assert not shop.begins("p/m0")
    assert shop.begins("p/m1")


def test_a_merchant_without_a_history_is_slow_by_the_latency_of_its_provider() -> None:
    shop = Shop(slots=60).with_providers()
    for number in range(20):
        shop.call(f"p/m{number}", 0.1)
    assert all(shop.begins("p/new") for _ in range(10))
    assert all(shop.begins("q/new") for _ in range(10))
    shop.now_ns += S
    assert not shop.begins("p/new")
    assert shop.begins("q/new")
    assert shop.begins("p/m1")


def test_a_call_that_waits_for_its_merchant_is_not_slow_for_the_provider() -> None:
    shop = Shop(slots=60, limit=1).with_providers()
    orders = [shop.arrive("p/m") for _ in range(20)]
    for order in orders:
        shop.turn()
        assert shop.begun[-1] is order
        shop.now_ns += S // 10
        shop.parked.ended(order, CallOutcome.OK)
    assert shop.parked.providers is not None
    look = shop.parked.providers.look_at("p")
    assert look is not None
    assert (look.slow, look.usual_ns) == (0, S // 10)


def test_merchants_of_one_provider_have_limits_of_their_own() -> None:
    shop = Shop(slots=50, limit=2).with_providers()
    ours = [shop.arrive("p/a") for _ in range(9)]
    theirs = [shop.arrive("p/b") for _ in range(9)]
    shop.turn()
    assert set(shop.begun) == {*ours[:2], *theirs[:2]}
    assert not shop.parked.withdraw(ours[0])
    assert shop.parked.withdraw(ours[8])
    assert len(shop.parked) == 17


def test_an_order_without_a_provider_can_be_taken_out_of_its_key() -> None:
    shop = Shop(slots=50, limit=1).with_providers()
    first, second = shop.arrive(""), shop.arrive("")
    shop.turn()
    assert shop.parked.withdraw(second)
    shop.parked.ended(first, CallOutcome.OK)
    shop.turn()
    assert shop.begun == [first]


def test_nothing_is_kept_of_orders_that_leave_wherever_they_wait() -> None:
    shop = Shop(slots=50, limit=1).with_providers()
    for number in range(10):
        shop.run(shop.arrive(f"ill/m{number}"), CallOutcome.FAILED)
    at_provider = shop.arrive("ill/m", deadline_s=time.time() + 1)
    first = shop.arrive("well/m")
    at_key, withdrawn = shop.arrive("well/m", deadline_s=time.time() + 1), shop.arrive("ill/x")
    shop.turn()
    assert shop.parked.withdraw(withdrawn)
    shop.now_ns += 3 * S
    shop.turn()
    assert set(shop.late) == {at_provider, at_key}
    shop.parked.ended(first, CallOutcome.OK)
    assert len(shop.parked) == 0
    assert shop.parked.providers is not None
    assert (shop.parked.providers.totals().running, shop.parked.providers.totals().parked) == (0, 0)


def test_an_order_without_a_provider_waits_for_none() -> None:
    shop = Shop().with_providers()
    function = key_function("task_key", "kwargs.provider kwargs.merchant")
    assert function is not None
    key = function("send", (), {"merchant": "m"}, {})
    shop.run(shop.arrive(key), CallOutcome.OK)
    assert shop.parked.providers is not None and shop.parked.providers.look() == []
