"""The interpreter's own shared things: imports, generators, sort, buffers, the collector, the stack."""

import gc
import importlib
import sys
import textwrap
import threading
import time
import weakref

import pytest
from tests.hazards import scenario
from tests.hazards.scenario import Flag, Threads, burn, job


@pytest.fixture
def slow_module(tmp_path, monkeypatch, request):
    """The name of a module that blocks and computes while it is imported, and counts its executions in `sys`."""
    name = f"slow_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(
        textwrap.dedent("""
            import sys, time
            sys.slow_module_runs.append(__name__)
            time.sleep(0.01)
            end = time.thread_time() + 0.01
            while time.thread_time() < end:
                pass
            time.sleep(0)
            VALUE = 42
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "slow_module_runs", [], raising=False)
    yield name
    sys.modules.pop(name, None)


def test_a_slow_module_imported_by_many_jobs_is_executed_once(run_jobs, slow_module):
    def one() -> int:
        burn(1)
        return importlib.import_module(slow_module).VALUE

    assert run_jobs([one] * 6) == [42] * 6
    assert sys.slow_module_runs == [slow_module]


def test_who_waits_for_an_import_with_the_permit_does_not_keep_the_importer_from_it(running, slow_module):
    begun = Flag()

    def importer() -> int:
        with job(running):
            begun.set()
            return importlib.import_module(slow_module).VALUE

    def second() -> int:
        begun.wait(10)
        scenario.until(lambda: sys.slow_module_runs)
        with job(running):
            burn(2)
            return importlib.import_module(slow_module).VALUE  # blocks on the module's C lock, holding the permit

    threads = Threads()
    threads.start(importer)
    threads.start(second)
    assert threads.join() == [42, 42]


def test_a_shared_generator_says_that_it_runs_already(running):
    inside, go_on = Flag(), Flag()

    def shared():
        inside.set()
        go_on.wait(10)
        yield 1

    generator = shared()

    def first() -> int:
        with job(running):
            return next(generator)

    def second() -> str:
        inside.wait(10)
        with job(running):
            try:
                next(generator)
            except ValueError as error:
                return str(error)
            finally:
                go_on.set()
        return "no error"

    threads = Threads()
    threads.start(first)
    threads.start(second)
    assert threads.join() == [1, "generator already executing"]


def test_sorting_with_a_key_function_that_blocks(run_jobs):
    def one() -> list[int]:
        values = list(range(60))

        def key(value: int) -> int:
            if not value % 20:
                burn(0.2)
                time.sleep(0)
            return -value

        values.sort(key=key)
        return values

    assert run_jobs([one] * 6) == [list(range(59, -1, -1))] * 6


def test_a_list_seen_during_its_sort_is_empty_as_with_plain_threads(running):
    values = list(range(10))
    inside, seen = Flag(), Flag()

    def key(value: int) -> int:
        if value == 5:
            inside.set()
            seen.wait(10)
        return -value

    def peek() -> int:
        inside.wait(10)
        with job(running):
            length = len(values)
            seen.set()
            return length

    def sort() -> int:
        with job(running):
            values.sort(key=key)
            return len(values)

    threads = Threads()
    threads.start(sort)
    threads.start(peek)
    assert threads.join() == [10, 0]


def test_a_buffered_writer_shared_by_jobs_keeps_every_byte(run_jobs, tmp_path):
    with open(tmp_path / "shared", "wb", buffering=64) as out:

        def one(letter: bytes):
            def run() -> None:
                for _ in range(50):
                    out.write(letter * 30)
                    burn(0.05)

            return run

        run_jobs([one(letter) for letter in (b"a", b"b", b"c", b"d")])
    written = (tmp_path / "shared").read_bytes()
    assert [written.count(letter) for letter in b"abcd"] == [1500] * 4


def test_text_written_by_many_jobs_keeps_its_lines(run_jobs, tmp_path):
    with open(tmp_path / "text", "w", buffering=1) as out:

        def one() -> None:
            for _ in range(20):
                out.write("x" * 200 + "\n")
                burn(0.1)

        run_jobs([one] * 4)
    assert (tmp_path / "text").read_text().split() == ["x" * 200] * 80


class Guarded:
    """Its end takes a lock, as that of a pooled connection does; it lies in a cycle, so that the collector calls it."""

    lock = threading.Lock()
    ended = 0

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        # A plain `with` could meet the same thread inside its own acquire: that is a deadlock with plain threads too.
        if Guarded.lock.acquire(timeout=0.001):
            try:
                Guarded.ended += 1
            finally:
                Guarded.lock.release()


@pytest.fixture
def eager_collector():
    before = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    yield
    gc.set_threshold(*before)


def test_finalizers_that_take_locks_run_during_waits(run_jobs, eager_collector):
    def one() -> str:
        for _ in range(20):
            Guarded()
            time.sleep(0)
            with Guarded.lock:
                burn(0.1)
        return "done"

    assert run_jobs([one] * 6) == ["done"] * 6


def test_collections_during_waits(run_jobs):
    def collect() -> str:
        for _ in range(3):
            gc.collect()
            time.sleep(0)
        return "done"

    def work() -> str:
        for _ in range(3):
            Guarded()
            burn(1)
            time.sleep(0)
        return "done"

    assert run_jobs([collect, work, collect, work, work]) == ["done"] * 5


def test_weak_reference_callbacks_that_take_locks(run_jobs):
    lock = threading.RLock()
    called: list[int] = []

    class Thing:
        pass

    def note(reference: object) -> None:
        with lock:
            called.append(1)

    def one() -> None:
        for _ in range(10):
            thing = Thing()
            reference = weakref.ref(thing, note)
            burn(0.2)
            with lock:
                del thing
                time.sleep(0)
            assert reference() is None

    run_jobs([one] * 6)
    assert len(called) == 60


def test_locks_made_by_threading_can_be_weakly_referenced_and_collected(running):
    for make in (threading.Lock, threading.RLock):
        lock = make()
        reference = weakref.ref(lock)
        assert reference() is lock
        del lock
        gc.collect()
        assert reference() is None


def test_recursion_to_the_limit_through_blocking_calls_leaves_the_job_whole(running, run_jobs):
    """RecursionError may come out of any call, also inside a probe: leave and enter stay in balance."""
    lock = threading.Lock()

    def dive(depth: int) -> int:
        time.sleep(0)
        with lock:
            pass
        return dive(depth + 1)

    def one() -> str:
        for _ in range(2):
            try:
                dive(0)
            except RecursionError:
                burn(1)
                time.sleep(0)
        return "whole"

    assert run_jobs([one] * 3) == ["whole"] * 3
    assert lock.acquire(timeout=1), "the lock was left taken by a call that raised RecursionError"
    lock.release()
    assert run_jobs([lambda: burn(1) or "next"] * 3) == ["next"] * 3


def test_a_trace_function_in_jobs(run_jobs):
    """A debugger or coverage tool: its Python function runs inside the probes too."""
    seen: list[str] = []

    def trace(frame, event, argument):
        if len(seen) < 1000:
            seen.append(event)
        return trace

    def traced() -> None:
        time.sleep(0)
        with threading.Lock():
            sum(range(100))
        time.sleep(0)

    def one() -> str:
        sys.settrace(trace)
        try:
            traced()
        finally:
            sys.settrace(None)
        return "traced"

    assert run_jobs([one] * 4) == ["traced"] * 4
    assert seen
