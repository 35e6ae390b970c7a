"""The store of orders, as a worker uses it: asked before the call, told how it ended.

    begun = store.begin("order-4711")
    if begun.state is State.NEW:
        store.done("order-4711", call())

- One for a process. Its lease is renewed by itself while any order runs here; when the process dies, whatever it had
  running is in doubt (`State.UNKNOWN`) for the next one that begins it.
- From threads and greenlets alike. A greenlet that waits lets its hub go on.
- A forked child that uses it has a lease and a connection of its own.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from greenlane.errors import GreenlaneError, StoreError, StoreUnavailable
from greenlane.threads.unpatched import RLock, in_forked_child, start_new_thread, threads_are_green
from greenlane_work.keys import checked_key, checked_reason
from greenlane_work.store.backend import Backend, Leaseholder
from greenlane_work.store.committer import Committer, Counts, closed
from greenlane_work.store.item import Item, Told, withdrawal
from greenlane_work.store.record import Record, State
from greenlane_work.store.rules import Answer, Kind, Operation
from greenlane_work.store.shared import Ask, Share
from greenlane_work.store.waiting import NS, GreenBell, home, now_ns, waiter

__all__ = ["LEASE_S", "PATIENCE_S", "RESULT_BYTES", "Store"]

#: Long enough for a process that is stopped for a garbage collection or a slow disk, short enough to wait for.
LEASE_S: Final = 30.0
#: A question waits this long for a store that does not answer; then the order waits instead.
PATIENCE_S: Final = 5.0
#: A longer result is not kept: the order is done all the same, with an empty one.
RESULT_BYTES: Final = 65_536

T = TypeVar("T")


class Store:
    """Orders and what is known of them."""

    def __init__(
        self,
        make: Callable[[], Backend],
        *,
        owner: str = "",
        lease_s: float = LEASE_S,
        patience_s: float = PATIENCE_S,
        result_bytes: int = RESULT_BYTES,
    ) -> None:
        """Nothing is opened, and no thread started, before the first use.

        Args:
            make: makes the backend; called again in a forked child.
            owner: this process's name in the history; "" = host and process id. A random part is added.
            lease_s: how long others wait for an order of this process after the last sign of it.
            patience_s: how long `begin` waits for a store that cannot be asked.
            result_bytes: a longer result is not kept.
        """
        self._make = make
        self._result_bytes = result_bytes
        self._name = owner
        self._lease_s = lease_s
        self._patience_s = patience_s
        self._reset_state()
        in_forked_child(self._reset_state)

    def _reset_state(self) -> None:
        """Start empty: a new store, or a forked child, where neither the thread nor the orders exist."""
        self._lock = RLock()
        self._started = False
        self._closed = False
        # A token is this process's own and a number: no system call for each.
        self._nonce = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._tokens: dict[str, str] = {}
        self._ended: list[Callable[[], object]] = []
        name = self._name or f"{socket.gethostname()}:{os.getpid()}"
        self._owner = Leaseholder(f"{name}:{secrets.token_hex(4)}", self._lease_s)
        backend = self._make()
        self._place = backend.place
        self._blocks = backend.blocks
        # A pool's thread may be the first that asks: its own hub turns only while it waits.
        self._hub = home()
        self._committer = Committer(backend, self._owner)

    @property
    def owner(self) -> str:
        """This process as the store knows it."""
        return self._owner.name

    @property
    def holds(self) -> bool:
        """Whether this process's lease surely holds now.

        What had begun before a lapse may be another one's all the same: before a call look at `holds_since_begin`.
        """
        return now_ns() < self._committer.lease_until_ns

    def holds_since_begin(self, token: str) -> bool:
        """Whether the lease surely held ever since the attempt with this token began, so that nobody has taken it over.

        Look right before the call, which may have waited for its turn, or for a process that was stopped: if not, say
        `failed` and `begin` again. True of running attempts of this process only.
        """
        return self._committer.holds(token)

    @property
    def trouble(self) -> StoreError | None:
        """Why the store failed the last time that it was tried; None = it works."""
        return self._committer.trouble

    @property
    def waiting(self) -> int:
        """Operations that the store has not answered yet."""
        return self._committer.waiting

    @property
    def counts(self) -> Counts:
        """What has been done."""
        return self._committer.counts

    def begin(self, key: str) -> Answer:
        """Ask for an order; where it gives NEW or UNKNOWN, the order is the caller's until it says how it ended.

        Raises:
            StoreError: the store could not be asked within the patience; nothing was begun, the order must wait.
            ValueError: no key.
        """
        return self._wait(self._operation(Kind.BEGIN, key), self._patience_s)

    def done(self, key: str, result: bytes = b"", *, token: str = "", patience_s: float | None = None) -> Answer:
        """Say that it has had its effect. Durable when this returns.

        Args:
            key: of an order begun here.
            result: kept for redeliveries, up to `result_bytes`.
            token: of the attempt, as `begin` gave it; "" = the one that was begun here last. Give it where an attempt
                may outlive the next one's begin.
            patience_s: how long to wait for a store that cannot be told; None = as long as that takes.

        Raises:
            StoreUnavailable: not within the patience; it is still said as soon as the store can be told.
        """
        return self._wait(self._operation(Kind.DONE, key, result, "", token), patience_s)

    def failed(self, key: str, reason: str, *, token: str = "", patience_s: float | None = None) -> Answer:
        """Say that this attempt certainly had no effect; see `done`."""
        return self._wait(self._operation(Kind.FAILED, key, b"", reason, token), patience_s)

    def unknown(self, key: str, reason: str, *, token: str = "", patience_s: float | None = None) -> Answer:
        """Report that the end of this attempt is unknown; see `done`."""
        return self._wait(self._operation(Kind.UNKNOWN, key, b"", reason, token), patience_s)

    def absent(self, key: str, *, token: str = "", patience_s: float | None = None) -> Answer:
        """Say that the upstream, when asked, had not seen the order: earlier attempts had no effect. It stays begun."""
        return self._wait(self._operation(Kind.ABSENT, key, b"", "", token), patience_s)

    def check(self) -> None:
        """Open the store and write to it, for a start that shall fail at once. Raises StoreError."""
        owner = self._owner
        self.visit(lambda backend: backend.apply([], owner, True))

    def submit(
        self, kind: Kind, key: str, told: Told, *, result: bytes = b"", reason: str = "", token: str = ""
    ) -> None:
        """Ask or say without waiting.

        Args:
            kind: `Kind.BEGIN`, `.DONE`, `.FAILED`, `.UNKNOWN`, `.ABSENT`.
            key: of the order.
            told: called with the answer, or with the error, on the store's thread; it must not block. A question is
                given up after the patience, an ending never.
            result: see `done`.
            reason: see `failed`.
            token: of the attempt, as `begin` gave it; "" = the one that was begun here last.
        """
        operation = self._operation(kind, key, result, reason, token)
        patience_ns = now_ns() + int(self._patience_s * NS) if kind is Kind.BEGIN else 0

        def noted(answer: Answer | GreenlaneError) -> None:
            self._note(operation, answer)
            told(answer)

        self._serve().submit(Item(operation, noted, patience_ns))

    def share(self, asked: Sequence[Ask], told: Callable[[list[Share] | StoreError], object]) -> None:
        """Ask for shares of limits without waiting; see `shared`.

        Args:
            asked: at most one for each key.
            told: called with the answers, or with the error, on the store's thread; it must not block.
        """
        if not self._serve().share(asked, told):
            told(closed())

    def history(self, key: str) -> Record | None:
        """What is known of an order; None = nothing. Waits for the store; raises StoreError."""
        return self.visit(lambda backend: backend.read(checked_key(key)))

    def find(self, state: State | None = None, most: int = 100) -> list[tuple[str, Record]]:
        """Orders in a state, or all, with their keys; at most this many."""
        return self.visit(lambda backend: list(backend.find(state, most)))

    def visit(self, ask: Callable[[Backend], T]) -> T:
        """Give what `ask` gives, on the store's thread. Raises what it raises, StoreUnavailable after the patience."""
        found: list[T] = []
        errors: list[Exception] = []
        waits = waiter()

        def go(backend: Backend) -> None:
            try:
                found.append(ask(backend))
            except Exception as error:
                errors.append(error)
            waits.wake()

        try:
            if not self._serve().visit(go):
                raise closed()
            waits.wait(self._patience_s)
        finally:
            waits.close()
        if errors:
            raise errors[0]
        if not found:
            raise self._no_answer("read", self.trouble, self._patience_s)
        return found[0]

    def close(self, within_s: float = 5.0) -> bool:
        """Say what is still to be said, end the lease and the thread; False = something could not be said in time.

        Orders that still run here are in doubt from then on.
        """
        with self._lock:
            self._closed = True
        if self._started:
            waits = waiter()
            try:
                self._ended.append(waits.wake)
                self._committer.finish(within_s)
                if not self._committer.ended:
                    waits.wait(within_s + 5)
            finally:
                waits.close()
        else:
            self._committer.end()
        return self._committer.unsaid == 0

    def _operation(self, kind: Kind, key: str, result: bytes = b"", reason: str = "", token: str = "") -> Operation:
        # An order that was not begun here is known by no token: `done` still counts, the others change nothing.
        known = "" if kind is Kind.BEGIN else token or self._tokens.get(key, "")
        kept = bytes(result) if len(result) <= self._result_bytes else b""
        token = known or f"{self._nonce}{next(self._numbers):x}"
        return Operation(kind, checked_key(key), self.owner, token, kept, checked_reason(reason))

    def _note(self, operation: Operation, answer: Answer | GreenlaneError) -> None:
        """Keep the token of what was begun here until its end is reported."""
        key = operation.key
        if operation.kind is Kind.BEGIN:
            if isinstance(answer, Answer) and answer.token:
                self._tokens[key] = answer.token
        elif operation.kind is not Kind.ABSENT and self._tokens.get(key) == operation.token:
            del self._tokens[key]

    def _wait(self, operation: Operation, patience_s: float | None) -> Answer:
        answers: list[Answer | GreenlaneError] = []
        waits = waiter()

        def told(answer: Answer | GreenlaneError) -> None:
            self._note(operation, answer)
            answers.append(answer)
            waits.wake()

        item = Item(operation, told)
        try:
            self._serve().submit(item)
            waits.wait(patience_s)
        except BaseException:
            # Killed, or interrupted, with the answer on its way: nobody is there to make the call.
            if not item.leave() and operation.kind is Kind.BEGIN:
                self._committer.submit(withdrawal(operation))
            raise
        finally:
            waits.close()
        if item.leave():
            raise self._no_answer(operation.kind.value, item.why or self.trouble, patience_s)
        if isinstance(answers[0], GreenlaneError):
            raise answers[0]
        return answers[0]

    def _no_answer(self, what: str, why: StoreError | None, patience_s: float | None) -> StoreError:
        if why is not None:
            return why
        return StoreUnavailable(
            f"{what}: ask the store", name="store", value=self._place, rule=f"an answer within {patience_s or 0:g} s",
            hint="see whether its server or disk answers",
        )  # fmt: skip

    def _serve(self) -> Committer:
        """The thread, started if it is not there."""
        if not self._started:
            with self._lock:
                if not self._started and not self._closed:
                    self._start()
        return self._committer

    def _start(self) -> None:
        committer = self._committer
        if threads_are_green() and not self._blocks:
            # Sockets are cooperative here, and a driver on a thread of the operating system would give it a hub.
            gevent: Any = sys.modules["gevent"]
            hub = self._hub or gevent.get_hub()
            committer.bell = GreenBell(hub)
            hub.loop.run_callback_threadsafe(gevent.spawn, self._run, committer)
        else:
            start_new_thread(self._run, (committer,))
        self._started = True

    def _run(self, committer: Committer) -> None:
        try:
            committer.run()
        finally:
            for wake in self._ended:
                wake()
