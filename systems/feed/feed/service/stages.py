"""Where a request's time went, stage by stage: CPU, I/O, and wait for the loop.

    async with stages.running("models"):
        answers = await asyncio.gather(*[stages.task("models", ask(model)) for model in MODELS])
    with stages.computing("filter"):
        ids = chosen(answers, user)

CPU is the thread's CPU clock around each step of the stage's coroutines and of tasks that they begin, and around each
reading of a socket that they have written to. What the loop does else (waiting for sockets, timers, its
own rounds) and what other threads compute belongs to no stage: it is in the process's CPU only.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from asyncio import selector_events
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

# --- A coroutine driven step by step, as a task does, with a clock around each step.

#: Gets CPU that was used, ns.
Takes = Callable[[int], None]


class Steps(Generic[T]):
    """Awaits a coroutine, and tells what each of its steps computed. Cost: about 1 us a step.

    Args:
        coroutine: what is awaited.
        takes: gets the thread's CPU of each step, ns.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], takes: Takes) -> None:
        self._coroutine = coroutine
        self._takes = takes

    def __await__(self) -> Generator[Any, Any, T]:
        step, given = self._coroutine.send, None
        while True:
            began_ns = time.thread_time_ns()
            try:
                awaited = step(given)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._takes(time.thread_time_ns() - began_ns)
            suspended_ns = time.monotonic_ns()
            try:
                given, step = (yield awaited), self._coroutine.send
            except BaseException as error:
                given, step = error, self._coroutine.throw
            self._resumed(suspended_ns)

    def _resumed(self, suspended_ns: int) -> None:
        """The loop goes on with what it left at `suspended_ns`, monotonic. For those who ask how long that was."""


# --- Stages.


@dataclass
class Stage:
    """What one stage took, ns; a request may be in a stage more than once.

    Args:
        wall_ns: from its begin to its end.
        cpu_ns: computed in this thread.
        elsewhere_ns: computed in other processes for it, as they said.
        wait_ns: ready, but not resumed by the loop: at least so long.
        wait_most_ns: at most so long.
    """

    wall_ns: int = 0
    cpu_ns: int = 0
    elsewhere_ns: int = 0
    wait_ns: int = 0
    wait_most_ns: int = 0

    def takes(self, cpu_ns: int) -> None:
        """So much was computed for it."""
        self.cpu_ns += cpu_ns

    def row(self) -> dict[str, float]:
        """In ms, for answers: `io_ms` is what is left of the wall time."""
        cpu_ns, most_ns = self.cpu_ns + self.elsewhere_ns, max(0, self.wall_ns - self.cpu_ns)
        wait_ns = min(self.wait_ns, most_ns)
        parts = {
            "wall_ms": self.wall_ns,
            "cpu_ms": cpu_ns,
            "io_ms": max(0, self.wall_ns - cpu_ns - wait_ns),
            "wait_ms": wait_ns,
            "wait_most_ms": min(self.wait_most_ns, most_ns),
        }
        return {name: round(value / 1e6, 3) for name, value in parts.items()}


