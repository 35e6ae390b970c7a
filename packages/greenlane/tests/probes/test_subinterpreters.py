"""The interpreters of a process share the method tables: others than the main one pass on, even within a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.where import IMPORT_PATH

#: On 3.12 and later each of them has a GIL of its own.
PROGRAM = """
import sys, threading, time
sys.path[:0] = sys.argv[1].split(":")
from tests.probes.observer import Observer
from greenlane import phase, probes
from greenlane.phase import Kind
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

WAITS = '''
import _queue, _thread, os, select, socket, time
lock = _thread.allocate_lock()
with lock:
    assert not lock.acquire(True, 0.001)
again = _thread.RLock()
with again, again:
    again._release_save()
    again._acquire_restore((2, _thread.get_ident()))
simple = _queue.SimpleQueue()
simple.put(1)
assert simple.get(True, 1) == 1
ours, theirs = socket.socketpair()
ours.sendall(b"word")
assert select.select([theirs], [], [], 1)[0] and theirs.recv_into(bytearray(4)) == 4
assert select.epoll().poll(0.001) == []
read, write = os.pipe()
os.write(write, b"w")
assert os.read(read, 1) == b"w"
try:
    time.sleep()
except TypeError:
    pass
time.sleep(0.001)
try:
    time.sleep(-1)
except ValueError:
    pass
lock.acquire()
ours.close(); theirs.close(); os.close(read); os.close(write)
'''

def in_another(rounds):
    for _ in range(rounds):
        other = interpreters.create()
        assert interpreters.run_string(other, WAITS) is None
        interpreters.destroy(other)

%s
"""
#: A listener within a job: nothing of another interpreter is heard, all of this one is, before, meanwhile and after.
HEARD = """
observer = Observer()
probes.install()
phase.subscribe(observer)
phase.offer(observer)
assert observer.during(time.sleep, 0.001) == [Kind.SLEEP]
assert observer.during(in_another, 2) == []
assert observer.during(time.sleep, 0.001) == [Kind.SLEEP]
failed = []
threading.excepthook = failed.append
threads = [threading.Thread(target=in_another, args=(3,)) for _ in range(2)]
for each in threads:
    each.start()
for _ in range(100):
    assert observer.during(time.sleep, 0) == [Kind.SLEEP]
for each in threads:
    each.join()
phase.withdraw(observer)
phase.unsubscribe(observer)
probes.uninstall()
in_another(1)
assert not failed, failed
print("done")
"""
#: Permits: a job that waits in another interpreter, while other jobs do.
PERMITTED = """
from greenlane.settings import load
from greenlane.wiring import process
running = process.start(load({"mode": "on"}, environ={}), host="test")
running.permits.pin("work", "heavy")
failed = []
threading.excepthook = failed.append

def work():
    assert running.open_task("work", time.monotonic_ns(), 0)
    in_another(2)
    time.sleep(0)
    in_another(1)
    running.close()

threads = [threading.Thread(target=work) for _ in range(3)]
for each in threads:
    each.start()
for each in threads:
    each.join()
running.stop()
assert not failed, failed
print("done")
"""


@pytest.mark.parametrize("part", [HEARD, PERMITTED], ids=["heard", "with permits"])
def test_other_interpreters_wait_as_if_we_were_not_there(part: str, run_python: Callable[..., Any]) -> None:
    assert run_python(PROGRAM % part, IMPORT_PATH).stdout.split() == ["done"]
