"""The setting `cores`: threads that run jobs keep to one core, and nothing else does. Looked up in /proc."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.gunicorn_server import Server
from tests.record.command import GREENLANE

from greenlane.errors import SettingsError
from greenlane.settings import load

ALLOWED = sorted(os.sched_getaffinity(0))

needs_cores = pytest.mark.skipif(
    len(ALLOWED) == 1 or not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="one core, or no GIL"
)

_HEAD = """
import ctypes, hashlib, json, multiprocessing, os, pickle, subprocess, sys, threading, time
ALLOWED = sorted(os.sched_getaffinity(0))

def cores(thread=0, process="self"):
    status = open(f"/proc/{process}/task/{thread or threading.get_native_id()}/status").read()
    listed = status.partition("Cpus_allowed_list:")[2].split()[0].split(",")
    ends = [[int(end) for end in part.split("-")] for part in listed]
    return [core for first, *last in ends for core in range(first, (last or [first])[0] + 1)]

def until(true):
    end = time.monotonic() + 30
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.001)
    return found

def native_threads(count):  # as a library starts them: with the cores of the thread
    libc, started = ctypes.CDLL(None), ctypes.c_ulong()
    pause = ctypes.cast(libc.pause, ctypes.c_void_p)
    before = set(os.listdir("/proc/self/task"))
    for _ in range(count):
        assert libc.pthread_create(ctypes.byref(started), None, pause, None) == 0
    return set(os.listdir("/proc/self/task")) - before

def looked(times):  # looks of our thread, which takes its own time
    def wakes():
        for thread in os.listdir("/proc/self/task"):
            if open(f"/proc/self/task/{thread}/comm").read().strip() == "greenlane-gang":
                status = open(f"/proc/self/task/{thread}/status").read()
                return int(status.partition("\\nvoluntary_ctxt_switches:")[2].split()[0])
    first = wakes()
    until(lambda: wakes() >= first + 100 * times)

