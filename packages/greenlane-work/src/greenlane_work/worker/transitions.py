"""An order's life in one table: from a state and an event to the next state, and what is to be done then.

Nothing is done here; `effects` does it.

    Received -> Parked -> Running -> Finished(outcome) -> Leaving -> Ended

A message is acknowledged in no other case than these: its task succeeded; it failed with what its task calls an answer
(`throws`), or was revoked, and that is written down; its copy, to be run elsewhere or later, or its dead letter, was
confirmed by the broker; the task itself published its retry. A time limit by itself settles nothing.

Example:
    >>> state, effects = step(Received(), life.Admission(), Context)
    >>> state
    Parked(from_ns=0, done=None)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from greenlane_work.order import ENDED, Done, Finished, Leaving, Parked, Received, Running, State
from greenlane_work.worker import lifecycle as life
from greenlane_work.worker.lifecycle import Do, Effect, Keep

__all__ = ["TABLE", "Context", "Step", "step"]


@dataclass(frozen=True, slots=True)
class Context:
    """What a transition may look at beside state and event."""

    now_ns: int = 0
    #: When the order will have been here for as long as it may.
    leaves_ns: int = 0
    parked_most_ns: int = 0
    #: As many wait here for their time as may.
    full: bool = False
    #: A store knows of calls that are over; else only this process does.
    stored: bool = False
    #: The broker has the message back.
    stale: bool = False


#: What follows from an event: the next state, and what is to be done, in this order.
Step = tuple[State, tuple[Effect, ...]]
#: Gives the context; most transitions need none.
Look = Callable[[], Context]
Rule = TypeVar("Rule", bound=Callable[[Any, Any, Look], Step | None])
TABLE: Final[dict[tuple[type[State], type[life.Event]], Callable[[Any, Any, Look], Step | None]]] = {}

_NS: Final = 1e9
# Of nearly every order: made once.
_PARKED: Final[Step] = (Parked(), ((Do.PARK, 0),))
_COUNT_DONE: Final[Effect] = (Do.COUNT, "done")
_DONE: Final[Effect] = (Do.ACKNOWLEDGE, Keep.DONE)
_END: Final[Effect] = (Do.ACKNOWLEDGE, Keep.ENDED)
_HOLD: Final[Effect] = (Do.HOLD, None)


def step(state: State, event: life.Event, look: Look) -> Step | None:
    """Give what follows; None = the event does not concern an order in this state: it came too late."""
    rule = TABLE.get((type(state), type(event)))
    return None if rule is None else rule(state, event, look)


def _on(event: type[life.Event], *states: type[State]) -> Callable[[Rule], Rule]:
    def entered(rule: Rule) -> Rule:
        TABLE.update(dict.fromkeys(((state, event) for state in states), rule))
        return rule

    return entered


# --- received ---------------------------------------------------------------------------------------------------------


@_on(life.Admission, Received)
def _admit(state: Received, _event: life.Admission, look: Look) -> Step:
    if not state.from_ns:
        return _PARKED
    context = look()
    left_ns = state.from_ns - context.now_ns
    if left_ns > context.parked_most_ns:  # a message must not stay here for long
        return _give_back("its time is far off", (left_ns - context.parked_most_ns / 2) / _NS)
    return _keep(state.from_ns, None, context)


@_on(life.Repetition, Received)
def _end_again(_state: Received, _event: life.Repetition, _look: Look) -> Step:
    return ENDED, ((Do.COUNT, "acked_again"), (Do.ACKNOWLEDGE, Keep.NOTHING))


@_on(life.Recount, Received)
def _recount(_state: Received, _event: life.Recount, _look: Look) -> Step:
    copy = life.Copy(life.Place.OWN)
    return Leaving(copy), ((Do.COUNT, "counted"), (Do.INCREMENT, "deliveries"), _HOLD, (Do.PUBLISH, copy))


@_on(life.Removal, Received)
def _remove(_state: State, event: life.Removal, _look: Look) -> Step:
    return _give_back(event.reason, event.least_s, life.Place.OWN if event.at_once else life.Place.LATER)


# --- not begun --------------------------------------------------------------------------------------------------------


@_on(life.Burial, Received, Parked, Running)
def _bury(state: State, event: life.Burial, _look: Look) -> Step:
    unwritten = event.error is not None
    copy = life.Copy(life.Place.DEAD, reason=event.reason, said=event.said)
    run = state.run if isinstance(state, Finished) else None
    follows: Effect = (Do.WRITE, (event.error, run)) if unwritten else (Do.PUBLISH, copy)
    return Leaving(copy, unwritten), (*_cancelled(state), (Do.COUNT, "dead"), (Do.CONDEMN, event), _HOLD, follows)


@_on(life.Revocation, Received, Parked, Running)
def _revoke(state: State, event: life.Revocation, _look: Look) -> Step:
    before: tuple[Effect, ...] = (*_cancelled(state), (Do.COUNT, "revoked"))
    if event.unwritten:
        return Leaving(None, unwritten=True), (*before, _HOLD, (Do.WRITE, (None, None)))
    return ENDED, (*before, _END)


def _cancelled(state: State) -> tuple[Effect, ...]:
    """What it has a place for is not called."""
    run = state.run if isinstance(state, Running) else None
    return ((Do.RELEASE, (run, None)),) if isinstance(state, Parked | Running) else ()


@_on(life.NoRoom, Parked)
def _no_room(state: Parked, event: life.NoRoom, look: Look) -> Step:
    context = look()
    if _stays(state.done, context):
        return _keep(context.now_ns + int(event.after_s * _NS), state.done, context)
    return _give_back("no room", event.after_s)


@_on(life.Lateness, Parked)
def _late(state: Parked, event: life.Lateness, look: Look) -> Step:
    return _bury(state, life.Burial("deadline", str(event.error), event.error), look)


@_on(life.Disconnection, Parked)
def _disconnect(state: Parked, _event: life.Disconnection, look: Look) -> Step | None:
    if state.done is None and look().stale:
        return ENDED, ((Do.WITHDRAW, None), (Do.FORGET, None))
    return None


@_on(life.WorkerEnd, Parked)
def _hand_over(_state: Parked, _event: life.WorkerEnd, _look: Look) -> Step:
    return ENDED, ((Do.WITHDRAW, None), (Do.REQUEUE, None))


@_on(life.Start, Parked)
def _start(state: Parked, event: life.Start, _look: Look) -> Step:
    event.run.done = state.done
    return Running(event.run), ((Do.BEGIN, event),)


# --- run --------------------------------------------------------------------------------------------------------------


@_on(life.RunEnd, Running)
def _finish(state: Running, event: life.RunEnd, _look: Look) -> Step:
    return Finished(state.run, event.outcome), ((Do.RELEASE, (state.run, event.call)),)


@_on(life.Settling, Finished)
def _settle(state: Finished, _event: life.Settling, look: Look) -> Step:
    match state.outcome:
        case life.Success(value, runtime):
            return ENDED, (_COUNT_DONE, _DONE, (Do.TELL, ("task-succeeded", {"result": value, "runtime": runtime})))
        case life.Retry():
            return _again(state.outcome, state.run.done, look())
        case life.OwnRetry(exception, traceback):
            return ENDED, ((Do.COUNT, "retried"), _END, _failure("task-retried", exception, traceback))
        case life.Answer(error, exception, traceback):
            tell = _failure("task-failed", exception, traceback)
            if error is None:
                return ENDED, ((Do.COUNT, "failed"), _END, tell)
            write = (Do.WRITE, (error, state.run))
            return Leaving(None, unwritten=True), ((Do.COUNT, "failed"), _HOLD, write, tell)
        case life.Removal():
            return _remove(state, state.outcome, look)
        case life.Death(burial, note, exception, traceback):
            after, effects = _bury(state, burial, look)
            before: tuple[Effect, ...] = ((Do.NOTE, note),) if note is not None else ()
            told = (_failure("task-failed", exception, traceback),) if exception else ()
            return after, (*before, *effects, *told)
        case life.Revocation():
            return _revoke(state, state.outcome, look)
        case _:  # Loss
            return ENDED, ((Do.FORGET, None),)


def _failure(event: str, exception: str, traceback: str) -> Effect:
    return Do.TELL, (event, {"exception": exception, "traceback": traceback})


def _again(retry: life.Retry, done: Done | None, context: Context) -> Step:
    after, effects = _keep(retry.at_ns, done, context)
    noted = ((Do.COUNT, "retried"), (Do.NOTE, (retry.outcome, retry.why))) if retry.counted else ()
    return after, (*noted, (Do.POSTPONE, retry.at_ns), *effects)


# --- on its way to the broker -----------------------------------------------------------------------------------------


@_on(life.Written, Leaving)
def _write(state: Leaving, _event: life.Written, _look: Look) -> Step | None:
    if not state.unwritten:
        return None  # it was not waited for any longer
    if state.copy is not None:
        return Leaving(state.copy), ((Do.PUBLISH, state.copy),)
    return ENDED, (_END, (Do.LET_IN, None))


@_on(life.Confirmation, Leaving)
def _confirm(_state: Leaving, event: life.Confirmation, _look: Look) -> Step:
    # Not remembered as ended: it comes again by its copy.
    goes: Effect = (Do.ACKNOWLEDGE, Keep.REPLACED) if event.published else (Do.FORGET, None)
    return ENDED, (goes, (Do.LET_IN, None))


# --- kept, and given back ---------------------------------------------------------------------------------------------


def _stays(done: Done | None, context: Context) -> bool:
    """Nobody but this process knows that it is done."""
    return done is not None and not context.stored


def _keep(at_ns: int, done: Done | None, context: Context) -> Step:
    """Keep it until its time; where it has been here for long, or too many wait, return it."""
    stays, left_s = _stays(done, context), (at_ns - context.now_ns) / _NS
    if at_ns > context.leaves_ns and not stays:
        return _give_back("it has been here for long", left_s)
    if stays or not context.full:
        return Parked(at_ns, done), ((Do.PARK, at_ns),)
    return _give_back("no room until its time", left_s)


def _give_back(reason: str, least_s: float = 0.0, place: life.Place = life.Place.LATER) -> Step:
    """Back to its queue, after a while unless its place is its own queue."""
    copy = life.Copy(place, least_s)
    noted = ((Do.COUNT, "returned"), (Do.INCREMENT, "returns"), (Do.NOTE, ("returned", reason)))
    return Leaving(copy), (*noted, _HOLD, (Do.PUBLISH, copy))
