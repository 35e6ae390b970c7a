"""Child processes of the lab, the systems and the benchmarks: started on loopback, watched through /proc, ended by pid.

Every child asks the kernel for a signal when its parent dies (PR_SET_PDEATHSIG), so not even a killed comparison
leaves servers behind; it has a process group of its own, so Ctrl-C reaches the comparison alone, which ends them.

Nothing of Greenlane is imported here: stock programs that are measured start their workers with it.
"""

from __future__ import annotations

import abc
import contextlib
import ctypes
import importlib.util
import os
import random
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, ClassVar, Final, Self

# Linux: a process's CPU clock is (~pid << 3) | 2; include/linux/posix-timers.h.
_CPUCLOCK_SCHED: Final = 2
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
# Below Linux's first ephemeral port (32768), so that no outgoing connection takes one from under us.
_PORTS: Final = range(20_000, 32_000)
# A gunicorn that was asked to end may finish what it has; more is not waited for.
_END_S: Final = 3.0

# A child's last output is in the error when it does not come up.
_LAST_WORDS: Final = 2_000
_LOOK_S: Final = 0.02
_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)

# Ports given by this process: two servers that start at the same time get different ones.
_given: Final[set[int]] = set()


def free_port() -> int:
    """A port of 127.0.0.1 below 32768 on which nobody listens now; each call of a process gives another.

    It is not reserved: another process may take it first.
    """
    source = random.SystemRandom()
    while True:
        port = source.choice(_PORTS)
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                _given.add(port)
                return port


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Runs in a child: this signal when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


class Child:
    """One process that we started, and its descendants.

    Args:
        command: argument vector.
        env: the whole environment.
        log: where its stdout and stderr go.
        cwd: its working directory; None = ours.
        death: the signal that it gets when the thread that started it ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        log: IO[bytes] | int,
        cwd: Path | None,
        death: int = signal.SIGTERM,
    ) -> None:
        self._process = subprocess.Popen(
            list(command), env=dict(env), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd,
            preexec_fn=partial(die_with_parent, death), process_group=0,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def running(self) -> bool:
        """It has not exited."""
        return self._process.poll() is None

    def pids(self) -> list[int]:
        """It and its descendants, itself first; empty when it has exited."""
        return descendants(self._process.pid) if self.running() else []

    def wait(self, seconds: float) -> int | None:
        """Its exit status, negative = the signal that killed it; None when it still runs after `seconds`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def kill(self) -> None:
        """SIGKILL to it and each descendant: what a crash of its machine looks like. Idempotent."""
        _kill(self.pids())
        self._process.wait()

    def end(self, grace_s: float = _END_S) -> int | None:
        """SIGTERM, `grace_s` for it to finish, then SIGKILL to it and each descendant; its exit status. Idempotent."""
        pids = self.pids()
        if pids:
            self._process.terminate()
            if self.wait(grace_s) is None:
                self.kill()
            # Not a stranger that has got the number since.
            _kill(pid for pid in pids[1:] if _parent(pid) in (1, os.getpid(), *pids))
        return self._process.returncode


class StartFailed(Exception):
    """A part of a system did not come up; the message ends with what it said last."""

    code: ClassVar[str] = "system-start"
    #: What a command ends with.
    exit_code: ClassVar[int] = 1


class Logged(Child):
    """A child with a log file of its own, killed with the thread that started it: start it from one that stays.

    Args:
        command: argument vector.
        log: file that its stdout and stderr are added to.
        added: variables added to our environment.
        cwd: its working directory; None = ours.
    """

    #: Put on its import path; of a system's own class.
    folder: ClassVar[Path | None] = None
    #: Added to each one's environment, before `added`.
    around: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        added: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.command = [str(part) for part in command]
        self.log = log
        self.started_ns = time.monotonic_ns()
        env = {**found_by(*([self.folder] if self.folder else [])), **self.around, **(added or {})}
        with log.open("ab") as output:
            super().__init__(self.command, env, output, cwd, signal.SIGKILL)

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-_LAST_WORDS:]

    def wait_for_port(self, port: int, seconds: float = 60.0) -> None:
        """Blocks until 127.0.0.1:port accepts connections. Raises StartFailed: it ended, or `seconds` passed."""
        self.wait_until(lambda: accepts(port), f"a listener on port {port}", seconds)

    def wait_until(self, reached: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        """Blocks until `reached()`, which is asked every 20 ms. Raises StartFailed: it ended, or `seconds` passed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.running():
            if reached():
                return
            time.sleep(_LOOK_S)
        state = f"nothing after {seconds:g} s" if self.running() else f"exit status {self._process.returncode}"
        name = " ".join(self.command[:4])
        raise StartFailed(f"start {name}: {state}, expected {what}; it said:\n{self.said()}")

    def signal(self, number: int) -> None:
        """Sends it a signal; nothing when it has ended."""
        if self.running():
            self._process.send_signal(number)


class Block(abc.ABC):
    """Several parts that run while a with-block does: what has begun is ended, also when the rest does not come up."""

    def __enter__(self) -> Self:
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()

    @abc.abstractmethod
    def begin(self) -> None:
        """Start everything, and wait until it runs."""

    @abc.abstractmethod
    def end(self) -> None:
        """End what has begun: all of it, some of it, nothing. Idempotent."""


def found_by(*folders: Path) -> dict[str, str]:
    """Our own environment, with import paths that lead to packages in `folders` and to the greenlane that runs now."""
    spec = importlib.util.find_spec("greenlane")
    ours = [str(Path(spec.origin).resolve().parents[1])] if spec and spec.origin else []
    paths = [*map(str, folders), *ours, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path for path in paths if path))}


def descendants(pid: int) -> list[int]:
    """`pid` and all that it and its children started, as of now; empty when it is gone."""
    found = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for thread in threads:
        with contextlib.suppress(OSError):  # That thread has ended: what it had started belongs to another one now.
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
            found += [one for child in children.split() for one in descendants(int(child))]
    return [pid, *found]


def cpu_ns(pids: Iterable[int]) -> int:
    """User and system time of these processes so far in exact nanoseconds, with their threads that ended.

    Each process's own POSIX CPU clock (clock_getcpuclockid(3)), where /proc/<pid>/stat has a grain of 10 ms.
    Processes that are gone count nothing.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    return total


def core_wait_ns(pids: Iterable[int]) -> int:
    """How long present threads of these processes could have run and had no core (schedstat's run-queue wait).

    What threads that have ended waited is not in it; on an idle machine some 0.1 % of their time.
    """
    total = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(path.read_text().split()[1])
    return total


def machine_busy_ns() -> int:
    """CPU time of the whole machine that was not idle since it started, steal by its host included; grain 10 ms."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) * _TICK_NS


def family_ns() -> int:
    """CPU time of this process, of all that it started and that runs, and of what it started and reaped."""
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    return cpu_ns(descendants(os.getpid())) + int((reaped.ru_utime + reaped.ru_stime) * 1e9)


def pss_mb(pids: Iterable[int]) -> float:
    """Memory of these processes in MB, shared pages divided among the processes that share them (smaps_rollup)."""
    total_kb = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total_kb += int(line.split()[1])
    return total_kb / 1024


def wait_for_port(port: int, child: Child, seconds: float) -> bool:
    """Waits until somebody listens on the port; False when the child exits or `seconds` pass first."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and child.running():
        if accepts(port):
            return True
        time.sleep(_LOOK_S)
    return False


def accepts(port: int) -> bool:
    """127.0.0.1:port accepts connections now."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1
