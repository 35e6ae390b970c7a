"""What a recording must not touch: a program's descriptors, signals, children, users and daemons are as without it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.record.command import Ended, environment, greenlane, recorded, routes

pytestmark = pytest.mark.slow


def program(folder: Path, source: str) -> Ended:
    """Records a program that is written as its author would: it knows nothing of us."""
    (folder / "program.py").write_text(source)
    return greenlane("record", "-o", "r.glr", "--", sys.executable, "program.py", cwd=folder)


# --- descriptors

CLOSES = """
import greenlane.record, os, socket, time
def work(times):
    for _ in range(times):
        with greenlane.record.job("work"):
            time.sleep(0.001)
work(3)
time.sleep(0.5)
limit = os.sysconf("SC_OPEN_MAX")
os.closerange(3, limit)
mine = [os.open(f"mine-{number}", os.O_CREAT | os.O_RDWR) for number in range(1100)]
for fd in mine:
    os.write(fd, b"mine")
work(300)
time.sleep(1)
assert [os.fstat(fd).st_size for fd in mine] == [4] * len(mine), "somebody wrote or closed"
"""


def test_a_program_that_closes_what_it_did_not_open_keeps_its_files_and_is_recorded(tmp_path: Path) -> None:
    ended = program(tmp_path, CLOSES)
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert {Path(tmp_path, f"mine-{number}").read_bytes() for number in range(1100)} == {b"mine"}
    assert routes(recorded(tmp_path)) == {"work": 303}


NUMBERS = """
import greenlane.record, os, socket, time
def free():
    fd = os.dup(0)
    os.close(fd)
    return fd
before = free()
with greenlane.record.job("work"):
    time.sleep(0.01)
time.sleep(0.5)
assert free() == before, (before, free())
links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
names = {link.rpartition("/")[2]: os.readlink(link) for link in links if os.path.exists(link)}
assert not [fd for fd in names if 2 < int(fd) < 900], names
assert not any(name.endswith(".glr") for name in names.values()), names
"""


def test_no_number_that_a_program_would_get_is_taken(tmp_path: Path) -> None:
    ended = program(tmp_path, NUMBERS)
    assert ended.code == 0, ended.err


DAEMON = """
import os, sqlite3, sys, time
import daemon
import greenlane.record
with daemon.DaemonContext(working_directory=os.getcwd(), umask=0o022):
    with open("parent", "w") as stream:
        time.sleep(0.3)
        stream.write(str(os.getppid()))
    database = sqlite3.connect("its.db")
    database.execute("create table jobs (number)")
    for number in range(200):
        with greenlane.record.job("work"), database:
            database.execute("insert into jobs values (?)", (number,))
            time.sleep(0.002)
    time.sleep(0.5)
    found = database.execute("pragma integrity_check").fetchone()[0]
    with open("found", "w") as stream:
        stream.write(found)
"""


def test_a_program_under_python_daemon_is_recorded_and_its_parent_is_process_1(tmp_path: Path) -> None:
    pytest.importorskip("daemon")
    ended = program(tmp_path, DAEMON)
    assert ended.code == 0, ended.err
    assert (tmp_path / "found").read_text() == "ok"
    assert (tmp_path / "parent").read_text() == "1"
    assert routes(recorded(tmp_path)) == {"work": 200}


# --- signals

WAITS = """
import signal, os, threading, time, socket
import greenlane.record
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
with greenlane.record.job("work"):
    time.sleep(0.01)
time.sleep(0.5)
for number in (signal.SIGUSR1, signal.SIGTERM):
    os.kill(os.getpid(), number)
    assert signal.sigwait({signal.SIGUSR1, signal.SIGTERM}) == number
for task in os.listdir("/proc/self/task"):
    if int(task) != os.getpid():
        status = open(f"/proc/self/task/{task}/status").read()
        mask = int(status.partition("SigBlk:")[2].split()[0], 16)
        assert all(mask >> number - 1 & 1 for number in signal.valid_signals() - {9, 19}), status
print(len(os.listdir("/proc/self/task")), "threads")
"""


def test_a_program_that_waits_for_blocked_signals_gets_them(tmp_path: Path) -> None:
    ended = program(tmp_path, WAITS)
    assert (ended.code, ended.out) == (0, "5 threads\n"), ended.err


def test_a_pipe_that_is_closed_ends_its_writer(tmp_path: Path) -> None:
    script = "yes | head -1; grep Sig... /proc/self/status"
    ended = greenlane("record", "-o", "r.glr", "--", "sh", "-c", script, cwd=tmp_path)
    bare = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert "Broken pipe" not in ended.err
    assert of_programs(ended.out) == of_programs(bare)


def of_programs(status: str) -> list[str]:
    """The lines of a process's signal sets without 32 and 33: these are glibc's, its posix_spawn ignores them."""
    own = 3 << 31
    sets = [line.split() for line in status.splitlines() if re.match("Sig(Pnd|Blk|Ign|Cgt):", line)]
    assert len(sets) == 4, status
    return [f"{name} {int(value, 16) & ~own:x}" for name, value in sets]


def test_the_environment_is_the_callers_but_for_what_is_listed(tmp_path: Path) -> None:
    env = environment(LANG="C")
    for name in ("LC_ALL", "LC_CTYPE", "PYTHONPATH"):
        env.pop(name, None)
    bare = subprocess.run(["env"], env=env, capture_output=True, text=True, check=True).stdout
    shown = greenlane("record", "-o", "r.glr", "--", "env", cwd=tmp_path, env=env).out
    more = {line.partition("=")[0] for line in set(shown.splitlines()) ^ set(bare.splitlines())} - {"_"}
    assert more == {"PYTHONPATH", "GREENLANE_CONTROL_DIR"} | {
        f"GREENLANE_RECORD_{name}" for name in ("FOLDER", "ON", "LAST_S", "MAX_MB", "STACKS")
    }


# --- children

FORKS = """
import os, socket, subprocess, sys, time
import greenlane.record
with greenlane.record.job("work"):
    time.sleep(0.01)
