"""Recordings while they run: signals, Ctrl-C, kills, the control socket, processes that outlive their command."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.record.command import GREENLANE, JOBS, environment, greenlane, recorded, routes

from greenlane.cli.record_command import children
from tests.fixtures import StartProcess

pytestmark = [pytest.mark.slow]

#: Works until somebody ends it, and says so.
BUSY = "print('ready', flush=True)\nwhile True: work(times=1)"


def start(start_process: StartProcess, folder: Path, source: str, *options: str):  # type: ignore[no-untyped-def]
    """Starts a recording of `source` into r.glr; returns when it has said that it is ready."""
    argv = [*GREENLANE, "record", "-o", "r.glr", *options, "--", sys.executable, "-c", JOBS + source]
    running = start_process(argv, cwd=folder, env=environment())
    running.wait_output("^ready$")
    return running


def until(condition: Callable[[], object], *, timeout_s: float = 20) -> None:
    """Block until `condition()` is true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.02)


def status(folder: Path, target: str = "r.glr") -> list[dict[str, object]]:
    ended = greenlane("record", "--status", "--json", target, cwd=folder)
    assert ended.code == 0, ended.err
    rows = json.loads(ended.out)["rows"]
    assert isinstance(rows, list)
    return rows


def a_few_jobs(folder: Path) -> int:
    """Waits for jobs that are in the file; gives the process."""
    until(lambda: status_or_none(folder))
    until(lambda: int(str(status(folder)[0]["jobs"])) >= 5)
    return int(str(status(folder)[0]["pid"]))


# --- signals


@pytest.mark.gate
def test_ctrl_c_once_lets_the_program_end_itself(tmp_path: Path, start_process: StartProcess) -> None:
    source = """
try:
    print('ready', flush=True)
    while True: work(times=1)
except KeyboardInterrupt:
    work("goodbye")
    sys.exit(4)
"""
    running = start(start_process, tmp_path, source)
    running.signal(signal.SIGINT)
    assert running.wait_exit() == 4
    assert routes(recorded(tmp_path))["goodbye"] == 3


