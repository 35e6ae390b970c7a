"""What a job knows of its own time, by clocks that have nothing to do with the recorder.

CPU by the thread's CPU clock; the moment at which a reply was sent by the process that sent it; when somebody else ran,
by that somebody's own clocks. A moment that two clocks enclose is kept as both: what lies between them may be either.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from typing import Any

from greenlane._native import Recorder
from greenlane.wiring.recording import stop_recording

MS = 1_000_000
#: A victim's CPU before and after what it waits for.
OWN_NS = 2 * MS
#: How long what it waits for takes.
AWAY_NS = 12 * MS
#: How long others compute at a time.
HOG_NS = 8 * MS
#: Between two looks at both clocks: the thread was off the core.
OFF_NS = 30_000
#: A reply: when it was about to be sent, and when the one before it had been sent.
MOMENTS = struct.Struct("<QQ")
MOMENT = struct.Struct("<Q")

_REPLYING = """
import socket, struct, sys, time
end = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
sent_ns = 0
while asked := end.recv(8):
    (at_ns,) = struct.unpack("<Q", asked)
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        if left_ns > 2_000_000:
            time.sleep((left_ns - 1_000_000) / 1e9)
    end.sendall(struct.pack("<QQ", time.monotonic_ns(), sent_ns))
    sent_ns = time.monotonic_ns()
"""

#: When each route had the core: (from, to, route, so much of it).
ran: list[tuple[int, int, str, float]] = []
_jobs: dict[int, dict[str, Any]] = {}
#: By when a reply was about to be sent: when it had been.
_sent: dict[int, int] = {}


def burn(cpu_ns: int, route: str) -> None:
    """Use CPU of this thread. What took the core away meanwhile is left out of `ran`."""
    begun_ns = now_ns = time.monotonic_ns()
    begun_cpu_ns = now_cpu_ns = time.thread_time_ns()
    from_ns = begun_ns
    while now_cpu_ns - begun_cpu_ns < cpu_ns:
        before_ns, before_cpu_ns = now_ns, now_cpu_ns
        now_ns, now_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        if (now_ns - before_ns) - (now_cpu_ns - before_cpu_ns) > OFF_NS:
            ran.append((from_ns, before_ns, route, 1))
            from_ns = now_ns
    ran.append((from_ns, now_ns, route, 1))


class Known:
    """One job: `left` and `resumed` stand around what it waits for, on the thread that runs it."""

    def __init__(self) -> None:
        self._cpu_ns = self._io_ns = self._about_ns = 0
        # [from, to, so much of it was wait, whether somebody who ran is to blame]
        self._waits: list[tuple[int, int, int, bool]] = []
        self.left_ns = 0
        self._begun_ns = self._on_ns = time.monotonic_ns()
        self._on_cpu_ns = time.thread_time_ns()

    def left(self) -> None:
        """It computes no more."""
        cpu_ns, self.left_ns = time.thread_time_ns() - self._on_cpu_ns, time.monotonic_ns()
        self._ran(cpu_ns, self._on_ns, self.left_ns)

    def resumed(self) -> None:
        """It computes again."""
        self._on_ns, self._on_cpu_ns = time.monotonic_ns(), time.thread_time_ns()

    def replied(self, reply: bytes) -> None:
        """What it waited for was this, of `Replying`."""
        self._about_ns, before_ns = MOMENTS.unpack(reply)
        Replying.sent(before_ns)
        Replying.last_ns = self._about_ns
        self.io_until(self._about_ns)

    def io_until(self, ready_ns: int) -> None:
        """From `left` it was in I/O; from `ready_ns` to `resumed` somebody else ran."""
        ready_ns = min(max(ready_ns, self.left_ns), self._on_ns)
        self._io_ns += ready_ns - self.left_ns
        self._waited(ready_ns, self._on_ns)

    def blocked_until(self, ready_ns: int) -> None:
        """From `left` it waited for others of the process; from `ready_ns` to `resumed` somebody else ran."""
        self._waited(self.left_ns, ready_ns, running=False)
        self._waited(ready_ns, self._on_ns)

    def waited_but(self, cpu_ns: int, from_ns: int, to_ns: int) -> None:
        """From `left` to `resumed` it waited, but from `from_ns` to `to_ns` a child of it ran, with so much CPU."""
        self._waited(self.left_ns, from_ns)
        self._ran(cpu_ns, from_ns, to_ns)
        self._waited(to_ns, self._on_ns)

    def ended(self, number: int) -> None:
        """The last word, after the job's end. `number` is the recorder's."""
        self.left()
        wait_ns = sum(ns for _, _, ns, _ in self._waits)
        _jobs[number] = {
            "latency_ns": self.left_ns - self._begun_ns,
            "cpu_ns": [self._cpu_ns, self._cpu_ns],
            "io_ns": [self._io_ns, self._io_ns],
            "wait_ns": [wait_ns, wait_ns],
            "about_ns": self._about_ns,
            "waits": self._waits,
        }

    def _ran(self, cpu_ns: int, from_ns: int, to_ns: int) -> None:
        self._cpu_ns += cpu_ns
        if (off_ns := to_ns - from_ns - cpu_ns) > OFF_NS:
            self._waits.append((from_ns, to_ns, off_ns, True))

    def _waited(self, from_ns: int, to_ns: int, *, running: bool = True) -> None:
        if from_ns < to_ns:
            self._waits.append((from_ns, to_ns, to_ns - from_ns, running))


class Replying:
    """Another process, which sends its reply at the moment that it is asked for, and tells when that was."""

    last_ns = 0

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            command = [sys.executable, "-S", "-c", _REPLYING, str(listener.getsockname()[1])]
            self._process = subprocess.Popen(command)
            self.end, _ = listener.accept()

    @classmethod
    def sent(cls, by_ns: int) -> None:
        """The reply before this one had been sent by then."""
        _sent[cls.last_ns] = by_ns

    def close(self) -> None:
        """End it."""
        self.end.close()
        self._process.wait()


def told() -> None:
    """End the recording, and print everything that is known, for `tests.record.truths.compare`."""
    recorder = Recorder()
    recorder.flush()
    lost = recorder.stats()["lost"]
    stop_recording()
    for row in _jobs.values():
        # In between the other process may have lost its core: before the bytes went, or after.
        about_ns = row["about_ns"]
        late_ns = max(0, min(_sent.get(about_ns, 0) - about_ns, row["wait_ns"][0]))
        row["io_ns"][1] += late_ns
        row["wait_ns"][0] -= late_ns
    print(json.dumps({"jobs": _jobs, "ran": ran, "lost": lost}))
