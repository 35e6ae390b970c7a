"""Nothing that a program can compare, print, subclass or pickle changes, with permits or a recording on."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Looks at everything before greenlane is imported, and again with it on: what differs, by name.
PROGRAM = """
import _imp, asyncio, asyncio.base_events, asyncio.tasks, http.client, http.server, wsgiref.simple_server
import _thread, concurrent.futures, concurrent.futures.thread, concurrent.futures._base, fcntl, importlib.machinery
import json, multiprocessing, multiprocessing.connection, multiprocessing.synchronize, os, pickle, queue, select
import selectors, signal, socket, ssl, subprocess, sys, threading, time, _socket, _ssl, _signal, _queue, posix
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from threading import Lock, RLock
from time import sleep

MODULES = [
    _thread, concurrent.futures, concurrent.futures.thread, concurrent.futures._base, fcntl, multiprocessing,
    multiprocessing.connection, multiprocessing.synchronize, os, queue, select, selectors, signal, socket, ssl,
    subprocess, threading, time, _socket, _ssl, _signal, _queue, posix, importlib.machinery,
    asyncio, asyncio.base_events, asyncio.tasks, http.client, http.server, wsgiref.simple_server, _imp,
]
# What the interpreter itself makes, or our own start changes in any program that has a thread or a fork hook.
LIVE = {"threading._active", "threading._dangling", "threading._limbo", "threading._shutdown_locks"}


def everything():
    found = {}
    for module in MODULES:
        for name, value in list(vars(module).items()):
            if f"{module.__name__}.{name}" in LIVE:
                continue
            found[f"{module.__name__}.{name}"] = value
            if isinstance(value, type):
                for inner, attribute in list(vars(value).items()):
                    if inner not in ("__weakref__", "__doc__", "__abstractmethods__", "_abc_impl"):
                        found[f"{module.__name__}.{name}.{inner}"] = attribute
    return found


def printed():
    seen = (Lock, RLock, sleep, select.epoll, select.poll, queue.SimpleQueue, socket.socket.recv)
    return [repr(each) for each in seen]


before, said = everything(), printed()
held = Lock()
hashes = {each: hash(each) for each in [*before.values(), held.acquire, [].append] if callable(each) and each.__hash__}
pickled = [pickle.dumps(each) for each in (Lock, RLock, sleep, select.epoll, queue.SimpleQueue, os.waitpid)]
%s
after = everything()
changed = sorted(name for name in {*before, *after} if after.get(name, None) is not before.get(name, None))
lock = threading.Lock()
assert lock.__class__.__module__ == "_thread" and type(lock) is _thread.LockType
assert threading.Lock is Lock and time.sleep is sleep
assert pickled == [pickle.dumps(each) for each in (Lock, RLock, sleep, select.epoll, queue.SimpleQueue, os.waitpid)]
assert printed() == said
assert all(hash(each) == found and each in hashes for each, found in hashes.items()) and held.acquire in hashes
print(json.dumps(changed))
%s
"""

PERMITS = (
    "from greenlane.settings import load\n"
    "from greenlane.wiring import process\n"
    'running = process.start(load({"mode": "on"}, environ={}), host="test")\n'
    "from greenlane import probes; assert probes.absent() == (), probes.absent()",
    "running.stop()\nassert everything() == before",
)


def test_permits_change_nothing(run_python: Callable[..., Any]) -> None:
    assert json.loads(run_python(PROGRAM % PERMITS).stdout) == []


def test_a_recording_changes_nothing_either(run_python: Callable[..., Any], tmp_path: Path) -> None:
    start = (
        "from greenlane.settings import load\n"
        "from greenlane.wiring.recording import start_recording\n"
        f'recorded = start_recording(load({{"record_folder": {str(tmp_path)!r}}}, environ={{}}))'
    )
    end = "recorded.end()\nassert everything() == before"
    assert json.loads(run_python(PROGRAM % (start, end)).stdout) == []


#: What begins each mode, in an empty folder.
MODES = {
    "stock": "",
    "recorded": (
        "from greenlane.settings import load\n"
        "from greenlane.wiring.recording import start_recording\n"
        'recorded = start_recording(load({"record_folder": "."}, environ={}))\n'
        "assert recorded is not None"
    ),
    "permits": PERMITS[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_trio_runs(mode: str, run_python: Callable[..., Any]) -> None:
    pytest.importorskip("trio")
    program = f"""
{MODES[mode]}
import trio

async def main():
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.01)
            nursery.start_soon(trio.to_thread.run_sync, sum, [1, 2])
            await trio.run_process(["true"])
    return "done"

print(trio.run(main))
"""
    assert run_python(program).stdout.split() == ["done"]


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="dill reads co_lnotab, which 3.15's code objects have not")
@pytest.mark.parametrize("mode", MODES)
def test_dill_pickles_what_has_locks(mode: str, run_python: Callable[..., Any]) -> None:
    pytest.importorskip("dill")
    program = f"""
import threading
from queue import SimpleQueue
before = threading.Lock()
{MODES[mode]}
import dill, time

class Guarded:
    def __init__(self):
        self.locks = [before, threading.Lock(), threading.RLock()]
        self.factories = [threading.Lock, threading.RLock, SimpleQueue, time.sleep]

ours = Guarded()
ours.locks[0].acquire()
with ours.locks[2]:
    theirs = dill.loads(dill.dumps(ours))
assert [type(lock) for lock in theirs.locks] == [type(lock) for lock in ours.locks]
assert theirs.factories == ours.factories
assert theirs.locks[0].locked() and not theirs.locks[1].locked() and theirs.locks[2]._is_owned()
theirs.locks[0].release()
theirs.locks[2].release()
assert before.locked() and not ours.locks[2]._is_owned()
print("done")
"""
    assert run_python(program).stdout.split() == ["done"]


def test_a_lock_factory_pickled_with_us_is_loaded_without_us(run_python: Callable[..., Any]) -> None:
    program = PERMITS[0] + "\nimport pickle, threading\nprint(pickle.dumps([threading.Lock, threading.RLock], 4).hex())"
    assert pickle.loads(bytes.fromhex(run_python(program).stdout)) == [threading.Lock, threading.RLock]
