"""Work is counted: what it gives follows from its iterations, and a rate is iterations over this thread's CPU."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from offers import work


@pytest.mark.parametrize("kind", sorted(work.WORKS))
def test_work_gives_the_same_for_the_same_iterations(kind: str) -> None:
    assert work.perform(kind, 100) == work.perform(kind, 100)
    assert isinstance(work.perform(kind, 1), int)


@pytest.mark.parametrize("kind", ["json", "regex", "template"])
def test_what_is_written_grows_with_the_iterations(kind: str) -> None:
    one, page, more = (work.perform(kind, size) for size in (1, 32, 33))
    assert one < page < more


def _bytecodes(kind: str, iterations: int) -> int:
    """Lines that the interpreter goes through: what a count can say of an amount of work."""
    lines = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return trace

    def run() -> None:
        sys.settrace(trace)  # type: ignore[arg-type]
        work.perform(kind, iterations)
        sys.settrace(None)

    thread = threading.Thread(target=run)
    gc.collect()
    gc.disable()  # finalizers of other tests' objects have lines, too
    try:
        thread.start()
        thread.join()
    finally:
        gc.enable()
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["burn", "geometry", "sort", "template", "json", "regex"])
def test_twice_the_iterations_are_twice_the_work(kind: str) -> None:
    # json and regex go by the page.
    once, twice, thrice = (_bytecodes(kind, 640 * times) for times in (1, 2, 3))
    assert twice - once == pytest.approx(thrice - twice, rel=0.01)
    assert twice > once > 10


@pytest.mark.slow
def test_rates_are_by_this_thread_s_cpu_whatever_else_the_process_does() -> None:
    began_ns = time.thread_time_ns()
    rates = work.iterations_per_ms(rounds=2)
    spent_ms = (time.thread_time_ns() - began_ns) / 1e6
    assert set(rates) == set(work.WORKS)
    # An iteration is 1 to 50 µs on anything that this is run on: 0.3 ms of work are then exact enough.
    assert all(10 < rate < 10_000 for rate in rates.values())
    assert spent_ms > 2 * len(rates)


def test_rates_come_from_the_environment() -> None:
    said = {kind: 10.0 + number for number, kind in enumerate(work.WORKS)}
    assert work.from_environment(json.dumps({**said, "other": 1})) == said


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"burn": 1}', json.dumps(dict.fromkeys(work.WORKS, 0))])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a JSON object with iterations in 1 ms"):
        work.from_environment(text)


@pytest.mark.slow
def test_the_program_prints_what_the_environment_takes() -> None:
    command = [sys.executable, "-m", "offers.work"]
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True)
    assert set(work.from_environment(done.stdout)) == set(work.WORKS)
