"""Locks, conditions, queues, futures, joins: one phase end when they wait, none when they need not."""

from __future__ import annotations

import _thread
import concurrent.futures
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.lanes.burners import permits
from tests.probes.observer import Observer

from greenlane import _native, probes
from greenlane.phase import Kind


def test_locks_of_a_job_are_counted_by_whomever_and_whenever_they_were_made(seen: Observer) -> None:
    probes.uninstall()
    early, acquire = threading.Lock(), threading.Lock().acquire
    probes.install()
    given = permits()
    given.open(time.monotonic_ns(), 0, "GET /locks")
    assert seen.during(early.acquire) == [] and _native.locks_held() == 1
    assert acquire() and _native.locks_held() == 2
    with (condition := threading.Condition()), condition:
        assert type(condition._lock) is _thread.RLock
        assert _native.locks_held() == 3
    early.release()
    assert _native.locks_held() == 1
    del acquire  # the last reference to a lock that is held
    assert _native.locks_held() == 0
    given.close()


def test_a_lock_that_is_taken_is_waited_for_in_one_phase_end(seen: Observer) -> None:
    for lock in (threading.Lock(), threading.RLock()):
        holder = Holder(lock)
        assert seen.during(lock.acquire, timeout=0.001) == [Kind.LOCK]
        assert seen.during(lock.acquire, False) == []
        assert seen.during(lock.acquire, timeout=0) == []
        seen.meanwhile = holder.give
        assert seen.during(lock.__enter__) == [Kind.LOCK]
        assert seen.during(lock.release) == []


class Holder:
    """A thread that holds a lock until the test asks for its release."""

    def __init__(self, lock: Any) -> None:
        self._lock, self._go, self._has = lock, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self._thread.start()
        self._has.wait()

    def _hold(self) -> None:
        with self._lock:
            self._has.set()
            self._go.wait()

    def give(self) -> None:
        """Return when the lock is free."""
        self._go.set()
        self._thread.join()


@pytest.mark.parametrize("lock", [None, threading.Lock, threading.RLock])
def test_a_condition_waits_in_one_phase_end(lock: Callable[[], object] | None, seen: Observer) -> None:
    condition = threading.Condition(lock() if lock else None)  # type: ignore[arg-type]
    with condition:
        assert seen.during(condition.wait, 0.001) == [Kind.LOCK]
        assert seen.during(condition.wait, 0) == []
        assert seen.during(condition.wait_for, lambda: True) == []
        assert seen.during(condition.wait_for, lambda: False, 0.001) == [Kind.LOCK]
    with pytest.raises(RuntimeError, match="un-acquired"):
        seen.during(condition.wait, 0.001)


def test_an_event(seen: Observer) -> None:
    event = threading.Event()
    assert seen.during(event.wait, timeout=0.001) == [Kind.LOCK]
    assert seen.during(event.wait, 0) == []
    seen.meanwhile = event.set
    assert seen.during(event.wait) == [Kind.LOCK]
    assert seen.during(event.wait) == []


@pytest.mark.parametrize("kind", [threading.Semaphore, threading.BoundedSemaphore])
def test_a_semaphore(kind: type[threading.Semaphore], seen: Observer) -> None:
    semaphore = kind()
    assert seen.during(semaphore.acquire) == []
    assert seen.during(semaphore.acquire, blocking=False) == []
    assert seen.during(semaphore.acquire, timeout=0.001) == [Kind.LOCK]
    seen.meanwhile = semaphore.release
    assert seen.during(semaphore.__enter__) == [Kind.LOCK]
    semaphore.release()
    assert seen.during(semaphore.__enter__) == []


def test_a_barrier(seen: Observer) -> None:
    barrier = threading.Barrier(2)
    other = threading.Thread(target=barrier.wait)
    seen.meanwhile = other.start
    assert seen.during(barrier.wait) == [Kind.LOCK]
    other.join()
    with pytest.raises(threading.BrokenBarrierError):
        seen.during(barrier.wait, 0.001)


