"""Locks: held across I/O, before a heavy phase, between readers and writers, and those that no probe can see."""

import _thread
import ctypes
import socket
import threading
import time

import pytest
from tests.hazards import scenario
from tests.hazards.scenario import HEAVY, LIGHT, Flag, Threads, burn, job, spin_until


@pytest.fixture
def echo():
    """A socket that sends back each byte."""
    near, far = socket.socketpair()

    def serve() -> None:
        while byte := far.recv(1):
            far.sendall(byte)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield near
    near.close()
    thread.join(5)
    far.close()


def round_trip(near: socket.socket) -> None:
    near.sendall(b"x")
    assert near.recv(1) == b"x"


def test_a_lock_held_across_io_is_handed_on(run_jobs, echo):
    lock = threading.Lock()
    entered = []

    def one() -> None:
        for _ in range(3):
            with lock:
                entered.append(threading.get_ident())
                round_trip(echo)
                burn(1)
            burn(1)

    run_jobs([one] * 6)
    assert len(entered) == 18


# By name: what `threading` holds is patched after this module is imported.
@pytest.mark.parametrize("name", ["Lock", "RLock", "Semaphore", "Condition"])
def test_a_lock_taken_before_a_heavy_phase_does_not_stop_the_holder_of_the_permit(running, name):
    lock = getattr(threading, name)()
    has_lock, computes = Flag(), Flag()
    done = []

    def first() -> None:
        with job(running), lock:
            has_lock.set()
            computes.wait(10)
            burn(2)  # a phase begun with the lock held, while the other one computes
            done.append("first")

    def second() -> None:
        has_lock.wait(10)
        with job(running):
            computes.set()
            burn(5)
            with lock:
                done.append("second")

    threads = Threads()
    threads.start(first)
    threads.start(second)
    threads.join()
    assert done == ["first", "second"]


@pytest.mark.parametrize("allocate", [_thread.allocate_lock, scenario.EARLY_ALLOCATE, lambda: scenario.EARLY_LOCK])
def test_a_lock_that_no_probe_knows_is_handed_on(running, allocate):
    lock = allocate()
    has_lock, computes = Flag(), Flag()

    def first() -> str:
        with job(running), lock:
            has_lock.set()
            computes.wait(10)
            burn(2)
            return "first"

    def second() -> str:
        has_lock.wait(10)
        with job(running):
            computes.set()
            burn(5)
            with lock:
                return "second"

    threads = Threads()
    threads.start(first)
    threads.start(second)
    assert threads.join() == ["first", "second"]


@pytest.mark.parametrize("lock", [scenario.EARLY_LOCK, scenario.EARLY_RLOCK, scenario.EARLY_CONDITION])
def test_a_lock_made_before_patching_excludes_and_ends(run_jobs, lock):
    inside, most = [], []

    def one() -> None:
        for _ in range(4):
            with lock:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                burn(1)
                inside.pop()

    run_jobs([one] * 6)
    assert most == [1] * 24


def test_a_c_mutex_held_over_python_code_is_handed_on(running):
    """What lxml, sqlite and pybind11 do: a mutex taken with the GIL released and held while Python runs."""
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(128)
    assert libc.pthread_mutex_init(mutex, None) == 0
    has_lock, computes = Flag(), Flag()

    def first() -> str:
        with job(running):
            libc.pthread_mutex_lock(mutex)
            has_lock.set()
            computes.wait(10)
            burn(2)
            libc.pthread_mutex_unlock(mutex)
            return "first"

    def second() -> str:
        has_lock.wait(10)
        with job(running):
            computes.set()
            burn(5)
            libc.pthread_mutex_lock(mutex)  # stands still without the GIL, holding the permit
            libc.pthread_mutex_unlock(mutex)
            return "second"

    threads = Threads()
    threads.start(first)
    threads.start(second)
    assert threads.join() == ["first", "second"]


