"""The recorder begins, ends and begins again in a process that goes on, and leaves it as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.record.command import environment

pytestmark = pytest.mark.slow

BEGIN = """
import _thread, gc, os, sys, threading, time
from greenlane._native import Recorder
recorder = Recorder()
def start():
    recorder.start(sys.argv[1], max_bytes=1 << 24, about="{}")
def threads():
    return len(os.listdir("/proc/self/task"))
def come_to(count):
    until_s = time.monotonic() + 1  # one that has been joined stands there for a moment
    while threads() != count and time.monotonic() < until_s:
        time.sleep(0.0005)
    return threads() == count
def work():
    recorder.close(recorder.open(host="test"))
start()
assert threads() == 1
"""

AGAIN = """
work()
before = threads()
slowest_s = 0.0
for _ in range(50):
    began_s = time.monotonic()
    recorder.stop()
    slowest_s = max(slowest_s, time.monotonic() - began_s)
    assert come_to(before - 1), threads()
    start()
    work()
    assert threads() == before
recorder.stop()
assert slowest_s < 2, slowest_s
print("fine")
"""

CONCURRENT = """
problems = []
def turn():
    for _ in range(50):
        recorder.stop()
        try:
            start()
        except OSError as error:
            problems.append(error.args[-1])
        recorder.close(recorder.open(host="test"))
        recorder.flush()
turning = [threading.Thread(target=turn) for _ in range(4)]
for each in turning:
    each.start()
for each in turning:
    each.join()
recorder.stop()
assert not recorder.recording() and recorder.stats()["error"] is None
assert set(problems) <= {"the one before is still being written"}, problems
print("fine")
"""

UNKNOWN = """
done = _thread.allocate_lock()
done.acquire()
def work():
    recorder.close(recorder.open(host="test"))
    done.release()
_thread.start_new_thread(work, ())
done.acquire()
assert [each.name for each in threading.enumerate()] == ["MainThread"], threading.enumerate()
print("fine")
"""

CHILD = """
work()
for act, found in ((lambda: None, 1), (work, 2)):
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(found if come_to(found) else 99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == found
assert recorder.recording() and len(os.listdir(sys.argv[1])) == 2
print("fine")
"""

SWITCHED = """
first = recorder.open(host="test")
recorder.off()
recorder.close(first)
recorder.on()
second = recorder.open(host="test")
assert second > first and recorder.open(host="test") == 0
recorder.close(second)
recorder.on()
third = recorder.open(host="test")
recorder.on()
assert recorder.open(host="test") == 0
recorder.close(third)
recorder.flush()
stats = recorder.stats()
assert (stats["jobs"], stats["in_progress"]) == (2, 0), stats
print("fine")
"""

RESTARTED = """
first = recorder.open(host="test")
recorder.stop()
recorder.close(first)
start()
second = recorder.open(host="test")
assert second > first and recorder.open(host="test") == 0
recorder.close(second)
print("fine")
"""

SOURCES = {
    "restarted": RESTARTED,
    "again": AGAIN,
    "concurrent": CONCURRENT,
    "unknown": UNKNOWN,
    "child": CHILD,
    "switched": SWITCHED,
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_process_goes_on(source: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-X", "dev", "-W", "ignore", "-c", BEGIN + source, str(tmp_path)]
    ended = subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "fine\n", "")


FORKING = """
import gevent.monkey; gevent.monkey.patch_all()
import gevent, os
from greenlane.wiring import recording as wired
wired.start_recording()
def work():
    gevent.sleep(0)
    return 1
def forking():
    for _ in range(10):
        pid = os.fork()
        if pid == 0:
            found = sum(each.get() for each in [gevent.spawn(work) for _ in range(20)])
            os._exit(0 if found == 20 else 1)
        assert os.waitpid(pid, 0)[1] == 0
gevent.joinall([gevent.spawn(forking)], raise_error=True)
print("fine")
"""


def test_a_greenlet_that_forks_spawns_on_in_the_child(tmp_path: Path) -> None:
    """What was known of the running greenlet is the parent's, and freed memory is not looked at."""
    pytest.importorskip("gevent")
    env = environment(GREENLANE_RECORD_FOLDER=str(tmp_path), MALLOC_PERTURB_="165")
    ended = subprocess.run(
        [sys.executable, "-c", FORKING], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "fine\n"), ended.stderr


LATE = """
import os, subprocess, sys, threading, time
from greenlane._native import Recorder
from greenlane.record.jobs import job
from greenlane.wiring.recording import start_recording
start_recording()
with job("first"):
    pass
tasks = {int(task): open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")}
writer = next(task for task, name in tasks.items() if name.startswith("greenlane-write"))
first, *others = os.sched_getaffinity(0)
os.sched_setaffinity(writer, {first})
os.sched_setscheduler(writer, os.SCHED_IDLE, os.sched_param(0))
spins = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
os.sched_setaffinity(spins.pid, {first})
def works():
    os.sched_setaffinity(0, set(others))
    for _ in range(6_000):
        time.sleep(0.00003)
thread = threading.Thread(target=works)
thread.start()
thread.join()
spins.kill()
spins.wait()
recorder = Recorder()
recorder.flush()
stats = recorder.stats()
assert stats["events"] > 10_000 and stats["lost"] == 0, stats
print("fine")
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the writer has a core of its own, with somebody else")
def test_a_busy_thread_without_jobs_loses_nothing_while_the_writer_is_late(tmp_path: Path) -> None:
    env = environment(GREENLANE_RECORD_FOLDER=str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-c", LATE], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "fine\n"), ended.stderr
