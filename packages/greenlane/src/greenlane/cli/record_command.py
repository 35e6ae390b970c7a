"""The command that is recorded, as a child: signals passed on, Ctrl-C once and twice, its exit code, what it leaves.

The child stays in our process group: what is sent to the group, by a terminal's key or `kill -- -PGID`, reaches it as
it would without us. A signal that is for us alone is passed on. What it has started and left is found by its
environment, which names the recording's folder: a daemon's parent is process 1, as without us.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane import _native
from greenlane.errors import ArgumentError

__all__ = ["RecordedCommand", "Witness", "alive", "blocked_signals", "children", "descendants"]

_PASSED_ON: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU),
)
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_WATCHED: Final = {*_PASSED_ON, signal.SIGCHLD}
#: Python ignores them from its start on; what we execute would.
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
#: A process's begin is known to a hundredth of a second, its file's time to a few.
_SLACK_S: Final = 0.1
#: Two SIGINT within this many seconds are one Ctrl-C: `timeout` sends its signal to its child and to its whole group.
_SAME_S: Final = 0.2
#: A signal to a group has reached all of it after so long, for certain.
_REACHES_ALL_S: Final = 0.01


class RecordedCommand:
    """The running command. Made inside `blocked_signals()`.

    Args:
        argv: the command.
        environ: its environment.
        mask: signals that are blocked in the child: what was blocked before us.
        before_signal: called before a signal is passed on: the program may end at once.
        witness: knows what our group hears.

    Raises:
        SettingsError: it cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        mask: set[signal.Signals],
        before_signal: Callable[[], object],
        witness: Witness,
    ) -> None:
        self._before_signal = before_signal
        self._mark = os.fsencode(f"GREENLANE_RECORD_FOLDER={environ['GREENLANE_RECORD_FOLDER']}")
        self._witness = witness
        try:
            words = _activated(argv, environ)
            self.pid = os.posix_spawnp(words[0], words, dict(environ), setsigmask=mask, setsigdef=_IGNORED_BY_PYTHON)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            found = shutil.which(argv[0])
            hint = "write it as you would without `greenlane record --`" if found is None else f"look at {found}"
            rule = f"a program that can be started ({reason})"
            raise ArgumentError("COMMAND", argv[0], rule, hint, attempted="start the command") from None
        _notify_main_pid(environ, self.pid)
        #: What a shell would give as its exit code; None while it runs.
        self.code: int | None = None
        #: Whether a signal has asked it to end.
        self.is_ending = False
        #: How often Ctrl-C asked it to end.
        self.interrupts = 0
        self._interrupted_s = -_SAME_S

    def wait(self, seconds: float) -> signal.Signals | None:
        """Wait for it to end or for a signal, this long at most; give the signal, which has been passed on.

        The second Ctrl-C kills the command and all that it has started.
        """
        told = signal.sigtimedwait(_WATCHED, seconds)
        self._reap()
        # After a stop (`kill -STOP`, a debugger) CPython may give what is no signal at all.
        if told is None or told.si_signo not in _PASSED_ON:
            return None
        number = signal.Signals(told.si_signo)
        self.is_ending = self.is_ending or number in _ENDING
        if number == signal.SIGINT:
            last_s, self._interrupted_s = self._interrupted_s, time.monotonic()
            if self._interrupted_s - last_s < _SAME_S:
                return number
            self.interrupts += 1
        if self.interrupts > 1:
            for pid in {*descendants(), *self.left()}:
                _kill(pid, signal.SIGKILL)
        elif not self._has_heard(told):
            if number in _ENDING:
                self._before_signal()
            _kill(self.pid, number)
        return number

    def left(self) -> set[int]:
        """Give the processes, wherever they are, that have the environment of this command."""
        found = set()
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with contextlib.suppress(OSError):
                    if self._mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                        found.add(int(name))
        return found - {os.getpid()}

    def recorders(self) -> set[int]:
        """Give those of them that record, or will with their first event."""
        return {pid for pid in self.left() if _has_recorder(pid)}

    def _has_heard(self, told: signal.struct_siginfo) -> bool:
        with contextlib.suppress(OSError):
            if os.getpgid(self.pid) == os.getpgrp():
                return told.si_code > 0 or self._witness.heard(told.si_signo)  # > 0: of the terminal
        return False

    def _reap(self) -> None:
        for pid in {self.pid, *children(os.getpid())} if self.code is None else children(os.getpid()):
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended == self.pid:
                    code = os.waitstatus_to_exitcode(status)
                    self.code = 128 - code if code < 0 else code


