"""Threads, locks, polls and sleeps of the operating system, also where gevent has replaced them by green ones.

Our threads must use no others. A green lock that it waits for, or a green poll, gives it a hub of its own; and a
thread that stands in a hub when the interpreter ends breaks the process's memory: CPython before 3.14 unwinds such a
thread, through frames of C++ (greenlet's) whose stack the hub has meanwhile used for something else.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal`, without its enums
import _thread
import contextlib
import os
import select
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = [
    "RLock",
    "allocate_lock",
    "get_ident",
    "get_native_id",
    "in_forked_child",
    "poll",
    "signals_blocked",
    "sleep",
    "start_new_thread",
    "start_program_thread",
    "threads_are_green",
]


def _real(module: Any, name: str) -> Any:
    monkey: Any = sys.modules.get("gevent.monkey")
    if monkey is not None:
        return monkey.get_original(module.__name__, name)
    if not hasattr(module, name):  # eventlet takes `poll` away: the process is refused, but not by an AttributeError
        module = sys.modules["eventlet.patcher"].original(module.__name__)
    return getattr(module, name)


# Taken at import: what gevent replaces later is not what these names hold.
allocate_lock: Final = _real(_thread, "allocate_lock")
RLock: Final = _real(_thread, "RLock")
#: For code of the program: like any thread that it starts itself.
start_program_thread: Final = _real(_thread, "start_new_thread")
get_native_id: Final = _thread.get_native_id
get_ident: Final = _real(_thread, "get_ident")
poll: Final = _real(select, "poll")
sleep: Final = _real(time, "sleep")

_SIGNALS: Final = _signal.valid_signals()


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Let a thread that is started inside get no signal: those of the process are for the program's own threads."""
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def start_new_thread(function: Callable[..., object], args: tuple[Any, ...]) -> int:
    """Start one of our threads, which gets no signal. Not for the program's code: its children would get none."""
    with signals_blocked():
        return int(start_program_thread(function, args))


def threads_are_green() -> bool:
    """Whether `threading` starts greenlets now."""
    return _thread.start_new_thread is not start_program_thread


def in_forked_child(method: Callable[[], None]) -> None:
    """Call a bound method in each forked child, as long as its object lives: the locks that it holds may be taken."""
    weak = weakref.WeakMethod(method)

    def forked() -> None:
        found = weak()
        if found is not None:
            found()

    os.register_at_fork(after_in_child=forked)
