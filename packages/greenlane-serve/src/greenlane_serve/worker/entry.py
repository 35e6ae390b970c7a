"""The application as uvicorn calls it: client address, bounds of the body, deadline and refusals, with one look at
the headers.

A request that brings a body or a deadline, or is recorded, goes through `bodies.Asgi` and the middleware's own entry.
"""

from __future__ import annotations

import time
from typing import Any, Final

from greenlane import deadline
from greenlane._native import Recorder
from greenlane.errors import Cancelled, DeadlineExceeded, Overloaded
from greenlane.hosts.asgi import Greenlane, _Client, _Response
from greenlane_serve.worker.bodies import Asgi, Bounds
from greenlane_serve.worker.clocks import Lateness, Tally
from greenlane_serve.worker.loop_clocks import LoopClocks, name_of

_recorder: Final = Recorder()
_NOTHING: Final = b"0"
_BODY: Final = frozenset({b"content-length", b"transfer-encoding"})
_FAILED: Final = 500
# An arrival that is older is none, as for all our hosts.
_OLDEST_NS: Final = 600_000_000_000


class Behind(Greenlane):
    """Behind the front, whose headers are believed. Cost: some 2 us a request.

    Args:
        app: the application; a Greenlane around it is taken off, since this is one.
        bounds: of bodies.
        tally: counts requests.
        lateness: gets the wake-ups while some are sampled.
    """

    def __init__(self, app: Any, bounds: Bounds, tally: Tally, lateness: Lateness) -> None:
        super().__init__(app.app if isinstance(app, Greenlane) else app, host="uvicorn", behind_front=True)
        settings = self._running.settings
        self._whole = Asgi(super().__call__, bounds)
        self._late_s = settings.retry_after_s
        # Nobody is asked for a deadline that no header and no lane gives.
        self._dues = {name.lower().encode() for name in settings.deadline_headers}
        self._lanes_due = any(lane.deadline_ms for lane in settings.lanes)
        # Headers without which a request is plain, if nobody records.
        self._telling = _BODY | self._dues
        self._tally = tally
        #: Of sampled requests.
        self.clocks = LoopClocks(self._run, tally, lateness)
        # Since a request with a deadline has come it is noted what the others take and how long they wait.
        self._judges = self._lanes_due

    def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Run one request; to be awaited."""
        if scope["type"] == "lifespan":
            return self.app(scope, receive, send)
        told = dict(scope["headers"])
        if address := told.get(b"x-forwarded-for"):
            scope["client"] = (address.decode("latin-1"), 0)
        if told.get(b"x-forwarded-proto") == b"https":
            scope["scheme"] = "https" if scope["type"] == "http" else "wss"
        if scope["type"] != "http":
            return self._whole(scope, receive, send)
        if self._tally.picks():
            return self.clocks(scope, receive, send)
        if self._judges or not self._telling.isdisjoint(told) or _recorder.recording():
            return self._counted(scope, receive, send)
        return self._answer(scope, receive, send, self._tally)

    def _is_plain(self, told: dict[bytes, bytes]) -> bool:
        """Whether it has no body and no deadline, and is not recorded."""
        return not (
            self._lanes_due
            or told.get(b"content-length", _NOTHING) != _NOTHING
            or b"transfer-encoding" in told
            or not self._dues.isdisjoint(told)
            or _recorder.recording()
        )

    async def _answer(self, scope: Any, receive: Any, send: Any, tally: Tally | None = None) -> Any:
        """Run a plain request; `tally` counts it."""
        reply = _Reply(send, self._late_s)
        deadline.CURRENT.set(reply)
        try:
            return await self.app(scope, receive, reply.send)
        except (DeadlineExceeded, Overloaded) as error:
            if not await reply.become(error):
                raise
        except Cancelled:
            return None  # the client has left: there is nobody to answer
        finally:
            if tally is not None:
                tally.passed(name_of(scope))

    async def _counted(self, scope: Any, receive: Any, send: Any) -> Any:
        try:
            return await self._run(scope, receive, send)
        finally:
            self._tally.passed(name_of(scope))

    async def _run(self, scope: Any, receive: Any, send: Any) -> Any:
        """Run any request, counted elsewhere."""
        told = dict(scope["headers"])
        if not self._is_plain(told):
            self._judges = self._judges or not self._dues.isdisjoint(told)
            return await self._whole(scope, receive, send)
        if not self._judges:
            return await self._answer(scope, receive, send)
        assert self._shedding is not None
        lane = told.get(b"x-greenlane-lane", b"").decode("latin-1")
        now_ns = time.monotonic_ns()
        # It has no deadline, so it is not refused. That it has waited is noted, for those that have one.
        self._shedding.refuses(lane, _arrival_ns(told.get(b"x-request-start", b""), now_ns), 0, now_ns)
        try:
            return await self._answer(scope, receive, send)
        finally:
            self._shedding.served(lane, time.monotonic_ns() - now_ns, 0)


class _Reply(_Response):
    """Response and client in one, without a coroutine of its own for each message."""

    __slots__ = ("_cycle",)

    def __init__(self, send: Any, retry_after_s: int) -> None:
        self._send = send
        self._cycle = getattr(send, "__self__", None)
        self._retry_after_s = retry_after_s
        self._begun = self._became = False

    check = _Client.check

    def send(self, message: Any) -> Any:
        """As any response's; to be awaited."""
        if self._became or (not self._begun and message.get("status") == _FAILED):
            return super().send(message)
        self._begun = True
        return self._send(message)


def _arrival_ns(told: bytes, now_ns: int) -> int:
    """When the front had it, monotonic, from `t=` and microseconds since 1970; now, if that makes no sense."""
    try:
        waited_ns = time.time_ns() - int(told[2:]) * 1000
    except ValueError:
        return now_ns
    return now_ns - waited_ns if 0 < waited_ns < _OLDEST_NS else now_ns
