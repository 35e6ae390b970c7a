"""What a service leaves behind: nothing when it ends or its workers can end after it, else until the next starts."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.serve.served import Served, until
from tests.serve.wire import bystander

from greenlane_serve.folders import made, remove_left
from greenlane_serve.processes import LogLost, reopened_pipe

PARENT = """
import contextlib, pathlib, sys
from greenlane_serve.folders import made
with contextlib.ExitStack() as stack:
    print(made(stack, pathlib.Path(sys.argv[1])), flush=True)
    sys.stdin.read()
"""
WORKER = """
import pathlib, sys
from greenlane_serve.folders import live_in
live_in(pathlib.Path(sys.argv[1]))
print("here", flush=True)
sys.stdin.read()
"""
# Hangs for longer than it may: its application has a thread that does not end.
HUNG = """
import os, pathlib, sys, threading
from greenlane_serve.folders import live_in
from greenlane_serve.worker.__main__ import end_with_parent
alive_fd, theirs = os.pipe()
end_with_parent(alive_fd, 0.0)
live_in(pathlib.Path(sys.argv[1]))
threading.Thread(target=threading.Event().wait).start()
print("here", flush=True)
sys.stdin.read()
os.close(theirs)
"""


@contextmanager
def living(program: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=30)


def test_a_folder_goes_with_its_maker_and_nobody_takes_it_before(tmp_path: Path) -> None:
    with ExitStack() as stack:
        folder = made(stack, tmp_path)
        remove_left(tmp_path)
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_what_is_none_of_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "greenlane-other").mkdir()
    (tmp_path / "greenlane-other" / "lock").touch()
    remove_left(tmp_path)
    assert (tmp_path / "greenlane-other" / "lock").exists()


@pytest.mark.slow
def test_the_last_worker_of_a_killed_parent_takes_it_away(tmp_path: Path) -> None:
    with living(PARENT, tmp_path) as (parent, said), living(WORKER, Path(said)) as (one, _):
        folder = Path(said)
        with living(WORKER, folder) as (other, _):
            parent.kill()
            parent.wait()
            end(other)
            remove_left(tmp_path)
            assert folder.exists(), "somebody lives there"
        end(one)
        assert not folder.exists()


@pytest.mark.slow
def test_a_worker_that_is_killed_because_it_does_not_end_takes_it_away_before(tmp_path: Path) -> None:
    with living(PARENT, tmp_path) as (parent, said), living(HUNG, Path(said)) as (hung, _):
        parent.kill()
        parent.wait()
        end(hung)
        assert hung.returncode == -signal.SIGKILL
        assert not Path(said).exists()


@pytest.mark.slow
def test_a_worker_that_ends_before_its_parent_leaves_it(tmp_path: Path) -> None:
    with living(PARENT, tmp_path) as (parent, said):
        with living(WORKER, Path(said)) as (worker, _):
            end(worker)
            assert Path(said).exists()
        parent.kill()
        parent.wait()
        remove_left(tmp_path)
        assert not Path(said).exists(), "nobody was left to do it"


# --- The access log's pipe: room in it, no flag of the front's on anybody else's stdout, and what was lost is told.


def test_a_pipe_opened_anew_is_the_same_one_with_flags_of_its_own() -> None:
    reads, writes = os.pipe()
    with reopened_pipe(writes) as anew:
        assert anew is not None
        os.set_blocking(anew, False)
        assert os.get_blocking(writes)
        os.write(anew, b"a line")
        assert os.read(reads, 100) == b"a line"
        assert fcntl.fcntl(writes, fcntl.F_GETPIPE_SZ) == 1 << 20
    for fd in (reads, writes):
        os.close(fd)


def test_what_is_no_pipe_stays(tmp_path: Path) -> None:
    with open(tmp_path / "log", "w") as file, reopened_pipe(file.fileno()) as anew:
        assert anew is None


def test_lost_lines_are_told_once_a_minute_and_a_new_front_begins_at_none() -> None:
    lost = LogLost()
    assert lost.line(0, 1000.0) == ""
    assert "has lost 3 lines" in lost.line(3, 1001.0)
    assert lost.line(5, 1002.0) == ""
    assert "has lost 2 lines" in lost.line(5, 1062.0)
    assert "has lost 1 lines" in lost.line(1, 1200.0)


@pytest.mark.system
@pytest.mark.slow
def test_an_applications_output_waits_for_its_reader_whatever_the_front_does(wired: Served) -> None:
    bystander(wired, "/logged")

    def blocks(pid: int) -> bool:
        (flags,) = [line for line in Path(f"/proc/{pid}/fdinfo/1").read_text().splitlines() if "flags" in line]
        return not int(flags.split()[1], 8) & os.O_NONBLOCK

    until(lambda: not blocks(wired.front()))  # it logs after the answer, and sets the flag with its first line
    assert [blocks(pid) for pid in wired.workers()] == [True, True]