def again():  # a phase that is known, after some that are not
    running.close()
    assert running.open({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, 0)
    return cores()

from greenlane.settings import Settings
from greenlane.wiring import gang, process
running = process.start(Settings(cores="one"), host="wsgi")
"""

#: Runs `work()` as a job of a gang of two threads; prints what it gives.
_AS_JOB = """
told, over = [], threading.Event()

def job(does):
    assert running.open({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, 0)
    try:
        does()
    finally:
        running.close()

def first():
    job(lambda: None)
    over.wait()

def second():
    job(lambda: until(lambda: len(cores()) == 1))
    for _ in range(20):  # What is not known yet uses all cores.
        job(lambda: None)
    job(lambda: told.append(work()))

waits, works = threading.Thread(target=first), threading.Thread(target=second)
waits.start(); works.start(); works.join(); over.set(); waits.join()
print(json.dumps(told[0]))
"""


def run(program: str) -> Any:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_a_job(work: str) -> Any:
    """What `work`, the body of a function, gives in a member's job."""
    body = "".join(f"    {line}\n" for line in work.strip().splitlines())
    return run(f"{_HEAD}\ndef work():\n{body}\n{_AS_JOB}")


@needs_cores
@pytest.mark.slow
def test_threads_that_run_jobs_keep_to_one_core_and_no_other_thread_does() -> None:
    found = in_a_job("""
until(lambda: sum(len(cores(thread)) == 1 for thread in os.listdir("/proc/self/task")) == 2)
return [cores(), sorted(len(cores(thread)) for thread in os.listdir("/proc/self/task")), gang.shown()["core"]]
""")
    mine, everybody, shown = found
    assert mine == [shown]
    assert everybody == [1, 1, len(ALLOWED), len(ALLOWED)]  # two members, the main thread, ours


@needs_cores
@pytest.mark.slow
@pytest.mark.parametrize(
    "starts",
    [
        "subprocess.check_output([sys.executable, '-c', PROGRAM], text=True)",
        "subprocess.check_output([sys.executable, '-c', PROGRAM], text=True, preexec_fn=lambda: None)",
        "os.popen(f'{sys.executable} -c \"{PROGRAM}\"').read()",
        "by_pipe(lambda write: os.waitpid(os.posix_spawn(sys.executable, [sys.executable, '-c', PROGRAM], os.environ,"
        " file_actions=[(os.POSIX_SPAWN_DUP2, write, 1)]), 0))",
        "by_pipe(lambda write: os.system(f'{sys.executable} -c \"{PROGRAM}\" >&{write}'))",
        "by_pipe(fork)",
        "by_pipe(lambda write: in_thread(lambda: os.write(write, str(cores()).encode())))",
        "by_pipe(lambda write: in_thread(lambda: subprocess.run([sys.executable, '-c', PROGRAM], stdout=write)))",
    ],
)
def test_what_a_job_starts_uses_all_cores(starts: str) -> None:
    found = in_a_job(f"""
PROGRAM = "import os; print(sorted(os.sched_getaffinity(0)))"
def by_pipe(does):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    does(write)
    os.close(write)
    return open(read).read()
def fork(write):
    child = os.fork()
    if child == 0:
        os.write(write, str(cores()).encode())
        os._exit(0)
    os.waitpid(child, 0)
def in_thread(does):
    thread = threading.Thread(target=does)
    thread.start()
    thread.join()
before = cores()
theirs = ({starts}).strip()
return [before, theirs, again()]
""")
    before, theirs, after = found
    assert len(before) == 1
    assert before == after
    assert theirs == str(ALLOWED)


@needs_cores
@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_multiprocessing_use_all_cores(method: str, tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text("import os\ndef cores(_): return len(os.sched_getaffinity(0))\n")
    found = in_a_job(f"""
sys.path.append({str(tmp_path)!r})
import counted
with multiprocessing.get_context({method!r}).Pool(1) as pool:
    return pool.map(counted.cores, [0]) + [len(again())]
""")
    assert found == [len(ALLOWED), 1]


@needs_cores
@pytest.mark.slow
def test_threads_that_native_code_starts_are_set_free() -> None:
    found = in_a_job("""
again()
return [until(lambda: cores(thread) == ALLOWED) for thread in native_threads(2)]
""")
    assert found == [True, True]


@needs_cores
@pytest.mark.slow
def test_programs_that_native_code_starts_are_set_free() -> None:
    found = in_a_job("""
def children():
    listed = [open(f"/proc/self/task/{thread}/children").read() for thread in os.listdir("/proc/self/task")]
    return [child for each in listed for child in each.split()]
libc = ctypes.CDLL(None)
libc.popen.restype, libc.pclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
again()
pipe = libc.popen(b"exec cat", b"w")
found = [until(lambda: cores(child, child) == ALLOWED) for child in children()]
libc.pclose(pipe)
return found
""")
    assert found == [True]


@needs_cores
@pytest.mark.slow
def test_a_program_in_the_place_of_the_process_uses_all_cores() -> None:
    program = "import json, os; print(json.dumps(sorted(os.sched_getaffinity(0))))"
    assert in_a_job(f"os.execv(sys.executable, [sys.executable, '-c', {program!r}])") == ALLOWED


@needs_cores
@pytest.mark.slow
def test_who_counts_cores_is_told_all_of_them() -> None:
    found = in_a_job("""
count = getattr(os, "process_cpu_count", lambda: len(os.sched_getaffinity(0)))
threads = [0, os.getpid(), threading.get_native_id()]
told = [sorted(os.sched_getaffinity(thread)) for thread in threads]
return [len(cores()), told, count(), pickle.loads(pickle.dumps(os.sched_getaffinity)) is os.sched_getaffinity,
    os.sched_getaffinity.__name__, type(os.sched_getaffinity).__name__]
""")
    assert found == [1, [ALLOWED] * 3, len(ALLOWED), True, "sched_getaffinity", "builtin_function_or_method"]


@needs_cores
@pytest.mark.slow
def test_a_thread_whose_cores_the_program_sets_keeps_those() -> None:
    found = in_a_job("""
other = next(core for core in ALLOWED if core != cores()[0])
os.sched_setaffinity(0, {other})
again()
# Our thread looks at all threads some times a second: after two the program's choice is still there.
until(lambda: gang.shown()["core"] is not None)
for _ in range(2):
    looked(2)
return [cores() == [other], sorted(os.sched_getaffinity(0)) == [other]]
""")
    assert found == [True, True]


@needs_cores
@pytest.mark.slow
def test_who_computes_without_the_gil_uses_all_cores_meanwhile() -> None:
    found = in_a_job("""
data, mine, seen, over = bytes(64 << 20), threading.get_native_id(), [], threading.Event()
def look():
    while not over.is_set():
        seen.append(len(cores(mine)))
        time.sleep(0.001)
looks = threading.Thread(target=look)
looks.start()
end = time.monotonic() + 30
while len(ALLOWED) not in seen and time.monotonic() < end:
    hashlib.sha256(data).digest()
over.set()
looks.join()
return [len(ALLOWED) in seen, len(again())]
""")
    assert found == [True, 1]


@needs_cores
@pytest.mark.slow
def test_what_is_known_to_compute_without_the_gil_begins_on_all_cores() -> None:
    found = in_a_job("""
data, began = bytes(24 << 20), []
def hashes():
    began.append(len(cores()))
    hashlib.sha256(data).digest()
def weights():
    rows = [row for row in running.learned() if row.phase == 0]
    return {row.weight for row in rows}
running.close()
end = time.monotonic() + 60
while "native" not in weights() and time.monotonic() < end:
    job(hashes)
began.clear()
job(hashes)
again()
return [began, sorted(weights())]
""")
    assert found == [[len(ALLOWED)], ["native"]]


@needs_cores
@pytest.mark.slow
def test_off_and_detach_let_all_use_all_and_on_gathers_them_again() -> None:
    found = in_a_job("""
def kept():
    return sum(len(cores(thread)) == 1 for thread in os.listdir("/proc/self/task"))
def names():
    return [open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task")]
until(lambda: kept() == 2)
told = []
running.set_mode("off")
told.append([kept(), "greenlane-gang" in names(), gang.shown()["why"]])
running.set_mode("on")
told.append(until(lambda: kept() == 2))
running.stop()
told.append([kept(), "greenlane-gang" in names()])
return told
""")
    assert found == [[0, False, "mode off"], True, [0, False]]


@needs_cores
@pytest.mark.slow
def test_a_forked_child_has_a_gang_of_its_own() -> None:
    found = in_a_job("""
read, write = os.pipe()
child = os.fork()
if child == 0:
    running.close()
    first = len(cores())
    threads = [threading.Thread(target=lambda: (job(lambda: None), until(lambda: len(cores()) == 1))) for _ in "ab"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    os.write(write, json.dumps([first, gang.shown()["core"] in ALLOWED]).encode())
    os._exit(0)
os.waitpid(child, 0)
return [json.loads(os.read(read, 100)), len(again())]
""")
    assert found == [[len(ALLOWED), True], 1]


@needs_cores
@pytest.mark.measured
def test_a_core_is_left_within_a_second_when_a_neighbour_begins_to_compute_there(tmp_path: Path) -> None:
    # As if a process had measured it before: on two cores a hand-over costs 0.1 ms.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (tmp_path / "hand-over").write_text(f"{boot} 5000 100000\n")
    head = _HEAD.replace('Settings(cores="one")', f"Settings(control_dir={str(tmp_path)!r})")
    gathered, left_s = run(f"""{head}
def member():
    running.open({{"REQUEST_METHOD": "GET", "PATH_INFO": "/"}}, 0)
    running.close()
    over.wait()
over = threading.Event()
members = [threading.Thread(target=member) for _ in range(2)]
[thread.start() for thread in members]
core = until(lambda: (gang.shown()["core"],) if gang.shown()["core"] is not None else None)
spins = "import os, sys; os.sched_setaffinity(0, [int(sys.argv[1])]); print(flush=True)\\nwhile True: pass"
neighbour = subprocess.Popen([sys.executable, "-c", spins, str(core and core[0])], stdout=subprocess.PIPE)
neighbour.stdout.readline()
began = time.monotonic()
until(lambda: gang.shown()["core"] != core[0])
left_s = time.monotonic() - began
neighbour.kill()
neighbour.wait()
over.set()
print(json.dumps([core is not None, left_s]))
""")
    assert gathered and left_s < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "why"), [({"cores": "all"}, "cores = all"), ({"cores": "one", "mode": "observe"}, "mode observe")]
)
def test_it_says_why_there_is_none(settings: dict[str, str], why: str) -> None:
    found = run(f"""
import json
from greenlane.settings import Settings
from greenlane.wiring import gang, process
process.start(Settings(**{settings!r}), host="wsgi")
print(json.dumps(gang.shown()))
""")
    assert found == {"core": None, "why": why, "one_core_us": None, "two_cores_us": None}


def test_the_setting_of_before_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"(?s)one_core.*cores = one"):
        load({"one_core": True}, environ={})
    with pytest.raises(SettingsError, match=r"(?s)GREENLANE_ONE_CORE.*cores = one"):
        load(environ={"GREENLANE_ONE_CORE": "true"})


