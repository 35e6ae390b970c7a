"""What of `greenlane.real` the lanes use."""

from __future__ import annotations

from greenlane.real import RLock, allocate_lock, get_native_id, in_forked_child, start_new_thread

__all__ = ["RLock", "allocate_lock", "get_native_id", "in_forked_child", "start_new_thread"]
