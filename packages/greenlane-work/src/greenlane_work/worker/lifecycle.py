"""The values of an order's life: what happens to it (events), how a run ends (outcomes), and what is done (effects).

`greenlane_work.order` has its states, and `transitions` says what follows from what.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from greenlane_work.limits import CallOutcome
from greenlane_work.order import Run


class Place(enum.Enum):
    """Where a copy goes; the values are methods of `Queues`."""

    OWN = "own"
    LATER = "later"
    DEAD = "dead"


class Keep(enum.Enum):
    """What is remembered of a message that is acknowledged, for when it comes again all the same."""

    NOTHING = 0
    #: It is done with, whatever copy of it comes.
    ENDED = 1
    #: The same, and its call went well.
    DONE = 2
    #: It has a copy, which counts.
    REPLACED = 3


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the message, to be confirmed by the broker."""

    place: Place
    #: It must not begin sooner anyway.
    least_s: float = 0.0
    #: Of a dead letter: a word for why, and a sentence.
    reason: str = ""
    said: str = ""


# --- how a run ends ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Success:
    """The task has ended well; `value` is its result as text."""

    value: Any
    runtime: float


@dataclass(frozen=True, slots=True)
class Retry:
    """It is run again by this worker. `counted`: an attempt was made; `outcome` and `why` are for its history."""

    at_ns: int
    counted: bool = True
    outcome: str = "failed"
    why: str = ""


@dataclass(frozen=True, slots=True)
class OwnRetry:
    """The task has published its next attempt itself, confirmed by the broker."""

    exception: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Answer:
    """It failed with what its task calls an answer. `error`: to be written down; None = it is."""

    error: BaseException | None
    exception: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Death:
    """It is not to be run again. See `Burial`; `note`: for its history, outcome and why."""

    burial: Burial
    note: tuple[str, str] | None = None
    exception: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Loss:
    """The broker has it back: the next worker runs it."""


# --- what happens to an order -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Admission:
    """It may begin here, when its time has come."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """Its acknowledgement was lost: it ended here before."""


@dataclass(frozen=True, slots=True)
class Recount:
    """Somebody had it before, and nobody counts that: it is published with one delivery more."""


@dataclass(frozen=True, slots=True)
class Removal:
    """It goes back to its queue: for a while, at least this long, or at once."""

    reason: str
    least_s: float = 0.0
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Burial:
    """It goes to the dead letters.

    Args:
        reason: a word for why.
        said: a sentence.
        error: the failure of its task that Celery's tracer has not written down; None = it has, or there is none.
        logged: an error of this death is in the log already. Who counts errors, as Sentry does, counts it once.
    """

    reason: str
    said: str
    error: BaseException | None = None
    logged: bool = False


@dataclass(frozen=True, slots=True)
class Revocation:
    """It was revoked, or has expired. `unwritten`: its result does not say so yet."""

    unwritten: bool = False


@dataclass(slots=True)
class Start:
    """Its key lets it begin."""

    run: Run
    #: What let it through: its key, and its provider; `greenlane._native.Start`.
    start: Any = None
    passed: Any = None


@dataclass(frozen=True, slots=True)
class NoRoom:
    """It must leave for want of room. `after_s`: and not come back sooner."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lateness:
    """Its deadline passed while it waited."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Disconnection:
    """The connection that it came by is lost."""


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """The worker ends."""


@dataclass(slots=True)
class RunEnd:
    """Its attempt is over. `call`: what that says of its upstream."""

    outcome: Outcome
    call: CallOutcome


@dataclass(frozen=True, slots=True)
class Settling:
    """Its place is free: what its outcome asks for follows."""


@dataclass(frozen=True, slots=True)
class Written:
    """Its end is written down, or is not waited for any longer."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The broker has its copy; else it never will by this connection."""

    published: bool = True


# --- what is done -----------------------------------------------------------------------------------------------------


class Do(enum.IntEnum):
    """What is done: the first of an effect. The comments say what its second is; else that is None."""

    # Count it in the worker's totals: the name there.
    COUNT = enum.auto()
    # Count it in the order's headers: `returns`, `deliveries`.
    INCREMENT = enum.auto()
    # Add to its history: outcome and why.
    NOTE = enum.auto()
    # Send one of Celery's events: its name, and its fields.
    TELL = enum.auto()
    # Let it wait for its key, or first for its time: monotonic ns, 0 = for its key.
    PARK = enum.auto()
    # Its next attempt begins at this time, which its copies are to know: monotonic ns.
    POSTPONE = enum.auto()
    # Take it out of those that wait.
    WITHDRAW = enum.auto()
    # Ask the store for it, and let it run: `Start`.
    BEGIN = enum.auto()
    # Its place is free, and its upstream's rules learn how the call ended: its run, and how; None = it was not called.
    RELEASE = enum.auto()
    # Keep back what comes with the same identity: begun now, it could end this worker with both.
    HOLD = enum.auto()
    # Take over what was kept back.
    LET_IN = enum.auto()
    # Remember that it is to be a dead letter, `Burial`: if it comes again, it is not run again.
    CONDEMN = enum.auto()
    # Let its end be written down: its failure (None = that it was revoked), and the run that has failed, if one has.
    WRITE = enum.auto()
    # Publish its copy: `Copy`.
    PUBLISH = enum.auto()
    # The broker is told that it is done with: `Keep`.
    ACKNOWLEDGE = enum.auto()
    # The broker gets it back, with all deliveries of it.
    REQUEUE = enum.auto()
    # Celery's tables forget it; the broker has it.
    FORGET = enum.auto()


Outcome = Success | Retry | OwnRetry | Answer | Removal | Death | Revocation | Loss
Event = (
    Admission | Repetition | Recount | Removal | Burial | Revocation | Start | NoRoom | Lateness | Disconnection
    | WorkerEnd | RunEnd | Settling | Written | Confirmation
)  # fmt: skip
Effect = tuple[Do, Any]
