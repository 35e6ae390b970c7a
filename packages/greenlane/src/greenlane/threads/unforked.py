"""A section in one of our threads during which this process is not forked.

Switching something on may import, and holds our locks. A child that is forked meanwhile would have an import that
never ends and locks that are never released. So the fork waits, briefly: its thread may hold what ours waits for.
A child that starts another program (`subprocess`) has none of it, and does not wait.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from greenlane.threads.unpatched import allocate_lock, get_ident

__all__ = ["unforked"]

#: Far more than imports take. A fork that has waited this long is made as without us.
_PATIENCE_S: Final = 2.0

_lock = allocate_lock()
_watches = False
#: Threads that fork and hold the lock.
_forking: Final[set[int]] = set()


@contextlib.contextmanager
def unforked() -> Iterator[None]:
    """Let forks of other threads wait until the end."""
    global _watches
    if not _watches:
        _watches = True
        os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_reset_state)
    lock = _lock
    with lock:
        yield


def _wait() -> None:
    if _lock.acquire(timeout=_PATIENCE_S):
        _forking.add(get_ident())


def _go_on() -> None:
    if get_ident() in _forking:
        _forking.discard(get_ident())
        _lock.release()


def _reset_state() -> None:
    global _lock
    _forking.clear()
    _lock = allocate_lock()
