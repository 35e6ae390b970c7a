"""`greenlane.run(...)` under gevent: programs in processes of their own, monkey-patched, on each of its loops."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

PATCHED_FIRST = "import gevent.monkey; gevent.monkey.patch_all()\nimport greenlane\n"
OURS_FIRST = "import greenlane, greenlane.placement\nimport gevent.monkey; gevent.monkey.patch_all()\n"
NOT_PATCHED = "import greenlane\n"
BEFORE = """
import sys, time, traceback
import gevent, gevent.hub
from greenlane import DeadlineExceeded, Overloaded, checkpoint, within_ms
from greenlane.threads.unpatched import get_native_id as thread

run = greenlane.run
MAIN = thread()

def burn(cpu_ms):
    until = time.thread_time() + cpu_ms / 1000
    while time.thread_time() < until:
        sum(range(200))
    return thread()

def lane():
    return greenlane.wiring.placed_calls.placement().lane.stats()

def until(reached):
    give_up = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < give_up
        gevent.sleep(0.001)

def raises(kind, fn, *args):
    try:
        fn(*args)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")
"""


def ran(program: str, first: str = PATCHED_FIRST, loop: str = "libev-cext", **env: str) -> str:
    """What a program prints; fails unless it exits 0."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", first + BEFORE + program],
        env={**os.environ, "GEVENT_LOOP": loop, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


WHOLE = """
beats = 0
def beat():
    global beats
    while True:
        gevent.sleep(0.001)
        beats += 1

beating = gevent.spawn(beat)
gevent.sleep(0.005)
beats = 0
ran_on = [greenlet.get() for greenlet in gevent.joinall([gevent.spawn(run, burn, 20) for _ in range(4)])]
assert len(set(ran_on)) == 1 and MAIN not in ran_on, ran_on
assert beats >= 8, beats

def fail():
    raise ValueError("reason")

error = raises(ValueError, run, fail)
names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
assert names == ["raises", "run", "fail"], names
assert raises(SystemExit, run, sys.exit, 3).code == 3
assert isinstance(raises(StopIteration, run, next, iter(())), StopIteration)
assert "run(fn, x)" in str(raises(TypeError, run, burn(0.1)))

while run(thread) != MAIN:
    pass
beating.kill()
"""


@pytest.mark.parametrize("loop", ["libev-cext", "libev-cffi", "libuv"])
def test_calls_run_on_a_real_thread_while_the_hub_goes_on(loop: str) -> None:
    ran(WHOLE, loop=loop)


@pytest.mark.parametrize("first", [OURS_FIRST, NOT_PATCHED])
def test_so_they_do_whoever_is_imported_first_and_without_a_monkey_patch(first: str) -> None:
    ran(WHOLE, first)


def test_killing_a_greenlet_cancels_its_call_before_and_after_its_begin() -> None:
    ran("""
met = []
begun = []
def until_told():
    begun.append(1)
    try:
        while True:
            burn(1)
            checkpoint()
    except BaseException as error:
        met.append(type(error).__name__)
        raise

running = gevent.spawn(run, until_told)
until(lambda: begun)
never = []
waiting = gevent.spawn(run, never.append, 1)
until(lambda: lane().queued == 1)
waiting.kill()
assert lane().queued == 0
running.kill()
until(lambda: lane().running == 0)
assert met == ["Cancelled"] and not never, (met, never)
assert run(burn, 1) != MAIN
begun.clear()
for span_s in (0.02, 0.1, 0.5, 3):
    with gevent.Timeout(span_s, False):
        run(until_told)
    if begun:
        break
until(lambda: lane().running == 0)
assert met == ["Cancelled"] * 2
""")


def test_a_deadline_answers_the_greenlet_on_time_and_the_function_at_a_checkpoint() -> None:
    ran("""
let_go, begun, met = [], [], []
def held():
    begun.append(1)
    while not let_go:
        burn(1)

def late(fn, span_ms):
    with within_ms(span_ms):
        run(fn)

def begins_and_is_late(fn):
    begun.clear()
    for span_ms in (20, 100, 500, 3000):  # On a slow machine it may not have begun when the first ones come.
        assert isinstance(raises(DeadlineExceeded, late, fn, span_ms), TimeoutError)
        if begun:
            return

begins_and_is_late(held)
assert lane().running == 1
let_go.append(1)

def until_told():
    begun.append(1)
    try:
        while True:
            burn(1)
            checkpoint()
    except DeadlineExceeded:
        met.append(1)
        raise

begins_and_is_late(until_told)
until(lambda: met)
""")


def test_many_greenlets_of_which_many_are_killed_leave_nothing_behind() -> None:
    ran("""
import greenlane.policy.placed
greenlane.policy.placed.INLINE_MS = 0.0
greenlets = [gevent.spawn(run, burn, 0.2) for _ in range(300)]
gevent.sleep(0.005)
for greenlet in greenlets[::2]:
    greenlet.kill(block=False)
gevent.joinall(greenlets)
assert all(greenlet.successful() for greenlet in greenlets)
assert all(greenlet.value is not None for greenlet in greenlets[1::2])
until(lambda: lane().running == lane().queued == 0)
""")


def test_a_full_queue_refuses_at_once() -> None:
    ran("""
let_go, begun = [], []
def held():
    begun.append(1)
    while not let_go:
        burn(1)

greenlets = [gevent.spawn(run, held)]
until(lambda: begun)
greenlets.append(gevent.spawn(run, burn, 1))
until(lambda: lane().queued == 1)
raises(Overloaded, run, burn, 1)
let_go.append(1)
gevent.joinall(greenlets, raise_error=True)
""", GREENLANE_PLACED_QUEUE="1")  # fmt: skip


def test_light_calls_in_a_row_let_the_hub_turn() -> None:
    ran("""
import greenlane.policy.placed
greenlane.policy.placed.INLINE_MS = 5.0
placement = greenlane.wiring.placed_calls.placement()
turned = []
def other():
    while True:
        gevent.sleep(0)
        turned.append(1)

gevent.spawn(other)
while placement.counters()["placed_inline"] < 5:
    run(burn, 0.3)
del turned[:]
for _ in range(40):
    run(burn, 0.3)
assert turned
""")


def test_a_native_thread_of_gevents_pool_waits_as_any_thread() -> None:
    ran("""
def from_pool():
    return run(burn, 5)

assert gevent.get_hub().threadpool.apply(from_pool) not in (None, MAIN)
""")


def test_in_the_hub_itself_a_call_runs_where_it_is() -> None:
    ran("""
seen = []
gevent.get_hub().loop.run_callback(lambda: seen.append(run(burn, 1)))
gevent.sleep(0.01)
assert seen == [MAIN], seen
""")


def test_a_forked_child_has_a_lane_of_its_own() -> None:
    ran("""
import os
parents = run(burn, 5)
child = os.fork()
if child == 0:
    status = 1
    try:
        status = 0 if run(burn, 5) not in (parents, thread()) else 2
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
assert run(burn, 5) == parents
""")
