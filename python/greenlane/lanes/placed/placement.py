"""Where a call runs, and what is learned of it: the shell around the heavy lane of one process.

A function is unknown at first and its calls go to the native thread; one whose calls are learned to be short runs where
its caller is from then on. On the native thread a call is a job of the process's permits: it takes turns with the heavy
phases of threads, shortens the interpreter's interval while it holds the permit, and is shown among what is learned.

Modes: `on` as said. `observe`: everything goes to the native thread and is learned; nobody is refused, no interval is
changed. `off`: likewise, and nothing is learned. A loop is never made to do the work itself because of a switch.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from greenlane import deadline
from greenlane._native import CallProfile, Recorder, Steps
from greenlane.errors import PlacementError
from greenlane.job import WEIGHT_MARK
from greenlane.lanes.arena import inside
from greenlane.lanes.permits import Permits
from greenlane.lanes.placed import here, on_hub, on_loop, on_thread
from greenlane.lanes.placed.call import Call
from greenlane.lanes.placed.executor import Executor
from greenlane.lanes.placed.frames import without_ours
from greenlane.lanes.placed.functions import name_of, plain, refuse_result, refuse_unplaceable
from greenlane.lanes.placed.native_threads import NativeThreads
from greenlane.lanes.placed.placed_function import AUTO, PlacedFunction
from greenlane.lanes.placed.real import RLock, in_forked_child
from greenlane.policy import CallRule, QueueRule
from greenlane.settings import Settings

__all__ = ["Placement"]

_OTHER: Final = "run (other)"
#: Placements outside this process.
_ELSEWHERE: Final = ("process", "cluster")
#: A call that has used less than one part in so many of its time as CPU has blocked where no probe sees it. Not less
#: parts: a crowded machine, or a throttled container, gives who computes no more than this.
_LEAST_CPU: Final = 8


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
        self.lane = NativeThreads(QueueRule.of(settings), self._run_on_lane, refuses=lambda: permits().mode() == "on")
        #: How many threads blocking functions may have, where a host of ours provides them.
        self.threads = settings.threads
        self._permits = permits
        self._rule = CallRule.of(settings)
        self._most_names = settings.max_routes
        self._profiles: dict[str, CallProfile] = {}
        self._pinned: tuple[Permits | None, set[str]] = (None, set())
        self._begin_anew()
        in_forked_child(self._begin_anew)
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
        nested = isinstance(outer, Call) and outer.active
        if outer is not None:
            outer.check()
        loop = here.loop()
        if loop is not None and not (isinstance(outer, Call) and nested and outer.home is loop):
            return self._awaitable(loop, nested, fn, args, kwargs, function)
        call = self._made(fn, args, kwargs, function.name if function is not None else "")
        hub = here.hub()
        if loop is not None or (hub is not None and here.in_hub(hub)):
            self._run_here(call, loop)  # Nobody can wait here.
            return _result(call)
        executor = self._where(call, function, nested)
        if executor is None:
            self._run_here(call, loop)
            if hub is not None and not nested and self._kept_long():
                on_hub.turn()
        elif hub is not None:
            on_hub.wait(executor, call, hub)
        else:
            on_thread.wait(executor, call)
        return _result(call)

    def belongs_on_lane(self, name: str) -> bool:
        """Whether a function, by name, is learned to be heavy and to compute only: then its calls queue for the lane.

        One that blocks is better off on a thread of its own, where its heavy phases take turns.
        """
        profile = self._profiles.get(name)
        return (
            profile is not None
            and profile.weight() == "heavy"
            and profile.computes()
            and self.mode(name) == "on"
            and not self.lane.closed
        )

    def mode(self, name: str) -> str:
        """Give the mode that holds for a function."""
        return self._permits().mode(name)

    def on_any_thread(self, fn: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Give `fn` as a job of the permits, on whatever thread it will run: its heavy phases take turns."""
        return functools.partial(self._run_on_thread, fn, name, time.monotonic_ns(), deadline.surrounding_ns())

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...], name: str) -> Call:
        """Make a call of a function that has a name already."""
        return self._made(fn, args, {}, name)

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

    def _begin_anew(self) -> None:
        self._lock = RLock()

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
            call = self._made(fn, args, kwargs, function.name if function is not None else "")
            executor = self._where(call, function, nested)
            if executor is None:
                self._run_here(call, loop)
                if self._kept_long():
                    await on_loop.turn()
            else:
                await on_loop.wait(executor, call, loop)
            return _result(call)
        except BaseException as error:
            raise without_ours(error)  # noqa: B904 # the same one: it has its own cause

    def _made(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str = "") -> Call:
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

    def _where(self, call: Call, function: PlacedFunction | None, nested: bool) -> Executor | None:
        """Give what runs a call; None = it runs where its caller is."""
        if inside.WORKER:
            return None
        pin = AUTO if function is None else function.pin(self._default, self._pins)
        if pin in _ELSEWHERE and not self.lane.closed:
            if self._permits().mode(call.name) == "off":
                return None if nested else self.lane
            with self._lock:
                self._sent[pin] += 1
            return self._executors(pin)
        if nested or self.lane.closed or pin == "inline":
            return None
        return self.lane if pin == "thread" or not self._stays(call) else None

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

    def _run_on_lane(self, call: Call) -> None:
        """Run a call on this native thread, for the job of its caller."""
        from_ns = time.monotonic_ns()
        before = self._recorder.attach(call.job)
        if call.job:
            Steps.pool_waited(call.arrival_ns)
        permits = self._permits_for(call.name)
        opened = permits.open(call.arrival_ns, call.deadline_ns, call.name)
        try:
            begun = call.run()
        finally:
            took_ns = time.monotonic_ns() - from_ns
            spent = permits.close() if opened else None
            self._recorder.attach(before)
        with self._lock:
            self._on_lane += 1
            self._waited_ns += from_ns - call.arrival_ns
        if begun and spent is not None:
            self._learn(call.name, took_ns, spent)

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

    def _learn(self, name: str, took_ns: int, spent: tuple[int, int, int, int]) -> None:
        cpu_ns, waited_ns, _, phases = spent
        took_ns = max(took_ns - waited_ns, 0)
        # One phase: nothing that a probe sees has blocked. The share: nor, for long, anything that none does.
        self._profile(name).update(took_ns, phases <= 1 and cpu_ns * _LEAST_CPU >= took_ns)

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
        found = self._profiles.get(name)
        if found is None:
            if len(self._profiles) >= self._most_names:
                name = _OTHER
            found = self._profiles.setdefault(name, CallProfile(**vars(self._rule)))
        return found

    def _kept_long(self) -> bool:
        """Whether calls have kept a loop for as long as one may, together; then they begin to count anew."""
        if self._kept_ns < self._rule.light_ns:
            return False
        self._kept_ns = 0
        return True


def _none(name: str) -> Executor:
    raise PlacementError("place a function", name="placement", value=name, rule="one that there is here")


def _result(call: Call) -> Any:
    result = call.result()
    refuse_result(result, call.name)
    return result
