"""Where a request's time went, stage by stage: CPU, I/O, and wait for the loop.

    async with stages.running("models"):
        answers = await asyncio.gather(*[stages.task("models", ask(model)) for model in MODELS])
    with stages.computing("filter"):
        ids = chosen(answers, user)

CPU is the thread's CPU clock around each step of the stage's coroutines and of tasks that they begin, and around each
reading of a socket that they have written to (counted.py). What the loop does else (waiting for sockets, timers, its
own rounds) and what other threads compute belongs to no stage: it is in the process's CPU only.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from .clock import TimedSelector, selector_of
from .counted import counted
from .steps import Steps

T = TypeVar("T")


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