class Witness:
    """A process that sees what this one cannot: signals to our process group, and that we have been killed.

    The kernel tells signals to the group from those to us alone in no other way. It sleeps with all of these signals
    blocked, so it gets only the former. When we are gone without a `dismiss` it calls `orphaned`, and ends.
    """

    def __init__(self, orphaned: Callable[[], object]) -> None:
        asked, self._ask = os.pipe()
        self._answered, answer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
                os.close(self._ask)
                while (question := os.read(asked, 1)) == b"?":
                    pending = signal.sigpending() & {*_PASSED_ON}
                    while signal.sigtimedwait(_PASSED_ON, 0) is not None:
                        pass
                    os.write(answer, bytes([*pending, 0]))
                if not question:
                    orphaned()
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answer)

    def dismiss(self) -> None:
        """We end by ourselves."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._ask, b".")
        os.close(self._ask)
        os.close(self._answered)
        with contextlib.suppress(ChildProcessError):  # somebody has waited for all children
            os.waitpid(self._pid, 0)

    def heard(self, number: int) -> bool:
        """Whether the group got this signal since the last time."""
        for patience_s in (0.0, _REACHES_ALL_S):
            time.sleep(patience_s)
            with contextlib.suppress(BrokenPipeError):
                os.write(self._ask, b"?")
                if number in os.read(self._answered, 64):
                    return True
        return False


@contextlib.contextmanager
def blocked_signals() -> Iterator[set[signal.Signals]]:
    """Let signals wait until somebody asks for them; gives what was blocked before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        _drop_pending()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _activated(argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Sockets of the service manager's are for the process that LISTEN_PID names: the command, as without us."""
    if environ.get("LISTEN_PID") != str(os.getpid()) or shutil.which(argv[0]) is None:
        return list(argv)
    return ["/bin/sh", "-c", 'unset LISTEN_PIDFDID; LISTEN_PID=$$ exec "$@"', "sh", *argv]


def _notify_main_pid(environ: Mapping[str, str], pid: int) -> None:
    """Let the command's READY=1 be heard: systemd takes it from the main process of a service alone."""
    address = environ.get("NOTIFY_SOCKET", "")
    if address[:1] in ("/", "@"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(address.replace("@", "\0", 1) if address[0] == "@" else address)
            manager.send(f"MAINPID={pid}".encode())


def descendants() -> list[int]:
    """Give all processes below us."""
    found: list[int] = []
    level = children(os.getpid())
    while level:
        found += level
        level = [child for pid in level for child in children(pid)]
    return found


def alive(written: Mapping[int, float]) -> list[int]:
    """Give those processes that run, of those that wrote last at these times (Unix, s)."""
    return sorted(pid for pid, until_s in written.items() if _runs_since(pid) <= until_s + _SLACK_S)


def _runs_since(pid: int) -> float:
    """When the process with this number began (Unix, s); infinity = there is none. A later one is another process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return math.inf
    state, *fields = stat.rpartition(")")[2].split()
    started_s = int(fields[18]) / os.sysconf("SC_CLK_TCK")
    return math.inf if state in "ZX" else time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + started_s


def children(pid: int) -> list[int]:
    """Give the processes that one has started, and that run."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
                found += map(int, text.split())
    return found


def _has_recorder(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return os.fsencode(_native.__file__) in Path(f"/proc/{pid}/maps").read_bytes()
    return False


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _drop_pending() -> None:
    """Forget what came while the recording was finished: it was for the command, which has ended."""
    until = time.monotonic() + 1
    while time.monotonic() < until and signal.sigtimedwait(_WATCHED, 0) is not None:
        pass
