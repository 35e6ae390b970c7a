"""`--max-mb` bounds what all processes of a recording write together, short-lived ones too; files are their owner's."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.record.command import GREENLANE, JOBS, environment, record, recorded

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


#: Four times what its disk holds.
MUCH = """
for number in range(20_000):
    with greenlane.record.job(f"job {number % 7}"):
        pass
    if number % 1000 == 0:
        time.sleep(0.05)
print("done")
"""
ON_A_SMALL_DISK = 'mount -t tmpfs -o size=200k tmpfs "$0" || exit 99; cd "$0"; "$@"; code=$?; cp r.glr ..; exit $code'


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk of its own")
def test_a_full_disk_disturbs_no_program_and_what_was_written_can_be_read(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = [*GREENLANE, "record", "-o", "r.glr", "--", sys.executable, "-c", JOBS + MUCH]
    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", ON_A_SMALL_DISK, disk, *command],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=40, check=False,
    )  # fmt: skip
    if ended.returncode == 99 or "unshare failed" in ended.stderr:
        pytest.skip(f"this machine mounts nothing: {ended.stderr}")
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert "Traceback" not in ended.stderr
    assert "no room on the disk" in ended.stderr
    recording = recorded(tmp_path)
    assert 500 <= len(recording.jobs) < 20_000
    assert recording.lost
