"""Threads and locks of the operating system, also where gevent has replaced `_thread` by green ones."""

from __future__ import annotations

import _thread
import sys
from typing import Any, Final

__all__ = ["allocate_lock", "get_native_id", "start_new_thread"]


def _real(name: str) -> Any:
    monkey: Any = sys.modules.get("gevent.monkey")
    return getattr(_thread, name) if monkey is None else monkey.get_original("_thread", name)


# Taken at import: what gevent replaces later is not what these names hold.
allocate_lock: Final = _real("allocate_lock")
start_new_thread: Final = _real("start_new_thread")
get_native_id: Final = _thread.get_native_id