class Stages:
    """The stages of one request. Make it in the loop that serves it."""

    def __init__(self) -> None:
        self.stages: defaultdict[str, Stage] = defaultdict(Stage)
        self.tasks = 1
        self._selector = selector_of(asyncio.get_running_loop())

    @contextmanager
    def computing(self, name: str) -> Iterator[None]:
        """A stretch of pure computation."""
        stage, wall_ns, cpu_ns = self.stages[name], time.monotonic_ns(), time.thread_time_ns()
        try:
            yield
        finally:
            stage.cpu_ns += time.thread_time_ns() - cpu_ns
            stage.wall_ns += time.monotonic_ns() - wall_ns

    @asynccontextmanager
    async def running(self, name: str) -> AsyncIterator[Stage]:
        """A stretch with awaits: its wall time. Put what it awaits into `task` or `measured`."""
        stage, wall_ns = self.stages[name], time.monotonic_ns()
        try:
            yield stage
        finally:
            stage.wall_ns += time.monotonic_ns() - wall_ns

    def add(self, name: str, *, wall_ns: int, cpu_ns: int = 0, elsewhere_ns: int = 0) -> None:
        """What was measured otherwise: CPU of this thread, or of another process that worked for this request."""
        stage = self.stages[name]
        stage.wall_ns += wall_ns
        stage.cpu_ns += cpu_ns
        stage.elsewhere_ns += elsewhere_ns

    async def measured(self, name: str, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; its CPU and its waits count for the stage."""
        stage = self.stages[name]
        with counted(stage.takes):
            return await _Measured(stage, coroutine, self._selector)

    def task(self, name: str, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """The coroutine as a task of its own, measured."""
        self.tasks += 1
        task = asyncio.create_task(self.measured(name, coroutine))
        # One that is cancelled before its first step would never be awaited, and Python would say so.
        task.add_done_callback(lambda _: coroutine.close())
        return task

    def rows(self) -> dict[str, dict[str, float]]:
        """For answers."""
        return {name: stage.row() for name, stage in self.stages.items()}


class _Measured(Steps[T]):
    """The steps of a stage's coroutine, and how long it waited between them for the loop."""

    def __init__(self, stage: Stage, coroutine: Coroutine[Any, Any, T], selector: TimedSelector | None) -> None:
        super().__init__(coroutine, stage.takes)
        self._stage = stage
        self._selector = selector

    def _resumed(self, suspended_ns: int) -> None:
        if self._selector is None:
            return
        now_ns = time.monotonic_ns()
        self._stage.wait_ns += now_ns - max(suspended_ns, self._selector.ready_before_ns)
        self._stage.wait_most_ns += now_ns - max(suspended_ns, self._selector.ready_after_ns)


# --- What a loop does for a stage beside the stage's own coroutines: sockets that it reads, tasks that libraries
# begin.
# A connection works for the stage in whose coroutine it was last written to: receiving, protocols and parsers, which
# are in no coroutine, count for it. Where several requests share one, a read may count for another request's stage of
# the same name: sums over requests are exact, those of one request are not. A task that is begun within a stage
# counts for it to its end, as do those that it begins.

# Gets the CPU that is used in this context; None = nothing does.
_TAKES: ContextVar[Takes | None] = ContextVar("feed_takes_cpu", default=None)


@contextmanager
def counted(takes: Takes) -> Iterator[None]:
    """What is written to within it is read for `takes`, and tasks begun within it compute for it."""
    token = _TAKES.set(takes)
    try:
        yield
    finally:
        # A coroutine that is thrown away unfinished ends in another context.
        with suppress(ValueError):
            _TAKES.reset(token)


class CountingLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with clocks. Cost: 2 us a read and a task's step, 0.2 us a write."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        super().__init__(selector)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """As asyncio's."""
        context = options.get("context")
        takes = _TAKES.get() if context is None else context.get(_TAKES)
        if takes is None or not asyncio.iscoroutine(coro):
            return super().create_task(coro, **options)
        task = super().create_task(_driven(coro, takes), **options)
        # One that is cancelled before its first step would never be awaited, and Python would say so.
        task.add_done_callback(lambda _: coro.close())
        return task

    # asyncio has no public name for it; CPython 3.11 to 3.15 call it so; `more` came with 3.15.
    def _make_socket_transport(
        self, sock: Any, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None, **more: Any
    ) -> _Timed:
        return _Timed(self, sock, protocol, waiter, extra, server, **more)


class _Timed(selector_events._SelectorSocketTransport):  # type: ignore[name-defined,misc]
    """asyncio's own transport, with a clock around each reading."""

    _takes: Takes | None = None

    def write(self, data: Any) -> None:
        self._takes = _TAKES.get()
        super().write(data)

    def writelines(self, data: Any) -> None:
        self._takes = _TAKES.get()
        super().writelines(data)

    def _read_ready(self) -> None:
        takes = self._takes
        if takes is None:
            super()._read_ready()
            return
        began_ns = time.thread_time_ns()
        try:
            super()._read_ready()
        finally:
            takes(time.thread_time_ns() - began_ns)


async def _driven(coroutine: Coroutine[Any, Any, Any], takes: Takes) -> Any:
    return await Steps(coroutine, takes)


# --- An event loop that knows when it last came back from waiting: what resumes later has waited for the loop.

# selectors gives it as a tuple of (key, events).
_Ready = list[tuple[selectors.SelectorKey, int]]


# Upper bounds of the classes of rounds: 10 us to 100 s, eight to a doubling.
_BOUNDS_NS: Final = [round(10_000 * 2 ** (step / 8)) for step in range(8 * 24)]


class Rounds:
    """How long the rounds of a loop were, as a histogram: for so long it looks at nothing that arrives."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS_NS) + 1)
        self._sums_ns = [0] * (len(_BOUNDS_NS) + 1)

    def took(self, round_ns: int) -> None:
        """One round; 0.3 us."""
        place = bisect_left(_BOUNDS_NS, round_ns)
        self._counts[place] += 1
        self._sums_ns[place] += round_ns

    def rows(self) -> list[tuple[int, int, int]]:
        """(class, rounds, ns of them all) of every class that has some; `loop_lag_ms` reads them."""
        rows = zip(range(len(self._counts)), self._counts, self._sums_ns, strict=True)
        return [row for row in rows if row[1]]


class TimedSelector(selectors.DefaultSelector):
    """The system's selector, with bounds on when that became ready which the loop resumes now, CLOCK_MONOTONIC ns.

    A round of the loop is one return of `select` and what is run until the next. What arrives in one round resumes its
    coroutine in the next one (a future's callbacks are called soon, never immediately). So what resumes now was ready
    when the *last* round began, at `ready_before_ns`: its wait is at least from then to now. And it became ready after
    the round before that had begun, or while the last `select` slept: at `ready_after_ns` or later, unless it was asked
    for only then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rounds = Rounds()
        self.ready_before_ns = self.ready_after_ns = self._began_ns = self._after_ns = time.monotonic_ns()

    def select(self, timeout: float | None = None) -> _Ready:
        """As the system's."""
        self.rounds.took(time.monotonic_ns() - self._began_ns)
        # Asked without waiting first (1 us more): only so is it certain that nothing was ready before a sleep.
        ready = super().select(0)
        slept = not ready and (timeout is None or timeout > 0)
        if slept:
            ready = super().select(timeout)
        self.ready_before_ns, self.ready_after_ns = self._began_ns, self._after_ns
        before_ns, self._began_ns = self._began_ns, time.monotonic_ns()
        self._after_ns = self._began_ns if slept else before_ns
        return ready


def timed_loop() -> asyncio.SelectorEventLoop:
    """A loop on a TimedSelector, which `selector_of` finds again; stages know what it does for them."""
    selector = TimedSelector()
    loop = CountingLoop(selector)
    _selectors[loop] = selector
    return loop


def selector_of(loop: asyncio.AbstractEventLoop) -> TimedSelector | None:
    """The selector of a timed loop; None for any other loop, where waits cannot be told from I/O."""
    return _selectors.get(loop)


_selectors: WeakKeyDictionary[asyncio.AbstractEventLoop, TimedSelector] = WeakKeyDictionary()