@needs_cores
@pytest.mark.slow
def test_a_hand_over_is_measured() -> None:
    one_ns, two_ns, _ = run("""
import json
from greenlane._native import hand_over
from greenlane.wiring.gang import cores
print(json.dumps(hand_over(None, cores())))
""")
    assert 0 < one_ns < 1_000_000_000
    assert 0 < two_ns < 1_000_000_000


@needs_cores
@pytest.mark.slow
def test_worker_processes_and_placed_threads_use_all_and_the_number_of_cores_stays(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(
        "import threading\ndef cores():\n"
        "    status = open(f'/proc/self/task/{threading.get_native_id()}/status').read()\n"
        "    return status.partition('Cpus_allowed_list:')[2].split()[0]\n"
    )
    found = in_a_job(f"""
sys.path.append({str(tmp_path)!r})
import greenlane
from counted import cores as listed
from greenlane.policy.cores import usable_cores
return [usable_cores(), greenlane.run(greenlane.placed(placement="process", name="process")(listed)), len(again())]
""")
    usable, process, here = found
    listed = subprocess.check_output(["grep", "Cpus_allowed_list", "/proc/self/status"], text=True).split()[1]
    assert (usable, process, here) == (len(ALLOWED), listed, 1)


@needs_cores
@pytest.mark.system
def test_a_worker_of_gunicorn_keeps_to_a_core_and_mode_off_undoes_it(
    gunicorn: Callable[..., Server], tmp_path: Path
) -> None:
    server = gunicorn(cores="one", control_dir=tmp_path)
    answer = ""
    for _ in range(2000):
        answer = server.get("/cores").text
        if re.fullmatch(rf"\[\d+\] {re.escape(str(ALLOWED))}", answer):
            break
    assert re.fullmatch(rf"\[\d+\] {re.escape(str(ALLOWED))}", answer)
    subprocess.run([*GREENLANE, "mode", "off", "--control-dir", str(tmp_path)], check=True, timeout=60)
    assert server.get("/cores").text == f"{ALLOWED} {ALLOWED}"
