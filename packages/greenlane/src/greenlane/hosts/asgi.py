"""ASGI middleware: one line that moves an application's CPU work off its event loop.

    app = Greenlane(app)                  # or: app.add_middleware(Greenlane)

- Synchronous endpoints, dependencies and background tasks of Starlette and FastAPI run on a thread chosen by what was
  learned: `asgi_threads`. Asynchronous code stays on the loop; `greenlane.run` moves its computations.
- A deadline from the request's headers, or of its lane, applies to `greenlane.run` and `greenlane.checkpoint()`. Their
  exceptions become answers if the response has not started: 504 for DeadlineExceeded, 503 for Overloaded.
- Each HTTP request is a job of the recording, also under servers that are not observed (uvicorn and hypercorn are). If
  such a server reads requests elsewhere, a request's clock starts when its task is made, not when its bytes arrive.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from greenlane import deadline
from greenlane._native import Recorder, Steps
from greenlane.errors import Cancelled, DeadlineExceeded, GreenlaneError, Overloaded
from greenlane.probes.patching import Patches
from greenlane.settings import Settings
from greenlane.wiring import process

if TYPE_CHECKING:
    from greenlane.hosts.shedding import Shedding

__all__ = ["SYNCHRONOUS", "Greenlane"]

#: Places the synchronous code of this process's application; loaded when a framework brings anyio's threads.
SYNCHRONOUS: Final = Patches({"anyio._backends._asyncio": "greenlane.hosts.asgi_threads:place"})

Application = Callable[[Any, Any, Any], Awaitable[Any]]

_FAILED: Final = 500
_LATE: Final = (504, b"deadline exceeded\n")
_REFUSED: Final = (503, b"too many calls in progress\n")
_TOO_LATE: Final = (503, b"it would end too late\n")
_STARTED: Final = "HTTP_X_REQUEST_START"

_recorder: Final = Recorder()


class Greenlane:
    """The middleware. Call it like the application that it wraps. Cost: some 4 us a request."""

    def __init__(
        self, app: Application, *, settings: Settings | None = None, host: str = "asgi", behind_front: bool = False
    ) -> None:
        """Wrap `app`.

        Args:
            app: the ASGI application.
            settings: None = from `greenlane.toml` and the environment.
            host: the server's name in the recording.
            behind_front: all requests come from the front of `greenlane serve`: what it says of arrival and lane
                counts, what would end too late is refused, and under uvicorn code that goes on for a client that has
                left is told so at its checkpoints.

        Raises:
            GreenlaneError: see `greenlane.wiring.process.start`.
        """
        self.app = app
        self._host = host
        try:
            self._running = process.start(settings, host="asgi", worker_index=os.getpid())
        except GreenlaneError as error:
            # Frameworks make their middleware within the lifespan, and uvicorn passes over what is raised there.
            logging.getLogger("greenlane").error("greenlane: %s", error)
            raise
        self._names = {name[5:].replace("_", "-").lower().encode(): name for name in self._running.deadline_names}
        self._shedding: Shedding | None = None
        if behind_front:
            from greenlane.hosts.observed import front_clock
            from greenlane.hosts.shedding import Shedding

            self._arrival_told_ns = front_clock.environ_arrival_ns
            self._running.take_lanes_from_front()
            self._names.update({b"x-greenlane-lane": process.LANE_KEY, b"x-request-start": _STARTED})
            self._shedding = Shedding(self._running.settings.lane_names())
        self._running.add_host_probes(SYNCHRONOUS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Run one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if self._shedding is not None:
            deadline.CURRENT.set(_Client(send))
        if not _recorder.recording():
            return await self._in_time(scope, receive, send)
        from greenlane.hosts.observed.asgi_app import observed

        return await observed(self._in_time, self._host, Steps.arrival(), scope, receive, send)

    def metrics(self, labels: Mapping[str, str]) -> str:
        """Give this process's page for Prometheus; `labels` go on every sample beside `pid`. From any thread."""
        from greenlane.export import prometheus

        running = self._running
        return prometheus.render(
            running.counters(), running.learned(), mode=running.mode(), pressure=running.pressure(),
            turns=running.turns(), recorder=_recorder, labels={**labels, "pid": str(os.getpid())},
        )  # fmt: skip

    async def _in_time(self, scope: Any, receive: Any, send: Any) -> Any:
        response = _Response(send, self._running.settings.retry_after_s)
        told = self._told(scope)
        now_ns = time.monotonic_ns()
        arrival_ns = (self._arrival_told_ns(told) if self._shedding else 0) or now_ns
        due_ns = self._running.due_ns(told, arrival_ns)
        lane = str(told.get(process.LANE_KEY, ""))
        if self._shedding is not None and self._shedding.refuses(lane, arrival_ns, due_ns, now_ns):
            await response.refuse()
            return None
        with deadline.until(due_ns):
            try:
                return await self.app(scope, receive, response.send)
            except (DeadlineExceeded, Overloaded) as error:
                if not await response.become(error):
                    raise
            except Cancelled:
                return None  # the client has left: there is nobody to answer
            finally:
                if self._shedding is not None:
                    span_ns = due_ns - arrival_ns if due_ns else 0
                    self._shedding.served(lane, time.monotonic_ns() - now_ns, span_ns)

    def _told(self, scope: Any) -> dict[str, str]:
        """What is read of a request, as a WSGI environ has it."""
        environ = {"PATH_INFO": scope.get("path", "")}
        for header, value in scope["headers"]:
            if header in self._names:
                environ[self._names[header]] = value.decode("latin-1")
        return environ


class _Client:
    """Whether the client of a request is still there, as uvicorn knows: asked at checkpoints."""

    __slots__ = ("_cycle",)

    def __init__(self, send: Any) -> None:
        self._cycle = getattr(send, "__self__", None)

    def check(self) -> None:
        """Raise Cancelled if it has left."""
        if getattr(self._cycle, "disconnected", False):
            raise Cancelled()


class _Response:
    """The response of one request, which may become another one until it has begun."""

    __slots__ = ("_became", "_begun", "_retry_after_s", "_send")

    def __init__(self, send: Any, retry_after_s: int) -> None:
        self._send = send
        self._retry_after_s = retry_after_s
        self._begun = False
        self._became = False

    async def send(self, message: Any) -> None:
        """Pass a message on; drop it if the response has become ours."""
        if not self._begun and message.get("status") == _FAILED:
            # Starlette answers an exception that nobody handles, and then raises it: it is being handled now.
            error = sys.exc_info()[1]
            if isinstance(error, DeadlineExceeded | Overloaded):
                await self.become(error)
        if not self._became:
            self._begun = True
            await self._send(message)

    async def refuse(self) -> None:
        """Answer that it would end too late."""
        await self._answer(_TOO_LATE, retry=True)

    async def become(self, error: DeadlineExceeded | Overloaded) -> bool:
        """Answer `error`; False = another response has begun."""
        if self._begun or self._became:
            return self._became
        self._became = True
        late = isinstance(error, DeadlineExceeded)
        await self._answer(_LATE if late else _REFUSED, retry=not late)
        return True

    async def _answer(self, answer: tuple[int, bytes], *, retry: bool) -> None:
        status, body = answer
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        if retry:
            headers.append((b"retry-after", str(self._retry_after_s).encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
