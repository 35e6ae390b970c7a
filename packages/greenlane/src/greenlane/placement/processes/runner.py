"""Runs calls one after the other in a process that was started for them: a worker's half of a call."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from greenlane import deadline
from greenlane.errors import Cancelled, DeadlineExceeded
from greenlane.placement.processes.answers import error_parcel, result_parcel
from greenlane.placement.processes.messages import ERROR, RESULT
from greenlane.placement.processes.names import found
from greenlane.placement.processes.parcel import MOST_BYTES, Parcel, unpack

__all__ = ["Runner"]

# Our frames between the loop and a function: left out of what its caller sees.
_OUR_FRAMES: Final = 1


class Runner:
    """The call that runs is what `greenlane.checkpoint()` asks."""

    def __init__(self, main: Sequence[str], cancelled: Callable[[], int]) -> None:
        """Take what it must know.

        Args:
            main: how multiprocessing finds the program's main module again; empty words = there is none.
            cancelled: gives the call whose caller has left.
        """
        self._main = main
        self._cancelled = cancelled
        self._call_id = self._due_ns = 0

    def check(self) -> None:
        """Raise if the caller has left."""
        # The parent cancels what is late, too: read first, so that the clock tells why.
        is_cancelled = self._cancelled() == self._call_id
        if self._due_ns and time.monotonic_ns() >= self._due_ns:
            raise DeadlineExceeded()
        if is_cancelled:
            raise Cancelled()

    def outcome(self, call_id: int, due_ns: int, parts: list[Any], *, names_main: bool) -> tuple[int, Parcel]:
        """Run a call: gives RESULT or ERROR, and the parcel. `parts`, its pickle and buffers, is emptied."""
        name = "?"
        self._call_id, self._due_ns = call_id, due_ns
        try:
            if names_main:
                self._know_main()
            fn, args, kwargs = unpack(*parts)
            parts[1].clear()
            parts.clear()
            if type(fn) is str:
                name, fn = fn, self.function(fn)
            context = contextvars.copy_context()
            context.run(deadline.enter, self, due_ns)
            self.check()
            result = context.run(fn, *args, **kwargs)
            del args, kwargs
            return RESULT, result_parcel(result, name, MOST_BYTES)
        except BaseException as error:
            return ERROR, error_parcel(_without_ours(error))

    def function(self, name: str) -> Callable[..., Any]:
        """Import a function by its name."""
        if name.startswith("__main__:"):
            self._know_main()
        return found(name)

    def _know_main(self) -> None:
        """Import the program's main module, under the name that keeps its `if __name__ == "__main__"` from running."""
        main, self._main = self._main, ("", "")
        if main[0]:
            from multiprocessing import spawn  # 20 ms that most programs can do without

            spawn.prepare({main[0]: main[1]})


def _without_ours(error: BaseException) -> BaseException:
    traceback = error.__traceback__
    for _ in range(_OUR_FRAMES):
        if traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
    return error.with_traceback(traceback)
