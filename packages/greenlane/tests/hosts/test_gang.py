"""The setting `one_core`: a worker's threads keep to one core, and nothing else does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hosts.gunicorn_server import Server
from tests.record.command import GREENLANE

ALLOWED = sorted(os.sched_getaffinity(0))

pytestmark = pytest.mark.skipif(
    len(ALLOWED) == 1 or not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="one core, or no GIL"
)


def said(program: str) -> str:
    command = [sys.executable, "-c", f"import os, threading\nfrom greenlane.threads.one_core import *\n{program}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_threads_started_afterwards_keep_to_it_and_others_do_not() -> None:
    printed = said("""
go, told = threading.Event(), []
def tell():
    go.wait()
    told.append(len(os.sched_getaffinity(0)))
before = threading.Thread(target=tell); before.start()
core = keep_to_one_core()
after = threading.Thread(target=tell); after.start()
go.set(); after.join(); before.join()
print(sorted(told), os.sched_getaffinity(0) == {core}, sorted(allowed_cores()))
""")
    assert printed == f"[1, {len(ALLOWED)}] True {ALLOWED}"


def test_what_is_forked_uses_all_again_and_so_does_what_is_started_inside_all_cores() -> None:
    printed = said("""
import subprocess, sys
keep_to_one_core(), keep_to_one_core()
if os.fork() == 0:
    print(len(os.sched_getaffinity(0)), end=" ", flush=True)
    os._exit(0)
os.wait()
program = [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)), end=' ')"]
with all_cores():
    subprocess.run(program)
print(len(os.sched_getaffinity(0)))
""")
    assert printed == f"{len(ALLOWED)} {len(ALLOWED)} 1"


def test_all_threads_can_leave_it_but_one_that_chose_a_core_itself() -> None:
    printed = said(f"""
go, told = threading.Event(), []
def tell(cores):
    os.sched_setaffinity(0, cores or os.sched_getaffinity(0))
    ready.release()
    go.wait()
    told.append(len(os.sched_getaffinity(0)))
ready = threading.Semaphore(0)
core = keep_to_one_core()
threads = [threading.Thread(target=tell, args=[cores]) for cores in ((), (), {{*{ALLOWED}}} - {{core}})]
for thread in threads: thread.start(); ready.acquire()
threading.Thread(target=leave_one_core).start()
while len(os.sched_getaffinity(0)) == 1: pass
leave_one_core(); go.set()
for thread in threads: thread.join()
print(sorted(told) == sorted([{len(ALLOWED)}, {len(ALLOWED)}, {len(ALLOWED) - 1}]), sorted(allowed_cores()))
""")
    assert printed == f"True {ALLOWED}"


def test_it_is_the_core_that_fewest_keep_to() -> None:
    free = ALLOWED[0]
    waits = [sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()"]
    others = [
        subprocess.Popen(["taskset", "-c", str(core), *waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for core in ALLOWED
        for _ in range(4)
        if core != free
    ]
    try:
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "here\n"
        assert said("print(keep_to_one_core())") == str(free)
    finally:
        for other in others:
            other.communicate()


def test_worker_processes_and_placed_threads_use_all_and_the_number_of_cores_stays(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text("import os\ndef cores(): return len(os.sched_getaffinity(0))\n")
    printed = said(f"""
import sys
sys.path.append({str(tmp_path)!r})
import greenlane
from counted import cores
from greenlane.policy.cores import usable_cores
was = usable_cores()
keep_to_one_core()
print(usable_cores() == was, end=" ")
for place in ("thread", "process"):
    print(greenlane.run(greenlane.placed(placement=place, name=place)(cores)), end=" ")
print(cores())
""")
    assert printed == f"True {len(ALLOWED)} {len(ALLOWED)} 1"


@pytest.mark.system
def test_each_worker_of_gunicorn_keeps_to_a_core_and_its_log_says_which(gunicorn: Callable[..., Server]) -> None:
    server = gunicorn("--workers", "2", one_core=True)
    server.process.wait_output(r"(?s)threads keep to core \d+.*threads keep to core \d+")
    cores = set(re.findall(r"threads keep to core (\d+)", server.process.output))
    answers = {server.get("/cores").text for _ in range(20)}
    assert answers <= {f"[{core}] {ALLOWED}" for core in cores}


@pytest.mark.system
def test_mode_off_undoes_it_in_a_worker_that_runs(gunicorn: Callable[..., Server], tmp_path: Path) -> None:
    server = gunicorn(one_core=True, control_dir=tmp_path)
    assert re.fullmatch(rf"\[\d+\] {re.escape(str(ALLOWED))}", server.get("/cores").text)
    subprocess.run([*GREENLANE, "mode", "off", "--control-dir", str(tmp_path)], check=True, timeout=60)
    assert server.get("/cores").text == f"{ALLOWED} {ALLOWED}"


@pytest.mark.system
def test_by_default_it_keeps_to_none(gunicorn: Callable[..., Server]) -> None:
    server = gunicorn()
    assert server.get("/cores").text == f"{ALLOWED} {ALLOWED}"
    assert "keep to core" not in server.process.output
