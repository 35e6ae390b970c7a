"""CPython 3.12 and later warn at `os.fork` when the process has several threads: not on account of Greenlane's.

Those are made for forks: the child has none of them and none of their locks. So right before a fork the threads are
counted, ours left out. A program with one thread of its own gets no warning; any other gets its own, as without us.

The filter is at hand only while it is needed, in front of all others (a later `simplefilter("error")` included), and no
other warning is shown more or less often for it: the list is changed, its version is not.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from _thread import get_native_id
from typing import Any, Final

__all__ = ["mark_thread", "watch"]

#: Whether this CPython warns.
_WARNS: Final = bool(sys.version_info >= (3, 12))
_CONTROL: Final = b"greenlane-control"[:15]
#: Ours, by their names in the kernel, which keeps 15 bytes of a name.
_OURS: Final = frozenset(
    {b"greenlane-writer"[:15], b"greenlane-sampler"[:15], b"greenlane-gang", b"greenlane-health"[:15], _CONTROL}
)
_TASKS: Final = "/proc/self/task"
#: More threads than this are not all ours: nobody needs to look.
_MOST: Final = 8
_FILTER: Final[Any] = (
    "ignore",
    re.compile(r"This process .* is multi-threaded", re.IGNORECASE),
    DeprecationWarning,
    None,
    0,
)


_watches = False


def watch() -> None:
    """Count before each fork from now on. Idempotent. Cost: some 20 us a fork; nothing before 3.12."""
    global _watches
    if not _watches:
        _watches = True
        os.register_at_fork(before=_before_fork)


def _before_fork() -> None:
    """Decide whether the coming fork's warning is wanted."""
    if not _WARNS:
        return
    filters: Any = warnings.filters
    with contextlib.suppress(Exception):
        if _is_single_threaded_without_ours():
            if not filters or filters[0] is not _FILTER:
                _remove(filters)
                filters.insert(0, _FILTER)
        else:
            _remove(filters)


def mark_thread() -> None:
    """Say in the kernel that the calling thread is ours."""
    with contextlib.suppress(OSError), open(f"{_TASKS}/{get_native_id()}/comm", "wb") as comm:
        comm.write(_CONTROL)


def _remove(filters: Any) -> None:
    with contextlib.suppress(ValueError):
        filters.remove(_FILTER)


def _is_single_threaded_without_ours() -> bool:
    tasks = os.listdir(_TASKS)
    if len(tasks) > _MOST:
        return False
    return len(tasks) > 1 and sum(not _is_ours(task) for task in tasks) <= 1


def _is_ours(task: str) -> bool:
    try:
        with open(f"{_TASKS}/{task}/comm", "rb") as comm:
            return comm.read().rstrip(b"\n") in _OURS
    except OSError:  # ended meanwhile
        return True
