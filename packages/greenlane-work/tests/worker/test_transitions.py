"""An order's table of transitions against a model of the broker, the upstream's rules and the result backend.

Whatever happens in whatever order, also what comes too late: a message is settled once, for a reason that allows it; a
place is given back; what leaves is held until it has left.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenlane_work.limits import CallOutcome
from greenlane_work.order import Done, Ended, Finished, Leaving, Order, Parked, Received, Run, Running, State
from greenlane_work.worker import lifecycle as life
from greenlane_work.worker.lifecycle import Do
from greenlane_work.worker.transitions import TABLE, Context, step
from tests.examples import examples

S = 1_000_000_000
ERROR = ValueError("the task's")
BURIALS = st.builds(life.Burial, st.just("failed"), st.just("said"), st.sampled_from([None, ERROR]))
OUTCOMES = st.one_of(
    st.builds(life.Success, st.just("1"), st.just(0.1)),
    st.builds(life.Retry, st.integers(0, 900).map(lambda seconds: seconds * S), st.booleans()),
    st.builds(life.OwnRetry, st.just(""), st.just("")),
    st.builds(life.Answer, st.sampled_from([None, ERROR]), st.just(""), st.just("")),
    st.builds(life.Removal, st.just("rejected"), st.just(0.0), st.booleans()),
    st.builds(life.Death, BURIALS, st.just(("failed", "why")), st.sampled_from(["", "ValueError()"])),
    st.builds(life.Revocation, st.booleans()),
    st.builds(life.Loss),
)
#: Why a message may be acknowledged.
WELL = (life.Success, life.OwnRetry, life.Answer, life.Revocation)


class Life(RuleBasedStateMachine):
    """One order after the other; the effects are done to a model."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns, self.stored = S, False
        self.arrive(0, False)

    def arrive(self, from_s: int, stored: bool) -> None:
        self.state: State = Received(self.now_ns + from_s * S if from_s else 0)
        self.stored, self.received_ns, self.stale = stored, self.now_ns, False
        self.parked = self.placed = self.held = self.writing = self.publishing = False
        self.run: Run | None = None
        self.settled: list[str] = []
        # What allows the acknowledgement: its run's end, a confirmed copy, or an earlier end.
        self.allowed = self.condemned = False

    def happens(self, event: life.Event, *, full: bool = False) -> bool:
        context = Context(
            self.now_ns, self.received_ns + 600 * S, 600 * S, full, self.stored, self.stale
        )  # fmt: skip
        after = step(self.state, event, lambda: context)
        if after is None:
            return False
        assert not isinstance(self.state, Ended), event
        self.state, effects = after
        for do, what in effects:
            self.done(do, what)
        if isinstance(self.state, Finished):
            self.allowed = isinstance(self.state.outcome, WELL)
            self.happens(life.Settling(), full=full)
        return True

    def done(self, do: Do, what: Any) -> None:
        match do:
            case Do.PARK:
                assert not (self.parked or self.placed or self.settled)
                self.parked = True
            case Do.WITHDRAW:
                assert self.parked
                self.parked = False
            case Do.BEGIN:
                # The parking gave it a place before.
                assert self.placed and not self.parked and self.run is None and not self.settled
                self.run = what.run
            case Do.RELEASE:
                run, call = what
                assert self.run is run
                assert self.placed or call is None
                self.placed, self.run = False, None
            case Do.HOLD:
                assert not self.held
                self.held = True
            case Do.LET_IN:
                assert self.held
                self.held = False
            case Do.CONDEMN:
                self.condemned = True
            case Do.WRITE:
                assert not self.writing and self.held
                self.writing = True
            case Do.PUBLISH:
                assert self.held and not self.writing and not self.publishing
                assert self.condemned or what.place is not life.Place.DEAD
                self.publishing = True
            case Do.ACKNOWLEDGE:
                assert self.allowed and not self.writing
                self.settled.append("acknowledged")
            case Do.REQUEUE | Do.FORGET:
                self.settled.append("the broker's")

    @rule(seconds=st.integers(0, 1200))
    def time_passes(self, seconds: int) -> None:
        self.now_ns += seconds * S

    @precondition(lambda self: isinstance(self.state, Ended))
    @rule(from_s=st.sampled_from([0, 0, 5, 5000]), stored=st.booleans())
    def another_arrives(self, from_s: int, stored: bool) -> None:
        self.arrive(from_s, stored)

    @precondition(lambda self: isinstance(self.state, Received))
    @rule(full=st.booleans())
    def it_is_admitted(self, full: bool) -> None:
        assert self.happens(life.Admission(), full=full)

    @precondition(lambda self: isinstance(self.state, Received))
    @rule(
        event=st.one_of(
            st.just(life.Repetition()), st.just(life.Recount()), BURIALS, st.builds(life.Revocation, st.booleans()),
            st.just(life.Removal("no task of this name", 5.0)),
        ),
    )  # fmt: skip
    def it_is_judged(self, event: life.Event) -> None:
        self.allowed = isinstance(event, life.Repetition | life.Revocation)
        assert self.happens(event)

    @precondition(lambda self: self.parked)
    @rule(done=st.booleans())
    def it_gets_a_place(self, done: bool) -> None:
        self.parked, self.placed = False, True
        assert self.happens(life.Start(Run(Order(1, id="o", key="k", name="t", size=0))))
        assert isinstance(self.state, Running)
        if done and self.state.run.done is None:
            self.state.run.done = Done("a result")

    @precondition(lambda self: self.parked)
    @rule(event=st.one_of(st.just(life.NoRoom(3.0)), st.just(life.Lateness(ERROR))), full=st.booleans())
    def it_must_leave(self, event: life.Event, full: bool) -> None:
        self.parked = False
        assert self.happens(event, full=full)

    @precondition(lambda self: self.parked)
    @rule(event=st.one_of(st.builds(life.Revocation, st.booleans()), BURIALS))
    def it_is_found_revoked_or_unreadable_at_its_place(self, event: life.Event) -> None:
        self.parked, self.placed = False, True
        self.allowed = isinstance(event, life.Revocation)
        assert self.happens(event)
        assert not self.placed

    @precondition(lambda self: self.run is not None)
    @rule(event=st.one_of(st.builds(life.Revocation, st.booleans()), BURIALS))
    def it_is_revoked_while_the_store_is_asked(self, event: life.Event) -> None:
        self.allowed = isinstance(event, life.Revocation)
        assert self.happens(event)

    @precondition(lambda self: self.run is not None)
    @rule(outcome=OUTCOMES, full=st.booleans())
    def its_run_ends(self, outcome: Any, full: bool) -> None:
        assert self.happens(life.RunEnd(outcome, CallOutcome.OK), full=full)

    @precondition(lambda self: self.writing)
    @rule()
    def its_end_is_written(self) -> None:
        self.writing = False
        assert isinstance(self.state, Leaving)
        self.allowed |= self.state.copy is None
        assert self.happens(life.Written())

    @precondition(lambda self: self.publishing)
    @rule(published=st.booleans())
    def its_copy_arrives_or_never_will(self, published: bool) -> None:
        self.publishing, self.allowed = False, published
        assert self.happens(life.Confirmation(published))

    @rule(event=st.sampled_from([life.Disconnection(), life.WorkerEnd(), None, None, None]), outcome=OUTCOMES)
    def the_connection_or_the_worker_ends_or_something_comes_too_late(
        self, event: life.Event | None, outcome: Any
    ) -> None:
        if event is not None:
            self.stale |= isinstance(event, life.Disconnection)
            self.happens(event)
        if not isinstance(self.state, Running):
            assert not self.happens(life.RunEnd(outcome, CallOutcome.OK))
        if not self.writing:
            assert not self.happens(life.Written())
        if isinstance(self.state, Ended):
            for late in (life.Admission(), life.NoRoom(), life.Confirmation(), life.WorkerEnd(), life.Settling()):
                assert not self.happens(late)

    @invariant()
    def it_is_in_one_place(self) -> None:
        state = self.state
        assert not isinstance(state, Finished)
        assert self.parked == isinstance(state, Parked)
        assert self.placed == (self.run is not None) == isinstance(state, Running)
        assert self.held == isinstance(state, Leaving) == (self.writing or self.publishing)
        assert len(self.settled) == isinstance(state, Ended)


TestLife = Life.TestCase
TestLife.settings = examples(200, stateful_step_count=50)


def test_every_event_and_every_state_but_the_last_has_its_rules() -> None:
    assert {event for _, event in TABLE} == set(get_args(life.Event))
    assert {state for state, _ in TABLE} == set(get_args(State)) - {Ended}


@pytest.mark.parametrize("seconds", [1, 10_000])
def test_an_order_that_is_done_stays_where_no_store_knows_it(seconds: int) -> None:
    state = Parked(done=Done("a result"))
    context = Context(now_ns=seconds * S, leaves_ns=600 * S, full=True)
    after = step(state, life.NoRoom(1.0), lambda: context)
    assert after is not None and after[0] == Parked((seconds + 1) * S, state.done)