time.sleep(0.3)
def tasks():
    return len(os.listdir("/proc/self/task"))
reader, writer = os.pipe()
child = os.fork()
if not child:
    os.dup2(writer, 2)
    names = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 900]
    os.write(writer, f"{tasks()} {names}".encode())
    os.execv("/bin/true", ["true"])
os.close(writer)
said = b""
while piece := os.read(reader, 1000):
    said += piece
assert os.waitpid(child, 0)[1] == 0
assert said == b"1 []", said
"""


def test_a_child_has_nothing_of_ours_before_it_executes_another_program(tmp_path: Path) -> None:
    ended = program(tmp_path, FORKS)
    assert ended.code == 0, ended.err
    assert len(recorded(tmp_path).processes) == 1


GEVENT = """
import gevent.monkey; gevent.monkey.patch_all()
import greenlane.record, subprocess, sys, gevent
with greenlane.record.job("work"):
    gevent.sleep(0.01)
for _ in range(20):
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.communicate(b"banana") == (b"banana", b"")
try:
    subprocess.Popen(["/absent"], stderr=subprocess.PIPE)
except FileNotFoundError:
    pass
"""


def test_gevents_children_say_nothing_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("gevent")
    ended = program(tmp_path, GEVENT)
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err


# --- users, limits, roots, namespaces

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may")

USER = """
import os, sys, time, socket
import greenlane.record
with greenlane.record.job("before"):
    time.sleep(0.01)
time.sleep(0.3)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for _ in range(3):
    child = os.fork()
    if not child:
        with greenlane.record.job("child"):
            time.sleep(0.01)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
with greenlane.record.job("after"):
    time.sleep(0.01)
"""
ROOT = """
import os, sys, time, socket
import greenlane.record
with greenlane.record.job("before"):
    time.sleep(0.01)
time.sleep(0.3)
os.mkdir("jail"); os.chroot("jail"); os.chdir("/")
with greenlane.record.job("after"):
    time.sleep(0.01)
"""
LIMITS = """
import os, resource, signal, sys, time, socket
import greenlane.record
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for _ in range(100):
    with greenlane.record.job("work"):
        time.sleep(0.01)
assert os.open("/dev/null", os.O_RDONLY) == 3
"""
SPACE = """
import ctypes, os, socket
import greenlane.record
assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())
with greenlane.record.job("after"):
    pass
"""


@AS_ROOT
@pytest.mark.parametrize(
    ("source", "found"),
    [(USER, {"before": 1, "after": 1}), (ROOT, {"before": 1, "after": 1}), (SPACE, {"after": 1})],
    ids=["user", "root", "namespace"],
)
def test_a_program_that_gives_up_rights_is_recorded_and_hears_nothing(
    source: str, found: dict[str, int], tmp_path: Path
) -> None:
    ended = program(tmp_path, source)
    assert ended.code == 0, ended.err
    assert "Error" not in ended.err
    assert routes(recorded(tmp_path)) == found


def test_tiny_limits_lose_the_recording_and_not_the_program(tmp_path: Path) -> None:
    ended = program(tmp_path, LIMITS)
    assert "SIGXFSZ" not in ended.err and "Traceback" not in ended.err
    assert ended.code in (0, 1)  # 1: nothing could be written, `greenlane record` says


# --- start

QUIET = """
import os, sys
loaded = sorted(name for name in sys.modules if name.startswith(("greenlane", "wrapt")))
maps = open("/proc/self/maps").read()
print(len(loaded), "_native" in maps, len(os.listdir("/proc/self/task")))
"""


def test_a_program_that_serves_nobody_loads_four_small_modules(tmp_path: Path) -> None:
    ended = program(tmp_path, QUIET)
    assert ended.out == "4 False 1\n", ended.err
    assert "with no server that is observed" in ended.err


def test_the_module_that_starts_the_recording_is_as_without_it(tmp_path: Path) -> None:
    source = """
import sys, importlib, _socket
import http.server, socket
assert sys.modules["_socket"] is _socket and issubclass(socket.socket, _socket.socket)
loader = http.server.__spec__.loader
assert type(loader).__name__ == "SourceFileLoader" and loader is http.server.__loader__
assert "exec_module" not in vars(loader)
assert not [finder for finder in sys.meta_path if type(finder).__module__.endswith("import_trigger")]
importlib.reload(http.server)
"""
    ended = program(tmp_path, source)
    assert ended.code == 0, ended.err


SUBINTERPRETER = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
import time
import greenlane.record
def work():
    with greenlane.record.job("work"):
        time.sleep(0.01)
work()
for _ in range(2):
    other = interpreters.create()
    interpreters.run_string(other, "import http.server, time; time.sleep(0.05)")
    interpreters.destroy(other)
work()
time.sleep(0.3)
work()
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the module has another name")
def test_a_subinterpreter_is_left_alone_and_the_main_one_recorded(tmp_path: Path) -> None:
    ended = program(tmp_path, SUBINTERPRETER)
    assert ended.code == 0, ended.err
    assert routes(recorded(tmp_path)) == {"work": 3}
    assert ended.err.count("is not recorded: ") == 1, ended.err
