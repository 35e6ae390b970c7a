"""Processes that write to one SQLite file take turns: none fails because others are quicker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from greenlane_work.store import State, open_store

BUSY = """
import sys, threading
from greenlane_work.store import State, open_store

store = open_store(sys.argv[1], patience_s=60)
sys.stdin.readline()
def work(part):
    for number in range(15):
        assert store.begin(f"{sys.argv[2]}-{part}-{number}").state is State.NEW
        store.done(f"{sys.argv[2]}-{part}-{number}")
threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(store.counts.failures, store.close())
"""


@pytest.mark.slow
def test_processes_that_write_at_once_wait_for_each_other_and_none_fails(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.db"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", BUSY, url, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(2)
    ]
    for worker in workers:  # they open the file at once, too
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    assert [worker.communicate(timeout=60)[0] for worker in workers] == ["0 True\n"] * 2
    store = open_store(url)
    assert len(store.find(State.DONE, 2000)) == 2 * 8 * 15
    store.close()
