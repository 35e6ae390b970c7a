"""Flask under gevent: a view that computes, beside the hub instead of in its way.

    @app.post("/quote")
    @placed_view
    def quote():
        return render_template("quote.html", rows=computed(request.get_json()))

The view runs on the heavy lane, in a copy of its request's context: `request`, `session` and `g` are that request's.
Its response is made there too; each part of a streamed response is a call of its own. Its exceptions go to the
application's error functions. Views learned to be light run inline.

The request's body is read first. The view must not use gevent's sockets or pools: another thread has another hub, and
a socket belongs to one hub. Fetch in an ordinary view, and place only the rest: `greenlane.run(render, order)`.
`stream_with_context` needs Flask 3.1.2.

A deadline from the request's headers, or of its lane, applies to the view. A late request gets 504. If `placed_queue`
calls are waiting, it gets 503 with Retry-After. Under servers with threads a view runs inline, under permits.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

from flask import Response, current_app, request
from werkzeug.exceptions import GatewayTimeout, ServiceUnavailable

from greenlane import deadline
from greenlane.errors import DeadlineExceeded, Overloaded, PlacementError
from greenlane.hosts import placed_views
from greenlane.placement import here
from greenlane.threads.unpatched import allocate_lock
from greenlane.wiring import placed_calls

__all__ = ["placed_view"]

_OVER: Final = object()


def placed_view(view: Callable[..., Any]) -> Callable[..., Any]:
    """Make a view of a synchronous function, also of one that yields its response's parts.

    Raises:
        PlacementError: it is async.
    """
    if inspect.iscoroutinefunction(view):
        raise PlacementError(
            "place a view", name="view", value=view, rule="a synchronous function",
            hint="move the CPU work in it to a function, and give that to greenlane.run",
        )  # fmt: skip

    def respond(*args: Any, **kwargs: Any) -> Response:
        return current_app.make_response(view(*args, **kwargs))

    # Called what the view is called: that is what they are learned as.
    @functools.wraps(view)
    def whole(context: contextvars.Context, args: Any, kwargs: Any) -> Response:
        made: Response = _in(context, respond, *args, **kwargs)
        return made

    @functools.wraps(view)
    def part(streamed: _Streamed) -> Any:
        return streamed.made()

    part.__qualname__ += " (streamed)"

    @functools.wraps(view)
    def placed(*args: Any, **kwargs: Any) -> Any:
        if not _in_greenlet():
            return view(*args, **kwargs)
        request.get_data()  # Its socket belongs to this hub.
        due_ns = placed_views.due_ns(request.path, request.headers.get)
        context = contextvars.copy_context()
        try:
            response: Response = _run(whole, due_ns, context, args, kwargs)
        except DeadlineExceeded as error:
            raise GatewayTimeout(placed_views.LATE) from error
        except Overloaded as error:
            raise ServiceUnavailable(placed_views.REFUSED, retry_after=placed_views.retry_after_s()) from error
        if response.is_streamed and not response.direct_passthrough:
            streamed = _Streamed(response.response, context)
            response.response = _Body(streamed, lambda: _run(part, due_ns, streamed))
        return response

    return placed


class _Streamed:
    """The parts of a response, made one by one in one context, on whatever thread."""

    def __init__(self, parts: Any, context: contextvars.Context) -> None:
        self._parts = parts
        self._iterator = iter(parts)
        self._context = context
        self._lock = allocate_lock()
        # Whether a part is being made, and whether its caller has left.
        self._busy = self._left = False

    def made(self) -> Any:
        """Give the next part, or `_OVER`."""
        with self._lock:
            if self._left:
                return _OVER
            self._busy = True
        try:
            return _in(self._context, next, self._iterator, _OVER)
        finally:
            if self._end_of_part():
                self._close()

    def close(self) -> None:
        """Close the application's parts; while one is being made, its maker does so afterwards."""
        with self._lock:
            self._left = True
            busy = self._busy
        if not busy:
            self._close()

    def _end_of_part(self) -> bool:
        """Say that none is being made; True = nobody waits for another one."""
        with self._lock:
            self._busy = False
            return self._left

    def _close(self) -> None:
        close = getattr(self._parts, "close", None)
        if close is not None:
            self._context.run(close)


class _Body:
    """What the server iterates and closes."""

    def __init__(self, streamed: _Streamed, run: Callable[[], Any]) -> None:
        self._run = run
        self.close = streamed.close

    def __iter__(self) -> Iterator[Any]:
        return iter(self._run, _OVER)


def _in_greenlet() -> bool:
    """Whether what runs now would keep other greenlets from running, and may wait itself."""
    hub = here.hub()
    return hub is not None and not here.in_hub(hub)


def _run(fn: Callable[..., Any], due_ns: int, *args: Any) -> Any:
    with deadline.until(due_ns):
        return placed_calls.placement().run(fn, args, {})


def _in(context: contextvars.Context, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `fn` in a context with the caller of this one, for its checkpoints."""
    return context.run(_known, deadline.CURRENT.get(), deadline.surrounding_ns(), fn, args, kwargs)


def _known(call: Any, due_ns: int, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    deadline.enter(call, due_ns)
    try:
        return fn(*args, **kwargs)
    finally:
        deadline.enter(None, 0)
