"""Clocks of requests that share an event loop: the ASGI worker's.

Of a sampled request each step of its task is timed, and of the tasks that it starts; so is what it hands to threads.
What is CPU of the others meanwhile, and of the server, is not its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final

from greenlane.hosts.asgi_routes import route_of
from greenlane.probes.patching import Patches
from greenlane.probes.routes import shape
from greenlane_serve.worker.clocks import IDLE_S, LOOK_S, Blocks, Lateness, SampledRequest, Tally

_CURRENT: Final[ContextVar[_LoopSample | None]] = ContextVar("greenlane_sample", default=None)
_blocks: Final = Blocks()


class LoopClocks:
    """The application with clocks, for requests that are sampled. Cost: 2 us a step, and some 10 us a request."""

    def __init__(self, application: Any, tally: Tally, lateness: Lateness) -> None:
        self._application = application
        self._tally = tally
        self._lateness = lateness
        self._loop: Any = None
        # Sampled requests that run: tasks are looked at only while there are any.
        self._open = 0
        self._begun_s = 0.0
        self._wakes: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Run one HTTP request, and count it."""
        sample = self._sample(send)
        token = _CURRENT.set(sample)
        try:
            return await _Steps(self._application(scope, receive, sample.send), sample)
        finally:
            _CURRENT.reset(token)
            sample.over = True
            self._open -= 1
            if not self._open and self._loop is not None and self._loop.get_task_factory() is _task:
                self._loop.set_task_factory(None)
            self._tally.ended(name_of(scope), sample.cpu_ns, sample)

    def begin(self) -> None:
        """See what requests hand over. Once the loop runs."""
        self._loop = asyncio.get_running_loop()
        with contextlib.suppress(AttributeError):
            self._loop.run_in_executor = _run_in_executor(self._loop.run_in_executor)
        _patches.install()

    def _sample(self, send: Any) -> _LoopSample:
        self._begun_s = time.monotonic()
        if self._wakes is None or self._wakes.done():
            self._wakes = asyncio.create_task(self._wake_up())
        self._open += 1
        if self._loop is not None and self._loop.get_task_factory() is None:
            self._loop.set_task_factory(_task)
        sample = _LoopSample(send)
        self._tally.begin(sample)
        return sample

    async def _wake_up(self) -> None:
        """Wake up now and then while requests are sampled: how late that is."""
        while time.monotonic() - self._begun_s < IDLE_S:
            pause_s = random.uniform(0.5, 1.5) * LOOK_S
            due_s = time.monotonic() + pause_s
            await asyncio.sleep(pause_s)
            self._lateness.took(round((time.monotonic() - due_s) * 1e9))


def name_of(scope: Any) -> str:
    """The route that a request is counted under: the framework's, if one has left it there."""
    left = "router" in scope or "route" in scope or "path_template" in scope or "fastapi" in scope
    return (left and route_of(scope)) or shape(scope["method"], scope["path"])


class _LoopSample(SampledRequest):
    """It ends with the last part of its response: what the application does later delays no client."""

    __slots__ = ("_send", "over", "step_ns")

    def __init__(self, send: Any) -> None:
        super().__init__()
        self._send = send
        self.over = False
        # This thread's CPU when the present step began.
        self.step_ns = 0

    async def send(self, message: Any) -> None:
        """Send, as uvicorn's."""
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body") and not self.over:
            self.cpu_ns += time.thread_time_ns() - self.step_ns
            self.over = True

    @property
    def disconnected(self) -> bool:
        """What uvicorn knows of the client, for code that asks the owner of `send`."""
        return bool(getattr(getattr(self._send, "__self__", None), "disconnected", False))

    def run(self) -> None:
        """As of any sample, until it is over."""
        if not self.over:
            super().run()

    def rest(self, *, lock: bool = False) -> None:
        """As `run`."""
        if not self.over:
            super().rest(lock=lock)


class _Steps(Coroutine[Any, Any, Any]):
    """A coroutine that is timed step by step. A bare `yield` gives others a turn: it goes on being able to run.

    Args:
        coroutine: the application's.
        sample: of its request.
        part: it is another task of the request, that ends by itself.
    """

    def __init__(self, coroutine: Any, sample: _LoopSample, *, part: bool = False) -> None:
        #: What is timed; also for reports of where a task stands.
        self.awaited = coroutine
        self._sample = sample
        self._part = part
        self._rests = False

    def send(self, value: Any, /) -> Any:
        """One step."""
        return self._step(self.awaited.send, value)

    def throw(self, *problem: Any) -> Any:
        """One step."""
        return self._step(self.awaited.throw, *problem)

    def close(self) -> None:
        """End it."""
        self.awaited.close()

    def __await__(self) -> Generator[Any, None, Any]:
        problem: BaseException | None = None
        while True:
            try:
                future = self.send(None) if problem is None else self.throw(problem)
            except StopIteration as end:
                return end.value
            problem = None
            try:
                yield future
            except GeneratorExit:
                self.close()
                raise
            except BaseException as error:
                problem = error

    def _step(self, step: Callable[..., Any], *given: Any) -> Any:
        sample = self._sample
        if self._rests:
            self._rests = False
            sample.run()
        began_ns = sample.step_ns = time.thread_time_ns()
        try:
            future = step(*given)
        except BaseException:
            if self._part:
                sample.rest()
            raise
        finally:
            if not sample.over:
                sample.cpu_ns += time.thread_time_ns() - began_ns
        if future is not None:
            self._rests = True
            sample.rest()
        return future


def _task(loop: Any, coroutine: Any, **named: Any) -> Any:
    sample = _CURRENT.get()
    if sample is None or sample.over or not asyncio.iscoroutine(coroutine):
        return asyncio.Task(coroutine, loop=loop, **named)
    sample.run()
    return asyncio.Task(_Steps(coroutine, sample, part=True), loop=loop, **named)


def _run_in_executor(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_in_executor(executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        return original(executor, _handed(func), *args)

    return run_in_executor


def _anyio(patches: Patches, module: ModuleType) -> None:
    patches.replace(module.AsyncIOBackend, "run_sync_in_worker_thread", _run_sync)


def _run_sync(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    async def run_sync_in_worker_thread(backend: Any, func: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return await original(backend, func if silent else _handed(func), *args, **named)

    return run_sync_in_worker_thread


def _handed(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func` for another thread: from now on a part of the request that could run."""
    sample = _CURRENT.get()
    if sample is None or sample.over:
        return func
    sample.run()
    return functools.partial(_run, sample=sample, function=func)  # `function`: what it is named by, see `asgi_threads`


def _run(*args: Any, sample: _LoopSample, function: Callable[..., Any]) -> Any:
    began_ns = time.thread_time_ns()
    _blocks.begin(sample)
    try:
        return function(*args)
    finally:
        _blocks.end()
        if not sample.over:
            sample.cpu_ns += time.thread_time_ns() - began_ns
        sample.rest()


_patches: Final = Patches({"anyio._backends._asyncio": _anyio})
