"""`--max-mb` bounds what all processes of a recording write together, short-lived ones too; files are their owner's."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.record.command import record, recorded

pytestmark = pytest.mark.slow

#: 200 children; each leaves some 25 kB and ends: none of them ever begins a second file.
CHILDREN = """
import os
def child():
    for number in range(600):
        with greenlane.record.job(f"job {number % 7}"):
            pass
for _ in range(50):
    pids = []
    for _ in range(4):
        pid = os.fork()
        if not pid:
            child()
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
"""


def test_many_short_lived_processes_stay_within_the_bound(tmp_path: Path) -> None:
    parts, largest, over = tmp_path / "r.glr.parts", [0], threading.Event()

    def watch() -> None:
        while not over.is_set():
            sizes = [path.stat().st_size for path in parts.glob("*.glr") if path.exists()] if parts.exists() else []
            largest[0] = max(largest[0], sum(sizes))
            time.sleep(0.02)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        ended = record(CHILDREN, "--max-mb", "1", cwd=tmp_path)
    finally:
        over.set()
        watching.join()
    assert ended.code == 0, ended.err
    size = (tmp_path / "r.glr").stat().st_size
    assert size > 300_000, "they have written enough for the bound to matter"
    # A file is deleted when another one begins: four at a time may be at it.
    assert max(largest[0], size) <= 1_300_000
    assert recorded(tmp_path).jobs
    assert (tmp_path / "r.glr").stat().st_mode & 0o077 == 0
