"""A real server process under test: started on loopback, awaited by what it prints or by its port, ended by process id.

It cannot outlive the tests: the kernel kills it when the thread that started it dies (`PR_SET_PDEATHSIG`), so start it
from a thread that lives as long as it shall.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Below 32768, where Linux begins to give ports to outgoing connections; those cannot take one between check and bind.
PORTS = range(20_000, 32_000)

# Replaces itself with the command after asking the kernel for the death signal; leaves if the parent is gone already.
# Another user first: the kernel forgets the signal when a process changes its user.
LAUNCHER = """
import ctypes, fcntl, os, pwd, signal, sys
parent, user, fds, *command = sys.argv[1:]
given = [int(fd) for fd in fds.split(",") if fd]
copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in given]
for fd in given:
    os.close(fd)
for number, copy in enumerate(copies, 3):
    os.dup2(copy, number)
if user:
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
if ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0):
    sys.exit("prctl(PR_SET_PDEATHSIG) failed")
if os.getppid() != int(parent):
    sys.exit("parent died first")
os.execvp(command[0], command)
"""

_given_ports: set[int] = set()


def free_port() -> int:
    """A TCP port of 127.0.0.1 below 32768 that nobody listens on; each call of one process gives another."""
    for port in random.sample(PORTS, len(PORTS)):
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_ports.add(port)
        return port
    raise RuntimeError(f"finding a free port: range={PORTS!r}, expected one that is not in use")


class Child:
    """A running process with its output. Use `with Child([...]) as child:`, or the `start_process` fixture."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        user: str = "",
        stop: signal.Signals = signal.SIGTERM,
        fds: Sequence[int] = (),
    ) -> None:
        """Start `argv`; stdout and stderr are read together.

        Args:
            argv: the command.
            env: added to this process's environment.
            cwd: where it runs.
            user: whose process it becomes; "" = ours. Only root may name one.
            stop: what asks it to end.
            fds: our descriptors that it gets as 3, 4, and so on.
        """
        self.argv = [str(part) for part in argv]
        self._stop = stop
        sources = ",".join(map(str, fds))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), user, sources, *self.argv],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._lines: list[str] = []
        self._closed = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, name=f"output of {self.pid}", daemon=True)
        self._reader.start()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Process id, and id of the process group that it leads."""
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything printed so far."""
        with self._changed:
            return "".join(self._lines)

    def wait_output(self, pattern: str, *, timeout_s: float = 20) -> re.Match[str]:
        """Block until the output matches `pattern` (re.search, multi-line), and give the match."""
        compiled = re.compile(pattern, re.MULTILINE)
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not (match := compiled.search("".join(self._lines))):
                left_s = deadline - time.monotonic()
                if self._closed or left_s <= 0:
                    raise AssertionError(self._missed(f"output that matches {pattern!r}", timeout_s))
                self._changed.wait(left_s)
            return match

    def wait_port(self, port: int, *, timeout_s: float = 20) -> None:
        """Block until 127.0.0.1:`port` accepts a connection."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                with self._changed:
                    self._changed.wait(0.02)
        raise AssertionError(self._missed(f"a listener on port {port}", timeout_s))

    def wait_exit(self, *, timeout_s: float = 20) -> int:
        """Block until the process has ended; its exit code, negative for a signal."""
        code = self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the process (not to its group)."""
        self._process.send_signal(number)

    def end(self, *, grace_s: float = 5) -> int:
        """SIGTERM or its own `stop`, then after `grace_s` SIGKILL to it and the group it leads. Idempotent."""
        if self._process.poll() is None:
            self._process.send_signal(self._stop)
            try:
                self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._kill_group()
        code = self._process.wait()
        self._reader.join(grace_s)
        if self._process.stdout and not self._reader.is_alive():
            self._process.stdout.close()
        return code

    def _kill_group(self) -> None:
        """What the leader left behind; the group id is free for reuse only after its last member is gone."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _missed(self, what: str, timeout_s: float) -> str:
        code = self._process.poll()
        state = "still running" if code is None else f"exit code {code}"
        return f"{' '.join(self.argv)}: no {what} within {timeout_s:g} s ({state}); output:\n{''.join(self._lines)}"
