"""The store's thread: what has come in since the last commit is the next batch, and one commit serves all of it.

Under little load an operation is alone in its commit and waits for nothing; under more of it a commit begins at the
earliest 10 ms after the one before, and 20 ms after one of several operations, so that several share one; under much of
it many share one anyway.

A store that fails is tried again, in the order in which things were asked, until it works. Endings (`done` and its
like) stay until then, however long; a question whose caller has left is taken back: out of the queue, or by a
withdrawal where the store may have recorded it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from greenlane.errors import StoreError, StoreRefused
from greenlane.threads.unpatched import RLock
from greenlane_work.store.backend import Backend, Leaseholder, Tidied
from greenlane_work.store.item import Item, withdrawal
from greenlane_work.store.record import State
from greenlane_work.store.rules import Answer, Kind, Outcomes
from greenlane_work.store.shared import Ask, Share
from greenlane_work.store.waiting import NS, GreenBell, RealBell, now_ns

__all__ = ["Committer", "Counts", "closed"]

_MOST: Final = 256  # operations of one commit: bounds a transaction's memory and what a failure repeats. Arbitrary.
#: A commit begins so long after the one before, unless 16 operations wait. One that comes alone is served at once. At
#: 250 orders/s a commit then serves some five operations, for as many ms of latency: each gives the GIL away often.
_SPACING_NS: Final = 10_000_000
_ENOUGH: Final = 16
#: After a commit of this many operations the next commit waits twice as long: the store is busy.
_BUSY: Final = 4
#: Waits between two attempts at a store that fails: each twice the one before, and a random share of it.
_RETRY_S: Final = (0.02, 1.0)
#: Between two tidyings: when all has been looked at, when more is there, and when there is much to forget.
_TIDY_S: Final = (60.0, 1.0, 0.05)
#: A lease is renewed when a third of it is over: two renewals may fail.
_RENEW_FRAC: Final = 1 / 3

Visit = Callable[[Backend], object]


@dataclasses.dataclass
class Counts:
    """What the store's thread has done."""

    operations: int = 0
    commits: int = 0
    failures: int = 0
    withdrawn: int = 0
    shares: int = 0
    forgotten: int = 0


