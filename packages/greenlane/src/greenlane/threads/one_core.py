"""Keeps a worker's threads to one core, so that the GIL is handed on where it was released.

Waking a thread on another, idle core takes some 0.1 ms on a virtual machine, in which nobody computes
(docs/design/0030-one-core.md).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenlane.settings import Settings

__all__ = ["all_cores", "allowed_cores", "keep_as_set", "keep_to_one_core", "leave_one_core", "use_all_cores"]

#: What this process was allowed before it kept to one core; empty = it does not.
_before: frozenset[int] = frozenset()
#: The one that it keeps to, or kept to last.
_core = -1


def allowed_cores() -> frozenset[int]:
    """The numbers of the cores that the process may use by its affinity, also while its threads keep to one."""
    return _before or frozenset(os.sched_getaffinity(0))


def keep_as_set(settings: Settings, log: Callable[[str, int], object]) -> None:
    """Keep this thread, and what it starts from now on, to one core if `one_core` is set and the mode is not off.

    Args:
        settings: of the worker.
        log: writes a line with the core's number.
    """
    if settings.one_core and settings.mode != "off" and (core := keep_to_one_core()) is not None:
        log("greenlane: threads keep to core %d (setting `one_core`)", core)


def keep_to_one_core() -> int | None:
    """Keep this thread, and what it starts from now on, to one core; forked children use all again.

    It is the core that fewest other processes of this container keep to. Takes some ms: it looks at each of them.

    Returns:
        Its number; None = there is only one, there is no GIL, or the kernel refuses.
    """
    global _before, _core
    cores = sorted(allowed_cores())
    gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    if len(cores) == 1 or not gil_enabled():
        return None
    taken = _kept_to()
    # Workers that start at the same moment see nobody yet, but are forked one after the other; other containers are
    # never seen, and have namespaces of their own.
    first = (os.getpid() + os.stat("/proc/self/ns/pid").st_ino) % len(cores)
    core = min(cores[first:] + cores[:first], key=taken.__getitem__)
    try:
        os.sched_setaffinity(0, {core})
    except OSError:
        return None
    if not _before:
        os.register_at_fork(after_in_child=use_all_cores)
    _before, _core = frozenset(cores), core
    return core


def use_all_cores() -> None:
    """Let this thread, and what it starts from now on, use all cores again that the process was allowed."""
    if cores := _before:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cores)


def leave_one_core() -> None:
    """Let every thread of this process use all cores again, from whichever thread. Takes some us a thread."""
    global _before
    cores, _before = _before, frozenset()
    # Again for threads that one of them started meanwhile.
    while cores and sum(_left(int(thread), cores) for thread in os.listdir("/proc/self/task")):
        pass


def _left(thread: int, cores: frozenset[int]) -> bool:
    with contextlib.suppress(OSError):  # It has ended, or the kernel refuses.
        if os.sched_getaffinity(thread) == {_core}:
            os.sched_setaffinity(thread, cores)
            return True
    return False


@contextlib.contextmanager
def all_cores() -> Iterator[None]:
    """Let what is started inside use all cores."""
    if not _before:
        yield
        return
    kept = os.sched_getaffinity(0)
    use_all_cores()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, kept)


def _kept_to() -> Counter[int]:
    """By core: how many other processes keep to it. The kernel's own threads do so on every core, and do not count."""
    found: Counter[int] = Counter()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # It has ended, or has no program.
                cores = os.sched_getaffinity(int(name))
                if len(cores) == 1 and _has_program(name):
                    found.update(cores)
    return found


def _has_program(pid: str) -> bool:
    with contextlib.suppress(PermissionError):  # another user's
        os.readlink(f"/proc/{pid}/exe")
    return True
