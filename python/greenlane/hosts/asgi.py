"""ASGI middleware for the recording, under servers that are not observed by themselves (uvicorn and hypercorn are).

    app = Greenlane(app)

Each HTTP request becomes a job of the recording; without a recording it passes through. What a middleware cannot know
is when the request's bytes arrived if the server reads them elsewhere: then its clock starts when its task was made.
"""

from __future__ import annotations

from typing import Any

from greenlane._native import Steps
from greenlane.hosts.observed.asgi_app import Application, observed

__all__ = ["Greenlane"]


class Greenlane:
    """The middleware. Call it like the application that it wraps. Cost: some 4 us a recorded request."""

    def __init__(self, app: Application, *, host: str = "asgi") -> None:
        """Wrap `app`. `host`: the server's name in the recording."""
        self.app = app
        self._host = host

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Run one request as a job."""
        return await observed(self.app, self._host, Steps.arrival(), scope, receive, send)
