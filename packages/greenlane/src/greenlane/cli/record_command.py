"""The command that is recorded, as a child: signals passed on, Ctrl-C once and twice, its exit code, what it leaves.

The child stays in our process group, so a terminal's keys reach it as they would without us; a signal that comes from a
process (`kill`) is for us alone, and is passed on. Orphans come to us (PR_SET_CHILD_SUBREAPER), so everything that the
command has started, daemons too, stays below us and can be found.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane.errors import SettingsError

__all__ = ["RecordedCommand", "blocked_signals", "descendants"]

_PASSED_ON: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU),
)
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_WATCHED: Final = {*_PASSED_ON, signal.SIGCHLD}
_PR_SET_CHILD_SUBREAPER: Final = 36
#: Two SIGINT within so many seconds are one Ctrl-C: `timeout` sends its signal to its child and to its whole group.
_SAME_S: Final = 0.2


class RecordedCommand:
    """The running command. Made inside `blocked_signals()`.

    Args:
        argv: the command.
        environ: its environment.
        mask: signals that are blocked in the child: what was blocked before us.
        before_signal: called before a signal is passed on: the program may end at once.

    Raises:
        SettingsError: it cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        mask: set[signal.Signals],
        before_signal: Callable[[], object],
    ) -> None:
        self._before_signal = before_signal
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self.pid = os.posix_spawnp(argv[0], list(argv), dict(environ), setsigmask=mask)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            found = shutil.which(argv[0])
            hint = "write it as you would without `greenlane record --`" if found is None else f"look at {found}"
            rule = f"a program that can be started ({reason})"
            raise SettingsError("COMMAND", argv[0], rule, hint, attempted="start the command") from None
        #: What a shell would give as its exit code; None while it runs.
        self.code: int | None = None
        #: How often somebody asked it to end by Ctrl-C.
        self.interrupts = 0
        self._interrupted_s = -_SAME_S

    def wait(self, seconds: float) -> signal.Signals | None:
        """Wait for it to end or for a signal, so long at most; give the signal, which has been passed on.

        The second Ctrl-C kills the command and all that it has started.
        """
        told = signal.sigtimedwait(_WATCHED, seconds)
        self._reap()
        if told is None or told.si_signo == signal.SIGCHLD:
            return None
        number = signal.Signals(told.si_signo)
        if number == signal.SIGINT:
            last_s, self._interrupted_s = self._interrupted_s, time.monotonic()
            if self._interrupted_s - last_s < _SAME_S:
                return number
            self.interrupts += 1
        if self.interrupts > 1:
            for pid in descendants():
                _kill(pid, signal.SIGKILL)
        elif told.si_code <= 0 or not self._hears_terminal():
            if number in _ENDING:
                self._before_signal()
            _kill(self.pid, number)
        return number

    def _hears_terminal(self) -> bool:
        with contextlib.suppress(OSError):
            return os.getpgid(self.pid) == os.getpgrp()
        return False

    def _reap(self) -> None:
        for pid in {self.pid, *_children(os.getpid())} if self.code is None else _children(os.getpid()):
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended == self.pid:
                    code = os.waitstatus_to_exitcode(status)
                    self.code = 128 - code if code < 0 else code


@contextlib.contextmanager
def blocked_signals() -> Iterator[set[signal.Signals]]:
    """Let signals wait until somebody asks for them; gives what was blocked before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        _drop_pending()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def descendants() -> list[int]:
    """Give all processes below us."""
    found: list[int] = []
    level = _children(os.getpid())
    while level:
        found += level
        level = [child for pid in level for child in _children(pid)]
    return found


def alive(pids: Callable[[], set[int]]) -> list[int]:
    """Give those of `pids` that are below us and run."""
    return sorted(pids() & set(descendants()))


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
                children += map(int, text.split())
    return children


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _drop_pending() -> None:
    """Forget what came while the recording was finished: it was for the command, which has ended."""
    until = time.monotonic() + 1
    while time.monotonic() < until and signal.sigtimedwait(_WATCHED, 0) is not None:
        pass
