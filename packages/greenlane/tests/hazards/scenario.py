"""Jobs on real threads, opened and closed as a host does it: what every hazard runs in.

Test modules use it through conftest.py's fixtures; scripts (hazards that touch the whole process: fork, signals, exit)
import it themselves. A route that contains `/heavy` is pinned heavy, one that contains `/light` is pinned light: jobs
wait for a permit without a warm-up. `LEARN_AFTER` is high, because a pinned route's trifles run free
once they are known; and each test has routes of its own, so that nothing learned in one decides in another.
"""

import _thread
import contextlib
import faulthandler
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Made before anything is patched: C-level locks that no probe can know.
EARLY_LOCK = _thread.allocate_lock()
EARLY_RLOCK = threading.RLock()
EARLY_CONDITION = threading.Condition()
EARLY_ALLOCATE = _thread.allocate_lock

from greenlane import phase  # noqa: E402
from greenlane.policy import permits as rules  # noqa: E402
from greenlane.settings import load  # noqa: E402
from greenlane.wiring import process  # noqa: E402

HEAVY = "GET /heavy/job"
LIGHT = "GET /light/job"
MODES = ("off", "observe", "on")

_PINS = """
[lanes.pinned-heavy]
match = ["*/heavy*"]
weight = "heavy"

[lanes.pinned-light]
match = ["*/light*"]
weight = "light"
"""


_chapter = 0


class Hang(AssertionError):
    """Jobs did not end in time; the message holds the stack of every thread."""


def start(mode: str, **flags: object) -> "process.Running":
    """Starts greenlane in this process with the pins above and one permit."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "greenlane.toml")
        file.write_text(_PINS)
        settings = load({"mode": mode, "permits": 1, **flags}, environ={}, file=file)
    with patch.multiple(rules, LEARN_AFTER=100, MAX_ROUTES=4096):
        return process.start(settings, host="hazards")


def start_script() -> "process.Running":
    """For scripts: the mode that the test asked for; a hang ends the process with every thread's stack after 15 s."""
    faulthandler.dump_traceback_later(15, exit=True)
    return start(os.environ["HAZARD_MODE"])


def start_child(within_s: int = 10) -> None:
    """First call in a forked child of a script: a hang prints every stack and kills the child.

    Why not `faulthandler.dump_traceback_later`: its thread is missing in the child, and setting it again waits for it.
    """
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    signal.alarm(within_s)


def environ(path: str) -> dict[str, Any]:
    """A small WSGI environ."""
    return {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": sys.stdin.buffer,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }


@contextlib.contextmanager
def job(running: "process.Running", route: str = HEAVY) -> Iterator[None]:
    """Opens a job on this thread as a host does, and closes it unless it belongs to an outer one."""
    opened = running.open(environ(route.partition(" ")[2]), time.monotonic_ns())
    try:
        phase.name(f"{route}/{_chapter}")
        yield
    finally:
        if opened:
            running.close()


def new_chapter() -> None:
    """Later jobs have routes that nothing is known of."""
    global _chapter
    _chapter += 1


def burn(cpu_ms: float = 3.0) -> None:
    """Spends this much CPU of this thread in pure Python."""
    end_ns = time.thread_time_ns() + int(cpu_ms * 1e6)
    while time.thread_time_ns() < end_ns:
        sum(range(100))


def until(condition: Callable[[], object], within_s: float = 10.0) -> None:
    """Waits on a thread without a job until the condition holds."""
    end_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end_s:
            raise Hang(f"{condition} did not become true within {within_s} s\n{stacks()}")
        time.sleep(0.001)


def spin_until(condition: Callable[[], object], within_s: float = 10.0) -> None:
    """Waits with the CPU, never blocking: a phase that does not end."""
    end_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end_s:
            raise Hang(f"{condition} did not become true within {within_s} s\n{stacks()}")


def stacks() -> str:
    """The stack of every thread."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


class Flag:
    """Says that something has happened. `set` never blocks; `wait` blocks in short sleeps, each of which ends a phase.

    Why not `threading.Event`: its `set` may have to wait for its own lock. That ends the setter's phase, and the next
    begins with the lock held, so without a permit: the scenario would have no holder.
    """

    def __init__(self) -> None:
        self._happened = False

    def __bool__(self) -> bool:
        return self._happened

    def set(self) -> None:
        self._happened = True

    def wait(self, within_s: float = 10.0) -> None:
        end_s = time.monotonic() + within_s
        while not self._happened:
            if time.monotonic() > end_s:
                raise Hang(f"a flag was not set within {within_s} s\n{stacks()}")
            time.sleep(0.0005)


class Threads:
    """Threads whose results are collected; `join` raises what they raised, or Hang with every stack."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._ended: list[tuple[bool, Any] | None] = []

    def start(self, function: Callable[[], Any], *, daemon: bool = True) -> threading.Thread:
        index = len(self._ended)
        self._ended.append(None)

        def run() -> None:
            try:
                self._ended[index] = (True, function())
            except BaseException as error:
                self._ended[index] = (False, error)

        thread = threading.Thread(target=run, name=f"job-{index}", daemon=daemon)
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self, within_s: float = 20.0) -> list[Any]:
        end_s = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        alive = [thread.name for thread in self._threads if thread.is_alive()]
        if alive:
            raise Hang(f"{alive} still run after {within_s} s\n{stacks()}")
        values = []
        for ended in self._ended:
            if ended is None:
                raise AssertionError("a thread ended without a result")
            well, value = ended
            if not well:
                raise value
            values.append(value)
        return values


def run_jobs(
    running: "process.Running",
    functions: Sequence[Callable[[], Any]],
    route: str | Sequence[str] = HEAVY,
    *,
    within_s: float = 20.0,
) -> list[Any]:
    """Runs each function as one job on a thread of its own, all at once; their results in order."""
    routes = [route] * len(functions) if isinstance(route, str) else list(route)
    together = threading.Barrier(len(functions))
    threads = Threads()

    def one(function: Callable[[], Any], name: str) -> Callable[[], Any]:
        def run() -> Any:
            together.wait(10)
            with job(running, name):
                return function()

        return run

    for function, name in zip(functions, routes, strict=True):
        threads.start(one(function, name))
    return threads.join(within_s)


def settled(running: "process.Running") -> None:
    """Every permit is back and nobody waits: by the queue, and by the counters of grants and returns."""

    def is_settled() -> bool:
        counted = running.counters()
        accounted = counted["granted"] + counted["waited_granted"] == counted["released"]
        return accounted and running.pressure() == (0, 0)

    # A thread's end is seen by `join` before its native part has given its permit back.
    until(is_settled, within_s=5.0)
