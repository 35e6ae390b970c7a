"""Locks, conditions, queues, futures, joins: one phase end when they wait, none when they need not."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from tests.probes.observer import Observer

from greenlane import _native, probes
from greenlane.phase import Kind


def test_locks_made_from_now_on_are_tracked(seen: Observer) -> None:
    assert type(threading.Lock()) is _native.Lock
    assert type(threading.RLock()) is _native.RLock
    assert seen.during(lambda: threading.Lock().acquire()) == []
    with (condition := threading.Condition()):
        assert type(condition._lock) is _native.RLock
        assert _native.locks_held() == 1
    assert _native.locks_held() == 0


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


def test_a_simple_queue() -> None:
    earlier = queue.SimpleQueue[int]()
    c_type = queue.SimpleQueue
    probes.install()
    try:
        assert isinstance(earlier, queue.SimpleQueue)
        assert issubclass(queue.SimpleQueue, c_type)
        assert not isinstance(object(), queue.SimpleQueue)
    finally:
        probes.uninstall()
    assert queue.SimpleQueue is c_type


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
