"""Pools inside jobs: a job that waits for work which itself needs a permit."""

import concurrent.futures
import multiprocessing.pool
import threading
import time

from tests.hazards import scenario
from tests.hazards.scenario import HEAVY, Threads, burn, job


def test_a_job_waits_for_pool_work_without_a_job_of_its_own(run_jobs):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:

        def work(number: int) -> int:
            burn(1)
            time.sleep(0)
            return number * number

        def one() -> list[int]:
            burn(1)
            return list(pool.map(work, range(4)))

        assert run_jobs([one] * 6) == [[0, 1, 4, 9]] * 6


def test_a_job_waits_for_jobs_that_need_the_permit(running, run_jobs):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:

        def inner(number: int) -> int:
            with job(running):
                burn(2)
                return number

        def one() -> int:
            burn(2)
            return sum(future.result(15) for future in [pool.submit(inner, number) for number in range(3)])

        assert run_jobs([one] * 4) == [3] * 4


def test_nested_pools_end(running, run_jobs):
    """Each level waits for a heavy job one level below, in a pool with fewer threads than jobs."""

    def level(depth: int, pools: list[concurrent.futures.ThreadPoolExecutor]) -> int:
        burn(1)
        if not pools:
            return depth

        def below() -> int:
            with job(running):
                return level(depth + 1, pools[1:])

        return pools[0].submit(below).result(15)

    pools = [concurrent.futures.ThreadPoolExecutor(2) for _ in range(3)]
    assert run_jobs([lambda: level(0, pools)] * 5) == [3] * 5
    for pool in pools:
        pool.shutdown()


def test_wait_and_as_completed_inside_jobs(running, run_jobs):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:

        def inner(number: int) -> int:
            with job(running):
                burn(1)
                return number

        def one() -> tuple[int, list[int]]:
            futures = [pool.submit(inner, number) for number in range(3)]
            first = concurrent.futures.wait(futures, timeout=15, return_when=concurrent.futures.FIRST_COMPLETED)
            return len(first.done) >= 1, sorted(
                future.result() for future in concurrent.futures.as_completed(futures, 15)
            )

        assert run_jobs([one] * 3) == [(True, [0, 1, 2])] * 3


def test_an_executor_made_and_shut_down_inside_a_job(running, run_jobs):
    def inner(number: int) -> int:
        with job(running):
            burn(1)
            return number

    def one() -> list[int]:
        burn(1)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(inner, number) for number in range(4)]
        return [future.result(0) for future in futures]

    assert run_jobs([one] * 4) == [[0, 1, 2, 3]] * 4


def test_a_thread_started_and_joined_inside_a_job(running, run_jobs):
    def inner() -> None:
        with job(running):
            burn(2)

    def one() -> bool:
        burn(1)
        thread = threading.Thread(target=inner, daemon=True)
        thread.start()
        thread.join(15)
        return thread.is_alive()

    assert run_jobs([one] * 6) == [False] * 6


def test_a_thread_pool_of_multiprocessing_inside_a_job(running, run_jobs):
    def inner(number: int) -> int:
        with job(running):
            burn(1)
            return -number

    def one() -> list[int]:
        with multiprocessing.pool.ThreadPool(2) as pool:
            return pool.map(inner, range(3))

    assert run_jobs([one] * 2) == [[0, -1, -2]] * 2


def test_a_future_that_another_job_fulfils(run_jobs):
    future: concurrent.futures.Future[int] = concurrent.futures.Future()

    def wait() -> int:
        burn(1)
        return future.result(15)

    def fulfil() -> int:
        burn(5)
        future.set_result(7)
        return 7

    assert run_jobs([wait, wait, wait, fulfil]) == [7] * 4


def test_a_timed_out_future_raises_and_the_job_goes_on(run_jobs):
    never: concurrent.futures.Future[int] = concurrent.futures.Future()

    def one() -> str:
        try:
            never.result(0.01)
        except concurrent.futures.TimeoutError:
            burn(1)
            return "timed out"
        return "answered"

    assert run_jobs([one] * 4) == ["timed out"] * 4


def test_a_timer_that_opens_a_job(running):
    fired = threading.Event()
    seen: list[str] = []

    def ring() -> None:
        with job(running, HEAVY):
            burn(1)
            seen.append("rang")
        fired.set()

    def one() -> bool:
        with job(running):
            timer = threading.Timer(0.001, ring)
            timer.daemon = True
            timer.start()
            burn(5)
            well = fired.wait(15)
            timer.join(15)
            return well

    threads = Threads()
    threads.start(one)
    assert threads.join() == [True]
    assert seen == ["rang"]


def test_jobs_one_after_another_on_the_threads_of_a_pool(running):
    """As a host's pool runs them: many jobs, few threads, each thread reused."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:

        def serve(number: int) -> int:
            with job(running, HEAVY if number % 2 else scenario.LIGHT):
                time.sleep(0)
                burn(0.5)
                return number

        assert list(pool.map(serve, range(60))) == list(range(60))