def test_a_terminals_ctrl_c_comes_to_the_program_once(tmp_path: Path) -> None:
    source = """
import signal
told = []
signal.signal(signal.SIGINT, lambda *_: told.append(1))
print('ready', flush=True)
while not told: work(times=1)
time.sleep(1)
print('told', len(told), 'times')
"""
    argv = [*GREENLANE, "record", "-o", "r.glr", "--", sys.executable, "-c", JOBS + source]
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execve(argv[0], argv, environment())
    said = b""
    try:
        while b"ready" not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        while b"next: " not in said:
            said += os.read(terminal, 1000)
    finally:
        _, code = os.waitpid(pid, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(code) == 0
    assert b"told 1 times" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_process_group_comes_to_the_program_once(tmp_path: Path, number: int) -> None:
    source = f"""
import signal
told = []
signal.signal({int(number)}, lambda *_: told.append(1))
print('ready', flush=True)
while not told: work(times=1)
time.sleep(0.5)
print('told', len(told), 'times', flush=True)
told.clear()
while not told: work(times=1)
time.sleep(0.5)
print('then', len(told), 'times')
"""
    argv = [*GREENLANE, "record", "-o", "r.glr", "--", sys.executable, "-c", JOBS + source]
    running = subprocess.Popen(
        argv, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with running, contextlib.ExitStack() as cleanup:
        cleanup.callback(_kill_group, running)
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        os.killpg(running.pid, number)
        assert running.stdout.readline() == "told 1 times\n"
        if number == signal.SIGINT:  # the second would kill it
            commands = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in children(running.pid)}
            (program,) = [pid for pid, words in commands.items() if words[2].startswith(JOBS)]
            os.kill(program, number)
        else:
            running.send_signal(number)  # for it alone: passed on
        assert running.stdout.readline() == "then 1 times\n"
        assert running.wait(timeout=20) == 0


def _kill_group(leader: subprocess.Popen[str]) -> None:
    if leader.poll() is None:
        os.killpg(leader.pid, signal.SIGKILL)


def test_ctrl_c_twice_kills_the_program_and_what_it_started(tmp_path: Path, start_process: StartProcess) -> None:
    source = """
import signal, subprocess
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
print('child', child.pid, flush=True)
work()
time.sleep(0.5)
print('ready', flush=True)
while True: time.sleep(1)
"""
    running = start(start_process, tmp_path, source)
    grandchild = int(running.wait_output(r"child (\d+)")[1])
    running.signal(signal.SIGINT)
    time.sleep(0.3)  # the two must not become one
    running.signal(signal.SIGINT)
    assert running.wait_exit() == 128 + signal.SIGKILL
    assert routes(recorded(tmp_path)) == {"work": 3}
    until(lambda: not Path(f"/proc/{grandchild}").exists())


def test_a_ctrl_c_that_comes_to_child_and_group_is_one(tmp_path: Path, start_process: StartProcess) -> None:
    source = (
        """
import signal
def end(*_):
    time.sleep(0.3)
    sys.exit(5)
signal.signal(signal.SIGINT, end)
"""
        + BUSY
    )
    running = start(start_process, tmp_path, source)
    running.signal(signal.SIGINT)
    time.sleep(0.05)  # the two must not become one before it hears of them
    running.signal(signal.SIGINT)
    assert running.wait_exit() == 5
    assert routes(recorded(tmp_path))["work"] >= 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(tmp_path: Path, start_process: StartProcess, number: int) -> None:
    source = f"""
import signal
signal.signal({int(number)}, lambda *_: sys.exit(9))
{BUSY}
"""
    running = start(start_process, tmp_path, source)
    a_few_jobs(tmp_path)
    running.signal(number)
    assert running.wait_exit() == 9
    assert routes(recorded(tmp_path))["work"] >= 5


def test_a_stopped_recording_goes_on(tmp_path: Path, start_process: StartProcess) -> None:
    """CPython's `sigtimedwait` gives a signal that nobody sent, if the process was stopped for longer than it waits."""
    running = start(start_process, tmp_path, BUSY)
    for _ in range(3):
        running.signal(signal.SIGSTOP)
        time.sleep(0.7)  # longer than one look takes
        running.signal(signal.SIGCONT)
        time.sleep(0.1)  # and into the next one
    running.signal(signal.SIGTERM)
    assert running.wait_exit() == 128 + signal.SIGTERM
    assert routes(recorded(tmp_path))["work"] >= 1


# --- kills


def test_a_killed_program_loses_at_most_its_last_second(tmp_path: Path, start_process: StartProcess) -> None:
    running = start(start_process, tmp_path, BUSY)
    pid = a_few_jobs(tmp_path)
    jobs = int(str(status(tmp_path)[0]["jobs"]))
    os.kill(pid, signal.SIGKILL)
    assert running.wait_exit() == 128 + signal.SIGKILL
    assert routes(recorded(tmp_path))["work"] >= jobs


def test_when_the_recorder_is_killed_the_recording_ends_and_its_parts_can_be_read_and_merged(
    tmp_path: Path, start_process: StartProcess
) -> None:
    running = start(start_process, tmp_path, BUSY)
    pid = a_few_jobs(tmp_path)
    refused = greenlane("record", "--merge", "r.glr", cwd=tmp_path)
    assert refused.code == 1
    assert "expected a recording that is over (processes still write to it)" in refused.err
    running.signal(signal.SIGKILL)
    running.wait_exit(timeout_s=1)  # its output stays open: the program goes on
    until(lambda: status(tmp_path)[0]["record"] == "off")
    os.kill(pid, 0)
    assert routes(recorded(tmp_path, "r.glr.parts"))["work"] >= 5
    report = greenlane("report", "r.glr", "--json", cwd=tmp_path)
    assert (report.code, '"work"' in report.out) == (0, True), report.err
    again = greenlane("record", "-o", "r.glr", "--", "true", cwd=tmp_path)
    assert again.code == 2
    assert "`greenlane record --merge" in again.err
    assert greenlane("record", "--merge", "r.glr", cwd=tmp_path).code == 0
    assert routes(recorded(tmp_path))["work"] >= 5
    assert not (tmp_path / "r.glr.parts").exists()
    os.kill(pid, signal.SIGKILL)


def status_or_none(folder: Path) -> bool:
    return greenlane("record", "--status", "r.glr", cwd=folder).code == 0


def test_a_disk_without_room_keeps_what_was_recorded(tmp_path: Path, start_process: StartProcess) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
    try:
        source = "work('kept'); time.sleep(0.5); work('much', 20_000, 0); print('ran')"
        argv = ("record", "-o", disk / "r.glr", "--", sys.executable, "-c", JOBS + source)
        ended = greenlane(*argv, cwd=tmp_path)
        assert "ran" in ended.out
        kept = disk / "r.glr" if (disk / "r.glr").exists() else disk / "r.glr.parts"
        found = recorded(disk, kept.name)
        assert routes(found)["kept"] == 3
        assert routes(found)["much"] < 20_000
        if kept.suffix == ".glr":
            assert not found.lost or found.lost[0] in ended.err
        if kept.suffix == ".parts":
            assert ended.code == 1
            assert "the segments are kept" in ended.err
    finally:
        subprocess.run(["umount", disk], check=True)


# --- live


@pytest.mark.gate
def test_it_is_switched_off_and_on_and_shown_live(tmp_path: Path, start_process: StartProcess) -> None:
    running = start(start_process, tmp_path, BUSY, "--off")
    until(lambda: status_or_none(tmp_path))
    pid = status(tmp_path)[0]["pid"]
    assert [(row["record"], row["jobs"]) for row in status(tmp_path)] == [("off", 0)]
    assert greenlane("record", "--on", "r.glr", cwd=tmp_path).code == 0
    a_few_jobs(tmp_path)
    switched = greenlane("record", "--off", str(pid), cwd=tmp_path)
    assert (switched.code, switched.out.splitlines()[1].split()[:2]) == (0, [str(pid), "off"])
    jobs = status(tmp_path, "r.glr.parts")[0]["jobs"]
    running.signal(signal.SIGTERM)
    assert running.wait_exit() == 128 + signal.SIGTERM
    recording = recorded(tmp_path)
    assert routes(recording) == {"work": jobs}
    assert "on" in [what for _, _, what in recording.marks]


@pytest.mark.gate
def test_top_and_mode_reach_a_recorded_process(tmp_path: Path, start_process: StartProcess) -> None:
    start(start_process, tmp_path, BUSY)
    a_few_jobs(tmp_path)
    top = greenlane("top", "--json", "--control-dir", "r.glr.parts", cwd=tmp_path)
    assert top.code == 0, top.err
    refused = greenlane("mode", "on", "--control-dir", "r.glr.parts", cwd=tmp_path)
    assert refused.code == 1
    assert "this one only records" in refused.err


def test_after_so_many_seconds_there_is_a_recording_and_the_program_goes_on(
    tmp_path: Path, start_process: StartProcess
) -> None:
    running = start(start_process, tmp_path, BUSY, "--seconds", "3")
    running.wait_output("next: greenlane report r.glr")
    found = routes(recorded(tmp_path))["work"]
    assert found >= 5
    os.kill(running.pid, 0)  # it gets its signal to end only now
    running.signal(signal.SIGTERM)
    assert running.wait_exit() == 128 + signal.SIGTERM
    assert routes(recorded(tmp_path))["work"] == found
    assert not (tmp_path / "r.glr.parts").exists()


def test_a_program_that_starts_after_the_seconds_is_not_recorded_and_not_disturbed(
    tmp_path: Path, start_process: StartProcess
) -> None:
    source = """
import os, subprocess
print('ready', flush=True)
work()
while not os.path.exists("r.glr"): time.sleep(0.05)
print(subprocess.run([sys.executable, "-c", "print('fine')"], capture_output=True, text=True))
child = os.fork()
if not child:
    work("unseen")
    os._exit(0)
os.waitpid(child, 0)
"""
    running = start(start_process, tmp_path, source, "--seconds", "3")
    assert running.wait_exit() == 0
    assert "stdout='fine\\n', stderr=''" in running.output
    assert routes(recorded(tmp_path)) == {"work": 3}


def test_a_service_that_goes_into_the_background_is_recorded_until_it_ends_or_ctrl_c(
    tmp_path: Path, start_process: StartProcess
) -> None:
    source = """
import os
if os.fork():
    os._exit(0)
os.setsid()
print('daemon', os.getpid(), flush=True)
print('ready', flush=True)
while True: work(times=1)
"""
    running = start(start_process, tmp_path, source)
    daemon = int(running.wait_output(r"daemon (\d+)")[1])
    try:
        running.wait_output(r"the command ended with 0; 1 process \(pid \d+\) that it started still records")
        a_few_jobs(tmp_path)
        running.signal(signal.SIGINT)
        running.wait_output("next: greenlane report r.glr")
        assert running.wait_exit() == 0
        assert routes(recorded(tmp_path))["work"] >= 5
        os.kill(daemon, 0)  # it was left alone
    finally:
        os.kill(daemon, signal.SIGKILL)


_POOL = """
import concurrent.futures, multiprocessing, signal, threading
signal.signal(signal.SIGTERM, signal.SIG_DFL)
pool = concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context('fork'))
print('workers', *{pool.submit(os.getpid).result() for _ in range(20)}, flush=True)
work()
print('ready', flush=True)
threading.Event().wait()
"""


def test_what_a_terminated_command_leaves_behind_keeps_nobody_waiting(
    tmp_path: Path, start_process: StartProcess
) -> None:
    running = start(start_process, tmp_path, "import os\n" + _POOL)
    workers = [int(pid) for pid in running.wait_output(r"workers (.*)")[1].split()]
    try:
        running.signal(signal.SIGTERM)
        running.wait_output("next: greenlane report r.glr", timeout_s=20)
        assert re.search(r"the command ended with 143, and left \d process(es)? \(pid ", running.output)
        assert routes(recorded(tmp_path)) == {"work": 3}
    finally:
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert running.wait_exit() == 143


def test_a_folder_with_a_long_name_has_its_sockets_elsewhere(tmp_path: Path, start_process: StartProcess) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    running = start(start_process, deep, BUSY)
    a_few_jobs(deep)
    elsewhere = Path((deep / "r.glr.parts" / "control").read_text())
    running.signal(signal.SIGTERM)
    running.wait_exit()
    assert routes(recorded(deep))["work"] >= 5
    assert not elsewhere.exists()
