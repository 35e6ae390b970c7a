"""The heavy lane: who is next, what stands still, a thread that dies, and what is left of a thread."""

from __future__ import annotations

import gc
import hashlib
import threading
import time
import weakref
from pathlib import Path

import pytest
from tests.lanes.burners import until
from tests.placement import work

from greenlane.errors import PlacementError
from greenlane.placement import Call, NativeThreads, State
from greenlane.policy.placed import QueueRule


def lane(threads: int = 1, share_ms: int = 400) -> NativeThreads:
    return NativeThreads(QueueRule(threads, most_waiting=100, share_ns=share_ms * 1_000_000))


def order(calls: list[tuple[int, int]]) -> list[int]:
    """In which order calls of (due in s, expected ms), submitted in this order, run once the lane is free."""
    ran: list[int] = []
    gate = threading.Event()
    given = lane()
    # Expected to be so short that none begins beside it.
    first = Call(
        lambda: (gate.set(), work.burn(5), until(lambda: len(given._waiting) == len(calls))), expected_ns=10**6
    )
    given.submit(first)
    assert gate.wait(10)
    for number, (due_s, expected_ms) in enumerate(calls):
        due_ns = time.monotonic_ns() + due_s * 10**9 if due_s else 0
        given.submit(Call(ran.append, (number,), deadline_ns=due_ns, expected_ns=expected_ms * 10**6))
    until(lambda: len(ran) == len(calls))
    given.close(1)
    return ran


def test_alike_calls_go_first_come_first_served() -> None:
    assert order([(90, 9), (30, 9), (60, 9)]) == [0, 1, 2]


def test_a_shorter_call_passes_a_much_longer_one_that_came_just_before() -> None:
    assert order([(0, 900), (0, 1), (0, 90)]) == [1, 2, 0]


def test_calls_share_one_thread_and_never_overlap() -> None:
    given = lane()
    inside, most, threads = [0], [0], set()

    def count() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threads.add(threading.get_ident())
        work.burn(1)
        inside[0] -= 1

    calls = [Call(count) for _ in range(20)]
    for call in calls:
        given.submit(call)
    until(lambda: all(call.state is State.FINISHED for call in calls))
    assert most == [1]
    assert len(threads) == 1
    given.close(1)


def ends_beside(given: NativeThreads, first: Call, others: list[Call]) -> bool:
    """Whether calls that come after the first has begun end before it."""
    given.submit(first)
    until(lambda: first.state is State.RUNNING)
    for call in others:
        given.submit(call)
    until(lambda: all(call.state is State.FINISHED for call in others))
    return first.state is State.RUNNING


def test_calls_begin_beside_one_that_has_used_its_share(tmp_path: Path) -> None:
    given, let_go = lane(share_ms=20), tmp_path / "let go"
    first = Call(work.held, (tmp_path / "begun", let_go))
    assert ends_beside(given, first, [Call(work.burn, (5,)) for _ in range(8)])
    let_go.touch()
    until(lambda: given.stats().running == 0 and not given._shares_watched)
    until(lambda: given.stats().workers <= 2)  # More than are kept end.
    given.close(1)


@pytest.mark.slow
def test_one_that_is_known_to_be_long_has_a_quarter_of_a_share() -> None:
    given, long_ns = lane(share_ms=1200), 2400 * 10**6
    assert ends_beside(
        given, Call(work.burn, (1000,), expected_ns=long_ns), [Call(work.burn, (5,), expected_ns=long_ns)]
    )
    given.close(10)


def test_a_short_call_begins_beside_a_long_one(tmp_path: Path) -> None:
    given, let_go = lane(share_ms=60_000), tmp_path / "let go"
    first = Call(work.held, (tmp_path / "begun", let_go), expected_ns=900 * 10**6)
    assert ends_beside(given, first, [Call(work.burn, (5,), expected_ns=5 * 10**6)])
    let_go.touch()
    given.close(10)


def test_on_a_lane_of_two_threads_two_calls_run_at_once() -> None:
    given = lane(threads=2)
    meeting = threading.Barrier(2)
    calls = [Call(meeting.wait, (10,)) for _ in range(2)]
    for call in calls:
        given.submit(call)
    until(lambda: all(call.state is State.FINISHED for call in calls))
    given.close(1)


def hash_until(begun: Path, let_go: Path) -> None:
    """Compute without the GIL until a file appears."""
    begun.touch()
    until_s = time.monotonic() + work.LONGEST_S
    while not let_go.exists():
        hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)
        assert time.monotonic() < until_s


def test_two_calls_that_leave_the_gil_stay_two_when_the_first_ends_first(tmp_path: Path) -> None:
    given = lane(share_ms=60_000)
    first, second = (Call(hash_until, (tmp_path / f"begun {each}", tmp_path / f"let go {each}")) for each in "ab")
    third = Call(work.echo)
    first.width = second.width = third.width = 2
    given.submit(first)
    until((tmp_path / "begun a").exists)
    given.submit(second)  # Nobody waited when the first one began.
    until((tmp_path / "begun b").exists)
    given.submit(third)
    assert third.state is State.WAITING
    (tmp_path / "let go a").touch()
    until(lambda: third.state is State.FINISHED)
    assert second.state is State.RUNNING
    (tmp_path / "let go b").touch()
    until(lambda: second.state is State.FINISHED)
    assert first.state is State.FINISHED
    given.close(10)


