"""One operation on its way to the store and back: settled once, or abandoned by its caller."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from greenlane.errors import GreenlaneError, StoreError
from greenlane.threads.unpatched import allocate_lock
from greenlane_work.store.rules import Answer, Kind, Operation

__all__ = ["Item", "Told", "withdrawal"]

#: Called on the store's thread, once: an answer, or why there is none.
Told = Callable[["Answer | GreenlaneError"], object]


@dataclasses.dataclass(slots=True, eq=False)
class Item:
    """An operation that waits for its answer."""

    operation: Operation
    #: Called with the answer, on the store's thread; it must not block.
    told: Told
    #: By `now_ns`; then a question is withdrawn when the store has failed; 0 = never.
    patience_until_ns: int = 0
    #: It has been in a batch that failed, so the store may have applied it.
    tried: bool = False
    #: Why the store failed when it was last tried.
    why: StoreError | None = None
    #: The answer has been given; the caller has left.
    settled: bool = False
    left: bool = False
    _lock: Any = dataclasses.field(default_factory=allocate_lock)

    def settle(self, answer: Answer | GreenlaneError) -> bool:
        """Give the answer; False = the caller has left. A caller that cannot leave any longer has got it."""
        with self._lock:
            taken = not (self.settled or self.left)
            self.settled = True
            if taken:
                self._tell(answer)
        return taken

    def leave(self) -> bool:
        """Abandon it; False = the answer has come."""
        with self._lock:
            self.left = not self.settled
            return self.left

    def _tell(self, answer: Answer | GreenlaneError) -> None:
        try:
            self.told(answer)
        except Exception:  # the store's thread serves everybody; `logging` may have green locks
            sys.excepthook(*sys.exc_info())


def withdrawal(operation: Operation) -> Item:
    """Give the item that takes a question back: nothing was called, and nobody waits to hear it."""
    taken_back = dataclasses.replace(operation, kind=Kind.WITHDRAW, reason="the caller had left")
    return Item(taken_back, lambda _: None)
