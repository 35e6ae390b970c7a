"""How the processes of a machine recognise each other: one that was killed is seen to be gone at once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ProcessName"]

#: Place of a process's start time in /proc/PID/stat, after the name in parentheses (proc(5): field 22).
_START: Final = 19


@dataclass(frozen=True)
class ProcessName:
    """`boot/namespace/pid/start` of a process, as others of its machine recognise it: no two ever have the same."""

    text: str

    @classmethod
    def this(cls) -> ProcessName:
        """The process that asks."""
        pid = os.getpid()
        return cls(f"{_boot()}/{_namespace()}/{pid}/{_start(pid)}")

    def may_live(self, asker: ProcessName) -> bool:
        """False where it is certainly gone: another boot, or `asker` sees its process table without it.

        A process in another container may live, whatever this one's table says.
        """
        boot, namespace, pid, start = self._parts()
        its_boot, its_namespace, _, _ = asker._parts()
        if boot != its_boot:
            return False
        return namespace != its_namespace or _start(int(pid)) == start or _is_hidden(int(pid))

    def _parts(self) -> tuple[str, str, str, str]:
        boot, namespace, pid, start = self.text.split("/")
        return boot, namespace, pid, start


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def _is_hidden(pid: int) -> bool:
    """Whether there is such a process, of another user, whose folder in /proc is kept from us (`hidepid`)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return not os.path.exists(f"/proc/{pid}")
    return False


def _start(pid: int) -> str:
    """Its start in clock ticks since boot; "" = there is none, or it is dead and not yet reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[_START]