def test_a_call_that_stands_still_lends_its_place_so_that_calls_may_wait_for_each_other() -> None:
    given = lane()
    met = threading.Event()
    waits, sets = Call(met.wait, (20,)), Call(met.set)
    given.submit(waits)
    given.submit(sets)
    until(lambda: waits.state is State.FINISHED)
    assert waits.result() is True
    until(lambda: given.stats().running == 0)
    assert given.stats().workers == 2, "one takes turns, and one is kept for a short call beside a long one"
    given.close(1)


def test_the_watching_thread_goes_when_nobody_waits() -> None:
    given = lane()
    met = threading.Event()
    given.submit(Call(met.wait, (20,)))
    given.submit(Call(met.set))
    until(lambda: not given._watched)
    given.close(1)


def test_a_thread_that_dies_fails_its_call_only_and_is_replaced() -> None:
    # The thread leaves for good, as one that a C library ends does: its frames are not unwound.
    given = lane()
    parked, forever = threading.Event(), threading.Lock()
    forever.acquire()

    def vanish() -> None:
        parked.set()
        forever.acquire()

    dies, waits = Call(vanish), Call(work.echo, (1,))
    given.submit(dies)
    assert parked.wait(10)
    [worker] = given._workers
    worker.thread = 2**22 + 1  # A number that no thread has: to the lane it has died.
    given.submit(waits)
    until(lambda: waits.state is State.FINISHED)
    with pytest.raises(PlacementError, match="thread"):
        dies.result()
    forever.release()
    given.close(1)


def test_an_exception_thrown_into_the_idle_loop_ends_no_later_call() -> None:
    given = lane()
    given.submit(call := Call(work.echo, (1,)))
    until(lambda: call.state is State.FINISHED)
    [worker] = given._workers
    given._leave(worker)  # What a dying thread does last.
    worker.wake.release()
    given.submit(call := Call(work.echo, (2,)))
    until(lambda: call.state is State.FINISHED)
    given.close(1)


def test_an_idle_lane_keeps_nothing_of_its_last_call_alive() -> None:
    class Large:
        pass

    given, large = lane(), Large()
    gone = weakref.ref(large)
    call = Call(lambda _: Large(), (large,))
    given.submit(call)
    until(lambda: given.stats().done == 1 and given.stats().running == 0)
    del call, large
    gc.collect()
    assert gone() is None
    given.close(1)


def test_an_error_and_its_frames_are_freed_without_the_collector() -> None:
    given = lane()
    gone: list[weakref.ref[object]] = []

    class Local:
        pass

    def fails() -> None:
        local = Local()
        gone.append(weakref.ref(local))
        raise ValueError

    call = Call(fails)
    given.submit(call)
    until(lambda: given.stats().failed == 1 and given.stats().running == 0)
    gc.disable()
    try:
        try:
            call.result()
        except ValueError:
            pass
        del call
        assert gone[0]() is None
    finally:
        gc.enable()
    given.close(1)


def test_a_forgotten_lane_does_not_stay_for_the_fork_hook() -> None:
    given = lane()
    gone = weakref.ref(given)
    del given
    gc.collect()
    assert gone() is None


def test_its_thread_has_a_name_in_the_kernel_and_in_python() -> None:
    given = lane()
    comm = Path("/proc/thread-self/comm")
    call = Call(lambda: (threading.current_thread().name, comm.read_text()))
    given.submit(call)
    until(lambda: call.state is State.FINISHED)
    assert call.result() == ("greenlane-lane", "greenlane-lane\n")
    given.close(1)


def test_while_calls_compute_the_watching_thread_does_not_take_the_gil() -> None:
    given = lane()
    waits = 0

    class Counted:
        behind = given._stalled
        want, change = behind.want, behind.change

        def wait(self, threads: list[int], every_ns: int, still_ns: int, looks: int) -> object:
            nonlocal waits
            waits += 1
            return self.behind.wait(threads, every_ns, still_ns, looks * 1000)  # A crowded machine stops no call.

    given._stalled = Counted()  # type: ignore[assignment] # in its place
    calls = [Call(work.burn, (40,)) for _ in range(10)]
    for call in calls:
        given.submit(call)
    until(lambda: all(call.state is State.FINISHED for call in calls))
    until(lambda: not given._watched)
    # Once or twice until the first call has begun, not at each of 20 looks.
    assert 1 <= waits <= 8
    given.close(1)


def test_a_thread_that_is_woken_is_enough_for_its_call() -> None:
    given = lane()
    given._stands = lambda *_: None  # type: ignore[method-assign] # Nothing is lent, however slow the machine is.
    for _ in range(5):
        gate = threading.Event()
        calls = [Call(gate.wait, (10,)), *(Call(work.echo) for _ in range(4))]
        for call in calls:
            given.submit(call)
        assert given.stats().workers == 1
        gate.set()
        until(lambda: given.stats().running + given.stats().queued == 0 and len(given._idle) == 1)
    given.close(1)