class Committer:
    """Applies operations in batches on one thread. `submit` and `visit` from any thread; `run` is the thread."""

    def __init__(self, backend: Backend, owner: Leaseholder) -> None:
        """Make it; nothing runs before `run`."""
        #: Set before `run` where the thread is a greenlet.
        self.bell: RealBell | GreenBell = RealBell()
        self.counts = Counts()
        #: Why the store failed the last time; None = it works.
        self.trouble: StoreError | None = None
        #: By `now_ns`: until then the lease surely holds; 0 = it does not.
        self.lease_until_ns = 0
        self._backend = backend
        self._owner = owner
        # Reentrant: a signal's handler may close the store in the middle of anything.
        self._lock = RLock()
        self._queue: deque[Item] = deque()
        # Operations of the batch that is being applied.
        self._in_hand = 0
        self._visits: deque[Visit] = deque()
        # Attempts that run here, each with the number of lapses that the lease had had when it began.
        self._running: dict[str, int] = {}
        self._lapses = 0
        self._until_ns: int | None = None
        self._failed_in_turn = 0
        # By `now_ns`: before that no commit begins for a few operations.
        self._next_ns = 0
        # Soon after the start: a worker that is restarted every hour must forget, too.
        self._tidy_ns = now_ns() + NS
        self.ended = False
        #: Endings that could not be said before the end.
        self.unsaid = 0

    @property
    def waiting(self) -> int:
        """Operations that have no answer yet."""
        return len(self._queue) + self._in_hand

    def submit(self, item: Item) -> None:
        """Take an operation; its answer comes on the thread."""
        with self._lock:
            ended = self.ended
            if not ended:
                self._queue.append(item)
        if ended:
            item.settle(closed())
        self.bell.ring()

    def visit(self, visit: Visit) -> bool:
        """Have something else done with the backend, on the thread, between two batches; False = it has ended."""
        with self._lock:
            if not self.ended:
                self._visits.append(visit)
        self.bell.ring()
        return not self.ended

    def share(self, asked: Sequence[Ask], told: Callable[[list[Share] | StoreError], object]) -> bool:
        """Have shares of limits decided, on the thread; False = it has ended, and nobody is told."""

        def go(backend: Backend) -> None:
            if self.trouble is not None:  # whether the store works again is seen by a renewal: one try for all
                told(self.trouble)
                return
            began_ns = now_ns()
            renew = self._third_over()
            try:
                given = backend.share(asked, self._owner, renew)
            except Exception as error:
                told(_store_error("share limits in the store", self._backend.place, error))
                return
            if renew:
                self._renewed(began_ns)
            self.counts.shares += 1
            told(given)

        return self.visit(go)

    def finish(self, within_s: float) -> None:
        """Apply what is there and end, after this many seconds at the latest."""
        self._until_ns = now_ns() + int(within_s * NS)
        self.bell.ring()

    def run(self) -> None:
        """Serve until `finish`."""
        try:
            while not self._over():
                self._visit()
                self._tidy()
                self._gather()
                batch = self._batch()
                renew = self._renewal_due()
                if batch or renew:
                    self._apply(batch, renew)
                    self._in_hand = 0
                else:
                    self.bell.wait(self._pause_s())
            self._leave()
        finally:
            self.end()
            self._backend.close()

    def end(self) -> None:
        """Stop taking operations; what has no answer gets none."""
        with self._lock:
            self.ended = True
            left = [*self._queue]
            self._queue.clear()
        self.unsaid = sum(item.operation.kind is not Kind.BEGIN for item in left)
        for item in left:
            item.settle(self.trouble or closed())
        self._visit()

    def _over(self) -> bool:
        if self._until_ns is None:
            return False
        return not (self._queue or self._visits) or now_ns() >= self._until_ns

    def _gather(self) -> None:
        """Let more come in where commits would follow one another closely."""
        left_ns = self._next_ns - now_ns()
        if left_ns > 0 and 0 < len(self._queue) < _ENOUGH:
            self.bell.pause(left_ns / NS)

    def _batch(self) -> list[Item]:
        """Take the next operations, without questions whose caller has left.

        While the store fails, only what it may have recorded already, and endings: a question that it has never seen
        can be given up without a trace.
        """
        taken: list[Item] = []
        kept: list[Item] = []
        with self._lock:
            while self._queue and len(taken) < _MOST:
                item = self._queue.popleft()
                is_question = item.operation.kind is Kind.BEGIN
                if is_question and (item.left or item.settled):
                    self.counts.withdrawn += 1
                    if item.tried:
                        taken.append(withdrawal(item.operation))
                elif is_question and self.trouble is not None and not item.tried:
                    kept.append(item)
                else:
                    taken.append(item)
            self._queue.extendleft(reversed(kept))
            self._in_hand = len(taken)
        return taken

    def holds(self, token: str) -> bool:
        """Whether the lease surely held from this attempt's begin until now. From any thread."""
        return self._running.get(token) == self._lapses and now_ns() < self.lease_until_ns

    def _apply(self, batch: list[Item], renew: bool) -> None:
        began_ns = now_ns()
        self._next_ns = began_ns + _SPACING_NS * (1 + (len(batch) >= _BUSY))
        renew = renew or (any(item.operation.kind is Kind.BEGIN for item in batch) and self._third_over())
        try:
            outcomes = self._backend.apply([item.operation for item in batch], self._owner, renew)
        except StoreError as error:
            self._failed(batch, error)
        except Exception as error:
            self._one_by_one(batch, error)
        else:
            self._went_well(batch, outcomes, began_ns if renew else 0)

    def _went_well(self, batch: list[Item], outcomes: Outcomes, renewed_ns: int) -> None:
        self.trouble, self._failed_in_turn = None, 0
        self.counts.operations += len(batch)
        self.counts.commits += 1
        if renewed_ns:
            self._renewed(renewed_ns)
        for item, outcome in zip(batch, outcomes, strict=True):
            self._note(item, outcome)
            if not item.settle(outcome) and _claims(item, outcome):
                self.counts.withdrawn += 1
                self._again([withdrawal(item.operation)])

    def _renewed(self, began_ns: int) -> None:
        # Others may have taken over what had begun before: a renewal does not bring it back.
        self._lapses += 0 < self.lease_until_ns <= now_ns()
        self.lease_until_ns = began_ns + int(self._owner.lease_s * NS)

    def _note(self, item: Item, outcome: Answer | StoreRefused) -> None:
        """Keep count of what runs here: the lease is renewed as long as something does."""
        if _claims(item, outcome):
            self._running[item.operation.token] = self._lapses
        elif item.operation.kind not in (Kind.BEGIN, Kind.ABSENT):
            self._running.pop(item.operation.token, None)

    def _failed(self, batch: list[Item], error: StoreError) -> None:
        """Put a batch back, settle the callers that have timed out, and wait a little."""
        self.trouble = error
        self.counts.failures += 1
        self._failed_in_turn += 1
        for item in batch:
            item.tried, item.why = True, error
        self._again(batch)
        self._in_hand = 0
        self._give_up(error)
        self._visit()
        least_s, most_s = _RETRY_S
        seconds = min(least_s * 2 ** min(self._failed_in_turn, 16), most_s) * random.uniform(0.5, 1.0)
        until_ns = now_ns() + int(seconds * NS)
        while (left_ns := until_ns - now_ns()) > 0 and not self._over():  # new operations do not hurry it
            self.bell.wait(left_ns / NS)

    def _give_up(self, error: StoreError) -> None:
        """Answer the questions that have waited long enough for a store that fails."""
        at_ns = now_ns()
        with self._lock:
            questions = [item for item in self._queue if item.operation.kind is Kind.BEGIN]
        for item in questions:
            item.why = error
            if isinstance(error, StoreRefused) or 0 < item.patience_until_ns <= at_ns:
                item.settle(error)

    def _one_by_one(self, batch: list[Item], error: Exception) -> None:
        """An error that is none of the store's: find whose it is, and let the others through."""
        if len(batch) > 1:
            for item in batch:
                self._apply([item], False)
        elif batch:
            item = batch[0]
            item.settle(_store_error(f"say {item.operation.kind.value} to the store", item.operation.key, error))
        else:
            self._failed([], _store_error("renew a lease", self._owner.name, error))

    def _again(self, batch: list[Item]) -> None:
        with self._lock:
            self._queue.extendleft(reversed(batch))

    def _third_over(self) -> bool:
        return now_ns() >= self._renewal_ns()

    def _renewal_ns(self) -> int:
        return self.lease_until_ns - int(self._owner.lease_s * NS * (1 - _RENEW_FRAC))

    def _renewal_due(self) -> bool:
        """Also where the store has failed: a renewal is how it is tried again when nothing else may be."""
        return self.trouble is not None or (bool(self._running) and self._third_over())

    def _pause_s(self) -> float:
        at_ns = now_ns()
        due_ns = self._tidy_ns
        if self._running:
            due_ns = min(due_ns, self._renewal_ns())
        return 0.0 if self._visits else max(due_ns - at_ns, 0) / NS

    def _tidy(self) -> None:
        """Forget what is over its time, a piece at a time, between batches."""
        if now_ns() < self._tidy_ns or self.trouble is not None:
            return
        tidied = Tidied(0, False)
        try:
            tidied = self._backend.tidy()
        except Exception as error:  # orders matter more than what is left lying about
            self.trouble = _store_error("tidy the store", self._backend.place, error)
        self.counts.forgotten += tidied.gone
        every, looking, forgetting = _TIDY_S
        pause_s = every if not tidied.more else forgetting if tidied.gone else looking
        self._tidy_ns = now_ns() + int(pause_s * NS)

    def _visit(self) -> None:
        for _ in range(len(self._visits)):  # not those that come meanwhile: operations wait behind these
            with self._lock:
                visit = self._visits.popleft()
            visit(self._backend)

    def _leave(self) -> None:
        """End the lease, if it holds: what still runs here is in doubt from now on."""
        if self.lease_until_ns and not self._queue:
            with contextlib.suppress(StoreError):
                self._backend.leave(self._owner)


def _claims(item: Item, outcome: Answer | StoreRefused) -> bool:
    began = item.operation.kind is Kind.BEGIN and isinstance(outcome, Answer)
    return began and outcome.state in (State.NEW, State.UNKNOWN)  # type: ignore[union-attr]


def closed() -> StoreError:
    """Why a closed store answers nothing."""
    return StoreRefused("ask the store", name="store", value="closed", rule="one that is open")


def _store_error(attempted: str, what: str, error: Exception) -> StoreError:
    if isinstance(error, StoreError):
        return error
    rule = f"a plain answer, not {type(error).__name__}: {error}"
    hint = "report it with this message: it is a bug of the store"
    return StoreRefused(attempted, name="key", value=what, rule=rule, hint=hint)
