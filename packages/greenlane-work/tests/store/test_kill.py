"""Worker processes killed at any instant: what a store said `done` to is done, what was called is never new."""

from __future__ import annotations

import random
import re
import signal
import sys
import time
from collections.abc import Callable

import pytest
from tests.store.places import Place

from greenlane_work.store import State

# Threads that call one order after another and say so as the kernel hears it, whatever becomes of the process.
WORKER = """
import os, sys
if sys.argv[3] == "green":
    from gevent import monkey
    monkey.patch_all()
import threading
from greenlane_work.store import State, open_store

store = open_store(sys.argv[1], lease_s=1)

def work(part):
    for number in range(100_000):
        key = f"{sys.argv[2]}-{part}-{number}"
        assert store.begin(key).state is State.NEW
        assert store.holds
        os.write(1, f"called {key}\\n".encode())
        store.done(key, key.encode())
        os.write(1, f"done {key}\\n".encode())

for part in range(8):
    threading.Thread(target=work, args=(part,)).start()
"""


# With a soak all of them: a file is what the fast tests kill, and the others' leases are in the contract.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "threads"),
    [
        ("sqlite", "real"),
        pytest.param("sqlite", "green", marks=pytest.mark.soak),
        *(
            pytest.param(kind, threads, marks=[pytest.mark.soak, pytest.mark.system])
            for kind in ("postgres", "redis")
            for threads in ("real", "green")
        ),
    ],
    indirect=["place"],
)
def test_a_worker_killed_at_any_instant_loses_no_answer(
    place: Place, threads: str, start_process: Callable[..., object]
) -> None:
    chance, other = random.Random(place.kind + threads), place.open(patience_s=30)
    for run in range(1 if threads == "real" else 3):
        worker = start_process([sys.executable, "-c", WORKER, place.url, str(run), threads])
        worker.wait_output(f"done {run}-[0-9]+-{chance.randint(0, 8)}$")  # type: ignore[attr-defined]
        time.sleep(chance.uniform(0, 0.02))
        worker.signal(signal.SIGKILL)  # type: ignore[attr-defined]
        assert worker.wait_exit() == -signal.SIGKILL  # type: ignore[attr-defined]
        said = worker.output  # type: ignore[attr-defined]
        called, done = (re.findall(rf"^{word} (\S+)$", said, re.MULTILINE) for word in ("called", "done"))
        assert len(done) <= len(called) <= len(done) + 8
        for key in done:
            found = other.begin(key)
            assert (found.state, found.result) == (State.DONE, key.encode())
        for key in set(called) - set(done):
            while (state := other.begin(key).state) is State.RUNNING:  # the lease of the killed process
                assert place.kind != "sqlite", "there a process is seen to be gone"
                time.sleep(0.05)
            assert state in (State.UNKNOWN, State.DONE)