class ReadersAndWriters:
    """Many readers or one writer: the textbook form on one condition."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writing = False

    def begin_reading(self) -> None:
        with self._changed:
            while self._writing:
                self._changed.wait()
            self._readers += 1

    def end_reading(self) -> None:
        with self._changed:
            self._readers -= 1
            self._changed.notify_all()

    def begin_writing(self) -> None:
        with self._changed:
            while self._writing or self._readers:
                self._changed.wait()
            self._writing = True

    def end_writing(self) -> None:
        with self._changed:
            self._writing = False
            self._changed.notify_all()


def test_readers_compute_while_a_writer_waits(run_jobs):
    lock = ReadersAndWriters()
    value = {"left": 0, "right": 0}
    torn = []

    def read() -> None:
        for _ in range(4):
            lock.begin_reading()
            left = value["left"]
            burn(1)
            time.sleep(0.001)
            burn(1)
            if value["right"] != left:
                torn.append(left)
            lock.end_reading()
            time.sleep(0)

    def write() -> None:
        for _ in range(4):
            lock.begin_writing()
            value["left"] += 1
            time.sleep(0.001)
            burn(1)
            value["right"] += 1
            lock.end_writing()

    run_jobs([read, read, read, write, read, write])
    assert torn == []
    assert value == {"left": 8, "right": 8}


def test_a_barrier_of_heavy_jobs_opens(run_jobs):
    barrier = threading.Barrier(6)

    def one() -> int:
        passed = 0
        for _ in range(3):
            burn(1)
            barrier.wait(10)
            passed += 1
        return passed

    assert run_jobs([one] * 6) == [3] * 6


def test_an_event_set_by_a_heavy_job_is_seen_by_many(run_jobs):
    event = threading.Event()

    def wait() -> bool:
        burn(2)
        return event.wait(10)

    def announce() -> bool:
        burn(5)
        event.set()
        return True

    assert run_jobs([*[wait] * 5, announce]) == [True] * 6


def test_a_semaphore_smaller_than_the_number_of_jobs_is_never_exceeded(run_jobs):
    semaphore = threading.BoundedSemaphore(2)
    inside, most = [], []

    def one() -> None:
        for _ in range(3):
            with semaphore:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                burn(1)
                inside.pop()

    run_jobs([one] * 6)
    assert max(most) <= 2
    assert len(most) == 18


def test_a_timed_acquire_gives_up_and_a_try_does_not_wait(run_jobs):
    lock = threading.Lock()
    lock.acquire()

    def one() -> tuple[bool, bool]:
        burn(1)
        return lock.acquire(timeout=0.02), lock.acquire(blocking=False)

    assert run_jobs([one] * 4) == [(False, False)] * 4
    lock.release()


def test_an_rlock_taken_again_by_its_holder_is_free_after_the_last_release(run_jobs):
    lock = threading.RLock()
    inside, most = [], []

    def one() -> None:
        with lock, lock:
            inside.append(1)
            most.append(len(inside))
            with lock:
                time.sleep(0.001)
                burn(1)
            inside.pop()

    run_jobs([one] * 6)
    assert most == [1] * 6


def test_a_condition_hands_work_from_producer_to_consumers(run_jobs):
    changed = threading.Condition()
    work, seen = [], []

    def produce() -> None:
        for number in range(12):
            burn(1)
            with changed:
                work.append(number)
                changed.notify()

    def consume() -> None:
        for _ in range(4):
            with changed:
                assert changed.wait_for(lambda: work, timeout=10)
                seen.append(work.pop())
            burn(1)

    run_jobs([consume, consume, consume, produce])
    assert sorted(seen) == list(range(12))


def test_a_lock_released_by_another_thread_does_not_count_as_held_for_ever(running, mode):
    """One thread takes, another gives back. Afterwards both are ordinary again: their heavy phases queue."""
    from greenlane._native import locks_held

    lock = threading.Lock()
    taken, released = Flag(), Flag()

    def take() -> int:
        with job(running):
            lock.acquire()
            taken.set()
            released.wait(10)
        with job(running):
            return locks_held()

    def give_back() -> int:
        taken.wait(10)
        with job(running):
            lock.release()
            held = locks_held()
        released.set()
        return held

    threads = Threads()
    threads.start(take)
    threads.start(give_back)
    assert threads.join() == [0, 0]
    assert not lock.locked()


def test_two_heavy_jobs_do_contend_for_the_permit(running, mode):
    """The scenarios of this folder are about something: with permits on, the second heavy job waits."""
    before = running.counters()
    ready, go_on = Flag(), []

    def hold() -> None:
        with job(running, HEAVY):
            ready.set()
            spin_until(lambda: go_on)

    def wait() -> None:
        with job(running, HEAVY):
            burn(1)

    threads = Threads()
    threads.start(hold)
    ready.wait(10)
    threads.start(wait)
    if mode == "on":
        scenario.until(lambda: running.pressure()[1] == 1 or running.counters()["waited"] > before["waited"])
    go_on.append(True)
    threads.join()
    waited = running.counters()["waited"] - before["waited"]
    assert waited >= 1 if mode == "on" else waited == 0


@pytest.mark.parametrize("name", ["Lock", "RLock"])
def test_a_phase_that_begins_inside_a_drivers_lock_takes_its_turn_when_that_is_released(running, mode, name):
    """psycopg and redis-py wait for their server inside a lock of their own; what follows must still take turns."""
    begun, ready, done = Flag(), Flag(), Flag()
    lock = getattr(threading, name)()

    def query() -> int:
        with job(running):
            with lock:
                begun.set()
                # The driver's wait: the phase after it begins with the lock held. Few: after three such phases they
                # are known as short, and short ones are let in beside a holder. So a holder that is late is awaited in
                # one long one.
                for pause_s in (0.05, 2):
                    if not ready:
                        time.sleep(pause_s)
                before = running.counters()["waited"]
            waited = running.counters()["waited"] - before
            done.set()
            return waited

    def hold() -> int:
        begun.wait()
        with job(running):
            ready.set()
            spin_until(lambda: done)
            return 0

    threads = Threads()
    threads.start(query)
    threads.start(hold)
    assert threads.join() == [1 if mode == "on" else 0, 0]


def test_light_jobs_pass_while_the_permit_is_held(running):
    ready, go_on = Flag(), []

    def hold() -> None:
        with job(running, HEAVY):
            ready.set()
            spin_until(lambda: go_on)

    holder, lights = Threads(), Threads()
    holder.start(hold)
    ready.wait(10)

    def light() -> None:
        with job(running, LIGHT):
            for _ in range(5):
                time.sleep(0)
                burn(0.1)

    for _ in range(6):
        lights.start(light)
    lights.join()  # they end although the holder never does
    go_on.append(True)
    holder.join()
