"""One operation on its way to the store and back: settled once, or abandoned by its caller."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

from greenlane.errors import GreenlaneError, StoreError
from greenlane.threads.unpatched import allocate_lock
from greenlane_work.store.rules import Answer, Kind, Operation

__all__ = ["Item", "Told", "withdrawal"]

#: Called on the store's thread, once: an answer, or why there is none.
Told = Callable[["Answer | GreenlaneError"], object]


class Item:
    """An operation that waits for its answer."""

    __slots__ = ("_left", "_lock", "_settled", "_told", "operation", "patience_until_ns", "tried", "why")

    def __init__(self, operation: Operation, told: Told, patience_until_ns: int) -> None:
        """Made by the store.

        Args:
            operation: what is asked.
            told: called with the answer, on the store's thread; it must not block.
            patience_until_ns: by `now_ns`; then a question is withdrawn when the store has failed; 0 = never.
        """
        self.operation = operation
        self.patience_until_ns = patience_until_ns
        #: It has been in a batch that failed, so the store may have applied it.
        self.tried = False
        #: Why the store failed when it was last tried.
        self.why: StoreError | None = None
        self._told = told
        self._settled = False
        self._left = False
        self._lock = allocate_lock()

    @property
    def left(self) -> bool:
        """The caller has left."""
        return self._left

    @property
    def settled(self) -> bool:
        """The answer has been given."""
        return self._settled

    def settle(self, answer: Answer | GreenlaneError) -> bool:
        """Give the answer; False = the caller has left. A caller that cannot leave any longer has got it."""
        with self._lock:
            taken = not (self._settled or self._left)
            self._settled = True
            if taken:
                self._tell(answer)
        return taken

    def leave(self) -> bool:
        """Abandon it; False = the answer has come."""
        with self._lock:
            self._left = not self._settled
            return self._left

    def _tell(self, answer: Answer | GreenlaneError) -> None:
        try:
            self._told(answer)
        except Exception:  # the store's thread serves everybody; `logging` may have green locks
            sys.excepthook(*sys.exc_info())


def withdrawal(operation: Operation) -> Item:
    """Give the item that takes a question back: nothing was called, and nobody waits to hear it."""
    taken_back = dataclasses.replace(operation, kind=Kind.WITHDRAW, reason="the caller had left")
    return Item(taken_back, lambda _: None, 0)
