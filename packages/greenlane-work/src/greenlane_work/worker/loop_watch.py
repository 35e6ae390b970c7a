"""Who keeps a green loop from turning, and for how long: seen from a thread of the operating system.

A green thread that computes and never yields stops all the others, the broker's heartbeat and every time limit with
them. This watch says where it is, once; and when the order's own soft limit has passed it raises that in it, which the
loop itself cannot do any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
import traceback
from types import CodeType, FrameType
from typing import Any, Final

from celery.exceptions import SoftTimeLimitExceeded

from greenlane.fork_warning import mark_thread
from greenlane.real import get_ident, sleep, start_new_thread
from greenlane_work.order import Order

__all__ = ["Watch"]

#: Between two looks, and between two signs of the loop.
_LOOK_S: Final = 0.25
#: A loop that does not turn for so long is worth a word. Arbitrary: a third of the usual heartbeat.
_STUCK_S: Final = 3.0
_FRAMES: Final = 12


class Watch:
    """Made on the thread of the loop, which it then watches to the process's end.

    Args:
        serving: the code that runs an order: its local variable `order` says which.
    """

    def __init__(self, serving: CodeType) -> None:
        import gevent

        self._serving = serving
        self._thread = get_ident()
        self._turned = time.monotonic()
        self._stopped = False
        self._timer: Any = gevent.get_hub().loop.timer(_LOOK_S, _LOOK_S)
        self._timer.start(self._turn)
        start_new_thread(self._watch, ())

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True
        self._timer.stop()

    def _turn(self) -> None:
        self._turned = time.monotonic()

    def _watch(self) -> None:
        mark_thread()
        told = stopped = 0.0
        while not self._stopped:
            sleep(_LOOK_S)
            turned = self._turned
            stuck_s = time.monotonic() - turned
            if stuck_s < 2 * _LOOK_S:
                continue
            frame = sys._current_frames().get(self._thread)
            order = self._order(frame)
            if order is not None and order.due_ns and time.monotonic_ns() > order.due_ns and stopped != turned:
                stopped = turned
                order.late = order.late or "soft time limit"
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(SoftTimeLimitExceeded)
                )
            if stuck_s >= _STUCK_S and told != turned:
                told = turned
                _tell(frame, order, stuck_s)

    def _order(self, frame: FrameType | None) -> Order | None:
        while frame is not None:
            if frame.f_code is self._serving:
                order = frame.f_locals.get("order")
                return order if isinstance(order, Order) else None
            frame = frame.f_back
        return None


def _tell(frame: FrameType | None, order: Order | None, stuck_s: float) -> None:
    # Not by `logging`: its locks are green ones.
    who = "something" if order is None else f"order {order.id} at {order.key!r} ({order.name})"
    stack = "".join(traceback.format_stack(frame, _FRAMES)) if frame is not None else ""
    text = f"greenlane work: {who} has not yielded for {stuck_s:.1f} s: no other order runs meanwhile\n{stack}"
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))
