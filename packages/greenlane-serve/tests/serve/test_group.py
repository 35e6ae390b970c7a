"""Who boots, serves, leaves: the decisions, without a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from greenlane_serve.group import Backoff, Group, Slot, State


class Acts:
    """Does what a group asks for, in a list."""

    def __init__(self) -> None:
        self.pids = 0
        self.busy: set[int] = set()
        self.open_slots: set[str] = set()
        self.told: list[tuple[int, bool]] = []
        self.said: list[str] = []
        self.asked: list[int] = []
        self.refused: list[str] = []

    def start(self, group: Group, slot: Slot) -> int:
        assert slot.state is State.EMPTY
        self.pids += 1
        return self.pids

    def open(self, group: Group, slot: Slot) -> None:
        self.open_slots.add(slot.name)

    def shut(self, group: Group, slot: Slot) -> None:
        self.open_slots.discard(slot.name)

    def in_progress(self, group: Group, slot: Slot) -> int:
        return int(slot.pid in self.busy)

    def end(self, slot: Slot, *, hard: bool) -> None:
        self.told.append((slot.pid, hard))

    def ask_where(self, slot: Slot) -> None:
        self.asked.append(slot.pid)

    def refuse(self, slot: Slot) -> None:
        self.refused.append(slot.name)

    def say(self, text: str) -> None:
        self.said.append(text)


def served(workers: int = 2) -> tuple[Group, Acts]:
    acts = Acts()
    group = Group("shared", workers, Path("/run"), acts, stop_s=5.0)
    group.step(0.0)
    for slot in group.of(State.BOOTING):
        group.ready(slot.pid, 0.0)
    assert group.settled
    return group, acts


def test_a_reload_boots_before_it_retires_and_ends_only_who_has_nothing_left() -> None:
    group, acts = served()
    acts.busy = {1}
    group.renew()
    group.step(1.0)
    (new,) = group.of(State.BOOTING)
    assert len(group.of(State.SERVING)) == 2
    group.ready(new.pid, 1.0)
    group.step(1.1)
    (left,) = group.of(State.LEAVING)
    assert left.pid == 1
    assert left.name not in acts.open_slots
    group.step(1.2)
    assert acts.told == []  # it has a request
    acts.busy.clear()
    group.step(1.3)
    assert acts.told == [(1, False)]
    group.died(1, 0, 1.4)
    assert acts.said == []


def test_who_is_worn_is_replaced_as_at_a_reload_and_alone() -> None:
    group, acts = served()
    worn, other = group.of(State.SERVING)
    group.worn(worn, "has served 9 requests")
    group.step(1.0)
    assert (worn.state, other.state, len(group.of(State.BOOTING))) == (State.SERVING, State.SERVING, 1)
    group.ready(group.of(State.BOOTING)[0].pid, 2.0)
    group.step(2.0)
    assert (worn.state, other.state) == (State.LEAVING, State.SERVING)
    group.step(2.1)
    group.died(worn.pid, 0, 2.2)
    assert group.settled
    assert acts.said == [f"worker shared/{worn.name} (pid 1) has served 9 requests: another one takes its place"]


def test_who_does_not_end_in_time_is_killed() -> None:
    group, acts = served(1)
    acts.busy = {1}
    group.renew()
    group.step(1.0)
    group.ready(2, 1.0)
    group.step(1.0)
    group.step(6.0)
    group.step(11.0)
    group.step(12.0)
    assert acts.told == [(1, False), (1, True)]


def test_the_last_one_that_dies_stays_open_until_the_next_serves_in_its_place() -> None:
    group, acts = served(1)
    (slot,) = group.of(State.SERVING)
    group.died(1, -9, 1.0)
    assert acts.open_slots == {slot.name}
    group.step(1.0)
    assert slot.state is State.BOOTING
    group.ready(2, 1.5)
    assert acts.open_slots == {slot.name}
    assert acts.said == ["worker shared/w1 (pid 1) was killed by signal 9"]


def test_deaths_in_a_row_wait_longer_and_service_forgives_them() -> None:
    backoff = Backoff()
    assert [backoff.failed(0.0, 0.0) for _ in range(11)][:5] == [0.0, 0.25, 0.5, 1.0, 2.0]
    assert backoff.failed(0.0, 0.0) == 30.0
    assert not backoff.may_try(29.9)
    assert backoff.may_try(30.0)
    assert backoff.failed(100.0, 60.0) == 0.0


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 3))
def test_whatever_happens_it_settles_and_the_front_sends_to_who_serves(happenings: list[int], workers: int) -> None:
    group, acts = served(workers)
    now = [0.0]

    def one(state: State, then: Callable[[Slot], None]) -> None:
        for slot in group.of(state)[:1]:
            then(slot)

    does: list[Callable[[], None]] = [
        lambda: one(State.BOOTING, lambda slot: group.ready(slot.pid, now[0])),
        lambda: one(State.BOOTING, lambda slot: group.died(slot.pid, 3, now[0])),
        lambda: one(State.SERVING, lambda slot: group.died(slot.pid, -9, now[0])),
        lambda: one(State.LEAVING, lambda slot: group.died(slot.pid, -9, now[0])),
        lambda: one(State.STOPPING, lambda slot: group.died(slot.pid, 0, now[0])),
        group.renew,
        lambda: acts.busy.update(slot.pid for slot in group.of(State.SERVING)),
    ]
    for happening in happenings:
        does[happening]()
        now[0] += 0.1
        group.step(now[0])
        serving = {slot.name for slot in group.of(State.SERVING)}
        assert serving <= acts.open_slots
        assert acts.open_slots == serving or not serving
        assert acts.open_slots == {slot.name for slot in group.slots if slot.open}
        assert len(serving) + len(group.of(State.BOOTING)) <= workers + 1
    acts.busy.clear()
    for _ in range(20 * workers):
        now[0] += 40.0
        group.step(now[0])
        does[0]()
        does[4]()
    assert group.settled
    assert acts.open_slots == {slot.name for slot in group.of(State.SERVING)}


def test_who_hangs_says_where_it_stands_and_is_killed_while_another_boots() -> None:
    group, acts = served()
    slot = group.of(State.SERVING)[0]
    group.stuck(slot, 40.0, "hangs", replace=True)
    assert slot.name not in acts.open_slots
    assert acts.asked == [1]
    group.step(40.0)
    assert [one.pid for one in group.of(State.BOOTING)] == [3]
    assert acts.told == []
    group.step(41.5)
    assert acts.told == [(1, True)]
    group.died(1, -9, 41.6)
    assert acts.said == ["worker shared/w1 (pid 1) hangs"]


def test_the_last_one_that_hangs_stays_open() -> None:
    group, acts = served(1)
    group.stuck(group.slots[0], 40.0, "hangs", replace=True)
    assert acts.open_slots == {"w1"}
    group.step(40.0)
    group.ready(2, 41.0)
    assert acts.open_slots == {"w2"}


def test_a_boot_that_lasts_too_long_says_where_it_stands_and_is_killed_and_counts_as_a_death() -> None:
    group, acts = served(1)
    group.boot_s = 5.0
    group.renew()
    group.step(1.0)
    assert group.next_s(1.0) == 6.0
    group.step(6.0)
    assert acts.asked == [2]
    assert acts.told == []
    group.step(7.0)
    assert acts.told == [(2, True)]
    group.died(2, -9, 7.1)
    assert group.backoff.failures == 1
    assert acts.said == [
        "worker shared/w2 (pid 2) does not start: it has not said in 5 s that it serves",
        "worker shared/w2 (pid 2) was killed by signal 9",
    ]


def test_the_next_reload_and_the_end_wait_for_no_boot() -> None:
    group, acts = served(1)
    group.renew()
    group.step(1.0)
    group.renew()
    assert acts.told == [(2, True)]
    group.died(2, -9, 1.1)
    group.step(1.1)
    assert [slot.pid for slot in group.of(State.BOOTING)] == [3]
    group.stop(9.0)
    assert acts.told == [(2, True), (3, True), (1, False)]


def test_who_waits_while_no_worker_lives_is_answered_in_time() -> None:
    group, acts = served(1)
    group.queue_s = 3.0
    group.died(1, -9, 1.0)
    group.step(1.0)
    assert group.next_s(1.0) == 4.0
    group.died(2, 3, 2.0)
    group.step(3.9)
    assert (acts.refused, acts.open_slots) == ([], {"w1"})
    group.step(4.0)
    assert (acts.refused, acts.open_slots) == (["w1"], set())
    group.ready(3, 5.0)
    assert acts.open_slots == {"w1"}
