"""The end of a worker whose parent is gone and that does not heed the kernel's SIGTERM.

Python code hears a signal in its main thread only, between two instructions; a loop that a request blocks, or code that
ignores SIGTERM, would keep a worker for ever that nobody is left to kill.
"""

from __future__ import annotations

import os
import select
import signal
from typing import Final

from greenlane import real

__all__ = ["end_with_parent"]

# What a worker that ends in time needs after its last request.
_MORE_S: Final = 1.0


def end_with_parent(alive_fd: int, stop_s: float) -> None:
    """Kill this process `stop_s` and a second after the parent has ended, in a thread that costs nothing until then.

    Args:
        alive_fd: read end of a pipe whose other end the parent alone holds.
        stop_s: what requests in progress may still take.
    """

    def watch() -> None:
        waiting = real.poll()
        waiting.register(alive_fd, select.POLLIN)
        waiting.poll()
        real.sleep(stop_s + _MORE_S)
        os.kill(os.getpid(), signal.SIGKILL)

    real.start_new_thread(watch, ())
