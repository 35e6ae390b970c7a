"""Other processes: waiting for a child, for a signal, for a file lock or for a pipe of `multiprocessing` ends a phase.

Not wrapped, and why:

- `os.read`, `os.write`, file objects: nothing cheap tells a pipe from a file in the page cache, they are hot, and
  nearly all of them return at once. `Popen.communicate` and `subprocess.run` are seen; a bare `Popen.stdout.read()` is
  left to the permits' stand-still fallback.
- `multiprocessing`'s C semaphores (`Lock`, `Semaphore`): each instance holds its own C methods. The fallback again.
- `multiprocessing.connection.wait`, `Connection.poll`, `Process.join(timeout)` go through `selectors`, `Process.join()`
  through `os.waitpid`, `Pool` results through `threading.Event`: seen there.
"""

from __future__ import annotations

import fcntl
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import always, timed, when

if TYPE_CHECKING:
    import subprocess

__all__ = ["place_connection", "place_fcntl", "place_os", "place_signal", "place_subprocess", "place_synchronize"]

_WNOHANG: Final = os.WNOHANG
# Neither waits for anybody.
_TRY_OR_UNLOCK: Final = fcntl.LOCK_NB | fcntl.LOCK_UN


def place_os(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `os`."""
    patches.replace(module, "wait", always(Kind.PROCESS))
    patches.replace(module, "waitpid", when(Kind.PROCESS, lambda pid, options, /: not options & _WNOHANG))
    patches.replace(module, "wait3", when(Kind.PROCESS, lambda options: not options & _WNOHANG))
    patches.replace(module, "wait4", when(Kind.PROCESS, lambda pid, options: not options & _WNOHANG))
    patches.replace(module, "waitid", when(Kind.PROCESS, lambda idtype, id, options, /: not options & _WNOHANG))


def place_signal(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `signal`."""
    for name in ("pause", "sigwait", "sigwaitinfo"):
        patches.replace(module, name, always(Kind.PROCESS))
    patches.replace(module, "sigtimedwait", when(Kind.PROCESS, lambda sigset, timeout, /: timeout > 0))


def place_fcntl(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `fcntl`: file locks between processes."""
    patches.replace(module, "flock", when(Kind.LOCK, _file_lock_waits))
    patches.replace(module, "lockf", when(Kind.LOCK, _file_lock_waits))


def place_subprocess(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `subprocess`: one phase end for a wait, which inside polls, sleeps and takes a lock."""
    patches.replace(module.Popen, "wait", timed(Kind.PROCESS, done=_reaped))
    patches.replace(module.Popen, "communicate", always(Kind.PROCESS))


def place_connection(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `multiprocessing.connection`.

    `_recv_bytes` and `_send_bytes` stand under every public call of a pipe, one for one, and leave the pickling
    outside: that is the job's own CPU work.
    """
    patches.replace(module.Connection, "_recv_bytes", always(Kind.PROCESS))
    patches.replace(module.Connection, "_send_bytes", always(Kind.PROCESS))


def place_synchronize(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `multiprocessing.synchronize`; its Event and Barrier wait on its Condition."""
    patches.replace(module.Condition, "wait", timed(Kind.LOCK))


def _file_lock_waits(fd: Any, operation: int, *_more: Any) -> bool:
    return not operation & _TRY_OR_UNLOCK


def _reaped(self: subprocess.Popen[Any]) -> bool:
    return self.returncode is not None
