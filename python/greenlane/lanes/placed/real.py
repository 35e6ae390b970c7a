"""Threads and locks of the operating system, also where gevent has replaced `_thread` by green ones."""

from __future__ import annotations

import _thread
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

__all__ = ["RLock", "allocate_lock", "get_native_id", "in_forked_child", "start_new_thread"]


def _real(name: str) -> Any:
    monkey: Any = sys.modules.get("gevent.monkey")
    return getattr(_thread, name) if monkey is None else monkey.get_original("_thread", name)


# Taken at import: what gevent replaces later is not what these names hold.
allocate_lock: Final = _real("allocate_lock")
RLock: Final = _real("RLock")
start_new_thread: Final = _real("start_new_thread")
get_native_id: Final = _thread.get_native_id


def in_forked_child(method: Callable[[], None]) -> None:
    """Call a bound method in each forked child, as long as its object lives: the locks that it holds may be taken."""
    weak = weakref.WeakMethod(method)

    def forked() -> None:
        found = weak()
        if found is not None:
            found()

    os.register_at_fork(after_in_child=forked)
