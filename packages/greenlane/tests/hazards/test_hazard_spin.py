"""A holder that spins for a result which a waiter for the permit must produce: the permit is advice, it ends."""

import concurrent.futures
import queue
import threading
import time

import pytest
from tests.hazards.scenario import Flag, Threads, job, spin_until


def spin(poll, pause) -> None:
    end_s = time.monotonic() + 15
    while not poll():
        assert time.monotonic() < end_s, "the result never came"
        pause()


def nothing() -> None:
    pass


def yields() -> None:
    time.sleep(0)


@pytest.mark.parametrize("pause", [nothing, yields])
@pytest.mark.parametrize("through", ["list", "queue", "event", "lock", "future"])
def test_a_spinning_holder_gets_its_result_from_a_waiter(running, through, pause):
    begun = Flag()
    items: list[int] = []
    box: queue.Queue[int] = queue.Queue()
    event = threading.Event()
    lock = threading.Lock()
    lock.acquire()
    future: concurrent.futures.Future[int] = concurrent.futures.Future()

    def from_queue() -> bool:
        try:
            return bool(box.get_nowait())
        except queue.Empty:
            return False

    polls = {
        "list": lambda: items,
        "queue": from_queue,
        "event": event.is_set,
        "lock": lambda: lock.acquire(blocking=False),
        "future": future.done,
    }
    gives = {
        "list": lambda: items.append(1),
        "queue": lambda: box.put(1),
        "event": event.set,
        "lock": lock.release,
        "future": lambda: future.set_result(1),
    }

    def holder() -> str:
        with job(running):
            begun.set()
            spin(polls[through], pause)
            return "got it"

    def waiter() -> str:
        begun.wait(10)
        with job(running):
            time.sleep(0)
            gives[through]()
            return "gave it"

    threads = Threads()
    threads.start(holder)
    threads.start(waiter)
    assert threads.join() == ["got it", "gave it"]


def test_a_chain_of_spinning_holders_ends(running):
    begun = [Flag() for _ in range(4)]
    done: list[int] = []

    def link(index: int) -> int:
        if index:
            begun[index - 1].wait(10)
        with job(running):
            begun[index].set()
            if index < 3:
                spin_until(lambda: index + 1 in done, within_s=15)
            done.append(index)
            return index

    threads = Threads()
    for index in range(4):
        threads.start(lambda index=index: link(index))
    assert threads.join() == [0, 1, 2, 3]
    assert done == [3, 2, 1, 0]


def test_a_holder_that_spins_for_a_counter_of_many_waiters_ends(running):
    count: list[int] = []
    begun = Flag()

    def holder() -> int:
        with job(running):
            begun.set()
            spin_until(lambda: len(count) == 5, within_s=15)
            return len(count)

    def waiter() -> int:
        begun.wait(10)
        with job(running):
            count.append(1)
            return 0

    threads = Threads()
    threads.start(holder)
    for _ in range(5):
        threads.start(waiter)
    assert threads.join()[0] == 5
