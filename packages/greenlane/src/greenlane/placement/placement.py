"""Where a call runs, and what is learned of it: the shell around the heavy lane of one process.

A function is unknown at first and its calls go to the native thread; one whose calls are learned to be short runs where
its caller is from then on. On the native thread a call is a job of the process's permits: it takes turns with the heavy
phases of threads, shortens the interpreter's interval while it holds the permit, and is shown among what is learned.

Modes: `on` as said. `observe`: everything goes to the native thread and is learned; nobody is refused, no interval is
changed. `off`: likewise, and nothing is learned. A loop is never made to do the work itself because of a switch.
"""

from __future__ import annotations

import contextvars
import functools
import time
import types
from collections.abc import Callable, Mapping
from types import CoroutineType, GeneratorType
from typing import Any, Final

from greenlane import deadline
from greenlane._native import CallProfile, GilLooks, Recorder, Steps
from greenlane.errors import DeadlineExceeded, Overloaded, PlacementError, WorkerDied
from greenlane.job import WEIGHT_MARK
from greenlane.lanes.permits import Permits
from greenlane.placement import on_hub, on_loop, on_thread, scheduler
from greenlane.placement.call import Call, Inline, State, without_ours
from greenlane.placement.executor import Executor
from greenlane.placement.functions import (
    AUTO,
    ROUTE_PREFIX,
    PlacedFunction,
    name_of,
    plain,
    refuse_result,
    refuse_unplaceable,
)
from greenlane.placement.native_threads import NativeThreads
from greenlane.placement.payload import weighed
from greenlane.placement.processes import inside
from greenlane.placement.rule import Choice, Cost, PlacedRow
from greenlane.policy.permits import MAX_ROUTES
from greenlane.policy.placed import CallRule, QueueRule
from greenlane.settings import Settings
from greenlane.threads.unpatched import RLock, in_forked_child

__all__ = ["Placement"]

_OTHER: Final = "run (other)"
#: What runs in this process as a placed call, and results that are no results yet.
_RUNNING: Final = (Call, Inline)
_DRIVEN: Final = (CoroutineType, GeneratorType)
#: Placements outside this process.
_ELSEWHERE: Final = ("process", "cluster")
#: A call that has used less than 1 / this of its time as CPU has blocked where no probe sees it. Not less
#: parts: a crowded machine, or a throttled container, gives who computes no more than this.
_LEAST_CPU: Final = 8
#: In less time than this it may as well have waited for the GIL: whenever it gives that up, it waits for a turn of each
#: thread that computes. Arbitrary: five times with four of them, at an interval of 1 ms.
_GIL_NS: Final = 20_000_000
#: How often a call that is measured is looked at: each look interrupts it, and one of 2 ms needs more than two.
_LOOK_NS: Final = 250_000


