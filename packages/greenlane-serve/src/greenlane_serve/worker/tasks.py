"""Where the tasks of an event loop stand, said in the log by signal, where faulthandler says where the threads are."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

__all__ = ["listen", "standing"]

# Without a configuration of the application's own it goes to stderr as it is.
_log: Final = logging.getLogger("greenlane")
# A loop may have thousands: those that have waited longest are among the first.
_MOST: Final = 50


def listen() -> None:
    """On SIGUSR2, from now on. The loop says it, so a blocked one does not: faulthandler tells why."""
    faulthandler.unregister(signal.SIGUSR2)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, _say)


def _say() -> None:
    for task in list(asyncio.all_tasks())[:_MOST]:
        where = "".join(f"  {line}\n" for line in standing(task.get_coro()))
        _log.error("Task %s (outermost call first):\n%s", task.get_name(), where)


def standing(coroutine: Any) -> Iterator[str]:
    """The calls that wait for one another, from a coroutine to the innermost."""
    while coroutine is not None:
        frame: FrameType | None = next(
            (found for name in ("cr_frame", "gi_frame", "ag_frame") if (found := getattr(coroutine, name, None))), None
        )
        if frame is not None:
            code = frame.f_code
            yield f'File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}'
        wrapped = getattr(coroutine if frame is None else frame.f_locals.get("self"), "awaited", None)
        coroutine = wrapped or getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
