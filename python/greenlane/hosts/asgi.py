"""ASGI middleware: one line that keeps an application's CPU work from its event loop and from its other requests.

    app = Greenlane(app)                  # or: app.add_middleware(Greenlane)

- Synchronous endpoints, dependencies and background tasks of Starlette and FastAPI go to the thread that suits them, by
  what was learned: `asgi_threads`. Asynchronous code stays on the loop; `greenlane.run` moves what computes there.
- A deadline in the request's headers, or of its lane, holds for `greenlane.run` and `greenlane.checkpoint()`. What they
  raise becomes an answer, if none has begun: 504 for DeadlineExceeded, 503 for Overloaded.
- Each HTTP request is a job of the recording, under servers that are not observed by themselves (uvicorn and hypercorn
  are). What a middleware cannot know is when the request's bytes arrived if the server reads them elsewhere: then its
  clock starts when its task was made.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final

from greenlane import bootstrap, deadline
from greenlane._native import Steps
from greenlane.errors import DeadlineExceeded, Overloaded
from greenlane.hosts import asgi_threads
from greenlane.hosts.observed.asgi_app import Application, observed
from greenlane.settings import Settings

__all__ = ["Greenlane"]

_FAILED: Final = 500
_LATE: Final = (504, b"deadline exceeded\n")
_REFUSED: Final = (503, b"too many calls in progress\n")


class Greenlane:
    """The middleware. Call it like the application that it wraps. Cost: some 4 us a request."""

    def __init__(self, app: Application, *, settings: Settings | None = None, host: str = "asgi") -> None:
        """Wrap `app`.

        Args:
            app: the ASGI application.
            settings: None = from `greenlane.toml` and the environment.
            host: the server's name in the recording.

        Raises:
            GreenlaneError: see `greenlane.bootstrap.start`.
        """
        self.app = app
        self._host = host
        self._running = bootstrap.start(settings, host="asgi", worker_index=os.getpid())
        self._names = {name[5:].replace("_", "-").lower().encode(): name for name in self._running.deadline_names}
        asgi_threads.install()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Run one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        return await observed(self._in_time, self._host, Steps.arrival(), scope, receive, send)

    async def _in_time(self, scope: Any, receive: Any, send: Any) -> Any:
        response = _Response(send, self._running.settings.retry_after_s)
        with deadline.until(self._due_ns(scope)):
            try:
                return await self.app(scope, receive, response.send)
            except (DeadlineExceeded, Overloaded) as error:
                if not await response.become(error):
                    raise

    def _due_ns(self, scope: Any) -> int:
        environ = {"PATH_INFO": scope.get("path", "")}
        for header, value in scope["headers"]:
            if header in self._names:
                environ[self._names[header]] = value.decode("latin-1")
        return self._running.due_ns(environ, time.monotonic_ns())


class _Response:
    """The response of one request, which may become another one until it has begun."""

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

    async def become(self, error: DeadlineExceeded | Overloaded) -> bool:
        """Answer `error`; False = another response has begun."""
        if self._begun or self._became:
            return self._became
        self._became = True
        status, body = _LATE if isinstance(error, DeadlineExceeded) else _REFUSED
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        if isinstance(error, Overloaded):
            headers.append((b"retry-after", str(self._retry_after_s).encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
        return True