class Placement:
    """The placement of one process. Cost: a call inline about 7 us, on the native thread about 50 us and its wait."""

    def __init__(
        self, settings: Settings, permits: Callable[[], Permits], executors: Callable[[str], Executor] | None = None
    ) -> None:
        """Make it; the thread is started by the first call that needs it.

        Args:
            settings: the rules.
            permits: gives the permits of the process now; they may come later than the first call.
            executors: gives what runs calls in other processes: "process" or "cluster". None = there are none.
        """
        self._executors = executors or _none
        self._default, self._pins = settings.placement, settings.placements
        self.lane = NativeThreads(
            QueueRule.of(settings), self._run_on_lane, lambda: permits().mode() == "on", self._end_linger
        )
        # The permits that keep the interval short from one call of the lane to the next. Never taken away again:
        # another thread of the lane may be about to keep it, and must find them when it rests.
        self._linger: Permits | None = None
        #: How many threads blocking functions may have, where one of our hosts provides them.
        self.threads = settings.threads
        self._permits = permits
        self._rule = CallRule.of(settings)
        self._choices: dict[tuple[str, str], Choice] = {}
        self._most_names = MAX_ROUTES
        # By how long their calls keep a loop, by the CPU that they use, and by how long they keep a thread because of
        # what they do: compute, or block.
        self._profiles: dict[str, CallProfile] = {}
        self._heavy_rule = CallRule.heavy(settings)
        self._computing: dict[str, CallProfile] = {}
        self._keeping: dict[str, CallProfile] = {}
        self._pinned: tuple[Permits | None, set[str]] = (None, set())
        self._reset_state()
        in_forked_child(self._reset_state)
        self._inline = self._on_lane = self._on_pool = self._waited_ns = 0
        self._sent = dict.fromkeys(_ELSEWHERE, 0)
        # Time that calls have taken on loops and hubs since one of those was last let turn.
        self._kept_ns = 0
        self._recorder = Recorder()

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Place a call: gives an awaitable on an event loop, elsewhere the result."""
        refuse_unplaceable(fn)
        return self._run(fn, args, kwargs, None)

    def run_placed(self, function: PlacedFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Place a call of a function that says where: as `run`."""
        return self._run(function.fn, args, kwargs, function)

    def _run(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        function: PlacedFunction | None,
    ) -> Any:
        outer = deadline.CURRENT.get()
        # A placed function calls another one: it has its place already, and the lane must not wait for itself.
        nested = isinstance(outer, _RUNNING) and outer.active
        # So has that of a signal's handler, or a finalizer, in the middle of what the lane's thread waits for.
        nested = nested or self._lock._is_owned() or self.lane.is_mine()
        if outer is not None:
            outer.check()
        loop = scheduler.loop()
        if loop is not None and not (isinstance(outer, _RUNNING) and nested and outer.home is loop):
            return self._awaitable(loop, nested, fn, args, kwargs, function)
        hub = scheduler.hub()
        # In neither can anybody wait.
        bound = loop is not None or (hub is not None and scheduler.in_hub(hub))
        result, call, executor = self._begin(fn, args, kwargs, function, loop, nested, bound)
        if executor is None:
            if hub is not None and not bound and not nested and self._kept_long():
                on_hub.turn()
        else:
            wait = on_thread.wait if hub is None else functools.partial(on_hub.wait, hub=hub)
            try:
                wait(executor, call)
                _raise_unbegun(call)
            except BaseException as error:
                call = self._again(call, error)
                wait(self.lane, call)
            self._learn_from(call)
        return result if call is None else _result(call)

    def _begin(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        function: PlacedFunction | None,
        loop: Any,
        nested: bool,
        bound: bool = False,
    ) -> tuple[Any, Any, Executor | None]:
        """Run a call where its caller is, or say what is to run it: (result, call, executor).

        The call is None if it has been made inline; then the result is its own. The executor is None if it has run.
        """
        cost = None if function is None or bound else self._next(function, nested)
        if function is not None and cost is None:
            return self._run_inline(function, fn, args, kwargs, loop), None, None
        call = self._make_call(fn, args, kwargs, function.name if function is not None else "")
        executor = None if bound else self._where(call, cost, nested)
        if executor is None:
            self._run_here(call, loop)
        return None, call, executor

    def belongs_on_lane(self, name: str) -> bool:
        """Whether a function, by name, is learned to be heavy and to compute only: then its calls queue for the lane.

        Heavy is what it is everywhere: a phase that uses so much CPU. What uses less must not queue behind it. One that
        blocks is better off on a thread of its own, where its heavy phases take turns.
        """
        profile = self._computing.get(name)
        return (
            profile is not None
            and profile.weight() == "heavy"
            and profile.computes()
            and self.mode(name) == "on"
            and not self.lane.closed
        )

    def is_short(self, name: str) -> bool:
        """Whether a function, by name, is learned neither to be heavy nor to block for as long as that."""
        profile = self._keeping.get(name)
        return profile is not None and profile.weight() == "light"

    def mode(self, name: str) -> str:
        """Give the mode that holds for a function."""
        return self._permits().mode(name)

    def on_any_thread(self, fn: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Give `fn` as a job of the permits, on whatever thread it will run: its heavy phases take turns."""
        return functools.partial(self._run_on_thread, fn, name, time.monotonic_ns(), deadline.surrounding_ns())

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...], name: str) -> Call:
        """Make a call of a function that has a name already."""
        return self._make_call(fn, args, {}, name)

    def counters(self) -> dict[str, int]:
        """Give the counters by name; see `greenlane.metrics`."""
        stats = self.lane.stats()
        return {
            "placed_inline": self._inline,
            "placed_thread": self._on_lane,
            "placed_pool": self._on_pool,
            **{f"placed_{name}": count for name, count in self._sent.items()},
            "placed_refused": stats.shed,
            "placed_cancelled": stats.cancelled,
            "placed_wait_ns": self._waited_ns,
        }

    def learned(self) -> dict[str, tuple[str, float, int]]:
        """Give (weight, expected ms, calls) of each function: unknown and heavy ones go to the native thread."""
        return {
            name: (profile.weight(), profile.expected_ns() / 1e6, profile.samples())
            for name, profile in sorted(self._profiles.items())
        }

    def _reset_state(self) -> None:
        self._lock = RLock()
        for choice in self._choices.values():
            choice.forked()

    async def _awaitable(
        self,
        loop: Any,
        nested: bool,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        function: PlacedFunction | None,
    ) -> Any:
        try:
            result, call, executor = self._begin(fn, args, kwargs, function, loop, nested)
            if executor is None:
                if self._kept_long():
                    await on_loop.turn()
            else:
                try:
                    await on_loop.wait(executor, call, loop)
                    _raise_unbegun(call)
                except BaseException as error:
                    call = self._again(call, error)
                    await on_loop.wait(self.lane, call, loop)
                self._learn_from(call)
            return result if call is None else _result(call)
        except BaseException as error:
            raise without_ours(error)  # noqa: B904 # the same one: it has its own cause

    def _make_call(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str = ""
    ) -> Call:
        name = name or name_of(fn)
        profile = self._profiles.get(name)
        return Call(
            fn,
            args,
            kwargs,
            name=name,
            deadline_ns=deadline.surrounding_ns(),
            expected_ns=0 if profile is None else profile.expected_ns(),
            job=self._recorder.job(),
        )

    def _next(self, function: PlacedFunction, nested: bool) -> Cost | None:
        """Say where the next call of a placed function runs; None = where its caller is."""
        choice = self._choice(function)
        if inside.WORKER or choice.pin == "inline":
            return None
        if self.lane.closed:
            return None
        if choice.pin in _ELSEWHERE:
            return Cost(choice, choice.pin)
        if nested:
            return None
        if choice.pin != AUTO:
            return Cost(choice, "thread")
        return choice.next() if self._permits().mode(choice.name) == "on" else Cost(choice, "thread", measures=True)

    def _where(self, call: Call, cost: Cost | None, nested: bool) -> Executor | None:
        """Give what runs a call; None = it runs where its caller is."""
        if cost is None:
            return None if nested or self.lane.closed or inside.WORKER or self._stays(call) else self.lane
        if self._permits().mode(call.name) == "off":
            return None if nested or self.lane.closed else self.lane
        call.cost = cost
        if cost.place not in _ELSEWHERE:
            call.width = cost.choice.width
            return self.lane
        executor = self._executors(cost.place)
        with self._lock:
            self._sent[cost.place] += 1
        return executor

    def _again(self, call: Call, error: BaseException) -> Call:
        """Give a call for the lane in the place of one that never began in a process; else raise why."""
        cost = call.cost
        unsent = isinstance(error, PlacementError | Overloaded | _UnbegunError) and not call.begun_ns
        if not unsent or not _may_stay(cost):
            raise error
        if isinstance(error, PlacementError):
            cost.choice.refuse(error)
        with self._lock:
            self._sent["process"] -= 1
        return self._make_call(call.fn, call.args, call.kwargs, call.name)

    def _learn_from(self, call: Call) -> None:
        """Learn from a call that has ended somewhere else."""
        cost = call.cost
        if cost is None:
            return
        cost.choice.ended(call, cost)
        if cost.place in _ELSEWHERE:
            self._note(call, "worker process" if cost.place == "process" else "cluster")

    def _note(self, call: Call, where: str) -> None:
        """Count a call that ran elsewhere, and write down in a recording what its caller waited for, by name."""
        begun_ns, now_ns = call.begun_ns, time.monotonic_ns()
        from_ns = min(call.submitted_ns or now_ns, begun_ns) if begun_ns else call.submitted_ns
        waited_ns = max((begun_ns or now_ns) - from_ns, 0)
        with self._lock:
            self._waited_ns += waited_ns
        if self._recorder.recording():
            if waited_ns:
                self._recorder.waited("pool", from_ns, begun_ns or now_ns)
            if begun_ns:
                name = call.name.removeprefix(ROUTE_PREFIX)
                failed = call.state is not State.FINISHED
                self._recorder.call(begun_ns, now_ns, now_ns, call.deadline_ns, where, name, int(failed))

    def _choice(self, function: PlacedFunction) -> Choice:
        owner, found = function.known
        if owner is not self:
            found = self._find_choice(function)
            function.known = (self, found)
        choice: Choice = found
        return choice

    def _find_choice(self, function: PlacedFunction) -> Choice:
        pin = function.pin(self._default, self._pins)
        key = (function.name, pin)
        with self._lock:
            found = self._choices.get(key)
            if found is None or not _is_same(found.function.fn, function.fn):
                found = Choice(function, pin, self._rule)
                if key in self._choices or len(self._choices) < self._most_names:
                    self._choices[key] = found
        return found

    def placed(self) -> list[PlacedRow]:
        """Give what is known of each function under `@placed`."""
        return [choice.row() for choice in list(self._choices.values())]

    def _stays(self, call: Call) -> bool:
        """Whether a call runs where its caller is: said or learned to be light."""
        mark = getattr(plain(call.fn), WEIGHT_MARK, "")
        if mark:
            return bool(mark == "light")
        profile = self._profiles.get(call.name)
        return profile is not None and profile.weight() == "light" and self._permits().mode(call.name) == "on"

    def _run_here(self, call: Call, loop: Any) -> None:
        call.home = loop
        from_ns = time.monotonic_ns()
        call.run()
        took_ns = time.monotonic_ns() - from_ns
        self._kept_ns += took_ns
        with self._lock:
            self._inline += 1
        if self._permits().mode(call.name) != "off":
            self._profile(call.name).update(took_ns)

    def _run_inline(
        self,
        function: PlacedFunction,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        loop: Any,
    ) -> Any:
        """Run a placed function where its caller is, as `Call.run` would, for less."""
        due_ns, from_ns = deadline.surrounding_ns(), time.monotonic_ns()
        if due_ns and from_ns >= due_ns:
            raise DeadlineExceeded("run a placed function", name="function", value=function.name)
        running = Inline(loop)
        try:
            result = contextvars.copy_context().run(_enter, running, due_ns, fn, args, kwargs)
        finally:
            running.active = False
            took_ns = time.monotonic_ns() - from_ns
            self._kept_ns += took_ns
            with self._lock:
                self._inline += 1
            self._choice(function).ran_inline(took_ns)
        if isinstance(result, _DRIVEN):
            refuse_result(result, function.name)
        return result

    def _run_on_lane(self, call: Call) -> None:
        """Run a call on this native thread, for the job of its caller."""
        from_ns = time.monotonic_ns()
        before = self._recorder.attach(call.job)
        if call.job:
            Steps.pool_waited(call.arrival_ns)
        permits = self._permits_for(call.name)
        # Calls that leave the GIL to each other have nothing to take turns for.
        opened = call.width == 1 and permits.open(call.arrival_ns, call.deadline_ns, call.name)
        self._end_linger()
        try:
            if call.cost is not None:
                call.fn = functools.partial(_measure, call.cost, call.fn)
            begun = call.run()
        finally:
            took_ns = time.monotonic_ns() - from_ns
            # The loop wakes now, from the call's end: it must not wait for the next one by the long interval.
            self._linger = permits
            permits.linger(opened and self.lane.more() and permits.mode(call.name) == "on")
            spent = permits.close() if opened else None
            self._recorder.attach(before)
        with self._lock:
            self._on_lane += 1
            self._waited_ns += from_ns - call.arrival_ns
        if begun and spent is not None:
            self._learn(call.name, took_ns, spent)
        # Here, and not where the caller is: it imports modules.
        if call.cost is not None and call.cost.choice.wants_workers() and permits.mode(call.name) == "on":
            call.cost.choice.get_ready(self._executors)

    def _end_linger(self) -> None:
        """End what the end of a call has kept for the next one. Each thread of the lane comes here after its calls."""
        permits = self._linger
        if permits is not None:
            permits.linger(False)

    def _run_on_thread(self, fn: Callable[..., Any], name: str, arrival_ns: int, due_ns: int, *args: Any) -> Any:
        from_ns = time.monotonic_ns()
        permits = self._permits()
        opened = permits.open(arrival_ns, due_ns, name)
        try:
            return fn(*args)
        finally:
            spent = permits.close() if opened else None
            with self._lock:
                self._on_pool += 1
            if spent is not None:
                self._learn(name, time.monotonic_ns() - from_ns, spent)

    def _learn(self, name: str, took_ns: int, spent: tuple[int, int, int, int, int]) -> None:
        cpu_ns, waited_ns, _, phases, _ = spent
        took_ns = max(took_ns - waited_ns, 0)
        # One phase: nothing that a probe sees has blocked. The share: nor, for long, anything that none does.
        computed = phases <= 1 and cpu_ns * _LEAST_CPU >= took_ns
        self._profile(name).update(took_ns, computed)
        self._of(self._computing, name, self._heavy_rule).update(cpu_ns, computed)
        blocked = phases > 1 or (not computed and took_ns > _GIL_NS)
        # At most twice the limit: one call that took long by chance sends none away, as it does from a loop.
        keeps_ns = min(took_ns if blocked else cpu_ns, 2 * self._heavy_rule.light_ns)
        self._of(self._keeping, name, self._heavy_rule).update(keeps_ns)

    def _permits_for(self, name: str) -> Permits:
        """Give the permits, which know this function as heavy: on the lane all take turns but trifles."""
        permits = self._permits()
        if self._pinned[0] is not permits:
            self._pinned = (permits, set())
        if name not in self._pinned[1] and len(self._pinned[1]) < self._most_names:
            self._pinned[1].add(name)
            permits.pin(name, "heavy")
        return permits

    def _profile(self, name: str) -> CallProfile:
        return self._of(self._profiles, name, self._rule)

    def _of(self, profiles: dict[str, CallProfile], name: str, rule: CallRule) -> CallProfile:
        found = profiles.get(name)
        if found is None:
            if len(profiles) >= self._most_names:
                name = _OTHER
            found = profiles.setdefault(name, CallProfile(**vars(rule)))
        return found

    def _kept_long(self) -> bool:
        """Whether calls together have used the time that they may keep a loop; then the count restarts."""
        if self._kept_ns < self._rule.light_ns:
            return False
        self._kept_ns = 0
        return True


def _none(name: str) -> Executor:
    raise PlacementError("place a function", name="placement", value=name, rule="one that there is here")


class _UnbegunError(Exception):
    """A call that may run here failed before a process had begun it."""


def _may_stay(cost: Cost | None) -> bool:
    """Whether a call was sent to a process by choice alone."""
    return cost is not None and cost.choice.pin == AUTO and cost.place == "process"


def _raise_unbegun(call: Call) -> None:
    if call.begun_ns or call.state is not State.FAILED or not _may_stay(call.cost):
        return
    if isinstance(call.failure(), WorkerDied | OSError):
        raise _UnbegunError


def _is_same(one: Any, other: Any) -> bool:
    """Whether what is known of one function holds for another of its name: one made again of the same code, too."""
    if isinstance(one, types.FunctionType) and isinstance(other, types.FunctionType):
        return one.__code__ is other.__code__
    return one is other


def _enter(running: Inline, due_ns: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    deadline.enter(running, due_ns)
    return fn(*args, **kwargs)


def _measure(cost: Cost, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a function on this thread, and note in `cost` what it costs, itself and others."""
    if cost.payload is not None:
        return weighed(fn, args, kwargs, cost.payload)
    looks = GilLooks(_LOOK_NS) if cost.measures else None
    from_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
    try:
        return fn(*args, **kwargs)
    finally:
        cost.ran_ns, cost.cpu_ns = time.monotonic_ns() - from_ns, time.thread_time_ns() - cpu_ns
        if looks is not None:
            seen_ns, free_ns, _ = looks.end()
            cost.released_frac = free_ns / seen_ns if seen_ns else None


def _result(call: Call) -> Any:
    try:
        result = call.result()
    except (WorkerDied, PlacementError) as error:
        # A process has died of it, or cannot give back what it gave: it is not sent there again. It has run: no repeat.
        if call.cost is not None and call.cost.place == "process":
            call.cost.choice.refuse(error)
        raise
    refuse_result(result, call.name)
    return result