def test_a_join(seen: Observer) -> None:
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    with pytest.raises(RuntimeError, match="before it is started"):
        seen.during(thread.join)
    thread.start()
    seen.ends.clear()
    assert seen.during(thread.join, 0.001) == [Kind.FUTURE]
    assert seen.during(thread.join, timeout=0) == []
    seen.meanwhile = go.set
    assert seen.during(thread.join) == [Kind.FUTURE]
    assert seen.during(thread.join) == []
    with pytest.raises(RuntimeError, match="current thread"):
        seen.during(threading.current_thread().join)


@pytest.mark.parametrize("kind", [queue.Queue, queue.LifoQueue, queue.PriorityQueue])
def test_a_queue(kind: type[queue.Queue[int]], seen: Observer) -> None:
    waiting = kind(maxsize=1)
    with pytest.raises(queue.Empty):
        seen.during(waiting.get_nowait)
    assert seen.ends == []
    with pytest.raises(queue.Empty):
        seen.during(waiting.get, timeout=0.001)
    assert seen.ends == [Kind.QUEUE]
    seen.meanwhile = lambda: waiting.put(1)
    assert seen.during(waiting.get) == [Kind.QUEUE]
    assert seen.during(waiting.put, 1) == []
    with pytest.raises(queue.Full):
        seen.during(waiting.put_nowait, 2)
    seen.meanwhile = waiting.get
    assert seen.during(waiting.put, 2) == [Kind.QUEUE]
    assert seen.during(waiting.get) == []
    seen.meanwhile = lambda: [waiting.task_done() for _ in range(3)]
    assert seen.during(waiting.join) == [Kind.QUEUE]
    assert seen.during(waiting.join) == []
    with pytest.raises(ValueError, match="non-negative"):
        seen.during(waiting.get, True, -1)


def test_a_simple_queue_waits_in_one_phase_end(seen: Observer) -> None:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    with pytest.raises(queue.Empty):
        seen.during(waiting.get_nowait)
    with pytest.raises(queue.Empty):
        seen.during(waiting.get, block=False)
    assert seen.ends == []
    with pytest.raises(queue.Empty):
        seen.during(waiting.get, timeout=0.001)
    assert seen.ends == [Kind.QUEUE]
    seen.meanwhile = lambda: waiting.put(1)
    assert seen.during(waiting.get) == [Kind.QUEUE]
    waiting.put(2)
    assert seen.during(waiting.get) == []
    with pytest.raises(ValueError, match="non-negative"):
        seen.during(waiting.get, True, -1)


def test_a_future(seen: Observer) -> None:
    for ask in ("result", "exception"):
        future: Future[int] = Future()
        with pytest.raises(concurrent.futures.TimeoutError):
            seen.during(getattr(future, ask), 0.001)
        assert seen.ends.pop() is Kind.FUTURE
        seen.meanwhile = lambda future=future: future.set_result(1)
        assert seen.during(getattr(future, ask)) == [Kind.FUTURE]
        assert seen.during(getattr(future, ask)) == []


def test_a_future_that_failed_raises_what_it_raised(seen: Observer) -> None:
    future: Future[int] = Future()
    seen.meanwhile = lambda: future.set_exception(ZeroDivisionError("mine"))
    with pytest.raises(ZeroDivisionError, match="mine"):
        seen.during(future.result)
    assert seen.depth == 0


def test_waiting_for_several_futures_is_one_phase_end(seen: Observer) -> None:
    futures: list[Future[int]] = [Future(), Future()]
    seen.meanwhile = lambda: [future.set_result(1) for future in futures]
    assert seen.during(concurrent.futures.wait, futures) == [Kind.LOCK]
    futures = [Future()]
    seen.meanwhile = lambda: futures[0].set_result(1)
    assert seen.during(lambda: list(concurrent.futures.as_completed(futures))) == [Kind.LOCK]


def test_a_pool_works_and_its_threads_wait_unseen(seen: Observer) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert isinstance(pool._work_queue, queue.SimpleQueue)
        assert list(pool.map(abs, [-1, -2])) == [1, 2]
